//! The operating system's files.

mod file;
mod mapping;
#[cfg(target_os = "linux")]
#[path = "os_disk/linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "os_disk/portable.rs"]
mod system;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping};
use crate::error::DiskError;
use crate::sabotage::{Defect, sabotaged};
use file::OsFile;
use mapping::OsMapping;

/// Only the owner reads a database's files; who wants to share them changes the mode.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory of the operating system. Making one touches nothing.
#[derive(Clone, Debug)]
pub struct OsDisk {
    directory: PathBuf,
}

impl OsDisk {
    /// The files under `directory`, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> OsDisk {
        OsDisk { directory: directory.into() }
    }

    fn full(&self, path: &str) -> PathBuf {
        // Joining "" would add a slash at the end.
        if path.is_empty() { self.directory.clone() } else { self.directory.join(path) }
    }

    fn named<T>(&self, operation: &'static str, path: &str, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| DiskError::wrap(operation, self.location(path), error))
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let operation = if mode == OpenMode::Create { "create" } else { "open" };
        let file = self.named(operation, path, open_file(&self.full(path), mode))?;
        Ok(Arc::new(OsFile::new(file, self.location(path), mode)))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        let full = self.full(path);
        let result = if path.is_empty() { create_with_parents(&full) } else { create_one(&full) };
        self.named("create directory", path, result)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.named("list", directory, list_files(&self.full(directory)))
    }

    fn list_names(&self, directory: &str) -> io::Result<Vec<String>> {
        self.named("list", directory, list_file_names(&self.full(directory)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let result = if parent_of(from) == parent_of(to) {
            rustix::fs::rename(self.full(from), self.full(to)).map_err(io::Error::from)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to} is in another directory")))
        };
        self.named("rename", from, result)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let result = if parent_of(from) == parent_of(to) {
            system::rename_new(&self.full(from), &self.full(to))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to} is in another directory")))
        };
        self.named("rename", from, result)
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        self.named("list", directory, list_directories(&self.full(directory)))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.named("remove", path, rustix::fs::unlink(self.full(path)).map_err(io::Error::from))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.named("sync directory", directory, sync_directory(&self.full(directory)))
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        let mapping = open_file(&self.full(path), OpenMode::Write).and_then(|file| OsMapping::new(&file));
        Ok(Box::new(self.named("map", path, mapping)?))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        let lock = self.named("lock", path, lock_file(&self.full(path), mode))?;
        Ok(Box::new(lock))
    }

    fn location(&self, path: &str) -> String {
        self.full(path).display().to_string()
    }
}

/// The directory part of a path relative to the database.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn open_file(full: &Path, mode: OpenMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).mode(FILE_MODE);
    match mode {
        OpenMode::Read => options.open(full),
        OpenMode::Write => options.write(true).open(full),
        OpenMode::Create => options.write(true).create_new(true).open(full),
        OpenMode::Log => system::open_direct(options.write(true), full),
    }
}

fn create_one(full: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(full) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && full.is_dir() => Ok(()),
        result => result,
    }
}

/// The names of new parents are made durable here: nobody else knows which ones were missing.
fn create_with_parents(full: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        full.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(full)?;
    for created in missing.into_iter().rev() {
        match created.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

fn sync_directory(full: &Path) -> io::Result<()> {
    if sabotaged(Defect::OsDirectorySyncSkipped) {
        return Ok(());
    }
    OpenOptions::new().read(true).open(full)?.sync_all()
}

fn list_files(full: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(full)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // A name that is not text is none of ours.
        if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
            entries.push(DirectoryEntry { name, bytes: metadata.len() });
        }
    }
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

fn list_file_names(full: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(full)? {
        let entry = entry?;
        let is_file = match entry.file_type() {
            Ok(file_type) => file_type.is_file(),
            // Removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

fn list_directories(full: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(full)? {
        let entry = entry?;
        let is_directory = match entry.file_type() {
            Ok(file_type) => file_type.is_dir(),
            // Removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let (true, Ok(name)) = (is_directory, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A lock on an open file goes with the last handle of that open; nothing is left behind by a killed process.
#[derive(Debug)]
struct OsLock {
    /// `None`: a directory that nobody can write, so that no writer can come.
    file: Option<File>,
}

impl DirectoryLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing would do, but for a process that another thread is just starting: it holds a copy until it runs
            // its program.
            file.unlock().unwrap_or(());
        }
    }
}

fn lock_file(full: &Path, mode: LockMode) -> io::Result<OsLock> {
    let Some(file) = open_lock_file(full, mode)? else { return Ok(OsLock { file: None }) };
    let locked = match mode {
        LockMode::Shared => file.try_lock_shared(),
        LockMode::Exclusive => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(OsLock { file: Some(file) }),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// `None` for a reader of a read-only directory without a lock file.
fn open_lock_file(full: &Path, mode: LockMode) -> io::Result<Option<File>> {
    let refused = match OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(full)
    {
        Ok(file) => return Ok(Some(file)),
        Err(error) => error,
    };
    if mode == LockMode::Exclusive || !is_read_only(&refused) {
        return Err(refused);
    }
    match OpenOptions::new().read(true).open(full) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests;
