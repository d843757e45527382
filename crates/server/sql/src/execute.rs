//! Rows, pulled one by one from a plan.
//!
//! ```text
//!   Plan (immutable, shared) --Execution::open--> nodes + one row of slots --next(environment)--> row, row, ..
//! ```
//! * An execution owns all that it needs between two calls, so a portal can be suspended at any row. What belongs to the session (tables,
//!   settings, the cancel flag) comes with each call as an `Environment`.
//! * All nodes share one row: each column of the algebra has a slot. See `context`.
//! * A node that keeps rows counts them in `memory`; above `work_memory` it spills them to a temporary file.
//!
//! Start at `Execution` and `node`. `storage` is the face of everything outside.

mod aggregate;
mod chains;
pub(crate) mod change;
mod common_table;
mod compare;
mod context;
mod distinct;
pub(crate) mod explain;
pub(crate) mod expression;
mod filter;
mod functions;
mod groups;
mod hash_join;
mod limit;
mod lock;
mod memory;
mod nested_loop;
mod node;
pub(crate) mod object_names;
pub(crate) mod plan;
mod scan;
mod set_operation;
mod sort;
mod spill;
mod storage;
mod subquery;
#[cfg(test)]
mod testing;
mod values;
mod window;

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

pub(crate) use compare::{Key, compare, is_padded};
pub use context::Environment;
pub(crate) use context::{Context, cancelled};
pub use explain::{ExplainOptions, explain, explain_json};
pub(crate) use groups::Groups;
pub use memory::{Limits, MemoryBudget};
pub(crate) use memory::{Reservation, values_bytes};
pub use plan::Plan;
pub(crate) use spill::KeptRows;
pub use spill::TemporaryFiles;
pub use storage::{
    Inserted, KeyBound, KeyRange, Locked, NoStatistics, OnConflict, ScanRequest, Statistics, Storage,
    TableScan,
};

#[cfg(test)]
pub(crate) use testing::NoStorage;

use common_table::CommonTables;
use context::State;
use memory::Memory;
use node::Node;

/// Whether an execution counts what its nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// No.
    Off,
    /// Rows and runs of each node, for `EXPLAIN ANALYZE`.
    Rows,
}

/// A plan under way.
pub struct Execution {
    plan: Arc<Plan>,
    root: Box<dyn Node>,
    row: Box<[Datum]>,
    state: State,
    is_done: bool,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Execution").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

// A portal is kept between messages, by whichever thread serves them.
const _: () = assert_send::<Execution>();

const fn assert_send<T: Send>() {}

impl Execution {
    /// Opens a plan with parameters of its types. Nothing is read before the first `next`.
    pub fn open(plan: Arc<Plan>, parameters: Vec<Datum>, limits: Limits, counting: Counting) -> Execution {
        let counters = if counting == Counting::Rows { plan.nodes } else { 0 };
        let tables = CommonTables::new(&plan.tables);
        let state = State::new(parameters, &plan, tables, Memory::new(limits), counters);
        let root = node::open(&plan.root, counting);
        let row = vec![Datum::Null; plan.slots].into_boxed_slice();
        Execution { plan, root, row, state, is_done: false }
    }

    /// Moves to the next row. `false`: there is none; changes are all made.
    ///
    /// # Errors
    /// Those of the statement; nothing can be pulled after one.
    pub fn next(&mut self, environment: &mut Environment<'_>) -> SqlResult<bool> {
        if self.is_done {
            return Ok(false);
        }
        let mut context = Context {
            row: &mut self.row,
            state: &mut self.state,
            storage: &mut *environment.storage,
            settings: environment.settings,
            cancel: environment.cancel,
        };
        let outcome = self.root.next(&mut context);
        self.is_done = !matches!(outcome, Ok(true));
        outcome
    }

    /// Parameters, to give other ones to `change_again`.
    pub(crate) fn parameters_mut(&mut self) -> &mut Vec<Datum> {
        &mut self.state.parameters
    }

    /// Makes a change without `RETURNING` once more, with the parameters as they are now; how many rows it changes.
    pub(crate) fn change_again(&mut self, environment: &mut Environment<'_>) -> SqlResult<u64> {
        let mut context = Context {
            row: &mut self.row,
            state: &mut self.state,
            storage: &mut *environment.storage,
            settings: environment.settings,
            cancel: environment.cancel,
        };
        self.root.begin_anew(&mut context)?;
        self.is_done = true;
        self.root.next(&mut context)?;
        Ok(self.state.rows_changed)
    }

    /// Opens its scans: what the transaction changes from now on is not in its rows.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn prepare(&mut self, environment: &mut Environment<'_>) -> SqlResult<()> {
        let mut context = Context {
            row: &mut self.row,
            state: &mut self.state,
            storage: &mut *environment.storage,
            settings: environment.settings,
            cancel: environment.cancel,
        };
        self.root.prepare(&mut context)
    }

    /// Lets go of all that it has open: there are no more rows.
    pub fn close(&mut self) {
        self.root = node::ended();
        self.state.end();
        self.is_done = true;
    }

    /// A value of the current row, by its position in the plan's output.
    pub fn value(&self, position: usize) -> &Datum {
        &self.row[self.plan.output_slots[position]]
    }

    /// The values of the current row.
    pub fn values(&self) -> impl Iterator<Item = &Datum> {
        self.plan.output_slots.iter().map(|&slot| &self.row[slot])
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// How many rows the outermost change has inserted, updated or deleted: the number of the command's tag.
    pub fn rows_changed(&self) -> u64 {
        self.state.rows_changed
    }

    /// The most memory that it has had, in bytes.
    pub fn peak_memory(&self) -> usize {
        self.state.memory.peak()
    }

    pub(crate) fn counters(&self) -> &[explain::Counter] {
        &self.state.counters
    }
}
