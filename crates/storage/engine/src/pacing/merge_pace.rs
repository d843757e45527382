//! The pace of a checkpoint: its progress, which paces writers, and its own write rate.

use std::time::Duration;

use crate::engine::Engine;
use crate::pacing::pace::{MergeSpeed, number, share};
use crate::snapshots::view::Frozen;

/// A pause of the checkpoint is cut into pieces of this length, so that it ends soon after its reason has.
const PAUSE: Duration = Duration::from_millis(5);
/// A checkpoint of less than this part of the memory for memtables does not say how fast large ones are.
const LEARNT_FROM_SHARE: u64 = 16;

/// The progress of one merge.
pub(crate) struct MergePace<'e> {
    engine: &'e Engine,
    speed: MergeSpeed,
    all: u64,
    bytes: u64,
    done: u64,
    started: Duration,
    paused: Duration,
    /// From the beginning to the last chunk, without pauses.
    merging: Duration,
    /// How long commits had been delayed when it began.
    delayed_before: Duration,
}

impl<'e> MergePace<'e> {
    pub(crate) fn begin(engine: &'e Engine, frozen: &Frozen) -> MergePace<'e> {
        let pace = MergePace {
            engine,
            speed: *engine.pacing.merge_speed.lock(),
            all: count(frozen.memtable.row_count()),
            bytes: count(frozen.memtable.bytes_used()).saturating_add(frozen.prepared.bytes()),
            done: 0,
            started: engine.clock().monotonic(),
            paused: Duration::ZERO,
            merging: Duration::ZERO,
            delayed_before: engine.pacing.delayed(),
        };
        engine.pacing.begin_fill();
        pace.report();
        pace
    }

    /// The memtable has got the rows that drops in it stand for.
    pub(crate) fn count_all(&mut self, frozen: &Frozen) {
        self.all = count(frozen.memtable.row_count());
        self.bytes = count(frozen.memtable.bytes_used());
    }

    /// A chunk was applied; `done` rows and `written_bytes` in all, so far. Rests if the checkpoint writes too fast.
    pub(crate) fn chunk_done(&mut self, done: u64, written_bytes: u64) {
        self.engine.pacing.progress.count_chunk();
        self.rows_done(done, written_bytes);
    }

    /// As `chunk_done`, between two chunks.
    pub(crate) fn rows_done(&mut self, done: u64, written_bytes: u64) {
        self.done = done;
        self.merging = self.elapsed().saturating_sub(self.paused);
        self.report();
        self.engine.pacing.room.has_changed();
        self.rest(written_bytes);
    }

    /// The fullest that the active memtable has been since the beginning, as far as anybody has looked.
    pub(crate) fn fill_highest_permille(&self) -> u64 {
        self.engine.pacing.pace_writers(|| self.engine.fill());
        self.engine.pacing.fill_highest_permille()
    }

    /// How long commits were delayed since the beginning, all threads together.
    pub(crate) fn writers_delayed(&self) -> Duration {
        self.engine.pacing.delayed().saturating_sub(self.delayed_before)
    }

    fn elapsed(&self) -> Duration {
        self.engine.clock().monotonic().saturating_sub(self.started)
    }

    fn progress(&self) -> f64 {
        share(self.done, self.all).min(1.0)
    }

    fn report(&self) {
        let (left, total) = self.speed.estimate(self.all, self.bytes, self.done, self.merging);
        self.engine.pacing.progress.set(self.progress(), left, total);
        self.engine.pacing.pace_writers(|| self.engine.fill());
    }

    /// Keeps to `checkpoint.io_limit`, unless that would slow writers or a thread waits for the checkpoint to end.
    fn rest(&mut self, written_bytes: u64) {
        let limit = self.engine.options.checkpoint.io_limit;
        if limit == 0 {
            return;
        }
        let due = Duration::from_secs_f64(number(written_bytes) / number(limit));
        while self.elapsed() < due && !self.is_urgent() {
            let before = self.elapsed();
            self.engine.clock().sleep(PAUSE.min(due.saturating_sub(before)));
            self.paused += self.elapsed().saturating_sub(before);
        }
    }

    fn is_urgent(&self) -> bool {
        let engine = self.engine;
        let fill = share(engine.active_bytes(), engine.active_limit());
        engine.background.stopping()
            || engine.lifecycle.check_open().is_err()
            || engine.checkpoint_turn.is_wanted()
            || fill > self.progress().max(0.25)
            || engine.pacing.is_checkpoint_due()
    }

    /// The checkpoint has ended after `total`: the next one is expected to be as fast.
    pub(crate) fn learn(&self, total: Duration) {
        if self.bytes >= self.engine.options.memory.memtable_bytes / LEARNT_FROM_SHARE {
            self.engine.pacing.run_debt.learn(self.bytes, total.saturating_sub(self.paused).as_secs_f64());
        }
        let mut speed = self.engine.pacing.merge_speed.lock();
        speed.learn(self.done, self.merging, total.saturating_sub(self.paused));
    }

    pub(crate) fn paused(&self) -> Duration {
        self.paused
    }
}

impl Engine {
    /// Runs were merged since `started`, for which so many bytes were written. Keeps to `checkpoint.io_limit`, unless a checkpoint is due, a
    /// thread waits for the turn, or writers are slowed for these merges. For who does not have the turn.
    pub(crate) fn rest_after_merge(&self, started: Duration, written_bytes: u64) {
        let limit = self.options.checkpoint.io_limit;
        if limit == 0 {
            return;
        }
        let due = Duration::from_secs_f64(number(written_bytes) / number(limit));
        let is_urgent = || {
            self.background.stopping()
                || self.lifecycle.check_open().is_err()
                || self.checkpoint_turn.is_wanted()
                || self.limit_reached().is_some()
                || self.is_interval_over()
                || self.pacing.is_behind_with_runs()
        };
        loop {
            let elapsed = self.clock().monotonic().saturating_sub(started);
            if elapsed >= due || is_urgent() {
                return;
            }
            self.clock().sleep(PAUSE.min(due.saturating_sub(elapsed)));
        }
    }
}

fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_simulation::SimulatedDisk;

    use super::*;
    use crate::pacing::run_debt::RunFill;
    use crate::runs::testing::open_on;

    #[test]
    fn merges_of_runs_keep_to_the_limit_of_checkpoints() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let database = open_on(disk, |options| options.checkpoint.io_limit = 1 << 20).unwrap();
        let engine = database.engine();
        let rested = |bytes| {
            let before = engine.clock().monotonic();
            engine.rest_after_merge(before, bytes);
            engine.clock().monotonic().saturating_sub(before)
        };
        assert_eq!(rested(3 << 20), Duration::from_secs(3));
        assert_eq!(rested(0), Duration::ZERO);
        let behind = RunFill { count: 9, run_count: 8, run_percent: 25, ..RunFill::default() };
        engine.pacing.note_runs(&behind, || engine.fill());
        assert_eq!(rested(3 << 20), Duration::ZERO, "writers are slowed for these merges");
    }
}
