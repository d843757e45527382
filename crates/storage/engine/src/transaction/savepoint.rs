//! Savepoints: moments inside a transaction to which the transaction can return.
//!
//! ```text
//!   undo of writes    . . . | . . | . . . .       a savepoint is a mark in lists that grow as the transaction goes on;
//!   tables touched    . . . | .   | .             a rollback to it cuts them off there
//!   locks             . . . | . . | . . . . .
//!                     outer ^     ^ inner
//! ```
//! While there is no savepoint, nothing is kept for one. How a transaction makes savepoints and returns to them is in `rollback`.

use crate::error::Error;
use crate::transaction::lock::LockOwner;
use crate::transaction::memory::bytes;
use crate::transaction::touched_tables::TouchedCounts;

/// A savepoint in a list that doubles as it grows.
const SAVEPOINT_BYTES: u64 = 96;

/// A moment inside a transaction to which it can return.
#[derive(Clone, Debug)]
pub struct Savepoint {
    pub(super) owner: LockOwner,
    pub(super) number: u64,
}

/// How far a transaction was at a savepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) undo: usize,
    pub(super) touched: TouchedCounts,
    pub(super) locks: usize,
    pub(super) stronger_locks: usize,
    pub(super) locked_rows: usize,
}

/// The savepoints of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    /// Numbers ascend.
    pub(super) alive: Vec<Mark>,
    pub(super) next_number: u64,
}

impl Savepoints {
    pub(super) fn has_any(&self) -> bool {
        !self.alive.is_empty()
    }

    pub(super) fn index_of(&self, number: u64) -> Option<usize> {
        self.alive.binary_search_by_key(&number, |mark| mark.number).ok()
    }

    pub(super) fn are_alive(&self) -> bool {
        !self.alive.is_empty()
    }

    /// How many tables had been touched at the innermost savepoint.
    pub(super) fn innermost(&self) -> TouchedCounts {
        self.alive.last().map(|mark| mark.touched).unwrap_or_default()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        SAVEPOINT_BYTES * bytes(self.alive.len())
    }
}

/// Why a transaction cannot go on.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) cause: String,
    pub(super) is_retryable: bool,
    /// Number of the savepoint that it has returned to; `None`: it has given up everything.
    pub(super) returned_to: Option<u64>,
}

impl Failed {
    pub(super) fn error(&self) -> Error {
        Error::TransactionFailed { cause: self.cause.clone() }
    }
}
