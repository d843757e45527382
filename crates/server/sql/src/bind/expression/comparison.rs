//! Comparisons: of rows, `IS DISTINCT FROM`, `BETWEEN`, and the equality that other clauses ask for.

use std::sync::Arc;

use seawall_values::system::FunctionRow;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};
use sqlparser::ast::Expr;

use super::super::{Binder, boolean};
use crate::algebra::{Expression, ExpressionKind, RowOrder};

impl Binder<'_> {
    pub(super) fn row_comparison(
        &mut self,
        name: &str,
        left: &[Expr],
        right: &[Expr],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if left.len() != right.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            )
            .at(position));
        }
        let mut bound = (Vec::new(), Vec::new());
        for (left, right) in left.iter().zip(right) {
            bound.0.push(self.expression(left)?);
            bound.1.push(self.expression(right)?);
        }
        self.bound_rows(name, bound.0, bound.1, position)
    }

    pub(super) fn bound_rows(
        &mut self,
        name: &str,
        left: Vec<Expression>,
        right: Vec<Expression>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if left.is_empty() {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length")
                .at(position));
        }
        let order = match name {
            "=" | "<>" => None,
            "<" => Some(RowOrder::Less),
            "<=" => Some(RowOrder::LessOrEqual),
            ">" => Some(RowOrder::Greater),
            ">=" => Some(RowOrder::GreaterOrEqual),
            _ => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("could not determine interpretation of row comparison operator {name}"),
                )
                .with_hint("Row comparison operators must be associated with btree operator families.")
                .at(position));
            }
        };
        if let Some(operator) = order {
            // The operator says which types the sides are compared as.
            let mut sides = (Vec::new(), Vec::new());
            for (left, right) in left.into_iter().zip(right) {
                let compared = self.operator(None, name, Some(left), right, position)?;
                let ExpressionKind::Call(call) = compared.kind else { continue };
                let mut arguments = call.arguments.into_iter();
                sides.0.extend(arguments.next());
                sides.1.extend(arguments.next());
            }
            return Ok(boolean(
                ExpressionKind::RowCompare { operator, left: sides.0, right: sides.1 },
                position,
            ));
        }
        let mut tests = Vec::new();
        for (left, right) in left.into_iter().zip(right) {
            tests.push(self.operator(None, name, Some(left), right, position)?);
        }
        if tests.len() == 1
            && let Some(only) = tests.pop()
        {
            return Ok(only);
        }
        Ok(boolean(
            if name == "=" { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) },
            position,
        ))
    }

    /// The function of `=` for two values, and these converted to its types.
    pub(in crate::bind) fn equality(
        &mut self,
        left: Expression,
        right: Expression,
        position: Option<u32>,
    ) -> SqlResult<(Expression, Expression, Arc<FunctionRow>)> {
        let compared = self.operator(None, "=", Some(left), right, position)?;
        let (ExpressionKind::Call(call) | ExpressionKind::SessionCall(call)) = compared.kind else {
            return Err(SqlError::internal("an operator that is no call"));
        };
        let function = Arc::clone(&call.function);
        let mut arguments = call.arguments.into_iter();
        match (arguments.next(), arguments.next()) {
            (Some(left), Some(right)) => Ok((left, right, function)),
            _ => Err(SqlError::internal("an operator without its sides")),
        }
    }

    pub(super) fn distinct(
        &mut self,
        left: &Expr,
        right: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if let (Some(left), Some(right)) = (row_fields(left), row_fields(right)) {
            if left.len() != right.len() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "unequal number of entries in row expressions",
                )
                .at(position));
            }
            let mut tests = Vec::new();
            for (left, right) in left.iter().zip(right) {
                tests.push(self.distinct(left, right, position)?);
            }
            return Ok(boolean(ExpressionKind::Or(tests), position));
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        if let ExpressionKind::Constant(Datum::Null) = right.kind {
            return Ok(boolean(ExpressionKind::IsNotNull(Box::new(left)), position));
        }
        let (left, right, equals) = self.equality(left, right, position)?;
        let kind = ExpressionKind::IsDistinct { left: Box::new(left), right: Box::new(right), equals };
        Ok(boolean(kind, position))
    }

    pub(super) fn between(
        &mut self,
        value: &Expr,
        low: &Expr,
        high: &Expr,
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (value, low, high) = (self.expression(value)?, self.expression(low)?, self.expression(high)?);
        let (first, second) = if is_negated { ("<", ">") } else { (">=", "<=") };
        let first = self.operator(None, first, Some(value.clone()), low, position)?;
        let second = self.operator(None, second, Some(value), high, position)?;
        let tests = vec![first, second];
        Ok(boolean(if is_negated { ExpressionKind::Or(tests) } else { ExpressionKind::And(tests) }, position))
    }
}

/// The fields of a row that is written out.
pub(super) fn row_fields(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(fields) => Some(fields),
        Expr::Nested(inner) => row_fields(inner),
        Expr::Function(call) if call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("row") => {
            None
        }
        _ => None,
    }
}
