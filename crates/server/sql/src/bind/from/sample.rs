//! `TABLESAMPLE`: some rows of a table.
//!
//! Each row has the same chance, whichever method is named: rows lie in no blocks that could be drawn instead. With `REPEATABLE`, what the row
//! is stored under decides, and the seed; so the same rows come again as long as they are there.

use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TableSample, TableSampleMethod,
    TableSampleModifier, UnaryOperator, Value,
};

use super::super::expression::qualified;
use super::super::{Binder, column, constant};
use super::FromItem;
use crate::algebra::{Expression, Relation};

const INVALID_ARGUMENT: SqlState = SqlState::new(b"2202H");
const INVALID_REPEAT: SqlState = SqlState::new(b"2202G");
/// What is looked at of a hash: so many different chances.
const CHANCES: i64 = 1 << 30;

impl Binder<'_> {
    pub(super) fn sampled(
        &mut self,
        item: FromItem,
        sample: &TableSample,
        position: Option<u32>,
    ) -> SqlResult<FromItem> {
        let table = item.tables.first().filter(|table| table.table.is_some());
        let Some(row) = table.and_then(|table| table.row) else {
            let message = "TABLESAMPLE clause can only be applied to tables and materialized views";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        };
        let percent = number(method_argument(sample)?)?
            .ok_or_else(|| SqlError::new(INVALID_ARGUMENT, "TABLESAMPLE parameter cannot be null"))?;
        if !(0.0..=100.0).contains(&percent) {
            let message = "sample percentage must be between 0 and 100";
            return Err(SqlError::new(INVALID_ARGUMENT, message));
        }
        let chance = match &sample.seed {
            None => self.simple_call("random", Vec::new(), None)?,
            Some(seed) => {
                let seed = number(&Expr::Value(seed.value.clone()))?.ok_or_else(|| {
                    SqlError::new(INVALID_REPEAT, "TABLESAMPLE REPEATABLE parameter cannot be null")
                })?;
                let row = column(row, TypeReference::of(oid::BYTEA));
                self.chance_of(row, seed)?
            }
        };
        let limit = constant(Datum::Float8(percent / 100.0), oid::FLOAT8);
        let predicate = self.operator(None, "<", Some(chance), limit, None)?;
        Ok(FromItem { relation: Relation::Filter { input: Box::new(item.relation), predicate }, ..item })
    }

    /// A number from 0 up to 1 that depends on a row and a seed.
    fn chance_of(&mut self, row: Expression, seed: f64) -> SqlResult<Expression> {
        let text = self.simple_call("encode", vec![row, constant(Datum::text("hex"), oid::TEXT)], None)?;
        let seed = constant(Datum::Int8(i64::from_ne_bytes(seed.to_bits().to_ne_bytes())), oid::INT8);
        let hash = self.simple_call("hashtextextended", vec![text, seed], None)?;
        let bits = constant(Datum::Int8(CHANCES - 1), oid::INT8);
        let bits = self.operator(None, "&", Some(hash), bits, None)?;
        #[expect(clippy::cast_precision_loss, reason = "a power of two")]
        let all = constant(Datum::Float8(CHANCES as f64), oid::FLOAT8);
        self.operator(None, "/", Some(bits), all, None)
    }
}

/// The argument of the method. sqlparser knows the words of some methods, and takes those of others for functions.
fn method_argument(sample: &TableSample) -> SqlResult<&Expr> {
    let unsupported = || SqlError::unsupported("this form of TABLESAMPLE");
    let quantity = sample.quantity.as_ref().filter(|quantity| {
        let is_plain = sample.bucket.is_none() && sample.offset.is_none() && quantity.unit.is_none();
        is_plain && sample.modifier == TableSampleModifier::TableSample
    });
    let quantity = quantity.ok_or_else(unsupported)?;
    match (sample.name, &quantity.value) {
        (Some(TableSampleMethod::Bernoulli | TableSampleMethod::System), value) if quantity.parenthesized => {
            Ok(value)
        }
        (None, Expr::Function(call)) => {
            let (_, method) = qualified(&call.name);
            if !matches!(method.as_str(), "bernoulli" | "system") {
                let message = format!("tablesample method {method} does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            let FunctionArguments::List(list) = &call.args else { return Err(unsupported()) };
            match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Ok(argument),
                arguments => {
                    let message =
                        format!("tablesample method {method} requires 1 argument, not {}", arguments.len());
                    Err(SqlError::new(INVALID_ARGUMENT, message))
                }
            }
        }
        _ => Err(unsupported()),
    }
}

/// A number as it is written; `None`: null.
fn number(written: &Expr) -> SqlResult<Option<f64>> {
    match written {
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(number(expr)?.map(|number| -number)),
        Expr::Value(value) => match &value.value {
            Value::Null => Ok(None),
            Value::Number(digits, _) => digits.parse().map(Some).map_err(|_| not_a_number()),
            _ => Err(not_a_number()),
        },
        _ => Err(not_a_number()),
    }
}

fn not_a_number() -> Box<SqlError> {
    SqlError::unsupported("an argument of TABLESAMPLE that is not a number")
}
