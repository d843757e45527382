//! A load that is larger than memory: rows that a transaction puts into tables that it has itself created or truncated are
//! logged in parts, before it commits.
//!
//! ```text
//!   write set --> storage listed in `reclaim` | part | part | ...            | commit: its definitions, the rest of its rows,
//!                 (one record, at the first part)  (a record each, applied)  |         storages taken out of `reclaim`
//! ```
//! Such a storage has a number that nobody else has heard of, so its rows need no locks, and nobody meets them before the
//! commit names the storage. They are in the log and in the memtable like those of any commit, so a checkpoint merges them,
//! an archive has them, and a transaction of any size takes the memory of one part.
//!
//! What is on disk if the power goes: before the commit's record is durable, a storage that is listed in `reclaim`, which the
//! next checkpoint cuts out; after it, the table with all its rows. A rollback lists the storage again: with a stamp later
//! than that of each part, since a storage is cut out once all rows up to the stamp of its row in `reclaim` are merged.
//!
//! Under a savepoint, only storages that were made since the innermost one are logged in parts: a return to it gives up the
//! whole storage. Rows of the others stay in the write set, where each can be undone.

use std::ops::Bound;

use seawall_types::{Lsn, TableId};

use crate::catalog::{self, ReclaimRow, Table};
use crate::engine::Engine;
use crate::error::Error;
use crate::options::Durability;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::transaction::Transaction;
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::lock::LockOwner;
use crate::transaction::lock_mode::RowLock;
use crate::transaction::memory::part_bytes;
use crate::transaction::write_set::WriteSet;

impl Transaction {
    /// Whether the table's rows are where nobody else looks.
    pub(super) fn is_own(&self, table: &Table) -> bool {
        self.touched.definition_of(table.object.id).is_some()
    }

    /// Writes a row whose lock is held, or whose table is the transaction's own.
    pub(super) fn write_row_of(
        &mut self,
        table: &Table,
        row_key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        if !self.is_own(table) {
            self.writes.write(row_key, value);
            return Ok(());
        }
        self.parts.note_written(row_key);
        let since = self.savepoints.innermost();
        match self.touched.is_defined_since(table.object.id, since) {
            true => self.writes.write_for_good(row_key, value),
            false => self.writes.write(row_key, value),
        }
        self.parts.unlogged_bytes += crate::transaction::write_set::row_bytes_of(row_key, value);
        if self.parts.unlogged_bytes < part_bytes(&self.engine.options.memory) {
            return Ok(());
        }
        // What is not in the write set any more, and not in the log, is lost to the transaction.
        self.log_parts().map_err(|error| self.fail(error))
    }

    fn log_parts(&mut self) -> Result<(), Error> {
        self.parts.unlogged_bytes = 0;
        for storage in self.touched.own_storages_since(self.savepoints.innermost()) {
            let (from, to) = row_key::table_range(storage);
            // Taking rows costs what comes after them, too: not for each of many tables that have none.
            if self.writes.first_in(Bound::Included(&from), Bound::Excluded(&to)).is_some() {
                let rows = self.writes.take(&from, &to);
                self.log_part(storage, &rows)?;
            }
        }
        Ok(())
    }

    fn log_part(&mut self, storage: TableId, rows: &WriteSet) -> Result<(), Error> {
        let engine = &self.engine;
        engine.lifecycle.check_writable()?;
        match self.parts.storages.get(&storage) {
            // One part is written while the next one is made, and no more than that waits in memory.
            Some(last) => engine.log()?.flush_until(*last)?,
            None => {
                engine.list_private(self.owner, storage, self.parts.scanned.get(&storage).copied())?;
                self.parts.storages.insert(storage, Lsn::ZERO);
            }
        }
        let request = CommitRequest::plain(self.owner, Durability::Async);
        let stamp = engine.log_commit(&request, rows.rows(), rows.bytes())?;
        engine.log()?.request_flush(stamp);
        self.parts.storages.insert(storage, stamp);
        Ok(())
    }

