//! Statistics of a checkpoint: rows moved, bytes written, time per step.

use std::collections::VecDeque;
use std::time::Duration;

use seawall_tree::{AppliedChunk, ChunkStatistics};
use seawall_types::Lsn;

/// Checkpoints that are remembered.
pub(crate) const HISTORY_MAX: usize = 100;

/// Why a checkpoint was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The active memtable reached its share of `memory.memtable_bytes`, or would have before a merge of runs ended.
    MemtableFull,
    /// `checkpoint.log_bytes` of log lay behind the last one.
    LogVolume,
    /// A crash later on would have taken longer to recover from than `recovery.target`.
    RecoveryTarget,
    /// `checkpoint.interval` went by.
    Interval,
    /// A caller asked.
    Request,
    /// The database was closed.
    Close,
    /// What a recovery has replayed goes into the tree, or what a checkpoint that failed has left.
    Recovery,
}

impl Trigger {
    /// Its name, as statistics and the log line show it.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::MemtableFull => "memtable-full",
            Trigger::LogVolume => "log-volume",
            Trigger::RecoveryTarget => "recovery-target",
            Trigger::Interval => "interval",
            Trigger::Request => "request",
            Trigger::Close => "close",
            Trigger::Recovery => "recovery",
        }
    }
}

/// Where the time of a checkpoint went. Sums over its chunks, unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointDurations {
    /// Starting a new active memtable, with the wait for commits on their way into the old one. Commits wait for nothing else of a
    /// checkpoint, unless the memtable is full.
    pub freeze: Duration,
    /// Making the log durable past the freeze point.
    pub log_flush: Duration,
    /// Building the changed pages: rows of transactions in doubt, reading the old pages, merging, checksums.
    pub merge: Duration,
    /// Compressing page images and writing them to the recovery file.
    pub recovery_write: Duration,
    /// Making them durable.
    pub recovery_sync: Duration,
    /// Writing pages in place, fresh ones included, as far as it was waited for: with several threads one writes while the
    /// next chunk is merged.
    pub page_write: Duration,
    /// Making them durable.
    pub page_sync: Duration,
    /// Showing changed pages to readers, who do not wait: meanwhile they look through them before the cache.
    pub publish: Duration,
    /// The longest of these.
    pub publish_max: Duration,
    /// Resting between chunks, to stay below `checkpoint.io_limit`.
    pub paused: Duration,
    /// From the freeze to the end.
    pub total: Duration,
}

/// One checkpoint, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// Why it was started.
    pub trigger: Trigger,
    /// When it was started, in microseconds since 1970.
    pub started_micros: i64,
    /// Where replay started until it was done.
    pub redo_point_before: Lsn,
    /// The freeze point: where replay starts from now on.
    pub redo_point: Lsn,
    /// Rows merged into the tree, those of its run included.
    pub rows: u64,
    /// Rows of them that went into a sorted run.
    pub run_rows: u64,
    /// Bytes of the run's leaves; `page_file_bytes` has them, too.
    pub run_bytes: u64,
    /// Chunks applied.
    pub chunks: u64,
    /// Leaves built.
    pub leaves: u64,
    /// Interior pages built.
    pub interiors: u64,
    /// Pages read from the file, because the cache did not have them.
    pub pages_read: u64,
    /// Pages written once, without protection.
    pub fresh_pages: u64,
    /// Pages written with a second copy, in the recovery file or the log.
    pub protected_pages: u64,
    /// Pages that became free.
    pub freed_pages: u64,
    /// Tables cut out of the tree.
    pub tables_reclaimed: u64,
    /// Bytes written to the page file.
    pub page_file_bytes: u64,
    /// Bytes of the images that went to the recovery file or the log, before compression.
    pub image_bytes: u64,
    /// Bytes written to the recovery file, and page images appended to the log.
    pub recovery_file_bytes: u64,
    /// Bytes given back to the file system.
    pub punched_bytes: u64,
    /// The fullest that the active memtable was while it ran, in thousandths of what it may take. At 1000 writers wait.
    pub fill_highest_permille: u64,
    /// How long commits were delayed while it ran, all threads together.
    pub writers_delayed: Duration,
    /// From the freeze to the end.
    pub duration: Duration,
    /// Where the time went.
    pub durations: CheckpointDurations,
}

impl CheckpointStatistics {
    /// Pages written, with and without protection.
    pub fn pages_written(&self) -> u64 {
        self.fresh_pages + self.protected_pages
    }

