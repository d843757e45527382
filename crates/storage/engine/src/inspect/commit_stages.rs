//! Where the time of commits goes.
//!
//! ```text
//!   waits for locks | append: checks, room, LSN, rows into the memtable | flush | visible: commits ahead
//! ```
//! Waits for locks come while a transaction writes; the rest when it commits.

use super::durations::{DurationCounter, DurationHistogram};

/// Counts the stages of commits. Waits for locks are counted by the table of locks.
#[derive(Debug, Default)]
pub(crate) struct CommitStageCounters {
    pub(crate) append: DurationCounter,
    pub(crate) flush: DurationCounter,
    pub(crate) visible: DurationCounter,
}

/// How long the stages of commits took, since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStages {
    /// Waits for a lock that another transaction held: only those that had to wait.
    pub lock_wait: DurationHistogram,
    /// From the call of `commit` until the record has its place in the log and its rows are in the memtable. A throttled writer is
    /// delayed here.
    pub append: DurationHistogram,
    /// Until the record is durable. `Async` commits have no such stage.
    pub flush: DurationHistogram,
    /// Until the commit is visible: until all commits ahead of it are.
    pub visible: DurationHistogram,
}

impl CommitStageCounters {
    pub(crate) fn read(&self, lock_wait: DurationHistogram) -> CommitStages {
        CommitStages {
            lock_wait,
            append: self.append.read(),
            flush: self.flush.read(),
            visible: self.visible.read(),
        }
    }
}
