//! Memory limits of open transactions: of one, and of all in a database.
//!
//! ```text
//!   one transaction:  rows written, what savepoints keep, locks, reads, its record   <= max_transaction_bytes
//!   all of them                                                                      <= transaction_memory_bytes
//! ```
//! A transaction counts what it takes itself, and takes from the budget of all in steps of `STEP_BYTES`, as long as those fit,
//! so a small one touches nothing that is shared. The sizes are what the structures and the allocator take, rounded up.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use seawall_sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::options::MemoryOptions;

/// A lock, beside the row that it is for: the entry of the lock table, and its name in the transaction's list.
pub(crate) const LOCK_BYTES: u64 = 74;

/// What every transaction has without asking.
const FREE_BYTES: u64 = 4 << 10;
const STEP_BYTES: u64 = 64 << 10;

/// Memory of the rows that a transaction logs in one part, before its commit.
pub(crate) fn part_bytes(memory: &MemoryOptions) -> u64 {
    (memory.memtable_bytes / 16).min(memory.transaction_bytes / 4)
}

/// A length in memory as a count of bytes.
pub(crate) fn bytes(length: usize) -> u64 {
    u64::try_from(length).expect("a length in memory fits into 64 bits")
}

/// What all transactions of a database take together.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: u64,
    taken: CachePadded<AtomicU64>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { limit, taken: CachePadded::default() })
    }

    /// Bytes that open transactions have taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    fn take(&self, more: u64) -> Result<(), Error> {
        let with_more = |taken: u64| taken.checked_add(more).filter(|after| *after <= self.limit);
        // In one step: what is refused is never seen by others, who may need less.
        match self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, with_more) {
            Ok(_) => Ok(()),
            Err(taken) => {
                Err(Error::TransactionMemory { bytes: taken.saturating_add(more), limit: self.limit })
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// The part of the budget that one transaction has, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    budget: Arc<MemoryBudget>,
    taken: u64,
}

impl MemoryShare {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> MemoryShare {
        MemoryShare { budget: Arc::clone(budget), taken: 0 }
    }

    /// Makes sure that the transaction may take `bytes` in all.
    pub(crate) fn cover(&mut self, bytes: u64) -> Result<(), Error> {
        let Some(lacking) = bytes.checked_sub(FREE_BYTES + self.taken).filter(|lacking| *lacking > 0) else {
            return Ok(());
        };
        let step = lacking.next_multiple_of(STEP_BYTES);
        let taken = match self.budget.take(step) {
            Ok(()) => step,
            // What is left may be less than a step, and enough.
            Err(_) => self.budget.take(lacking).map(|()| lacking)?,
        };
        self.taken += taken;
        Ok(())
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.give_back(self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let budget = MemoryBudget::new(10 * STEP_BYTES);
        let mut small = MemoryShare::new(&budget);
        small.cover(FREE_BYTES).unwrap();
        assert_eq!(budget.taken(), 0, "small transactions share nothing");
        let mut large = MemoryShare::new(&budget);
        large.cover(FREE_BYTES + 9 * STEP_BYTES).unwrap();
        large.cover(FREE_BYTES + 3).unwrap();
        small.cover(FREE_BYTES + 1).unwrap();
        let refused = large.cover(FREE_BYTES + 9 * STEP_BYTES + 1).unwrap_err();
        assert!(matches!(refused, Error::TransactionMemory { .. }), "{refused}");
        assert_eq!(budget.taken(), 10 * STEP_BYTES, "what was refused is not taken");
        drop(small);
        large.cover(FREE_BYTES + 9 * STEP_BYTES + 1).unwrap();
        drop(large);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_transaction_alone_may_take_the_whole_budget_whatever_its_size() {
        for limit in [1, STEP_BYTES - 1, STEP_BYTES, 3 * STEP_BYTES + 10_000] {
            let budget = MemoryBudget::new(limit);
            let mut share = MemoryShare::new(&budget);
            for bytes in (0..limit).step_by(10_000).chain([limit]) {
                share.cover(FREE_BYTES + bytes).unwrap();
            }
            let refused = share.cover(FREE_BYTES + limit + 1).unwrap_err();
            assert!(matches!(refused, Error::TransactionMemory { .. }), "{refused}");
            assert_eq!(budget.taken(), limit);
        }
    }
}
