//! Relations in an order that a key or an index gives without a sort.

use seawall_values::SqlResult;

use super::lower::{conjuncts, with_used};
use super::planner::Planner;
use super::walk::Columns;
use crate::algebra::{ColumnId, Expression, ExpressionKind, Relation, SortKey};
use crate::execute::plan::PlanNode;

/// The scan below filters and computed values, if there is nothing else in between.
fn is_simple(relation: &Relation) -> bool {
    match relation {
        Relation::Scan(_) => true,
        Relation::Filter { input, .. } | Relation::Compute { input, .. } => is_simple(input),
        _ => false,
    }
}

/// The keys below computed values: those that are just other names are followed. `None`: one is really computed.
fn keys_below(keys: &[SortKey], values: &[(ColumnId, Expression)]) -> Option<Vec<SortKey>> {
    keys.iter()
        .map(|key| match values.iter().find(|(column, _)| *column == key.column) {
            None => Some(*key),
            Some((_, Expression { kind: ExpressionKind::Column(column), .. })) => {
                Some(SortKey { column: *column, ..*key })
            }
            Some(_) => None,
        })
        .collect()
}

impl Planner<'_> {
    /// The node of a relation, and whether its rows come in this order by themselves.
    pub(super) fn lower_ordered(
        &mut self,
        relation: &Relation,
        keys: &[SortKey],
        is_limited: bool,
        needed: &Columns,
    ) -> SqlResult<(PlanNode, bool)> {
        if !is_simple(relation) {
            return Ok((self.lower(relation, needed)?, false));
        }
        match relation {
            Relation::Scan(scan) => self.lower_ordered_scan(scan, &[], needed, Some((keys, is_limited))),
            Relation::Filter { input, predicate } => {
                let conditions = conjuncts(predicate);
                if let Relation::Scan(scan) = &**input {
                    let order = Some((keys, is_limited));
                    return self.lower_ordered_scan(scan, &conditions, needed, order);
                }
                let needed = with_used(needed, [predicate]);
                let (plan, is_ordered) = self.lower_ordered(input, keys, is_limited, &needed)?;
                let made = super::walk::made(input);
                Ok((self.filtered(plan, &conditions, &made)?, is_ordered))
            }
            Relation::Compute { input, values } => {
                let Some(keys) = keys_below(keys, values) else {
                    return Ok((self.lower(relation, needed)?, false));
                };
                let is_correlated = self.is_correlated(relation);
                self.lower_ordered_compute(input, values, &keys, is_limited, needed, is_correlated)
            }
            _ => Ok((self.lower(relation, needed)?, false)),
        }
    }

    fn lower_ordered_compute(
        &mut self,
        input: &Relation,
        values: &[(ColumnId, Expression)],
        keys: &[SortKey],
        is_limited: bool,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<(PlanNode, bool)> {
        let values = self.computed(values, needed);
        let needed = with_used(needed, values.iter().map(|(_, value)| value));
        let (plan, is_ordered) = self.lower_ordered(input, keys, is_limited, &needed)?;
        Ok((self.compute(plan, &values, is_correlated)?, is_ordered))
    }
}
