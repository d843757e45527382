//! Rows that a transaction locks, to write them or to read their newest version.
//!
//! Under `Snapshot` and `Serializable` a row with a version newer than the snapshot is refused: the first updater wins.

use seawall_types::{Lsn, TableId};

use crate::catalog::Table;
use crate::error::Error;
use crate::options::Isolation;
use crate::row_key;
use crate::sabotage::{Defect, sabotaged};
use crate::transaction::Transaction;
use crate::transaction::lock_mode::{LockMode, LockModes, RowLock};
use crate::transaction::lock_table::{Acquired, LockRefused, lock_name};
use crate::transaction::lock_wait::LockWait;
use crate::transaction::locked_rows::locked_row_bytes;
use crate::transaction::memory::LOCK_BYTES;

/// A row that a transaction has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedRow {
    /// Its newest committed value, or what the transaction itself has written; `None`: there is no such row.
    pub value: Option<Vec<u8>>,
    /// Another transaction has written or deleted the row, or truncated its table, since the moment of the statement under
    /// way ([`Transaction::begin_statement`]). A statement that has found the row by its older version looks at `value`
    /// again. Always `false` outside of a statement and, since such a change is a `Conflict`, under `Snapshot` and `Serializable`.
    pub changed: bool,
}

/// Why a row was not locked.
enum NotLocked {
    /// Another transaction holds it, and the caller does not wait.
    Held,
    Failed(Error),
}

impl From<Error> for NotLocked {
    fn from(error: Error) -> NotLocked {
        NotLocked::Failed(error)
    }
}

impl Transaction {
    /// How long the transaction waits from now on for rows that others hold.
    pub fn set_lock_wait(&mut self, wait: LockWait) {
        self.options.lock_wait = wait;
    }

    /// The newest committed value of the row, which stays locked for this transaction until it ends, or returns to an earlier
    /// savepoint. Waits until that value is visible to all, so the caller may show it; [`Transaction::update`] does not.
    ///
    /// # Errors
    /// As `get` and `put`.
    pub fn get_for_update(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.lock_row(table, key, self.options.lock_wait).map(|row| row.value)
    }

    /// As [`Transaction::get_for_update`], waiting for the lock as `wait` says, and with the answer whether the row has changed
    /// since the statement began.
    ///
    /// # Errors
    /// As `get` and `put`; `SnapshotCancelled` if the moment of the statement was given up: the row is locked then.
    pub fn lock_row(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        wait: LockWait,
    ) -> Result<LockedRow, Error> {
        self.lock_row_as(table, key, RowLock::Update, wait)
    }

    /// As [`Transaction::lock_row`], as strongly as `strength` says: several transactions hold a row where their strengths allow.
    /// A row that is locked more strongly already stays so.
    ///
    /// # Errors
    /// As `lock_row`.
    pub fn lock_row_as(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        strength: RowLock,
        wait: LockWait,
    ) -> Result<LockedRow, Error> {
        let key = key.as_ref();
        let storage = self.lock_key(table, key, strength, wait)?;
        self.read_locked_row(table, storage, key)
    }

