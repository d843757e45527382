//! A limit of bandwidth: so many bytes a second, on average, whatever is in flight.
//!
//! A transfer has the line for itself for as long as its bytes take at the limit, and the next one begins after that: turns are dealt out
//! in advance. A single object still comes as fast as the network is.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_io::Clock;

/// Bytes of a download before the first one is through.
const FIRST_ESTIMATE: u64 = 4 << 20;

/// A limit that transfers share; none, unless it is given one.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// 0: no limit.
    bytes_per_second: u64,
    state: Mutex<State>,
    lifted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When the line is free again.
    free_at: Duration,
    /// What a download takes, as far as is known.
    estimate: Option<u64>,
    is_lifted: bool,
}

impl Rate {
    /// A limit of so many MiB a second, if any.
    pub(crate) fn new(mib_per_second: Option<u64>) -> Rate {
        Rate { bytes_per_second: mib_per_second.unwrap_or(0).saturating_mul(1 << 20), ..Rate::default() }
    }

    /// Waits for the turn of a transfer of so many bytes.
    pub(crate) fn wait(&self, clock: &dyn Clock, bytes: u64) {
        if self.bytes_per_second == 0 {
            return;
        }
        let mut state = self.state.lock();
        let turn = state.free_at.max(clock.monotonic());
        state.free_at = turn + self.time_of(bytes);
        loop {
            let now = clock.monotonic();
            if state.is_lifted || now >= turn {
                return;
            }
            self.lifted.wait_for(&mut state, turn - now);
        }
    }

    /// Waits for the turn of a transfer whose length is not known yet, runs it, and counts the bytes that it says it had.
    pub(crate) fn run<T>(&self, clock: &dyn Clock, transfer: impl FnOnce() -> (u64, T)) -> T {
        if self.bytes_per_second == 0 {
            return transfer().1;
        }
        let estimate = self.state.lock().estimate.unwrap_or(FIRST_ESTIMATE);
        self.wait(clock, estimate);
        let (bytes, result) = transfer();
        let mut state = self.state.lock();
        state.free_at = (state.free_at + self.time_of(bytes)).saturating_sub(self.time_of(estimate));
        if bytes > 0 {
            state.estimate = Some(bytes);
        }
        result
    }

    fn time_of(&self, bytes: u64) -> Duration {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Nobody waits any more: the agent ends, and another one waits for that.
    pub(crate) fn lift(&self) {
        self.state.lock().is_lifted = true;
        self.lifted.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_io::SystemClock;
    use seawall_simulation::SimulatedClock;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn turns_are_as_far_apart_as_the_bytes_take() {
        let (rate, clock) = (Rate::new(Some(4)), SimulatedClock::new(0));
        rate.wait(&clock, 8 * MIB);
        let free_at = || rate.state.lock().free_at;
        let begun = clock.monotonic();
        assert_eq!(free_at() - begun, Duration::from_secs(2));
        clock.sleep(Duration::from_secs(2));
        // An estimate is made good when the length is known.
        rate.run(&clock, || (MIB, ()));
        assert_eq!(free_at() - begun, Duration::from_millis(2250));
        assert_eq!(rate.state.lock().estimate, Some(MIB));
        clock.sleep(Duration::from_secs(60));
        rate.run(&clock, || (0, ()));
        assert_eq!(
            free_at(),
            begun + Duration::from_secs(62),
            "what is not there takes nothing, and nothing is saved up"
        );
    }

    #[test]
    fn without_a_limit_nothing_waits_and_one_that_is_lifted_lets_all_go() {
        let clock = SystemClock;
        Rate::default().wait(&clock, u64::MAX);
        let rate = Arc::new(Rate::new(Some(1)));
        rate.wait(&clock, 3600 * MIB);
        let waiting = std::thread::spawn({
            let rate = Arc::clone(&rate);
            move || rate.wait(&SystemClock, 3600 * MIB)
        });
        seawall_testing::wait_until("the other one to have a turn", || {
            rate.state.lock().free_at.saturating_sub(clock.monotonic()) > Duration::from_secs(7000)
        });
        rate.lift();
        seawall_testing::wait_until("nobody to wait", || waiting.is_finished());
        waiting.join().unwrap();
    }
}
