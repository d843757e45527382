//! How fast writers may be while a checkpoint runs, or while log is held back: rates for the throttle.
//!
//! ```text
//!   fill of the active memtable   against   progress of the checkpoint        the lowest rate counts
//!   time to recover now           against   `recovery.target`
//!   log held back                 against   its limit
//! ```
//! Let `fill` be the share of its limit that the active memtable has used, `progress` the share of the checkpoint that
//! is done. When the checkpoint ends the next one can start, so `fill` may reach 1 when `progress` does. The checkpoint
//! frees one limit's worth of memory in its whole time: that is the *pace*. Writers may go at
//! `pace * (1 - fill) / (1 - progress)`: who is ahead is slowed, who is behind may catch up. The gain is bounded below, so
//! that an estimate that was too high costs some memory beyond the limit and no stall.
//!
//! Rates are computed anew after each chunk, and by the writers themselves after each quarter of a mebibyte of log: while a
//! chunk takes longer than foreseen, `fill` goes on and the rate falls, smoothly.

use std::time::Duration;

use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::pacing::throttle::ThrottleReason;

/// Writers look at the rate after so much log.
pub(crate) const LOOK_BYTES: u64 = 256 << 10;
/// The lowest share of the pace that writers keep while the disk makes progress.
const GAIN_MIN: f64 = 0.3;
/// The share of the pace above which writers are not slowed at all.
const GAIN_FREE: f64 = 2.5;
/// Held-back log slows writers from this share of its limit on.
const HELD_FREE: f64 = 0.5;
/// The room that is left for held-back log lasts so long when none of it is taken away.
const HELD_SECONDS: f64 = 30.0;

/// Log that must be kept for a slow archive or standby.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogHoldback {
    /// Bytes held back now.
    pub(crate) held_bytes: u64,
    /// As many as may be.
    pub(crate) limit_bytes: u64,
}

impl LogHoldback {
    fn fill(&self) -> f64 {
        share(self.held_bytes, self.limit_bytes)
    }
}

/// Where the checkpoint under way is.
#[derive(Debug, Default)]
pub(crate) struct CheckpointProgress {
    running: AtomicBool,
    /// Bits of an `f64`.
    progress: AtomicU64,
    left_nanos: AtomicU64,
    total_nanos: AtomicU64,
    /// Chunks applied since open.
    chunks: AtomicU64,
}

impl CheckpointProgress {
    /// A checkpoint has done `progress`, and needs `left` of `total`, as it seems.
    pub(crate) fn set(&self, progress: f64, left: Duration, total: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed, all of them: estimates. A reader may see some of this call and some of the last.
        self.progress.store(progress.to_bits(), Ordering::Relaxed);
        self.left_nanos.store(nanos(left), Ordering::Relaxed);
        self.total_nanos.store(nanos(total), Ordering::Relaxed);
        self.running.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::Relaxed);
    }

    pub(crate) fn count_chunk(&self) {
        self.chunks.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::SeqCst)
    }

    /// Progress, if one is running.
    pub(crate) fn progress(&self) -> Option<f64> {
        self.running.load(Ordering::Relaxed).then(|| f64::from_bits(self.progress.load(Ordering::Relaxed)))
    }

    fn left_seconds(&self) -> f64 {
        Duration::from_nanos(self.left_nanos.load(Ordering::Relaxed)).as_secs_f64().max(0.001)
    }

    fn total_seconds(&self) -> f64 {
        Duration::from_nanos(self.total_nanos.load(Ordering::Relaxed)).as_secs_f64().max(0.001)
    }

    /// The rate at which `used` of `limit` (bytes, or anything) is 1 when the checkpoint ends; `None` if writers need
    /// not be slowed. Per second, in the unit of `limit`.
    pub(crate) fn rate(&self, used: f64, limit: f64) -> Option<f64> {
        let progress = self.progress()?;
        let (left, total) = (self.left_seconds(), self.total_seconds().max(self.left_seconds()));
        let fill = used / limit.max(1e-9);
        let pace = limit / total;
        let wanted = (1.0 - fill).max(0.0) * limit / left;
        if fill < progress * 0.5 && wanted > pace * GAIN_FREE {
            return None;
        }
        Some(wanted.clamp(pace * GAIN_MIN, pace * GAIN_FREE))
    }
}

/// How fast rows are merged, learned from checkpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeSpeed {
    /// The rate of the last checkpoint; `None` before the first.
    rows_per_second: Option<f64>,
    /// What a checkpoint takes besides merging users' rows.
    overhead: Duration,
}

/// Bytes of memtable merged a second, before the first measurement.
const MERGE_BYTES_PER_SECOND: f64 = 24.0 * 1024.0 * 1024.0;
/// The last checkpoint counts as much as this share of the one under way.
const PRIOR_SHARE: f64 = 0.1;

