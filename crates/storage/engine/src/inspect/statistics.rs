//! What a database has done and what it is, as plain values.

pub(crate) mod open_metrics;
pub(crate) mod published;

use std::sync::atomic::Ordering;

use seawall_tree::{Encryption, PageProtection};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{HoldInfo, SegmentState};

use crate::archiver::ArchiveStatistics;
use crate::catalog::reclaim_counters::ReclaimStatistics;
use crate::checkpoint::statistics::CheckpointStatistics;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::decisions::AutomaticDecision;
use crate::pacing::recovery_time::RecoveryTimeStatistics;
use crate::pacing::throttle::ThrottleStatistics;
use crate::recovery::statistics::RecoveryStatistics;

/// What the database has done since it was opened, and holds now.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// No more writes are taken until the database is opened again: a write or a sync has failed.
    pub stopped: bool,
    /// End of what is logged.
    pub appended: Lsn,
    /// End of what is durable.
    pub flushed: Lsn,
    /// Snapshots taken now see this.
    pub visible: Lsn,
    /// Where a recovery would start.
    pub redo_point: Lsn,
    /// Commits that are logged and not yet visible.
    pub commits_in_flight: u64,
    /// Threads that wait until commits are durable or visible: their own, or one that they have to see or have seen.
    pub commit_waiters: u64,
    /// Row locks held.
    pub locks_held: u64,
    /// Transactions that wait for one, or for the decision about an in-doubt transaction.
    pub lock_waiters: u64,
    /// Memory that open transactions have taken, of `transaction_memory_bytes`: what is beyond the first 4 KiB of each, in
    /// steps of 64 KiB.
    pub transaction_memory_bytes: u64,
    /// Snapshots alive.
    pub snapshots: u64,
    /// The oldest of them that is not cancelled.
    pub oldest_snapshot: Option<Lsn>,
    /// Bytes of what is kept for old snapshots only: memtables that were merged, and values that the merge under way has
    /// replaced; at most `snapshot_memory_bytes` after a checkpoint.
    pub snapshot_memory_bytes: u64,
    /// Times that the oldest snapshot was cancelled, because that was more.
    pub snapshots_cancelled: u64,
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Rows in the active memtable.
    pub memtable_rows: u64,
    /// Frozen memtables: being merged, or kept for old snapshots.
    pub frozen_memtables: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub checkpoint_failures: u64,
    /// The last one completed.
    pub last_checkpoint: Option<CheckpointStatistics>,
    /// Space of dropped tables.
    pub reclaim: ReclaimStatistics,
    /// Writers held back, and why.
    pub throttle: ThrottleStatistics,
    /// The recovery at open.
    pub recovery: RecoveryStatistics,
    /// What a recovery would take now.
    pub recovery_time: RecoveryTimeStatistics,
    /// Transactions prepared and not decided.
    pub in_doubt: u64,
    /// Time since the oldest of them was prepared.
    pub oldest_in_doubt: Option<std::time::Duration>,
    /// Transactions prepared.
    pub prepared: u64,
    /// Prepared transactions committed.
    pub prepared_committed: u64,
    /// Prepared transactions rolled back.
    pub prepared_rolled_back: u64,
    /// Transactions that stayed in doubt for longer than a rule allows, and were reported.
    pub in_doubt_reported: u64,
    /// Records appended to the log.
    pub log_records: u64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
    /// Flushes of the log.
    pub log_flushes: u64,
    /// The longest that one batch of records took to become durable: who commits waits for his batch and the one before.
    pub log_batch_longest: std::time::Duration,
    /// Log segments made ready by writing zeros.
    pub segments_prepared: u64,
    /// Log segments found beyond the end of the log when it was opened, and made ready again.
    pub segments_cleaned: u64,
    /// Log segments used again.
    pub segments_recycled: u64,
    /// Log segments removed.
    pub segments_removed: u64,
    /// Log segments that nobody needs and that are still there.
    pub segments_unneeded: u64,
    /// Log segments that hold records, or are about to.
    pub segments_live: u64,
    /// Log segments ready to be written.
    pub segments_spare: u64,
    /// Batches in which segments were removed or recycled, with one sync of the directory each.
    pub log_clean_up_batches: u64,
    /// Log files that could not be removed or renamed, each time that it was tried: the events say which.
    pub log_clean_up_failures: u64,
    /// Syncs of the log's directory: one for each of these batches, one for each segment made ready otherwise.
    pub log_directory_syncs: u64,
    /// Who holds the log, by name: from where on, how much, and whether the hold is lost.
    pub log_holds: Vec<HoldInfo>,
    /// Holds lost since the database was opened, because they held more than their limit.
    pub log_holds_lost: u64,
    /// What has been archived, by each archive of the options, in their order.
    pub archives: Vec<ArchiveStatistics>,
    /// Pages read from the page file.
    pub pages_read: u64,
    /// Bytes of cached pages.
    pub cache_bytes: u64,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Name of the file in `log/`.
    pub name: String,
    /// LSN of its first record byte.
    pub first_lsn: Lsn,
    /// What it is good for.
    pub state: SegmentState,
}

