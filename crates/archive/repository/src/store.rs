//! What the archive needs of a place that keeps objects, and nothing more: put one that is new, read, list, remove.
//!
//! ```text
//!   Repository --retries--> MeteredStorage --counts--> ObjectStorage
//!                             |-- FileStorage     files below a directory, through io::Disk: durable when put returns
//!                             |-- SftpStorage     files below a directory of another machine, through the program ssh
//!                             |-- RemoteStorage   S3, GCS, Azure: requests on pooled connections, tokio inside
//! ```
//! Paths are relative to the repository, with `/` between parts.

pub(crate) mod file;
pub(crate) mod listing;
pub(crate) mod metered;
mod new_file;
pub(crate) mod remote;
pub(crate) mod retry;
pub(crate) mod sftp;

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    /// Path within the repository.
    pub path: String,
    /// Length in bytes, as stored.
    pub bytes: u64,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The object is there, durably, with these bytes.
    Stored,
    /// There was an object with this name already. It was not touched.
    Exists,
}

/// The bytes of an object, piece by piece.
pub(crate) trait ObjectReader {
    /// The next bytes; `None` at the end.
    fn next(&mut self) -> Result<Option<Bytes>, StoreError>;
}

/// A place that keeps objects.
pub(crate) trait ObjectStorage: Send + Sync + fmt::Debug {
    /// Puts an object that consists of `pieces`, if there is none with this name. It is durable when this returns, also
    /// where it says `Exists`.
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError>;

    /// Opens an object for reading: whole, or the bytes in `range`, of which those beyond its end are left out. A store that somebody
    /// else has written to may give more than that, without end; but a range comes within a limited time.
    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError>;

    /// All objects whose path starts with `prefix`, a directory with its slash at the end or nothing, in order of path.
    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError>;

    /// The names of the directories in `prefix`, in order.
    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Removes an object; one that is not there is fine.
    fn remove(&self, path: &str) -> Result<(), StoreError>;

    /// Removes objects, many at once where the store can. Of each, whether it is known to be gone durably; for the others, `remove`
    /// tells why not.
    fn remove_many(&self, paths: &[String]) -> Vec<bool>;

    /// Removes what puts that were cut short before this time, in microseconds since 1970, have left behind. How many there were.
    fn remove_leftovers(&self, before_micros: i64) -> Result<u64, StoreError>;

    /// The full name of `path`, for messages.
    fn location(&self, path: &str) -> String;

    /// Whether it is on this machine, so that a look at a small object costs next to nothing.
    fn is_near(&self) -> bool;

    /// Whether an object that can be read is durable, so that a put whose answer was lost has done its work.
    fn reads_only_durable(&self) -> bool;
}

/// Why a store did not do what was asked: what a caller may act upon, and what an administrator counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoreCause {
    /// There is no such object, bucket or directory.
    NotFound,
    /// The credentials are good, and not for this (403), or the directory's mode forbids it.
    Denied,
    /// There are no credentials, or they are wrong (401).
    Unauthenticated,
    /// The store refuses a request from another time than its own.
    WrongClock,
    /// The host has another key than is known of it, or none is known.
    UntrustedHost,
    /// No connection could be made.
    Unreachable,
    /// The connection broke.
    Interrupted,
    /// No answer in time.
    TimedOut,
    /// The store asks for fewer requests (429, 503).
    Busy,
    /// The store has a fault of its own (other 5xx).
    Faulty,
    /// No space is left.
    Full,
    /// Anything else: the message says what.
    Other,
}

impl StoreCause {
    /// Whether the same request may succeed a moment later.
    pub fn is_passing(self) -> bool {
        match self {
            StoreCause::Unreachable
            | StoreCause::Interrupted
            | StoreCause::TimedOut
            | StoreCause::Busy
            | StoreCause::Faulty => true,
            StoreCause::NotFound
            | StoreCause::Denied
            | StoreCause::Unauthenticated
            | StoreCause::WrongClock
            | StoreCause::UntrustedHost
            | StoreCause::Full
            | StoreCause::Other => false,
        }
    }

    /// A word for statistics.
    pub fn name(self) -> &'static str {
        match self {
            StoreCause::NotFound => "not_found",
            StoreCause::Denied => "denied",
            StoreCause::Unauthenticated => "unauthenticated",
            StoreCause::WrongClock => "wrong_clock",
            StoreCause::UntrustedHost => "untrusted_host",
            StoreCause::Unreachable => "unreachable",
            StoreCause::Interrupted => "interrupted",
            StoreCause::TimedOut => "timed_out",
            StoreCause::Busy => "busy",
            StoreCause::Faulty => "faulty",
            StoreCause::Full => "full",
            StoreCause::Other => "other",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            StoreCause::NotFound => "; does the bucket or directory exist, and is its name right?",
            StoreCause::Denied => {
                "; the credentials may not do this: look at the policy of the bucket or the mode of the directory"
            }
            StoreCause::Unauthenticated => "; look at the credentials, and at the clock of this machine",
            StoreCause::WrongClock => {
                "; the clock of this machine, or that of the store, is wrong: set it, and let it be kept right"
            }
            StoreCause::UntrustedHost => {
                "; compare the key of the host with what its administrator says, and put it into the user's known_hosts: a key that \
                 is taken unseen is not checked"
            }
            StoreCause::Unreachable => "; is the store up, and are endpoint, network and TLS settings right?",
            StoreCause::Interrupted | StoreCause::TimedOut => {
                "; the store or the network is too slow or went away"
            }
            StoreCause::Busy => "; the store asks for fewer requests",
            StoreCause::Faulty => "; the store has a fault: look at its own log",
            StoreCause::Full => "; make space: nothing acknowledged is lost",
            StoreCause::Other => "",
        }
    }
}

/// A request that the store did not fulfil.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {message}{}{}", tries(*attempts), cause.advice())]
pub struct StoreError {
    /// What was attempted, as a verb.
    pub operation: &'static str,
    /// Full name of the object.
    pub object: String,
    /// The kind of trouble.
    pub cause: StoreCause,
    /// What the store or the system said.
    pub message: String,
    /// How often it was tried.
    pub attempts: u32,
}

fn tries(attempts: u32) -> String {
    if attempts > 1 { format!(" (tried {attempts} times)") } else { String::new() }
}
