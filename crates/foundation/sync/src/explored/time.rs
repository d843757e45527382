//! The time of a run.

use std::cell::Cell;
use std::time::Duration;

use shuttle::rand::Rng;

/// How often a wait with a timeout ends by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Timeouts {
    /// Never: whoever is not woken sleeps for ever. A wake-up that is lost, and made up for by a timeout, shows as a
    /// deadlock.
    #[default]
    Never,
    /// Each with this chance in a hundred, before it sleeps.
    Percent(u32),
}

// Of the operating system's thread: all threads of a run are coroutines on one.
thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static TIMEOUTS: Cell<Timeouts> = const { Cell::new(Timeouts::Never) };
}

/// A new run.
pub(super) fn begin() {
    NOW.set(Duration::ZERO);
    TIMEOUTS.set(Timeouts::Never);
}

/// Time since the run began; each look takes a microsecond.
pub fn now() -> Duration {
    NOW.set(NOW.get() + Duration::from_micros(1));
    NOW.get()
}

/// Lets time pass.
pub fn pass_time(duration: Duration) {
    NOW.set(NOW.get() + duration);
}

/// For the run under way.
pub fn set_timeouts(timeouts: Timeouts) {
    TIMEOUTS.set(timeouts);
}

pub(super) fn times_out() -> bool {
    match TIMEOUTS.get() {
        Timeouts::Never => false,
        Timeouts::Percent(chance) => shuttle::rand::thread_rng().gen_range(0..100) < chance,
    }
}