    /// One line for the log.
    pub(crate) fn log_line(&self) {
        let durations = &self.durations;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            trigger = self.trigger.name(),
            redo_point_before = %self.redo_point_before,
            redo_point = %self.redo_point,
            rows = self.rows,
            run_rows = self.run_rows,
            run_bytes = self.run_bytes,
            chunks = self.chunks,
            pages_read = self.pages_read,
            fresh_pages = self.fresh_pages,
            protected_pages = self.protected_pages,
            freed_pages = self.freed_pages,
            image_bytes = self.image_bytes,
            recovery_file_bytes = self.recovery_file_bytes,
            page_file_bytes = self.page_file_bytes,
            fill_highest_permille = self.fill_highest_permille,
            writers_delayed_us = micros(self.writers_delayed),
            freeze_us = micros(durations.freeze),
            log_flush_us = micros(durations.log_flush),
            merge_us = micros(durations.merge),
            recovery_write_us = micros(durations.recovery_write),
            recovery_sync_us = micros(durations.recovery_sync),
            page_write_us = micros(durations.page_write),
            page_sync_us = micros(durations.page_sync),
            publish_max_us = micros(durations.publish_max),
            paused_us = micros(durations.paused),
            total_us = micros(durations.total),
            "checkpoint done"
        );
    }
}

/// The last checkpoints, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckpointHistory(VecDeque<CheckpointStatistics>);

impl CheckpointHistory {
    pub(crate) fn push(&mut self, statistics: CheckpointStatistics) {
        if self.0.len() == HISTORY_MAX {
            self.0.pop_front();
        }
        self.0.push_back(statistics);
    }

    pub(crate) fn last(&self) -> Option<&CheckpointStatistics> {
        self.0.back()
    }

    pub(crate) fn to_vec(&self) -> Vec<CheckpointStatistics> {
        self.0.iter().cloned().collect()
    }
}

/// Sums over the chunks of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    /// Of them those that went into a run.
    pub(crate) run_rows: u64,
    /// Bytes of its leaves.
    pub(crate) run_bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) chunk: ChunkStatistics,
    pub(crate) page_file_bytes: u64,
    pub(crate) recovery_file_bytes: u64,
    pub(crate) punched_bytes: u64,
    pub(crate) durations: CheckpointDurations,
}

impl Totals {
    pub(crate) fn add(&mut self, applied: &AppliedChunk) {
        let chunk = &applied.statistics;
        self.chunks += 1;
        self.chunk.leaves += chunk.leaves;
        self.chunk.interiors += chunk.interiors;
        self.chunk.fresh_pages += chunk.fresh_pages;
        self.chunk.protected_pages += chunk.protected_pages;
        self.chunk.freed_pages += chunk.freed_pages;
        self.page_file_bytes += applied.page_bytes;
        self.recovery_file_bytes += applied.recovery_bytes + applied.log_bytes;
        self.punched_bytes += applied.punched_bytes;
        let (sum, part) = (&mut self.durations, &applied.durations);
        sum.recovery_write += part.recovery_write;
        sum.recovery_sync += part.recovery_sync;
        sum.page_write += part.page_write;
        sum.page_sync += part.page_sync;
        sum.publish += part.publish;
        sum.publish_max = sum.publish_max.max(part.publish);
    }

    /// A run was written: rows, leaves with those of its filter, and the bytes of these.
    pub(crate) fn add_run(&mut self, rows: u64, leaves: u64, bytes: u64) {
        self.add_leaves(leaves, bytes);
        self.rows += rows;
        self.run_rows += rows;
        self.run_bytes += bytes;
    }

    /// Leaves were written that a chunk only links.
    pub(crate) fn add_leaves(&mut self, leaves: u64, bytes: u64) {
        self.chunk.leaves += leaves;
        self.chunk.fresh_pages += leaves;
        self.page_file_bytes += bytes;
    }

    /// Bytes written to page file and recovery file.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.page_file_bytes + self.recovery_file_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_are_remembered() {
        let mut history = CheckpointHistory::default();
        assert!(history.last().is_none());
        for number in 0..u64::try_from(HISTORY_MAX).unwrap() + 5 {
            history.push(CheckpointStatistics {
                trigger: Trigger::Request,
                started_micros: 0,
                redo_point_before: Lsn::ZERO,
                redo_point: Lsn::new(number),
                rows: 0,
                run_rows: 0,
                run_bytes: 0,
                chunks: 0,
                leaves: 0,
                interiors: 0,
                pages_read: 0,
                fresh_pages: 0,
                protected_pages: 0,
                freed_pages: 0,
                tables_reclaimed: 0,
                page_file_bytes: 0,
                image_bytes: 0,
                recovery_file_bytes: 0,
                punched_bytes: 0,
                fill_highest_permille: 0,
                writers_delayed: Duration::ZERO,
                duration: Duration::ZERO,
                durations: CheckpointDurations::default(),
            });
        }
        let kept = history.to_vec();
        assert_eq!(kept.len(), HISTORY_MAX);
        assert_eq!(kept[0].redo_point, Lsn::new(5));
        assert_eq!(history.last().unwrap().redo_point, Lsn::new(104));
    }
}
