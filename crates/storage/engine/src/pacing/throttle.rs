//! Slows each writer a little, instead of stopping writers when memory or log is full.
//!
//! ```text
//!   pace (how fast may writers be, and why) --rate--> throttle <--bytes-- a commit
//!                                                        \--sleep, if writers are ahead of their rate
//! ```
//! Commits pay for their bytes at the rate in force: a virtual clock advances by `bytes / rate` with each, and whoever
//! finds it ahead of the real one sleeps for the difference. Debts too small to sleep for are carried on.

use std::sync::Arc;
use std::time::Duration;

use seawall_io::Clock;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Below this a sleep would cost more than it delays.
const SLEEP_NANOS_MIN: u64 = 100_000;
/// No commit is delayed longer at a time.
const SLEEP_NANOS_MAX: u64 = 40_000_000;
/// "Lately" is this long, and up to twice.
const WINDOW_NANOS: u64 = 1_000_000_000;
const UNLIMITED: u64 = 0;

/// Why writers are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleReason {
    /// The active memtable fills faster than the checkpoint under way makes room for the next one.
    Memtable,
    /// The log grows so fast that recovering from a crash would take longer than `recovery.target`.
    LogVolume,
    /// A slow archive or standby holds back log, and its limit is near.
    HeldBackLog,
    /// Sorted runs grow faster than they are merged.
    Runs,
}

impl ThrottleReason {
    /// Its name, as statistics show it.
    pub fn name(self) -> &'static str {
        match self {
            ThrottleReason::Memtable => "memtable",
            ThrottleReason::LogVolume => "log-volume",
            ThrottleReason::HeldBackLog => "held-back-log",
            ThrottleReason::Runs => "runs",
        }
    }

    fn code(self) -> u8 {
        match self {
            ThrottleReason::Memtable => 1,
            ThrottleReason::LogVolume => 2,
            ThrottleReason::HeldBackLog => 3,
            ThrottleReason::Runs => 4,
        }
    }

    fn from_code(code: u8) -> Option<ThrottleReason> {
        use ThrottleReason::{HeldBackLog, LogVolume, Memtable, Runs};
        [Memtable, LogVolume, HeldBackLog, Runs].into_iter().find(|reason| reason.code() == code)
    }
}

/// See the module. Its numbers are `Relaxed`: each is right on its own, and nothing is ordered by them.
#[derive(Debug)]
pub(crate) struct Throttle {
    clock: Arc<dyn Clock>,
    /// Bytes a second; `UNLIMITED` when writers are not held back.
    rate: AtomicU64,
    reason: AtomicU8,
    /// When the bytes admitted so far are paid for, in nanoseconds of the monotonic clock.
    paid_until: AtomicU64,
    delayed_nanos: AtomicU64,
    delayed_commits: AtomicU64,
    /// Commits admitted while a rate was in force.
    commits: AtomicU64,
    window: Mutex<Window>,
}

/// What has been counted at the beginning of the last window but one, and of the last.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    before: Counted,
    last: Counted,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    at_nanos: u64,
    delayed_nanos: u64,
    commits: u64,
}

/// What the throttle is doing.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ThrottleStatistics {
    /// Bytes of keys and values a second that writers may add, if they are held back now.
    pub rate_bytes_per_second: Option<u64>,
    /// Why they are.
    pub reason: Option<ThrottleReason>,
    /// How much writers are slowed, in the last second or two: 0 is not at all; towards 1 they do little but wait. The time
    /// that commits were delayed, all threads together, against that and the time that went by.
    pub factor: f64,
    /// Microseconds added to a commit, on average, in the last second or two in which writers had a rate to keep to.
    pub delay_micros_per_commit: u64,
    /// Time that commits were delayed since open, in microseconds, all threads together.
    pub delayed_micros: u64,
    /// Commits that were delayed since open.
    pub delayed_commits: u64,
    /// Share of its limit that the active memtable has used.
    pub fill: f64,
    /// Share of the checkpoint under way that is done; `fill` is made to follow it. `None` if there is none.
    pub progress: Option<f64>,
}

