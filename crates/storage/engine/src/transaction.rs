//! Transactions: reads at a snapshot, writes in private, one record at commit.
//!
//! A transaction begins with its first read or write. While it has only written, its place in history is still open:
//! rows it wrote are locked, so nobody changed them since, and the snapshot may be taken as late as the first read. A
//! write after that is refused if the row has a version newer than the snapshot (first updater wins).
//!
//! Under `Serializable` the transaction remembers what it read, rows and ranges, and commits only if none of that has
//! a version newer than its snapshot at the moment it enters the log. So the commit order is a serial order that
//! explains every read (optimistic concurrency control with backward validation, Kung and Robinson 1981); a
//! transaction that wrote nothing is explained by the place of its snapshot.

pub(crate) mod admission;
pub(crate) mod commit;
pub(crate) mod commit_queue;
pub(crate) mod commit_request;
pub(crate) mod insert;
pub(crate) mod lock;
pub(crate) mod lock_graph;
pub(crate) mod lock_mode;
pub(crate) mod lock_table;
pub(crate) mod lock_view;
pub(crate) mod lock_wait;
pub(crate) mod locked_rows;
pub(crate) mod logged_parts;
pub(crate) mod memory;
pub(crate) mod parts;
pub(crate) mod read_item;
pub(crate) mod read_set;
pub(crate) mod read_snapshot;
pub(crate) mod reader;
pub(crate) mod recent_commits;
pub(crate) mod rollback;
pub(crate) mod row_locks;
pub(crate) mod savepoint;
pub(crate) mod session;
pub(crate) mod statement;
pub(crate) mod taken_over;
pub(crate) mod touched_tables;
pub(crate) mod update;
pub(crate) mod visibility;
pub(crate) mod write_set;

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use seawall_sync::CancelToken;
use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_types::{Lsn, TableId};

use crate::catalog::{self, OpenObject, Storage, Table};
use crate::engine::Engine;
use crate::error::Error;
use crate::options::{Durability, Isolation, TransactionOptions};
use crate::row_key;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::scan::{Direction, OwnRows, Range, Scan, note_lost_snapshot};
use crate::transaction::commit::CommitHandle;
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::lock::LockOwner;
use crate::transaction::lock_mode::{LockMode, LockModes};
use crate::transaction::lock_table::LockRefused;
use crate::transaction::lock_wait::LockPatience;
use crate::transaction::locked_rows::LockedRows;
use crate::transaction::logged_parts::LoggedParts;
use crate::transaction::memory::{LOCK_BYTES, MemoryShare, bytes};
use crate::transaction::read_item::ReadItem;
use crate::transaction::read_set::ReadSet;
use crate::transaction::read_snapshot::ReadSnapshot;
use crate::transaction::savepoint::{Failed, Savepoints};
use crate::transaction::session::Session;
use crate::transaction::touched_tables::TouchedTables;
use crate::transaction::write_set::WriteSet;

/// Reads and writes that become visible to others all at once, or not at all. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) options: TransactionOptions,
    owner: LockOwner,
    snapshot: Option<RegisteredSnapshot>,
    /// The snapshot of the statement under way, under `ReadCommitted`.
    statement: Option<RegisteredSnapshot>,
    /// The snapshot has to see at least this: rows written before it was taken may be that new.
    snapshot_floor: Lsn,
    /// Rows were locked to be written before the snapshot was taken, and `snapshot_floor` says nothing of them yet.
    has_blind_rows: bool,
    /// The newest version that `update` has read; may not be visible yet.
    pub(crate) depends_on: Lsn,
    pub(crate) writes: WriteSet,
    pub(crate) locks: Vec<u64>,
    /// Locks that became stronger since the first savepoint, each with the modes that it had before.
    stronger_locks: Vec<(u64, LockModes)>,
    pub(crate) locked_rows: LockedRows,
    /// Who is responsible for it.
    pub(crate) owner_name: Box<str>,
    pub(crate) touched: TouchedTables,
    parts: LoggedParts,
    savepoints: Savepoints,
    reads: ReadSet,
    memory: MemoryShare,
    failed: Option<Failed>,
    /// A read was refused because the snapshot was cancelled. Ranges share the flag, and set it too.
    lost_snapshot: AtomicBool,
    /// The same, for scans that may outlive it.
    scan_lost_snapshot: Option<Arc<AtomicBool>>,
    row_key: Vec<u8>,
}

