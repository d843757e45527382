//! `EXISTS` and `IN` in conditions as joins.

use super::super::lower::conjuncts;
use super::super::walk::{Columns, free, made, used};
use super::{boolean, conjunction, filtered, is_volatile, rewrite, split};
use crate::algebra::{Expression, ExpressionKind, JoinKind, Relation, Subquery, SubqueryKind};
use seawall_values::Datum;

/// Turns conditions that ask a query for a row into joins. Returns the relation, and the conditions that are left.
pub(super) fn joins(mut input: Relation, conditions: Vec<Expression>) -> (Relation, Vec<Expression>) {
    if matches!(input, Relation::OneRow) {
        return (input, conditions);
    }
    let made = made(&input);
    let mut rest = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match as_join(&condition, &made) {
            Some((kind, relation, on)) => {
                input = Relation::Join {
                    kind,
                    left: Box::new(input),
                    right: Box::new(relation),
                    condition: conjunction(on),
                };
            }
            None => rest.push(condition),
        }
    }
    (input, rest)
}

/// The join that a condition is: its kind, right side and condition.
fn as_join(condition: &Expression, outer: &Columns) -> Option<(JoinKind, Relation, Vec<Expression>)> {
    let (kind, subquery) = match &condition.kind {
        ExpressionKind::Subquery(subquery) => (JoinKind::Semi, subquery),
        ExpressionKind::Not(operand) => match &operand.kind {
            ExpressionKind::Subquery(subquery) => (JoinKind::Anti, subquery),
            _ => return None,
        },
        _ => return None,
    };
    let mut on = Vec::new();
    let relation = match (&subquery.kind, kind) {
        (SubqueryKind::Exists, _) => {
            // One that depends on nothing of the row is asked once.
            if !free(&subquery.relation).iter().any(|column| outer.contains(column)) {
                return None;
            }
            without_order(subquery.relation.clone())
        }
        // The opposite of `IN` is not a join: a null may make it null.
        (SubqueryKind::Any(test), JoinKind::Semi) => {
            on.extend(split(test));
            if !on.iter().any(|term| is_equality_with(term, subquery, outer)) {
                return None;
            }
            subquery.relation.clone()
        }
        _ => return None,
    };
    if on.iter().any(is_volatile) {
        return None;
    }
    let relation = rewrite(relation);
    let relation = pull_up(relation, outer, &mut on);
    Some((kind, relation, on))
}

fn is_equality_with(term: &Expression, subquery: &Subquery, outer: &Columns) -> bool {
    let ExpressionKind::Call(call) = &term.kind else { return false };
    let is_equal = super::super::compile::comparison(call)
        .is_some_and(|(operator, _)| operator == crate::execute::expression::Operator::Equal);
    let used = used(term);
    is_equal
        && used.iter().any(|column| outer.contains(column))
        && used.iter().any(|column| subquery.columns.contains(column))
}

/// What only changes the order or the columns of rows is of no matter to whether there is one.
fn without_order(relation: Relation) -> Relation {
    match relation {
        Relation::Sort { input, .. } | Relation::Distinct { input, .. } => without_order(*input),
        Relation::Limit { input, count: Some(count), offset: None, .. }
            if matches!(count.kind, ExpressionKind::Constant(Datum::Int8(1..))) =>
        {
            without_order(*input)
        }
        Relation::Compute { input, values } if !values.iter().any(|(_, value)| is_volatile(value)) => {
            without_order(*input)
        }
        other => other,
    }
}

/// Moves conditions that use columns of the left side from the right side to the join's condition, so that the right side stands by itself.
fn pull_up(relation: Relation, outer: &Columns, on: &mut Vec<Expression>) -> Relation {
    match relation {
        Relation::Filter { input, predicate } => {
            let (mut pulled, mut rest) = (Vec::new(), Vec::new());
            for term in conjuncts(&predicate) {
                let uses_outer = used(term).iter().any(|column| outer.contains(column));
                if uses_outer { pulled.push(term.clone()) } else { rest.push(term.clone()) }
            }
            on.append(&mut pulled);
            filtered(pull_up(*input, outer, on), rest)
        }
        Relation::Compute { input, values } => {
            Relation::Compute { input: Box::new(pull_up(*input, outer, on)), values }
        }
        Relation::Join { kind: JoinKind::Inner, left, right, condition } => {
            let (mut pulled, mut rest) = (Vec::new(), Vec::new());
            for term in split(&condition) {
                let uses_outer = used(&term).iter().any(|column| outer.contains(column));
                if uses_outer { pulled.push(term) } else { rest.push(term) }
            }
            on.append(&mut pulled);
            let left = Box::new(pull_up(*left, outer, on));
            let right = Box::new(pull_up(*right, outer, on));
            let condition = if rest.is_empty() {
                boolean(ExpressionKind::Constant(Datum::Bool(true)))
            } else {
                conjunction(rest)
            };
            Relation::Join { kind: JoinKind::Inner, left, right, condition }
        }
        other => other,
    }
}
