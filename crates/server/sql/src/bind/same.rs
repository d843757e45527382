//! Whether two expressions compute the same.

use seawall_values::{Datum, order};

use crate::algebra::{Call, Expression, ExpressionKind, Subscript};

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
        (K::CheckDomain(left), K::CheckDomain(right)) => {
            left.domain == right.domain && is_same(&left.value, &right.value)
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

pub(crate) fn is_same_call(left: &Call, right: &Call) -> bool {
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
