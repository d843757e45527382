//! What went wrong with which file.

use std::io;

/// A failed call: what was attempted on which file or directory. Found inside the `io::Error` of every [`crate::Disk`]
/// call; that error's `kind()` is the kind of `source`.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {source}")]
pub struct DiskError {
    /// What was attempted, as a verb: `read`, `sync`.
    pub operation: &'static str,
    /// Full name of the file or directory.
    pub path: String,
    /// The system's own error.
    pub source: io::Error,
}

impl DiskError {
    /// `source`, wrapped so that it names the operation and the path and keeps its kind.
    pub fn wrap(operation: &'static str, path: impl Into<String>, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), DiskError { operation, path: path.into(), source })
    }
}

/// The operating system's number of an error, looked up inside a [`DiskError`] too.
pub fn raw_os_error(error: &io::Error) -> Option<i32> {
    let inner = || error.get_ref()?.downcast_ref::<DiskError>()?.source.raw_os_error();
    error.raw_os_error().or_else(inner)
}

/// Whether a call failed for want of space: the device has none left, the user's quota has none, or the file may grow no more.
/// Nothing is wrong with what is on disk, and the call succeeds once there is space.
pub fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_error_keeps_kind_and_number() {
        let no_space = io::Error::from_raw_os_error(28);
        let wrapped = DiskError::wrap("write", "/data/pages", no_space);
        assert_eq!(wrapped.kind(), io::ErrorKind::StorageFull);
        assert_eq!(raw_os_error(&wrapped), Some(28));
        assert!(wrapped.to_string().starts_with("cannot write /data/pages: "));
        assert_eq!(raw_os_error(&io::Error::other("no number")), None);
    }
}
