//! Whether two expressions compute the same, and walks over expressions.

use seawall_values::{Datum, order};

use crate::algebra::{Call, Expression, ExpressionKind, Relation, Subscript};

/// Whether both give the same value for each row. Calls of volatile functions are the same, too, as PostgreSQL's `equal()` has it.
pub(crate) fn is_same(left: &Expression, right: &Expression) -> bool {
    use ExpressionKind as K;
    if left.of != right.of {
        return false;
    }
    match (&left.kind, &right.kind) {
        (K::Constant(left), K::Constant(right)) => is_same_datum(left, right),
        (K::Column(left), K::Column(right)) => left == right,
        (K::Parameter(left), K::Parameter(right)) => left == right,
        (K::Call(left), K::Call(right)) | (K::SessionCall(left), K::SessionCall(right)) => {
            is_same_call(left, right)
        }
        (K::And(left), K::And(right))
        | (K::Or(left), K::Or(right))
        | (K::Coalesce(left), K::Coalesce(right))
        | (K::Row(left), K::Row(right)) => are_same(left, right),
        (K::Not(left), K::Not(right))
        | (K::IsNull(left), K::IsNull(right))
        | (K::IsNotNull(left), K::IsNotNull(right))
        | (K::ConvertByText(left), K::ConvertByText(right))
        | (K::Relabel(left), K::Relabel(right)) => is_same(left, right),
        (K::IsBoolean(left, first), K::IsBoolean(right, second)) => first == second && is_same(left, right),
        (K::Extreme(left, first), K::Extreme(right, second)) => first == second && are_same(left, right),
        (K::IsDistinct { left: a, right: b, .. }, K::IsDistinct { left: c, right: d, .. })
        | (K::NullIf { left: a, right: b, .. }, K::NullIf { left: c, right: d, .. }) => {
            is_same(a, c) && is_same(b, d)
        }
        (K::Case { branches: a, otherwise: b }, K::Case { branches: c, otherwise: d }) => {
            a.len() == c.len()
                && a.iter().zip(c).all(|(a, c)| is_same(&a.0, &c.0) && is_same(&a.1, &c.1))
                && match (b, d) {
                    (Some(b), Some(d)) => is_same(b, d),
                    (None, None) => true,
                    _ => false,
                }
        }
        (K::Array { elements: a, is_nested: b, .. }, K::Array { elements: c, is_nested: d, .. }) => {
            b == d && are_same(a, c)
        }
        (
            K::RowCompare { operator: a, left: b, right: c },
            K::RowCompare { operator: d, left: e, right: f },
        ) => a == d && are_same(b, e) && are_same(c, f),
        (K::Field(left, first), K::Field(right, second)) => first == second && is_same(left, right),
        (
            K::Subscript { container: a, subscripts: b, is_slice: c },
            K::Subscript { container: d, subscripts: e, is_slice: f },
        ) => {
            c == f
                && is_same(a, d)
                && b.len() == e.len()
                && b.iter().zip(e).all(|(b, e)| is_same_subscript(b, e))
        }
        (
            K::ScalarArray { left: a, array: b, function: c, is_any: d },
            K::ScalarArray { left: e, array: f, function: g, is_any: h },
        ) => d == h && c.oid == g.oid && is_same(a, e) && is_same(b, f),
        (K::ConvertElements { array: left, .. }, K::ConvertElements { array: right, .. }) => {
            is_same(left, right)
        }
        (K::WholeRow(left, _), K::WholeRow(right, _)) => left == right,
        (K::NextValue(left), K::NextValue(right)) => left == right,
        _ => false,
    }
}

fn is_same_datum(left: &Datum, right: &Datum) -> bool {
    match (left, right) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Null, _) | (_, Datum::Null) => false,
        _ => {
            std::mem::discriminant(left) == std::mem::discriminant(right)
                && order::compare(left, right).is_eq()
        }
    }
}

