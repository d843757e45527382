//! Expressions as they are evaluated: compiled from the algebra, with slots of the row in the place of columns.
//!
//! ```text
//!   algebra::Expression --optimize::compile--> Expression --evaluate(context)--> Datum
//! ```
//! Evaluation allocates nothing for integers, booleans and comparisons of texts; arguments of functions with up to three of them are on
//! the stack. The compiler limits the depth, so the recursion here is bounded.

mod arithmetic;
mod array;
mod assignment;
mod call;
mod case;
mod comparison;
mod domain;
mod row;
mod scalar_array;

use seawall_values::{Datum, Oid, SqlResult, TypeReference};

pub(crate) use arithmetic::{Arithmetic, IntegerOperator};
pub(crate) use array::{ArrayConstructor, ConvertElements, SubscriptPart, Subscripts, nest};
pub(crate) use assignment::Assignment;
pub(crate) use call::{Binary, BinaryMeans, FunctionCall, SessionCall};
pub(crate) use case::Case;
pub(crate) use comparison::{Comparison, Operator, comparison_of};
pub(crate) use domain::DomainCheck;
pub(crate) use row::{RowCompare, RowConstructor};
pub(crate) use scalar_array::{InSet, ScalarArray};

use super::context::Context;
use super::object_names;
use super::subquery;

/// A value to compute.
#[derive(Debug)]
pub(crate) enum Expression {
    Constant(Datum),
    /// A slot of the row.
    Slot(usize),
    Parameter(usize),
    Call(Box<FunctionCall>),
    SessionCall(Box<SessionCall>),
    Compare(Box<Comparison>),
    Arithmetic(Box<Arithmetic>),
    And(Box<[Expression]>),
    Or(Box<[Expression]>),
    Not(Box<Expression>),
    IsNull(Box<Expression>),
    IsNotNull(Box<Expression>),
    IsBoolean(Box<Expression>, bool),
    /// `IS DISTINCT FROM`: both sides, and their comparison over the two slots that it writes them to.
    IsDistinct(Box<Pair>),
    NullIf(Box<Pair>),
    Case(Box<Case>),
    Coalesce(Box<[Expression]>),
    /// The greatest (`true`) or the least.
    Extreme(Box<[Expression]>, bool, bool),
    Array(Box<ArrayConstructor>),
    Row(Box<RowConstructor>),
    RowCompare(Box<RowCompare>),
    Field(Box<Expression>, usize),
    Subscript(Box<Subscripts>),
    Assign(Box<Assignment>),
    ScalarArray(Box<ScalarArray>),
    InSet(Box<InSet>),
    /// A number as the number of an object, or the other way round.
    Relabel(Box<Expression>, Oid),
    ConvertByText(Box<Conversion>),
    ConvertElements(Box<ConvertElements>),
    CheckDomain(Box<DomainCheck>),
    /// A subquery, by its number.
    Subquery(usize),
    NextValue(Oid, Oid),
}

/// Two sides and the function of `=` for them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) left: Expression,
    pub(crate) right: Expression,
    pub(crate) equals: Binary,
}

/// A cast through the text forms.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) value: Expression,
    pub(crate) from: TypeReference,
    pub(crate) to: TypeReference,
}