impl From<seawall_wal::SegmentInfo> for SegmentInfo {
    fn from(segment: seawall_wal::SegmentInfo) -> SegmentInfo {
        let seawall_wal::SegmentInfo { name, first_lsn, state } = segment;
        SegmentInfo { name: name.file_name(), first_lsn, state }
    }
}

/// What a database is.
#[derive(Clone, Debug)]
pub struct DatabaseInfo {
    /// Its id.
    pub database: DatabaseId,
    /// Whether what users store is encrypted on disk.
    pub encrypted: bool,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Where its checkpoints put the second copy of the pages that they overwrite; if it is open read-only, where the
    /// last one did.
    pub page_protection: PageProtection,
    /// Size of a log segment in bytes.
    pub segment_bytes: u64,
    /// The timeline it writes.
    pub timeline: TimelineId,
    /// Where a recovery would start.
    pub redo_point: Lsn,
    /// End of the log.
    pub end_of_log: Lsn,
    /// Checkpoints since the database was created.
    pub checkpoint_count: u64,
    /// When it was created, in microseconds since 1970.
    pub created_micros: i64,
    /// Bytes of the page file.
    pub page_file_bytes: u64,
    /// Files of the log, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Who holds the log besides recovery, by name.
    pub log_holds: Vec<HoldInfo>,
    /// What a recovery would take now.
    pub recovery_time: RecoveryTimeStatistics,
    /// The last 100 checkpoints, oldest first.
    pub recent_checkpoints: Vec<CheckpointStatistics>,
    /// Transactions prepared and not decided.
    pub in_doubt: u64,
    /// Time since the oldest of them was prepared.
    pub oldest_in_doubt: Option<std::time::Duration>,
    /// What rules about them have decided, oldest first; nothing when the database is closed.
    pub automatic_decisions: Vec<AutomaticDecision>,
}

fn count(number: usize) -> u64 {
    u64::try_from(number).expect("a count of things in memory fits into 64 bits")
}

impl Engine {
    pub(crate) fn statistics(&self) -> Statistics {
        Statistics { reclaim: self.reclaim_statistics(self.page_bytes()), ..self.counted_statistics() }
    }

