//! A condition over computed columns, as one over what they are computed from.

use super::{has_subquery, is_volatile};
use crate::algebra::{Call, ColumnId, Expression, ExpressionKind};

/// A condition below computed values: names of columns and constants are put in the place of the columns. `None`: it uses a value that is
/// really computed, or cannot move.
pub(super) fn substitute(condition: &Expression, values: &[(ColumnId, Expression)]) -> Option<Expression> {
    if is_volatile(condition) {
        return None;
    }
    if has_subquery(condition) {
        let used = super::used(condition);
        return (!values.iter().any(|(column, _)| used.contains(column))).then(|| condition.clone());
    }
    replaced(condition, values)
}

fn all(expressions: &[Expression], values: &[(ColumnId, Expression)]) -> Option<Vec<Expression>> {
    expressions.iter().map(|expression| replaced(expression, values)).collect()
}

fn one(expression: &Expression, values: &[(ColumnId, Expression)]) -> Option<Box<Expression>> {
    replaced(expression, values).map(Box::new)
}

fn replaced(expression: &Expression, values: &[(ColumnId, Expression)]) -> Option<Expression> {
    let kind = match &expression.kind {
        ExpressionKind::Column(column) => {
            let Some((_, value)) = values.iter().find(|(known, _)| known == column) else {
                return Some(expression.clone());
            };
            return match value.kind {
                ExpressionKind::Column(_) | ExpressionKind::Constant(_) | ExpressionKind::Parameter(_) => {
                    Some(value.clone())
                }
                _ => None,
            };
        }
        ExpressionKind::Constant(_) | ExpressionKind::Parameter(_) => return Some(expression.clone()),
        ExpressionKind::Call(call) => ExpressionKind::Call(Call {
            function: call.function.clone(),
            arguments: all(&call.arguments, values)?,
            written: call.written.clone(),
        }),
        ExpressionKind::And(terms) => ExpressionKind::And(all(terms, values)?),
        ExpressionKind::Or(terms) => ExpressionKind::Or(all(terms, values)?),
        ExpressionKind::Coalesce(terms) => ExpressionKind::Coalesce(all(terms, values)?),
        ExpressionKind::Not(operand) => ExpressionKind::Not(one(operand, values)?),
        ExpressionKind::IsNull(operand) => ExpressionKind::IsNull(one(operand, values)?),
        ExpressionKind::IsNotNull(operand) => ExpressionKind::IsNotNull(one(operand, values)?),
        ExpressionKind::IsBoolean(operand, wanted) => {
            ExpressionKind::IsBoolean(one(operand, values)?, *wanted)
        }
        ExpressionKind::Relabel(operand) => ExpressionKind::Relabel(one(operand, values)?),
        ExpressionKind::ConvertByText(operand) => ExpressionKind::ConvertByText(one(operand, values)?),
        ExpressionKind::ScalarArray { left, array, function, is_any } => ExpressionKind::ScalarArray {
            left: one(left, values)?,
            array: one(array, values)?,
            function: function.clone(),
            is_any: *is_any,
        },
        ExpressionKind::Array { elements, element, is_nested } => ExpressionKind::Array {
            elements: all(elements, values)?,
            element: *element,
            is_nested: *is_nested,
        },
        ExpressionKind::IsDistinct { left, right, equals } => ExpressionKind::IsDistinct {
            left: one(left, values)?,
            right: one(right, values)?,
            equals: equals.clone(),
        },
        _ => {
            let used = super::used(expression);
            let is_free = !values.iter().any(|(column, _)| used.contains(column));
            return is_free.then(|| expression.clone());
        }
    };
    Some(Expression { kind, of: expression.of, position: expression.position })
}