impl Transaction {
    pub(crate) fn new(
        engine: Arc<Engine>,
        session: Arc<Session>,
        options: TransactionOptions,
    ) -> Transaction {
        let owner = engine.locks.new_owner();
        if let Some(session) = &session.waits.session {
            session.begin_transaction(owner);
        }
        let memory = MemoryShare::new(&engine.transaction_memory);
        Transaction {
            engine,
            session,
            options,
            owner,
            snapshot: None,
            statement: None,
            snapshot_floor: Lsn::ZERO,
            has_blind_rows: false,
            depends_on: Lsn::ZERO,
            writes: WriteSet::default(),
            locks: Vec::new(),
            stronger_locks: Vec::new(),
            locked_rows: LockedRows::default(),
            owner_name: Box::default(),
            touched: TouchedTables::default(),
            parts: LoggedParts::default(),
            savepoints: Savepoints::default(),
            reads: ReadSet::default(),
            memory,
            failed: None,
            lost_snapshot: AtomicBool::new(false),
            scan_lost_snapshot: None,
            row_key: Vec::new(),
        }
    }

    /// How durable its commit or its prepare is when that returns, whatever the options said at its beginning.
    pub fn set_durability(&mut self, durability: Durability) {
        self.options.durability = durability;
    }

    /// The rows with these keys are soon read by `get`: what has to be read from disk for them is read together. A hint; of more than 64 keys
    /// the first are meant. As a read, it is what begins the moment that the transaction sees.
    ///
    /// # Errors
    /// `NoSuchTable`; `SnapshotCancelled`.
    pub fn will_read<'k>(
        &mut self,
        table: &Table,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<(), Error> {
        self.check_usable()?;
        if self.own_storage(table).transpose()?.is_none() {
            // Kept until the end: what is looked at stays as long as its snapshot is registered.
            let snapshot = self.read_snapshot()?;
            let storage = self.storage_for_read(table, snapshot.lsn())?;
            self.engine.will_read(storage, keys, snapshot.lsn());
        }
        Ok(())
    }

    /// The value of the row `key`, as this transaction sees it.
    ///
    /// # Errors
    /// `NoSuchTable`, `TransactionFailed`, or damage met on the way.
    pub fn get(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.check_usable()?;
        let own = self.own_storage(table).transpose()?;
        let snapshot = if own.is_some() { None } else { Some(self.read_snapshot()?) };
        let lsn = snapshot.as_ref().map_or(Lsn::MAX, ReadSnapshot::lsn);
        let storage = own.map_or_else(|| self.storage_for_read(table, lsn), Ok)?;
        let mut row_key = std::mem::take(&mut self.row_key);
        row_key::encode_into(&mut row_key, storage, key.as_ref());
        let result = match own {
            Some(storage) => self.read_own_row(storage, &row_key),
            None => self.read_row(&row_key, lsn),
        };
        self.row_key = row_key;
        result
    }

    pub(crate) fn read_row(&mut self, row_key: &[u8], lsn: Lsn) -> Result<Option<Vec<u8>>, Error> {
        if let Some(written) = self.writes.get(row_key) {
            self.wait_for_dependencies()?;
            return Ok(written.map(<[u8]>::to_vec));
        }
        self.remember_read(row_key)?;
        self.noted(self.engine.read_row(row_key, lsn, |value| value.map(<[u8]>::to_vec)))
    }

    pub(crate) fn remember_read(&mut self, row_key: &[u8]) -> Result<(), Error> {
        if self.options.isolation == Isolation::Serializable {
            self.check_memory(self.memory_bytes())?;
            self.reads.add(ReadItem::Row(row_key.to_vec()));
        }
        Ok(())
    }

