//! What is in a directory. A name that is not text is none of a database's and left out.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, statat};
use rustix::io::Errno;

use crate::disk::DirectoryEntry;

/// Files with their lengths, sorted.
pub(super) fn files(directory: &OwnedFd) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let stat = match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed since the directory was read.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            entries.push(DirectoryEntry { name: name.to_owned(), bytes: stat.st_size.unsigned_abs() });
        }
    }
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// Names of the entries of one kind, in no order.
pub(super) fn names(directory: &OwnedFd, kind: FileType) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name != "." && name != ".." && kind_of(directory.as_fd(), &entry)? == Some(kind) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Whether there is nothing, of whatever kind and name.
pub(super) fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `None`: removed since the directory was read.
fn kind_of(directory: BorrowedFd<'_>, entry: &DirEntry) -> io::Result<Option<FileType>> {
    // Some file systems do not say it in the listing.
    if entry.file_type() != FileType::Unknown {
        return Ok(Some(entry.file_type()));
    }
    match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
