//! Objects as files below a directory of another machine, over SFTP.
//!
//! A put, and what is there if the power of the server goes, or the connection:
//!
//! 0. a look whether the repository is there at all;
//! 1. the directories that the object's name needs, each made durable by a sync of its parent;
//! 2. a file `.new-<time>-<random>` beside the object's place, written and synced (`fsync@openssh.com`). A broken connection leaves it, and
//!    nobody looks at it: no object's name begins with a dot. `remove_leftovers` removes it when it is old;
//! 3. a second name for the file, the object's (`hardlink@openssh.com`): whoever comes second is told so. The protocol's own rename does
//!    not promise that, and some servers replace. Then the first name is removed;
//! 4. a sync of the directory, opened as a file. Only now the put returns. A crash before it leaves the whole object or none.
//!
//! An object that is there already may have been put by a process that died between 3 and 4: so the directory is synced before anybody is
//! told that it is there. For the same reason an object that can be read is not known to be durable: a put whose answer was lost is
//! repeated.
//!
//! A server that lacks an extension, or cannot sync a directory, is refused before anything is put; one that cannot sync is taken if the
//! URL says `unsynced=true`.
//!
//! ```text
//!   any thread --run--> a permit --> an idle connection, or a new one --request--> back among the idle ones
//!                                                                     --broken, or out of time--> dropped: its program is killed
//! ```
//! A server works at one request of a connection at a time, and a sync takes long: so there are several connections. None is held
//! between two requests of the store, so nobody waits for a second one while holding a first.

mod connection;
mod directories;
mod problem;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use seawall_io::{Clock, Random};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::listing::{Listing, shown};
use super::new_file::{name_of_new, parent_of};
use super::remote::limit_of;
use super::{ObjectEntry, ObjectReader, ObjectStorage, Put, StoreCause, StoreError};
use crate::layout;
use crate::url::SftpPlace;
use connection::{Connection, is_directory};
use problem::Problem;

/// What is read with one request of the store.
const PIECE_BYTES: u64 = 4 << 20;

/// A directory of another machine.
pub(crate) struct SftpStorage {
    place: SftpPlace,
    /// For messages.
    url: String,
    random: Arc<dyn Random>,
    clock: Arc<dyn Clock>,
    /// Directories whose names are durable.
    known: Mutex<BTreeSet<String>>,
    /// A directory could not be synced, though the server can do that: what is durable is unknown.
    is_doubtful: AtomicBool,
    /// For requests at the same time.
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
    /// Last: what it runs is above.
    runtime: Runtime,
}

impl fmt::Debug for SftpStorage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SftpStorage").field("url", &self.url).finish_non_exhaustive()
    }
}

