//! A repository: objects put once, fetched checked.
//!
//! ```text
//!   file --identify--> Description --Packer--> Packed --push--> seal, put if new --+--> Stored
//!                                                                                  +--> there already: compare headers
//!                                                                                         same content   AlreadyThere
//!                                                                                         other content  OtherContent
//! ```
//! What is where if a process dies in between: an object is there as a whole or not at all, and a push that is repeated finds
//! it and returns quietly. Nothing is ever overwritten, so a repository may lie in a bucket with object lock.

mod gaps;
mod keys;
mod objects;
mod presence;

pub use keys::{KeyInForce, LeftRing, Rotated, Rotation};

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use seawall_codec::sealed_text::TextProblem;
use seawall_io::{Clock, Disk, Random};
use seawall_keys::RepositoryKey;
use seawall_types::TimelineId;

use crate::connect::connect;
use crate::envelope::{HEADER_BYTES, Header, Packed, UnpackError, Unpacker, open_header};
use crate::error::ArchiveError;
use crate::layout;
use crate::name::LogFileName;
use crate::options::RepositoryOptions;
use crate::repository_header::{RepositoryHeader, Seal, TEXT_BYTES_MAX};
use crate::segment::Description;
use crate::store::file::FileStorage;
use crate::store::listing::shown;
use crate::store::metered::{MeteredStorage, RequestCounts};
use crate::store::retry::retry;
use crate::store::{ObjectEntry, ObjectStorage, Put, StoreCause, StoreError};
use crate::system::System;
use crate::url::RepositoryUrl;

/// An object that was damaged on its way is good when it is fetched again; one that is damaged where it lies is not.
const FETCHES_OF_DAMAGED: u32 = 2;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was put.
    Stored,
    /// It was there already, with the same content.
    AlreadyThere,
}

/// Takes content as it is fetched. It is whole only when the fetch has returned `Ok`.
pub trait ContentSink {
    /// The next bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// All bytes so far are void: the fetch starts again.
    fn restart(&mut self) -> io::Result<()>;
}

impl ContentSink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.clear();
        Ok(())
    }
}

/// Requests since the repository was opened, and those that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestStatistics {
    /// All of them.
    pub requests: RequestCounts,
    /// Failures that were followed by another attempt.
    pub retries: u64,
    /// Failures by cause, those that were followed by another attempt too.
    pub failures: BTreeMap<StoreCause, u64>,
    /// The last failure.
    pub last_failure: Option<String>,
}

/// An open repository. To be shared by any number of threads; each call waits for its own requests.
pub struct Repository {
    pub(crate) storage: Arc<dyn ObjectStorage>,
    /// The same, which counts.
    meter: Arc<MeteredStorage>,
    header: RepositoryHeader,
    /// Newest first; empty if the repository is not encrypted. Read again when an object has a key that is not among them.
    keys: RwLock<Arc<Vec<RepositoryKey>>>,
    /// When the header was last found to be the one that the repository was opened with.
    confirmed: Mutex<Duration>,
    /// When its keys were last compared with those of the newest ring.
    keys_compared: Mutex<Duration>,
    url: String,
    options: RepositoryOptions,
    statistics: Mutex<RequestStatistics>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Repository").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Repository {
    /// Makes a repository at a place that has none, encrypted if the options have a master key. A directory is made if it is
    /// missing, a bucket is not.
    ///
    /// # Errors
    /// `RepositoryExists`, `Overwrites`, `Settings`, `MasterKey` or `Store`.
    pub fn create(url: &RepositoryUrl, options: RepositoryOptions) -> Result<Repository, ArchiveError> {
        if let crate::url::Place::Directory(path) = &url.place {
            make_root(&seawall_io::OsDisk::new(path))?;
        }
        let storage = connect(url, &options)?;
        Repository::create_in(storage, url.location(), options)
    }

