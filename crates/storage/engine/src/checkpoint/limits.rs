//! When a checkpoint starts: a limit is reached, or the interval is over.

use std::time::Duration;

use seawall_types::Lsn;

use crate::catalog::dropped_tables;
use crate::checkpoint::statistics::Trigger;
use crate::engine::Engine;
use crate::pacing::recovery_time::RedoLength;

impl Engine {
    /// Bytes that the active memtable may hold.
    pub(crate) fn active_limit(&self) -> u64 {
        self.options.memory.memtable_bytes / 2
    }

    /// Which limit is reached, if any.
    pub(crate) fn limit_reached(&self) -> Option<Trigger> {
        let limit = self.active_limit();
        // Where writers were slowed to the end, the next checkpoint starts at once: to let them go until the memtable is
        // full, and then slow them again, would be a swing.
        let saved = if self.pacing.is_saturated() { limit / 8 } else { 0 };
        // And a merge that begins before the memtable is full must not end after that.
        if self.active_bytes() >= limit - saved.max(self.pacing.merge_fill()) {
            return Some(Trigger::MemtableFull);
        }
        if self.redo.log_bytes(self.end_to_recover()) >= self.options.checkpoint.log_bytes {
            return Some(Trigger::LogVolume);
        }
        self.pacing.is_checkpoint_due().then_some(Trigger::RecoveryTarget)
    }

    pub(crate) fn active_bytes(&self) -> u64 {
        let rows = u64::try_from(self.view().active.bytes_used()).unwrap_or(u64::MAX);
        // The checkpoint writes drops out in memory.
        let written_out = self.counters.reclaim.given_up_since_freeze() * dropped_tables::WRITTEN_OUT_BYTES;
        rows.saturating_add(written_out).saturating_add(self.view().prepared.bytes())
    }

    /// Where the log ends that a checkpoint can pass: what was received and is not applied yet does not count.
    fn end_to_recover(&self) -> Lsn {
        match self.log.received() {
            Some(_) => self.queue.last_entered(),
            None => self.appended(),
        }
    }

    /// What a recovery would have to replay now.
    pub(crate) fn redo_length(&self) -> RedoLength {
        let rows = self.queue.logged_rows().saturating_sub(self.pacing.rows_at_redo());
        RedoLength { rows, bytes: self.redo.log_bytes(self.end_to_recover()) }
    }

    /// `Interval`, if it is over and there is something to merge, or a dropped table to cut out that a snapshot had kept;
    /// at once where the last checkpoint cut out as many tables as it may, and left more.
    pub(crate) fn interval_over(&self) -> Option<Trigger> {
        if self.counters.reclaim.take_more() {
            return Some(Trigger::Interval);
        }
        self.is_interval_over().then_some(Trigger::Interval)
    }

    /// Whether a checkpoint is due because the interval is over.
    pub(crate) fn is_interval_over(&self) -> bool {
        let view = self.view();
        let changed = !view.is_active_empty() || view.unmerged().is_some();
        let has_work = changed || self.counters.reclaim.has_due(self.horizon());
        has_work && self.time_to_checkpoint().is_zero()
    }

    /// Time until the interval is over.
    pub(crate) fn time_to_checkpoint(&self) -> Duration {
        let Some(state) = self.checkpoint_turn.try_take() else { return self.options.checkpoint.interval };
        let since = self.clock().monotonic().saturating_sub(state.last_end);
        self.options.checkpoint.interval.saturating_sub(since)
    }
}
