//! Which columns relations and expressions make, and which they use.

use rustc_hash::FxHashSet;

use crate::algebra::walk::{expressions, inputs, operands};
use crate::algebra::{ChangeKind, ColumnId, Expression, ExpressionKind, Relation};

/// Columns, by number.
pub(crate) type Columns = FxHashSet<ColumnId>;

/// Adds the columns that an expression uses and that come from outside of it.
pub(crate) fn add_used(expression: &Expression, used: &mut Columns) {
    match &expression.kind {
        ExpressionKind::Column(column) => {
            used.insert(*column);
        }
        ExpressionKind::WholeRow(columns, _) => used.extend(columns.iter().copied()),
        ExpressionKind::Subquery(subquery) => {
            let mut inner = free(&subquery.relation);
            operands(expression, &mut |operand| add_used(operand, &mut inner));
            let made = made(&subquery.relation);
            used.extend(inner.into_iter().filter(|column| !made.contains(column)));
        }
        ExpressionKind::ConvertElements { array, element, converted } => {
            add_used(array, used);
            let mut inner = Columns::default();
            add_used(converted, &mut inner);
            inner.remove(element);
            used.extend(inner);
        }
        ExpressionKind::CheckDomain(check) => {
            add_used(&check.value, used);
            let mut inner = used_by_all(check.checks.iter().map(|(_, condition)| condition));
            inner.remove(&check.column);
            used.extend(inner);
        }
        _ => operands(expression, &mut |operand| add_used(operand, used)),
    }
}

/// The columns that an expression uses.
pub(crate) fn used(expression: &Expression) -> Columns {
    let mut columns = Columns::default();
    add_used(expression, &mut columns);
    columns
}

/// The columns that expressions use.
pub(crate) fn used_by_all<'e>(expressions: impl IntoIterator<Item = &'e Expression>) -> Columns {
    let mut columns = Columns::default();
    for expression in expressions {
        add_used(expression, &mut columns);
    }
    columns
}

/// The columns that a relation itself uses, without its inputs: in expressions, and as keys.
pub(crate) fn used_here(relation: &Relation) -> Columns {
    let mut used = Columns::default();
    expressions(relation, &mut |expression| add_used(expression, &mut used));
    match relation {
        Relation::Aggregate { groups, aggregates, .. } => {
            used.extend(groups.iter().map(|(column, _)| *column));
            used.extend(aggregates.iter().flat_map(|(_, call)| &call.order).map(|key| key.column));
        }
        Relation::Window { functions, .. } => {
            for (_, function) in functions {
                used.extend(function.partition.iter().copied());
                used.extend(function.order.iter().map(|key| key.column));
                used.extend(function.call.order.iter().map(|key| key.column));
            }
        }
        Relation::Sort { keys, .. } | Relation::Limit { with_ties: Some(keys), .. } => {
            used.extend(keys.iter().map(|key| key.column));
        }
        Relation::Distinct { on, .. } => used.extend(on.iter().map(|(column, _)| *column)),
        Relation::SetOperation { columns, .. } => {
            used.extend(columns.iter().flat_map(|(_, _, left, right)| [*left, *right]));
        }
        Relation::With { tables, .. } => {
            for table in tables {
                used.extend(table.columns.iter().map(|(column, _)| *column));
                used.extend(table.recursive.iter().flat_map(|(_, columns, _)| columns.iter().copied()));
            }
        }
        Relation::Lock { rows, .. } => used.extend(rows.iter().map(|(row, _, _)| *row)),
        Relation::Change(change) => match &change.kind {
            ChangeKind::Insert { values, .. } => used.extend(values.iter().map(|(_, column)| *column)),
            ChangeKind::Update { row, values } => {
                used.insert(*row);
                used.extend(values.iter().map(|(_, column)| *column));
            }
            ChangeKind::Delete { row } | ChangeKind::Merge { row, .. } => {
                used.insert(*row);
            }
        },
        Relation::OneRow
        | Relation::Scan(_)
        | Relation::System { .. }
        | Relation::Values { .. }
        | Relation::Functions { .. }
        | Relation::Filter { .. }
        | Relation::Compute { .. }
        | Relation::ComputeSets { .. }
        | Relation::Join { .. }
        | Relation::Limit { with_ties: None, .. }
        | Relation::CommonTable { .. } => {}
    }
    used
}

