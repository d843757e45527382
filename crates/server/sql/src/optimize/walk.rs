//! Walks over the algebra: which columns are made, and which are used.

use rustc_hash::FxHashSet;

use crate::algebra::{
    Aggregation, Change, ChangeKind, ColumnId, Expression, ExpressionKind, FrameBound, MergeClause, Relation,
    SubqueryKind,
};

/// Columns, by number.
pub(crate) type Columns = FxHashSet<ColumnId>;

/// Calls `visit` with each operand of an expression. Of a subquery: its test; not what is in its relation.
pub(crate) fn operands<'e>(expression: &'e Expression, visit: &mut dyn FnMut(&'e Expression)) {
    match &expression.kind {
        ExpressionKind::Constant(_)
        | ExpressionKind::Column(_)
        | ExpressionKind::Parameter(_)
        | ExpressionKind::NextValue(_)
        | ExpressionKind::WholeRow(..)
        | ExpressionKind::Default => {}
        ExpressionKind::Call(call) | ExpressionKind::SessionCall(call) => {
            call.arguments.iter().for_each(visit)
        }
        ExpressionKind::And(all)
        | ExpressionKind::Or(all)
        | ExpressionKind::Coalesce(all)
        | ExpressionKind::Extreme(all, _)
        | ExpressionKind::Row(all)
        | ExpressionKind::Array { elements: all, .. } => all.iter().for_each(visit),
        ExpressionKind::Not(one)
        | ExpressionKind::IsNull(one)
        | ExpressionKind::IsNotNull(one)
        | ExpressionKind::IsBoolean(one, _)
        | ExpressionKind::Field(one, _)
        | ExpressionKind::ConvertByText(one)
        | ExpressionKind::Relabel(one) => visit(one),
        ExpressionKind::IsDistinct { left, right, .. }
        | ExpressionKind::NullIf { left, right, .. }
        | ExpressionKind::ScalarArray { left, array: right, .. } => {
            visit(left);
            visit(right);
        }
        ExpressionKind::Case { branches, otherwise } => {
            for (condition, result) in branches {
                visit(condition);
                visit(result);
            }
            otherwise.iter().for_each(|otherwise| visit(otherwise));
        }
        ExpressionKind::RowCompare { left, right, .. } => left.iter().chain(right).for_each(visit),
        ExpressionKind::Subscript { container, subscripts, .. } => {
            visit(container);
            subscripts.iter().flat_map(|part| part.from.iter().chain(&part.to)).for_each(visit);
        }
        ExpressionKind::Assign { container, subscripts, value, .. } => {
            visit(container);
            subscripts.iter().flat_map(|part| part.from.iter().chain(&part.to)).for_each(&mut *visit);
            visit(value);
        }
        ExpressionKind::ConvertElements { array, converted, .. } => {
            visit(array);
            visit(converted);
        }
        ExpressionKind::Subquery(subquery) => match &subquery.kind {
            SubqueryKind::Any(test) | SubqueryKind::All(test) => visit(test),
            SubqueryKind::Scalar | SubqueryKind::Row | SubqueryKind::Exists | SubqueryKind::Array => {}
        },
    }
}

/// Whether something holds for an expression or one of those in it; relations of subqueries are not looked into.
pub(crate) fn any(expression: &Expression, holds: &mut dyn FnMut(&Expression) -> bool) -> bool {
    if holds(expression) {
        return true;
    }
    let mut found = false;
    operands(expression, &mut |operand| found = found || any(operand, holds));
    found
}

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

/// The relations that a relation reads.
pub(crate) fn inputs<'r>(relation: &'r Relation, visit: &mut dyn FnMut(&'r Relation)) {
    match relation {
        Relation::OneRow
        | Relation::Scan(_)
        | Relation::System { .. }
        | Relation::Values { .. }
        | Relation::Functions { .. }
        | Relation::CommonTable { .. } => {}
        Relation::Filter { input, .. }
        | Relation::Compute { input, .. }
        | Relation::ComputeSets { input, .. }
        | Relation::Aggregate { input, .. }
        | Relation::Window { input, .. }
        | Relation::Sort { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. }
        | Relation::Lock { input, .. } => visit(input),
        Relation::Join { left, right, .. } | Relation::SetOperation { left, right, .. } => {
            visit(left);
            visit(right);
        }
        Relation::With { tables, body } => {
            for table in tables {
                visit(&table.query);
                table.recursive.iter().for_each(|(recursive, _, _)| visit(recursive));
            }
            visit(body);
        }
        Relation::Change(change) => visit(&change.input),
    }
}

