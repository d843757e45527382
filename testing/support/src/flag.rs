//! A flag that ends the threads of a test, however the test ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets its flag when dropped, also by a panic: threads that look at the flag end, and the test fails where it would hang.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once sets its flag at once"]
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
