//! What uploads share: memory and processors.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Contents and packed files in memory. With segments of 16 MiB, 32 uploads need less.
const MEMORY_BYTES: u64 = 1 << 30;

/// What uploads share.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// In bytes.
    pub(super) memory: Stock,
    /// Files that are read and packed at once.
    pub(super) processors: Stock,
}

impl Limits {
    pub(super) fn new() -> Limits {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Limits { memory: Stock::new(MEMORY_BYTES), processors: Stock::new(processors as u64) }
    }
}

/// So much of something; whoever wants more than there is waits.
#[derive(Clone, Debug)]
pub(super) struct Stock(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    all: u64,
    free: Mutex<u64>,
    returned: Condvar,
}

/// A part of it, until dropped.
#[derive(Debug)]
pub(super) struct Share {
    shelf: Arc<Shelf>,
    amount: u64,
}

impl Stock {
    pub(super) fn new(all: u64) -> Stock {
        Stock(Arc::new(Shelf { all, free: Mutex::new(all), returned: Condvar::new() }))
    }

    /// Takes `amount`, or all there is if that is more: then nobody else has any.
    pub(super) fn take(&self, amount: u64) -> Share {
        let amount = amount.min(self.0.all);
        let mut free = self.0.free.lock();
        while *free < amount {
            self.0.returned.wait(&mut free);
        }
        *free -= amount;
        Share { shelf: Arc::clone(&self.0), amount }
    }
}

impl Share {
    /// Gives back all but `amount`.
    pub(super) fn shrink(&mut self, amount: u64) {
        let given = self.amount.saturating_sub(amount);
        self.amount -= given;
        *self.shelf.free.lock() += given;
        self.shelf.returned.notify_all();
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
        assert_eq!(*stock.0.free.lock(), 0);
        let waiting = std::thread::spawn({
            let stock = stock.clone();
            move || stock.take(10).amount
        });
        drop(some);
        drop(all);
        assert_eq!(waiting.join().unwrap(), 10);
        assert_eq!(*stock.0.free.lock(), 10);
    }
}
