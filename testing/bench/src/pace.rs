//! A fixed rate: when each operation of a thread is due, and how much of its lateness is the system's.
//!
//! ```text
//!   due      | | | | | | | | | | | | | |        every period
//!   begins   ||||      ||||      ||||           as many as come due within a millisecond, then a sleep
//! ```
//! A thread that slept between operations of ten microseconds would measure its timer. Starting up to a millisecond
//! early or late is therefore the pace's own; whatever a start is later than that was caused by an operation before
//! it, and is added to the latency, or a stall of a second would count as one slow operation where it delayed thousands.

use std::time::Duration;

/// See the module.
pub(crate) const GRAIN: Duration = Duration::from_millis(1);

/// The pace of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_second: f64,
    started: u64,
}

impl Pace {
    pub(crate) fn new(per_second: f64) -> Pace {
        Pace { per_second, started: 0 }
    }

    /// When the next operation is due, since the start of the run.
    pub(crate) fn due(&self) -> Duration {
        Duration::from_secs_f64(self.started as f64 / self.per_second)
    }

    /// How long to sleep before the next operation.
    pub(crate) fn sleep(&self, now: Duration) -> Option<Duration> {
        self.due().checked_sub(now).filter(|ahead| *ahead >= GRAIN)
    }

    /// The next operation begins; returns what its lateness adds to its latency.
    pub(crate) fn begin(&mut self, now: Duration) -> Duration {
        let late = now.saturating_sub(self.due()).saturating_sub(GRAIN);
        self.started += 1;
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_delays_everything_that_was_due_meanwhile() {
        let mut pace = Pace::new(1000.0);
        assert_eq!(pace.sleep(Duration::ZERO), None);
        assert_eq!(pace.begin(Duration::ZERO), Duration::ZERO);
        // The first took 100 ms; the next 99 were due within them.
        let stall = Duration::from_millis(100);
        let late: Vec<Duration> = (0..99).map(|_| pace.begin(stall)).collect();
        assert_eq!(late[0], Duration::from_millis(98));
        assert_eq!(late[49], Duration::from_millis(49));
        assert_eq!(late[98], Duration::ZERO);
        assert_eq!(pace.sleep(stall), None, "due now");
    }

    #[test]
    fn a_thread_sleeps_only_when_it_is_a_grain_ahead() {
        let mut pace = Pace::new(10_000.0);
        let now = Duration::from_millis(5);
        while pace.sleep(now).is_none() {
            pace.begin(now);
        }
        assert_eq!(pace.sleep(now), Some(GRAIN));
        assert_eq!(pace.started, 60, "six milliseconds of a hundred microseconds");
    }
}
