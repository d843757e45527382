//! Where the files of a disk are: below a path, until the directory is locked. From then on in that very directory, by its
//! descriptor, whatever happens to its name.
//!
//! A path is looked up anew by each call. If somebody moves the directory of a running database and restores a backup in its
//! place, calls by path would write one database's log into the other. Calls by descriptor cannot: the process stays in the
//! directory that it has locked, and so does every later call for a file in it. Each subdirectory is held from its first use
//! on, for the same reason; of very many, the first ones: open files are limited.
//!
//! Before the lock, and on a disk that is never locked, each call looks the path up: an archive's directory may be mounted
//! again while a process runs, and must then be found again.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::retry_on_intr;

use super::system;

/// A name to be looked up from an open directory, or from the working directory.
#[derive(Debug)]
pub(super) struct Place {
    /// `None`: the working directory.
    directory: Option<Arc<OwnedFd>>,
    pub(super) name: PathBuf,
}

impl Place {
    pub(super) fn by_path(full: PathBuf) -> Place {
        Place { directory: None, name: full }
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(CWD, |directory| directory.as_fd())
    }
}

/// Subdirectories that are held. A database has two; a cluster of PostgreSQL that is restored may have thousands.
const HELD_MAX: usize = 64;

/// The directory that was locked.
#[derive(Debug)]
pub(super) struct HeldDirectory {
    root: Arc<OwnedFd>,
    identity: (u64, u64),
    /// The name that it was opened by, from the root on: the working directory may change.
    opened_as: PathBuf,
    /// Its own name then, as the system says it.
    named: Option<PathBuf>,
    /// Those that have been used, up to [`HELD_MAX`].
    subdirectories: Mutex<BTreeMap<String, Arc<OwnedFd>>>,
}

impl HeldDirectory {
    pub(super) fn open(full: &Path) -> io::Result<HeldDirectory> {
        let root = open_directory(CWD, full)?;
        let identity = identity(&fstat(&root)?);
        let opened_as = std::path::absolute(full)?;
        let named = system::name_of(&root);
        Ok(HeldDirectory {
            root: Arc::new(root),
            identity,
            opened_as,
            named,
            subdirectories: Mutex::default(),
        })
    }

    pub(super) fn is_same(&self, other: &HeldDirectory) -> bool {
        self.identity == other.identity
    }

    /// The directory `path`, relative to this one; `""` is this one.
    pub(super) fn directory(&self, path: &str) -> io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        let mut held = self.subdirectories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = held.get(path) {
            return Ok(Arc::clone(directory));
        }
        let directory = Arc::new(open_directory(self.root.as_fd(), Path::new(path))?);
        if held.len() < HELD_MAX {
            held.insert(path.to_owned(), Arc::clone(&directory));
        }
        Ok(directory)
    }

    pub(super) fn place(&self, path: &str) -> io::Result<Place> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok(Place { directory: Some(self.directory(parent)?), name: PathBuf::from(name) })
    }

    /// The directory's name if it has been moved and the system knows where to.
    pub(super) fn moved_to(&self) -> Option<PathBuf> {
        match stat(&self.opened_as) {
            Ok(found) if identity(&found) == self.identity => None,
            Ok(_) => system::name_of(&self.root),
            // Also where this process may no longer look a name up, which says nothing of a move.
            Err(_) => system::name_of(&self.root).filter(|now| Some(now) != self.named.as_ref()),
        }
    }
}

/// Opens a directory, for listing, syncing and looking up.
pub(super) fn open_directory(from: BorrowedFd<'_>, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(from, name, flags, Mode::empty()))?)
}

/// Device and inode.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}
