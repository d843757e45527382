//! Errors of holds on the log.

use seawall_types::{DatabaseId, Lsn};

/// Why a hold on the log could not be made, found, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// There is one of this name.
    #[error("there is a hold {name:?} on the log already")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is none of this name.
    #[error("there is no hold {name:?} on the log")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It held more than it may, and what it needs may be gone.
    #[error(
        "hold {name:?} on the log is lost: it needed the log from {position} on, and its limit of {limit_bytes:?} bytes was \
         reached at {lost_at}"
    )]
    Lost {
        /// The name.
        name: String,
        /// The log was kept from here on.
        position: Lsn,
        /// Where the log ended when it was lost.
        lost_at: Lsn,
        /// What it was allowed to hold.
        limit_bytes: Option<u64>,
    },
    /// The log is not kept from there on.
    #[error("the log cannot be held from {position} on: it is kept from {oldest} on")]
    NotRetained {
        /// From where on it was to be held.
        position: Lsn,
        /// From where on it is there.
        oldest: Lsn,
    },
    /// The name is not fit.
    #[error(
        "{name:?} is not a valid name of a hold: expected 1 to {limit} bytes of UTF-8 without control characters"
    )]
    Name {
        /// The name.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// The name is that of the hold of an option.
    #[error("{name:?} is the name of the option's own hold: choose another one")]
    Reserved {
        /// The name.
        name: String,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// There are as many as there may be.
    #[error("there are {limit} holds on the log, and no more are possible: release one")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The file was refused.
    #[error(
        "{path}: {source}; it says who needs the log. Put it back from a copy of the directory, or remove it: then nothing \
         is held for archives, standbys and backups until they ask again"
    )]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        source: HoldsFileError,
    },
    /// A disk call failed.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: String,
        /// The disk's answer.
        source: std::io::Error,
    },
}

/// Why the file of holds was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HoldsFileError {
    /// Not a file of holds.
    #[error("no file of holds: at offset 8 it has {found:02x?}")]
    Magic {
        /// The bytes.
        found: [u8; 8],
    },
    /// Written by another version.
    #[error("file of holds of format {found}, this build reads format {known}")]
    Version {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Neither copy verifies.
    #[error(
        "both copies are damaged: checksum of the last one stored {stored:#010x}, computed {computed:#010x}"
    )]
    Checksum {
        /// In the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A file of holds of another database.
    #[error("file of holds of database {found}, expected {expected}")]
    Database {
        /// The file's.
        found: DatabaseId,
        /// Ours.
        expected: DatabaseId,
    },
    /// The file was cut or never finished.
    #[error("file of {found} bytes, expected {expected}")]
    Length {
        /// The file's.
        found: u64,
        /// As it is made.
        expected: u64,
    },
    /// A field has a value that is never written.
    #[error("offset {offset} of a copy: a value that is never written")]
    Value {
        /// Where.
        offset: usize,
    },
}