/// The columns that a relation makes itself, beside those of its inputs.
fn add_made_here(relation: &Relation, made: &mut Columns) {
    match relation {
        Relation::Scan(scan) => {
            made.extend(scan.columns.iter().map(|(_, column)| *column));
            made.extend(scan.row);
            made.extend(scan.table_oid);
        }
        Relation::System { columns, .. } | Relation::CommonTable { columns, .. } => {
            made.extend(columns.iter().map(|(_, column)| *column));
        }
        Relation::Values { columns, .. } => made.extend(columns.iter().copied()),
        Relation::Functions { functions, ordinality } => {
            made.extend(functions.iter().flat_map(|(_, columns)| columns.iter().copied()));
            made.extend(*ordinality);
        }
        Relation::Compute { values, .. } => made.extend(values.iter().map(|(column, _)| *column)),
        Relation::ComputeSets { sets, .. } => made.extend(sets.iter().map(|(column, _)| *column)),
        Relation::Aggregate { groups, grouping, aggregates, .. } => {
            made.extend(groups.iter().map(|(column, _)| *column));
            made.extend(grouping.iter().map(|(column, _)| *column));
            made.extend(aggregates.iter().map(|(column, _)| *column));
        }
        Relation::Window { functions, .. } => made.extend(functions.iter().map(|(column, _)| *column)),
        Relation::SetOperation { columns, .. } => {
            made.extend(columns.iter().map(|(column, _, _, _)| *column));
        }
        Relation::Change(change) => {
            made.extend(change.returning.iter().map(|(column, _)| *column));
            made.extend(change.new.iter().map(|(_, column)| *column));
        }
        Relation::OneRow
        | Relation::Filter { .. }
        | Relation::Join { .. }
        | Relation::Sort { .. }
        | Relation::Limit { .. }
        | Relation::Distinct { .. }
        | Relation::With { .. }
        | Relation::Lock { .. } => {}
    }
}

/// The columns that a relation's rows have.
pub(crate) fn made(relation: &Relation) -> Columns {
    let mut columns = Columns::default();
    add_made(relation, &mut columns);
    columns
}

fn add_made(relation: &Relation, columns: &mut Columns) {
    add_made_here(relation, columns);
    match relation {
        // What is below is not seen above.
        Relation::Aggregate { .. } | Relation::SetOperation { .. } | Relation::Change(_) => {}
        Relation::With { body, .. } => add_made(body, columns),
        Relation::Join {
            kind: crate::algebra::JoinKind::Semi | crate::algebra::JoinKind::Anti,
            left,
            ..
        } => {
            add_made(left, columns);
        }
        _ => inputs(relation, &mut |input| add_made(input, columns)),
    }
}

/// The columns that a relation uses and does not make anywhere inside: those of enclosing queries.
pub(crate) fn free(relation: &Relation) -> Columns {
    let (mut used, mut made) = (Columns::default(), Columns::default());
    collect(relation, &mut used, &mut made);
    used.retain(|column| !made.contains(column));
    used
}

/// Everything that is used and made in a relation and below. Numbers are used once, so no scope is needed.
fn collect(relation: &Relation, used: &mut Columns, made: &mut Columns) {
    used.extend(used_here(relation));
    add_made_here(relation, made);
    if let Relation::Change(change) = relation
        && let ChangeKind::Insert { conflict: Some(conflict), .. } = &change.kind
        && let Some(update) = &conflict.update
    {
        made.extend(update.existing.iter().chain(&update.excluded).map(|(_, column)| *column));
    }
    inputs(relation, &mut |input| collect(input, used, made));
}

/// The column itself, also under a cast that changes nothing.
pub(super) fn as_column(expression: &Expression) -> Option<ColumnId> {
    match &expression.kind {
        ExpressionKind::Column(column) => Some(*column),
        ExpressionKind::Relabel(inner) => as_column(inner),
        _ => None,
    }
}
