//! How a standby applies: whether at all, how far behind, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::WaitWord;
use seawall_sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{LogRecord, Record};

use crate::error::Error;

/// Records applied since open, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedRecords {
    /// Transactions committed in one step.
    pub commits: u64,
    /// Transactions prepared.
    pub prepares: u64,
    /// Prepared transactions committed.
    pub commits_prepared: u64,
    /// Prepared transactions rolled back.
    pub rollbacks_prepared: u64,
    /// Records that change nothing here, such as notes of the primary's checkpoints.
    pub others: u64,
}

/// A standby, in numbers.
#[derive(Clone, Debug)]
pub struct StandbyStatistics {
    /// The timeline that is followed.
    pub timeline: TimelineId,
    /// Where the next byte of the log goes: all before has come.
    pub received: Lsn,
    /// All before is durable here.
    pub flushed: Lsn,
    /// All before is seen by new snapshots.
    pub applied: Lsn,
    /// Records applied since open.
    pub records: AppliedRecords,
    /// Rows put or deleted by them.
    pub rows: u64,
    /// Bytes of log applied since open.
    pub bytes: u64,
    /// Time spent on that. With the counts above: how fast this server applies when it has something to apply.
    pub busy: Duration,
    /// When the last transaction ended that was applied since open, by the clock of the server that wrote it: microseconds since 1970.
    pub last_end_micros: Option<i64>,
    /// Applying rests until it is resumed.
    pub paused: bool,
    /// How old a commit is at least when it is applied.
    pub delay: Duration,
    /// Why the last attempt to apply failed, if it did.
    pub last_error: Option<Error>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ApplyControl {
    is_paused: AtomicBool,
    delay_micros: AtomicU64,
    /// A copy needs the log up to here; 0: it is whole.
    copied_until: AtomicU64,
    /// Changes when a thread that waits for something to become visible is to look.
    pub(crate) applied: Arc<WaitWord>,
    pub(crate) counters: ApplyCounters,
}

/// Counted by the one who has the turn to apply.
#[derive(Debug, Default)]
pub(crate) struct ApplyCounters {
    commits: AtomicU64,
    prepares: AtomicU64,
    commits_prepared: AtomicU64,
    rollbacks_prepared: AtomicU64,
    others: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    busy_micros: AtomicU64,
    /// 0: none.
    last_end_micros: AtomicI64,
}

impl ApplyControl {
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    /// Up to where a copy of a running database needs the log, as long as that is not applied.
    pub(crate) fn copied_until(&self) -> Option<Lsn> {
        Some(Lsn::new(self.copied_until.load(Ordering::SeqCst))).filter(|end| *end != Lsn::ZERO)
    }

    /// The database is a copy that needs the log up to `end`.
    pub(crate) fn need_until(&self, end: Lsn) {
        self.copied_until.store(end.get(), Ordering::SeqCst);
    }

    /// The copy is whole.
    pub(crate) fn need_no_more(&self) {
        self.need_until(Lsn::ZERO);
    }

    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
    }

    pub(crate) fn resume(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    pub(crate) fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_micros.load(Ordering::SeqCst))
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_micros.store(micros, Ordering::SeqCst);
    }
}

// Relaxed throughout: counts that nothing is ordered by.
impl ApplyCounters {
    /// A record was applied.
    pub(crate) fn count(&self, record: &Record<'_>) {
        let counter = match record {
            Record::Commit(_) => &self.commits,
            Record::Prepare(_) => &self.prepares,
            Record::CommitPrepared(_) => &self.commits_prepared,
            Record::RollbackPrepared(_) => &self.rollbacks_prepared,
            Record::Checkpoint(_)
            | Record::TimelineSwitch(_)
            | Record::RestorePoint(_)
            | Record::NoOp
            | Record::PageImages(_)
            | Record::BulkLoad(_) => &self.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(micros) = end_micros(record) {
            self.last_end_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// A step has applied so many rows from so many bytes of log.
    pub(crate) fn count_step(&self, rows: u64, bytes: u64, busy: Duration) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        self.busy_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn records(&self) -> AppliedRecords {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AppliedRecords {
            commits: read(&self.commits),
            prepares: read(&self.prepares),
            commits_prepared: read(&self.commits_prepared),
            rollbacks_prepared: read(&self.rollbacks_prepared),
            others: read(&self.others),
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn last_end_micros(&self) -> Option<i64> {
        Some(self.last_end_micros.load(Ordering::Relaxed)).filter(|micros| *micros != 0)
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_micros(self.busy_micros.load(Ordering::Relaxed))
    }
}

/// When a transaction ended, by its record of that.
fn end_micros(record: &Record<'_>) -> Option<i64> {
    match record {
        Record::Commit(commit) => Some(commit.time_micros),
        Record::CommitPrepared(decision) | Record::RollbackPrepared(decision) => {
            Some(decision.commit.time_micros)
        }
        Record::Prepare(_)
        | Record::Checkpoint(_)
        | Record::TimelineSwitch(_)
        | Record::RestorePoint(_)
        | Record::NoOp
        | Record::PageImages(_)
        | Record::BulkLoad(_) => None,
    }
}

/// How long a record has to wait that is to be applied `delay` after its commit; `None` if it is due, or says no time.
pub(crate) fn time_left(found: &LogRecord<'_>, delay: Duration, now_micros: i64) -> Option<Duration> {
    // What does not decode is for the one who applies to report.
    let committed_micros = found.decode().ok().and_then(|record| end_micros(&record))?;
    let due_micros = committed_micros.saturating_add_unsigned(u64::try_from(delay.as_micros()).ok()?);
    let left = u64::try_from(due_micros.saturating_sub(now_micros)).ok().filter(|left| *left > 0)?;
    // A clock that jumps makes nothing wait for longer than it was to.
    Some(Duration::from_micros(left).min(delay))
}
