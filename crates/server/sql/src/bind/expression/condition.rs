//! Tests of one value (`IS NULL`, `IS TRUE`) and `CASE`.

use seawall_values::{Oid, SqlResult, TypeReference};
use sqlparser::ast::Expr;

use super::super::{Binder, boolean};
use crate::algebra::{Expression, ExpressionKind};

impl Binder<'_> {
    pub(super) fn null_test(
        &mut self,
        inner: &Expr,
        is_null: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = Box::new(self.expression(inner)?);
        Ok(boolean(
            if is_null { ExpressionKind::IsNull(value) } else { ExpressionKind::IsNotNull(value) },
            position,
        ))
    }

    pub(super) fn boolean_test(
        &mut self,
        inner: &Expr,
        wanted: Option<bool>,
        is_negated: bool,
        construct: &str,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(inner)?;
        let value = Box::new(self.coerce_to_boolean(value, construct)?);
        let test = match wanted {
            Some(wanted) => boolean(ExpressionKind::IsBoolean(value, wanted), position),
            None => boolean(ExpressionKind::IsNull(value), position),
        };
        Ok(if is_negated { boolean(ExpressionKind::Not(Box::new(test)), position) } else { test })
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[sqlparser::ast::CaseWhen],
        otherwise: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let operand = match operand {
            Some(operand) => {
                let operand = self.expression(operand)?;
                Some(self.known(operand)?)
            }
            None => None,
        };
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            let condition = self.expression(&when.condition)?;
            let condition = match &operand {
                Some(operand) => {
                    let at = condition.position;
                    self.operator(None, "=", Some(operand.clone()), condition, at)?
                }
                None => condition,
            };
            tests.push(self.coerce_to_boolean(condition, "CASE/WHEN")?);
            results.push(self.expression(&when.result)?);
        }
        let otherwise = otherwise.map(|otherwise| self.expression(otherwise)).transpose()?;
        // PostgreSQL looks at the last result first.
        let all: Vec<&Expression> = otherwise.iter().chain(&results).collect();
        let common = self.common_type_of(&all, "CASE")?;
        let modifier = common_modifier(&all, common);
        let mut branches = Vec::with_capacity(tests.len());
        for (test, result) in tests.into_iter().zip(results) {
            branches.push((test, self.coerce_common(result, common, "CASE/WHEN")?));
        }
        let otherwise = match otherwise {
            Some(otherwise) => Some(Box::new(self.coerce_common(otherwise, common, "CASE/ELSE")?)),
            None => None,
        };
        let of = TypeReference { oid: common, modifier };
        Ok(Expression { kind: ExpressionKind::Case { branches, otherwise }, of, position })
    }
}

/// The modifier that all of these have, if they are of the common type.
pub(in crate::bind) fn common_modifier(expressions: &[&Expression], common: Oid) -> i32 {
    let mut modifiers = expressions
        .iter()
        .map(|expression| if expression.of.oid == common { Some(expression.of.modifier) } else { None });
    let Some(Some(first)) = modifiers.next() else { return -1 };
    if modifiers.all(|modifier| modifier == Some(first)) { first } else { -1 }
}
