//! A transaction that writes more rows than its memory holds into a table that was there before: it moves the table's rows to
//! where nobody else looks, and logs the rest in parts.
//!
//! ```text
//!   storage of the table    a b c d e        others read on here; `reclaim` gets it with the commit
//!   write set                 B   d deleted
//!            |
//!            v in the order of keys, in parts
//!   new storage             a B c e ...      what the transaction writes from now on, any number of rows
//! ```
//! The commit is that of a truncate, and so is a rollback, or a power loss before it: see `parts`. Nobody else may write to the
//! table meanwhile, and the caller sees to that by a lock of its own; the commit refuses if somebody has, as far as it can tell
//! outside of the log's critical section.

use std::ops::Bound;
use std::sync::Arc;

use seawall_types::TableId;

use crate::bulk_load::loaded_rows::LoadedRows;
use crate::catalog::{self, ObjectRow, Table};
use crate::error::Error;
use crate::options::Isolation;
use crate::row_key;
use crate::snapshots::scan::{any_newer_in, row_bounds};
use crate::transaction::logged_parts::TakenOver;
use crate::transaction::memory::part_bytes;
use crate::transaction::{Transaction, no_such_table};

impl Transaction {
    /// Whether the transaction has nearly all the memory that it may take, for rows of tables that others know
    /// ([`Transaction::take_over_table`]).
    pub fn is_nearly_full(&self) -> bool {
        let memory = &self.engine.options.memory;
        // A part in the making, and as much again for what goes with it.
        self.memory_bytes() + 2 * part_bytes(memory) > memory.transaction_bytes
    }

    /// Whether [`Transaction::take_over_table`] would move the rows of a table that others know, and no prepared transaction uses the table:
    /// with one, the commit would be refused. Who has locked the table knows that none comes later.
    pub fn may_take_over(&self, table: &Table) -> bool {
        let sees_newest = self.options.isolation == Isolation::ReadCommitted && self.snapshot.is_none();
        sees_newest && !self.is_own(table) && table.object.is_free()
    }

    /// Makes room for any number of rows in a table, at the cost of writing all its rows again: they are copied to where only this
    /// transaction looks, and from now on it writes there. Does nothing if they are there already. Under `Snapshot` and
    /// `Serializable` only tables that the transaction has itself created or truncated can be taken over.
    ///
    /// Until the transaction has ended, nobody else may write to the table or lock its rows: the caller has to see to that.
    ///
    /// # Errors
    /// As [`Transaction::truncate_table`]; any of them ends the transaction.
    pub fn take_over_table(&mut self, table: &Table) -> Result<(), Error> {
        self.check_usable()?;
        if self.touched.is_defined_since(table.object.id, self.savepoints.innermost()) {
            return Ok(());
        }
        let is_own = self.is_own(table);
        if !is_own && self.options.isolation != Isolation::ReadCommitted {
            return Ok(());
        }
        self.move_rows(table, is_own).map_err(|error| self.fail(error))
    }

    fn move_rows(&mut self, table: &Table, is_own: bool) -> Result<(), Error> {
        let row =
            self.lock_and_read(&catalog::object_key(table.id()))?.ok_or_else(|| no_such_table(table))?;
        let name = ObjectRow::decode(table.id(), &row)?.name;
        // What others have logged by now is there for the copy; what this one has, too.
        let copied = self.engine.queue.last_entered();
        self.engine.require_visible(copied, Some(&self.session.waits.cancel))?;
        let from = self.storage_for_write(table)?;
        self.truncate_table(&name)?;
        let to = self.storage_for_write(table)?;
        self.parts.greatest.insert(to, Vec::new());
        match self.parts.taken_over.get(&from).copied() {
            Some(first) => self.parts.taken_over.insert(to, TakenOver { left: from, ..first }),
            None if is_own => None,
            None => self.parts.taken_over.insert(to, TakenOver { from, left: from, copied }),
        };
        self.copy_rows(table, from, to)?;
        if !self.savepoints.are_alive() {
            self.forget_rows_left();
        }
        Ok(())
    }

    /// Without savepoints, nobody returns to where tables were before they were taken over.
    pub(super) fn forget_rows_left(&mut self) {
        for (to, taken) in &self.parts.taken_over {
            if self.touched.is_own_storage(*to) {
                for left in [taken.from, taken.left] {
                    let (first, end) = row_key::table_range(left);
                    self.writes.take(&first, &end);
                }
            }
        }
    }

    /// Copies all rows of a storage, with what the transaction has made of them.
    fn copy_rows(&mut self, table: &Table, from: TableId, to: TableId) -> Result<(), Error> {
        let engine = Arc::clone(&self.engine);
        let mut loaded = LoadedRows::of(&engine, from);
        let mut next = loaded.next()?;
        let (_, end) = row_key::table_range(from);
        let mut key = from.get().to_be_bytes().to_vec();
        let mut bound = Bound::Included(());
        while let Some((written, value)) =
            self.writes.first_in(bound.map(|()| &key[..]), Bound::Excluded(&end))
        {
            let (written, value) = (written.to_vec(), value.map(<[u8]>::to_vec));
            while let Some((older, value)) = next.take_if(|(older, _)| *older < written) {
                self.copy_row(table, to, &older, &value)?;
                next = loaded.next()?;
            }
            if next.take_if(|(older, _)| *older == written).is_some() {
                next = loaded.next()?;
            }
            if let Some(value) = value {
                self.copy_row(table, to, &written, &value)?;
            }
            (key, bound) = (written, Bound::Excluded(()));
        }
        while let Some((older, value)) = next {
            self.copy_row(table, to, &older, &value)?;
            next = loaded.next()?;
        }
        Ok(())
    }

    fn copy_row(&mut self, table: &Table, to: TableId, row_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let copy = row_key::encode(to, row_key::key_of(row_key));
        self.write_row_of(table, &copy, Some(value))
    }

    /// Whether others have changed a row since the moment of the statement, which has found it where it was.
    pub(super) fn had_changed_when_taken_over(
        &self,
        table: &Table,
        storage: TableId,
        key: &[u8],
    ) -> Result<bool, Error> {
        match self.parts.taken_over.get(&storage) {
            Some(taken) => self.has_changed_since_statement(table, &row_key::encode(taken.from, key)),
            None => Ok(false),
        }
    }

    /// Refuses if somebody has written to a table since it was taken over.
    pub(crate) fn check_taken_over(&self) -> Result<(), Error> {
        let view = self.engine.view();
        let current = self.parts.taken_over.iter().filter(|(to, _)| self.touched.is_own_storage(**to));
        for (_, taken) in current {
            let (from, to) = row_bounds::<&[u8]>(taken.from, &..);
            if any_newer_in(&view, from.as_ref(), to.as_ref(), taken.copied) {
                return Err(Error::Conflict { what: "a table that this one has written again" });
            }
        }
        Ok(())
    }
}
