//! Tables over a transaction of the engine: what the executor reads and changes.

use std::sync::Arc;

use seawall_engine::{Database, LockWait, RowLock, SessionLocks, Transaction};
use seawall_types::Lsn;
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, SqlState};

use crate::algebra::WaitPolicy;
use crate::execute::{Inserted, Locked, OnConflict, ScanRequest, Storage, TableScan};
use crate::schema::sequence::SequenceSession;
use crate::schema::store::SchemaStore;
use crate::schema::{Definition, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::foreign_key::ForeignKeyQueue;
use crate::storage::index_entry::RowExpressions;
use crate::storage::layout::{LayoutCache, TableLayout};
use crate::storage::table_lock::{HeldTables, TableLockMode};

/// What a session keeps between statements.
#[derive(Debug)]
pub struct StorageSession {
    pub(crate) layouts: LayoutCache,
    /// Foreign keys that are still to be checked.
    pub foreign_keys: ForeignKeyQueue,
    /// Sequences that it has used.
    pub sequences: SequenceSession,
    held_tables: HeldTables,
    /// Whether the transaction has used temporary objects, which end with the session.
    pub uses_temporary: bool,
    /// Tables of the engine that the statement under way has loaded.
    pub(super) loaded: Vec<String>,
}

impl StorageSession {
    /// Nothing yet, of a session that locks tables by `locks`.
    pub fn new(locks: SessionLocks) -> StorageSession {
        StorageSession {
            layouts: LayoutCache::default(),
            foreign_keys: ForeignKeyQueue::default(),
            sequences: SequenceSession::default(),
            held_tables: HeldTables::new(locks),
            uses_temporary: false,
            loaded: Vec::new(),
        }
    }

    /// Where a rollback to a savepoint gives back locks of tables to.
    pub(crate) fn tables_mark(&self) -> usize {
        self.held_tables.mark()
    }

    /// Gives back the locks of tables since the mark.
    pub(crate) fn give_back_tables(&mut self, mark: usize) {
        self.held_tables.return_to(mark);
    }

    /// A transaction has ended: its locks of tables go, and what its foreign keys had to look at. After the engine's own end of it.
    pub fn end_transaction(&mut self) {
        self.uses_temporary = false;
        self.foreign_keys.clear();
        self.held_tables.return_to(0);
    }

    /// A transaction has ended, or was rolled back to a savepoint: what was kept of its own tables goes.
    pub fn forget_definitions(&mut self) {
        self.layouts.clear();
    }
}

/// What the session answers: system relations, and functions of the session but for those over sequences.
pub trait SessionCalls {
    /// As [`Storage::scan_system`].
    ///
    /// # Errors
    /// What the engine says.
    fn scan_system(
        &mut self,
        transaction: &mut Transaction,
        relation: Oid,
        columns: &[usize],
        filter: &[(usize, Datum)],
    ) -> SqlResult<Rows>;

    /// As [`Storage::call`].
    ///
    /// # Errors
    /// Those of the function.
    fn call(
        &mut self,
        transaction: &mut Transaction,
        sequences: &mut SequenceSession,
        function: &FunctionRow,
        call: &Call<'_>,
    ) -> SqlResult<Datum>;

    /// As [`Storage::call_set`].
    ///
    /// # Errors
    /// Those of the function.
    fn call_set(
        &mut self,
        transaction: &mut Transaction,
        function: &FunctionRow,
        call: &Call<'_>,
    ) -> SqlResult<Rows>;

    /// As [`Storage::reference_input`].
    ///
    /// # Errors
    /// There is no such object.
    fn reference_input(&mut self, _transaction: &mut Transaction, _of: Oid, _text: &str) -> SqlResult<Oid> {
        Err(SqlError::unsupported("a name of an object here"))
    }

    /// As [`Storage::reference_output`].
    ///
    /// # Errors
    /// What the engine says.
    fn reference_output(
        &mut self,
        _transaction: &mut Transaction,
        _of: Oid,
        number: Oid,
    ) -> SqlResult<String> {
        Ok(number.to_string())
    }
}

/// The tables of a database, in a transaction and for a statement.
pub struct TableStorage<'a> {
    /// The definitions.
    pub store: &'a SchemaStore,
    /// The session's handle of the engine.
    pub database: &'a Database,
    /// The transaction; `begin_statement` was called.
    pub transaction: &'a mut Transaction,
    /// What the session keeps.
    pub session: &'a mut StorageSession,
    /// Computes expressions of indexes and defaults.
    pub expressions: &'a mut dyn RowExpressions,
    /// Answers what is not about tables.
    pub calls: &'a mut dyn SessionCalls,
    /// How values are shown in errors.
    pub settings: &'a Settings,
    /// The snapshot that the statement was planned from.
    pub as_of: Lsn,
    /// `lock_timeout`.
    pub lock_wait: LockWait,
}

