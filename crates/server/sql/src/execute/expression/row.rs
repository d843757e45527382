//! Rows as values: construction, fields, comparison, tests for null.

use std::sync::Arc;

use seawall_values::{Datum, FieldNames, Oid, Record, SqlError, SqlResult, SqlState};

use super::super::context::Context;
use super::call::evaluate_all;
use super::{Expression, from_truth};
use crate::algebra::RowOrder;

/// `ROW(..)`.
#[derive(Debug)]
pub(crate) struct RowConstructor {
    pub(crate) types: Box<[Oid]>,
    pub(crate) names: Option<FieldNames>,
    pub(crate) fields: Box<[Expression]>,
    /// Whether a row whose fields are all null is null as a whole: the row of an outer join that has no match.
    pub(crate) is_nullable: bool,
}

impl RowConstructor {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let values = evaluate_all(&self.fields, context)?;
        if self.is_nullable && values.iter().all(Datum::is_null) {
            return Ok(Datum::Null);
        }
        Ok(Datum::Record(Arc::new(Record { types: self.types.to_vec(), names: self.names.clone(), values })))
    }
}

/// A comparison of rows: the first fields that differ decide.
#[derive(Debug)]
pub(crate) struct RowCompare {
    pub(crate) operator: RowOrder,
    pub(crate) left: Box<[Expression]>,
    pub(crate) right: Box<[Expression]>,
    /// Which fields are `character(n)`.
    pub(crate) padded: Box<[bool]>,
}

impl RowCompare {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut ordering = std::cmp::Ordering::Equal;
        for ((left, right), is_padded) in self.left.iter().zip(&self.right).zip(&self.padded) {
            let (left, right) = (left.evaluate(context)?, right.evaluate(context)?);
            if left.is_null() || right.is_null() {
                return Ok(Datum::Null);
            }
            ordering = super::super::compare::compare(&left, &right, *is_padded);
            if ordering.is_ne() {
                break;
            }
        }
        let is_true = match self.operator {
            RowOrder::Less => ordering.is_lt(),
            RowOrder::LessOrEqual => ordering.is_le(),
            RowOrder::Greater => ordering.is_gt(),
            RowOrder::GreaterOrEqual => ordering.is_ge(),
        };
        Ok(from_truth(Some(is_true)))
    }
}

pub(crate) fn is_null(operand: &Expression, context: &mut Context<'_>) -> SqlResult<Datum> {
    if let Some(value) = operand.peek(context) {
        return Ok(Datum::Bool(is_all_null(value)));
    }
    Ok(Datum::Bool(is_all_null(&operand.evaluate(context)?)))
}

pub(crate) fn is_not_null(operand: &Expression, context: &mut Context<'_>) -> SqlResult<Datum> {
    let value = operand.evaluate(context)?;
    Ok(Datum::Bool(match &value {
        Datum::Null => false,
        Datum::Record(record) => record.values.iter().all(|field| !field.is_null()),
        _ => true,
    }))
}

fn is_all_null(value: &Datum) -> bool {
    match value {
        Datum::Null => true,
        Datum::Record(record) => record.values.iter().all(Datum::is_null),
        _ => false,
    }
}

pub(crate) fn field(row: &Expression, field: usize, context: &mut Context<'_>) -> SqlResult<Datum> {
    match row.evaluate(context)? {
        Datum::Null => Ok(Datum::Null),
        Datum::Record(record) => record.values.get(field).cloned().ok_or_else(|| {
            SqlError::new(SqlState::DATATYPE_MISMATCH, format!("row has no field {}", field + 1))
        }),
        other => Err(SqlError::internal(format!("field {field} of {other:?}, which is not a row"))),
    }
}
