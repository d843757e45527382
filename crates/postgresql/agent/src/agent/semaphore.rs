//! A fair counting semaphore for limits that threads share: memory, processors, requests to a store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// How many threads can work at once.
pub(crate) fn processors() -> u64 {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get) as u64
}

/// A number of permits. A thread that wants more than are free waits, and no thread overtakes another.
#[derive(Clone, Debug)]
pub(crate) struct Semaphore(Arc<Permits>);

#[derive(Debug)]
struct Permits {
    all: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// In the order of their arrival. Each thread is woken alone, when it has its permits: thirty may wait.
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    amount: u64,
    /// It has its permits. Written under the lock of the state.
    is_served: AtomicBool,
    served: Condvar,
}

/// Permits that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    amount: u64,
}

impl Semaphore {
    pub(crate) fn new(all: u64) -> Semaphore {
        Semaphore(Arc::new(Permits { all, state: Mutex::new(State { free: all, waiting: VecDeque::new() }) }))
    }

    /// Waits for `amount` permits, or for all if that is more than there are.
    pub(crate) fn acquire(&self, amount: u64) -> Permit {
        let amount = amount.min(self.0.all);
        let waiter = Arc::new(Waiter { amount, is_served: AtomicBool::new(false), served: Condvar::new() });
        let mut state = self.0.state.lock();
        state.waiting.push_back(Arc::clone(&waiter));
        state.serve();
        while !waiter.is_served.load(Ordering::SeqCst) {
            waiter.served.wait(&mut state);
        }
        Permit { permits: Arc::clone(&self.0), amount }
    }
}

impl State {
    /// Serves the threads that came first, while there are enough permits.
    fn serve(&mut self) {
        while let Some(first) = self.waiting.front().filter(|first| first.amount <= self.free) {
            self.free -= first.amount;
            first.is_served.store(true, Ordering::SeqCst);
            first.served.notify_one();
            self.waiting.pop_front();
        }
    }
}

impl Permit {
    /// Gives back all but `amount`.
    pub(crate) fn shrink(&mut self, amount: u64) {
        let given = self.amount.saturating_sub(amount);
        self.amount -= given;
        let mut state = self.permits.state.lock();
        state.free += given;
        state.serve();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use seawall_testing::wait_until;

    use super::*;

    #[test]
    fn no_thread_has_more_than_there_is() {
        let semaphore = Semaphore::new(10);
        let mut all = semaphore.acquire(1000);
        assert_eq!(all.amount, 10);
        all.shrink(4);
        let some = semaphore.acquire(6);
        assert_eq!(semaphore.0.state.lock().free, 0);
        let waiting = std::thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.acquire(10).amount
        });
        drop(some);
        drop(all);
        assert_eq!(waiting.join().unwrap(), 10);
        assert_eq!(semaphore.0.state.lock().free, 10);
    }

    #[test]
    fn no_thread_overtakes() {
        let semaphore = Semaphore::new(2);
        let held = semaphore.acquire(2);
        let served = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (semaphore, served) = (&semaphore, &served);
                scope.spawn(move || {
                    // Some want all, and would starve if small ones went before.
                    let permit = semaphore.acquire(2 - number % 2);
                    served.lock().push(number);
                    drop(permit);
                });
                wait_until("the thread to wait its turn", || {
                    semaphore.0.state.lock().waiting.len() as u64 > number
                });
            }
            drop(held);
        });
        assert_eq!(served.into_inner(), (0..8).collect::<Vec<u64>>());
    }
}
