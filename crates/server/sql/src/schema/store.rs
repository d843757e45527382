//! Where definitions are: rows of the engine's table `sql.definitions`, read and written in the transaction that asks.
//!
//! ```text
//!   name --(schema, name)--> number --> definition, by version: decoded before? --> Arc<Table>
//! ```
//! Nothing is loaded at open, and what is kept decoded is bounded, so the memory does not grow with the tables. A version is given out
//! once, also where the transaction that wrote it is rolled back: what was decoded for a version is good for ever.
//!
//! A table's rows are in the engine's table `t` and a number, those of an index in `i` and a number (`schema::define`), so a rename
//! touches rows of definitions only.

mod access;
mod beginning;
mod encoding;
mod functions;
mod lookup;
mod numbers;
mod objects;
mod rows;
mod source;
mod statistics;
mod user_types;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use rustc_hash::FxHashMap;
use seawall_engine::{Database, Direction, Transaction};
use seawall_types::Lsn;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use crate::catalog::numbers::{PG_CATALOG, SEAWALL};
use crate::monitor::Monitor;
use crate::schema::sequence::Counters;
use crate::schema::store::beginning::open_table;
use crate::schema::store::encoding::StoredRelation;
use crate::schema::store::numbers::Numbers;
use crate::schema::{Definition, Index, Sequence, Table, View};
use crate::storage::engine_error::EngineResult;
use crate::storage::layout::RowNumbers;
use crate::storage::value::damaged;

pub use access::{AccessPlace, DefaultAccess, letter as letter_of_kind};
pub use lookup::{SchemaReader, SearchPath};
pub use objects::Dependent;
pub use source::{SessionState, StoreSource};
pub use statistics::StoredStatistics;

const DEFINITIONS: &str = "sql.definitions";
const SEQUENCES: &str = "sql.sequences";
const STATISTICS: &str = "sql.statistics";
/// Tables that are kept decoded, and handles of the engine's tables.
const KEPT_MAX: usize = 4_096;

/// The definitions of a database, for all its sessions.
#[derive(Debug)]
pub struct SchemaStore {
    database: Database,
    definitions: seawall_engine::Table,
    sequences: seawall_engine::Table,
    statistics: statistics::StatisticsStore,
    numbers: Mutex<Numbers>,
    decoded: Cache<u64, Arc<Table>>,
    handles: Cache<Arc<str>, seawall_engine::Table>,
    counters: Counters,
    changed_at: AtomicU64,
    /// How many transactions that have changed definitions are about to commit.
    changing: AtomicUsize,
    /// Another server defines, and this one follows it.
    follows: AtomicBool,
    pub(crate) monitor: Monitor,
    /// By the engine's table.
    row_numbers: Mutex<FxHashMap<Arc<str>, Arc<RowNumbers>>>,
}

/// A change of definitions that may become visible at any moment.
#[derive(Debug)]
#[must_use]
pub(crate) struct ChangeUnderWay<'a>(&'a AtomicUsize);

