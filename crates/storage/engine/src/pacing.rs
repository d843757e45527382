//! Writers, checkpoints and recovery kept in step.
//!
//! ```text
//!   measurements, recovery_time        when a checkpoint must start so that a recovery stays within its target
//!              |
//!            pace                      rate at which memory and log suffice until the checkpoint ends
//!              |
//!          throttle                    each commit pays for its bytes at that rate
//!              |
//!        room, writer_pace             a commit gets its room in the memtable, or waits for it
//! ```
//! A commit pays the throttle before it enters the log. The checkpoint reports after each chunk (`merge_pace`), and the writers
//! look for themselves after so much log; both compute the rate anew. `Pacing` knows no engine: what is full comes as a `Fill`.
//!
//! Start at `Pacing::pay` and `writer_pace`.

pub(crate) mod measurements;
pub(crate) mod merge_pace;
pub(crate) mod pace;
pub(crate) mod recovery_time;
pub(crate) mod room;
pub(crate) mod run_debt;
pub(crate) mod throttle;
pub(crate) mod writer_pace;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use seawall_io::Clock;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::Lsn;
use seawall_wal::{AtLimit, HoldOptions, HoldPosition};

use crate::checkpoint::statistics::{CheckpointHistory, CheckpointStatistics};
use crate::options::Background;
use measurements::Measurements;
use pace::{
    CheckpointProgress, HoldbackMeter, LOOK_BYTES, LogHoldback, LowestRate, MemtablePerLog, MergeSpeed,
    number, share,
};
use recovery_time::{RecoveryTime, RecoveryTimeStatistics, RedoLength};
use room::MemtableRoom;
use run_debt::{RunDebt, RunFill};
use throttle::{Throttle, ThrottleReason, ThrottleStatistics};

/// Memory and log that commits fill, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// Bytes of the active memtable.
    pub(crate) memtable_bytes: u64,
    /// How many it may have.
    pub(crate) memtable_limit: u64,
    pub(crate) memtable_rows: u64,
    /// End of the log.
    pub(crate) appended: Lsn,
    /// Rows of all commits that are logged.
    pub(crate) logged_rows: u64,
    /// Bytes of log since the active memtable was begun.
    pub(crate) logged_bytes: u64,
    /// How many of them are page images.
    pub(crate) image_bytes: u64,
    /// What a recovery would have to replay.
    pub(crate) redo: RedoLength,
}

/// A hold on the log for which writers are slowed before it reaches its limit.
#[derive(Debug)]
struct SlowingHold {
    position: Arc<HoldPosition>,
    limit_bytes: u64,
    meter: HoldbackMeter,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pacing {
    background: Background,
    clock: Arc<dyn Clock>,
    throttle: Throttle,
    /// Held from the look at what fills to the rate that follows from it: no rate of an earlier look replaces that of a later one.
    rate_turn: Mutex<()>,
    /// How far the checkpoint under way is.
    progress: CheckpointProgress,
    merge_speed: Mutex<MergeSpeed>,
    recovery_time: RecoveryTime,
    measurements: Measurements,
    /// For whom writers are slowed.
    slowing_holds: Mutex<Vec<SlowingHold>>,
    /// Writers compute their rate anew when the log is this long.
    next_look: CachePadded<AtomicU64>,
    memtable_per_log: MemtablePerLog,
    run_debt: RunDebt,
    /// The fullest that the active memtable was at a look, in thousandths of its limit, since the last checkpoint began.
    fill_highest: AtomicU64,
    /// Writers were slowed until the last checkpoint ended.
    saturated: AtomicBool,
    /// Bytes that the memtable got lately while a part of runs was merged. `Relaxed`: an estimate.
    merge_fill: AtomicU64,
    pub(crate) room: MemtableRoom,
}

impl Pacing {
    pub(crate) fn new(
        background: Background,
        clock: &Arc<dyn Clock>,
        recovery_time: RecoveryTime,
        measurements: Measurements,
    ) -> Pacing {
        Pacing {
            background,
            clock: Arc::clone(clock),
            throttle: Throttle::new(Arc::clone(clock)),
            rate_turn: Mutex::default(),
            progress: CheckpointProgress::default(),
            merge_speed: Mutex::new(MergeSpeed::unknown()),
            recovery_time,
            measurements,
            slowing_holds: Mutex::default(),
            next_look: CachePadded::default(),
            memtable_per_log: MemtablePerLog::default(),
            run_debt: RunDebt::default(),
            fill_highest: AtomicU64::new(0),
            saturated: AtomicBool::new(false),
            merge_fill: AtomicU64::new(0),
            room: MemtableRoom::new(),
        }
    }
}

/// Writers.
impl Pacing {
    /// A commit of `bytes` pays at the rate in force, which is computed anew from `fill` if so much was logged since the last
    /// time that it may be wrong.
    pub(crate) fn pay(&self, bytes: u64, appended: Lsn, fill: impl FnOnce() -> Fill) {
        let due = self.next_look.load(Ordering::Relaxed);
        if appended.get() >= due {
            let next = appended.get() + LOOK_BYTES;
            // One of those who come here at once does it for all.
            if self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                self.look(fill);
            }
        }
        self.throttle.admit(bytes);
    }

