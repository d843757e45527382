//! Calls of functions.

use std::sync::Arc;

use seawall_values::functions::{Call, Implementation};
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::super::compare::compare;
use super::super::context::Context;
use super::{Expression, Operator};
use crate::algebra::Written;

/// A call of a function of types.
#[derive(Debug)]
pub(crate) struct FunctionCall {
    pub(crate) function: Arc<FunctionRow>,
    /// How it was written, for `EXPLAIN`.
    pub(crate) written: Written,
    pub(crate) implementation: Implementation,
    pub(crate) is_strict: bool,
    pub(crate) arguments: Box<[Expression]>,
    pub(crate) types: Box<[TypeReference]>,
    pub(crate) result: TypeReference,
}

impl FunctionCall {
    #[inline]
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        match &*self.arguments {
            [first] => {
                let values = [first.evaluate(context)?];
                self.apply(&values, context)
            }
            [first, second] => {
                let first = first.evaluate(context)?;
                if self.is_strict && first.is_null() {
                    // The second one is evaluated all the same: it may fail, or have an effect.
                    second.evaluate(context)?;
                    return Ok(Datum::Null);
                }
                let values = [first, second.evaluate(context)?];
                self.apply(&values, context)
            }
            [first, second, third] => {
                let values = [first.evaluate(context)?, second.evaluate(context)?, third.evaluate(context)?];
                self.apply(&values, context)
            }
            arguments => {
                let values = evaluate_all(arguments, context)?;
                self.apply(&values, context)
            }
        }
    }

    /// Calls the function with values.
    #[inline]
    pub(crate) fn apply(&self, arguments: &[Datum], context: &Context<'_>) -> SqlResult<Datum> {
        if self.is_strict && arguments.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        (self.implementation)(&Call {
            arguments,
            argument_types: &self.types,
            result_type: self.result,
            settings: context.settings,
        })
    }
}

/// A call of a function of the session.
#[derive(Debug)]
pub(crate) struct SessionCall {
    pub(crate) function: Arc<FunctionRow>,
    pub(crate) arguments: Box<[Expression]>,
    pub(crate) types: Box<[TypeReference]>,
    pub(crate) result: TypeReference,
}

impl SessionCall {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let arguments = evaluate_all(&self.arguments, context)?;
        if self.function.is_strict && arguments.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let call = Call {
            arguments: &arguments,
            argument_types: &self.types,
            result_type: self.result,
            settings: context.settings,
        };
        context.storage.call(&self.function, &call)
    }
}

/// A function of two values that are at hand, such as that of an operator.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) function: Arc<FunctionRow>,
    pub(crate) means: BinaryMeans,
    pub(crate) types: [TypeReference; 2],
    pub(crate) result: TypeReference,
}

/// How a function of two values is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BinaryMeans {
    /// By the order of the type; the flag: spaces at the end do not count.
    Order(Operator, bool),
    Call(Implementation),
}

impl Binary {
    /// The result as a truth value.
    pub(crate) fn test(&self, left: &Datum, right: &Datum, context: &Context<'_>) -> SqlResult<Option<bool>> {
        let has_null = left.is_null() || right.is_null();
        let implementation = match self.means {
            BinaryMeans::Order(operator, is_padded) => {
                return Ok((!has_null).then(|| operator.accepts(compare(left, right, is_padded))));
            }
            BinaryMeans::Call(_) if has_null && self.function.is_strict => return Ok(None),
            BinaryMeans::Call(implementation) => implementation,
        };
        let result = implementation(&Call {
            arguments: &[left.clone(), right.clone()],
            argument_types: &self.types,
            result_type: self.result,
            settings: context.settings,
        })?;
        Ok(match result {
            Datum::Bool(value) => Some(value),
            _ => None,
        })
    }
}

/// The values of expressions.
pub(crate) fn evaluate_all(expressions: &[Expression], context: &mut Context<'_>) -> SqlResult<Vec<Datum>> {
    expressions.iter().map(|expression| expression.evaluate(context)).collect()
}

/// The value of a parameter.
pub(crate) fn parameter(number: usize, context: &Context<'_>) -> SqlResult<Datum> {
    context.state.parameters.get(number).cloned().ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${}", number + 1))
    })
}

/// The next value of a sequence, as a value of the column's type.
pub(crate) fn next_value(sequence: Oid, of: Oid, context: &mut Context<'_>) -> SqlResult<Datum> {
    let value = context.storage.next_value(sequence)?;
    match of {
        oid::INT2 => i16::try_from(value).map(Datum::Int2).map_err(|_| out_of_range("smallint")),
        oid::INT4 => i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer")),
        _ => Ok(Datum::Int8(value)),
    }
}

/// `22003`.
#[cold]
pub(crate) fn out_of_range(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}
