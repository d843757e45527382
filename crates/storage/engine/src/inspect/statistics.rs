//! Statistics of a database, as plain values.

pub(crate) mod open_metrics;
pub(crate) mod published;

use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_tree::{Encryption, PageProtection};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{HoldInfo, SegmentState};

use crate::archiver::ArchiveStatistics;
use crate::catalog::reclaim_counters::ReclaimStatistics;
use crate::checkpoint::statistics::CheckpointStatistics;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::decisions::AutomaticDecision;
use crate::inspect::commit_stages::CommitStages;
use crate::pacing::recovery_time::RecoveryTimeStatistics;
use crate::pacing::throttle::ThrottleStatistics;
use crate::recovery::statistics::RecoveryStatistics;
use crate::runs::merge_counters::MergeCounts;
use crate::runs::run::Runs;
use crate::standby::phases::Promotion;

/// What the database has done since it was opened, and holds now.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// No more writes are taken until the database is opened again: a write or a sync has failed.
    pub stopped: bool,
    /// The log.
    pub log: LogStatistics,
    /// Its files.
    pub segments: SegmentStatistics,
    /// Transactions and their commits.
    pub transactions: TransactionStatistics,
    /// Where the time of their commits goes.
    pub commit_stages: CommitStages,
    /// Transactions that were prepared.
    pub two_phase: TwoPhaseStatistics,
    /// Snapshots.
    pub snapshots: SnapshotStatistics,
    /// Rows changed since the last checkpoint.
    pub memtable: MemtableStatistics,
    /// Sorted runs beside the main part of the tree.
    pub runs: RunStatistics,
    /// Pages of the tree.
    pub cache: CacheStatistics,
    /// Checkpoints.
    pub checkpoints: CheckpointTotals,
    /// Space of dropped tables.
    pub reclaim: ReclaimStatistics,
    /// Writers held back, and why.
    pub throttle: ThrottleStatistics,
    /// The recovery at open.
    pub recovery: RecoveryStatistics,
    /// What a recovery would take now.
    pub recovery_time: RecoveryTimeStatistics,
    /// The promotion, if this was a standby when it was opened.
    pub promotion: Option<Promotion>,
    /// What has been archived, by each archive of the options, in their order.
    pub archives: Vec<ArchiveStatistics>,
}

/// The log, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// End of what is logged.
    pub appended: Lsn,
    /// End of what is durable.
    pub flushed: Lsn,
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// The longest that one batch of records took to become durable: who commits waits for his batch and the one before.
    pub batch_longest: Duration,
    /// Who holds the log, by name: from where on, how much, and whether the hold is lost.
    pub holds: Vec<HoldInfo>,
    /// Holds lost since the database was opened, because they held more than their limit.
    pub holds_lost: u64,
}

/// The files of the log, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatistics {
    /// Segments that hold records, or are about to.
    pub live: u64,
    /// Segments ready to be written.
    pub spare: u64,
    /// Segments that nobody needs and that are still there.
    pub unneeded: u64,
    /// Segments made ready by writing zeros.
    pub prepared: u64,
    /// Segments found beyond the end of the log when it was opened, and made ready again.
    pub cleaned: u64,
    /// Segments used again.
    pub recycled: u64,
    /// Segments removed.
    pub removed: u64,
    /// Batches in which segments were removed or recycled, with one sync of the directory each.
    pub clean_up_batches: u64,
    /// Files that could not be removed or renamed, each time that it was tried: the events say which.
    pub clean_up_failures: u64,
    /// Syncs of the log's directory: one for each of these batches, one for each segment made ready otherwise.
    pub directory_syncs: u64,
}

/// Transactions and their commits, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionStatistics {
    /// Snapshots taken now see this.
    pub visible: Lsn,
    /// Commits that are logged and not yet visible.
    pub commits_in_flight: u64,
    /// Threads that wait until commits are durable or visible: their own, or one that they have to see or have seen.
    pub commit_waiters: u64,
    /// Row locks held.
    pub locks_held: u64,
    /// Transactions that wait for one, or for the decision about an in-doubt transaction.
    pub lock_waiters: u64,
    /// Memory that open transactions have taken, of `memory.all_transactions_bytes`: what is beyond the first 4 KiB of each, in
    /// steps of 64 KiB.
    pub memory_bytes: u64,
}

