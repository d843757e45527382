//! The operating system's files.

mod file;
mod listing;
mod mapping;
mod place;
#[cfg(target_os = "linux")]
#[path = "os_disk/linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "os_disk/portable.rs"]
mod system;

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chmodat, fchmod, fstat, fsync, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use crate::disk::{Access, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping};
use crate::error::DiskError;
use crate::sabotage::{Defect, sabotaged};
use file::OsFile;
use mapping::OsMapping;
use place::{HeldDirectory, Place, open_directory};

/// Only the owner reads a database's files; who wants to share them changes the mode.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// As the standard library takes it: on some systems `Mode` has fewer bits.
const DIRECTORY_MODE_BITS: u32 = 0o700;

/// A directory of the operating system. Making one touches nothing.
///
/// From a successful [`lock`](Disk::lock) on, the disk and its clones stay in the directory that holds the lock, wherever that is
/// moved and whatever takes its name; [`location`](Disk::location) then names the place that the directory was moved to, where the
/// system knows it. Until then each call looks the path up.
#[derive(Clone, Debug)]
pub struct OsDisk {
    directory: PathBuf,
    held: Arc<OnceLock<HeldDirectory>>,
}

impl OsDisk {
    /// The files under `directory`, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> OsDisk {
        OsDisk { directory: directory.into(), held: Arc::default() }
    }

    fn full(&self, path: &str) -> PathBuf {
        // Joining "" would add a slash at the end.
        if path.is_empty() { self.directory.clone() } else { self.directory.join(path) }
    }

    fn place(&self, path: &str) -> io::Result<Place> {
        match self.held.get() {
            Some(held) => held.place(path),
            None => Ok(Place::by_path(self.full(path))),
        }
    }

    fn directory(&self, path: &str) -> io::Result<Arc<OwnedFd>> {
        match self.held.get() {
            Some(held) => held.directory(path),
            None => Ok(Arc::new(open_directory(CWD, &self.full(path))?)),
        }
    }

    /// Where `from` and `to` are: names of one directory.
    fn two_places(&self, from: &str, to: &str) -> io::Result<(Place, Place)> {
        if parent_of(from) != parent_of(to) {
            let problem = format!("{to} is in another directory");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Ok((self.place(from)?, self.place(to)?))
    }

    /// The directory is opened once, and the lock taken in what was opened: no other directory can come in between.
    fn lock_and_hold(&self, path: &str, mode: LockMode) -> io::Result<OsLock> {
        if let Some(held) = self.held.get() {
            return lock_file(&held.place(path)?, mode);
        }
        let opened = HeldDirectory::open(&self.directory)?;
        let lock = lock_file(&opened.place(path)?, mode)?;
        match self.held.set(opened) {
            Err(opened) if self.held.get().is_some_and(|held| !held.is_same(&opened)) => {
                Err(io::Error::other("another directory took its place while two threads locked it"))
            }
            // Held by this call, or by another thread that has locked the same directory meanwhile.
            Ok(()) | Err(_) => Ok(lock),
        }
    }

    fn named<T>(&self, operation: &'static str, path: &str, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| DiskError::wrap(operation, self.location(path), error))
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let operation = if mode == OpenMode::Create { "create" } else { "open" };
        let file = self.place(path).and_then(|place| open_file(&place, mode));
        let file = self.named(operation, path, file)?;
        Ok(Arc::new(OsFile::new(file, self.location(path), mode)))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        let result = if !path.is_empty() {
            self.place(path).and_then(|place| create_one(&place))
        } else if self.held.get().is_some() {
            Ok(())
        } else {
            create_with_parents(&self.directory)
        };
        self.named("create directory", path, result)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        let listed = self.directory(directory).and_then(|directory| listing::files(&directory));
        self.named("list", directory, listed)
    }

    fn list_names(&self, directory: &str) -> io::Result<Vec<String>> {
        let opened = self.directory(directory);
        let listed = opened.and_then(|directory| listing::names(&directory, FileType::RegularFile));
        self.named("list", directory, listed)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let result = self
            .two_places(from, to)
            .and_then(|(old, new)| Ok(renameat(old.directory(), &old.name, new.directory(), &new.name)?));
        self.named("rename", from, result)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let result = self.two_places(from, to).and_then(|(old, new)| system::rename_new(&old, &new));
        self.named("rename", from, result)
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        let opened = self.directory(directory);
        let listed = opened.and_then(|directory| listing::names(&directory, FileType::Directory));
        let mut names = self.named("list", directory, listed)?;
        names.sort();
        Ok(names)
    }

    fn is_empty(&self, directory: &str) -> io::Result<bool> {
        let opened = self.directory(directory);
        self.named("list", directory, opened.and_then(|directory| listing::is_empty(&directory)))
    }

    fn set_access(&self, path: &str, access: Access) -> io::Result<()> {
        let set = match path {
            "" => self.directory("").and_then(|own| Ok(fchmod(&own, mode_of(FileType::Directory, access))?)),
            _ => self.place(path).and_then(|place| set_access(&place, access)),
        };
        self.named("set the mode of", path, set)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let removed = self
            .place(path)
            .and_then(|place| Ok(unlinkat(place.directory(), &place.name, AtFlags::empty())?));
        self.named("remove", path, removed)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        if sabotaged(Defect::OsDirectorySyncSkipped) {
            return Ok(());
        }
        let synced = self.directory(directory).and_then(|directory| Ok(retry_on_intr(|| fsync(&directory))?));
        self.named("sync directory", directory, synced)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        let file = self.place(path).and_then(|place| open_file(&place, OpenMode::Write));
        let mapping = file.and_then(|file| OsMapping::new(&file));
        Ok(Box::new(self.named("map", path, mapping)?))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        let lock = self.named("lock", path, self.lock_and_hold(path, mode))?;
        Ok(Box::new(lock))
    }

    fn location(&self, path: &str) -> String {
        match self.held.get().and_then(HeldDirectory::moved_to) {
            Some(moved) if path.is_empty() => moved.display().to_string(),
            Some(moved) => moved.join(path).display().to_string(),
            None => self.full(path).display().to_string(),
        }
    }
}

