//! Time.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The time of day, time that only runs forward, and sleep.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since 1970, UTC. May be set back by an operator: stamps for people, never for order.
    fn wall_micros(&self) -> i64;

    /// Time since some fixed moment of this process; never runs backwards.
    fn monotonic(&self) -> Duration;

    /// Lets the calling thread rest.
    fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_micros(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the time of day")]
        let now = SystemTime::now();
        match now.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        }
    }

    fn monotonic(&self) -> Duration {
        // One start for all instances, so that durations taken from two of them can be compared.
        static START: OnceLock<Instant> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
        let now = Instant::now();
        now.duration_since(*START.get_or_init(|| now))
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_forward_and_is_of_this_century() {
        let clock = SystemClock;
        let first = clock.monotonic();
        assert!(SystemClock.monotonic() >= first);
        assert!(clock.wall_micros() > 1_700_000_000_000_000);
    }
}