    /// As [`Transaction::lock_row`], without waiting: `None` if another transaction holds the row. This transaction goes on
    /// then, as if it had not asked.
    ///
    /// # Errors
    /// As `lock_row`, but for `Locked` and `Deadlock`.
    pub fn try_lock_row(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<LockedRow>, Error> {
        self.try_lock_row_as(table, key, RowLock::Update)
    }

    /// As [`Transaction::try_lock_row`], as strongly as `strength` says.
    ///
    /// # Errors
    /// As `try_lock_row`.
    pub fn try_lock_row_as(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        strength: RowLock,
    ) -> Result<Option<LockedRow>, Error> {
        let key = key.as_ref();
        self.check_usable()?;
        self.check_room_to_lock(table, key)?;
        let lock =
            |transaction: &mut Transaction, row_key: &[u8]| transaction.try_lock_row_key(row_key, strength);
        match self.lock_row_by(table, key, lock) {
            Ok(storage) => self.read_locked_row(table, storage, key).map(Some),
            Err(NotLocked::Held) => Ok(None),
            Err(NotLocked::Failed(error)) => Err(error),
        }
    }

    /// Locks the row, unless a version of it is newer than the snapshot; the storage of its table.
    pub(super) fn lock_key(
        &mut self,
        table: &Table,
        key: &[u8],
        strength: RowLock,
        wait: LockWait,
    ) -> Result<TableId, Error> {
        self.check_usable()?;
        self.check_room_to_lock(table, key)?;
        let lock = |transaction: &mut Transaction, row_key: &[u8]| {
            transaction.lock_within(row_key, strength.mode(), wait)?;
            transaction.check_changes(row_key, strength)
        };
        self.lock_row_by(table, key, lock)
    }

    /// Whether there is such a row, which is locked as by [`RowLock::KeyShare`] then. The value is not read: under `Serializable` another
    /// transaction may change it.
    ///
    /// # Errors
    /// As `lock_row`.
    pub fn lock_existing_row(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        wait: LockWait,
    ) -> Result<bool, Error> {
        let key = key.as_ref();
        let storage = self.lock_key(table, key, RowLock::KeyShare, wait)?;
        let row_key = row_key::encode(storage, key);
        if self.is_own(table) {
            return Ok(self.read_own_row(storage, &row_key)?.is_some());
        }
        self.locked_rows.insert(&row_key);
        let snapshot = match self.options.isolation {
            Isolation::ReadCommitted => None,
            Isolation::Snapshot | Isolation::Serializable => Some(self.read_snapshot()?.lsn()),
        };
        self.engine.require_visible(table.object.changed_at(), Some(&self.session.waits.cancel))?;
        let is_there = match self.writes.get(&row_key) {
            Some(written) => {
                self.wait_for_dependencies()?;
                written.is_some()
            }
            None => match snapshot {
                None => self.read_newest(&row_key)?.is_some(),
                Some(lsn) => self.noted(self.engine.read_row(&row_key, lsn, |value| value.is_some()))?,
            },
        };
        if !is_there {
            // The lock of the key keeps nobody from inserting the row.
            self.remember_read(&row_key)?;
        }
        Ok(is_there)
    }

    /// Locks a row that is to be inserted, and returns the value of the row that is there already: of such a row the transaction holds no
    /// lock afterwards that it did not hold before. Waits for those who insert or delete the row, and not for those who lock its key.
    ///
    /// # Errors
    /// As `lock_row`.
    pub fn lock_new_row(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        wait: LockWait,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (key, before) = (key.as_ref(), self.locks.len());
        let storage = self.lock_key(table, key, RowLock::NoKeyUpdate, wait)?;
        let row_key = row_key::encode(storage, key);
        if self.is_own(table) {
            return self.read_own_row(storage, &row_key);
        }
        self.engine.require_visible(table.object.changed_at(), Some(&self.session.waits.cancel))?;
        let found = self.read_newest(&row_key)?;
        if found.is_none() {
            self.locked_rows.insert(&row_key);
        } else if self.locks.len() > before {
            self.engine.locks.release_all(self.owner, self.locks.split_off(before));
        }
        Ok(found)
    }

    fn read_locked_row(&mut self, table: &Table, storage: TableId, key: &[u8]) -> Result<LockedRow, Error> {
        if self.is_own(table) {
            let value = self.read_own_row(storage, &row_key::encode(storage, key))?;
            let changed = self.had_changed_when_taken_over(table, storage, key)?;
            return Ok(LockedRow { value, changed });
        }
        // That the table was truncated must not be shown earlier than it is visible, either.
        self.engine.require_visible(table.object.changed_at(), Some(&self.session.waits.cancel))?;
        let row_key = row_key::encode(storage, key);
        let value = self.read_newest(&row_key);
        self.locked_rows.insert(&row_key);
        Ok(LockedRow { value: value?, changed: self.has_changed_since_statement(table, &row_key)? })
    }

    pub(super) fn has_changed_since_statement(&self, table: &Table, row_key: &[u8]) -> Result<bool, Error> {
        let Some(statement) = &self.statement else { return Ok(false) };
        let lsn = statement.lsn();
        let newer = self.engine.newest_stamp_after(row_key, lsn);
        // After the look: what was kept for the snapshot was there then.
        self.noted(self.engine.check_snapshot(lsn))?;
        Ok(newer.is_some() || table.object.changed_since(lsn))
    }

    /// The row at the snapshot or, under `ReadCommitted`, its newest committed version. The row is locked by this
    /// transaction; who held the lock before may have committed what is not visible yet.
    pub(crate) fn read_newest(&mut self, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.options.isolation != Isolation::ReadCommitted {
            let snapshot = self.read_snapshot()?;
            return self.read_row(row_key, snapshot.lsn());
        }
        if let Some(stamp) = self.engine.newest_stamp_after(row_key, self.engine.visible()) {
            self.engine.require_visible(stamp, Some(&self.session.waits.cancel))?;
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
        let is_locked = self.writes.get(&row_key).is_some() || self.locked_rows.contains(&row_key);
        if is_locked { Ok(()) } else { Err(refused) }
    }

    /// Locks the row and makes sure that writing it is allowed; the storage of its table.
    pub(super) fn lock_to_update(&mut self, table: &Table, key: &[u8]) -> Result<TableId, Error> {
        self.lock_row_by(table, key, Transaction::lock_row_key)
    }

    pub(super) fn lock_row_by<E: From<Error>>(
        &mut self,
        table: &Table,
        key: &[u8],
        lock: impl Fn(&mut Transaction, &[u8]) -> Result<(), E>,
    ) -> Result<TableId, E> {
        self.engine.lifecycle.check_writable()?;
        let mut storage = self.storage_for_write(table)?;
        loop {
            let mut row_key = std::mem::take(&mut self.row_key);
            row_key::encode_into(&mut row_key, storage, key);
            // Nobody else knows the storage of one's own table.
            let result = if self.is_own(table) { Ok(()) } else { lock(self, &row_key) };
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
    pub(crate) fn lock_without_conflict(&mut self, row_key: &[u8], strength: RowLock) -> Result<(), Error> {
        self.lock_within(row_key, strength.mode(), self.options.lock_wait)
    }

    pub(crate) fn lock_within(
        &mut self,
        row_key: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<(), Error> {
        self.take_lock(row_key, mode, wait).map_err(|refused| self.fail_by(refused))
    }

    fn try_lock_row_key(&mut self, row_key: &[u8], strength: RowLock) -> Result<(), NotLocked> {
        match self.take_lock(row_key, strength.mode(), LockWait::NoWait) {
            Ok(()) => Ok(self.check_changes(row_key, strength)?),
            Err(LockRefused::Held) => Err(NotLocked::Held),
            Err(refused) => Err(self.fail_by(refused).into()),
        }
    }

    fn take_lock(&mut self, row_key: &[u8], mode: LockMode, wait: LockWait) -> Result<(), LockRefused> {
        let name = lock_name(row_key);
        match self.engine.locks.acquire(self.owner, name, mode, self.session.waits.patience(wait))? {
            Acquired::Now => self.locks.push(name),
            Acquired::Before => {}
            Acquired::Stronger(before) => self.note_stronger_lock(name, before),
        }
        Ok(())
    }

    /// A lock is stronger from now on: a rollback to an earlier savepoint leaves it as it was.
    fn note_stronger_lock(&mut self, name: u64, before: LockModes) {
        if self.savepoints.has_any() {
            self.stronger_locks.push((name, before));
        }
    }

    fn fail_by(&mut self, refused: LockRefused) -> Error {
        let error = self.engine.lock_refused(refused);
        self.fail(error)
    }

    pub(crate) fn lock_row_key(&mut self, row_key: &[u8]) -> Result<(), Error> {
        self.lock_row_key_as(row_key, RowLock::Update)
    }

    fn lock_row_key_as(&mut self, row_key: &[u8], strength: RowLock) -> Result<(), Error> {
        self.lock_without_conflict(row_key, strength)?;
        self.check_changes(row_key, strength)
    }

    /// Makes sure that the row, which is locked, was not changed since the snapshot in a way that the strength of the lock excludes.
    fn check_changes(&mut self, row_key: &[u8], strength: RowLock) -> Result<(), Error> {
        if strength == RowLock::KeyShare && self.has_new_value_only(row_key)? {
            return Ok(());
        }
        self.check_first_updater(row_key)
    }

    /// Whether the row has a version newer than the snapshot and is still the same row.
    fn has_new_value_only(&self, row_key: &[u8]) -> Result<bool, Error> {
        let Some(snapshot) = &self.snapshot else { return Ok(false) };
        let Some(newest) = self.engine.newest_stamp_after(row_key, snapshot.lsn()) else { return Ok(false) };
        self.engine.require_visible(newest, Some(&self.session.waits.cancel))?;
        let now = self.engine.register_snapshot_for(&self.session)?;
        let is_there = |lsn| self.noted(self.engine.read_row(row_key, lsn, |value| value.is_some()));
        let is_same = is_there(snapshot.lsn())? && is_there(now.lsn())?;
        // After the look: what was kept for the snapshot was there then.
        self.noted(self.engine.check_snapshot(snapshot.lsn()))?;
        Ok(is_same)
    }

    /// Makes sure that no other transaction has written the row, which is locked, since the snapshot.
    fn check_first_updater(&mut self, row_key: &[u8]) -> Result<(), Error> {
        if self.options.isolation == Isolation::ReadCommitted {
            return Ok(());
        }
        let Some(snapshot) = &self.snapshot else {
            // Nothing read yet: the snapshot comes later, and sees what earlier holders of this lock have made of the row.
            let newest = self.engine.newest_stamp_after(row_key, self.snapshot_floor);
            self.raise_snapshot_floor(newest.unwrap_or_default());
            return Ok(());
        };
        let snapshot = snapshot.lsn();
        let newer = self.engine.newest_stamp_after(row_key, snapshot);
        // After the look: what was kept for the snapshot was there then.
        if let Err(error) = self.engine.check_snapshot(snapshot) {
            return Err(self.fail(error));
        }
        if newer.is_some() && !sabotaged(Defect::FirstUpdaterWinsNot) {
            return Err(self.fail(Error::Conflict { what: "a row that this one writes" }));
        }
        Ok(())
    }

    /// Locks a row that gets a new value, whatever it was before: what that was is looked up when a snapshot is taken, which may be
    /// never.
    pub(super) fn lock_row_key_to_put(&mut self, row_key: &[u8]) -> Result<(), Error> {
        self.lock_row_key_to_write(row_key, RowLock::NoKeyUpdate)
    }

    /// The same for a row that is deleted.
    pub(super) fn lock_row_key_to_delete(&mut self, row_key: &[u8]) -> Result<(), Error> {
        self.lock_row_key_to_write(row_key, RowLock::Update)
    }

    fn lock_row_key_to_write(&mut self, row_key: &[u8], strength: RowLock) -> Result<(), Error> {
        if self.snapshot.is_some() {
            return self.lock_row_key_as(row_key, strength);
        }
        self.has_blind_rows = true;
        self.lock_without_conflict(row_key, strength)
    }

    /// Raises the floor of the snapshot to what earlier holders of the locks have made of rows written since.
    pub(super) fn look_at_blind_rows(&mut self) {
        let after = self.snapshot_floor;
        let has_more_locks = self.locks.len() > self.writes.len();
        let newest = if has_more_locks || !self.touched.definitions().is_empty() {
            // Rows are locked that were not written, and which rows those are is forgotten. Own tables have rows without locks.
            self.engine.queue.last_entered()
        } else {
            let newest = |(row_key, _)| self.engine.newest_stamp_after(row_key, after);
            self.writes.rows().filter_map(newest).max().unwrap_or_default()
        };
        self.raise_snapshot_floor(newest);
        self.has_blind_rows = false;
    }

    /// Gives back the locks beyond the first so many, and leaves those before as they were before so many became stronger: a
    /// savepoint is returned to.
    pub(super) fn give_back_locks_since(&mut self, count: usize, stronger: usize) {
        for (name, before) in self.stronger_locks.drain(stronger..).rev() {
            self.engine.locks.keep(self.owner, name, before);
        }
        if self.locks.len() > count {
            if self.has_blind_rows {
                // What earlier holders have made of the rows is not looked up any more, and the snapshot sees it all the same.
                self.raise_snapshot_floor(self.engine.queue.last_entered());
            }
            self.engine.locks.release_all(self.owner, self.locks.split_off(count));
        }
    }

    pub(super) fn raise_snapshot_floor(&mut self, stamp: Lsn) {
        self.snapshot_floor = self.snapshot_floor.max(stamp);
    }
}