impl SftpStorage {
    /// Nothing is asked of the server yet.
    pub(crate) fn new(
        place: SftpPlace,
        url: String,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<SftpStorage> {
        // One thread moves the bytes: the programs encrypt them.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("archive-sftp")
            .enable_all()
            .build()?;
        Ok(SftpStorage {
            permits: Semaphore::new(place.connections),
            place,
            url,
            random,
            clock,
            known: Mutex::default(),
            is_doubtful: AtomicBool::new(false),
            idle: Mutex::default(),
            runtime,
        })
    }

    /// Runs a request on a connection, for at most `limit`. What is not done then is given up with its connection.
    fn run<T>(
        &self,
        operation: &'static str,
        path: &str,
        limit: Duration,
        request: impl AsyncFnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, StoreError> {
        let run = async {
            let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
            let mut connection = match self.take_idle() {
                Some(connection) => connection,
                None => Connection::open(&self.place).await?,
            };
            match connection.run(request).await {
                Err(problem @ Problem::Broken(..)) => Err(connection.explain(problem, true).await),
                result => {
                    self.idle.lock().push(connection);
                    result
                }
            }
        };
        let timed = self.runtime.block_on(async { tokio::time::timeout(limit, run).await });
        let (cause, message) = match timed {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(Problem::Answer(cause, message) | Problem::Broken(cause, message))) => (cause, message),
            Err(_) => (StoreCause::TimedOut, format!("no answer within {} s", limit.as_secs())),
        };
        Err(StoreError { operation, object: self.location(path), cause, message, attempts: 1 })
    }

    /// A connection that nobody uses, and that is not known to be broken.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            // Not under the latch: the program of one that is broken is waited for where it is dropped.
            let mut connection = self.idle.lock().pop()?;
            if connection.is_alive() {
                return Some(connection);
            }
        }
    }

    /// The path on the server.
    fn full(&self, path: &str) -> String {
        match path.trim_end_matches('/') {
            "" => self.place.path.clone(),
            path => format!("{}/{path}", self.place.path),
        }
    }

    async fn exists(&self, connection: &Connection, path: &str) -> Result<bool, Problem> {
        Ok(connection.attributes(&self.full(path)).await?.is_some())
    }

    async fn put(&self, connection: &Connection, path: &str, pieces: &[Bytes]) -> Result<Put, Problem> {
        self.check_abilities(connection)?;
        let comes_first = is_put_first(path);
        if !comes_first && !self.exists(connection, layout::REPOSITORY_HEADER).await? {
            // It may come back with other directories than it had.
            self.known.lock().clear();
            let problem =
                format!("{} is gone: is the file system of the server mounted?", layout::REPOSITORY_HEADER);
            return Err(Problem::Answer(StoreCause::NotFound, problem));
        }
        let directory = parent_of(path);
        self.make_directory(connection, directory, comes_first).await?;
        if self.exists(connection, path).await? {
            self.sync_directory(connection, directory).await?;
            return Ok(Put::Exists);
        }
        let new = name_of_new(directory, &*self.random, &*self.clock);
        let placed = match connection.write_new(&self.full(&new), pieces).await {
            Ok(()) => self.place(connection, &new, path).await,
            Err(problem) => Err(self.explain_write(connection, problem, pieces).await),
        };
        // Left behind it costs space and nothing else.
        if !matches!(placed, Err(Problem::Broken(..)))
            && let Err(problem) = connection.remove(&self.full(&new)).await
        {
            tracing::debug!(?problem, "the file of an object is left behind");
        }
        let put = placed?;
        self.sync_directory(connection, directory).await?;
        Ok(put)
    }

    /// Gives a file that is written the name of its object, unless that is taken.
    async fn place(&self, connection: &Connection, new: &str, path: &str) -> Result<Put, Problem> {
        match connection.link(&self.full(new), &self.full(path)).await {
            Ok(()) => Ok(Put::Stored),
            Err(problem) if problem.is_unspecific() => match self.exists(connection, path).await? {
                true => Ok(Put::Exists),
                false => Err(match problem {
                    Problem::Answer(cause, message) => Problem::Answer(
                        cause,
                        format!("{message}: can the file system of the server give a file a second name?"),
                    ),
                    broken => broken,
                }),
            },
            Err(problem) => Err(problem),
        }
    }

    /// The protocol has no code for a disk that is full.
    async fn explain_write(&self, connection: &Connection, problem: Problem, pieces: &[Bytes]) -> Problem {
        if !problem.is_unspecific() {
            return problem;
        }
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        match connection.free_bytes(&self.place.path).await {
            Some(free) if free < bytes => {
                Problem::Answer(StoreCause::Full, format!("{free} bytes are free on the server"))
            }
            _ => problem,
        }
    }

    /// Whether the server can do what a put needs.
    fn check_abilities(&self, connection: &Connection) -> Result<(), Problem> {
        if !connection.abilities.can_link {
            return Err(Problem::other(
                "the server lacks hardlink@openssh.com, without which an object could replace another one: use a server that has it, \
                 such as OpenSSH's",
            ));
        }
        if !connection.abilities.can_sync && !self.place.is_unsynced {
            return Err(Problem::other(
                "the server lacks fsync@openssh.com, without which what is put may be lost when its power goes: use a server that has \
                 it, such as OpenSSH's, or take that risk with the option unsynced=true",
            ));
        }
        Ok(())
    }

    /// Makes `directory` and those above it, durably. The root has to be there, unless a repository is being made.
    async fn make_directory(
        &self,
        connection: &Connection,
        directory: &str,
        makes_root: bool,
    ) -> Result<(), Problem> {
        let mut missing = Vec::new();
        let mut above = directory;
        while !above.is_empty() && !self.known.lock().contains(above) {
            missing.push(above);
            above = parent_of(above);
        }
        if makes_root && !self.known.lock().contains("") {
            connection.make_directory(&self.place.path).await?;
            self.sync(connection, parent_of_root(&self.place.path)).await?;
            self.known.lock().insert(String::new());
        }
        for directory in missing.into_iter().rev() {
            connection.make_directory(&self.full(directory)).await?;
            self.sync_directory(connection, parent_of(directory)).await?;
            self.known.lock().insert(directory.to_owned());
        }
        Ok(())
    }

    async fn sync_directory(&self, connection: &Connection, directory: &str) -> Result<(), Problem> {
        if self.is_doubtful.load(Ordering::SeqCst) {
            return Err(Problem::other(
                "an earlier sync of a directory failed, so what is durable is unknown: look at the server's disk, then start again",
            ));
        }
        let synced = self.sync(connection, &self.full(directory)).await;
        // Nothing was ever put into one that is not there.
        if let Err(problem @ Problem::Answer(..)) = &synced
            && !problem.is_absence()
        {
            self.is_doubtful.store(true, Ordering::SeqCst);
        }
        synced
    }

    async fn sync(&self, connection: &Connection, directory: &str) -> Result<(), Problem> {
        match connection.sync_directory(directory).await {
            Err(Problem::Answer(..)) if self.place.is_unsynced => Ok(()),
            Err(Problem::Answer(cause, message)) if cause != StoreCause::NotFound => {
                let problem = format!(
                    "{message} to a sync of the directory {directory}, without which what is put may be lost when its power goes: use a \
                     server that can do that, such as OpenSSH's on Linux, or take that risk with the option unsynced=true"
                );
                Err(Problem::Answer(cause, problem))
            }
            synced => synced,
        }
    }
}