impl MergeSpeed {
    pub(crate) fn unknown() -> MergeSpeed {
        MergeSpeed { rows_per_second: None, overhead: Duration::from_millis(20) }
    }

    /// A checkpoint merged `rows` in `merging`, and took `total`. Too few rows tell nothing.
    pub(crate) fn learn(&mut self, rows: u64, merging: Duration, total: Duration) {
        if rows >= 1000 && !merging.is_zero() {
            self.rows_per_second = Some(number(rows) / merging.as_secs_f64());
            self.overhead = total.saturating_sub(merging);
        }
    }

    /// Time that is left for `all` rows of `bytes`, of which `done` took `merging`; and the whole of it.
    pub(crate) fn estimate(
        &self,
        all: u64,
        bytes: u64,
        done: u64,
        merging: Duration,
    ) -> (Duration, Duration) {
        let all = number(all.max(1));
        let by_memory = all * MERGE_BYTES_PER_SECOND / number(bytes.max(1));
        let prior = self.rows_per_second.unwrap_or(by_memory);
        let weight = all * PRIOR_SHARE;
        let speed = (number(done) + weight) / (merging.as_secs_f64() + weight / prior);
        let left = (all - number(done)).max(0.0) / speed;
        let left = Duration::from_secs_f64(left.min(1e6)) + self.overhead;
        (left, merging + left)
    }
}

/// Bytes that a byte of log takes in the memtable, lately.
#[derive(Debug)]
pub(crate) struct MemtablePerLog(AtomicU64);

impl Default for MemtablePerLog {
    fn default() -> MemtablePerLog {
        MemtablePerLog(AtomicU64::new(1.5_f64.to_bits()))
    }
}

impl MemtablePerLog {
    /// The memtable has `used` bytes of the log's last `logged`, of which `images` are page images and not rows. A row takes
    /// more in the memtable than in the log, and a row that is written again takes nothing. Too little log tells nothing.
    pub(crate) fn look(&self, used: u64, logged: u64, images: u64) -> f64 {
        let rows = logged.saturating_sub(images);
        if rows < LOOK_BYTES * 4 {
            return f64::from_bits(self.0.load(Ordering::Relaxed));
        }
        let ratio = share(used, rows).max(0.01);
        self.0.store(ratio.to_bits(), Ordering::Relaxed);
        ratio
    }
}

/// How fast held-back log is taken away, measured.
#[derive(Debug, Default)]
pub(crate) struct HoldbackMeter {
    last: Option<HoldbackSample>,
    drained_per_second: f64,
}

#[derive(Clone, Copy, Debug)]
struct HoldbackSample {
    at: Duration,
    appended: u64,
    held: u64,
}

impl HoldbackMeter {
    /// The rate that `holdback` allows, at a time when the log has `appended` bytes.
    pub(crate) fn rate(&mut self, now: Duration, appended: u64, holdback: LogHoldback) -> Option<f64> {
        let sample = HoldbackSample { at: now, appended, held: holdback.held_bytes };
        // The first one tells nothing: the log may be years old, and the clock has just begun.
        let last = *self.last.get_or_insert(sample);
        let elapsed = now.saturating_sub(last.at).as_secs_f64();
        if elapsed >= 0.05 {
            let added = number(appended.saturating_sub(last.appended));
            let drained = (added + number(last.held) - number(holdback.held_bytes)).max(0.0) / elapsed;
            // A second's worth of the past counts as much as this sample.
            let weight = (elapsed / (elapsed + 1.0)).clamp(0.0, 1.0);
            self.drained_per_second += (drained - self.drained_per_second) * weight;
            self.last = Some(sample);
        }
        held_rate(holdback, self.drained_per_second)
    }
}

/// Above half of the limit, writers are brought to the speed at which log is taken away: to a tenth below it at the limit.
/// Where none is, what room there is lasts for half a minute, and half of the rest for the next.
fn held_rate(holdback: LogHoldback, drained_per_second: f64) -> Option<f64> {
    let over = (holdback.fill() - HELD_FREE) / (1.0 - HELD_FREE);
    if over <= 0.0 {
        return None;
    }
    let gain = 0.9 + 0.3 * (1.0 / over.min(1.0) - 1.0);
    let room = number(holdback.limit_bytes.saturating_sub(holdback.held_bytes));
    Some(drained_per_second * gain + room / HELD_SECONDS)
}

/// The lowest of some rates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LowestRate(Option<(f64, ThrottleReason)>);

impl LowestRate {
    pub(crate) fn offer(&mut self, rate: Option<f64>, reason: ThrottleReason) {
        if let Some(rate) = rate
            && self.0.is_none_or(|(lowest, _)| rate < lowest)
        {
            self.0 = Some((rate, reason));
        }
    }

