//! Rewriting of the algebra: conditions move towards the scans, outer joins become inner ones, queries in conditions become joins.
//!
//! Each step gives the same rows. A condition that may have an effect stays where it is.

mod decorrelate;
mod substitute;

use super::lower::conjuncts;
use super::walk::{Columns, as_column, made, used};
use crate::algebra::walk::any;
use crate::algebra::{Expression, ExpressionKind, JoinKind, Relation, SetOperator};
use seawall_values::{Datum, TypeReference, oid};
use substitute::substitute;

/// The same rows, sooner.
pub(super) fn rewrite(relation: Relation) -> Relation {
    push(relation, Vec::new())
}

/// Whether a value may differ from row to row by itself, or has an effect.
pub(super) fn is_volatile(expression: &Expression) -> bool {
    any(expression, &mut |expression| match &expression.kind {
        ExpressionKind::Call(call) | ExpressionKind::SessionCall(call) => call.function.volatility == b'v',
        ExpressionKind::NextValue(_) => true,
        _ => false,
    })
}

fn has_subquery(expression: &Expression) -> bool {
    any(expression, &mut |expression| matches!(expression.kind, ExpressionKind::Subquery(_)))
}

fn boolean(kind: ExpressionKind) -> Expression {
    Expression { kind, of: TypeReference::of(oid::BOOL), position: None }
}

/// All conditions as one; true if there are none.
fn conjunction(mut conditions: Vec<Expression>) -> Expression {
    match conditions.len() {
        0 => boolean(ExpressionKind::Constant(Datum::Bool(true))),
        1 => conditions.swap_remove(0),
        _ => boolean(ExpressionKind::And(conditions)),
    }
}

fn is_true(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::Constant(Datum::Bool(true)))
}

/// The terms of a condition, without those that are true.
fn split(condition: &Expression) -> impl Iterator<Item = Expression> {
    conjuncts(condition).into_iter().filter(|term| !is_true(term)).cloned()
}

fn filtered(input: Relation, conditions: Vec<Expression>) -> Relation {
    if conditions.is_empty() {
        return input;
    }
    Relation::Filter { input: Box::new(input), predicate: conjunction(conditions) }
}

fn uses_any(expression: &Expression, columns: &Columns) -> bool {
    used(expression).iter().any(|column| columns.contains(column))
}

/// Takes out the conditions for which something holds.
fn extract(conditions: &mut Vec<Expression>, mut holds: impl FnMut(&Expression) -> bool) -> Vec<Expression> {
    conditions.extract_if(.., |condition| holds(condition)).collect()
}

/// Adds what equalities of numbers of objects say together: with `a = 1` and `a = b`, `b = 1`. System catalogs are joined by such numbers, and
/// rows of them are found by one.
fn add_known_numbers(conditions: &mut Vec<Expression>) {
    let sides = |condition: &Expression| match &condition.kind {
        ExpressionKind::Call(call) if call.function.source == "oideq" => match &call.arguments[..] {
            [left, right] => Some([left.clone(), right.clone()]),
            _ => None,
        },
        _ => None,
    };
    let is_fixed = |value: &Expression| used(value).is_empty() && !is_volatile(value) && !has_subquery(value);
    let mut known = Vec::new();
    for [left, right] in conditions.iter().filter_map(sides) {
        match (as_column(&left), as_column(&right)) {
            (Some(column), None) if is_fixed(&right) => known.push((column, right)),
            (None, Some(column)) if is_fixed(&left) => known.push((column, left)),
            _ => {}
        }
    }
    let mut added = Vec::new();
    for condition in &*conditions {
        let Some([Some(left), Some(right)]) = sides(condition).map(|sides| sides.each_ref().map(as_column))
        else {
            continue;
        };
        for (position, column, other) in [(0, left, right), (1, right, left)] {
            let value = known.iter().find(|(known, _)| *known == column);
            if let Some((_, value)) = value
                && !known.iter().any(|(known, _)| *known == other)
            {
                let mut condition = condition.clone();
                if let ExpressionKind::Call(call) = &mut condition.kind {
                    call.arguments[position] = value.clone();
                }
                added.push(condition);
            }
        }
    }
    conditions.append(&mut added);
}