fn is_same_call(left: &Call, right: &Call) -> bool {
    left.function.oid == right.function.oid && are_same(&left.arguments, &right.arguments)
}

fn are_same(left: &[Expression], right: &[Expression]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
}

fn is_same_subscript(left: &Subscript, right: &Subscript) -> bool {
    let same = |left: &Option<Expression>, right: &Option<Expression>| match (left, right) {
        (Some(left), Some(right)) => is_same(left, right),
        (None, None) => true,
        _ => false,
    };
    same(&left.from, &right.from) && same(&left.to, &right.to)
}

/// Calls `look` with the expression and all inside of it, but not with those of subqueries' relations.
pub(crate) fn visit(expression: &Expression, look: &mut dyn FnMut(&Expression)) {
    look(expression);
    for_each_child(expression, &mut |child| visit(child, look));
}

/// Calls `look` with each direct part.
pub(crate) fn for_each_child(expression: &Expression, look: &mut dyn FnMut(&Expression)) {
    use ExpressionKind as K;
    match &expression.kind {
        K::Constant(_) | K::Column(_) | K::Parameter(_) | K::NextValue(_) | K::WholeRow(..) | K::Default => {}
        K::Call(call) | K::SessionCall(call) => call.arguments.iter().for_each(look),
        K::And(all) | K::Or(all) | K::Coalesce(all) | K::Row(all) | K::Extreme(all, _) => {
            all.iter().for_each(look)
        }
        K::Not(inner)
        | K::IsNull(inner)
        | K::IsNotNull(inner)
        | K::IsBoolean(inner, _)
        | K::Field(inner, _)
        | K::ConvertByText(inner)
        | K::Relabel(inner) => look(inner),
        K::IsDistinct { left, right, .. } | K::NullIf { left, right, .. } => {
            look(left);
            look(right);
        }
        K::Case { branches, otherwise } => {
            for (test, result) in branches {
                look(test);
                look(result);
            }
            otherwise.iter().for_each(|inner| look(inner));
        }
        K::Array { elements, .. } => elements.iter().for_each(look),
        K::RowCompare { left, right, .. } => left.iter().chain(right).for_each(look),
        K::Subscript { container, subscripts, .. } => {
            look(container);
            for subscript in subscripts {
                subscript.from.iter().chain(&subscript.to).for_each(&mut *look);
            }
        }
        K::Assign { container, subscripts, value, .. } => {
            look(container);
            for subscript in subscripts {
                subscript.from.iter().chain(&subscript.to).for_each(&mut *look);
            }
            look(value);
        }
        K::ScalarArray { left, array, .. } => {
            look(left);
            look(array);
        }
        K::ConvertElements { array, converted, .. } => {
            look(array);
            look(converted);
        }
        K::Subquery(subquery) => match &subquery.kind {
            crate::algebra::SubqueryKind::Any(test) | crate::algebra::SubqueryKind::All(test) => look(test),
            _ => {}
        },
    }
}