    /// Opens the repository at `url`.
    ///
    /// # Errors
    /// `NoRepository`, `RepositoryVersion`, `NeedsMasterKey`, `NotEncrypted`, `WrongMasterKey`, `Damaged`, `Settings`,
    /// `MasterKey`, `Key` or `Store`.
    pub fn open(url: &RepositoryUrl, options: RepositoryOptions) -> Result<Repository, ArchiveError> {
        let storage = connect(url, &options)?;
        Repository::open_in(storage, url.location(), options)
    }

    /// As `create`, in the directory of a disk.
    ///
    /// # Errors
    /// As `create`.
    pub fn create_on(disk: Arc<dyn Disk>, options: RepositoryOptions) -> Result<Repository, ArchiveError> {
        make_root(&*disk)?;
        let url = disk.location("");
        Repository::create_in(file_storage(disk, &options), url, options)
    }

    /// As `open`, in the directory of a disk.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_on(disk: Arc<dyn Disk>, options: RepositoryOptions) -> Result<Repository, ArchiveError> {
        let url = disk.location("");
        Repository::open_in(file_storage(disk, &options), url, options)
    }

    fn with_header(
        storage: Arc<dyn ObjectStorage>,
        header: RepositoryHeader,
        url: String,
        options: RepositoryOptions,
    ) -> Repository {
        let now = options.clock.monotonic();
        let (confirmed, keys_compared) = (Mutex::new(now), Mutex::new(now));
        let (keys, statistics) = (RwLock::default(), Mutex::default());
        let meter = Arc::new(MeteredStorage::new(storage));
        let storage = Arc::clone(&meter) as Arc<dyn ObjectStorage>;
        Repository { storage, meter, header, keys, confirmed, keys_compared, url, options, statistics }
    }

    fn create_in(
        storage: Arc<dyn ObjectStorage>,
        url: String,
        options: RepositoryOptions,
    ) -> Result<Repository, ArchiveError> {
        let mut id = [0; 16];
        options.random.fill(&mut id);
        let is_encrypted = options.master_key.is_some();
        let created_micros = options.clock.wall_micros();
        let header = RepositoryHeader { id, created_micros, is_encrypted };
        let repository = Repository::with_header(storage, header, url, options);
        if repository.find_header()?.is_some() {
            return Err(ArchiveError::RepositoryExists { url: repository.url });
        }
        repository.check_fenced()?;
        // The key first: a repository that says that it is encrypted has one.
        if is_encrypted {
            *repository.keys.write() = Arc::new(repository.make_first_ring()?);
        }
        let text = Bytes::from(repository.header.encode(repository.keys().first()));
        let put = repository
            .request(|storage| storage.put_new(layout::REPOSITORY_HEADER, std::slice::from_ref(&text)));
        match put? {
            Put::Stored => Ok(repository),
            // A put that is tried again may find what it has put itself.
            Put::Exists if repository.find_header()?.is_some_and(|(found, _)| found == repository.header) => {
                Ok(repository)
            }
            Put::Exists => Err(ArchiveError::RepositoryExists { url: repository.url }),
        }
    }

    fn open_in(
        storage: Arc<dyn ObjectStorage>,
        url: String,
        options: RepositoryOptions,
    ) -> Result<Repository, ArchiveError> {
        let unknown = RepositoryHeader { id: [0; 16], created_micros: 0, is_encrypted: false };
        let mut repository = Repository::with_header(storage, unknown, url, options);
        let found = repository.find_header()?;
        let no_repository = || ArchiveError::NoRepository { url: repository.url.clone() };
        let (header, seal) = found.ok_or_else(no_repository)?;
        repository.header = header;
        repository.reread_keys()?;
        if let Some(seal) = seal {
            repository.check_seal(&seal)?;
        }
        Ok(repository)
    }

    fn check_seal(&self, seal: &Seal) -> Result<(), ArchiveError> {
        seal.check(&self.header, &self.keys()).map_err(|_| ArchiveError::Damaged {
            object: self.storage.location(layout::REPOSITORY_HEADER),
            problem: format!("it is not what the repository key {} has sealed: it was changed", seal.key),
        })
    }

    fn find_header(&self) -> Result<Option<(RepositoryHeader, Option<Seal>)>, ArchiveError> {
        let bytes = match self.read_small(layout::REPOSITORY_HEADER, TEXT_BYTES_MAX) {
            Err(error) if error.cause == StoreCause::NotFound => return Ok(None),
            other => other?,
        };
        RepositoryHeader::decode(&bytes).map(Some).map_err(|error| match error {
            TextProblem::Version(version) => {
                ArchiveError::RepositoryVersion { url: self.url.clone(), version }
            }
            problem => ArchiveError::Damaged {
                object: self.storage.location(layout::REPOSITORY_HEADER),
                problem: problem.to_string(),
            },
        })
    }

    /// Where it is, without options.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it says of itself.
    pub fn header(&self) -> &RepositoryHeader {
        &self.header
    }

    /// Requests since it was opened, and those that failed.
    pub fn statistics(&self) -> RequestStatistics {
        RequestStatistics { requests: self.meter.counts(), ..self.statistics.lock().clone() }
    }

    pub(crate) fn random(&self) -> &Arc<dyn Random> {
        &self.options.random
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.options.clock
    }

    // ---- put ---------------------------------------------------------------------------------------------------

    /// Puts an object, if it is not there. When this returns, it is durable.
    ///
    /// # Errors
    /// `OtherContent` if there is one with this name and other content, `SealedBefore` if what is there has a key that is not this
    /// repository's, `Damaged` if it cannot be read, or `Store`.
    pub fn push(&self, packed: &Packed) -> Result<Pushed, ArchiveError> {
        let header = packed.header();
        let name = LogFileName::parse(&header.name).expect("an object was described by its parsed name");
        self.put(&layout::path(header.system, name), packed)
    }

    /// Removes a file of the log; one that is not there is fine. For who has just put the file and must not leave it: what others may
    /// count on is removed with [`Repository::remove_stored`], and put on record before.
    ///
    /// # Errors
    /// `Store`.
    pub fn remove(&self, system: System, name: LogFileName) -> Result<(), ArchiveError> {
        Ok(self.request(|storage| storage.remove(&layout::path(system, name)))?)
    }

    pub(crate) fn put(&self, path: &str, packed: &Packed) -> Result<Pushed, ArchiveError> {
        self.confirm_before_put()?;
        let header = packed.header();
        let pieces = packed.seal(self.keys().first()).pieces();
        let is_there = || match self.compare(path, header) {
            Err(ArchiveError::Store(error)) => Err(error),
            result => Ok(result.map(|()| Pushed::AlreadyThere)),
        };
        let mut answer_was_lost = false;
        self.retry(|| {
            // It may have been put all the same. To look costs little; and a store that has it may refuse a second upload in the middle
            // and close, so that its answer is lost again, and again.
            if answer_was_lost {
                match is_there()? {
                    Err(ArchiveError::NotFound { .. }) => {}
                    result => return Ok(result),
                }
            }
            let put = self.storage.put_new(path, &pieces);
            let is_lost = put.as_ref().is_err_and(|error| error.cause == StoreCause::Interrupted);
            answer_was_lost = is_lost && self.storage.reads_only_durable();
            match put? {
                Put::Stored => Ok(Ok(Pushed::Stored)),
                Put::Exists => match is_there()? {
                    // Somebody else's put of it was under way, and came to nothing.
                    Err(ArchiveError::NotFound { object }) => Err(vanished(object)),
                    result => Ok(result),
                },
            }
        })?
    }

    /// Whether the object at `path` has the content that `given` describes.
    fn compare(&self, path: &str, given: &Header) -> Result<(), ArchiveError> {
        let object = || self.storage.location(path);
        let (found, checksum) = self.open_header_at(path).map_err(|failure| match failure {
            Failure::Unpack(UnpackError::Key(key)) => {
                ArchiveError::SealedBefore { object: object(), key: key.to_string() }
            }
            failure => self.as_error(path, failure),
        })?;
        check_identity(&found, given.system, &given.name, object)?;
        if (found.plain_bytes, checksum) == (given.plain_bytes, given.plain_checksum) {
            return Ok(());
        }
        let describe = |bytes, checksum| format!("{bytes} bytes, CRC-64 {checksum:016x}");
        Err(ArchiveError::OtherContent {
            object: object(),
            found: describe(found.plain_bytes, checksum),
            given: describe(given.plain_bytes, given.plain_checksum),
        })
    }

    // ---- get ---------------------------------------------------------------------------------------------------

    /// Fetches a file into `sink`. Every byte was checked before `sink` sees it; the whole is good when this returns `Ok`, and
    /// not before.
    ///
    /// # Errors
    /// `NotFound`, `Damaged`, `OtherObject`, `Output`, `RepositoryGone`, `OtherRepository` or `Store`. `NotFound` means that
    /// the repository is there and has no such file.
    pub fn fetch(
        &self,
        system: System,
        name: LogFileName,
        sink: &mut dyn ContentSink,
    ) -> Result<Header, ArchiveError> {
        self.fetch_path(&layout::path(system, name), system, &name.to_string(), sink)
    }

    pub(crate) fn fetch_path(
        &self,
        path: &str,
        system: System,
        name: &str,
        sink: &mut dyn ContentSink,
    ) -> Result<Header, ArchiveError> {
        let mut fetches = 0;
        loop {
            fetches += 1;
            let fetched = self.confirm_absence(|| {
                let fetched = self.request_of(path, || {
                    self.with_keys(|keys| {
                        sink.restart().map_err(Failure::Sink)?;
                        self.fetch_once(path, system, name, keys, sink)
                    })
                });
                fetched.and_then(|fetched| fetched)
            });
            match fetched {
                Err(ArchiveError::Damaged { object, problem }) if fetches < FETCHES_OF_DAMAGED => {
                    tracing::warn!(%object, %problem, "an object came damaged: it is fetched again");
                }
                other => return other,
            }
        }
    }

    fn fetch_once(
        &self,
        path: &str,
        system: System,
        name: &str,
        keys: &[RepositoryKey],
        sink: &mut dyn ContentSink,
    ) -> Result<Header, Failure> {
        let mut reader = self.storage.open(path, None)?;
        let mut unpacker = Unpacker::new(keys);
        let mut is_identified = false;
        while let Some(bytes) = reader.next()? {
            if !is_identified && let Some(header) = unpacker.header() {
                self.identify(path, header, system, name)?;
                is_identified = true;
            }
            unpacker.take(&bytes, &mut |content| sink.write(content).map_err(Failure::Sink))?;
        }
        let header = unpacker.finish()?;
        self.identify(path, &header, system, name)?;
        Ok(header)
    }

    fn identify(&self, path: &str, header: &Header, system: System, name: &str) -> Result<(), Failure> {
        let checked = check_identity(header, system, name, || self.storage.location(path));
        checked.map_err(Failure::Other)
    }

    /// What is known of a file without its content; `None` if it is not there.
    ///
    /// # Errors
    /// `Damaged`, `OtherObject`, `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn stat(&self, system: System, name: LogFileName) -> Result<Option<Header>, ArchiveError> {
        Ok(self.look_up(system, name)?.map(|(header, _)| header))
    }

    /// As `stat`, with the checksum of the content, which the header of an encrypted object hides.
    fn look_up(&self, system: System, name: LogFileName) -> Result<Option<(Header, u64)>, ArchiveError> {
        let path = layout::path(system, name);
        let (header, checksum) = match self.read_header(&path) {
            Err(ArchiveError::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        check_identity(&header, system, &name.to_string(), || self.storage.location(&path))?;
        Ok(Some((header, checksum)))
    }

    /// The header at a path, whatever it says, and the checksum of the content.
    pub(crate) fn read_header(&self, path: &str) -> Result<(Header, u64), ArchiveError> {
        self.confirm_absence(|| {
            self.retry(|| match self.read_header_once(path) {
                Err(ArchiveError::Store(error)) => Err(error),
                other => Ok(other),
            })?
        })
    }

    fn read_header_once(&self, path: &str) -> Result<(Header, u64), ArchiveError> {
        self.open_header_at(path).map_err(|failure| self.as_error(path, failure))
    }

    fn open_header_at(&self, path: &str) -> Result<(Header, u64), Failure> {
        let bytes = read_range(&*self.storage, path, HEADER_BYTES as u64)?;
        self.with_keys(|keys| {
            let header = Header::decode(&bytes).map_err(UnpackError::from)?;
            let (_, checksum) = open_header(&header, keys)?;
            Ok((header, checksum))
        })
    }

    // ---- list --------------------------------------------------------------------------------------------------

    /// Whose logs it holds.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn systems(&self) -> Result<Vec<System>, ArchiveError> {
        self.directories("", |name| name.parse().ok())
    }

    /// The timelines of a system that there are segments of.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn timelines(&self, system: System) -> Result<Vec<TimelineId>, ArchiveError> {
        let timeline = |name: String| TimelineId::new(u32::from_str_radix(&name, 16).ok()?);
        self.directories(&layout::log(system), timeline)
    }

    /// All files of a system, or of one timeline of it, in order of name within each timeline.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn list(
        &self,
        system: System,
        timeline: Option<TimelineId>,
    ) -> Result<Vec<(LogFileName, u64)>, ArchiveError> {
        let prefix = match timeline {
            Some(timeline) => layout::timeline(system, timeline),
            None => format!("{system}/"),
        };
        self.entries(&prefix, |entry| Some((layout::parse(&entry.path)?.1, entry.bytes)))
    }

    /// Of the objects below a prefix, those that `take` takes. Before it is said that there are none, the repository is known to be
    /// there.
    pub(crate) fn entries<T>(
        &self,
        prefix: &str,
        take: impl Fn(ObjectEntry) -> Option<T>,
    ) -> Result<Vec<T>, ArchiveError> {
        self.confirm_none(|| {
            let entries = self.request(|storage| storage.list(prefix))?;
            Ok(entries.into_iter().filter_map(&take).collect())
        })
    }

    /// As `entries`, of the names of directories.
    pub(crate) fn directories<T>(
        &self,
        prefix: &str,
        take: impl Fn(String) -> Option<T>,
    ) -> Result<Vec<T>, ArchiveError> {
        self.confirm_none(|| {
            let names = self.request(|storage| storage.list_directories(prefix))?;
            Ok(names.into_iter().filter_map(&take).collect())
        })
    }

    // ---- requests ----------------------------------------------------------------------------------------------

    /// Runs a request with retries.
    pub(crate) fn request<T>(
        &self,
        run: impl Fn(&dyn ObjectStorage) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.retry(|| run(&*self.storage))
    }

    fn retry<T>(&self, attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let options = &self.options;
        let note = |error: &StoreError| {
            let mut statistics = self.statistics.lock();
            *statistics.failures.entry(error.cause).or_default() += 1;
            statistics.last_failure = Some(error.to_string());
        };
        let retried = |error: &StoreError| {
            note(error);
            self.statistics.lock().retries += 1;
            tracing::info!(%error, "a request to the repository is tried again");
        };
        let result = retry(&options.retry, &*options.clock, &*options.random, &retried, attempt);
        // What is not there is an answer.
        result.inspect_err(|error| {
            if error.cause != StoreCause::NotFound {
                note(error);
            }
        })
    }

    /// Runs an attempt with retries of what fails in passing; other failures come back as errors.
    fn request_of<T>(
        &self,
        path: &str,
        mut attempt: impl FnMut() -> Result<T, Failure>,
    ) -> Result<Result<T, ArchiveError>, ArchiveError> {
        let result = self.retry(|| match attempt() {
            Ok(value) => Ok(Ok(value)),
            Err(Failure::Store(error)) => Err(error),
            Err(failure) => Ok(Err(self.as_error(path, failure))),
        });
        result.map_err(not_found)
    }

    fn as_error(&self, path: &str, failure: Failure) -> ArchiveError {
        match failure {
            Failure::Store(error) => not_found(error),
            Failure::Unpack(error) => ArchiveError::damaged(self.storage.location(path), &error),
            Failure::Sink(error) => ArchiveError::Output(error),
            Failure::Other(error) => error,
        }
    }

    // ---- keys --------------------------------------------------------------------------------------------------

    fn keys(&self) -> Arc<Vec<RepositoryKey>> {
        Arc::clone(&self.keys.read())
    }

    /// Runs `read` with the keys, and once more if it has met one that is not among them: another process may have renewed
    /// the repository key meanwhile.
    fn with_keys<T>(
        &self,
        mut read: impl FnMut(&[RepositoryKey]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match read(&self.keys()) {
            Err(Failure::Unpack(UnpackError::Key(_))) => {}
            other => return other,
        }
        self.reread_keys().map_err(Failure::Other)?;
        read(&self.keys())
    }

    fn reread_keys(&self) -> Result<(), ArchiveError> {
        let keys = Arc::new(self.read_keys()?);
        *self.keys.write() = keys;
        Ok(())
    }

    /// All of a short object.
    pub(crate) fn read_small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        self.request(|storage| read_range(storage, path, bytes_max))
    }
}

