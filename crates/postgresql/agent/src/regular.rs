//! Files of the data directory, opened without waiting: a pipe with the name of a segment would wait for somebody at its other end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file that is to be there.
///
/// # Errors
/// What the system says; `InvalidInput` for a pipe, a device or a directory.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    checked(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?)
}

/// Makes a file that is not there yet.
///
/// # Errors
/// What the system says; `AlreadyExists`.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Why a pipe, a device or a directory is refused.
pub(crate) fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

fn checked(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(irregular()),
    }
}