    /// Sets the row `key` to `value`.
    ///
    /// # Errors
    /// `Conflict`, `Deadlock` and `Locked` end the transaction and may be retried from its beginning; keys, values
    /// and transactions over their limits are refused and leave the transaction as it was.
    pub fn put(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.write(table, key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes the row `key`; one that is not there stays so.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(table, key.as_ref(), None)
    }

    fn write(&mut self, table: &Table, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.check_usable()?;
        row_key::check_sizes(key, value, self.engine.key_bytes_max())?;
        self.check_room(table, key, value)?;
        let storage = match value {
            Some(_) => self.lock_row_by(table, key, Transaction::lock_row_key_to_put)?,
            None => self.lock_row_by(table, key, Transaction::lock_row_key_to_delete)?,
        };
        let mut row_key = std::mem::take(&mut self.row_key);
        row_key::encode_into(&mut row_key, storage, key);
        let written = self.write_row_of(table, &row_key, value);
        self.row_key = row_key;
        written
    }

    /// Makes sure that there is memory for a write of the row.
    pub(crate) fn check_room(
        &mut self,
        table: &Table,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let more = write_set::row_bytes(row_key::TABLE_BYTES + key.len(), value.map_or(0, <[u8]>::len));
        let with_row = self.memory_bytes() + more + LOCK_BYTES;
        if with_row <= self.engine.options.memory.transaction_bytes {
            return self.memory.cover(with_row);
        }
        // A row that is written again counts once. Looked up only here, where it matters.
        let row_key = row_key::encode(self.storage_for_write(table)?, key);
        self.check_memory(with_row - self.writes.given_back_by(&row_key))
    }

    /// What the transaction takes, as it is.
    fn memory_bytes(&self) -> u64 {
        let stronger = bytes(self.stronger_locks.len() * size_of::<(u64, LockModes)>());
        let locks = bytes(self.locks.len()) * LOCK_BYTES + self.locked_rows.memory_bytes() + stronger;
        let writes =
            self.writes.memory_bytes() + self.touched.memory_bytes() + self.savepoints.memory_bytes();
        writes + self.reads.memory_bytes() + locks
    }

    /// Makes sure that there is memory for so much more.
    pub(crate) fn check_room_for(&mut self, more: u64) -> Result<(), Error> {
        self.check_memory(self.memory_bytes() + more)
    }

    fn check_memory(&mut self, bytes: u64) -> Result<(), Error> {
        let limit = self.engine.options.memory.transaction_bytes;
        if bytes > limit {
            Err(Error::TransactionTooLarge { bytes, limit })
        } else {
            self.memory.cover(bytes)
        }
    }

    /// All rows of `table`, ascending, as this transaction sees them.
    pub fn rows(&mut self, table: &Table) -> Range<'_> {
        self.range::<&[u8]>(table, ..)
    }

