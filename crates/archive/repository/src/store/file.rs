//! Objects as files below a directory.
//!
//! A put, and what is there if the power goes:
//!
//! 0. a look whether the repository is there at all;
//! 1. the directories that the object's name needs, each made durable by a sync of its parent;
//! 2. a file `.new-<time>-<random>` beside the object's place, written and synced. A crash leaves it, and nobody looks at it: no
//!    object's name begins with a dot. `remove_leftovers` removes it when it is old;
//! 3. a rename that never replaces: whoever comes second is told so, also by another process or machine;
//! 4. a sync of the directory. Only now the put returns. A crash before it leaves the whole object or none.
//!
//! An object that is there already may have been put by a process that died between 3 and 4: so the directory is synced
//! before anybody is told that it is there.
//!
//! A sync of a directory that failed is not tried again: nothing is put until the repository is opened anew.

use std::collections::BTreeSet;
use std::io;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use seawall_io::{Clock, Disk, DiskFile, OpenMode, Random};

use crate::layout;

use super::listing::shown;
use super::new_file::{name_of_new, parent_of, time_of_new};
use super::{ObjectEntry, ObjectReader, ObjectStorage, Put, StoreCause, StoreError};

/// What is read at once: so little that its memory is used again for the next piece, and not asked of the system each time.
const READ_BYTES: u64 = 256 << 10;
/// Names that are tried for a file that is not an object yet. They are random.
const NAMES_MAX: u32 = 3;
/// Names that begin so are no objects.
const HIDDEN: char = '.';

/// A directory of a disk.
#[derive(Debug)]
pub(crate) struct FileStorage {
    disk: Arc<dyn Disk>,
    random: Arc<dyn Random>,
    clock: Arc<dyn Clock>,
    /// Directories whose names are durable.
    known: Mutex<BTreeSet<String>>,
    /// A directory could not be synced.
    is_doubtful: AtomicBool,
}

impl FileStorage {
    pub(crate) fn new(disk: Arc<dyn Disk>, random: Arc<dyn Random>, clock: Arc<dyn Clock>) -> FileStorage {
        FileStorage { disk, random, clock, known: Mutex::default(), is_doubtful: AtomicBool::new(false) }
    }

    fn error(&self, operation: &'static str, path: &str, error: &io::Error) -> StoreError {
        StoreError {
            operation,
            object: self.location(path),
            cause: cause_of(error),
            message: error.to_string(),
            attempts: 1,
        }
    }

    /// Makes `directory` and those above it, durably. The root has to be there.
    fn make_directory(&self, directory: &str) -> io::Result<()> {
        if directory.is_empty() || self.known.lock().contains(directory) {
            return Ok(());
        }
        let parent = parent_of(directory);
        self.make_directory(parent)?;
        self.disk.create_directory(directory)?;
        self.sync_directory(parent)?;
        self.known.lock().insert(directory.to_owned());
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        if self.is_doubtful.load(Ordering::SeqCst) {
            let problem = "an earlier sync of a directory failed, so what is durable is unknown: look at the disk, then start again";
            return Err(io::Error::other(problem));
        }
        let synced = self.disk.sync_directory(directory);
        // Nothing was ever put into one that is not there.
        let is_doubtful = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        if synced.as_ref().is_err_and(is_doubtful) {
            self.is_doubtful.store(true, Ordering::SeqCst);
        }
        synced
    }

    fn try_put(&self, path: &str, pieces: &[Bytes]) -> io::Result<Put> {
        let directory = parent_of(path);
        self.check_presence(path)?;
        self.make_directory(directory)?;
        if self.exists(path)? {
            self.sync_directory(directory)?;
            return Ok(Put::Exists);
        }
        let (new, written) = self.write_new(directory, pieces);
        let renamed = written.and_then(|()| self.disk.rename_new(&new, path));
        let put = match renamed {
            Ok(()) => Put::Stored,
            Err(error) => {
                // Left behind it costs space and nothing else.
                if let Err(error) = self.disk.remove(&new) {
                    tracing::debug!(%error, "the file of an object that was not put is left");
                }
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Put::Exists,
                    _ => return Err(error),
                }
            }
        };
        self.sync_directory(directory)?;
        Ok(put)
    }

    /// A file system that was unmounted leaves an empty directory behind: what was put there would be missing in the archive.
    fn check_presence(&self, path: &str) -> io::Result<()> {
        // What is put while a repository is made.
        let comes_first = path == layout::REPOSITORY_HEADER
            || path.starts_with(layout::KEYS)
            || path.starts_with(layout::CHECK);
        if comes_first || self.exists(layout::REPOSITORY_HEADER)? {
            return Ok(());
        }
        // It may come back with other directories than it had.
        self.known.lock().clear();
        let problem = format!("{} is gone: is the file system mounted?", layout::REPOSITORY_HEADER);
        Err(io::Error::new(io::ErrorKind::NotFound, problem))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        match self.disk.open(path, OpenMode::Read) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file with a name of its own. One that is there, left by a crash, says nothing of the object: it gets another name.
    fn write_new(&self, directory: &str, pieces: &[Bytes]) -> (String, io::Result<()>) {
        let mut names = 0;
        loop {
            names += 1;
            let new = name_of_new(directory, &*self.random, &*self.clock);
            match self.write(&new, pieces) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && names < NAMES_MAX => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return (new, Err(io::Error::other(error)));
                }
                written => return (new, written),
            }
        }
    }

    fn write(&self, path: &str, pieces: &[Bytes]) -> io::Result<()> {
        let file = self.disk.open(path, OpenMode::Create)?;
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        file.write_vectored_at(&slices, 0)?;
        file.sync_data()
    }

    /// What others have removed meanwhile is fine, and what this user may not read or remove stays: it is not this repository's, or
    /// another user's to clean up.
    fn remove_old(&self, directory: &str, before_micros: i64) -> io::Result<u64> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut removed = 0;
        for name in passed_over(self.disk.list_names(directory))? {
            if time_of_new(&name).is_some_and(|micros| micros < before_micros) {
                let path = format!("{prefix}{name}");
                removed += passed_over(self.disk.remove(&path).map(|()| 1))?;
            }
        }
        for name in passed_over(self.disk.list_subdirectories(directory))? {
            if !name.starts_with(HIDDEN) {
                removed += self.remove_old(&format!("{prefix}{name}"), before_micros)?;
            }
        }
        Ok(removed)
    }

    fn walk(&self, directory: &str, entries: &mut Vec<ObjectEntry>) -> io::Result<()> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let files = self.disk.list(directory)?.into_iter().filter(|file| !file.name.starts_with(HIDDEN));
        entries.extend(
            files.map(|file| ObjectEntry { path: format!("{prefix}{}", file.name), bytes: file.bytes }),
        );
        for name in self.disk.list_subdirectories(directory)? {
            if name.starts_with(HIDDEN) {
                continue;
            }
            match self.walk(&format!("{prefix}{name}"), entries) {
                Err(error) if is_denied(&error) && directory.is_empty() && !layout::is_own(&name) => {
                    let directory = self.location(&name);
                    tracing::info!(%directory, %error, "a directory that is not the repository's is passed over");
                }
                walked => walked?,
            }
        }
        Ok(())
    }
}

