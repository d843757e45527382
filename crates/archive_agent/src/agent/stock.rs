//! What threads share: memory, processors, requests to a store.

use std::sync::Arc;

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
    /// Something was returned, or it is another one's turn.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// How many have come so far, and how many of them have had their turn.
    came: u64,
    served: u64,
}

/// A part of it, until dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shelf: Arc<Shelf>,
    amount: u64,
}

impl Stock {
    pub(crate) fn new(all: u64) -> Stock {
        let state = State { free: all, came: 0, served: 0 };
        Stock(Arc::new(Shelf { all, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Takes `amount`, or all there is if that is more: then nobody else has any.
    pub(crate) fn take(&self, amount: u64) -> Share {
        let amount = amount.min(self.0.all);
        let mut state = self.0.state.lock();
        let turn = state.came;
        state.came += 1;
        while state.served != turn || state.free < amount {
            self.0.changed.wait(&mut state);
        }
        state.served += 1;
        state.free -= amount;
        self.0.changed.notify_all();
        Share { shelf: Arc::clone(&self.0), amount }
    }
}

impl Share {
    /// Gives back all but `amount`.
    pub(crate) fn shrink(&mut self, amount: u64) {
        let given = self.amount.saturating_sub(amount);
        self.amount -= given;
        self.shelf.state.lock().free += given;
        self.shelf.changed.notify_all();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
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
                while stock.0.state.lock().came < number + 2 {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        let served = served.into_inner();
        assert_eq!(served.len(), 8);
        // A small one may be told of after the large one that waits for it, and never after the one behind that.
        let in_turn = served.iter().zip(0_u64..).all(|(found, turn)| found.abs_diff(turn) <= 1);
        assert!(in_turn, "{served:?}");
    }
}
