//! The state of one planning: slots, subqueries and common tables so far.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference};

use super::walk::Columns;
use crate::algebra::{ColumnId, CommonTableId, SortKey};
use crate::execute::plan::{CommonTablePlan, PlanKind, PlanNode, SubqueryPlan};
use crate::execute::{Key, Statistics, is_padded};
use crate::schema::Table;
use crate::schema::statistics::TableStatistics;

/// How deep expressions and relations may be nested: planning and evaluation recurse as deep.
pub(super) const DEPTH_MAX: usize = 500;

/// `54001`.
#[cold]
pub(super) fn too_deep() -> Box<SqlError> {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint("Write the statement with less nesting.")
}

/// Where the rows of a common table are.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTable {
    pub(super) number: usize,
    pub(super) rows: f64,
    /// Its recursive part is being planned: a use of it reads the last round.
    pub(super) is_open: bool,
    /// Its rows are others for other outer rows, or for another round of a recursive table.
    pub(super) is_correlated: bool,
}

pub(super) struct Planner<'s> {
    pub(super) statistics: &'s mut dyn Statistics,
    slots: FxHashMap<ColumnId, usize>,
    pub(super) types: FxHashMap<ColumnId, TypeReference>,
    /// Columns of tables, by position.
    pub(super) origins: FxHashMap<ColumnId, (Arc<Table>, usize)>,
    /// Statistics that were looked up, by the number of the table.
    pub(super) known_statistics: FxHashMap<Oid, Option<Arc<TableStatistics>>>,
    pub(super) names: Vec<String>,
    /// Rows of tables of which nothing else is known, by the number of the table.
    pub(super) estimated_rows: FxHashMap<Oid, f64>,
    pub(super) subqueries: Vec<Arc<SubqueryPlan>>,
    pub(super) tables: Vec<Option<Arc<CommonTablePlan>>>,
    pub(super) known_tables: FxHashMap<CommonTableId, KnownTable>,
    /// The scan, by the column of its rows' identity, that is planned as the newest version of one row.
    pub(super) newest: Option<ColumnId>,
    pub(super) nodes: usize,
    depth: usize,
}

/// What is expected of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) rows: f64,
    pub(super) startup: f64,
    pub(super) cost: f64,
}

impl<'s> Planner<'s> {
    pub(super) fn new(statistics: &'s mut dyn Statistics) -> Planner<'s> {
        Planner {
            statistics,
            slots: FxHashMap::default(),
            types: FxHashMap::default(),
            origins: FxHashMap::default(),
            known_statistics: FxHashMap::default(),
            estimated_rows: FxHashMap::default(),
            names: Vec::new(),
            subqueries: Vec::new(),
            tables: Vec::new(),
            known_tables: FxHashMap::default(),
            newest: None,
            nodes: 0,
            depth: 0,
        }
    }

    /// Does a part of the planning one level deeper.
    pub(super) fn deeper<T>(&mut self, work: impl FnOnce(&mut Planner<'s>) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    pub(super) fn slot_count(&self) -> usize {
        self.names.len()
    }

    /// The slot of a column.
    pub(super) fn slot(&mut self, column: ColumnId) -> usize {
        match self.slots.get(&column) {
            Some(slot) => *slot,
            None => {
                let slot = self.names.len();
                self.names.push(format!("column{}", column.0));
                self.slots.insert(column, slot);
                slot
            }
        }
    }

    /// The slots of columns.
    pub(super) fn slots(&mut self, columns: impl IntoIterator<Item = ColumnId>) -> Vec<usize> {
        columns.into_iter().map(|column| self.slot(column)).collect()
    }

    /// The slots of a set of columns, in order.
    pub(super) fn slots_of(&mut self, columns: &Columns) -> Vec<usize> {
        let mut sorted: Vec<ColumnId> = columns.iter().copied().collect();
        sorted.sort_unstable();
        self.slots(sorted)
    }

    /// Slots one after the other for the columns of a scan; the first of them. `Err`: some have others already.
    pub(super) fn contiguous(&mut self, columns: &[ColumnId]) -> Result<usize, usize> {
        let base = match columns.first().and_then(|column| self.slots.get(column)) {
            Some(base) => *base,
            None => self.names.len(),
        };
        let has_place = columns.iter().enumerate().all(|(position, column)| {
            self.slots.get(column).map_or(base == self.names.len(), |slot| *slot == base + position)
        });
        if has_place {
            for column in columns {
                self.slot(*column);
            }
            return Ok(base);
        }
        let base = self.names.len();
        for column in columns {
            self.names.push(format!("column{}", column.0));
        }
        Err(base)
    }

    pub(super) fn name(&mut self, column: ColumnId, name: &str) {
        let slot = self.slot(column);
        self.names[slot].clear();
        self.names[slot].push_str(name);
    }

    pub(super) fn type_of(&self, column: ColumnId) -> Oid {
        self.types.get(&column).map_or(seawall_values::oid::UNKNOWN, |of| of.oid)
    }

    pub(super) fn key(&mut self, key: &SortKey) -> Key {
        Key {
            at: self.slot(key.column),
            is_descending: key.is_descending,
            is_nulls_first: key.is_nulls_first,
            is_padded: is_padded(key.of.oid),
        }
    }

    pub(super) fn keys(&mut self, keys: &[SortKey]) -> Vec<Key> {
        keys.iter().map(|key| self.key(key)).collect()
    }

    /// A node.
    pub(super) fn node(
        &mut self,
        kind: PlanKind,
        estimate: Estimate,
        width: usize,
        is_correlated: bool,
    ) -> PlanNode {
        let number = self.nodes;
        self.nodes += 1;
        PlanNode {
            kind,
            number,
            rows: estimate.rows.max(0.0),
            startup: estimate.startup,
            cost: estimate.cost,
            width,
            is_correlated,
        }
    }
}
