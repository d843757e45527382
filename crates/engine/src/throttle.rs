//! Writers slowed to the pace of the checkpoint, smoothly, instead of stopped when memory is full.
//!
//! While a checkpoint runs, the room that is left in the active memtable has to last until it ends. From the pace so
//! far the checkpoint knows when that will be, so it knows at what rate, in bytes a second, writers may fill the
//! room. Commits pay for their bytes at that rate: a virtual clock advances by `bytes / rate` with each, and whoever
//! finds it ahead of the real one sleeps for the difference. Debts too small to sleep for are carried on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_io::Clock;

/// Below this a sleep would cost more than it delays.
const SLEEP_NANOS_MIN: u64 = 100_000;
/// No commit is delayed longer at a time.
const SLEEP_NANOS_MAX: u64 = 50_000_000;
const UNLIMITED: u64 = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Throttle {
    clock: Arc<dyn Clock>,
    /// Bytes a second; `UNLIMITED` when writers are not held back.
    rate: AtomicU64,
    /// When the bytes admitted so far are paid for, in nanoseconds of the monotonic clock.
    paid_until: AtomicU64,
    delayed_nanos: AtomicU64,
}

/// What the throttle is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ThrottleStatistics {
    /// Bytes a second that writers may add, if they are held back now.
    pub rate_bytes_per_second: Option<u64>,
    /// Time that commits were delayed since open, in microseconds, all threads together.
    pub delayed_micros: u64,
}

impl Throttle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Throttle {
        Throttle {
            clock,
            rate: AtomicU64::new(UNLIMITED),
            paid_until: AtomicU64::new(0),
            delayed_nanos: AtomicU64::new(0),
        }
    }

    fn now_nanos(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lets writers add `bytes_per_second` from now on.
    pub(crate) fn limit(&self, bytes_per_second: u64) {
        self.rate.store(bytes_per_second.max(64 << 10), Ordering::Relaxed);
    }

    /// Lets writers go.
    pub(crate) fn release(&self) {
        // Debts end with the checkpoint that made them.
        self.paid_until.store(0, Ordering::Relaxed);
        self.rate.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Pays for a commit that adds `bytes` to the memtable; sleeps if writers are ahead of their rate.
    pub(crate) fn admit(&self, bytes: u64) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == UNLIMITED {
            return;
        }
        let cost = bytes.saturating_mul(1_000_000_000) / rate;
        let now = self.now_nanos();
        // Nobody saves up: a pause does not entitle to a burst.
        self.paid_until.fetch_max(now, Ordering::Relaxed);
        // Nobody runs up more debt than is ever slept for: a large commit does not punish those that come after it.
        let cost = cost.min(SLEEP_NANOS_MAX);
        let due = self.paid_until.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        let ahead = due.saturating_sub(now);
        if ahead >= SLEEP_NANOS_MIN {
            let delay = ahead.min(SLEEP_NANOS_MAX);
            self.delayed_nanos.fetch_add(delay, Ordering::Relaxed);
            self.clock.sleep(Duration::from_nanos(delay));
        }
    }

    pub(crate) fn statistics(&self) -> ThrottleStatistics {
        let rate = self.rate.load(Ordering::Relaxed);
        ThrottleStatistics {
            rate_bytes_per_second: (rate != UNLIMITED).then_some(rate),
            delayed_micros: self.delayed_nanos.load(Ordering::Relaxed) / 1000,
        }
    }
}

/// The rate at which `room_bytes` last until a checkpoint ends that has done `progress` (0 to 1) in `elapsed`;
/// `None` while it has done too little to tell and `expected` (its whole duration, from the last one) is not known.
pub(crate) fn sustainable_rate(
    room_bytes: u64,
    progress: f64,
    elapsed: Duration,
    expected: Option<Duration>,
) -> Option<f64> {
    let by_pace = (progress >= 0.05).then(|| elapsed.as_secs_f64() * (1.0 - progress) / progress);
    let by_history = expected.map(|expected| (expected.as_secs_f64() * (1.0 - progress)).max(0.001));
    let left = by_pace.or(by_history)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
    let room = room_bytes as f64;
    Some(room / left.max(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn wall_micros(&self) -> i64 {
            0
        }
        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.0.load(Ordering::SeqCst))
        }
        fn sleep(&self, duration: Duration) {
            self.0.fetch_add(u64::try_from(duration.as_nanos()).unwrap(), Ordering::SeqCst);
        }
    }

    #[test]
    fn writers_keep_to_the_rate_and_are_free_when_released() {
        let clock = Arc::new(TestClock::default());
        let throttle = Throttle::new(Arc::clone(&clock) as Arc<dyn Clock>);
        throttle.admit(1 << 30);
        assert_eq!(clock.monotonic(), Duration::ZERO);
        throttle.limit(1_000_000);
        (0..10_000).for_each(|_| throttle.admit(100));
        let seconds = clock.monotonic().as_secs_f64();
        assert!((0.98..=1.02).contains(&seconds), "1 MB at 1 MB/s took {seconds} s");
        throttle.release();
        throttle.admit(1 << 30);
        assert!((clock.monotonic().as_secs_f64() - seconds).abs() < 1e-9);
    }

    #[test]
    fn the_room_lasts_until_the_checkpoint_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(sustainable_rate(1000, 0.0, second, None), None);
        assert_eq!(sustainable_rate(1000, 0.5, second, None), Some(1000.0));
        assert_eq!(sustainable_rate(1000, 0.0, Duration::ZERO, Some(second)), Some(1000.0));
    }
}
