//! How long a recovery would take if the process died now, and when a checkpoint has to start so that none ever takes
//! longer than `recovery.target`.
//!
//! A replay costs so much a row and so much a byte. The built-in figures are those of a slow machine; each replay that is
//! long enough to tell something scales them to the machine it ran on, and the factor is kept with the database.
//!
//! Until a checkpoint has ended, replay starts where the one before it began: what must fit into the target is the log since
//! the redo point *and* what writers add while the checkpoint runs. So it starts when
//! `time to recover now + time to recover what is added while it runs` comes near the target, and while it runs, writers
//! are slowed before the target is passed (`pace`). A log whose rows do not fit into the memory for a replay is merged on
//! the way, which takes far longer: so that never happens either, while there is a target.

use std::time::Duration;

use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::pacing::pace::number;

/// Seconds that a replay takes per row and per byte, before the first measurement: half the speed of an ordinary server.
const ROW_SECONDS: f64 = 1.0e-6;
const BYTE_SECONDS: f64 = 5.0e-9;
/// Opening the files, applying the last chunk again, looking for the end of the log.
const FIXED_SECONDS: f64 = 0.2;
/// A replay of less log than this tells nothing about speed.
const MEASURED_BYTES_MIN: u64 = 16 << 20;
/// One replay makes the estimate at most so many times slower.
const SLOWER_AT_ONCE: f64 = 4.0;
/// Bytes that a row takes during a replay besides key and value.
const ROW_OVERHEAD_BYTES: u64 = 48;
/// A checkpoint starts when this share of the target is in sight.
const START_SHARE: f64 = 0.8;
/// Writers are slowed so that this share of the target is not passed.
const LIMIT_SHARE: f64 = 0.92;

/// Log that a recovery would have to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RedoLength {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// How fast this machine replays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReplaySpeed {
    /// Time that replays took, in terms of the built-in figures.
    slowness: f64,
    /// Rows a second in the last measured replay.
    pub(crate) rows_per_second: u64,
    /// Bytes a second in the last measured replay.
    pub(crate) bytes_per_second: u64,
}

impl Default for ReplaySpeed {
    fn default() -> ReplaySpeed {
        ReplaySpeed { slowness: 1.0, rows_per_second: 0, bytes_per_second: 0 }
    }
}

impl ReplaySpeed {
    /// What was measured before; nonsense is nothing.
    pub(crate) fn from_stored(slowness_ppm: u64, rows_per_second: u64, bytes_per_second: u64) -> ReplaySpeed {
        if !(10_000..=100_000_000).contains(&slowness_ppm) {
            return ReplaySpeed::default();
        }
        ReplaySpeed { slowness: number(slowness_ppm) / 1e6, rows_per_second, bytes_per_second }
    }