    fn look(&self, fill: impl FnOnce() -> Fill) {
        let _turn = self.rate_turn.lock();
        let fill = fill();
        let total = RedoLength { rows: fill.logged_rows, bytes: fill.appended.get() };
        let speed = self.merge_speed.lock();
        let (checkpoint, _) = speed.estimate(fill.memtable_rows, fill.memtable_bytes, 0, Duration::ZERO);
        drop(speed);
        self.recovery_time.look(self.clock.monotonic(), total, fill.redo, checkpoint);
        self.set_rate(&fill);
        self.throttle.roll_window();
    }

    /// Sets the rate that writers keep to, from everything that can fill.
    pub(crate) fn pace_writers(&self, fill: impl FnOnce() -> Fill) {
        let _turn = self.rate_turn.lock();
        self.set_rate(&fill());
    }

    fn set_rate(&self, fill: &Fill) {
        let permille = fill.memtable_bytes.saturating_mul(1000) / fill.memtable_limit.max(1);
        self.fill_highest.fetch_max(permille, Ordering::Relaxed);
        let mut lowest = LowestRate::default();
        lowest.offer(self.memtable_rate(fill), ThrottleReason::Memtable);
        lowest.offer(self.recovery_rate(fill), ThrottleReason::LogVolume);
        lowest.offer(self.holdback_rate(fill.appended), ThrottleReason::HeldBackLog);
        lowest.offer(self.run_rate(fill), ThrottleReason::Runs);
        match lowest.in_bytes() {
            Some((rate, reason)) => self.throttle.limit(rate, reason),
            None => self.throttle.release(),
        }
    }

    /// Bytes of log a second that fill the memtable when the checkpoint ends.
    fn memtable_rate(&self, fill: &Fill) -> Option<f64> {
        let rate = self.progress.rate(number(fill.memtable_bytes), number(fill.memtable_limit))?;
        Some(rate / self.memtable_per_log.look(fill.memtable_bytes, fill.logged_bytes, fill.image_bytes))
    }

    /// Bytes of log a second that keep the time to recover below the target until the checkpoint ends.
    fn recovery_rate(&self, fill: &Fill) -> Option<f64> {
        let (used, limit) = self.recovery_time.used_and_limit(fill.redo)?;
        let seconds_per_byte = used / number(fill.redo.bytes.max(1));
        let rate = self.progress.rate(used, limit)?;
        (seconds_per_byte > 0.0).then(|| rate / seconds_per_byte)
    }

    /// Bytes of log a second that leave time for merges of runs.
    fn run_rate(&self, fill: &Fill) -> Option<f64> {
        let rate = self.run_debt.rate()?;
        Some(rate / self.memtable_per_log.look(fill.memtable_bytes, fill.logged_bytes, fill.image_bytes))
    }

    fn holdback_rate(&self, appended: Lsn) -> Option<f64> {
        let mut holds = self.slowing_holds.lock();
        if holds.is_empty() {
            return None;
        }
        holds.retain(|hold| !hold.position.is_over());
        let now = self.clock.monotonic();
        let rates = holds.iter_mut().filter_map(|hold| {
            let held_bytes = appended.bytes_since(hold.position.get());
            let holdback = LogHoldback { held_bytes, limit_bytes: hold.limit_bytes };
            hold.meter.rate(now, appended.get(), holdback)
        });
        rates.min_by(f64::total_cmp)
    }

    /// From now on writers are slowed, smoothly, when the hold comes near its limit, if its options say so.
    pub(crate) fn slow_writers_for(&self, options: &HoldOptions, position: &Arc<HoldPosition>) {
        let (AtLimit::SlowWriters, Some(limit_bytes)) = (options.at_limit, options.limit_bytes) else {
            return;
        };
        let position = Arc::clone(position);
        let hold = SlowingHold { position, limit_bytes, meter: HoldbackMeter::default() };
        self.slowing_holds.lock().push(hold);
    }

    /// A commit has waited for room.
    fn note_wait(&self, waited: Duration) {
        self.throttle.note_wait(waited);
    }

    /// How long commits were delayed since open, all threads together.
    pub(crate) fn delayed(&self) -> Duration {
        self.throttle.delayed()
    }