impl Throttle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Throttle {
        Throttle {
            clock,
            rate: AtomicU64::new(UNLIMITED),
            reason: AtomicU8::new(0),
            paid_until: AtomicU64::new(0),
            delayed_nanos: AtomicU64::new(0),
            delayed_commits: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            window: Mutex::default(),
        }
    }

    fn now_nanos(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lets writers add `bytes_per_second` from now on.
    pub(crate) fn limit(&self, bytes_per_second: u64, reason: ThrottleReason) {
        self.reason.store(reason.code(), Ordering::Relaxed);
        self.rate.store(bytes_per_second.max(64 << 10), Ordering::Relaxed);
    }

    /// Lets writers go.
    pub(crate) fn release(&self) {
        if self.rate.swap(UNLIMITED, Ordering::Relaxed) != UNLIMITED {
            // Debts end with what made them.
            self.paid_until.store(0, Ordering::Relaxed);
            self.reason.store(0, Ordering::Relaxed);
        }
    }

    /// Whether writers have a rate to keep to.
    pub(crate) fn is_limiting(&self) -> bool {
        self.rate.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Time that commits were delayed since open, all threads together.
    pub(crate) fn delayed(&self) -> Duration {
        Duration::from_nanos(self.delayed_nanos.load(Ordering::Relaxed))
    }

    /// Pays for a commit that adds `bytes`; sleeps if writers are ahead of their rate.
    pub(crate) fn admit(&self, bytes: u64) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == UNLIMITED {
            return;
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        // Nobody runs up more debt than is ever slept for: a large commit does not punish those that come after it.
        let cost = bytes.saturating_mul(1_000_000_000) / rate;
        let cost = cost.min(SLEEP_NANOS_MAX);
        let now = self.now_nanos();
        // Nobody saves up: a pause does not entitle to a burst.
        self.paid_until.fetch_max(now, Ordering::Relaxed);
        let due = self.paid_until.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        let ahead = due.saturating_sub(now);
        if ahead >= SLEEP_NANOS_MIN {
            self.sleep(ahead.min(SLEEP_NANOS_MAX));
        }
    }

    fn sleep(&self, nanos: u64) {
        self.delayed_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.delayed_commits.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(Duration::from_nanos(nanos));
    }

    /// A commit had to wait for the checkpoint for `waited`, beyond its rate.
    pub(crate) fn note_wait(&self, waited: Duration) {
        self.delayed_nanos.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.delayed_commits.fetch_add(1, Ordering::Relaxed);
    }

    fn counted(&self) -> Counted {
        Counted {
            at_nanos: self.now_nanos(),
            delayed_nanos: self.delayed_nanos.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
        }
    }

    /// Begins a new window when the last one is over.
    pub(crate) fn roll_window(&self) {
        let Some(mut window) = self.window.try_lock() else { return };
        let now = self.counted();
        if now.at_nanos.saturating_sub(window.last.at_nanos) >= WINDOW_NANOS {
            window.before = window.last;
            window.last = now;
        }
    }

    /// What it is doing; `fill` and `progress` are for the caller to add.
    pub(crate) fn statistics(&self) -> ThrottleStatistics {
        self.roll_window();
        let rate = self.rate.load(Ordering::Relaxed);
        // Before the reason: whoever delays a commit has said why.
        let delayed_commits = self.delayed_commits.load(Ordering::Acquire);
        // Counted under the latch: a window that is rolled on meanwhile would begin after what was counted.
        let (now, since) = {
            let window = self.window.lock();
            (self.counted(), window.before)
        };
        let commits = now.commits - since.commits;
        let delayed = now.delayed_nanos - since.delayed_nanos;
        let per_commit = delayed.checked_div(commits).unwrap_or(0);
        // How far apart commits were, all threads together: what a delay has to be compared with.
        let elapsed = now.at_nanos.saturating_sub(since.at_nanos).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
        let share = delayed as f64 / (delayed as f64 + elapsed as f64);
        ThrottleStatistics {
            rate_bytes_per_second: (rate != UNLIMITED).then_some(rate),
            reason: ThrottleReason::from_code(self.reason.load(Ordering::Relaxed)),
            factor: share,
            delay_micros_per_commit: per_commit / 1000,
            delayed_micros: now.delayed_nanos / 1000,
            delayed_commits,
            fill: 0.0,
            progress: None,
        }
    }
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

    fn throttle() -> (Arc<TestClock>, Throttle) {
        let clock = Arc::new(TestClock::default());
        let throttle = Throttle::new(Arc::clone(&clock) as Arc<dyn Clock>);
        (clock, throttle)
    }

    #[test]
    fn writers_keep_to_the_rate_and_are_free_when_released() {
        let (clock, throttle) = throttle();
        throttle.admit(1 << 30);
        assert_eq!(clock.monotonic(), Duration::ZERO);
        throttle.limit(1_000_000, ThrottleReason::Memtable);
        (0..10_000).for_each(|_| throttle.admit(100));
        let seconds = clock.monotonic().as_secs_f64();
        assert!((0.98..=1.02).contains(&seconds), "1 MB at 1 MB/s took {seconds} s");
        throttle.release();
        throttle.admit(1 << 30);
        assert!((clock.monotonic().as_secs_f64() - seconds).abs() < 1e-9);
    }

    #[test]
    fn no_commit_is_delayed_by_more_than_the_longest_sleep() {
        let (clock, throttle) = throttle();
        throttle.limit(64 << 10, ThrottleReason::Memtable);
        for _ in 0..100 {
            let before = clock.monotonic();
            throttle.admit(10 << 20);
            assert!(clock.monotonic() - before <= Duration::from_nanos(SLEEP_NANOS_MAX));
        }
    }

    #[test]
    fn the_state_is_visible() {
        let (_clock, throttle) = throttle();
        assert_eq!(throttle.statistics().reason, None);
        throttle.limit(1_000_000, ThrottleReason::HeldBackLog);
        (0..1000).for_each(|_| throttle.admit(1000));
        let seen = throttle.statistics();
        assert_eq!(
            (seen.reason, seen.rate_bytes_per_second),
            (Some(ThrottleReason::HeldBackLog), Some(1_000_000))
        );
        assert!((900..=1100).contains(&seen.delay_micros_per_commit), "{seen:?}");
        assert!(seen.factor > 0.4 && seen.delayed_commits == 1000, "{seen:?}");
        throttle.release();
        assert_eq!((throttle.statistics().reason, throttle.statistics().rate_bytes_per_second), (None, None));
    }
}
