//! Time that passes only when told.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_io::Clock;

/// A clock that stands still; `advance` and `sleep` move it. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    now: Arc<Mutex<Now>>,
}

#[derive(Debug)]
struct Now {
    wall_micros: i64,
    monotonic: Duration,
}

impl SimulatedClock {
    /// A clock whose time of day is `wall_micros` and whose monotonic time is zero.
    pub fn new(wall_micros: i64) -> SimulatedClock {
        SimulatedClock { now: Arc::new(Mutex::new(Now { wall_micros, monotonic: Duration::ZERO })) }
    }

    /// Lets time pass.
    pub fn advance(&self, duration: Duration) {
        let mut now = self.now.lock();
        now.monotonic += duration;
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        now.wall_micros = now.wall_micros.saturating_add(micros);
    }

    /// Sets the monotonic time, back too, which no clock should do. The time of day is not touched.
    pub fn set_monotonic(&self, monotonic: Duration) {
        self.now.lock().monotonic = monotonic;
    }

    /// Sets the time of day, back too, as an operator may; monotonic time is not touched.
    pub fn set_wall_micros(&self, wall_micros: i64) {
        self.now.lock().wall_micros = wall_micros;
    }
}

impl Default for SimulatedClock {
    /// The first second of 2025.
    fn default() -> SimulatedClock {
        SimulatedClock::new(1_735_689_600_000_000)
    }
}

impl Clock for SimulatedClock {
    fn wall_micros(&self) -> i64 {
        self.now.lock().wall_micros
    }

    fn monotonic(&self) -> Duration {
        self.now.lock().monotonic
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_told() {
        let clock = SimulatedClock::new(5);
        let same = clock.clone();
        assert_eq!((clock.wall_micros(), clock.monotonic()), (5, Duration::ZERO));
        same.sleep(Duration::from_micros(7));
        clock.advance(Duration::from_micros(3));
        assert_eq!((clock.wall_micros(), same.monotonic()), (15, Duration::from_micros(10)));
        clock.set_wall_micros(1);
        assert_eq!((same.wall_micros(), same.monotonic()), (1, Duration::from_micros(10)));
        clock.set_monotonic(Duration::from_micros(3));
        assert_eq!((same.wall_micros(), same.monotonic()), (1, Duration::from_micros(3)));
    }
}