/// Calls `change` with each direct part.
pub(crate) fn for_each_child_mut(expression: &mut Expression, change: &mut dyn FnMut(&mut Expression)) {
    use ExpressionKind as K;
    match &mut expression.kind {
        K::Constant(_) | K::Column(_) | K::Parameter(_) | K::NextValue(_) | K::WholeRow(..) | K::Default => {}
        K::Call(call) | K::SessionCall(call) => call.arguments.iter_mut().for_each(change),
        K::And(all) | K::Or(all) | K::Coalesce(all) | K::Row(all) | K::Extreme(all, _) => {
            all.iter_mut().for_each(change);
        }
        K::Not(inner)
        | K::IsNull(inner)
        | K::IsNotNull(inner)
        | K::IsBoolean(inner, _)
        | K::Field(inner, _)
        | K::ConvertByText(inner)
        | K::Relabel(inner) => change(inner),
        K::IsDistinct { left, right, .. } | K::NullIf { left, right, .. } => {
            change(left);
            change(right);
        }
        K::Case { branches, otherwise } => {
            for (test, result) in branches {
                change(test);
                change(result);
            }
            otherwise.iter_mut().for_each(|inner| change(inner));
        }
        K::Array { elements, .. } => elements.iter_mut().for_each(change),
        K::RowCompare { left, right, .. } => left.iter_mut().chain(right).for_each(change),
        K::Subscript { container, subscripts, .. } => {
            change(container);
            for subscript in subscripts {
                subscript.from.iter_mut().chain(&mut subscript.to).for_each(&mut *change);
            }
        }
        K::Assign { container, subscripts, value, .. } => {
            change(container);
            for subscript in subscripts {
                subscript.from.iter_mut().chain(&mut subscript.to).for_each(&mut *change);
            }
            change(value);
        }
        K::ScalarArray { left, array, .. } => {
            change(left);
            change(array);
        }
        K::ConvertElements { array, converted, .. } => {
            change(array);
            change(converted);
        }
        K::Subquery(subquery) => match &mut subquery.kind {
            crate::algebra::SubqueryKind::Any(test) | crate::algebra::SubqueryKind::All(test) => change(test),
            _ => {}
        },
    }
}

/// Calls `look` with all expressions of a relation, inner ones and those of subqueries included.
pub(crate) fn visit_relation(relation: &Relation, look: &mut dyn FnMut(&Expression)) {
    let whole = |expression: &Expression, look: &mut dyn FnMut(&Expression)| {
        visit(expression, &mut |inner| {
            look(inner);
            if let ExpressionKind::Subquery(subquery) = &inner.kind {
                visit_relation(&subquery.relation, look);
            }
        });
    };
    match relation {
        Relation::OneRow | Relation::Scan(_) | Relation::System { .. } | Relation::CommonTable { .. } => {}
        Relation::Values { rows, .. } => rows.iter().flatten().for_each(|value| whole(value, look)),
        Relation::Functions { functions, .. } => {
            functions.iter().flat_map(|(call, _)| &call.arguments).for_each(|value| whole(value, look));
        }
        Relation::Filter { input, predicate } => {
            visit_relation(input, look);
            whole(predicate, look);
        }
        Relation::Compute { input, values } => {
            visit_relation(input, look);
            values.iter().for_each(|(_, value)| whole(value, look));
        }
        Relation::ComputeSets { input, sets } => {
            visit_relation(input, look);
            sets.iter().flat_map(|(_, call)| &call.arguments).for_each(|value| whole(value, look));
        }
        Relation::Join { left, right, condition, .. } => {
            visit_relation(left, look);
            visit_relation(right, look);
            whole(condition, look);
        }
        Relation::Aggregate { input, aggregates, .. } => {
            visit_relation(input, look);
            for (_, aggregate) in aggregates {
                aggregate.arguments.iter().chain(&aggregate.filter).for_each(|value| whole(value, look));
            }
        }
        Relation::Window { input, functions } => {
            visit_relation(input, look);
            for (_, window) in functions {
                window.call.arguments.iter().chain(&window.call.filter).for_each(|value| whole(value, look));
            }
        }
        Relation::Sort { input, .. } | Relation::Distinct { input, .. } | Relation::Lock { input, .. } => {
            visit_relation(input, look);
        }
        Relation::Limit { input, count, offset, .. } => {
            visit_relation(input, look);
            count.iter().chain(offset).for_each(|value| whole(value, look));
        }
        Relation::SetOperation { left, right, .. } => {
            visit_relation(left, look);
            visit_relation(right, look);
        }
        Relation::With { tables, body } => {
            for table in tables {
                visit_relation(&table.query, look);
                if let Some((recursive, ..)) = &table.recursive {
                    visit_relation(recursive, look);
                }
            }
            visit_relation(body, look);
        }
        Relation::Change(change) => {
            visit_relation(&change.input, look);
            change.returning.iter().for_each(|(_, value)| whole(value, look));
        }
    }
}
