//! `min` and `max` of a column that a key or an index orders by: the first row in that order.

use seawall_values::{Datum, TypeReference, oid};

use super::lower::conjuncts;
use super::planner::Planner;
use super::walk::made;
use crate::algebra::{
    Aggregation, ColumnId, Expression, ExpressionKind, Relation, Scan, SortKey, Subquery, SubqueryKind,
};

/// The scan below conditions, and the conditions.
fn scanned(input: &Relation) -> Option<(&Scan, Vec<&Expression>)> {
    match input {
        Relation::Scan(scan) => Some((scan, Vec::new())),
        Relation::Filter { input, predicate } => {
            let (scan, mut conditions) = scanned(input)?;
            conditions.extend(conjuncts(predicate));
            Some((scan, conditions))
        }
        _ => None,
    }
}

/// The column of a `min` or `max`, and whether it is `max`.
fn extreme(call: &Aggregation) -> Option<(ColumnId, TypeReference, bool)> {
    let is_plain = call.filter.is_none() && call.order.is_empty();
    let is_max = match call.function.name.as_str() {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    match &call.arguments[..] {
        [Expression { kind: ExpressionKind::Column(column), of, .. }] if is_plain => {
            Some((*column, *of, is_max))
        }
        _ => None,
    }
}

impl Planner<'_> {
    /// An aggregation without groups as subqueries that read one row each, if keys or indexes give the order for all of them.
    pub(super) fn extremes(
        &mut self,
        input: &Relation,
        aggregates: &[(ColumnId, Aggregation)],
    ) -> Option<Relation> {
        let (scan, conditions) = scanned(input)?;
        if aggregates.is_empty() {
            return None;
        }
        let scan_made = made(&Relation::Scan(scan.clone()));
        let mut values = Vec::with_capacity(aggregates.len());
        for (result, call) in aggregates {
            let (column, of, is_max) = extreme(call)?;
            let position = scan.columns.iter().find(|(_, known)| *known == column)?.0;
            let key = SortKey { column, of, is_descending: is_max, is_nulls_first: is_max };
            let not_null = Expression {
                kind: ExpressionKind::IsNotNull(Box::new(Expression {
                    kind: ExpressionKind::Column(column),
                    of,
                    position: None,
                })),
                of: TypeReference::of(oid::BOOL),
                position: None,
            };
            if !self.gives_order(scan, &conditions, &scan_made, &[key]) {
                return None;
            }
            let input = match scan.table.columns[position].is_not_null {
                true => input.clone(),
                false => with_condition(input, not_null),
            };
            let sorted = Relation::Sort { input: Box::new(input), keys: vec![key] };
            let first = Relation::Limit {
                input: Box::new(sorted),
                count: Some(Expression {
                    kind: ExpressionKind::Constant(Datum::Int8(1)),
                    of: TypeReference::of(oid::INT8),
                    position: None,
                }),
                offset: None,
                with_ties: None,
            };
            let subquery = Subquery { kind: SubqueryKind::Scalar, relation: first, columns: vec![column] };
            let kind = ExpressionKind::Subquery(Box::new(subquery));
            values.push((*result, Expression { kind, of: call.of, position: None }));
        }
        Some(Relation::Compute { input: Box::new(Relation::OneRow), values })
    }
}

fn with_condition(input: &Relation, condition: Expression) -> Relation {
    let (input, mut conditions) = match input {
        Relation::Filter { input, predicate } => {
            (input.clone(), conjuncts(predicate).into_iter().cloned().collect())
        }
        other => (Box::new(other.clone()), Vec::new()),
    };
    conditions.push(condition);
    let predicate = Expression {
        kind: ExpressionKind::And(conditions),
        of: TypeReference::of(oid::BOOL),
        position: None,
    };
    Relation::Filter { input, predicate }
}