    /// The rows of `table` in `bounds`, ascending, as this transaction sees them.
    pub fn range<K: AsRef<[u8]>>(&mut self, table: &Table, bounds: impl RangeBounds<K>) -> Range<'_> {
        self.scan(table, bounds, Direction::Forward)
    }

    /// The rows of `table` in `bounds`, descending.
    pub fn range_reverse<K: AsRef<[u8]>>(&mut self, table: &Table, bounds: impl RangeBounds<K>) -> Range<'_> {
        self.scan(table, bounds, Direction::Reverse)
    }

    fn scan<K: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        bounds: impl RangeBounds<K>,
        direction: Direction,
    ) -> Range<'_> {
        match self.begin_scan(table, bounds) {
            Ok((snapshot, from, to)) => {
                let writes = Some(&self.writes).filter(|writes| writes.has_any_in(&from, &to));
                Range::new(&self.engine, snapshot, writes, from, to, direction).noting(&self.lost_snapshot)
            }
            Err(error) => Range::failed(&self.engine, error),
        }
    }

    /// Opens a scan of the rows of `table` in `bounds` that borrows nothing: it can go to another thread, several can be open,
    /// and the transaction goes on meanwhile, with writes and further statements.
    ///
    /// It shows what a `range` begun now would show, and nothing that this transaction writes later: a statement may change
    /// the rows that it scans. The rows that the transaction has written in `bounds` are copied; the copy counts as memory of
    /// open transactions until the scan is dropped.
    ///
    /// ```
    /// # fn main() -> Result<(), seawall_engine::Error> {
    /// # let directory = tempfile::tempdir().expect("a scratch directory");
    /// # let database = seawall_engine::Database::open(directory.path(), Default::default())?;
    /// # let table = database.create_table("t")?;
    /// # database.put(&table, "a", "1")?;
    /// let mut transaction = database.begin();
    /// let mut scan = transaction.open_scan::<&str>(&table, .., seawall_engine::Direction::Forward)?;
    /// while let Some((key, value)) = scan.next_row()? {
    ///     transaction.put(&table, [key, b"'"].concat(), value)?; // not met by the scan
    /// }
    /// # assert_eq!(transaction.rows(&table).count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `get`; `TransactionTooLarge` and `TransactionMemory` if there is no memory for the copy.
    pub fn open_scan<K: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        bounds: impl RangeBounds<K>,
        direction: Direction,
    ) -> Result<Scan, Error> {
        let (snapshot, from, to) = self.begin_scan(table, bounds)?;
        let own = self.copy_own_rows(&from, &to)?;
        let lost_snapshot = Arc::clone(self.scan_lost_snapshot.get_or_insert_default());
        let scan = Scan::new(Arc::clone(&self.engine), snapshot, (from, to), direction);
        Ok(scan.with(own, lost_snapshot))
    }

    fn copy_own_rows(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Result<Option<OwnRows>, Error> {
        if !self.writes.has_any_in(from, to) {
            return Ok(None);
        }
        let copied = self.writes.copy_bytes(from, to);
        let (bytes, limit) = (self.memory_bytes() + copied, self.engine.options.memory.transaction_bytes);
        if bytes > limit {
            return Err(Error::TransactionTooLarge { bytes, limit });
        }
        let mut memory = MemoryShare::new(&self.engine.transaction_memory);
        memory.cover(copied)?;
        Ok(Some(OwnRows::new(self.writes.copy_of(from, to), memory)))
    }

    /// The rows in a range, if it has any, and all others, as they are now.
    fn share_own_rows(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Result<Option<OwnRows>, Error> {
        if !self.writes.has_any_in(from, to) {
            return Ok(None);
        }
        let mut memory = MemoryShare::new(&self.engine.transaction_memory);
        memory.cover(self.writes.memory_bytes())?;
        Ok(Some(OwnRows::new(self.writes.shared(), memory)))
    }

    #[expect(clippy::type_complexity, reason = "a snapshot and two bounds")]
    fn begin_scan<K: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        bounds: impl RangeBounds<K>,
    ) -> Result<(RegisteredSnapshot, Bound<Vec<u8>>, Bound<Vec<u8>>), Error> {
        self.check_usable()?;
        if let Some(storage) = self.own_storage(table).transpose()? {
            let (from, to) = crate::snapshots::scan::row_bounds(storage, &bounds);
            self.wait_for_dependencies()?;
            return Ok((self.snapshot_of_own(storage)?, from, to));
        }
        // A scan has a registration of its own: it outlives this call, and may outlive the statement.
        let snapshot = match self.read_snapshot()? {
            ReadSnapshot::Kept(lsn) => self.engine.register_snapshot_at(lsn),
            ReadSnapshot::Own(snapshot) => snapshot,
        };
        let storage = self.storage_for_read(table, snapshot.lsn())?;
        let (from, to) = crate::snapshots::scan::row_bounds(storage, &bounds);
        if self.writes.has_any_in(&from, &to) {
            self.wait_for_dependencies()?;
        }
        if self.options.isolation == Isolation::Serializable {
            self.check_memory(self.memory_bytes())?;
            self.reads.add(ReadItem::Range(from.clone(), to.clone()));
        }
        Ok((snapshot, from, to))
    }

    fn storage_for_read(&mut self, table: &Table, lsn: Lsn) -> Result<TableId, Error> {
        if let Some(storage) = self.own_storage(table) {
            return storage;
        }
        let id = table.object.id;
        if self.options.isolation != Isolation::Serializable || self.reads.has_object(id) {
            return self.noted(self.engine.storage_at(table, lsn));
        }
        // A create, truncate or rename changes what was read, and none of the rows.
        self.reads.add(ReadItem::Row(catalog::object_key(id)));
        let storage = self.noted(self.engine.storage_at(table, lsn))?;
        // Only now: a look that failed is repeated, and one that finds no table depends on its row alone.
        self.reads.add_object(&table.object);
        Ok(storage)
    }

    pub(crate) fn storage_for_write(&self, table: &Table) -> Result<TableId, Error> {
        if let Some(storage) = self.own_storage(table) {
            return storage;
        }
        match &self.snapshot {
            Some(snapshot) => self.noted(self.engine.storage_at(table, snapshot.lsn())),
            None => self.engine.newest_storage(table, Some(&self.session.waits.cancel)),
        }
    }

    /// Where this transaction itself has put the table, if it created, truncated or dropped it.
    fn own_storage(&self, table: &Table) -> Option<Result<TableId, Error>> {
        let last = self.touched.definition_of(table.object.id)?;
        Some(last.storage.ok_or_else(|| no_such_table(table)))
    }

    /// Commits. When it returns, the commit is as durable as the options ask, and every later transaction sees it.
    /// The stamp of the commit; what is visible now, if nothing was written.
    ///
    /// # Errors
    /// `Conflict` (retryable) when what was read has changed, under `Serializable`; `Locked` (retryable) when a serializable
    /// transaction in doubt has read what is written, and is not decided while this waits; `TableChanged`; `DiskFull`;
    /// `Stopped`; `DoneNotArchived`. [`Error::effect`] tells what has become of the transaction: after most errors nothing is
    /// committed; after `DoneNotArchived`, with `Durability::Archived` only, it is, and must not be repeated; `Stopped` leaves
    /// it open, recovery decides. Where nothing is committed, `Stopped` says that what [`Transaction::update`] has read may be
    /// lost.
    pub fn commit(mut self) -> Result<Lsn, Error> {
        if sabotaged(Defect::CommitNotDurable) {
            self.options.durability = Durability::Async;
        }
        let (engine, in_log) = (Arc::clone(&self.engine), self.logged_as());
        let begun = engine.clock().monotonic();
        match self.log_commit()? {
            Some(stamp) => {
                engine.counters.commit_stages.append.note(engine.clock().monotonic().saturating_sub(begun));
                in_log(stamp).wait()
            }
            None => Ok(engine.visible()),
        }
    }

    /// Makes the handle of its record in the log, when it has a stamp.
    pub(crate) fn logged_as(&self) -> impl FnOnce(Lsn) -> CommitHandle + use<> {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let durability = self.options.durability;
        move |stamp| CommitHandle::new(engine, session, stamp, durability)
    }

    /// Logs the commit and returns without waiting for the disk: the commit has its place in the order, and whoever
    /// waits on the handle knows when it is durable.
    ///
    /// # Errors
    /// As `commit`.
    pub fn commit_async(self) -> Result<CommitHandle, Error> {
        let (engine, in_log) = (Arc::clone(&self.engine), self.logged_as());
        let logged = self.log_commit()?;
        let stamp = logged.unwrap_or_else(|| engine.visible());
        if logged.is_some() {
            engine.log()?.request_flush(stamp);
        }
        Ok(in_log(stamp))
    }

    fn log_commit(mut self) -> Result<Option<Lsn>, Error> {
        let logged = self.enter_log();
        if !matches!(logged, Ok(Some(_))) {
            self.end_without_record()?;
        }
        logged
    }

    /// Logs what was written; the stamp, unless that is nothing.
    fn enter_log(&mut self) -> Result<Option<Lsn>, Error> {
        self.check_usable()?;
        if self.writes.is_empty() {
            return Ok(None);
        }
        self.engine.lifecycle.check_writable()?;
        if sabotaged(Defect::LocksReleasedEarly) {
            self.release_locks();
        }
        self.check_taken_over()?;
        self.write_fate_of_parts()?;
        let stamp =
            self.engine.log_commit(&self.commit_request(), self.writes.rows(), self.writes.bytes())?;
        self.parts_committed();
        // The rows are in the log and in the memtable: whoever writes them next has a later stamp, so it cannot
        // become durable first, and readers are held to what is visible.
        self.release_logged();
        Ok(Some(stamp))
    }

    /// What its commit, or its prepare, depends on.
    pub(crate) fn commit_request(&self) -> CommitRequest<'_> {
        CommitRequest {
            owner: self.owner,
            patience: self.session.waits.patience(self.options.lock_wait),
            tables: self.touched.depended_on(),
            definitions: self.touched.definitions(),
            altered: self.touched.altered(),
            reads: self.reads.items(),
            snapshot: self.snapshot.as_ref().map_or(self.snapshot_floor, RegisteredSnapshot::lsn),
            snapshot_is_held: self.snapshot.is_some(),
            durability: self.options.durability,
            holder: None,
            decided: None,
        }
    }

    pub(crate) fn owner(&self) -> LockOwner {
        self.owner
    }

    /// The tables that it wrote to, locked rows of, or has read; each once.
    pub(crate) fn used_objects(&self, reads: &[ReadItem]) -> Vec<Arc<OpenObject>> {
        let used = self.touched.depended_on();
        let mut objects: Vec<_> = used.iter().map(|used| Arc::clone(&used.table.object)).collect();
        objects.extend(reads.iter().filter_map(ReadItem::object).cloned());
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup_by_key(|object| object.id);
        objects
    }

    /// Whether the transaction has to be placed in one order with others by what it has read.
    pub(crate) fn has_reads(&self) -> bool {
        !self.reads.items().is_empty()
    }

    pub(crate) fn take_reads(&mut self) -> Vec<ReadItem> {
        self.reads.take()
    }

    /// Gives everything back as it was. Returns when what [`Transaction::update`] has read is visible to all, or when the
    /// database has stopped: what was read may be lost then, and a rollback cannot say so. To know, undo all writes with
    /// [`Transaction::rollback_to`] and `commit`.
    pub fn rollback(self) {}

    /// Bytes of the keys and values that its commit would log, without what it has logged in parts.
    pub fn written_bytes(&self) -> u64 {
        self.writes.bytes()
    }

    /// What the transaction reads at, once it has read.
    pub fn snapshot_lsn(&self) -> Option<Lsn> {
        self.snapshot.as_ref().map(RegisteredSnapshot::lsn)
    }

    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        match &self.failed {
            Some(failed) => Err(failed.error()),
            None => self.engine.lifecycle.check_open(),
        }?;
        // Conflicts are found by what is kept for the snapshot, so one that has only written cannot go on either.
        let snapshot = self.snapshot.as_ref();
        self.noted(snapshot.map_or(Ok(()), |snapshot| self.engine.check_snapshot(snapshot.lsn())))
    }

    /// The result of a read, for the caller. That a snapshot was cancelled leaves no other trace.
    pub(crate) fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| note_lost_snapshot(&self.lost_snapshot, error))
    }

    /// Whether one of its calls has failed with a retryable error, whatever the caller has made of that error.
    pub(crate) fn met_a_conflict(&self) -> bool {
        let has_failed = self.failed.as_ref().is_some_and(|failed| failed.is_retryable);
        let lost_in_scan = self.scan_lost_snapshot.as_ref().is_some_and(|lost| lost.load(Ordering::Relaxed));
        has_failed || lost_in_scan || self.lost_snapshot.load(Ordering::Relaxed)
    }

    /// As `give_up_all`, of a transaction whose record is in the log: what it depends on is there before it.
    pub(crate) fn release_logged(&mut self) {
        self.depends_on = Lsn::ZERO;
        self.give_up_all();
    }

    /// As `give_up_all`, of a transaction without a record in the log that follows those that it has read in `update`: `Stopped`
    /// if these may be lost.
    pub(crate) fn end_without_record(&mut self) -> Result<(), Error> {
        self.give_up_all();
        self.wait_for_dependencies()
    }

    fn give_up_all(&mut self) {
        self.release_locks();
        self.snapshot = None;
        self.statement = None;
        self.give_up_parts();
    }

    fn release_locks(&mut self) {
        self.stronger_locks = Vec::new();
        self.engine.locks.release_all(self.owner, std::mem::take(&mut self.locks));
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.give_up_all();
        if let Some(session) = &self.session.waits.session {
            session.end_transaction(self.owner);
        }
        // The program may show what it has read in `update`: see there.
        self.engine.wait_visible(self.depends_on, Some(&self.session.waits.cancel));
    }
}

