//! What can be wrong with keys.

use std::io;

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterKeyError {
    /// The file, the variable or the command gives nothing.
    #[error("the master key from {from} cannot be read: {source}")]
    Unreadable {
        /// Where it should come from.
        from: String,
        /// Why it does not.
        source: io::Error,
    },
    /// What was read is no key.
    #[error(
        "the master key from {from} is {problem}; a master key is 32 random bytes, as they are, as 64 hexadecimal digits or \
         as base64: make one with `openssl rand -hex 32`"
    )]
    Malformed {
        /// Where it comes from.
        from: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why the keys of a database cannot be used or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// There is no master key.
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    /// The master key is none of those that may open the database.
    #[error(
        "{path} was written for another master key ({known}) than the one given ({given}): give that one"
    )]
    WrongMasterKey {
        /// The keys file.
        path: String,
        /// Fingerprint of the key that was given.
        given: String,
        /// Fingerprints of the keys that would do.
        known: String,
    },
    /// The file does not exist.
    #[error(
        "{path} is missing: without it the database cannot be decrypted; restore it from a backup, its content changes only \
         with the master key"
    )]
    Missing {
        /// The keys file.
        path: String,
    },
    /// The file does not hold what it must.
    #[error(
        "{path} is damaged: {what}; restore it from a backup, its content changes only with the master key"
    )]
    Damaged {
        /// The keys file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// Written by a newer release.
    #[error("{path} has format version {version}, which this release does not know")]
    Version {
        /// The keys file.
        path: String,
        /// The version found.
        version: u32,
    },
    /// The keys of another database.
    #[error("{path} holds the keys of another database: restore the one that belongs to this one")]
    OtherDatabase {
        /// The keys file.
        path: String,
    },
    /// More master keys than the file has room for.
    #[error(
        "{path} holds the key for {limit} master keys already: take some out by a rotation that drops the others"
    )]
    TooMany {
        /// The keys file.
        path: String,
        /// How many it can hold.
        limit: usize,
    },
    /// The disk failed.
    #[error("{operation} of {path}: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file.
        path: String,
        /// The disk's error.
        source: io::Error,
    },
}
