//! Rollback to a savepoint, on request or after a failed call.
//!
//! A call that fails (a conflict, a deadlock, a lock that is not got) returns the transaction to its innermost savepoint at
//! once, so that others get what it has locked since. Nothing but a rollback may follow, of all or to a savepoint. Without a
//! savepoint all is given up.

use crate::error::Error;
use crate::transaction::Transaction;
use crate::transaction::savepoint::{Failed, Mark, Savepoint};

impl Transaction {
    /// Marks this moment, so that [`Transaction::rollback_to`] can return to it. Savepoints nest. Until it is released, or
    /// the transaction returns to an earlier one, each write keeps the row as it was in memory.
    pub fn savepoint(&mut self) -> Savepoint {
        self.writes.keep_undo();
        self.locked_rows.keep_order();
        let number = self.savepoints.next_number;
        self.savepoints.next_number += 1;
        self.savepoints.alive.push(Mark {
            number,
            undo: self.writes.undo_length(),
            touched: self.touched.counts(),
            locks: self.locks.len(),
            stronger_locks: self.stronger_locks.len(),
            locked_rows: self.locked_rows.ordered_count(),
        });
        Savepoint { owner: self.owner, number }
    }

    /// Undoes everything written since the savepoint, which stays, and gives back the row locks taken since; savepoints made
    /// after it are gone. A transaction that has failed since goes on from here.
    ///
    /// # Errors
    /// `NoSuchSavepoint` if it is of another transaction or gone; `TransactionFailed` if the transaction had failed before the
    /// savepoint was made, or has given up everything.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        match &self.failed {
            None => self.check_usable()?,
            Some(failed) if failed.returned_to.is_none_or(|reached| savepoint.number > reached) => {
                return Err(failed.error());
            }
            Some(_) => self.engine.lifecycle.check_open()?,
        }
        let index = self.index_of(savepoint)?;
        self.return_to(index);
        self.failed = None;
        Ok(())
    }

    /// Gives up the savepoint, and those made after it. What was done since becomes part of what came before.
    ///
    /// # Errors
    /// `NoSuchSavepoint` if it is of another transaction or gone; `TransactionFailed`.
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        self.check_usable()?;
        let index = self.index_of(savepoint)?;
        self.savepoints.alive.truncate(index);
        if index == 0 {
            self.writes.forget_undo();
            self.locked_rows.forget_order();
            self.stronger_locks = Vec::new();
            self.forget_rows_left();
        }
        Ok(())
    }

    fn index_of(&self, savepoint: &Savepoint) -> Result<usize, Error> {
        let own = Some(savepoint).filter(|savepoint| savepoint.owner == self.owner);
        own.and_then(|own| self.savepoints.index_of(own.number)).ok_or(Error::NoSuchSavepoint)
    }

    /// Undoes what came after the savepoint with this index, which becomes the innermost one.
    fn return_to(&mut self, index: usize) {
        let mark = self.savepoints.alive[index];
        self.savepoints.alive.truncate(index + 1);
        self.writes.undo_to(mark.undo);
        for storage in self.touched.storages_defined_since(mark.touched) {
            let (from, to) = crate::row_key::table_range(storage);
            self.writes.forget(&from, &to);
        }
        self.touched.return_to(mark.touched);
        self.locked_rows.return_to(mark.locked_rows);
        self.give_back_locks_since(mark.locks, mark.stronger_locks);
    }

    /// A call has failed: the transaction returns to its innermost savepoint, or gives up everything.
    pub(super) fn fail(&mut self, error: Error) -> Error {
        let innermost = self.savepoints.alive.len().checked_sub(1);
        match innermost {
            Some(index) => self.return_to(index),
            None => self.give_up_all(),
        }
        self.failed = Some(Failed {
            cause: error.to_string(),
            is_retryable: error.is_retryable(),
            returned_to: innermost.map(|index| self.savepoints.alive[index].number),
        });
        error
    }
}
