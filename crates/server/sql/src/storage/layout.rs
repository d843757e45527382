//! What statements need of a table to read and change its rows, put together once for each version of its definition.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_engine::Transaction;
use seawall_types::Lsn;
use seawall_values::{Oid, SqlResult};

use crate::monitor::relations::RelationCounters;
use crate::schema::store::SchemaStore;
use crate::schema::{ConstraintKind, Table};
use crate::storage::index_entry::IndexLayout;
use crate::storage::row::{RowLayout, RowReader};

/// Shapes that a session keeps.
const SHAPES_MAX: usize = 256;
/// Layouts that it keeps: prepared statements come back with the moment that they were planned from, others never do.
const LAYOUTS_MAX: usize = 64;

/// How the rows and index entries of a table are stored.
#[derive(Debug)]
pub(crate) struct TableShape {
    pub(crate) table: Arc<Table>,
    pub(crate) rows: RowLayout,
    pub(crate) whole: RowReader,
    /// Indexes with entries of their own.
    pub(crate) indexes: Vec<IndexLayout>,
    /// Whether a foreign key of the table refers to others.
    pub(crate) has_foreign_keys: bool,
    /// Foreign keys of other tables, or of this one, that refer to it: their table and their number.
    pub(crate) referring: Vec<(Oid, Oid)>,
    /// Rows without a primary key are numbered.
    pub(crate) numbers: Option<Arc<RowNumbers>>,
}

/// A shape with handles of the engine's tables, for statements that were planned from one moment.
#[derive(Clone, Debug)]
pub(crate) struct TableLayout {
    pub(crate) shape: Arc<TableShape>,
    pub(crate) handle: seawall_engine::Table,
    /// As `TableShape::indexes`.
    pub(crate) index_handles: Vec<seawall_engine::Table>,
    pub(crate) counters: Arc<RelationCounters>,
    /// As `TableShape::indexes`.
    pub(crate) index_counters: Vec<Arc<RelationCounters>>,
    /// Of the index of the primary key that rows are stored under.
    pub(crate) row_key_counters: Option<Arc<RelationCounters>>,
}

/// Numbers for the rows of one table, taken in blocks.
#[derive(Debug, Default)]
pub(crate) struct RowNumbers(Mutex<std::ops::Range<u64>>);

impl RowNumbers {
    /// A number that no row of the table has or had.
    pub(crate) fn next(&self, store: &SchemaStore, storage: &str) -> SqlResult<u64> {
        let mut block = self.0.lock();
        if let Some(next) = block.next() {
            return Ok(next);
        }
        *block = store.new_row_numbers(storage)?;
        Ok(block.next().unwrap_or(u64::MAX))
    }
}

impl TableShape {
    fn new(store: &SchemaStore, transaction: &mut Transaction, table: &Arc<Table>) -> SqlResult<TableShape> {
        let rows = RowLayout::of(table);
        let stored = table.indexes.iter().filter(|index| index.storage.is_some());
        let is_foreign = |kind: &ConstraintKind| matches!(kind, ConstraintKind::ForeignKey(_));
        let mut referring = Vec::new();
        for dependent in store.dependents(transaction, table.oid)? {
            if let Some(child) = store.table_of_constraint(transaction, dependent.oid)? {
                referring.push((child, dependent.oid));
            }
        }
        referring.sort_unstable();
        referring.dedup();
        Ok(TableShape {
            table: Arc::clone(table),
            whole: rows.whole_reader(),
            indexes: stored.map(|index| IndexLayout::of(table, index)).collect(),
            has_foreign_keys: table.constraints.iter().any(|constraint| is_foreign(&constraint.kind)),
            referring,
            numbers: rows.is_numbered().then(|| store.row_numbers(&table.storage)),
            rows,
        })
    }
}

impl TableLayout {
    fn new(
        store: &SchemaStore,
        transaction: &mut Transaction,
        shape: Arc<TableShape>,
        as_of: Lsn,
    ) -> SqlResult<TableLayout> {
        let handle = store.engine_table(transaction, &shape.table.storage, as_of)?;
        let stored = shape.indexes.iter().filter_map(|layout| layout.index.storage.as_deref());
        let index_handles =
            stored.map(|name| store.engine_table(transaction, name, as_of)).collect::<SqlResult<_>>()?;
        let relations = &store.monitor.relations;
        let row_key = shape.table.indexes.iter().find(|index| index.is_primary && index.storage.is_none());
        Ok(TableLayout {
            counters: relations.of(shape.table.oid),
            index_counters: shape.indexes.iter().map(|layout| relations.of(layout.index.oid)).collect(),
            row_key_counters: row_key.map(|index| relations.of(index.oid)),
            shape,
            handle,
            index_handles,
        })
    }
}

/// Shapes by the version of their table, and layouts of these by the moment that statements were planned from.
#[derive(Debug, Default)]
pub(crate) struct LayoutCache {
    shapes: FxHashMap<u64, Arc<TableShape>>,
    layouts: FxHashMap<(u64, Lsn), Arc<TableLayout>>,
}

impl LayoutCache {
    /// The layout of a table, for a statement that was planned from `as_of`.
    pub(crate) fn get(
        &mut self,
        store: &SchemaStore,
        transaction: &mut Transaction,
        table: &Arc<Table>,
        as_of: Lsn,
    ) -> SqlResult<Arc<TableLayout>> {
        if let Some(layout) = self.layouts.get(&(table.version, as_of)) {
            return Ok(Arc::clone(layout));
        }
        let shape = match self.shapes.get(&table.version) {
            Some(shape) => Arc::clone(shape),
            None => {
                let shape = Arc::new(TableShape::new(store, transaction, table)?);
                if self.shapes.len() >= SHAPES_MAX {
                    self.shapes.clear();
                }
                self.shapes.insert(table.version, Arc::clone(&shape));
                shape
            }
        };
        let layout = Arc::new(TableLayout::new(store, transaction, shape, as_of)?);
        if self.layouts.len() >= LAYOUTS_MAX {
            self.layouts.clear();
        }
        self.layouts.insert((table.version, as_of), Arc::clone(&layout));
        Ok(layout)
    }

    /// Forgets all, as after the rollback of a transaction that has made tables.
    pub(crate) fn clear(&mut self) {
        self.shapes.clear();
        self.layouts.clear();
    }
}
