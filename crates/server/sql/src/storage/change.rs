//! Rows are inserted, updated and deleted, and indexes follow.
//!
//! A unique key is checked under its lock: whoever inserts the same key at the same time waits, and sees what became of the first one.

use std::sync::Arc;

use seawall_engine::{LockWait, Table as EngineTable};
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use crate::execute::{Inserted, OnConflict};
use crate::schema::{Index, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::index_entry::{Entry, IndexLayout};
use crate::storage::layout::TableLayout;
use crate::storage::row::RowLayout;
use crate::storage::table_lock::TableLockMode;
use crate::storage::table_storage::TableStorage;
use crate::storage::violation;

/// The index of the primary key that rows are stored under.
fn row_key_index(table: &Table) -> Option<&Arc<Index>> {
    table.indexes.iter().find(|index| index.is_primary && index.storage.is_none())
}

fn is_arbiter(on_conflict: OnConflict<'_>, index: &Index) -> bool {
    match on_conflict {
        OnConflict::Fail => false,
        OnConflict::Report(arbiters) => {
            arbiters.is_empty() || arbiters.iter().any(|arbiter| arbiter.oid == index.oid)
        }
    }
}

impl TableStorage<'_> {
    pub(super) fn insert_row(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        on_conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted> {
        self.lock_to_write(table)?;
        let layout = self.layout(table)?;
        self.make_room(&layout)?;
        let identity = self.identity_of_new(&layout, row)?;
        let is_numbered = layout.shape.rows.is_numbered();
        let mut value = Vec::new();
        // An arbiter may say that nothing is written: then the row comes last.
        let is_first = !is_numbered && matches!(on_conflict, OnConflict::Fail);
        if is_first {
            layout.shape.rows.write_value(row, &mut value)?;
            let existing = self.transaction.insert(&layout.handle, &identity, &value, self.lock_wait);
            if existing.sql()?.is_some() {
                return self.row_conflict(&layout, identity, row, on_conflict);
            }
        } else if !is_numbered
            && self.transaction.lock_new_row(&layout.handle, &identity, self.lock_wait).sql()?.is_some()
        {
            return self.row_conflict(&layout, identity, row, on_conflict);
        }
        let mut entries = Vec::with_capacity(layout.shape.indexes.len());
        for index in &layout.shape.indexes {
            entries.push(index.entry(table, row, &identity, self.expressions)?);
        }
        // Arbiters first: after a conflict with one of them nothing is written.
        if let OnConflict::Report(_) = on_conflict {
            for (position, index) in layout.shape.indexes.iter().enumerate() {
                if is_arbiter(on_conflict, &index.index)
                    && let Some(entry) = &entries[position]
                    && let Some(existing) = self.holder(index, &layout.index_handles[position], entry)?
                {
                    return Ok(Inserted::Conflict(existing));
                }
            }
        }
        for (position, entry) in entries.iter().enumerate() {
            if let Some(entry) = entry {
                self.put_entry(&layout, position, entry, row)?;
            }
        }
        if !is_first {
            layout.shape.rows.write_value(row, &mut value)?;
            self.transaction.put(&layout.handle, &identity, value).sql()?;
        }
        layout.counters.note_insert();
        self.after_insert(&layout, &identity, row)?;
        Ok(Inserted::Done(identity))
    }

    /// Where the transaction has nearly all the memory that it may take, its rows go where any number of them have room: the table
    /// is written again, for which nobody else may write to it. Queries go on.
    fn make_room(&mut self, layout: &TableLayout) -> SqlResult<()> {
        if !self.transaction.is_nearly_full() || self.transaction.snapshot_lsn().is_some() {
            return Ok(());
        }
        self.lock_table(&layout.shape.table, TableLockMode::Exclusive, self.lock_wait)?;
        for handle in std::iter::once(&layout.handle).chain(&layout.index_handles) {
            self.transaction.take_over_table(handle).sql()?;
        }
        Ok(())
    }

    /// Prepares for many rows of a table that had none: they go where nobody else looks, so that none of them needs a lock. Others may read
    /// the table, and write to it after the end of the transaction. Does nothing if there are rows, or others write some now.
    pub(crate) fn prepare_for_load(&mut self, table: &Arc<Table>) -> SqlResult<()> {
        let layout = self.layout(table)?;
        let handles = || std::iter::once(&layout.handle).chain(&layout.index_handles);
        if !handles().all(|handle| self.transaction.may_take_over(handle))
            || self.database.snapshot().rows(&layout.handle).next().transpose().sql()?.is_some()
        {
            return Ok(());
        }
        match self.lock_table(table, TableLockMode::Exclusive, LockWait::NoWait) {
            Ok(()) => {}
            Err(refused) if refused.code == SqlState::LOCK_NOT_AVAILABLE => return Ok(()),
            Err(error) => return Err(error),
        }
        if !handles().all(|handle| self.transaction.may_take_over(handle)) {
            return Ok(());
        }
        handles().try_for_each(|handle| self.transaction.take_over_table(handle).sql())
    }

    fn identity_of_new(&mut self, layout: &TableLayout, row: &[Datum]) -> SqlResult<Vec<u8>> {
        if let Some(numbers) = &layout.shape.numbers {
            let number = numbers.next(self.store, &layout.shape.table.storage)?;
            return Ok(RowLayout::number_key(number).to_vec());
        }
        let mut identity = Vec::new();
        layout.shape.rows.write_key(row, &mut identity)?;
        Ok(identity)
    }

    /// A row is there under the primary key of a new one.
    fn row_conflict(
        &mut self,
        layout: &TableLayout,
        identity: Vec<u8>,
        row: &[Datum],
        on_conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted> {
        let table = &layout.shape.table;
        let index =
            row_key_index(table).ok_or_else(|| SqlError::internal("a primary key without an index"))?;
        if is_arbiter(on_conflict, index) {
            return Ok(Inserted::Conflict(identity));
        }
        Err(self.duplicate(&IndexLayout::of(table, index), table, row))
    }

    pub(super) fn duplicate(
        &mut self,
        index: &IndexLayout,
        table: &Arc<Table>,
        row: &[Datum],
    ) -> Box<SqlError> {
        let found = self
            .schema_of(table)
            .and_then(|schema| Ok((schema, index.values(table, row, self.expressions)?)));
        match found {
            Ok((schema, values)) => {
                violation::duplicate_key(&schema, table, &index.index, &values, self.settings)
            }
            Err(error) => error,
        }
    }

    /// The key of the row that has the entry's key already. If there is none, the lock of that key is this transaction's.
    fn holder(
        &mut self,
        index: &IndexLayout,
        handle: &EngineTable,
        entry: &Entry,
    ) -> SqlResult<Option<Vec<u8>>> {
        if !entry.is_exclusive {
            return Ok(None);
        }
        match self.transaction.lock_new_row(handle, &entry.key, self.lock_wait).sql()? {
            Some(value) => Ok(Some(index.row_key(&entry.key, &value)?.to_vec())),
            None => Ok(None),
        }
    }

    fn put_entry(
        &mut self,
        layout: &TableLayout,
        position: usize,
        entry: &Entry,
        row: &[Datum],
    ) -> SqlResult<()> {
        let (index, handle) = (&layout.shape.indexes[position], &layout.index_handles[position]);
        if self.holder(index, handle, entry)?.is_some() {
            return Err(self.duplicate(index, &layout.shape.table, row));
        }
        if let (Some(length), Some(constraint)) = (entry.exclusive_later, index.deferrable()) {
            self.enter_later(&layout.shape.table, handle, constraint, &entry.key[..length])?;
        }
        self.transaction.put(handle, &entry.key, &entry.value).sql()
    }

    pub(super) fn update_row(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<Vec<u8>> {
        self.lock_to_write(table)?;
        let layout = self.layout(table)?;
        self.make_room(&layout)?;
        let moved = if layout.shape.rows.is_numbered() {
            identity.to_vec()
        } else {
            let mut moved = Vec::with_capacity(identity.len());
            layout.shape.rows.write_key(new, &mut moved)?;
            moved
        };
        if moved != identity {
            if self.transaction.lock_new_row(&layout.handle, &moved, self.lock_wait).sql()?.is_some() {
                self.row_conflict(&layout, moved.clone(), new, OnConflict::Fail)?;
            }
            self.transaction.delete(&layout.handle, identity).sql()?;
        }
        for (position, index) in layout.shape.indexes.iter().enumerate() {
            let before = index.entry(table, old, identity, self.expressions)?;
            let after = index.entry(table, new, &moved, self.expressions)?;
            if before == after {
                continue;
            }
            let handle = &layout.index_handles[position];
            match (before, after) {
                // The key is this row's own: what goes with it changes.
                (Some(before), Some(after)) if before.key == after.key => {
                    self.transaction.put(handle, &after.key, &after.value).sql()?;
                }
                (before, after) => {
                    if let Some(before) = before {
                        self.transaction.delete(handle, &before.key).sql()?;
                    }
                    if let Some(after) = after {
                        self.put_entry(&layout, position, &after, new)?;
                    }
                }
            }
        }
        let mut value = Vec::new();
        layout.shape.rows.write_value(new, &mut value)?;
        self.transaction.put(&layout.handle, &moved, value).sql()?;
        layout.counters.note_update();
        self.after_update(&layout, (identity, &moved), old, new)?;
        Ok(moved)
    }

    pub(super) fn delete_row(&mut self, table: &Arc<Table>, identity: &[u8], old: &[Datum]) -> SqlResult<()> {
        self.lock_to_write(table)?;
        let layout = self.layout(table)?;
        self.make_room(&layout)?;
        for (position, index) in layout.shape.indexes.iter().enumerate() {
            if let Some(entry) = index.entry(table, old, identity, self.expressions)? {
                self.transaction.delete(&layout.index_handles[position], &entry.key).sql()?;
            }
        }
        self.transaction.delete(&layout.handle, identity).sql()?;
        layout.counters.note_delete();
        self.after_delete(&layout, old)
    }
}