/// A relation with conditions over it, which go as far down as they can.
fn push(relation: Relation, mut conditions: Vec<Expression>) -> Relation {
    match relation {
        Relation::Filter { input, predicate } => {
            let mut all: Vec<Expression> = split(&predicate).collect();
            all.append(&mut conditions);
            add_known_numbers(&mut all);
            let (input, rest) = decorrelate::joins(*input, all);
            push(input, rest)
        }
        Relation::Join { kind, left, right, condition } => {
            push_join(kind, *left, *right, split(&condition).collect(), conditions)
        }
        Relation::Compute { input, values } => {
            let mut below = Vec::new();
            conditions.retain(|condition| match substitute(condition, &values) {
                Some(moved) => {
                    below.push(moved);
                    false
                }
                None => true,
            });
            let input = Box::new(push(*input, below));
            filtered(Relation::Compute { input, values }, conditions)
        }
        Relation::ComputeSets { input, sets } => {
            let computed = sets.iter().map(|(column, _)| *column).collect();
            let below = extract(&mut conditions, |condition| {
                !uses_any(condition, &computed) && !is_volatile(condition)
            });
            let input = Box::new(push(*input, below));
            filtered(Relation::ComputeSets { input, sets }, conditions)
        }
        Relation::Aggregate { input, groups, sets, grouping, aggregates } => {
            let kept: Columns = groups.iter().map(|(column, _)| *column).collect();
            // Without groups there is a row also of no input, and a column that some set leaves out is null there.
            let can_move =
                !groups.is_empty() && sets.len() <= 1 && sets.iter().all(|set| set.len() == groups.len());
            let made = made(&input);
            let below = extract(&mut conditions, |condition| {
                can_move && depends_only_on(condition, &kept, &made, &aggregates_of(&aggregates, &grouping))
            });
            let input = Box::new(push(*input, below));
            filtered(Relation::Aggregate { input, groups, sets, grouping, aggregates }, conditions)
        }
        Relation::Window { input, functions } => {
            let computed: Columns = functions.iter().map(|(column, _)| *column).collect();
            let below = extract(&mut conditions, |condition| {
                let used = used(condition);
                !is_volatile(condition)
                    && !used.iter().any(|column| computed.contains(column))
                    && functions
                        .iter()
                        .all(|(_, function)| used.iter().all(|column| function.partition.contains(column)))
            });
            let input = Box::new(push(*input, below));
            filtered(Relation::Window { input, functions }, conditions)
        }
        Relation::Sort { input, keys } => {
            let below = extract(&mut conditions, |condition| !is_volatile(condition));
            let input = Box::new(push(*input, below));
            filtered(Relation::Sort { input, keys }, conditions)
        }
        Relation::Distinct { input, on } => {
            let kept: Columns = on.iter().map(|(column, _)| *column).collect();
            let made = made(&input);
            let below = extract(&mut conditions, |condition| {
                depends_only_on(condition, &kept, &made, &Columns::default())
            });
            let input = Box::new(push(*input, below));
            filtered(Relation::Distinct { input, on }, conditions)
        }
        Relation::Limit { input, count, offset, with_ties } => {
            let input = Box::new(push(*input, Vec::new()));
            filtered(Relation::Limit { input, count, offset, with_ties }, conditions)
        }
        Relation::Lock { input, rows } => {
            let input = Box::new(push(*input, Vec::new()));
            filtered(Relation::Lock { input, rows }, conditions)
        }
        Relation::SetOperation { operator, is_all, columns, left, right } => {
            push_set_operation(operator, is_all, columns, (*left, *right), conditions)
        }
        Relation::With { mut tables, body } => {
            for table in &mut tables {
                let query = std::mem::replace(&mut table.query, Relation::OneRow);
                table.query = push(query, Vec::new());
                if let Some((recursive, _, _)) = &mut table.recursive {
                    let relation = std::mem::replace(recursive, Relation::OneRow);
                    *recursive = push(relation, Vec::new());
                }
            }
            let body = Box::new(push(*body, conditions));
            Relation::With { tables, body }
        }
        Relation::Change(mut change) => {
            let input = std::mem::replace(&mut change.input, Relation::OneRow);
            change.input = push(input, Vec::new());
            filtered(Relation::Change(change), conditions)
        }
        leaf @ (Relation::OneRow
        | Relation::Scan(_)
        | Relation::System { .. }
        | Relation::Values { .. }
        | Relation::Functions { .. }
        | Relation::CommonTable { .. }) => filtered(leaf, conditions),
    }
}

fn aggregates_of(
    aggregates: &[(crate::algebra::ColumnId, crate::algebra::Aggregation)],
    grouping: &[(crate::algebra::ColumnId, Vec<usize>)],
) -> Columns {
    let aggregates = aggregates.iter().map(|(column, _)| *column);
    aggregates.chain(grouping.iter().map(|(column, _)| *column)).collect()
}

/// Whether a condition can move below a node that keeps these columns: it uses no others that the node or its input makes.
fn depends_only_on(condition: &Expression, kept: &Columns, input: &Columns, computed: &Columns) -> bool {
    let is_outside = |column| !input.contains(column) && !computed.contains(column);
    !is_volatile(condition)
        && used(condition).iter().all(|column| kept.contains(column) || is_outside(column))
}