pub(crate) fn no_such_table(table: &Table) -> Error {
    Error::NoSuchTable { name: table.name().to_owned() }
}

impl Engine {
    /// Where the newest committed rows of a table lie, visible or not. That it was dropped is told when that is visible.
    pub(crate) fn newest_storage(
        &self,
        table: &Table,
        cancel: Option<&CancelToken>,
    ) -> Result<TableId, Error> {
        match table.object.newest_storage() {
            Some(storage) => Ok(storage),
            None => {
                self.require_visible(table.object.changed_at(), cancel)?;
                Err(no_such_table(table))
            }
        }
    }

    /// Where the rows of a table lie that a snapshot sees.
    pub(crate) fn storage_at(&self, table: &Table, snapshot: Lsn) -> Result<TableId, Error> {
        match table.object.storage_at(snapshot) {
            Storage::At(storage) => Ok(storage),
            Storage::Dropped => Err(no_such_table(table)),
            Storage::Unknown => self.storage_in_catalog(table, snapshot)?.ok_or_else(|| no_such_table(table)),
        }
    }

    /// Takes one row lock for a transaction of one row.
    pub(crate) fn lock_one(
        &self,
        owner: LockOwner,
        name: u64,
        mode: LockMode,
        patience: LockPatience<'_>,
    ) -> Result<(), Error> {
        let acquired = self.locks.acquire(owner, name, mode, patience);
        acquired.map(drop).map_err(|refused| self.lock_refused(refused))
    }

    pub(crate) fn lock_refused(&self, refused: LockRefused) -> Error {
        match refused {
            LockRefused::Deadlock(circle) => Error::Deadlock { circle },
            LockRefused::Cancelled => Error::Cancelled,
            LockRefused::Held => Error::Locked { waited: "the options say not to wait" },
            LockRefused::TimedOut => Error::Locked { waited: "waiting timed out" },
            LockRefused::Stopped => self.lifecycle.stopped_error(),
        }
    }
}