    /// Millionths of the built-in time that a replay takes here.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    pub(crate) fn slowness_ppm(&self) -> u64 {
        (self.slowness * 1e6).clamp(10_000.0, 1e8) as u64
    }

    /// Whether a replay was measured, on this machine or on the one that the database comes from.
    pub(crate) fn is_measured(&self) -> bool {
        self.bytes_per_second > 0
    }

    /// Learns from a replay, if it was long enough. The slower of two counts more than the faster, but no single one for
    /// more than [`SLOWER_AT_ONCE`]: a disk that did not answer for a minute, or a machine that was asleep, would make
    /// every checkpoint from then on start so early that no replay is ever long enough again to show how fast it is.
    pub(crate) fn learn(&mut self, replayed: RedoLength, took: Duration) {
        if replayed.bytes < MEASURED_BYTES_MIN || took.is_zero() {
            return;
        }
        let seconds = took.as_secs_f64();
        let slowest = (self.slowness * SLOWER_AT_ONCE).min(100.0);
        let seen = (seconds / built_in_seconds(replayed)).clamp(0.01, slowest);
        let weight = if !self.is_measured() || seen > self.slowness { 1.0 } else { 0.3 };
        self.slowness += (seen - self.slowness) * weight;
        self.rows_per_second = per_second(replayed.rows, seconds);
        self.bytes_per_second = per_second(replayed.bytes, seconds);
    }

    /// Seconds to replay this much.
    pub(crate) fn replay_seconds(&self, length: RedoLength) -> f64 {
        built_in_seconds(length) * self.slowness
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn per_second(count: u64, seconds: f64) -> u64 {
    (number(count) / seconds.max(1e-9)).clamp(1.0, 1e15) as u64
}

fn built_in_seconds(length: RedoLength) -> f64 {
    number(length.rows) * ROW_SECONDS + number(length.bytes) * BYTE_SECONDS
}

/// How long a recovery would take, and what is known about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryTimeStatistics {
    /// What a recovery may take; `None` if there is no target.
    pub target: Option<Duration>,
    /// What one would take if the process died now, as far as is known.
    pub estimated: Duration,
    /// Rows that it would replay.
    pub rows: u64,
    /// Bytes of log that it would replay.
    pub bytes: u64,
    /// Rows a second of the last replay that was long enough to be measured; zero if none was yet, and the estimate
    /// rests on built-in figures.
    pub measured_rows_per_second: u64,
    /// Bytes of log a second of that replay.
    pub measured_bytes_per_second: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RecoveryTime {
    target: Option<Duration>,
    /// Bytes of rows that a replay can hold.
    replay_memory: u64,
    speed: Mutex<ReplaySpeed>,
    /// A checkpoint must start.
    due: AtomicBool,
    growth: Mutex<Growth>,
    /// Rows logged before the redo point, by the count of `CommitQueue`.
    rows_at_redo: AtomicU64,
}

/// How fast the time to recover grows.
#[derive(Debug, Default)]
struct Growth {
    /// When it was looked at last, and what was logged by then.
    last: Option<(Duration, RedoLength)>,
    rows_per_second: f64,
    bytes_per_second: f64,
}

impl RecoveryTime {
    pub(crate) fn new(target: Option<Duration>, replay_memory: u64) -> RecoveryTime {
        RecoveryTime {
            target,
            replay_memory,
            speed: Mutex::default(),
            due: AtomicBool::new(false),
            growth: Mutex::default(),
            rows_at_redo: AtomicU64::new(0),
        }
    }

    pub(crate) fn speed(&self) -> ReplaySpeed {
        *self.speed.lock()
    }

    pub(crate) fn set_speed(&self, speed: ReplaySpeed) {
        *self.speed.lock() = speed;
    }

    pub(crate) fn rows_at_redo(&self) -> u64 {
        self.rows_at_redo.load(Ordering::SeqCst)
    }

    /// The redo point has moved to where `rows` had been logged.
    pub(crate) fn redo_point_moved(&self, rows: u64) {
        self.rows_at_redo.store(rows, Ordering::SeqCst);
        self.due.store(false, Ordering::SeqCst);
    }

    /// Whether a checkpoint must start for the target's sake.
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// What a recovery of this much would take.
    pub(crate) fn estimate(&self, redo: RedoLength) -> Duration {
        Duration::from_secs_f64((FIXED_SECONDS + self.speed().replay_seconds(redo)).min(1e6))
    }

    /// Looks whether a checkpoint that takes `checkpoint` has to start now. `total` counts all that was logged since
    /// open, `redo` what lies behind the redo point.
    pub(crate) fn look(&self, now: Duration, total: RedoLength, redo: RedoLength, checkpoint: Duration) {
        let Some(target) = self.target else { return };
        let added = self.growth.lock().during(checkpoint, now, total);
        let later = RedoLength { rows: redo.rows + added.rows, bytes: redo.bytes + added.bytes };
        let late = self.estimate(later).as_secs_f64() >= target.as_secs_f64() * START_SHARE;
        let memory = later.bytes.saturating_add(later.rows.saturating_mul(ROW_OVERHEAD_BYTES));
        let large = number(memory) >= number(self.replay_memory) * START_SHARE;
        self.due.store(late || large, Ordering::Relaxed);
    }

    /// Seconds of replay there are, and as many as there may be before the target is in danger.
    pub(crate) fn used_and_limit(&self, redo: RedoLength) -> Option<(f64, f64)> {
        let target = self.target?.as_secs_f64();
        let limit = (target * LIMIT_SHARE - FIXED_SECONDS).max(target * 0.1);
        Some((self.speed().replay_seconds(redo), limit))
    }

    pub(crate) fn statistics(&self, redo: RedoLength) -> RecoveryTimeStatistics {
        let speed = self.speed();
        RecoveryTimeStatistics {
            target: self.target,
            estimated: self.estimate(redo),
            rows: redo.rows,
            bytes: redo.bytes,
            measured_rows_per_second: speed.rows_per_second,
            measured_bytes_per_second: speed.bytes_per_second,
        }
    }
}

impl Growth {
    /// What is added in `time`, at the speed of the last second or so.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    fn during(&mut self, time: Duration, now: Duration, total: RedoLength) -> RedoLength {
        let (at, before) = *self.last.get_or_insert((now, total));
        let elapsed = now.saturating_sub(at).as_secs_f64();
        if elapsed >= 0.02 {
            let weight = elapsed / (elapsed + 0.5);
            let rows = number(total.rows.saturating_sub(before.rows)) / elapsed;
            let bytes = number(total.bytes.saturating_sub(before.bytes)) / elapsed;
            self.rows_per_second += (rows - self.rows_per_second) * weight;
            self.bytes_per_second += (bytes - self.bytes_per_second) * weight;
            self.last = Some((now, total));
        }
        let added = |per_second: f64| (per_second * time.as_secs_f64()).clamp(0.0, 1e15) as u64;
        RedoLength { rows: added(self.rows_per_second), bytes: added(self.bytes_per_second) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn length(rows: u64) -> RedoLength {
        RedoLength { rows, bytes: rows * 140 }
    }

    #[test]
    fn a_replay_that_was_measured_is_what_is_estimated() {
        let mut speed = ReplaySpeed::default();
        speed.learn(RedoLength { rows: 10, bytes: 1000 }, SECOND);
        assert!(!speed.is_measured(), "too short");
        speed.learn(length(4_000_000), SECOND * 2);
        assert!((speed.replay_seconds(length(8_000_000)) - 4.0).abs() < 0.01);
        assert_eq!((speed.rows_per_second, speed.bytes_per_second), (2_000_000, 280_000_000));
        speed.learn(length(4_000_000), SECOND * 8);
        assert!((speed.replay_seconds(length(4_000_000)) - 8.0).abs() < 0.01, "slower counts at once");
        speed.learn(length(4_000_000), SECOND * 2);
        assert!(speed.replay_seconds(length(4_000_000)) > 6.0, "faster counts little by little");
        let ppm = speed.slowness_ppm();
        assert!(
            (ReplaySpeed::from_stored(ppm, 1, 1).replay_seconds(length(1)) - speed.replay_seconds(length(1)))
                .abs()
                < 1e-9
        );
        assert_eq!(ReplaySpeed::from_stored(u64::MAX, 1, 1), ReplaySpeed::default());
    }

    #[test]
    fn one_replay_on_a_disk_that_stood_still_does_not_count_for_more_than_it_may() {
        let hour = SECOND * 3600;
        let mut speed = ReplaySpeed::default();
        speed.learn(length(4_000_000), hour);
        let estimate = |speed: &ReplaySpeed| speed.replay_seconds(length(4_000_000));
        assert!((27.0..28.0).contains(&estimate(&speed)), "{}", estimate(&speed));
        // A machine that is really so slow is known for it after a few.
        (0..3).for_each(|_| speed.learn(length(4_000_000), hour));
        assert!(estimate(&speed) > 600.0);
    }

    #[test]
    fn a_checkpoint_starts_early_enough_for_what_is_added_while_it_runs() {
        let time = RecoveryTime::new(Some(SECOND * 5), u64::MAX);
        // A million rows a second: each costs 1.7 us to replay.
        let total = |tenths: u32| length(u64::from(tenths) * 100_000);
        let due_at = |checkpoint: Duration| {
            let time = RecoveryTime::new(Some(SECOND * 5), u64::MAX);
            (1..200).find(|tenths| {
                time.look(SECOND / 10 * *tenths, total(*tenths), total(*tenths), checkpoint);
                time.is_due()
            })
        };
        let (short, long) = (due_at(SECOND / 10).unwrap(), due_at(SECOND).unwrap());
        assert!(short > long + 5, "{short} {long}");
        assert!(time.estimate(total(short + 1)) < SECOND * 5);
        assert!(time.estimate(total(long + 10)) < SECOND * 5, "when it ends, the target is kept");
        time.look(SECOND * 20, total(200), total(200), SECOND);
        assert!(time.is_due());
        time.redo_point_moved(20_000_000);
        assert!(!time.is_due());
    }

    #[test]
    fn a_log_that_was_long_before_does_not_count_as_growth() {
        let time = RecoveryTime::new(Some(SECOND * 5), u64::MAX);
        let old = RedoLength { rows: 0, bytes: 1 << 50 };
        time.look(SECOND, old, RedoLength::default(), SECOND * 10);
        assert!(!time.is_due());
        time.look(SECOND * 2, old, RedoLength::default(), SECOND * 10);
        assert!(!time.is_due());
    }

    #[test]
    fn a_log_never_outgrows_the_memory_of_a_replay() {
        let time = RecoveryTime::new(Some(SECOND * 1000), 100 << 20);
        time.look(SECOND, length(300_000), length(300_000), Duration::ZERO);
        assert!(!time.is_due());
        time.look(SECOND * 2, length(500_000), length(500_000), Duration::ZERO);
        assert!(time.is_due());
    }
}