impl Expression {
    /// The value, if it is at hand without a computation.
    #[inline]
    pub(crate) fn peek<'c>(&'c self, context: &'c Context<'_>) -> Option<&'c Datum> {
        match self {
            Expression::Constant(value) => Some(value),
            Expression::Slot(slot) => context.row.get(*slot),
            Expression::Parameter(number) => context.state.parameters.get(*number),
            _ => None,
        }
    }

    /// Whether the value is true: neither false nor null.
    #[inline]
    pub(crate) fn is_true(&self, context: &mut Context<'_>) -> SqlResult<bool> {
        match self {
            Expression::Compare(comparison) => Ok(comparison.test(context)? == Some(true)),
            Expression::And(terms) => {
                for term in terms {
                    if !term.is_true(context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(matches!(self.evaluate(context)?, Datum::Bool(true))),
        }
    }

    /// The truth value: `None` is null.
    pub(crate) fn truth(&self, context: &mut Context<'_>) -> SqlResult<Option<bool>> {
        if let Expression::Compare(comparison) = self {
            return comparison.test(context);
        }
        Ok(match self.evaluate(context)? {
            Datum::Bool(value) => Some(value),
            _ => None,
        })
    }

    /// The value.
    ///
    /// # Errors
    /// Those of functions and subqueries.
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        match self {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Slot(slot) => Ok(context.row[*slot].clone()),
            Expression::Parameter(number) => call::parameter(*number, context),
            Expression::Call(call) => call.evaluate(context),
            Expression::SessionCall(call) => call.evaluate(context),
            Expression::Compare(comparison) => Ok(from_truth(comparison.test(context)?)),
            Expression::Arithmetic(arithmetic) => arithmetic.evaluate(context),
            Expression::And(terms) => connective(terms, false, context),
            Expression::Or(terms) => connective(terms, true, context),
            Expression::Not(operand) => Ok(from_truth(operand.truth(context)?.map(|value| !value))),
            Expression::IsNull(operand) => row::is_null(operand, context),
            Expression::IsNotNull(operand) => row::is_not_null(operand, context),
            Expression::IsBoolean(operand, wanted) => {
                Ok(Datum::Bool(operand.truth(context)? == Some(*wanted)))
            }
            Expression::IsDistinct(pair) => case::is_distinct(pair, context),
            Expression::NullIf(pair) => case::null_if(pair, context),
            Expression::Case(case) => case.evaluate(context),
            Expression::Coalesce(operands) => case::coalesce(operands, context),
            Expression::Extreme(operands, is_greatest, is_padded) => {
                case::extreme(operands, *is_greatest, *is_padded, context)
            }
            Expression::Array(array) => array.evaluate(context),
            Expression::Row(row) => row.evaluate(context),
            Expression::RowCompare(compare) => compare.evaluate(context),
            Expression::Field(row, field) => row::field(row, *field, context),
            Expression::Subscript(subscripts) => subscripts.evaluate(context),
            Expression::Assign(assignment) => assignment.evaluate(context),
            Expression::ScalarArray(test) => test.evaluate(context),
            Expression::InSet(test) => test.evaluate(context),
            Expression::Relabel(value, to) => Ok(value.evaluate(context)?.relabeled(*to)),
            Expression::ConvertByText(conversion) => conversion.evaluate(context),
            Expression::ConvertElements(conversion) => conversion.evaluate(context),
            Expression::CheckDomain(check) => check.evaluate(context),
            Expression::Subquery(number) => subquery::evaluate(*number, context),
            Expression::NextValue(sequence, of) => call::next_value(*sequence, *of, context),
        }
    }
}

/// A truth value as a datum.
#[inline]
pub(crate) fn from_truth(truth: Option<bool>) -> Datum {
    truth.map_or(Datum::Null, Datum::Bool)
}

/// `AND` (`decisive` is false) or `OR` (true): the decisive value wins, then null.
fn connective(terms: &[Expression], decisive: bool, context: &mut Context<'_>) -> SqlResult<Datum> {
    let mut has_null = false;
    for term in terms {
        match term.truth(context)? {
            Some(value) if value == decisive => return Ok(Datum::Bool(decisive)),
            Some(_) => {}
            None => has_null = true,
        }
    }
    Ok(if has_null { Datum::Null } else { Datum::Bool(!decisive) })
}

impl Conversion {
    fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let value = self.value.evaluate(context)?;
        if value.is_null() {
            return Ok(value);
        }
        convert_by_text(&value, self.from, self.to, context)
    }
}

/// The value of one type as one of another, through the text forms.
pub(crate) fn convert_by_text(
    value: &Datum,
    from: TypeReference,
    to: TypeReference,
    context: &mut Context<'_>,
) -> SqlResult<Datum> {
    let mut text = String::new();
    object_names::output(from.oid, value, context.settings, context.storage, &mut text)?;
    object_names::input(to, &text, context.settings, context.storage)
}