impl std::fmt::Debug for TableStorage<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TableStorage").field("as_of", &self.as_of).finish_non_exhaustive()
    }
}

impl TableStorage<'_> {
    pub(crate) fn layout(&mut self, table: &Arc<Table>) -> SqlResult<Arc<TableLayout>> {
        self.session.uses_temporary |= table.is_temporary;
        self.session.layouts.get(self.store, self.transaction, table, self.as_of)
    }

    /// `LOCK TABLE`, and what every change does: locks a table until the end of the transaction.
    ///
    /// # Errors
    /// `55P03`, `40P01`.
    pub fn lock_table(&mut self, table: &Table, mode: TableLockMode, wait: LockWait) -> SqlResult<()> {
        self.session.uses_temporary |= table.is_temporary;
        self.session.held_tables.lock((table.oid, &table.name), mode, wait)
    }

    pub(super) fn lock_to_write(&mut self, table: &Table) -> SqlResult<()> {
        self.lock_table(table, TableLockMode::RowExclusive, self.lock_wait)
    }

    pub(crate) fn schema_of(&mut self, table: &Table) -> SqlResult<String> {
        self.store.namespace_name(self.transaction, table.namespace)
    }

    /// A table by its number; it is there, since something refers to it.
    pub(crate) fn table(&mut self, oid: Oid) -> SqlResult<Arc<Table>> {
        match self.store.definition(self.transaction, oid)? {
            Some(Definition::Table(table)) => Ok(table),
            _ => Err(SqlError::internal(format!("could not open relation with OID {oid}"))),
        }
    }

    fn lock_row(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        mode: RowLock,
        wait: WaitPolicy,
    ) -> SqlResult<Locked> {
        let layout = self.layout(table)?;
        let locked = match wait {
            WaitPolicy::Wait => {
                Some(self.transaction.lock_row_as(&layout.handle, identity, mode, self.lock_wait).sql()?)
            }
            WaitPolicy::Fail | WaitPolicy::Skip => {
                self.transaction.try_lock_row_as(&layout.handle, identity, mode).sql()?
            }
        };
        match (locked, wait) {
            (Some(row), _) if row.value.is_none() => Ok(Locked::Gone),
            (Some(row), _) if row.changed => match mode {
                RowLock::KeyShare if self.has_same_keys(&layout, identity, row.value.as_deref())? => {
                    Ok(Locked::Unchanged)
                }
                _ => Ok(Locked::Changed),
            },
            (Some(_), _) => Ok(Locked::Unchanged),
            (None, WaitPolicy::Skip) => Ok(Locked::Skipped),
            (None, WaitPolicy::Wait | WaitPolicy::Fail) => {
                let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
                Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message))
            }
        }
    }

    /// Whether the newest version of a row has the unique keys of the version that the statement sees: a lock of its keys is not concerned
    /// by the rest.
    fn has_same_keys(
        &mut self,
        layout: &TableLayout,
        identity: &[u8],
        newest: Option<&[u8]>,
    ) -> SqlResult<bool> {
        let seen = self.transaction.get(&layout.handle, identity).sql()?;
        let (Some(seen), Some(newest)) = (seen, newest) else { return Ok(false) };
        let mut rows = [Vec::new(), Vec::new()];
        for (row, value) in rows.iter_mut().zip([&seen[..], newest]) {
            row.resize(layout.shape.rows.column_count(), Datum::Null);
            layout.shape.whole.read(identity, value, row)?;
        }
        let [seen, newest] = rows;
        let table = &layout.shape.table;
        for index in layout.shape.indexes.iter().filter(|index| index.index.is_unique) {
            let before = index.entry(table, &seen, identity, self.expressions)?.map(|entry| entry.key);
            if before != index.entry(table, &newest, identity, self.expressions)?.map(|entry| entry.key) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the newest version of a row, which it locks.
    pub(crate) fn newest(
        &mut self,
        layout: &TableLayout,
        identity: &[u8],
        strength: RowLock,
    ) -> SqlResult<Option<Vec<Datum>>> {
        let locked =
            self.transaction.lock_row_as(&layout.handle, identity, strength, self.lock_wait).sql()?;
        let Some(value) = locked.value else { return Ok(None) };
        let mut row = vec![Datum::Null; layout.shape.rows.column_count()];
        layout.shape.whole.read(identity, &value, &mut row)?;
        Ok(Some(row))
    }
}

impl Storage for TableStorage<'_> {
    fn open_scan(&mut self, request: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>> {
        self.scan(request)
    }

    fn get(&mut self, request: &ScanRequest<'_>, values: &mut [Datum]) -> SqlResult<bool> {
        self.get_row(request, values)
    }

    fn fetch_newest(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        columns: &[usize],
        values: &mut [Datum],
    ) -> SqlResult<bool> {
        let layout = self.layout(table)?;
        // The lock that the transaction has is as strong at least.
        let strength = RowLock::KeyShare;
        let locked =
            self.transaction.lock_row_as(&layout.handle, identity, strength, self.lock_wait).sql()?;
        let Some(value) = locked.value else { return Ok(false) };
        layout.shape.rows.read(columns, identity, &value, values)?;
        Ok(true)
    }

    fn lock(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        mode: RowLock,
        wait: WaitPolicy,
    ) -> SqlResult<Locked> {
        self.lock_table(table, TableLockMode::RowShare, self.lock_wait)?;
        self.lock_row(table, identity, mode, wait)
    }

    fn lock_to_change(&mut self, table: &Arc<Table>, identity: &[u8], mode: RowLock) -> SqlResult<Locked> {
        self.lock_to_write(table)?;
        self.lock_row(table, identity, mode, WaitPolicy::Wait)
    }

    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        on_conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted> {
        self.insert_row(table, row, on_conflict)
    }

    fn update(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<Vec<u8>> {
        self.update_row(table, identity, old, new)
    }

    fn delete(&mut self, table: &Arc<Table>, identity: &[u8], old: &[Datum]) -> SqlResult<()> {
        self.delete_row(table, identity, old)
    }

    fn scan_system(
        &mut self,
        relation: Oid,
        columns: &[usize],
        filter: &[(usize, Datum)],
    ) -> SqlResult<Rows> {
        self.calls.scan_system(self.transaction, relation, columns, filter)
    }

    fn call(&mut self, function: &FunctionRow, call: &Call<'_>) -> SqlResult<Datum> {
        self.calls.call(self.transaction, &mut self.session.sequences, function, call)
    }

    fn call_set(&mut self, function: &FunctionRow, call: &Call<'_>) -> SqlResult<Rows> {
        self.calls.call_set(self.transaction, function, call)
    }

    fn reference_input(&mut self, of: Oid, text: &str) -> SqlResult<Oid> {
        self.calls.reference_input(self.transaction, of, text)
    }

    fn reference_output(&mut self, of: Oid, number: Oid) -> SqlResult<String> {
        self.calls.reference_output(self.transaction, of, number)
    }

    fn next_value(&mut self, sequence: Oid) -> SqlResult<i64> {
        match self.store.definition(self.transaction, sequence)? {
            Some(Definition::Sequence(sequence)) => self.session.sequences.next_value(self.store, &sequence),
            _ => Err(SqlError::internal(format!("could not open relation with OID {sequence}"))),
        }
    }
}