impl ObjectStorage for FileStorage {
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError> {
        self.try_put(path, pieces).map_err(|error| self.error("put", path, &error))
    }

    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError> {
        let opened = self.disk.open(path, OpenMode::Read).and_then(|file| Ok((file.length()?, file)));
        let (length, file) = opened.map_err(|error| self.error("get", path, &error))?;
        let range = range.unwrap_or(0..length);
        let range = range.start.min(length)..range.end.min(length);
        Ok(Box::new(FileReader { storage: self, path: path.to_owned(), file, range }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        let directory = prefix.trim_end_matches('/');
        let mut entries = Vec::new();
        let walked = self.walk(directory, &mut entries);
        // Nothing was ever put there. One that is gone in the middle of the walk was unmounted: that is an error.
        let walked = if entries.is_empty() { absent_is_empty(walked) } else { walked };
        walked.map_err(|error| self.error("list", prefix, &error))?;
        entries.sort();
        Ok(entries)
    }

    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut names = absent_is_empty(self.disk.list_subdirectories(prefix.trim_end_matches('/')))
            .map_err(|error| self.error("list", prefix, &error))?;
        names.retain(|name| !name.starts_with(HIDDEN));
        Ok(names)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        // Who removed it before may have died before he has synced.
        let removed = absent_is_empty(self.disk.remove(path));
        let removed = removed.and_then(|()| absent_is_empty(self.sync_directory(parent_of(path))));
        removed.map_err(|error| self.error("remove", path, &error))
    }

    fn remove_many(&self, paths: &[String]) -> Vec<bool> {
        let is_removed = |path: &String| match self.disk.remove(path) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let mut are_gone: Vec<bool> = paths.iter().map(is_removed).collect();
        // One sync for all names of a directory.
        let directories: BTreeSet<&str> = paths.iter().map(|path| parent_of(path)).collect();
        let is_doubtful = |directory: &&str| absent_is_empty(self.sync_directory(directory)).is_err();
        let doubtful: BTreeSet<&str> = directories.into_iter().filter(is_doubtful).collect();
        for (path, is_gone) in paths.iter().zip(&mut are_gone) {
            *is_gone &= !doubtful.contains(parent_of(path));
        }
        are_gone
    }

    fn remove_leftovers(&self, before_micros: i64) -> Result<u64, StoreError> {
        self.remove_old("", before_micros).map_err(|error| self.error("remove", "", &error))
    }

    fn location(&self, path: &str) -> String {
        self.disk.location(&shown(path))
    }

    fn is_near(&self) -> bool {
        true
    }

    fn reads_only_durable(&self) -> bool {
        false
    }
}

struct FileReader<'a> {
    storage: &'a FileStorage,
    path: String,
    file: Arc<dyn DiskFile>,
    range: Range<u64>,
}

impl ObjectReader for FileReader<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let bytes = (self.range.end - self.range.start).min(READ_BYTES);
        if bytes == 0 {
            return Ok(None);
        }
        let mut buffer = vec![0; usize::try_from(bytes).expect("a quarter of a mebibyte fits into memory")];
        let read = self.file.read_exact_at(&mut buffer, self.range.start);
        read.map_err(|error| self.storage.error("get", &self.path, &error))?;
        self.range.start += bytes;
        Ok(Some(buffer.into()))
    }
}

/// In an object store there are no directories: one that is missing holds nothing.
fn absent_is_empty<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}

/// Nothing, where nothing is or this user may not.
fn passed_over<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match absent_is_empty(result) {
        Err(error) if is_denied(&error) => Ok(T::default()),
        other => other,
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn cause_of(error: &io::Error) -> StoreCause {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreCause::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreCause::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreCause::Full,
        io::ErrorKind::TimedOut => StoreCause::TimedOut,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            StoreCause::Unreachable
        }
        _ => StoreCause::Other,
    }
}