impl ObjectStorage for SftpStorage {
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError> {
        let limit = limit_of(self.place.timeout, pieces.iter().map(|piece| piece.len() as u64).sum());
        self.run("put", path, limit, async |connection| self.put(connection, path, pieces).await)
    }

    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError> {
        let range = range.unwrap_or(0..u64::MAX);
        let mut reader = SftpReader { storage: self, path: path.to_owned(), range, first: None };
        // What is not there is told now.
        reader.first = reader.read()?;
        Ok(Box::new(reader))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        let (mut listing, mut has_found) = (Listing::new(prefix), false);
        match self.walk(prefix.trim_end_matches('/'), 0, &mut listing, &mut has_found) {
            // Nothing was ever put there. One that is gone in the middle of the walk was unmounted: that is an error.
            Err(error) if error.cause == StoreCause::NotFound && !has_found => Ok(Vec::new()),
            walked => walked.map(|()| listing.into_entries()),
        }
    }

    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let entries = absent_is_empty(self.entries(prefix.trim_end_matches('/')))?;
        let directories = entries.into_iter().filter(|entry| is_directory(&entry.attributes));
        let mut names: Vec<String> = directories.map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.run("remove", path, self.place.timeout, async |connection| {
            connection.remove(&self.full(path)).await?;
            // Who removed it before may have died before he has synced.
            match self.sync_directory(connection, parent_of(path)).await {
                Err(problem) if problem.is_absence() => Ok(()),
                synced => synced,
            }
        })
    }

    fn remove_many(&self, paths: &[String]) -> Vec<bool> {
        let full: Vec<String> = paths.iter().map(|path| self.full(path)).collect();
        // One sync for all names of a directory.
        let directories: BTreeSet<&str> = paths.iter().map(|path| parent_of(path)).collect();
        let limit = self.place.timeout + Duration::from_millis(20 * paths.len() as u64);
        let removed = self.run("remove", "", limit, async |connection| {
            let removed = connection.remove_many(&full).await;
            let mut doubtful = BTreeSet::new();
            for directory in &directories {
                match self.sync_directory(connection, directory).await {
                    Ok(()) => {}
                    Err(problem) if problem.is_absence() => {}
                    Err(broken @ Problem::Broken(..)) => return Err(broken),
                    Err(Problem::Answer(..)) => drop(doubtful.insert(*directory)),
                }
            }
            let is_gone = |(path, removed): (&String, Result<bool, Problem>)| {
                removed.is_ok() && !doubtful.contains(parent_of(path))
            };
            Ok(paths.iter().zip(removed).map(is_gone).collect())
        });
        removed.unwrap_or_else(|error| {
            tracing::debug!(%error, "objects were not removed together");
            vec![false; paths.len()]
        })
    }

    fn remove_leftovers(&self, before_micros: i64) -> Result<u64, StoreError> {
        self.remove_old("", 0, before_micros)
    }

    fn location(&self, path: &str) -> String {
        if path.is_empty() { self.url.clone() } else { format!("{}/{}", self.url, shown(path)) }
    }

    fn is_near(&self) -> bool {
        false
    }

    fn reads_only_durable(&self) -> bool {
        false
    }
}

/// Reads a file piece by piece, each with a request of its own: no connection is held while the last piece is worked at.
struct SftpReader<'a> {
    storage: &'a SftpStorage,
    path: String,
    range: Range<u64>,
    first: Option<Bytes>,
}

impl SftpReader<'_> {
    /// The next bytes; `None` at the end.
    fn read(&mut self) -> Result<Option<Bytes>, StoreError> {
        let end = self.range.end.min(self.range.start.saturating_add(PIECE_BYTES));
        let piece = self.range.start..end;
        let wanted = piece.end - piece.start;
        if wanted == 0 {
            return Ok(None);
        }
        let full = self.storage.full(&self.path);
        let limit = limit_of(self.storage.place.timeout, wanted);
        let bytes = self
            .storage
            .run("get", &self.path, limit, async |connection| connection.read(&full, piece).await)?;
        self.range.start += bytes.len() as u64;
        if (bytes.len() as u64) < wanted {
            self.range.end = self.range.start;
        }
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl ObjectReader for SftpReader<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        match self.first.take() {
            Some(bytes) => Ok(Some(bytes)),
            None => self.read(),
        }
    }
}

/// What is put while a repository is made.
fn is_put_first(path: &str) -> bool {
    path == layout::REPOSITORY_HEADER || path.starts_with(layout::KEYS) || path.starts_with(layout::CHECK)
}

/// The directory that the root of a repository lies in.
fn parent_of_root(path: &str) -> &str {
    match parent_of(path) {
        "" => "/",
        parent => parent,
    }
}

/// In an object store there are no directories: one that is missing holds nothing.
fn absent_is_empty<T: Default>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    match result {
        Err(error) if error.cause == StoreCause::NotFound => Ok(T::default()),
        other => other,
    }
}