    pub(crate) fn throttle_statistics(&self, fill: &Fill) -> ThrottleStatistics {
        ThrottleStatistics {
            fill: share(fill.memtable_bytes, fill.memtable_limit),
            progress: self.progress.progress(),
            ..self.throttle.statistics()
        }
    }
}

/// Checkpoints.
impl Pacing {
    /// A checkpoint begins: what was fullest before counts no more.
    fn begin_fill(&self) {
        self.fill_highest.store(0, Ordering::Relaxed);
    }

    fn fill_highest_permille(&self) -> u64 {
        self.fill_highest.load(Ordering::Relaxed)
    }

    /// Chunks applied since open.
    fn chunks(&self) -> u64 {
        self.progress.chunks()
    }

    /// Writers were slowed until the last checkpoint ended.
    pub(crate) fn is_saturated(&self) -> bool {
        self.saturated.load(Ordering::Relaxed)
    }

    /// The memtable has grown by `grown` while a part of runs was merged, or found to be not due. A checkpoint has to wait for such a part, so
    /// the next one begins before the memtable, of `limit` bytes, is full by as much.
    pub(crate) fn note_merge(&self, grown: u64, limit: u64) {
        // One that was short does not tell that the next one is.
        self.merge_fill.store(grown.max(self.merge_fill() / 2).min(limit / 2), Ordering::Relaxed);
    }

    /// Bytes that the memtable may get while a part of runs is merged.
    pub(crate) fn merge_fill(&self) -> u64 {
        self.merge_fill.load(Ordering::Relaxed)
    }

    /// Whether a recovery would take too long if no checkpoint starts now.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.recovery_time.is_due()
    }

    /// Runs have become more or fewer.
    pub(crate) fn note_runs(&self, runs: &RunFill, fill: impl FnOnce() -> Fill) {
        self.run_debt.set(runs);
        self.pace_writers(fill);
    }

    /// Whether writers are slowed because merges of runs are behind.
    pub(crate) fn is_behind_with_runs(&self) -> bool {
        self.run_debt.get() > 0.0
    }

    /// How far merges of runs are behind; see `run_debt`.
    #[cfg(test)]
    pub(crate) fn run_debt(&self) -> f64 {
        self.run_debt.get()
    }

    /// A checkpoint is kept in the measurements, as the one with this number.
    pub(crate) fn keep_measured(&self, number: u64, checkpoint: &CheckpointStatistics) {
        self.measurements.keep(number, checkpoint, self.recovery_time.speed());
    }

    /// A checkpoint has ended, or failed. Commits had been delayed for `delayed_before` when it began. Returns whether the next one
    /// should start at once: if writers were slowed to the end, and there is a thread to run it.
    pub(crate) fn checkpoint_ended(&self, delayed_before: Duration, fill: impl FnOnce() -> Fill) -> bool {
        let delayed = self.throttle.delayed() > delayed_before;
        let has_threads = self.background == Background::Threads;
        // Where merges of runs are behind they come first.
        let by_checkpoint = self.throttle.is_limiting() && !self.is_behind_with_runs();
        let saturated = delayed && by_checkpoint && has_threads;
        self.saturated.store(saturated, Ordering::Relaxed);
        // Where checkpoints leave no time for merges, none delays a checkpoint.
        self.merge_fill.store(self.merge_fill() / 2, Ordering::Relaxed);
        self.progress.end();
        self.progress.count_chunk();
        self.pace_writers(fill);
        saturated
    }

    /// A checkpoint has failed and will be tried again: until then no writer is slowed, and none waits in vain.
    pub(crate) fn give_up_checkpoint(&self) {
        let turn = self.rate_turn.lock();
        self.throttle.release();
        drop(turn);
        self.room.has_changed();
    }
}

/// Recovery.
impl Pacing {
    /// Takes up what earlier sessions measured, and adds what this replay shows, if it shows anything. Returns the checkpoints of
    /// those sessions.
    pub(crate) fn learn_from_replay(
        &self,
        replayed: RedoLength,
        took: Option<Duration>,
    ) -> CheckpointHistory {
        let measured = self.measurements.read();
        let mut speed = measured.speed;
        if let Some(took) = took {
            speed.learn(replayed, took);
        }
        self.recovery_time.set_speed(speed);
        measured.history
    }

    /// Rows that were logged before the redo point.
    pub(crate) fn rows_at_redo(&self) -> u64 {
        self.recovery_time.rows_at_redo()
    }

    /// The redo point has passed so many rows.
    pub(crate) fn redo_point_moved(&self, rows: u64) {
        self.recovery_time.redo_point_moved(rows);
    }

    pub(crate) fn recovery_time_statistics(&self, redo: RedoLength) -> RecoveryTimeStatistics {
        self.recovery_time.statistics(redo)
    }
}