fn of_aggregation<'r>(call: &'r Aggregation, visit: &mut dyn FnMut(&'r Expression)) {
    call.arguments.iter().for_each(&mut *visit);
    call.filter.iter().for_each(visit);
}

fn of_bound<'r>(bound: &'r FrameBound, visit: &mut dyn FnMut(&'r Expression)) {
    match bound {
        FrameBound::Preceding(offset) | FrameBound::Following(offset) => visit(offset),
        FrameBound::UnboundedPreceding | FrameBound::CurrentRow | FrameBound::UnboundedFollowing => {}
    }
}

fn of_change<'r>(change: &'r Change, visit: &mut dyn FnMut(&'r Expression)) {
    change.returning.iter().for_each(|(_, value)| visit(value));
    change.checks.iter().for_each(|(_, check)| visit(check));
    match &change.kind {
        ChangeKind::Insert { conflict: Some(conflict), .. } => {
            if let Some(update) = &conflict.update {
                update.values.iter().for_each(|(_, value)| visit(value));
                update.condition.iter().for_each(&mut *visit);
            }
        }
        ChangeKind::Merge { clauses, .. } => {
            clauses.iter().flat_map(MergeClause::expressions).for_each(visit);
        }
        ChangeKind::Insert { .. } | ChangeKind::Update { .. } | ChangeKind::Delete { .. } => {}
    }
}

/// The expressions of a relation itself, without those of its inputs.
pub(crate) fn expressions<'r>(relation: &'r Relation, visit: &mut dyn FnMut(&'r Expression)) {
    match relation {
        Relation::OneRow
        | Relation::Scan(_)
        | Relation::System { .. }
        | Relation::CommonTable { .. }
        | Relation::Sort { .. }
        | Relation::Distinct { .. }
        | Relation::SetOperation { .. }
        | Relation::With { .. }
        | Relation::Lock { .. } => {}
        Relation::Values { rows, .. } => rows.iter().flatten().for_each(visit),
        Relation::Functions { functions, .. } => {
            functions.iter().flat_map(|(call, _)| &call.arguments).for_each(visit);
        }
        Relation::Filter { predicate, .. } => visit(predicate),
        Relation::Compute { values, .. } => values.iter().for_each(|(_, value)| visit(value)),
        Relation::ComputeSets { sets, .. } => {
            sets.iter().flat_map(|(_, call)| &call.arguments).for_each(visit);
        }
        Relation::Join { condition, .. } => visit(condition),
        Relation::Aggregate { aggregates, .. } => {
            aggregates.iter().for_each(|(_, call)| of_aggregation(call, visit));
        }
        Relation::Window { functions, .. } => {
            for (_, function) in functions {
                of_aggregation(&function.call, visit);
                of_bound(&function.frame.start, visit);
                of_bound(&function.frame.end, visit);
            }
        }
        Relation::Limit { count, offset, .. } => count.iter().chain(offset).for_each(visit),
        Relation::Change(change) => of_change(change, visit),
    }
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

/// Whether relations and expressions are nested deeper than `levels`.
pub(crate) fn is_deeper(relation: &Relation, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    let mut is_deep = false;
    expressions(relation, &mut |expression| is_deep = is_deep || is_expression_deeper(expression, levels));
    inputs(relation, &mut |input| is_deep = is_deep || is_deeper(input, levels));
    is_deep
}

fn is_expression_deeper(expression: &Expression, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    let mut is_deep = false;
    operands(expression, &mut |operand| is_deep = is_deep || is_expression_deeper(operand, levels));
    match &expression.kind {
        ExpressionKind::Subquery(subquery) => is_deep || is_deeper(&subquery.relation, levels),
        _ => is_deep,
    }
}
