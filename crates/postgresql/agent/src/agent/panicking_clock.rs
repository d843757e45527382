//! A clock that makes a thread panic: a defect in the middle of whatever reads it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_io::Clock;

#[derive(Debug)]
pub(super) struct PanickingClock {
    /// The name of threads that panic.
    thread: &'static str,
    has_panicked: AtomicBool,
}

impl PanickingClock {
    pub(super) fn new(thread: &'static str) -> PanickingClock {
        PanickingClock { thread, has_panicked: AtomicBool::new(false) }
    }

    pub(super) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::SeqCst)
    }
}

impl Clock for PanickingClock {
    fn wall_micros(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        if std::thread::current().name() == Some(self.thread) {
            self.has_panicked.store(true, Ordering::SeqCst);
            panic!("as ordered by the test");
        }
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) {}
}
