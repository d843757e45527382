//! Why an upload failed.

use seawall_archive::{ArchiveError, StoreCause};

/// Why a file is not archived.
#[derive(Debug)]
pub(super) struct Failure {
    /// For PostgreSQL's log.
    pub(super) message: String,
    /// Other files would fare no better now.
    pub(super) is_of_store: bool,
    /// The store asks for fewer requests.
    pub(super) is_too_much: bool,
}

impl Failure {
    pub(super) fn of_file(message: String) -> Failure {
        Failure { message, is_of_store: false, is_too_much: false }
    }

    pub(super) fn of(error: &ArchiveError) -> Failure {
        let cause = match error {
            ArchiveError::Store(error) => Some(error.cause),
            _ => None,
        };
        Failure {
            message: error.to_string(),
            is_of_store: cause.is_some() || error.asks_for_reopening(),
            is_too_much: cause == Some(StoreCause::Busy),
        }
    }
}
