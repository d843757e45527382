//! Threads that wait for a number to change: one system call wakes them all, and none when nobody waits.

use std::time::Duration;

use crate::atomic::{AtomicU32, Ordering};

/// A counter that threads sleep on until it changes. Waking is one system call for any number of sleepers, and
/// sleepers take no lock when they wake, so they do not queue behind each other.
#[derive(Debug, Default)]
pub struct WaitWord {
    word: AtomicU32,
    sleepers: AtomicU32,
}

impl WaitWord {
    /// A counter at zero.
    pub const fn new() -> WaitWord {
        WaitWord { word: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// The counter. Read it *before* testing the condition that a change announces.
    pub fn read(&self) -> u32 {
        self.word.load(Ordering::SeqCst)
    }

    /// Sleeps while the counter is `seen`, at most `timeout`; may return early. Test the condition again.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        system::wait(&self.word, seen, timeout);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many threads sleep now, or are about to.
    pub fn sleepers(&self) -> u32 {
        self.sleepers.load(Ordering::SeqCst)
    }

    /// Changes the counter and wakes all who sleep. Make the condition true first.
    pub fn wake_all(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            system::wake(&self.word, u32::MAX >> 1);
        }
    }

    /// Changes the counter and wakes one who sleeps.
    pub fn wake_one(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            system::wake(&self.word, 1);
        }
    }
}

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
mod system {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use rustix::thread::futex;

    pub(super) fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        // Every outcome (woken, changed before, interrupted, timed out) sends the caller back to its condition.
        futex::wait(word, futex::Flags::PRIVATE, seen, timeout.as_ref()).unwrap_or(());
    }

    pub(super) fn wake(word: &AtomicU32, count: u32) {
        futex::wake(word, futex::Flags::PRIVATE, count).unwrap_or(0);
    }
}

#[cfg(all(not(target_os = "linux"), not(feature = "shuttle")))]
mod system {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use parking_lot::{Condvar, Mutex};

    static MUTEX: Mutex<()> = Mutex::new(());
    static CHANGED: Condvar = Condvar::new();

    pub(super) fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        let mut guard = MUTEX.lock();
        if word.load(Ordering::SeqCst) == seen {
            CHANGED.wait_for(&mut guard, timeout.unwrap_or(Duration::from_secs(3600)));
        }
    }

    pub(super) fn wake(_word: &AtomicU32, _count: u32) {
        drop(MUTEX.lock());
        CHANGED.notify_all();
    }
}

/// Stands in for the system call, so that what is explored is the code around it.
#[cfg(feature = "shuttle")]
mod system {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use std::time::Duration;

    use crate::atomic::{AtomicU32, Ordering};
    use crate::explored::wait_queue::WaitQueue;

    std::thread_local! {
        /// By address, as the kernel does it. All threads of a run are coroutines on one thread.
        static QUEUES: RefCell<BTreeMap<usize, Rc<WaitQueue>>> = const { RefCell::new(BTreeMap::new()) };
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    pub(super) fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
        if word.load(Ordering::SeqCst) != seen {
            return;
        }
        // No point between the look and this.
        let queue = QUEUES.with_borrow_mut(|queues| Rc::clone(queues.entry(address(word)).or_default()));
        let waiter = queue.enter();
        queue.sleep_at_most(&waiter, timeout);
        QUEUES.with_borrow_mut(|queues| {
            if queue.is_empty() && queues.get(&address(word)).is_some_and(|other| Rc::ptr_eq(other, &queue)) {
                queues.remove(&address(word));
            }
        });
    }

    pub(super) fn wake(word: &AtomicU32, count: u32) {
        crate::explored::point::point();
        let queue = QUEUES.with_borrow(|queues| queues.get(&address(word)).cloned());
        if let Some(queue) = queue {
            queue.wake(usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
}