/// Whether a condition is never true if all these columns are null: a strict comparison of one of them.
fn rejects_nulls(condition: &Expression, columns: &Columns) -> bool {
    match &condition.kind {
        ExpressionKind::Call(call) if call.function.is_strict => {
            call.arguments.iter().any(|argument| is_null_with(argument, columns))
        }
        ExpressionKind::IsNotNull(operand) => is_null_with(operand, columns),
        ExpressionKind::IsBoolean(operand, _) => is_null_with(operand, columns),
        ExpressionKind::ScalarArray { left, is_any: true, .. } => is_null_with(left, columns),
        ExpressionKind::And(terms) => terms.iter().any(|term| rejects_nulls(term, columns)),
        ExpressionKind::Or(terms) => terms.iter().all(|term| rejects_nulls(term, columns)),
        ExpressionKind::Not(operand) => is_null_with(operand, columns),
        _ => is_null_with(condition, columns),
    }
}

/// Whether a value is null if all these columns are.
fn is_null_with(value: &Expression, columns: &Columns) -> bool {
    match &value.kind {
        ExpressionKind::Column(column) => columns.contains(column),
        ExpressionKind::Call(call) if call.function.is_strict && !call.function.returns_set => {
            call.arguments.iter().any(|argument| is_null_with(argument, columns))
        }
        ExpressionKind::Relabel(inner) | ExpressionKind::ConvertByText(inner) => is_null_with(inner, columns),
        _ => false,
    }
}

/// The kind of an outer join, below conditions that reject its null rows.
fn strengthened(kind: JoinKind, conditions: &[Expression], left: &Columns, right: &Columns) -> JoinKind {
    let rejects = |columns: &Columns| conditions.iter().any(|condition| rejects_nulls(condition, columns));
    match kind {
        JoinKind::Left if rejects(right) => JoinKind::Inner,
        JoinKind::Right if rejects(left) => JoinKind::Inner,
        JoinKind::Full => match (rejects(left), rejects(right)) {
            (true, true) => JoinKind::Inner,
            // Rows without a left side are gone.
            (true, false) => JoinKind::Left,
            (false, true) => JoinKind::Right,
            (false, false) => JoinKind::Full,
        },
        other => other,
    }
}

fn push_join(
    kind: JoinKind,
    left: Relation,
    right: Relation,
    mut on: Vec<Expression>,
    mut above: Vec<Expression>,
) -> Relation {
    let (left_made, right_made) = (made(&left), made(&right));
    let kind = strengthened(kind, &above, &left_made, &right_made);
    let is_left_only = |condition: &Expression| {
        uses_any(condition, &left_made) && !uses_any(condition, &right_made) && !is_volatile(condition)
    };
    let is_right_only = |condition: &Expression| {
        uses_any(condition, &right_made) && !uses_any(condition, &left_made) && !is_volatile(condition)
    };
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    match kind {
        JoinKind::Inner => {
            // Queries in conditions stay above: they become joins there, or are evaluated last.
            on.append(&mut extract(&mut above, |condition| !is_volatile(condition)));
            to_left = extract(&mut on, is_left_only);
            to_right = extract(&mut on, is_right_only);
        }
        JoinKind::Left => {
            to_left = extract(&mut above, is_left_only);
            to_right = extract(&mut on, is_right_only);
        }
        JoinKind::Right => {
            to_right = extract(&mut above, is_right_only);
            to_left = extract(&mut on, is_left_only);
        }
        JoinKind::Semi => {
            to_left = extract(&mut above, is_left_only);
            to_left.append(&mut extract(&mut on, is_left_only));
            to_right = extract(&mut on, is_right_only);
        }
        JoinKind::Anti => {
            to_left = extract(&mut above, is_left_only);
            to_right = extract(&mut on, is_right_only);
        }
        JoinKind::Full => {}
    }
    let left = Box::new(push(left, to_left));
    let right = Box::new(push(right, to_right));
    filtered(Relation::Join { kind, left, right, condition: conjunction(on) }, above)
}

type SetColumns =
    Vec<(crate::algebra::ColumnId, TypeReference, crate::algebra::ColumnId, crate::algebra::ColumnId)>;

fn push_set_operation(
    operator: SetOperator,
    is_all: bool,
    columns: SetColumns,
    (left, right): (Relation, Relation),
    mut conditions: Vec<Expression>,
) -> Relation {
    let renamed = |is_left: bool| -> Vec<_> {
        columns
            .iter()
            .map(|(column, of, left, right)| {
                let source = if is_left { *left } else { *right };
                (*column, Expression { kind: ExpressionKind::Column(source), of: *of, position: None })
            })
            .collect()
    };
    let (left_names, right_names) = (renamed(true), renamed(false));
    let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
    conditions.retain(|condition| {
        match (substitute(condition, &left_names), substitute(condition, &right_names)) {
            (Some(left), Some(right)) => {
                to_left.push(left);
                to_right.push(right);
                false
            }
            _ => true,
        }
    });
    let left = Box::new(push(left, to_left));
    let right = Box::new(push(right, to_right));
    filtered(Relation::SetOperation { operator, is_all, columns, left, right }, conditions)
}
