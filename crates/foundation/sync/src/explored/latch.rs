//! Latches with `parking_lot`'s faces: its own types, over raw latches that block under the scheduler.
#![expect(unsafe_code, reason = "raw latches behind lock_api's safe face")]

use std::fmt;

use parking_lot::lock_api;
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use super::wait_queue::WaitQueue;

pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

const NEVER_CLOSED: &str = "the semaphore of a latch is never closed while its run goes on";

/// One permit.
pub struct RawMutex(BatchSemaphore);

// SAFETY: the one permit is held from `lock` to `unlock`.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: RawMutex = RawMutex(BatchSemaphore::const_new(1, Fairness::Unfair));
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        self.0.acquire_blocking(1).expect(NEVER_CLOSED);
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.release(1);
    }
}

// SAFETY: as above; who waits longest is no more likely to be next, which is one of the schedules.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        self.0.release(1);
    }
}

const ALL: usize = 1 << 16;

/// A permit for each reader, all for a writer.
pub struct RawRwLock(BatchSemaphore);

// SAFETY: a writer holds all permits, so nobody else holds one.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock(BatchSemaphore::const_new(ALL, Fairness::Unfair));
    type GuardMarker = lock_api::GuardNoSend;

    fn lock_shared(&self) {
        self.0.acquire_blocking(1).expect(NEVER_CLOSED);
    }

    fn try_lock_shared(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock_shared(&self) {
        self.0.release(1);
    }

    fn lock_exclusive(&self) {
        self.0.acquire_blocking(ALL).expect(NEVER_CLOSED);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.try_acquire(ALL).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.release(ALL);
    }
}

/// See `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(WaitQueue);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(WaitQueue::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        // Entered before the latch is given up: no wake-up in between is missed.
        let waiter = self.0.enter();
        MutexGuard::unlocked(guard, || waiter.sleep());
    }

    pub fn notify_one(&self) {
        self.0.wake(1);
    }

    pub fn notify_all(&self) {
        self.0.wake(usize::MAX);
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Condvar").finish_non_exhaustive()
    }
}
