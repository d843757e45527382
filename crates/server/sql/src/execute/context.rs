//! What nodes and expressions work with: the row of the statement, its parameters, and the outside world.

use seawall_engine::CancelToken;
use seawall_values::{Datum, Settings, SqlError, SqlResult, SqlState};

use super::common_table::CommonTables;
use super::memory::Memory;
use super::plan::Plan;
use super::storage::Storage;
use super::subquery::SubqueryState;

/// What a pull of rows borrows from the session.
pub struct Environment<'a> {
    /// Tables and functions of the session.
    pub storage: &'a mut dyn Storage,
    /// What functions of types depend on.
    pub settings: &'a Settings,
    /// Set from another thread: the statement ends with `57014`.
    pub cancel: &'a CancelToken,
}

/// What an execution keeps between pulls, apart from its nodes and its row.
pub(crate) struct State {
    pub(crate) parameters: Vec<Datum>,
    pub(crate) subqueries: Vec<Option<Box<SubqueryState>>>,
    pub(crate) tables: CommonTables,
    pub(crate) memory: Memory,
    pub(crate) counters: Vec<super::explain::Counter>,
    pub(crate) rows_changed: u64,
    ticks: u32,
}

impl State {
    pub(crate) fn new(
        parameters: Vec<Datum>,
        plan: &Plan,
        tables: CommonTables,
        memory: Memory,
        counters: usize,
    ) -> State {
        let counters = vec![super::explain::Counter::default(); counters];
        let subqueries =
            plan.subqueries.iter().map(|plan| Some(Box::new(SubqueryState::new(plan)))).collect();
        State { parameters, subqueries, tables, memory, counters, rows_changed: 0, ticks: 0 }
    }

    /// Lets go of what is kept: nothing is pulled any more.
    pub(crate) fn end(&mut self) {
        self.subqueries.clear();
        self.tables = CommonTables::new(&[]);
        self.memory.clear();
    }
}

/// What nodes and expressions work with.
///
/// There is one row for the whole statement: each column of the algebra has a slot in it, and each node writes the slots of the columns
/// that it makes. So a join copies nothing, and a correlated query finds the outer columns where they are. A node that keeps rows (sort,
/// hash table) copies out the slots that are needed above, and back.
pub(crate) struct Context<'a> {
    pub(crate) row: &'a mut [Datum],
    pub(crate) state: &'a mut State,
    pub(crate) storage: &'a mut dyn Storage,
    pub(crate) settings: &'a Settings,
    pub(crate) cancel: &'a CancelToken,
}

/// How many rows pass between two looks at the cancel flag.
const TICKS: u32 = 256;

impl Context<'_> {
    /// Counts a row, and looks now and then whether the statement was cancelled.
    #[inline]
    pub(crate) fn tick(&mut self) -> SqlResult<()> {
        self.state.ticks = self.state.ticks.wrapping_add(1);
        if self.state.ticks.is_multiple_of(TICKS) { self.check_cancelled() } else { Ok(()) }
    }

    /// Fails if the statement was cancelled.
    pub(crate) fn check_cancelled(&self) -> SqlResult<()> {
        if self.cancel.is_requested() {
            return Err(cancelled());
        }
        Ok(())
    }

    /// Copies slots out of the row.
    pub(crate) fn save(&self, slots: &[usize], to: &mut Vec<Datum>) {
        to.extend(slots.iter().map(|&slot| self.row[slot].clone()));
    }

    /// Moves values into slots of the row.
    pub(crate) fn restore(&mut self, slots: &[usize], values: impl IntoIterator<Item = Datum>) {
        for (&slot, value) in slots.iter().zip(values) {
            self.row[slot] = value;
        }
    }

    /// Copies values into slots of the row.
    pub(crate) fn load(&mut self, slots: &[usize], values: &[Datum]) {
        for (&slot, value) in slots.iter().zip(values) {
            self.row[slot].clone_from(value);
        }
    }

    /// Makes slots null.
    pub(crate) fn clear(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.row[slot] = Datum::Null;
        }
    }
}

#[cold]
pub(crate) fn cancelled() -> Box<SqlError> {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}
