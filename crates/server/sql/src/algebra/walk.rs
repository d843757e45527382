//! Walks over expressions and relations.

use super::{
    Aggregation, Change, ChangeKind, Expression, ExpressionKind, FrameBound, MergeClause, Relation,
    SubqueryKind,
};

/// A walk over the operands of an expression, to read them or to change them.
macro_rules! walk_of_operands {
    ($(#[$doc:meta])* $name:ident, $iterate:ident, $($mutable:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name<'e>(
            expression: &'e $($mutable)? Expression,
            visit: &mut dyn FnMut(&'e $($mutable)? Expression),
        ) {
            use ExpressionKind as K;
            match &$($mutable)? expression.kind {
                K::Constant(_) | K::Column(_) | K::Parameter(_) | K::NextValue(_) | K::WholeRow(..) | K::Default => {}
                K::Call(call) | K::SessionCall(call) => call.arguments.$iterate().for_each(visit),
                K::And(all)
                | K::Or(all)
                | K::Coalesce(all)
                | K::Extreme(all, _)
                | K::Row(all)
                | K::Array { elements: all, .. } => all.$iterate().for_each(visit),
                K::Not(one)
                | K::IsNull(one)
                | K::IsNotNull(one)
                | K::IsBoolean(one, _)
                | K::Field(one, _)
                | K::ConvertByText(one)
                | K::Relabel(one) => visit(one),
                K::IsDistinct { left, right, .. }
                | K::NullIf { left, right, .. }
                | K::ScalarArray { left, array: right, .. }
                | K::ConvertElements { array: left, converted: right, .. } => {
                    visit(left);
                    visit(right);
                }
                K::Case { branches, otherwise } => {
                    for (condition, result) in branches {
                        visit(condition);
                        visit(result);
                    }
                    otherwise.$iterate().for_each(|otherwise| visit(otherwise));
                }
                K::RowCompare { left, right, .. } => left.$iterate().chain(right).for_each(visit),
                K::Subscript { container, subscripts, .. } => {
                    visit(container);
                    for part in subscripts {
                        part.from.$iterate().chain(&$($mutable)? part.to).for_each(&mut *visit);
                    }
                }
                K::Assign { container, subscripts, value, .. } => {
                    visit(container);
                    for part in subscripts {
                        part.from.$iterate().chain(&$($mutable)? part.to).for_each(&mut *visit);
                    }
                    visit(value);
                }
                K::CheckDomain(check) => {
                    visit(&$($mutable)? check.value);
                    check.checks.$iterate().for_each(|(_, condition)| visit(condition));
                }
                K::Subquery(subquery) => match &$($mutable)? subquery.kind {
                    SubqueryKind::Any(test) | SubqueryKind::All(test) => visit(test),
                    SubqueryKind::Scalar | SubqueryKind::Row | SubqueryKind::Exists | SubqueryKind::Array => {}
                },
            }
        }
    };
}

walk_of_operands! {
    /// Calls `visit` with each operand of an expression. Of a subquery: its test; not what is in its relation.
    operands, iter,
}

walk_of_operands! {
    /// As [`operands`], to change them.
    operands_mut, iter_mut, mut
}

/// Calls `look` with the expression and all inside of it, but not with those of subqueries' relations.
pub(crate) fn visit(expression: &Expression, look: &mut dyn FnMut(&Expression)) {
    look(expression);
    operands(expression, &mut |operand| visit(operand, look));
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

/// Calls `look` with all expressions of a relation, inner ones and those of subqueries included.
pub(crate) fn visit_relation(relation: &Relation, look: &mut dyn FnMut(&Expression)) {
    inputs(relation, &mut |input| visit_relation(input, look));
    expressions(relation, &mut |expression| {
        visit(expression, &mut |inner| {
            look(inner);
            if let ExpressionKind::Subquery(subquery) = &inner.kind {
                visit_relation(&subquery.relation, look);
            }
        });
    });
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
