//! Statistics of a recovery, during the run and afterwards.

use std::time::Duration;

use seawall_io::Clock;
use seawall_types::Lsn;

use crate::recovery::record_kinds::ReplayedRecords;

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

/// How long the parts of opening a database took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenPhases {
    /// Reading the superblock, writing a chunk again that a crash cut short, and reading the root of the tree.
    pub tree: Duration,
    /// Replaying the log.
    pub replay: Duration,
    /// Making the log ready to be written, or to receive: what lies behind its end is cut off. Where a new timeline begins, that.
    pub log: Duration,
    /// Taking the locks of transactions in doubt, and what else was open.
    pub in_doubt: Duration,
    /// Holds on the log, archives, threads.
    pub services: Duration,
    /// All of it.
    pub total: Duration,
}

impl OpenPhases {
    /// Each part with its name, as metrics show it.
    pub fn by_name(&self) -> [(&'static str, Duration); 5] {
        [
            ("tree", self.tree),
            ("replay", self.replay),
            ("log", self.log),
            ("in-doubt", self.in_doubt),
            ("services", self.services),
        ]
    }
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
    /// The records, by what they are, and how long each kind took.
    pub by_kind: ReplayedRecords,
    /// How long the parts of opening took, of which the recovery is one.
    pub phases: OpenPhases,
    /// A copy of the superblock was damaged and has been, or will be, written anew.
    pub superblock_copy_damaged: bool,
    /// A chunk that a crash cut short was applied again.
    pub chunk_reapplied: bool,
}

impl RecoveryStatistics {
    /// One line for the log, when the database is open.
    pub(crate) fn log_line(&self) {
        let phases = &self.phases;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            tree_us = micros(phases.tree),
            replay_us = micros(phases.replay),
            log_us = micros(phases.log),
            in_doubt_us = micros(phases.in_doubt),
            services_us = micros(phases.services),
            total_us = micros(phases.total),
            "database open"
        );
    }
}

/// Time from one moment to the next.
pub(crate) struct Lap<'c> {
    clock: &'c dyn Clock,
    last: Duration,
}

impl Lap<'_> {
    /// Begins now.
    pub(crate) fn new(clock: &dyn Clock) -> Lap<'_> {
        Lap { clock, last: clock.monotonic() }
    }

    /// Time since the last call, or since the beginning.
    pub(crate) fn next(&mut self) -> Duration {
        let now = self.clock.monotonic();
        let took = now.saturating_sub(self.last);
        self.last = now;
        took
    }
}
