//! What all nodes have in common, and how they are opened from a plan.

use seawall_values::SqlResult;

use super::context::Context;
use super::plan::{PlanKind, PlanNode};
use super::{
    Counting, aggregate, change, common_table, distinct, explain, filter, functions, hash_join, limit, lock,
    nested_loop, scan, set_operation, sort, values, window,
};

/// A node of an execution.
pub(crate) trait Node: Send {
    /// Writes the next row to its slots. `false`: there is no more, and its slots may have any values.
    ///
    /// # Errors
    /// Those of the statement.
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool>;

    /// Opens the scans that depend on nothing outside, so that they do not see what the statement changes from now on.
    ///
    /// # Errors
    /// Those of the storage.
    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()>;

    /// Goes back to before the first row. Slots that it reads from outside may have other values than before.
    ///
    /// # Errors
    /// Those of the statement.
    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()>;

    /// Begins anew with other parameters: a change is made once more.
    ///
    /// # Errors
    /// Those of the statement.
    fn begin_anew(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.rewind(context)
    }
}

/// Opens a node and all below it.
pub(crate) fn open(plan: &PlanNode, counting: Counting) -> Box<dyn Node> {
    let node = open_kind(plan, counting);
    match counting {
        Counting::Off => node,
        Counting::Rows => Box::new(explain::Counted::new(node, plan.number)),
    }
}

/// A node without rows.
pub(crate) fn ended() -> Box<dyn Node> {
    Box::new(values::OneRow::new(false))
}

fn open_kind(plan: &PlanNode, counting: Counting) -> Box<dyn Node> {
    match &plan.kind {
        PlanKind::OneRow => Box::new(values::OneRow::new(true)),
        PlanKind::Nothing => Box::new(values::OneRow::new(false)),
        PlanKind::Scan(plan) => Box::new(scan::Scan::new(plan)),
        PlanKind::Lookup(plan) => Box::new(scan::Lookup::new(plan)),
        PlanKind::Newest(plan) => Box::new(scan::Newest::new(plan)),
        PlanKind::System(plan) => Box::new(scan::System::new(plan)),
        PlanKind::Values(plan) => Box::new(values::Values::new(plan)),
        PlanKind::Functions(plan) => Box::new(functions::Functions::new(plan)),
        PlanKind::Filter(plan) => Box::new(filter::Filter::new(plan, counting)),
        PlanKind::Compute(plan) => Box::new(filter::Compute::new(plan, counting)),
        PlanKind::ComputeSets(plan) => Box::new(functions::ComputeSets::new(plan, counting)),
        PlanKind::NestedLoop(plan) => Box::new(nested_loop::NestedLoop::new(plan, counting)),
        PlanKind::HashJoin(plan) => Box::new(hash_join::HashJoin::new(plan, counting)),
        PlanKind::Materialize(plan) => Box::new(common_table::Materialize::new(plan, counting)),
        PlanKind::Aggregate(plan) => Box::new(aggregate::Aggregate::new(plan, counting)),
        PlanKind::Window(plan) => Box::new(window::Window::new(plan, counting)),
        PlanKind::Sort(plan) => Box::new(sort::Sort::new(plan, counting)),
        PlanKind::Limit(plan) => Box::new(limit::Limit::new(plan, counting)),
        PlanKind::Distinct(plan) => Box::new(distinct::Distinct::new(plan, counting)),
        PlanKind::SetOperation(plan) => set_operation::open(plan, counting),
        PlanKind::With(plan) => Box::new(common_table::With::new(plan, counting)),
        PlanKind::CommonTable(plan) => Box::new(common_table::Use::new(plan)),
        PlanKind::Lock(plan) => Box::new(lock::Lock::new(plan, counting)),
        PlanKind::Change(plan) => Box::new(change::Change::new(plan, counting)),
    }
}