/// Prepared transactions, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoPhaseStatistics {
    /// Transactions prepared and not decided.
    pub in_doubt: u64,
    /// Time since the oldest of them was prepared.
    pub oldest_in_doubt: Option<Duration>,
    /// Transactions prepared.
    pub prepared: u64,
    /// Prepared transactions committed.
    pub committed: u64,
    /// Prepared transactions rolled back.
    pub rolled_back: u64,
    /// Transactions that stayed in doubt for longer than a rule allows, and were reported.
    pub reported: u64,
}

/// Snapshots, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotStatistics {
    /// Snapshots alive.
    pub alive: u64,
    /// The oldest of them that is not cancelled.
    pub oldest: Option<Lsn>,
    /// Bytes of what is kept for old snapshots only: memtables that were merged, and values that the merge under way has
    /// replaced; at most `memory.snapshot_bytes` after a checkpoint.
    pub memory_bytes: u64,
    /// Times that the oldest snapshot was cancelled, because that was more.
    pub cancelled: u64,
}

/// Memtables, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableStatistics {
    /// Bytes of all memtables.
    pub bytes: u64,
    /// Rows in the active memtable.
    pub rows: u64,
    /// Frozen memtables: being merged, or kept for old snapshots.
    pub frozen: u64,
}

/// Sorted runs, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Runs that there are.
    pub count: u64,
    /// Rows in them when they were written, deletions included.
    pub rows: u64,
    /// Bytes of the keys and values of these rows.
    pub row_bytes: u64,
    /// Memory of their filters.
    pub filter_bytes: u64,
    /// Runs whose filter was not read yet, is damaged, or does not exist: each lookup reads their pages.
    pub unfiltered: u64,
    /// Parts of runs that were merged with each other since open.
    pub tier_slices: u64,
    /// Bytes written to the page file and the recovery file for these.
    pub tier_bytes: u64,
    /// Windows of the tree that were merged with what runs have there, since open.
    pub windows: u64,
    /// Bytes written to the page file and the recovery file for these.
    pub window_bytes: u64,
}

/// The cache of pages, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Bytes of cached pages, and of filters of leaves that lookups have read in vain.
    pub bytes: u64,
    /// Pages read from the page file.
    pub pages_read: u64,
}

/// All checkpoints since the database was opened, in numbers.
#[derive(Clone, Debug, Default)]
pub struct CheckpointTotals {
    /// Checkpoints completed.
    pub completed: u64,
    /// Checkpoints that failed.
    pub failed: u64,
    /// The last one completed.
    pub last: Option<CheckpointStatistics>,
    /// Where a recovery would start.
    pub redo_point: Lsn,
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
    pub oldest_in_doubt: Option<Duration>,
    /// What rules about them have decided, oldest first; nothing when the database is closed.
    pub automatic_decisions: Vec<AutomaticDecision>,
}

