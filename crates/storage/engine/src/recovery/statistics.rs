//! Statistics of a recovery, during the run and afterwards.

use std::time::Duration;

use seawall_types::Lsn;

/// How far a recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Where it started.
    pub redo_point: Lsn,
    /// How far it has read.
    pub replayed: Lsn,
    /// The log ends at this LSN at the latest.
    pub end_at_most: Lsn,
    /// Time since it started.
    pub elapsed: Duration,
    /// Time until it ends, at the pace so far and at most.
    pub left_at_most: Duration,
}

/// A recovery, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStatistics {
    /// Where it started.
    pub redo_point: Lsn,
    /// Where the log ended.
    pub end_of_log: Lsn,
    /// Records read.
    pub records: u64,
    /// Of these, how many were not in the log's segments yet when the process before ended, but in its buffers only, the
    /// pending files.
    pub rescued_records: u64,
    /// Rows in all of them.
    pub rows: u64,
    /// Parts that were merged into the tree on the way, because the log was longer than the memory for it.
    pub merges: u64,
    /// Pages of the page file read: none, unless parts had to be merged. The root is not counted, which every open reads to
    /// see whether the page file is the one that the superblock belongs to.
    pub pages_read: u64,
    /// How long it took.
    pub duration: Duration,
    /// A copy of the superblock was damaged and has been, or will be, written anew.
    pub superblock_copy_damaged: bool,
    /// A chunk that a crash cut short was applied again.
    pub chunk_reapplied: bool,
}
