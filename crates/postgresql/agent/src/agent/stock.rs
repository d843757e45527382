//! What threads share: memory, processors, requests to a store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// How many threads can work at once.
pub(crate) fn processors() -> u64 {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get) as u64
}

/// So much of something; whoever wants more than there is waits, and nobody overtakes him.
#[derive(Clone, Debug)]
pub(crate) struct Stock(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    all: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// In the order of their coming. Each is woken by himself, when he has what he wants: thirty may wait.
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    amount: u64,
    /// He has it. Written under the lock of the state.
    is_served: AtomicBool,
    served: Condvar,
}

/// A part of it, until dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shelf: Arc<Shelf>,
    amount: u64,
}

impl Stock {
    pub(crate) fn new(all: u64) -> Stock {
        Stock(Arc::new(Shelf { all, state: Mutex::new(State { free: all, waiting: VecDeque::new() }) }))
    }

    /// Takes `amount`, or all there is if that is more: then nobody else has any.
    pub(crate) fn take(&self, amount: u64) -> Share {
        let amount = amount.min(self.0.all);
        let waiter = Arc::new(Waiter { amount, is_served: AtomicBool::new(false), served: Condvar::new() });
        let mut state = self.0.state.lock();
        state.waiting.push_back(Arc::clone(&waiter));
        state.serve();
        while !waiter.is_served.load(Ordering::SeqCst) {
            waiter.served.wait(&mut state);
        }
        Share { shelf: Arc::clone(&self.0), amount }
    }
}

impl State {
    /// Gives those who came first what they want, as far as it goes.
    fn serve(&mut self) {
        while let Some(first) = self.waiting.front().filter(|first| first.amount <= self.free) {
            self.free -= first.amount;
            first.is_served.store(true, Ordering::SeqCst);
            first.served.notify_one();
            self.waiting.pop_front();
        }
    }
}

impl Share {
    /// Gives back all but `amount`.
    pub(crate) fn shrink(&mut self, amount: u64) {
        let given = self.amount.saturating_sub(amount);
        self.amount -= given;
        let mut state = self.shelf.state.lock();
        state.free += given;
        state.serve();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use seawall_testing::wait_until;

    use super::*;

    #[test]
    fn nobody_has_more_than_there_is() {
        let stock = Stock::new(10);
        let mut all = stock.take(1000);
        assert_eq!(all.amount, 10);
        all.shrink(4);
        let some = stock.take(6);
        assert_eq!(stock.0.state.lock().free, 0);
        let waiting = std::thread::spawn({
            let stock = stock.clone();
            move || stock.take(10).amount
        });
        drop(some);
        drop(all);
        assert_eq!(waiting.join().unwrap(), 10);
        assert_eq!(stock.0.state.lock().free, 10);
    }

    #[test]
    fn nobody_overtakes() {
        let stock = Stock::new(2);
        let held = stock.take(2);
        let served = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (stock, served) = (&stock, &served);
                scope.spawn(move || {
                    // Some want all, and would starve if small ones went before.
                    let share = stock.take(2 - number % 2);
                    served.lock().push(number);
                    drop(share);
                });
                wait_until("the thread to wait its turn", || {
                    stock.0.state.lock().waiting.len() as u64 > number
                });
            }
            drop(held);
        });
        assert_eq!(served.into_inner(), (0..8).collect::<Vec<u64>>());
    }
}
