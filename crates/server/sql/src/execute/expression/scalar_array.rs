//! `ANY (array)`, `ALL (array)` and lists of `IN`.

use seawall_values::{Datum, SqlError, SqlResult};

use super::super::context::Context;
use super::super::groups::Groups;
use super::call::Binary;
use super::{Expression, from_truth};

/// `left operator ANY (array)`, or `ALL`.
#[derive(Debug)]
pub(crate) struct ScalarArray {
    pub(crate) left: Expression,
    pub(crate) array: Expression,
    pub(crate) function: Binary,
    pub(crate) is_any: bool,
}

impl ScalarArray {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let left = self.left.evaluate(context)?;
        let array = match self.array.evaluate(context)? {
            Datum::Null => return Ok(Datum::Null),
            Datum::Array(array) => array,
            other => return Err(SqlError::internal(format!("ANY over {other:?}, which is not an array"))),
        };
        if array.values.is_empty() {
            return Ok(Datum::Bool(!self.is_any));
        }
        let mut has_null = false;
        for value in &array.values {
            match self.function.test(&left, value, context)? {
                Some(result) if result == self.is_any => return Ok(Datum::Bool(self.is_any)),
                Some(_) => {}
                None => has_null = true,
            }
        }
        Ok(from_truth((!has_null).then_some(!self.is_any)))
    }
}

/// `left = ANY (constants)`, or `left <> ALL (constants)` (`is_negated`), hashed.
#[derive(Debug)]
pub(crate) struct InSet {
    pub(crate) left: Expression,
    pub(crate) set: Groups,
    pub(crate) has_null: bool,
    pub(crate) is_negated: bool,
}

impl InSet {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let value = self.left.evaluate(context)?;
        if value.is_null() {
            return Ok(Datum::Null);
        }
        let value = std::slice::from_ref(&value);
        let is_in = self.set.find(self.set.hash(value), value).is_some();
        let truth = (is_in || !self.has_null).then_some(is_in != self.is_negated);
        Ok(from_truth(truth))
    }
}
