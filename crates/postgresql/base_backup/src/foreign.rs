//! Files of a cluster whose names are not text. PostgreSQL makes none: somebody has put them into the data directory, and a backup has
//! them. `io::Disk` names files by text, so they go past it, by the operating system's calls. They are not entered into the list of
//! what is there, so a restore that resumes fetches them again.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Creates a file, in place of what an attempt before has left of it.
pub(super) fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    OpenOptions::new().write(true).create_new(true).mode(mode & 0o640 | 0o600).open(path)
}

/// Creates a directory; one that exists is fine.
pub(super) fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode & 0o750 | 0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty()).and_then(rustix::fs::fsync)?)
}
