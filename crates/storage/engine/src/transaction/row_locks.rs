//! Rows that a transaction locks, to write them or to read their newest version.
//!
//! Under `Snapshot` and `Serializable` a row with a version newer than the snapshot is refused: the first updater wins.

use seawall_io::sabotage::{Defect, sabotaged};
use seawall_types::{Lsn, TableId};

use crate::catalog::Table;
use crate::error::Error;
use crate::options::Isolation;
use crate::row_key;
use crate::transaction::Transaction;
use crate::transaction::lock_table::{Acquired, LockWait, lock_name};
use crate::transaction::memory::{LOCK_BYTES, bytes};

/// A row that was locked and not written, besides its key: an entry of a set, and the allocation of the key.
const LOCKED_ROW_BYTES: u64 = 64;

fn locked_row_bytes(row_key: usize) -> u64 {
    LOCKED_ROW_BYTES + bytes(row_key)
}

impl Transaction {
    /// The newest committed value of the row, which stays locked for this transaction until it ends. Waits until that
    /// value is visible to all, so the caller may show it; [`Transaction::update`] does not.
    ///
    /// # Errors
    /// As `get` and `put`.
    pub fn get_for_update(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.check_usable()?;
        let key = key.as_ref();
        self.check_room_to_lock(table, key)?;
        let storage = self.lock_row(table, key)?;
        // That the table was truncated must not be shown earlier than it is visible, either.
        self.engine.require_visible(table.object.changed_at())?;
        let row_key = row_key::encode(storage, key);
        let value = self.read_newest(&row_key);
        self.keep_locked(&row_key);
        value
    }

    /// A prepare keeps the row locked, whether or not it was written.
    pub(crate) fn keep_locked(&mut self, row_key: &[u8]) {
        if !self.locked_rows.contains(row_key) {
            self.locked_rows.insert(row_key.into());
            self.locked_row_bytes += locked_row_bytes(row_key.len());
        }
    }

    /// The row at the snapshot or, under `ReadCommitted`, its newest committed version. The row is locked by this
    /// transaction; who held the lock before may have committed what is not visible yet.
    pub(crate) fn read_newest(&mut self, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.options.isolation != Isolation::ReadCommitted {
            let snapshot = self.read_snapshot()?;
            return self.read_row(row_key, snapshot.lsn());
        }
        if let Some(stamp) = self.engine.newest_stamp_after(row_key, self.engine.visible()) {
            self.engine.require_visible(stamp)?;
        }
        // Not the statement's, which may be older.
        let newest = self.engine.register_snapshot_for(&self.session)?;
        self.read_row(row_key, newest.lsn())
    }

    /// Makes sure that there is memory for the lock of the row, and to remember it.
    pub(crate) fn check_room_to_lock(&mut self, table: &Table, key: &[u8]) -> Result<(), Error> {
        let more = LOCK_BYTES + locked_row_bytes(row_key::TABLE_BYTES + key.len());
        let Err(refused) = self.check_room_for(more) else { return Ok(()) };
        // A row that is locked takes nothing more. Looked up only here, where it matters.
        let row_key = row_key::encode(self.storage_for_write(table)?, key);
        let is_locked = self.writes.get(&row_key).is_some() || self.locked_rows.contains(&row_key[..]);
        if is_locked { Ok(()) } else { Err(refused) }
    }

    /// Locks the row and makes sure that writing it is allowed; the storage of its table.
    pub(crate) fn lock_row(&mut self, table: &Table, key: &[u8]) -> Result<TableId, Error> {
        self.lock_row_by(table, key, Transaction::lock_row_key)
    }

    pub(super) fn lock_row_by(
        &mut self,
        table: &Table,
        key: &[u8],
        lock: impl Fn(&mut Transaction, &[u8]) -> Result<(), Error>,
    ) -> Result<TableId, Error> {
        self.engine.lifecycle.check_writable()?;
        let mut storage = self.storage_for_write(table)?;
        loop {
            let mut row_key = std::mem::take(&mut self.row_key);
            row_key::encode_into(&mut row_key, storage, key);
            let result = lock(self, &row_key);
            self.row_key = row_key;
            result?;
            // While this one waited for the row, the table may have been truncated.
            let now = self.storage_for_write(table)?;
            if now == storage {
                break;
            }
            storage = now;
        }
        // A snapshot that comes later sees the table where this one writes.
        self.raise_snapshot_floor(table.object.changed_at());
        self.touched.use_table(table, storage);
        Ok(storage)
    }

    /// Locks a row, whoever has written it since the snapshot.
    pub(crate) fn lock_without_conflict(&mut self, row_key: &[u8]) -> Result<(), Error> {
        self.lock_within(row_key, self.options.lock_wait)
    }

    pub(crate) fn lock_within(&mut self, row_key: &[u8], wait: LockWait) -> Result<(), Error> {
        let name = lock_name(row_key);
        match self.engine.locks.acquire(self.owner, name, wait) {
            Ok(Acquired::Now) => self.locks.push(name),
            Ok(Acquired::Before) => {}
            Err(refused) => {
                let error = self.engine.lock_refused(refused);
                return Err(self.fail(error));
            }
        }
        Ok(())
    }

    pub(crate) fn lock_row_key(&mut self, row_key: &[u8]) -> Result<(), Error> {
        self.lock_without_conflict(row_key)?;
        if self.options.isolation == Isolation::ReadCommitted {
            return Ok(());
        }
        match &self.snapshot {
            Some(snapshot) => {
                let snapshot = snapshot.lsn();
                let newer = self.engine.newest_stamp_after(row_key, snapshot);
                // After the look: what was kept for the snapshot was there then.
                if let Err(error) = self.engine.check_snapshot(snapshot) {
                    return Err(self.fail(error));
                }
                if newer.is_some() && !sabotaged(Defect::FirstUpdaterWinsNot) {
                    return Err(self.fail(Error::Conflict { what: "a row that this one writes" }));
                }
            }
            // Nothing read yet: the snapshot comes later, and sees what earlier holders of this lock have made of the row.
            None => self.raise_snapshot_floor(
                self.engine.newest_stamp_after(row_key, self.snapshot_floor).unwrap_or_default(),
            ),
        }
        Ok(())
    }

    /// As `lock_row_key`, of a row that is written whatever it was: what that was is looked up when a snapshot is taken,
    /// which may be never.
    pub(super) fn lock_row_key_to_write(&mut self, row_key: &[u8]) -> Result<(), Error> {
        if self.snapshot.is_some() {
            return self.lock_row_key(row_key);
        }
        self.has_blind_rows = true;
        self.lock_without_conflict(row_key)
    }

    /// Raises the floor of the snapshot to what earlier holders of the locks have made of rows written since.
    pub(super) fn look_at_blind_rows(&mut self) {
        let after = self.snapshot_floor;
        let newest = if self.locks.len() > self.writes.rows().len() {
            // Locks of rows that a savepoint has given back are still held, and which rows those are is forgotten.
            self.engine.queue.last_entered()
        } else {
            let newest = |(row_key, _)| self.engine.newest_stamp_after(row_key, after);
            self.writes.rows().filter_map(newest).max().unwrap_or_default()
        };
        self.raise_snapshot_floor(newest);
        self.has_blind_rows = false;
    }

    fn raise_snapshot_floor(&mut self, stamp: Lsn) {
        self.snapshot_floor = self.snapshot_floor.max(stamp);
    }
}