    /// As `statistics`, without a look into the catalog: how many dropped tables wait is known after the first checkpoint.
    pub(crate) fn counted_statistics(&self) -> Statistics {
        let view = self.view();
        let log = self.log.as_ref().map(|log| log.statistics()).unwrap_or_default();
        let (live, spare) = self.log.as_ref().map(|log| log.count_segments()).unwrap_or_default();
        let unneeded = self.log.as_ref().map_or(0, |log| log.count_unneeded());
        Statistics {
            stopped: self.lifecycle.check_not_stopped().is_err(),
            appended: self.appended(),
            flushed: self.flushed(),
            visible: self.visible(),
            redo_point: self.redo.point(),
            commits_in_flight: self.queue.in_flight(),
            commit_waiters: self.queue.waiting_count()
                + self.log.as_ref().map_or(0, |log| log.waiting_count()),
            locks_held: count(self.locks.held_count()),
            lock_waiters: count(self.locks.waiting_count()) + self.in_doubt.protected.waiting_count(),
            transaction_memory_bytes: self.transaction_memory.taken(),
            snapshots: count(self.snapshots.count()),
            oldest_snapshot: self.snapshots.oldest(),
            snapshot_memory_bytes: view.kept_bytes(),
            snapshots_cancelled: self.snapshots.cancelled_count(),
            memtable_bytes: view.bytes(),
            memtable_rows: count(view.active.row_count()),
            frozen_memtables: count(view.frozen.len()),
            checkpoints: self.counters.checkpoints.load(Ordering::Relaxed),
            checkpoint_failures: self.counters.checkpoint_failures.load(Ordering::Relaxed),
            last_checkpoint: self.counters.checkpoint_history.lock().last().cloned(),
            reclaim: self.counted_reclaim_statistics(self.page_bytes()),
            throttle: self.pacing.throttle_statistics(&self.fill()),
            recovery: self.counters.recovery.lock().clone(),
            recovery_time: self.pacing.recovery_time_statistics(self.redo_length()),
            in_doubt: self.in_doubt.count(),
            oldest_in_doubt: self.oldest_in_doubt(),
            prepared: self.in_doubt.counts.prepared.load(Ordering::Relaxed),
            prepared_committed: self.in_doubt.counts.committed.load(Ordering::Relaxed),
            prepared_rolled_back: self.in_doubt.counts.rolled_back.load(Ordering::Relaxed),
            in_doubt_reported: self.in_doubt.counts.reported.load(Ordering::Relaxed),
            log_records: log.records,
            log_bytes: log.record_bytes,
            log_flushes: log.flushes,
            log_batch_longest: log.batch_time_longest,
            segments_prepared: log.segments_prepared,
            segments_cleaned: log.segments_cleaned,
            segments_recycled: log.segments_recycled,
            segments_removed: log.segments_removed,
            segments_unneeded: unneeded,
            segments_live: live.saturating_sub(unneeded),
            segments_spare: spare,
            log_clean_up_batches: log.clean_up_batches,
            log_clean_up_failures: log.clean_up_failures,
            log_directory_syncs: log.directory_syncs,
            log_holds: self.log.as_ref().map(|log| log.holds()).unwrap_or_default(),
            log_holds_lost: log.holds_lost,
            archives: self.archive_statistics(),
            pages_read: self.tree.pages().file().read_counts().reads,
            cache_bytes: count(self.tree.pages().cache().resident_pages()) * self.page_bytes(),
        }
    }

    fn page_bytes(&self) -> u64 {
        count(self.tree.format().page_bytes())
    }

    pub(crate) fn info(&self) -> Result<DatabaseInfo, Error> {
        let superblock = self.redo.superblock();
        let end_of_log = self.appended();
        let needed = self.log_needed_from()?;
        let files = crate::recovery::timeline::list_log_files(&self.environment.disk, &superblock)?;
        let segments = files.segments(needed, end_of_log).into_iter().map(SegmentInfo::from).collect();
        Ok(DatabaseInfo {
            database: superblock.database,
            encrypted: superblock.encryption != Encryption::None,
            page_bytes: u64::from(superblock.page_bytes),
            page_protection: match &self.log {
                Some(_) => self.options.page_protection,
                None => superblock.protection,
            },
            segment_bytes: superblock.segment_bytes,
            timeline: superblock.timeline,
            redo_point: superblock.redo_point,
            end_of_log,
            checkpoint_count: superblock.checkpoint_count,
            created_micros: superblock.created_micros,
            page_file_bytes: self.tree.pages().file().page_count() * self.page_bytes(),
            segments,
            log_holds: self.log_holds()?,
            recovery_time: self.pacing.recovery_time_statistics(self.redo_length()),
            recent_checkpoints: self.counters.checkpoint_history.lock().to_vec(),
            in_doubt: self.in_doubt.count(),
            oldest_in_doubt: self.oldest_in_doubt(),
            automatic_decisions: match self.automatic_decisions() {
                Err(Error::Closed) => Vec::new(),
                decisions => decisions?,
            },
        })
    }
}
