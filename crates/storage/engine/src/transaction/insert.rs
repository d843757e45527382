//! Rows that are inserted: locked, looked for and written in one step.
//!
//! A row of one of the transaction's own tables needs no lock, and no look either if its key comes after all that were written there:
//! so a load in the order of keys looks nothing up.

use std::ops::Bound;

use seawall_types::TableId;

use crate::catalog::Table;
use crate::error::Error;
use crate::row_key;
use crate::transaction::Transaction;
use crate::transaction::lock_mode::RowLock;
use crate::transaction::lock_wait::LockWait;

impl Transaction {
    /// Puts the row `key`, unless there is one: then its value is returned, nothing is written, and the transaction holds no lock of the
    /// row that it did not hold before. Waits for those who insert or delete the row, and not for those who lock its key.
    ///
    /// # Errors
    /// As `put` and `lock_row`.
    pub fn insert(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        wait: LockWait,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_usable()?;
        row_key::check_sizes(key, Some(value), self.engine.key_bytes_max())?;
        self.check_room(table, key, Some(value))?;
        if self.is_own(table) {
            return self.insert_into_own(table, key, value);
        }
        let before = self.locks.len();
        let storage = self.lock_key(table, key, RowLock::NoKeyUpdate, wait)?;
        let mut row_key = std::mem::take(&mut self.row_key);
        row_key::encode_into(&mut row_key, storage, key);
        let inserted = self.insert_locked(table, &row_key, value);
        self.row_key = row_key;
        let existing = inserted?;
        if existing.is_some() && self.locks.len() > before {
            self.engine.locks.release_all(self.owner, self.locks.split_off(before));
        }
        Ok(existing)
    }

    fn insert_locked(
        &mut self,
        table: &Table,
        row_key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        self.engine.require_visible(table.object.changed_at(), Some(&self.session.waits.cancel))?;
        let existing = self.read_newest(row_key)?;
        if existing.is_none() {
            // As for any row that is put.
            self.has_blind_rows |= self.snapshot.is_none();
            self.writes.write(row_key, Some(value));
        }
        Ok(existing)
    }

    fn insert_into_own(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.engine.lifecycle.check_writable()?;
        let storage = self.storage_for_write(table)?;
        let mut row_key = std::mem::take(&mut self.row_key);
        row_key::encode_into(&mut row_key, storage, key);
        let existing = if self.is_after_all_rows(storage, &row_key) {
            Ok(None)
        } else {
            self.read_own_row(storage, &row_key)
        };
        let inserted = match existing {
            Ok(None) => {
                self.raise_snapshot_floor(table.object.changed_at());
                self.touched.use_table(table, storage);
                self.write_row_of(table, &row_key, Some(value)).map(|()| None)
            }
            found => found,
        };
        self.row_key = row_key;
        inserted
    }

    /// Whether the key comes after all that were written to a storage of one of the transaction's own tables.
    fn is_after_all_rows(&mut self, storage: TableId, row_key: &[u8]) -> bool {
        if let Some(greatest) = self.parts.greatest.get(&storage) {
            return row_key > greatest.as_slice();
        }
        let (from, to) = row_key::table_range(storage);
        let is_empty = !self.parts.has(storage)
            && self.writes.first_in(Bound::Included(&from), Bound::Excluded(&to)).is_none();
        if is_empty {
            self.parts.greatest.insert(storage, Vec::new());
        }
        is_empty
    }
}
