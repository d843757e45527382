//! A point of a run, at which another thread may go on.

/// Lets the scheduler choose who goes on.
pub fn point() {
    // Nothing but a switch, in shuttle: `yield_now` would lower the thread's priority.
    shuttle::thread::sleep(std::time::Duration::ZERO);
}