    /// The value of a row of one of the transaction's own tables.
    pub(super) fn read_own_row(&self, storage: TableId, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Some(written) = self.writes.get(row_key) {
            self.wait_for_dependencies()?;
            return Ok(written.map(<[u8]>::to_vec));
        }
        if !self.parts.has(storage) {
            return Ok(None);
        }
        self.engine.read_row(row_key, Lsn::MAX, |value| value.map(<[u8]>::to_vec))
    }

    /// A snapshot for a scan of the storage of one of the transaction's own tables: one that shows what is logged of it.
    pub(super) fn snapshot_of_own(&mut self, storage: TableId) -> Result<RegisteredSnapshot, Error> {
        let Some(last) = self.parts.storages.get(&storage) else {
            let snapshot = self.engine.register_snapshot();
            self.parts.scanned.entry(storage).or_insert(snapshot.lsn());
            return Ok(snapshot);
        };
        self.engine.require_visible(*last, Some(&self.session.waits.cancel))?;
        let snapshot = self.engine.register_snapshot();
        self.engine.loads.scanned_at(storage, snapshot.lsn());
        Ok(snapshot)
    }

    /// Writes what the commit says of storages that were logged in parts: they belong to tables, or to nobody.
    pub(crate) fn write_fate_of_parts(&mut self) -> Result<(), Error> {
        let storages: Vec<TableId> = self.parts.storages.keys().copied().collect();
        for storage in storages {
            let is_kept = self.touched.is_own_storage(storage);
            let key = catalog::reclaim_key(storage);
            self.lock_without_conflict(&key, RowLock::Update)?;
            let listed = ReclaimRow::Storage.encode();
            self.writes.write(&key, if is_kept { None } else { Some(&listed) });
            self.engine.loads.ceases_to_be_private(storage);
        }
        Ok(())
    }

    /// The storages that were logged in parts.
    pub(crate) fn storages_in_parts(&self) -> Vec<TableId> {
        self.parts.storages.keys().copied().collect()
    }

    /// The prepare is in the log: its decision ends what it was prepared with.
    pub(crate) fn leave_parts_in_doubt(&mut self) {
        self.parts.storages.clear();
    }

    /// The commit is in the log.
    pub(super) fn parts_committed(&mut self) {
        for (storage, _) in self.parts.storages.drain() {
            self.engine.loads.ended(storage);
        }
    }

    /// The transaction ends without its commit: nobody gets the rows. After the locks are released.
    pub(super) fn give_up_parts(&mut self) {
        let storages = std::mem::take(&mut self.parts.storages);
        self.engine.give_up_storages(storages.into_keys());
    }
}

impl Engine {
    /// Lists a storage to be reclaimed, unless its transaction commits; until that has ended, no checkpoint does.
    fn list_private(&self, owner: LockOwner, storage: TableId, scanned_at: Option<Lsn>) -> Result<(), Error> {
        self.loads.begun_in_private(storage, scanned_at);
        self.list_storage(owner, storage, ReclaimRow::Filling).inspect_err(|_| self.loads.ended(storage))
    }

    /// Storages that a transaction has filled in parts, and that no table gets: it was rolled back.
    pub(crate) fn give_up_storages(&self, storages: impl Iterator<Item = TableId>) {
        for storage in storages {
            if let Err(error) = self.list_given_up(storage) {
                tracing::debug!(%storage, %error, "rows of a transaction that was rolled back are reclaimed after the next open");
            }
        }
    }

    fn list_given_up(&self, storage: TableId) -> Result<(), Error> {
        self.lifecycle.check_writable()?;
        self.loads.ceases_to_be_private(storage);
        self.list_storage(self.locks.new_owner(), storage, ReclaimRow::Storage)?;
        self.counters.reclaim.give_up(1);
        self.loads.ended(storage);
        Ok(())
    }

    fn list_storage(&self, owner: LockOwner, storage: TableId, row: ReclaimRow) -> Result<(), Error> {
        let (key, row) = (catalog::reclaim_key(storage), row.encode());
        let request = CommitRequest::plain(owner, Durability::Async);
        let rows = std::iter::once((&key[..], Some(&row[..])));
        self.log_commit_unthrottled(&request, rows).map(drop)
    }
}