fn run_statistics(runs: &Runs, merged: MergeCounts) -> RunStatistics {
    let MergeCounts { tier_slices, tier_bytes, windows, window_bytes } = merged;
    let merged = RunStatistics { tier_slices, tier_bytes, windows, window_bytes, ..RunStatistics::default() };
    let mut statistics = RunStatistics { count: count(runs.len()), ..merged };
    for run in runs.iter() {
        statistics.rows += run.descriptor.rows;
        statistics.row_bytes += run.descriptor.row_bytes;
        match run.filter() {
            Some(filter) => statistics.filter_bytes += count(filter.bytes()),
            None => statistics.unfiltered += 1,
        }
    }
    statistics
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
        // Before the end of the log, which others move on meanwhile: what is visible is in the log.
        let transactions = self.transaction_statistics();
        Statistics {
            stopped: self.lifecycle.check_not_stopped().is_err(),
            log: self.log_statistics(),
            segments: self.segment_statistics(),
            transactions,
            commit_stages: self.counters.commit_stages.read(self.locks.waits.read()),
            two_phase: self.two_phase_statistics(),
            snapshots: SnapshotStatistics {
                alive: count(self.snapshots.count()),
                oldest: self.snapshots.oldest(),
                memory_bytes: view.kept_bytes(),
                cancelled: self.snapshots.cancelled_count(),
            },
            memtable: MemtableStatistics {
                bytes: view.bytes(),
                rows: count(view.active.row_count()),
                frozen: count(view.frozen.len()),
            },
            runs: run_statistics(&view.runs, self.counters.run_merges.counts()),
            cache: CacheStatistics {
                bytes: count(self.tree.pages().cache().resident_pages()) * self.page_bytes()
                    + count(self.tree.pages().leaf_filter_bytes()),
                pages_read: self.tree.pages().file().read_counts().reads,
            },
            checkpoints: CheckpointTotals {
                completed: self.counters.checkpoints.load(Ordering::Relaxed),
                failed: self.counters.checkpoint_failures.load(Ordering::Relaxed),
                last: self.counters.checkpoint_history.lock().last().cloned(),
                redo_point: self.redo.point(),
            },
            reclaim: self.counted_reclaim_statistics(self.page_bytes()),
            throttle: self.pacing.throttle_statistics(&self.fill()),
            recovery: self.counters.recovery.lock().clone(),
            recovery_time: self.pacing.recovery_time_statistics(self.redo_length()),
            promotion: *self.counters.promotion.lock(),
            archives: self.archive_statistics(),
        }
    }

    fn log_statistics(&self) -> LogStatistics {
        // In this order: what is durable was appended.
        let flushed = self.flushed();
        let appended = self.appended();
        let Some(log) = self.log.written() else {
            return LogStatistics { appended, flushed, ..LogStatistics::default() };
        };
        let counted = log.statistics();
        LogStatistics {
            appended,
            flushed,
            records: counted.records,
            bytes: counted.record_bytes,
            flushes: counted.flushes,
            batch_longest: counted.batch_time_longest,
            holds: log.holds(),
            holds_lost: counted.holds_lost,
        }
    }

    fn segment_statistics(&self) -> SegmentStatistics {
        let Some(log) = self.log.written() else { return SegmentStatistics::default() };
        let (counted, (live, spare), unneeded) =
            (log.statistics(), log.count_segments(), log.count_unneeded());
        SegmentStatistics {
            live: live.saturating_sub(unneeded),
            spare,
            unneeded,
            prepared: counted.segments_prepared,
            cleaned: counted.segments_cleaned,
            recycled: counted.segments_recycled,
            removed: counted.segments_removed,
            clean_up_batches: counted.clean_up_batches,
            clean_up_failures: counted.clean_up_failures,
            directory_syncs: counted.directory_syncs,
        }
    }

    fn transaction_statistics(&self) -> TransactionStatistics {
        let waiting_for_log = self.log.written().map_or(0, |log| log.waiting_count());
        TransactionStatistics {
            visible: self.visible(),
            commits_in_flight: self.queue.in_flight(),
            commit_waiters: self.queue.waiting_count() + waiting_for_log,
            locks_held: count(self.locks.held_count()),
            lock_waiters: count(self.locks.waiting_count()) + self.in_doubt.protected.waiting_count(),
            memory_bytes: self.transaction_memory.taken(),
        }
    }

    fn two_phase_statistics(&self) -> TwoPhaseStatistics {
        let counts = &self.in_doubt.counts;
        TwoPhaseStatistics {
            in_doubt: self.in_doubt.count(),
            oldest_in_doubt: self.oldest_in_doubt(),
            prepared: counts.prepared.load(Ordering::Relaxed),
            committed: counts.committed.load(Ordering::Relaxed),
            rolled_back: counts.rolled_back.load(Ordering::Relaxed),
            reported: counts.reported.load(Ordering::Relaxed),
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
            page_protection: match self.log.written() {
                Some(_) => self.options.checkpoint.page_protection,
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
