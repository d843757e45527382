//! Looking at a row again that another transaction has changed: the relation that gave it, with the row's newest version.
//!
//! As in PostgreSQL's EvalPlanQual, the rows that it was joined with are those that it was joined with, and not looked for anew: their
//! columns are where the first look has left them.
//!
//! ```text
//!   Filter                       Filter                        s.* : from outside
//!     Join t.k = s.k      -->      Filter t.k = s.k
//!       Scan t   Scan s              Newest t
//! ```
//! What an outer join adds to the row that is looked at again is looked for again, since the join may have no row of it any more.

use seawall_values::SqlResult;

use super::access::scanned_table;
use super::planner::Planner;
use super::walk::{Columns, free, made};
use crate::algebra::{ColumnId, JoinKind, Relation};
use crate::execute::plan::PlanNode;

impl Planner<'_> {
    /// A relation with the newest version of one row in the place of a scan.
    pub(super) fn recheck(
        &mut self,
        relation: &Relation,
        needed: &Columns,
        row: ColumnId,
    ) -> SqlResult<PlanNode> {
        let before = self.newest.replace(row);
        let plan = self.lower(&pinned(relation, row), needed);
        self.newest = before;
        plan
    }
}

/// Columns of a relation that a recheck of the row takes from the first look.
pub(super) fn kept_for_recheck(relation: &Relation, row: ColumnId) -> Columns {
    let outside = free(&pinned(relation, row));
    made(relation).intersection(&outside).copied().collect()
}

/// The relation without those that the row was joined with.
fn pinned(relation: &Relation, row: ColumnId) -> Relation {
    let scans = |side: &Relation| scanned_table(side, row).is_some();
    let nothing = || Box::new(Relation::OneRow);
    match relation {
        Relation::Join { kind: JoinKind::Inner, left, right, condition } => {
            let side = if scans(left) { left } else { right };
            Relation::Filter { input: Box::new(pinned(side, row)), predicate: condition.clone() }
        }
        Relation::Join { kind, left, right, condition } => {
            let (left, right) = match (scans(left), scans(right), kind) {
                (true, _, JoinKind::Right) => (Box::new(pinned(left, row)), nothing()),
                (_, true, JoinKind::Left) => (nothing(), Box::new(pinned(right, row))),
                (true, ..) => (Box::new(pinned(left, row)), right.clone()),
                _ => (left.clone(), Box::new(pinned(right, row))),
            };
            Relation::Join { kind: *kind, left, right, condition: condition.clone() }
        }
        Relation::Scan(_) => relation.clone(),
        _ => {
            let mut changed = relation.clone();
            if let Some(input) = input_of(&mut changed)
                && scans(input)
            {
                **input = pinned(input, row);
            }
            changed
        }
    }
}

/// The relation that another one takes its rows from, if it is one.
fn input_of(relation: &mut Relation) -> Option<&mut Box<Relation>> {
    match relation {
        Relation::Filter { input, .. }
        | Relation::Compute { input, .. }
        | Relation::ComputeSets { input, .. }
        | Relation::Aggregate { input, .. }
        | Relation::Window { input, .. }
        | Relation::Sort { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. }
        | Relation::Lock { input, .. } => Some(input),
        Relation::With { body, .. } => Some(body),
        Relation::OneRow
        | Relation::Scan(_)
        | Relation::System { .. }
        | Relation::Values { .. }
        | Relation::Functions { .. }
        | Relation::CommonTable { .. }
        | Relation::Join { .. }
        | Relation::SetOperation { .. }
        | Relation::Change(_) => None,
    }
}
