//! Waiting for what another thread or process is about to do.

use std::time::{Duration, Instant};

/// How long a test waits for something before it fails. Far more than anything takes on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks, once the first ones were in vain.
const REST: Duration = Duration::from_millis(1);
/// Looks before the first rest: most things are there at once.
const EAGER_LOOKS: u32 = 100;

/// Returns once `is_so`.
///
/// # Panics
/// If it is not so within [`PATIENCE`]; the message says `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_until_within(PATIENCE, what, is_so);
}

/// As [`wait_until`], for what may take longer.
///
/// # Panics
/// If it is not so within `limit`.
#[track_caller]
pub fn wait_until_within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_within(limit, what, || is_so().then_some(()));
}

/// Returns what `look` finds, as soon as it does.
///
/// # Panics
/// If it finds nothing within [`PATIENCE`]; the message says `what` was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look)
}

#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "the time of the machine that runs the test, not of a database"
)]
fn wait_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut looks = 0;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if begun.elapsed() >= limit {
            in_vain(limit, what);
        }
        looks += 1;
        if looks < EAGER_LOOKS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(REST);
        }
    }
}

/// Says it past the test harness, too: a thread that the test started, and that hangs, may keep the panic from ever being shown.
#[track_caller]
fn in_vain(limit: Duration, what: &str) -> ! {
    let message = format!("waited {} seconds for: {what}", limit.as_secs());
    let thread = std::thread::current();
    crate::say(&format!("\n{}: {message}\n", thread.name().unwrap_or("a thread of a test")));
    panic!("{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_it_waited_for() {
        let mut looks = 0;
        let found = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some("found")
        });
        assert_eq!((found, looks), ("found", 3));
    }

    #[test]
    #[should_panic(expected = "waited 0 seconds for: what never comes")]
    fn a_wait_in_vain_fails_and_says_what_for() {
        wait_until_within(Duration::ZERO, "what never comes", || false);
    }
}