impl Drop for ChangeUnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SchemaStore {
    /// The definitions of a database; makes the first ones if there are none: the schema `public`, and a superuser of this name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(database: &Database, superuser: &str) -> SqlResult<SchemaStore> {
        let definitions = open_table(database, DEFINITIONS)?;
        let sequences = open_table(database, SEQUENCES)?;
        let statistics = open_table(database, STATISTICS)?;
        let store = SchemaStore {
            database: database.clone(),
            definitions,
            sequences,
            statistics: statistics::StatisticsStore::new(statistics),
            numbers: Mutex::new(Numbers::default()),
            decoded: Cache::new(KEPT_MAX),
            handles: Cache::new(KEPT_MAX),
            counters: Counters::default(),
            changed_at: AtomicU64::new(0),
            changing: AtomicUsize::new(0),
            follows: AtomicBool::new(database.standby().is_some()),
            monitor: Monitor::default(),
            row_numbers: Mutex::default(),
        };
        if database.standby().is_some() {
            return Ok(store);
        }
        store.begin_defining(superuser)?;
        Ok(store)
    }

    /// The engine's database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// About when definitions changed last: what was planned from an older snapshot is planned again.
    ///
    /// The engine tells of tables, at once; of views, sequences, schemas and roles sessions tell after their commit. A session that sees
    /// the commit before it is told must not use what it knew before: while one is under way, everything may be a change.
    ///
    /// A server that follows another one is told of tables only, so everything that it applies may be a change.
    pub fn definitions_changed_at(&self) -> Lsn {
        if self.may_change_at_any_time() {
            return self.database.snapshot().lsn();
        }
        self.database.definitions_changed_at().max(Lsn::new(self.changed_at.load(Ordering::Acquire)))
    }

    /// Whether everything that becomes visible may be a change of definitions.
    pub(crate) fn may_change_at_any_time(&self) -> bool {
        self.follows.load(Ordering::Acquire) || self.changing.load(Ordering::SeqCst) > 0
    }

    /// A transaction that has changed definitions is about to commit. `note_change` comes before the end of what this returns.
    pub(crate) fn begin_change(&self) -> ChangeUnderWay<'_> {
        self.changing.fetch_add(1, Ordering::SeqCst);
        ChangeUnderWay(&self.changing)
    }

    /// A transaction that has changed definitions has ended, at the latest at this moment.
    pub fn note_change(&self, at: Lsn) {
        self.changed_at.fetch_max(at.get(), Ordering::AcqRel);
    }

    /// As `note_change`, of a transaction that has ended now, perhaps in a commit that is not visible yet.
    pub(crate) fn note_change_now(&self) {
        let newest = self.database.quorum().newest_waiting();
        self.note_change(newest.unwrap_or_else(|| self.database.snapshot().lsn()));
    }

    /// This server defines from now on.
    pub(crate) fn note_promotion(&self) {
        self.note_change(self.database.snapshot().lsn());
        self.follows.store(false, Ordering::Release);
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The engine's table of definitions.
    pub(super) fn definitions(&self) -> &seawall_engine::Table {
        &self.definitions
    }

    pub(super) fn sequences(&self) -> &seawall_engine::Table {
        &self.sequences
    }

    /// The engine's table with this name, for statements that were planned from `as_of`. Names are given out once, so a handle is good
    /// for all transactions.
    ///
    /// # Errors
    /// What the engine says.
    pub fn engine_table(
        &self,
        transaction: &mut Transaction,
        name: &str,
        as_of: Lsn,
    ) -> SqlResult<seawall_engine::Table> {
        if let Some(table) = self.handles.get(name) {
            return Ok(table.as_of(as_of));
        }
        let table = transaction.table(name).sql()?;
        self.handles.insert(Arc::from(name), table.clone());
        Ok(table.as_of(as_of))
    }

    fn get(&self, transaction: &mut Transaction, key: &[u8]) -> SqlResult<Option<Vec<u8>>> {
        transaction.get(&self.definitions, key).sql()
    }

    fn put(&self, transaction: &mut Transaction, key: &[u8], value: &[u8]) -> SqlResult<()> {
        transaction.put(&self.definitions, key, value).sql()
    }

    fn delete(&self, transaction: &mut Transaction, key: &[u8]) -> SqlResult<()> {
        transaction.delete(&self.definitions, key).sql()
    }

    /// Gives a name to an object, which nobody else has; waits for others who take or give up the name.
    fn take_name(
        &self,
        transaction: &mut Transaction,
        key: &[u8],
        oid: Oid,
        taken: impl FnOnce() -> Box<SqlError>,
    ) -> SqlResult<()> {
        if transaction.get_for_update(&self.definitions, key).sql()?.is_some() {
            return Err(taken());
        }
        self.put(transaction, key, &oid.to_le_bytes())
    }

    fn number_at(&self, transaction: &mut Transaction, key: &[u8]) -> SqlResult<Option<Oid>> {
        let value = self.get(transaction, key)?;
        value
            .map(|value| value.try_into().map(u32::from_le_bytes).map_err(|_| damaged("a number")))
            .transpose()
    }

    /// All rows whose keys begin with a prefix.
    fn rows(&self, transaction: &mut Transaction, prefix: &[u8]) -> SqlResult<Vec<(Vec<u8>, Vec<u8>)>> {
        self.rows_between(transaction, prefix, prefix)
    }

    /// All rows from those that begin with a prefix to those that begin with another one.
    fn rows_between(
        &self,
        transaction: &mut Transaction,
        first: &[u8],
        last: &[u8],
    ) -> SqlResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let end = rows::end_of(last);
        let scan = transaction.open_scan(&self.definitions, first..&end[..], Direction::Forward).sql()?;
        scan.map(EngineResult::sql).collect()
    }

    /// The relation of the schema with this number, from the definitions alone: `None` for those of the system as well.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn definition(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<Definition>> {
        let Some(bytes) = self.get(transaction, &rows::relation(oid))? else { return Ok(None) };
        self.decoded(transaction, oid, &bytes).map(Some)
    }

    /// As `definition`, in its newest version, which nobody else changes until the transaction ends.
    ///
    /// # Errors
    /// As `definition`, and those of a row lock.
    pub fn definition_to_change(
        &self,
        transaction: &mut Transaction,
        oid: Oid,
    ) -> SqlResult<Option<Definition>> {
        let key = rows::relation(oid);
        let Some(bytes) = transaction.get_for_update(&self.definitions, &key).sql()? else { return Ok(None) };
        match StoredRelation::decode(&bytes, |version| self.decoded.get(&version))? {
            StoredRelation::Index(table) => match self.definition_to_change(transaction, table)? {
                Some(Definition::Table(table)) => Ok(index_of(&table, oid)),
                _ => Ok(None),
            },
            _ => self.decoded(transaction, oid, &bytes).map(Some),
        }
    }

    fn decoded(&self, transaction: &mut Transaction, oid: Oid, bytes: &[u8]) -> SqlResult<Definition> {
        Ok(match StoredRelation::decode(bytes, |version| self.decoded.get(&version))? {
            StoredRelation::Table(table) => {
                self.decoded.insert(table.version, Arc::clone(&table));
                Definition::Table(table)
            }
            StoredRelation::View(view) => Definition::View(view),
            StoredRelation::Sequence(sequence) => Definition::Sequence(sequence),
            StoredRelation::Index(table) => match self.definition(transaction, table)? {
                Some(Definition::Table(table)) => index_of(&table, oid)
                    .ok_or_else(|| damaged("an index is not among those of its table"))?,
                _ => return Err(damaged("an index has no table")),
            },
        })
    }

    /// The number of the relation with this name in a schema that is not one of the system.
    ///
    /// # Errors
    /// What the engine says.
    pub fn relation_number(
        &self,
        transaction: &mut Transaction,
        namespace: Oid,
        name: &str,
    ) -> SqlResult<Option<Oid>> {
        self.number_at(transaction, &rows::relation_name(namespace, name))
    }

    /// The table, view or sequence with the smallest number above `after`.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn definition_after(
        &self,
        transaction: &mut Transaction,
        after: Oid,
    ) -> SqlResult<Option<Definition>> {
        let (from, end) = (rows::relation(after.saturating_add(1)), rows::relation(Oid::MAX));
        let mut scan =
            transaction.open_scan(&self.definitions, &from[..]..&end[..], Direction::Forward).sql()?;
        while let Some((key, bytes)) = scan.next_row().sql()? {
            let oid = rows::number_at_end(key).ok_or_else(|| damaged("the key of a definition"))?;
            match StoredRelation::decode(bytes, |version| self.decoded.get(&version))? {
                StoredRelation::Index(_) => {}
                _ => return self.decoded(transaction, oid, bytes).map(Some),
            }
        }
        Ok(None)
    }

    /// Writes a table with a new version, its indexes and constraints, in the place of `old`. The number of each stays its own; names
    /// that are new are taken.
    ///
    /// # Errors
    /// `42P07`: a name is taken; what the engine says.
    pub fn put_table(
        &self,
        transaction: &mut Transaction,
        table: Table,
        old: Option<&Table>,
    ) -> SqlResult<Arc<Table>> {
        let table = Arc::new(Table { version: self.new_version()?, ..table });
        self.put_name(
            transaction,
            (table.namespace, &table.name, table.oid),
            old.map(|old| (old.namespace, &old.name[..])),
        )?;
        self.put_indexes(transaction, &table, old)?;
        for gone in old.iter().flat_map(|old| &old.constraints) {
            if !table.constraints.iter().any(|constraint| constraint.oid == gone.oid) {
                self.delete(transaction, &rows::constraint(gone.oid))?;
            }
        }
        for constraint in &table.constraints {
            self.put(transaction, &rows::constraint(constraint.oid), &table.oid.to_le_bytes())?;
        }
        let bytes = StoredRelation::Table(Arc::clone(&table)).encode()?;
        self.put(transaction, &rows::relation(table.oid), &bytes)?;
        self.decoded.insert(table.version, Arc::clone(&table));
        Ok(table)
    }

    fn put_indexes(
        &self,
        transaction: &mut Transaction,
        table: &Table,
        old: Option<&Table>,
    ) -> SqlResult<()> {
        let old_indexes = old.map_or(&[][..], |old| &old.indexes);
        let namespace = old.map_or(table.namespace, |old| old.namespace);
        for gone in old_indexes.iter().filter(|old| !table.indexes.iter().any(|index| index.oid == old.oid)) {
            self.delete(transaction, &rows::relation_name(namespace, &gone.name))?;
            self.delete(transaction, &rows::relation(gone.oid))?;
        }
        for index in &table.indexes {
            let before = old_indexes.iter().find(|old| old.oid == index.oid);
            self.put_name(
                transaction,
                (table.namespace, &index.name, index.oid),
                before.map(|before| (namespace, &before.name[..])),
            )?;
            if before.is_none() {
                let bytes = StoredRelation::Index(table.oid).encode()?;
                self.put(transaction, &rows::relation(index.oid), &bytes)?;
            }
        }
        Ok(())
    }

    /// Gives a relation its name, and gives up the one that it had.
    fn put_name(
        &self,
        transaction: &mut Transaction,
        new: (Oid, &str, Oid),
        old: Option<(Oid, &str)>,
    ) -> SqlResult<()> {
        let (namespace, name, oid) = new;
        if old == Some((namespace, name)) {
            return Ok(());
        }
        if let Some((namespace, name)) = old {
            self.delete(transaction, &rows::relation_name(namespace, name))?;
        }
        let taken = || {
            let message = format!("relation \"{name}\" already exists");
            SqlError::new(SqlState::DUPLICATE_TABLE, message)
        };
        self.take_name(transaction, &rows::relation_name(namespace, name), oid, taken)
    }

    /// Writes a view in the place of `old`.
    ///
    /// # Errors
    /// As `put_table`.
    pub fn put_view(&self, transaction: &mut Transaction, view: View, old: Option<&View>) -> SqlResult<()> {
        let before = old.map(|old| (old.namespace, &old.name[..]));
        self.put_name(transaction, (view.namespace, &view.name, view.oid), before)?;
        let key = rows::relation(view.oid);
        self.put(transaction, &key, &StoredRelation::View(Arc::new(view)).encode()?)
    }

    /// Writes a sequence in the place of `old`.
    ///
    /// # Errors
    /// As `put_table`.
    pub fn put_sequence(
        &self,
        transaction: &mut Transaction,
        sequence: Sequence,
        old: Option<&Sequence>,
    ) -> SqlResult<()> {
        let before = old.map(|old| (old.namespace, &old.name[..]));
        self.put_name(transaction, (sequence.namespace, &sequence.name, sequence.oid), before)?;
        let key = rows::relation(sequence.oid);
        self.put(transaction, &key, &StoredRelation::Sequence(Arc::new(sequence)).encode()?)
    }

    /// Removes the rows of a relation: its definition, its name, its comments and what it depends on. A table's indexes and
    /// constraints go with it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_relation(&self, transaction: &mut Transaction, definition: &Definition) -> SqlResult<()> {
        let heading = crate::catalog::heading(definition);
        let (namespace, name) = (heading.namespace, heading.name.to_owned());
        let oid = crate::catalog::oid_of(definition);
        let mut gone = vec![oid];
        if let Definition::Table(table) = definition {
            for index in &table.indexes {
                gone.push(index.oid);
                self.delete(transaction, &rows::relation_name(namespace, &index.name))?;
                self.delete(transaction, &rows::relation(index.oid))?;
            }
            for constraint in &table.constraints {
                gone.push(constraint.oid);
                self.delete(transaction, &rows::constraint(constraint.oid))?;
            }
            self.remove_statistics(transaction, oid)?;
            self.monitor.relations.forget(oid);
        }
        self.remove_objects(transaction, &mut gone)?;
        self.delete(transaction, &rows::relation_name(namespace, &name))?;
        self.delete(transaction, &rows::relation(oid))
    }

    /// Numbers of all relations in a schema.
    ///
    /// # Errors
    /// What the engine says.
    pub fn relations_in(&self, transaction: &mut Transaction, namespace: Oid) -> SqlResult<Vec<Oid>> {
        let mut found = Vec::new();
        for (_, value) in self.rows(transaction, &rows::relation_names(namespace))? {
            found.push(value.try_into().map(u32::from_le_bytes).map_err(|_| damaged("a number"))?);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The number of the table that has this constraint.
    ///
    /// # Errors
    /// What the engine says.
    pub fn table_of_constraint(
        &self,
        transaction: &mut Transaction,
        constraint: Oid,
    ) -> SqlResult<Option<Oid>> {
        self.number_at(transaction, &rows::constraint(constraint))
    }
}

fn index_of(table: &Arc<Table>, oid: Oid) -> Option<Definition> {
    let index = table.indexes.iter().find(|index| index.oid == oid)?;
    Some(Definition::Index(Arc::clone(table), Arc::clone(index)))
}

/// Whether a schema is one of the system: nothing can be made in it, and its relations are those of `catalog`.
pub fn is_system_namespace(namespace: Oid) -> bool {
    namespace == PG_CATALOG || namespace == SEAWALL || namespace == crate::catalog::information_schema()
}

/// The index with this number.
pub fn find_index(table: &Table, oid: Oid) -> Option<&Arc<Index>> {
    table.indexes.iter().find(|index| index.oid == oid)
}

#[cfg(test)]
mod tests;
