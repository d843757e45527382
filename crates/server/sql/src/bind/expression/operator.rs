//! Operators with one side and with two, and `LIKE`.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::super::{Binder, boolean};
use super::comparison::row_fields;
use crate::algebra::{Expression, ExpressionKind};

impl Binder<'_> {
    pub(super) fn unary(
        &mut self,
        operator: UnaryOperator,
        inner: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let name = match operator {
            UnaryOperator::Not => {
                let value = self.expression(inner)?;
                let value = self.coerce_to_boolean(value, "NOT")?;
                return Ok(boolean(ExpressionKind::Not(Box::new(value)), position));
            }
            UnaryOperator::Minus => {
                // The smallest integers have no positive counterpart.
                if let Expr::Value(value) = inner
                    && let Value::Number(text, _) = &value.value
                {
                    return self.number(&format!("-{text}"), position);
                }
                "-"
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::PGAbs => "@",
            other => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("operator does not exist: {other}"),
                )
                .at(position));
            }
        };
        let value = self.expression(inner)?;
        self.operator(None, name, None, value, position)
    }

    pub(super) fn binary(
        &mut self,
        left: &Expr,
        operator: &BinaryOperator,
        right: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                let construct = if *operator == BinaryOperator::And { "AND" } else { "OR" };
                let mut operands = Vec::new();
                self.operands(left, operator, construct, &mut operands)?;
                self.operands(right, operator, construct, &mut operands)?;
                let kind = if *operator == BinaryOperator::And {
                    ExpressionKind::And(operands)
                } else {
                    ExpressionKind::Or(operands)
                };
                return Ok(boolean(kind, position));
            }
            BinaryOperator::Overlaps => {
                let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "wrong number of parameters on left side of OVERLAPS expression",
                    )
                    .at(position));
                };
                let mut arguments = Vec::new();
                for value in left.iter().chain(right) {
                    arguments.push(self.expression(value)?);
                }
                return self.simple_call("overlaps", arguments, position);
            }
            _ => {}
        }
        let (schema, name) = operator_name(operator);
        // Where the operator stands is not kept; PostgreSQL points at it.
        let position = self.operator_position(left, &name).or(position);
        if let (Some(left_fields), Some(right_fields)) = (row_fields(left), row_fields(right))
            && schema.is_none()
        {
            return self.row_comparison(&name, left_fields, right_fields, position);
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        self.operator(schema.as_deref(), &name, Some(left), right, position)
    }

    fn operator_position(&self, left: &Expr, name: &str) -> Option<u32> {
        use sqlparser::ast::Spanned;
        self.text.find_after(left.span().end, name)
    }

    /// The operands of a chain of `AND` or `OR`, without recursion along it.
    fn operands(
        &mut self,
        expr: &Expr,
        operator: &BinaryOperator,
        construct: &str,
        into: &mut Vec<Expression>,
    ) -> SqlResult<()> {
        let mut pending = vec![expr];
        while let Some(next) = pending.pop() {
            match next {
                Expr::BinaryOp { left, op, right } if op == operator => {
                    pending.push(right);
                    pending.push(left);
                }
                other => {
                    let value = self.expression(other)?;
                    into.push(self.coerce_to_boolean(value, construct)?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn like(
        &mut self,
        operator: &str,
        value: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(value)?;
        let mut pattern = self.expression(pattern)?;
        if let Some(escape) = escape {
            let escape = self.expression(escape)?;
            pattern = self.simple_call("like_escape", vec![pattern, escape], position)?;
        }
        self.operator(None, operator, Some(value), pattern, position)
    }
}

/// The schema and the name of an operator.
pub(super) fn operator_name(operator: &BinaryOperator) -> (Option<String>, String) {
    match operator {
        BinaryOperator::PGCustomBinaryOperator(parts) => {
            let name = parts.last().cloned().unwrap_or_default();
            let schema = parts
                .len()
                .checked_sub(2)
                .and_then(|index| parts.get(index))
                .map(|schema| schema.to_lowercase());
            (schema, name)
        }
        BinaryOperator::NotEq => (None, "<>".to_owned()),
        BinaryOperator::PGExp => (None, "^".to_owned()),
        BinaryOperator::BitwiseXor => (None, "^".to_owned()),
        other => (None, other.to_string()),
    }
}
