//! Threads that sleep until they are woken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use super::time;

/// Who sleeps, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue(parking_lot::Mutex<VecDeque<Arc<Waiter>>>);

#[derive(Debug)]
pub(crate) struct Waiter(BatchSemaphore);

impl WaitQueue {
    pub(crate) const fn new() -> WaitQueue {
        WaitQueue(parking_lot::Mutex::new(VecDeque::new()))
    }

    pub(crate) fn enter(&self) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter(BatchSemaphore::const_new(0, Fairness::Unfair)));
        self.0.lock().push_back(Arc::clone(&waiter));
        waiter
    }

    /// Whoever waits with a timeout may give up by the seed's choice, at a moment of its choice.
    pub(crate) fn sleep_at_most(&self, waiter: &Arc<Waiter>, timeout: Option<Duration>) {
        let Some(timeout) = timeout.filter(|_| time::times_out()) else {
            waiter.sleep();
            return;
        };
        shuttle::thread::yield_now();
        self.0.lock().retain(|other| !Arc::ptr_eq(other, waiter));
        time::pass_time(timeout);
    }

    pub(crate) fn wake(&self, count: usize) {
        let woken: Vec<_> = {
            let mut waiters = self.0.lock();
            let count = count.min(waiters.len());
            waiters.drain(..count).collect()
        };
        woken.iter().for_each(|waiter| waiter.0.release(1));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Waiter {
    pub(crate) fn sleep(&self) {
        self.0.acquire_blocking(1).expect("nobody closes it");
    }
}
