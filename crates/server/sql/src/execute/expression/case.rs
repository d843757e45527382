//! `CASE`, `COALESCE`, `NULLIF`, `GREATEST`, `LEAST`, `IS DISTINCT FROM`.

use std::cmp::Ordering;

use seawall_values::{Datum, SqlResult};

use super::super::compare::compare;
use super::super::context::Context;
use super::{Expression, Pair};

/// `CASE`.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) branches: Box<[(Expression, Expression)]>,
    pub(crate) otherwise: Option<Expression>,
}

impl Case {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        for (condition, result) in &self.branches {
            if condition.is_true(context)? {
                return result.evaluate(context);
            }
        }
        self.otherwise.as_ref().map_or(Ok(Datum::Null), |otherwise| otherwise.evaluate(context))
    }
}

pub(crate) fn coalesce(operands: &[Expression], context: &mut Context<'_>) -> SqlResult<Datum> {
    for operand in operands {
        let value = operand.evaluate(context)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Datum::Null)
}

pub(crate) fn extreme(
    operands: &[Expression],
    is_greatest: bool,
    is_padded: bool,
    context: &mut Context<'_>,
) -> SqlResult<Datum> {
    let wanted = if is_greatest { Ordering::Greater } else { Ordering::Less };
    let mut best = Datum::Null;
    for operand in operands {
        let value = operand.evaluate(context)?;
        if !value.is_null() && (best.is_null() || compare(&value, &best, is_padded) == wanted) {
            best = value;
        }
    }
    Ok(best)
}

pub(crate) fn is_distinct(pair: &Pair, context: &mut Context<'_>) -> SqlResult<Datum> {
    let sides = [pair.left.evaluate(context)?, pair.right.evaluate(context)?];
    let is_distinct = match (sides[0].is_null(), sides[1].is_null()) {
        (true, true) => false,
        (false, false) => pair.equals.test(&sides[0], &sides[1], context)? != Some(true),
        _ => true,
    };
    Ok(Datum::Bool(is_distinct))
}

pub(crate) fn null_if(pair: &Pair, context: &mut Context<'_>) -> SqlResult<Datum> {
    let sides = [pair.left.evaluate(context)?, pair.right.evaluate(context)?];
    let is_equal = pair.equals.test(&sides[0], &sides[1], context)? == Some(true);
    let [left, _] = sides;
    Ok(if is_equal { Datum::Null } else { left })
}
