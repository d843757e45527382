//! What kinds of records a replay has read, and how long each kind took: a kind that replays more slowly than the others shows here.
//!
//! The time of one record in `SAMPLED` is measured, and stands for the others: two looks at the clock for each would cost more than
//! many a record.

use std::time::Duration;

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_wal::Record;

use crate::catalog::FIRST_USER_TABLE;

/// Of so many records of a kind one is timed.
const SAMPLED: u64 = 16;

/// Records of one kind that were replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayedKind {
    /// How many.
    pub records: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// What replaying them took, of the thread that reads the log; an estimate from some of them.
    pub busy: Duration,
}

/// Replayed records, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayedRecords {
    /// Transactions that changed rows of tables only.
    pub commits: ReplayedKind,
    /// Transactions that created, dropped, truncated, renamed or altered tables.
    pub definitions: ReplayedKind,
    /// Transactions prepared.
    pub prepares: ReplayedKind,
    /// Prepared transactions committed.
    pub commits_prepared: ReplayedKind,
    /// Prepared transactions rolled back.
    pub rollbacks_prepared: ReplayedKind,
    /// Records without rows, such as notes of checkpoints.
    pub others: ReplayedKind,
}

impl ReplayedRecords {
    /// Each kind with its name, as metrics show it.
    pub fn by_name(&self) -> [(&'static str, ReplayedKind); 6] {
        [
            ("commit", self.commits),
            ("definition", self.definitions),
            ("prepare", self.prepares),
            ("commit-prepared", self.commits_prepared),
            ("rollback-prepared", self.rollbacks_prepared),
            ("other", self.others),
        ]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Commit,
    Definition,
    Prepare,
    CommitPrepared,
    RollbackPrepared,
    Other,
}

impl RecordKind {
    pub(crate) fn of(record: &Record<'_>) -> RecordKind {
        match record {
            Record::Commit(commit) => {
                // Rows of the catalog come first.
                let first = commit.changes().next().and_then(Result::ok);
                let is_definition = first.is_some_and(|change| change.table().get() < FIRST_USER_TABLE);
                if is_definition { RecordKind::Definition } else { RecordKind::Commit }
            }
            Record::Prepare(_) => RecordKind::Prepare,
            Record::CommitPrepared(_) => RecordKind::CommitPrepared,
            Record::RollbackPrepared(_) => RecordKind::RollbackPrepared,
            Record::Checkpoint(_)
            | Record::TimelineSwitch(_)
            | Record::RestorePoint(_)
            | Record::NoOp
            | Record::PageImages(_)
            | Record::BulkLoad(_) => RecordKind::Other,
        }
    }
}

/// Counted by the thread that replays; read by others. `Relaxed`: each count is right on its own.
#[derive(Debug, Default)]
pub(crate) struct KindCounters([KindCounter; 6]);

#[derive(Debug, Default)]
struct KindCounter {
    records: AtomicU64,
    bytes: AtomicU64,
    sampled: AtomicU64,
    sampled_nanos: AtomicU64,
}

impl KindCounters {
    fn of(&self, kind: RecordKind) -> &KindCounter {
        &self.0[kind as usize]
    }

    /// Whether the next record of the kind is to be timed.
    pub(crate) fn is_sampled(&self, kind: RecordKind) -> bool {
        self.of(kind).records.load(Ordering::Relaxed).is_multiple_of(SAMPLED)
    }

    /// A record was replayed; how long it took, if it was timed.
    pub(crate) fn count(&self, kind: RecordKind, bytes: u64, took: Option<Duration>) {
        let counter = self.of(kind);
        counter.records.fetch_add(1, Ordering::Relaxed);
        counter.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(took) = took {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            counter.sampled.fetch_add(1, Ordering::Relaxed);
            counter.sampled_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> ReplayedRecords {
        let of = |kind| self.of(kind).read();
        ReplayedRecords {
            commits: of(RecordKind::Commit),
            definitions: of(RecordKind::Definition),
            prepares: of(RecordKind::Prepare),
            commits_prepared: of(RecordKind::CommitPrepared),
            rollbacks_prepared: of(RecordKind::RollbackPrepared),
            others: of(RecordKind::Other),
        }
    }
}

impl KindCounter {
    fn read(&self) -> ReplayedKind {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (records, sampled) = (read(&self.records), read(&self.sampled));
        let nanos = u128::from(read(&self.sampled_nanos)) * u128::from(records) / u128::from(sampled.max(1));
        ReplayedKind {
            records,
            bytes: read(&self.bytes),
            busy: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_records_stand_for_all_of_their_kind() {
        let counters = KindCounters::default();
        for number in 0..100 {
            let sampled = counters.is_sampled(RecordKind::Definition);
            assert_eq!(sampled, number % SAMPLED == 0);
            counters.count(RecordKind::Definition, 10, sampled.then_some(Duration::from_micros(5)));
        }
        let seen = counters.read();
        let wanted = ReplayedKind { records: 100, bytes: 1000, busy: Duration::from_micros(500) };
        assert_eq!((seen.definitions, seen.commits), (wanted, ReplayedKind::default()));
        assert_eq!(seen.by_name()[1], ("definition", wanted));
    }
}