    /// In whole bytes a second.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    pub(crate) fn in_bytes(self) -> Option<(u64, ThrottleReason)> {
        self.0.map(|(rate, reason)| (rate.clamp(0.0, 1e15) as u64, reason))
    }
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    number(part) / number(whole.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "estimates need no 53 bits")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(progress: f64, left: f64, fill: f64) -> Option<f64> {
        let state = CheckpointProgress::default();
        let left = Duration::from_secs_f64(left);
        state.set(progress, left, Duration::from_secs(10));
        state.rate(fill * 1000.0, 1000.0)
    }

    #[test]
    fn fill_follows_progress() {
        assert_eq!(CheckpointProgress::default().rate(900.0, 1000.0), None, "no checkpoint runs");
        assert_eq!(rate(0.0, 10.0, 0.0), Some(100.0), "the room for the whole time");
        assert_eq!(rate(0.5, 5.0, 0.5), Some(100.0), "as fast as the checkpoint");
        assert!(rate(0.5, 5.0, 0.75).unwrap() < 60.0, "ahead: slower");
        assert_eq!(rate(0.8, 2.0, 0.2), None, "far behind: free");
    }

    #[test]
    fn nobody_stops_at_a_hard_edge() {
        for fill in [1.0, 1.2, 1.4] {
            assert_eq!(rate(0.5, 5.0, fill), Some(30.0));
        }
        let mut fill = 0.0_f64;
        // A checkpoint that hangs from the beginning: the memtable fills ever more slowly.
        let mut last = f64::MAX;
        for _ in 0..20 {
            let rate = rate(0.0, 10.0, fill).unwrap();
            assert!(rate <= last && rate >= 30.0);
            (last, fill) = (rate, fill + rate / 1000.0);
        }
    }

    #[test]
    fn a_checkpoint_is_as_long_as_the_last_one_until_it_shows_otherwise() {
        let mut speed = MergeSpeed::unknown();
        speed.learn(100_000, SECOND * 10, SECOND * 11);
        let (left, total) = speed.estimate(100_000, 1 << 20, 0, Duration::ZERO);
        assert_eq!((left, total), (SECOND * 11, SECOND * 11));
        // Half of it took a quarter of the time.
        let (left, _) = speed.estimate(100_000, 1 << 20, 50_000, SECOND * 5 / 2);
        assert!((3.5..4.5).contains(&left.as_secs_f64()), "{left:?}");
        speed.learn(10, SECOND, SECOND);
        assert_eq!(
            speed.estimate(100_000, 1 << 20, 0, Duration::ZERO).0,
            SECOND * 11,
            "ten rows tell nothing"
        );
    }

    #[test]
    fn page_images_in_the_log_do_not_hide_how_much_memory_its_rows_take() {
        let ratio = MemtablePerLog::default();
        let mebibytes = |count: u64| count << 20;
        assert!((ratio.look(100, 60, 0) - 1.5).abs() < 1e-9, "too little to tell");
        assert!((ratio.look(mebibytes(16), mebibytes(8), 0) - 2.0).abs() < 1e-9);
        assert!((ratio.look(mebibytes(16), mebibytes(64), mebibytes(56)) - 2.0).abs() < 1e-9);
        assert!((ratio.look(0, mebibytes(64), mebibytes(64)) - 2.0).abs() < 1e-9, "nothing but images");
    }

    #[test]
    fn held_back_log_brings_writers_to_the_speed_at_which_it_is_taken_away() {
        let held = |held_bytes| LogHoldback { held_bytes, limit_bytes: 1 << 30 };
        assert_eq!(held_rate(held(1 << 28), 1e6), None);
        let free = held_rate(held((1 << 29) + (1 << 20)), 1e6).unwrap();
        let near = held_rate(held((1 << 30) - (1 << 20)), 1e6).unwrap();
        assert!(free > 1e8 && near < 1e6, "{free} {near}");
        assert!(held_rate(held(1 << 30), 0.0).unwrap() < 1.0, "nobody takes any, and no room is left");
        // It drains at 10 MB/s while writers add 30 MB/s. The log is old when the first look is taken.
        let mut meter = HoldbackMeter::default();
        let (mut appended, mut rate) = (1 << 40, None);
        let first = meter.rate(SECOND, appended, held((1 << 30) - (1 << 20)));
        assert!(first.unwrap() < 1e6, "what was appended before counts as drained: {first:?}");
        for tick in 11..211_u32 {
            appended += 3_000_000;
            let at = Duration::from_millis(100) * tick;
            rate = meter.rate(at, appended, held((1 << 29) + u64::from(tick) * 2_000_000));
        }
        assert!((1e7..3e7).contains(&rate.unwrap()), "{rate:?}");
    }
}