/// The directory part of a path relative to the database.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn open_file(place: &Place, mode: OpenMode) -> io::Result<File> {
    match mode {
        OpenMode::Read => open_with(place, OFlags::RDONLY),
        OpenMode::Write => open_with(place, OFlags::RDWR),
        OpenMode::Create => open_with(place, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
        OpenMode::Log => system::open_direct(place, OFlags::RDWR),
    }
}

fn open_with(place: &Place, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(place.directory(), &place.name, flags, FILE_MODE))?.into())
}

fn mode_of(kind: FileType, access: Access) -> Mode {
    match (kind, access) {
        (FileType::Directory, Access::Owner) => DIRECTORY_MODE,
        (FileType::Directory, Access::Group) => DIRECTORY_MODE | Mode::RGRP | Mode::XGRP,
        (_, Access::Owner) => FILE_MODE,
        (_, Access::Group) => FILE_MODE | Mode::RGRP,
    }
}

fn set_access(place: &Place, access: Access) -> io::Result<()> {
    let stat = statat(place.directory(), &place.name, AtFlags::empty())?;
    let mode = mode_of(FileType::from_raw_mode(stat.st_mode), access);
    Ok(chmodat(place.directory(), &place.name, mode, AtFlags::empty())?)
}

fn create_one(place: &Place) -> io::Result<()> {
    match mkdirat(place.directory(), &place.name, DIRECTORY_MODE) {
        Err(Errno::EXIST) => {
            let stat = statat(place.directory(), &place.name, AtFlags::empty())?;
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_directory { Ok(()) } else { Err(Errno::EXIST.into()) }
        }
        result => Ok(result?),
    }
}

/// The names of new parents are made durable here: nobody else knows which ones were missing.
fn create_with_parents(full: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        full.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    // Those above it are not a database's: they have the mode that the user's mask gives.
    if let Some(parent) = full.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).create(parent)?;
    }
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE_BITS).create(full)?;
    for created in missing.into_iter().rev() {
        let parent = match created.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !sabotaged(Defect::OsDirectorySyncSkipped) {
            let parent = open_directory(CWD, parent)?;
            retry_on_intr(|| fsync(&parent))?;
        }
    }
    Ok(())
}

/// A lock on an open file goes with the last handle of that open; nothing is left behind by a killed process.
#[derive(Debug)]
struct OsLock {
    /// `None`: a directory that nobody can write, so that no writer can come.
    file: Option<File>,
}

impl DirectoryLock for OsLock {}

impl OsLock {
    /// Whether the locked file is the one that is found by its name.
    fn has_name(&self, place: &Place) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        let locked = fstat(file)?;
        match statat(place.directory(), &place.name, AtFlags::empty()) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing would do, but for a process that another thread is just starting: it holds a copy until it runs
            // its program.
            file.unlock().unwrap_or(());
        }
    }
}

/// Files that were removed or replaced between their opening and their locking, before the lock counts as another's.
const REPLACED_MAX: u32 = 16;

/// Locks the file that has the name when this returns. A holder may remove or replace the file before it lets the lock go: who
/// has opened the file before that then locks one that nobody else finds.
fn lock_file(place: &Place, mode: LockMode) -> io::Result<OsLock> {
    for _ in 0..REPLACED_MAX {
        let Some(file) = open_lock_file(place, mode)? else { return Ok(OsLock { file: None }) };
        let locked = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let lock = OsLock { file: Some(file) };
        if lock.has_name(place)? {
            return Ok(lock);
        }
    }
    // Others had it, one after the other.
    Err(io::ErrorKind::WouldBlock.into())
}

/// `None` for a reader of a read-only directory without a lock file.
fn open_lock_file(place: &Place, mode: LockMode) -> io::Result<Option<File>> {
    let refused = match open_with(place, OFlags::RDWR | OFlags::CREATE) {
        Ok(file) => return Ok(Some(file)),
        Err(error) => error,
    };
    if mode == LockMode::Exclusive || !is_read_only(&refused) {
        return Err(refused);
    }
    match open_with(place, OFlags::RDONLY) {
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
