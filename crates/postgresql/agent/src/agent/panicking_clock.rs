//! A clock that makes a thread panic: a defect in the middle of whatever reads it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_io::Clock;

#[derive(Debug)]
pub(super) struct PanickingClock {
    /// The name of threads that panic.
    thread: &'static str,
    /// Which reading panics.
    reading: Reading,
    has_panicked: AtomicBool,
}

#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Every one of the monotonic time.
    Monotonic,
    /// The first one of the time of day.
    FirstOfDay,
}

impl PanickingClock {
    pub(super) fn new(thread: &'static str) -> PanickingClock {
        PanickingClock { thread, reading: Reading::Monotonic, has_panicked: AtomicBool::new(false) }
    }

    /// A clock whose time of day makes the first thread of this name panic that asks for it.
    pub(super) fn once_for_the_time_of_day(thread: &'static str) -> PanickingClock {
        PanickingClock { reading: Reading::FirstOfDay, ..PanickingClock::new(thread) }
    }

    fn is_meant(&self) -> bool {
        std::thread::current().name() == Some(self.thread)
    }

    pub(super) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::SeqCst)
    }
}

impl Clock for PanickingClock {
    fn wall_micros(&self) -> i64 {
        if self.reading == Reading::FirstOfDay
            && self.is_meant()
            && !self.has_panicked.swap(true, Ordering::SeqCst)
        {
            panic!("as ordered by the test");
        }
        0
    }

    fn monotonic(&self) -> Duration {
        if self.reading == Reading::Monotonic && self.is_meant() {
            self.has_panicked.store(true, Ordering::SeqCst);
            panic!("as ordered by the test");
        }
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) {}
}
