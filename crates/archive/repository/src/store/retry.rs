//! Trying again: after growing, random rests, for as long as the policy says.

use std::time::Duration;

use seawall_io::{Clock, Random};

use super::StoreError;

/// How long a request that fails in passing is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// No further attempt starts later than this after the first.
    pub give_up_after: Duration,
    /// The rest after the first attempt is at most this long; each further one at most twice as long as the last.
    pub first_rest: Duration,
    /// No rest is longer.
    pub rest_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            give_up_after: Duration::from_secs(30),
            first_rest: Duration::from_millis(100),
            rest_max: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// One attempt.
    pub fn once() -> RetryPolicy {
        RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() }
    }

    /// Between half of and the whole of what the attempt's number allows: so many clients that failed together do not come
    /// back together.
    fn rest_after(&self, attempts: u32, random: &dyn Random) -> Duration {
        let doubled = self.first_rest.saturating_mul(1 << (attempts - 1).min(16)).min(self.rest_max);
        let mut byte = [0];
        random.fill(&mut byte);
        doubled / 2 + doubled / 2 * u32::from(byte[0]) / 255
    }
}

/// Runs `attempt` until it succeeds, fails for good, or the policy's time is up. `report` is told of each attempt that will
/// be followed by another.
pub(crate) fn retry<T>(
    policy: &RetryPolicy,
    clock: &dyn Clock,
    random: &dyn Random,
    report: &dyn Fn(&StoreError),
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let start = clock.monotonic();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let error = match attempt() {
            Ok(value) => return Ok(value),
            Err(error) => StoreError { attempts, ..error },
        };
        let rest = policy.rest_after(attempts, random);
        let elapsed = clock.monotonic().saturating_sub(start);
        if !error.cause.is_passing() || elapsed + rest > policy.give_up_after {
            return Err(error);
        }
        report(&error);
        clock.sleep(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::StoreCause;
    use super::*;
    use seawall_simulation::{SimulatedClock, SimulatedRandom};

    fn failure(cause: StoreCause) -> StoreError {
        StoreError { operation: "put", object: "x".to_owned(), cause, message: "no".to_owned(), attempts: 1 }
    }

    #[test]
    fn what_passes_is_tried_again_until_the_time_is_up() {
        let (clock, random) = (SimulatedClock::new(0), SimulatedRandom::new(1));
        let policy = RetryPolicy::default();
        let mut calls = 0;
        let result: Result<(), _> = retry(&policy, &clock, &random, &|_| {}, || {
            calls += 1;
            Err(failure(StoreCause::Busy))
        });
        let error = result.unwrap_err();
        assert_eq!(error.attempts, calls);
        // Rests of at most 0.1, 0.2, 0.4 ... 3.2, 5, 5 ... within 30 seconds, and at least half of that each.
        assert!((10..=20).contains(&calls), "{calls} attempts");
        assert!(clock.monotonic() <= policy.give_up_after);
        assert!(error.to_string().contains(&format!("tried {calls} times")), "{error}");
    }

    #[test]
    fn what_does_not_pass_is_tried_once_and_success_ends_it() {
        let (clock, random) = (SimulatedClock::new(0), SimulatedRandom::new(1));
        let mut calls = 0;
        let mut run = |causes: &[StoreCause]| {
            calls = 0;
            let result = retry(&RetryPolicy::default(), &clock, &random, &|_| {}, || {
                calls += 1;
                causes.get(calls - 1).map_or(Ok(()), |cause| Err(failure(*cause)))
            });
            (result.is_ok(), calls)
        };
        assert_eq!(run(&[StoreCause::Denied]), (false, 1));
        assert_eq!(run(&[StoreCause::TimedOut, StoreCause::Unreachable]), (true, 3));
    }
}
