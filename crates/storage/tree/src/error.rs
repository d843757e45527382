//! What went wrong with the tree, and where.

use std::io;

use seawall_types::{Lsn, PageId};

use crate::page::{PAGE_FILE_PATH, PageDamage, PageFormat};
use crate::superblock::SuperblockError;

/// Why the tree could not be read, changed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The disk failed, or a file is missing.
    #[error("{operation} at offset {offset} of {path}: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file.
        path: String,
        /// Where in the file.
        offset: u64,
        /// The disk's error.
        source: io::Error,
    },
    /// The page file ends before the page.
    #[error("page {page} at offset {offset} of {path}: the file ends before it does")]
    Truncated {
        /// The file.
        path: String,
        /// The page.
        page: PageId,
        /// Where the page should be.
        offset: u64,
    },
    /// A page does not hold what it must.
    #[error("page {page} at offset {offset} of {path}: {damage}")]
    Page {
        /// The file.
        path: String,
        /// The page.
        page: PageId,
        /// Where the page is.
        offset: u64,
        /// What is wrong with it.
        damage: PageDamage,
    },
    /// A file other than the page file does not hold what it must.
    #[error("offset {offset} of {path}: {what}")]
    File {
        /// The file.
        path: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The tree links a page that its space map calls free.
    #[error(
        "page {page} at offset {offset} of {path} is in use but marked as free: the tree or its space map is damaged"
    )]
    NotAllocated {
        /// The file.
        path: String,
        /// The page.
        page: PageId,
        /// Where the page is.
        offset: u64,
    },
    /// A key that no page of this size can hold.
    #[error("a key of {bytes} bytes; pages of this database hold keys of at most {max_bytes}")]
    KeyTooLong {
        /// The key's length.
        bytes: usize,
        /// The longest a key may be.
        max_bytes: usize,
    },
    /// A bulk load takes keys in ascending order, in the range it was started for.
    #[error("a bulk load was given a key out of order or out of its range")]
    KeyOrder,
    /// The database is encrypted and no keys were given, or the other way round.
    #[error("{path} says that the database {says}; {given}")]
    Encryption {
        /// The superblock.
        path: String,
        /// What it says.
        says: &'static str,
        /// What was given.
        given: &'static str,
    },
    /// The tree takes no changes.
    #[error("the tree cannot be changed: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
    /// Page images could not be put into the log, or read from it.
    #[error(transparent)]
    ImageLog(#[from] ImageLogError),
    /// The superblock could not be read or written.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
}

impl TreeError {
    /// A failed call on `path`.
    pub(crate) fn io(operation: &'static str, path: &str, offset: u64, source: io::Error) -> TreeError {
        TreeError::Io { operation, path: path.to_owned(), offset, source }
    }

    /// A page of the page file that does not hold what it must.
    pub(crate) fn damaged(format: &PageFormat, page: PageId, damage: PageDamage) -> TreeError {
        TreeError::Page { path: PAGE_FILE_PATH.to_owned(), page, offset: format.offset_of(page), damage }
    }

    /// A key that no page can hold.
    pub(crate) fn key_too_long(bytes: usize, max_bytes: usize) -> TreeError {
        TreeError::KeyTooLong { bytes, max_bytes }
    }

    /// A file that does not hold what it must.
    pub(crate) fn damaged_file(path: &str, offset: u64, what: String) -> TreeError {
        TreeError::File { path: path.to_owned(), offset, what }
    }

    /// A page in use that the space map calls free.
    pub(crate) fn not_allocated(format: &PageFormat, page: PageId) -> TreeError {
        TreeError::NotAllocated { path: PAGE_FILE_PATH.to_owned(), page, offset: format.offset_of(page) }
    }

    /// Whether bytes on disk are wrong, as opposed to a call that failed.
    pub fn is_damage(&self) -> bool {
        match self {
            TreeError::Truncated { .. }
            | TreeError::Page { .. }
            | TreeError::File { .. }
            | TreeError::NotAllocated { .. } => true,
            TreeError::Superblock(error) => !matches!(error, SuperblockError::Io { .. }),
            TreeError::ImageLog(error) => matches!(error, ImageLogError::Unreadable { .. }),
            TreeError::Io { .. }
            | TreeError::KeyTooLong { .. }
            | TreeError::KeyOrder
            | TreeError::Encryption { .. }
            | TreeError::Unwritable { .. } => false,
        }
    }
}

/// Why images could not be put into the log, or read from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageLogError {
    /// There is no room for more log. Nothing is lost, and it may be tried again.
    #[error("no space left for page images in the log")]
    Full {
        /// The disk's answer.
        source: io::Error,
    },
    /// The log takes no more records.
    #[error("page images cannot be put into the log: {cause}")]
    Closed {
        /// Why.
        cause: String,
    },
    /// The images cannot be read.
    #[error(
        "the recovery file says that page images are in the log from {start} to {end}, and they cannot be read there: {cause}"
    )]
    Unreadable {
        /// Where they should start.
        start: Lsn,
        /// Where they should end.
        end: Lsn,
        /// What is wrong.
        cause: String,
    },
}
