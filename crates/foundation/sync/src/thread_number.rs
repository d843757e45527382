//! Numbers of living threads, as small as they can be.

use std::collections::BTreeSet;

use parking_lot::Mutex;

#[derive(Debug)]
struct Numbers {
    /// Given back, and below `next`.
    free: BTreeSet<usize>,
    next: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: BTreeSet::new(), next: 0 });

/// A number that nobody else has until it is dropped.
#[derive(Debug)]
pub(crate) struct ThreadNumber(usize);

impl ThreadNumber {
    pub(crate) fn draw() -> ThreadNumber {
        let numbers = &mut *NUMBERS.lock();
        ThreadNumber(numbers.free.pop_first().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        }))
    }

    pub(crate) fn get(&self) -> usize {
        self.0
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        NUMBERS.lock().free.insert(self.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::thread_number;

    #[test]
    fn threads_that_live_together_have_different_numbers_and_those_that_follow_each_other_have_small_ones() {
        const TOGETHER: usize = 8;
        let barrier = std::sync::Barrier::new(TOGETHER);
        let mut numbers: Vec<usize> = std::thread::scope(|scope| {
            let number = || {
                let number = thread_number();
                assert_eq!(thread_number(), number, "a thread keeps its number");
                barrier.wait();
                number
            };
            let threads: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), TOGETHER);
        let following = (0..1_000).map(|_| std::thread::spawn(thread_number).join().unwrap());
        // Beside this test others may run.
        assert!(following.max().unwrap() < 200);
    }
}
