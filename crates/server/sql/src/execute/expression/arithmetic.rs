//! Arithmetic of integers, without a call.

use seawall_values::{Datum, SqlError, SqlResult};

use super::super::context::Context;
use super::Expression;
use super::call::out_of_range;

/// An operator of two integers of one width, or of `integer` and `bigint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntegerOperator {
    Add,
    Subtract,
    Multiply,
}

/// The operator applied to two expressions.
#[derive(Debug)]
pub(crate) struct Arithmetic {
    pub(crate) operator: IntegerOperator,
    pub(crate) left: Expression,
    pub(crate) right: Expression,
}

impl IntegerOperator {
    /// The operator whose function has this source.
    pub(crate) fn of(source: &str) -> Option<IntegerOperator> {
        match source {
            "int4pl" | "int8pl" | "int48pl" | "int84pl" => Some(IntegerOperator::Add),
            "int4mi" | "int8mi" | "int48mi" | "int84mi" => Some(IntegerOperator::Subtract),
            "int4mul" | "int8mul" | "int48mul" | "int84mul" => Some(IntegerOperator::Multiply),
            _ => None,
        }
    }
}

impl Arithmetic {
    #[inline]
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let left = self.left.evaluate(context)?;
        let right = self.right.evaluate(context)?;
        match (left, right) {
            (Datum::Int4(left), Datum::Int4(right)) => {
                let result = match self.operator {
                    IntegerOperator::Add => left.checked_add(right),
                    IntegerOperator::Subtract => left.checked_sub(right),
                    IntegerOperator::Multiply => left.checked_mul(right),
                };
                result.map(Datum::Int4).ok_or_else(|| out_of_range("integer"))
            }
            (Datum::Int8(left), Datum::Int8(right)) => self.wide(left, right),
            (Datum::Int4(left), Datum::Int8(right)) => self.wide(i64::from(left), right),
            (Datum::Int8(left), Datum::Int4(right)) => self.wide(left, i64::from(right)),
            (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
            (left, right) => {
                Err(SqlError::internal(format!("integer arithmetic with {left:?} and {right:?}")))
            }
        }
    }

    #[inline]
    fn wide(&self, left: i64, right: i64) -> SqlResult<Datum> {
        let result = match self.operator {
            IntegerOperator::Add => left.checked_add(right),
            IntegerOperator::Subtract => left.checked_sub(right),
            IntegerOperator::Multiply => left.checked_mul(right),
        };
        result.map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
    }
}
