//! Plans of queries: access by keys and indexes, order of joins, decorrelation.
//!
//! ```text
//!   Query --rewrite--> the same relation, with predicates near the scans --lower--> Plan
//!                                                                            |
//!                        access (keys, indexes), joins (order, method), compile (expressions over slots)
//! ```
//! * `rewrite` gives algebra again: each of its steps keeps the rows.
//! * `planner` has the state of one planning; `lower`, `groups`, `changes`, `joins`, `access` and `order` make nodes.
//! * `recheck`: the same relation again for a row that has changed.
//! * `selectivity`: how many rows are expected, by the statistics of `ANALYZE`.
//! * `walk` says which columns a relation makes and uses.

mod access;
mod changes;
mod compile;
mod extremes;
mod groups;
mod joins;
mod lower;
mod order;
mod planner;
mod recheck;
mod rewrite;
mod selectivity;
pub(crate) mod walk;

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult};

use crate::algebra::Query;
use crate::execute::{Plan, Statistics};
use planner::Planner;

pub(crate) use walk::used as used_columns;

/// The plan of a query, for any number of executions with any parameters.
///
/// # Errors
/// `0A000`: a function that is not there, by its name; `54001`: it is too deep.
pub fn plan(query: &Query, statistics: &mut dyn Statistics) -> SqlResult<Arc<Plan>> {
    if crate::algebra::walk::is_deeper(&query.relation, planner::DEPTH_MAX) {
        return Err(planner::too_deep());
    }
    let relation = rewrite::rewrite(query.relation.clone());
    let mut planner = Planner::new(statistics);
    let needed = query.output.iter().map(|output| output.column).collect();
    let root = planner.lower(&relation, &needed)?;
    let output_slots = planner.slots(query.output.iter().map(|output| output.column));
    let tables = planner
        .tables
        .iter()
        .map(|table| table.clone().ok_or_else(|| SqlError::internal("a common table was not planned")))
        .collect::<SqlResult<_>>()?;
    Ok(Arc::new(Plan {
        root,
        slots: planner.slot_count(),
        subqueries: std::mem::take(&mut planner.subqueries),
        tables,
        output: query.output.clone(),
        output_slots,
        parameters: query.parameters.clone(),
        nodes: planner.nodes,
        names: std::mem::take(&mut planner.names),
    }))
}