/// Why one attempt to fetch failed.
enum Failure {
    Store(StoreError),
    Unpack(UnpackError),
    Sink(io::Error),
    Other(ArchiveError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl From<UnpackError> for Failure {
    fn from(error: UnpackError) -> Failure {
        Failure::Unpack(error)
    }
}

/// The first bytes of an object, at most `bytes_max`.
pub(crate) fn read_range(
    storage: &dyn ObjectStorage,
    path: &str,
    bytes_max: u64,
) -> Result<Vec<u8>, StoreError> {
    let mut reader = storage.open(path, Some(0..bytes_max))?;
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    // A store may give more than was asked for, and never come to an end.
    while bytes.len() < limit
        && let Some(piece) = reader.next()?
    {
        let taken = piece.len().min(limit - bytes.len());
        bytes.extend_from_slice(&piece[..taken]);
    }
    Ok(bytes)
}

/// An object that is not where its header says it belongs, by a rename or copy outside of this program.
pub(crate) fn check_identity(
    header: &Header,
    system: System,
    name: &str,
    object: impl FnOnce() -> String,
) -> Result<(), ArchiveError> {
    if header.system == system && header.name == name {
        return Ok(());
    }
    Err(ArchiveError::OtherObject {
        object: object(),
        found: format!("{} of {}", shown(&header.name), header.system),
    })
}

fn not_found(error: StoreError) -> ArchiveError {
    match error.cause {
        StoreCause::NotFound => ArchiveError::NotFound { object: error.object },
        _ => ArchiveError::Store(error),
    }
}

/// The store said that there is an object, and then that there is none.
fn vanished(object: String) -> StoreError {
    StoreError {
        operation: "put",
        object,
        cause: StoreCause::Busy,
        message: "another put of it was under way and did not end well".to_owned(),
        attempts: 1,
    }
}

fn file_storage(disk: Arc<dyn Disk>, options: &RepositoryOptions) -> Arc<dyn ObjectStorage> {
    Arc::new(FileStorage::new(disk, Arc::clone(&options.random), Arc::clone(&options.clock)))
}

fn make_root(disk: &dyn Disk) -> Result<(), ArchiveError> {
    let advice = |error: &io::Error| match error.kind() {
        // It may be there, and one above it closed.
        io::ErrorKind::PermissionDenied => format!(
            "; is a directory above it closed to this user? As an administrator: install -d -o USER -m 700 {}",
            disk.location("")
        ),
        _ => String::new(),
    };
    disk.create_directory("").map_err(|error| ArchiveError::Settings {
        url: disk.location(""),
        problem: format!("{error}{}", advice(&error)),
    })
}

impl Description {
    /// The header of the object that will hold the file: all but what is about its bytes, which `Packer::pack` fills in.
    pub fn header(&self, created_micros: i64) -> Header {
        Header {
            log_version: self.log_version,
            timeline: Some(self.name.timeline()),
            segment_bytes: self.segment_bytes,
            start: self.start,
            end: self.end,
            ends_early: self.ends_early,
            created_micros,
            ..Header::unpacked(self.name.kind(), self.system, self.name.to_string())
        }
    }
}
