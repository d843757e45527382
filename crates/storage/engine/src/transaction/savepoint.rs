//! Moments inside a transaction to which it can return.

use crate::error::Error;
use crate::transaction::Transaction;
use crate::transaction::lock_table::LockOwner;
use crate::transaction::touched_tables::TouchedCounts;

/// A moment inside a transaction to which it can return.
#[derive(Clone, Debug)]
pub struct Savepoint {
    owner: LockOwner,
    number: u64,
    touched: TouchedCounts,
}

impl Transaction {
    /// Marks this moment, so that [`Transaction::rollback_to`] can return to it.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { owner: self.owner, number: self.writes.savepoint(), touched: self.touched.counts() }
    }

    /// Undoes everything written since the savepoint, which stays; savepoints made after it are gone. Row locks are
    /// kept.
    ///
    /// # Errors
    /// `NoSuchSavepoint` if it is of another transaction or gone; `TransactionFailed`.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        self.check_usable()?;
        if savepoint.owner != self.owner || !self.writes.rollback_to(savepoint.number) {
            return Err(Error::NoSuchSavepoint);
        }
        self.touched.return_to(savepoint.touched);
        Ok(())
    }
}
