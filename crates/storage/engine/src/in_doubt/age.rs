//! The age of a transaction in doubt, independent of changes to the time of day.
//!
//! Rules decide by it, for good. So time that passes while the database is open is that of the monotonic clock: an
//! operator, or a wrong time server, that sets the time of day a day ahead makes no transaction a day older, and one that
//! sets it back makes none young again. Only how old a transaction was when it was found at open has to be told by the time
//! of day.

use std::time::Duration;

use seawall_io::Clock;

/// The age of something, at a moment, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    then: Duration,
    /// A time of the monotonic clock.
    measured_at: Duration,
}

impl Age {
    /// The age of a transaction that begins now.
    pub(crate) fn zero(clock: &dyn Clock) -> Age {
        Age { then: Duration::ZERO, measured_at: clock.monotonic() }
    }

    /// The age of a transaction that began at this time of day, perhaps in another process. A clock that was set back gives zero.
    pub(crate) fn since(clock: &dyn Clock, then_micros: i64) -> Age {
        let then = between(clock.wall_micros(), then_micros);
        Age { then, measured_at: clock.monotonic() }
    }

    /// The age now.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Duration {
        self.then.saturating_add(clock.monotonic().saturating_sub(self.measured_at))
    }
}

/// Time between two times of day; zero if the clock was set back in between.
pub(crate) fn between(now_micros: i64, then_micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(now_micros.saturating_sub(then_micros)).unwrap_or(0))
}
