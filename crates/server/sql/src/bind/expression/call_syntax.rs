//! Functions that have a syntax of their own in the standard, and those without parentheses.

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{Expr, ObjectName, TrimWhereField};

use super::identifier::qualified;
use crate::algebra::{Call, Expression, Written};
use crate::bind::Binder;
use crate::bind::call::{Argument, FunctionName, FunctionOrCast};
use crate::bind::constant;
use crate::bind::types::type_name;

/// How conversions that nobody wrote are marked.
pub(in crate::bind) const IMPLICIT: Written = Written::ImplicitCast;

/// What may have a collation.
const COLLATABLE: [u32; 7] =
    [oid::TEXT, oid::VARCHAR, oid::BPCHAR, oid::NAME, oid::TEXT_ARRAY, oid::VARCHAR_ARRAY, oid::NAME_ARRAY];

impl Binder<'_> {
    /// A call with these arguments.
    pub(super) fn call_of<'e>(
        &mut self,
        name: &str,
        arguments: impl IntoIterator<Item = &'e Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let arguments =
            arguments.into_iter().map(|argument| self.expression(argument)).collect::<SqlResult<_>>()?;
        self.simple_call(name, arguments, position)
    }

    pub(super) fn similar_to(
        &mut self,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(expr)?;
        let pattern = self.call_of("similar_to_escape", [pattern].into_iter().chain(escape), position)?;
        self.operator(None, if is_negated { "!~" } else { "~" }, Some(value), pattern, position)
    }

    pub(super) fn substring(
        &mut self,
        expr: &Expr,
        from: Option<&Expr>,
        length: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let mut arguments = vec![self.expression(expr)?];
        if from.is_none() && length.is_some() {
            arguments.push(constant(Datum::Int4(1), oid::INT4));
        }
        for argument in from.into_iter().chain(length) {
            arguments.push(self.expression(argument)?);
        }
        self.simple_call("substring", arguments, position)
    }

    pub(super) fn trim<'e>(
        &mut self,
        place: Option<TrimWhereField>,
        expr: &'e Expr,
        characters: impl Iterator<Item = &'e Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let name = match place {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        };
        self.call_of(name, [expr].into_iter().chain(characters), position)
    }

    /// `COLLATE`. There is one order of text, that of its bytes, under several names.
    pub(super) fn collate(
        &mut self,
        expr: &Expr,
        collation: &ObjectName,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (_, name) = qualified(collation);
        let value = self.expression(expr)?;
        if !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8" | "C.utf8") {
            let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position));
        }
        let value = self.known(value)?;
        if !COLLATABLE.contains(&value.of.oid) {
            let message = format!("collations are not supported by type {}", type_name(value.of.oid));
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(position));
        }
        Ok(value)
    }

    /// A function of PostgreSQL's that special syntax stands for.
    pub(in crate::bind) fn simple_call(
        &mut self,
        name: &str,
        arguments: Vec<Expression>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
        let function = FunctionName { schema: Some("pg_catalog".to_owned()), name: name.to_owned() };
        match self.call(&function, arguments, false, position)? {
            FunctionOrCast::Cast(cast) => Ok(*cast),
            FunctionOrCast::Function(chosen) => {
                let call = Call {
                    function: chosen.function,
                    arguments: chosen.arguments,
                    written: Written::Function,
                };
                self.implemented(call, chosen.result, position)
            }
        }
    }

    /// `CURRENT_DATE` and its like: functions without parentheses.
    pub(in crate::bind) fn value_function(
        &mut self,
        name: &str,
        precision: Option<i32>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (source, target) = match name {
            "current_date" => ("now", Some(oid::DATE)),
            "current_time" => ("now", Some(oid::TIMETZ)),
            "localtime" => ("now", Some(oid::TIME)),
            "localtimestamp" => ("now", Some(oid::TIMESTAMP)),
            "current_timestamp" => ("now", None),
            "user" | "current_role" => ("current_user", None),
            "current_catalog" => ("current_database", None),
            other => (other, None),
        };
        let value = self.simple_call(source, Vec::new(), position)?;
        let value = match target {
            Some(target) => self.coerce(value, target, CastContext::Explicit, IMPLICIT)?,
            None => value,
        };
        match precision {
            Some(precision) => self.with_modifier(value, precision.min(6), CastContext::Explicit),
            None => Ok(value),
        }
    }
}
