//! Cursors that are neither `SCROLL` nor `NO SCROLL`.

use crate::algebra::SetOperator;
use crate::execute::Plan;
use crate::execute::plan::{PlanKind, PlanNode};

/// Whether PostgreSQL lets a cursor go back that does not say so: with plans that it could run backward.
pub(super) fn goes_backward(plan: &Plan) -> bool {
    node_goes_backward(&plan.root)
}

fn node_goes_backward(node: &PlanNode) -> bool {
    match &node.kind {
        PlanKind::Scan(_)
        | PlanKind::Lookup(_)
        | PlanKind::System(_)
        | PlanKind::Values(_)
        | PlanKind::Functions(_)
        | PlanKind::CommonTable(_)
        | PlanKind::Materialize(_)
        | PlanKind::Sort(_) => true,
        PlanKind::Filter(plan) => node_goes_backward(&plan.input),
        PlanKind::Compute(plan) => node_goes_backward(&plan.input),
        PlanKind::Limit(plan) => node_goes_backward(&plan.input),
        PlanKind::With(plan) => node_goes_backward(&plan.body),
        PlanKind::SetOperation(plan) => {
            plan.operator == SetOperator::Union
                && plan.is_all
                && node_goes_backward(&plan.left)
                && node_goes_backward(&plan.right)
        }
        PlanKind::OneRow
        | PlanKind::Nothing
        | PlanKind::Newest(_)
        | PlanKind::ComputeSets(_)
        | PlanKind::NestedLoop(_)
        | PlanKind::HashJoin(_)
        | PlanKind::Aggregate(_)
        | PlanKind::Window(_)
        | PlanKind::Distinct(_)
        | PlanKind::Lock(_)
        | PlanKind::Change(_) => false,
    }
}
