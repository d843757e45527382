//! Literals and parameters.

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{DataType, DateTimeField, Expr, Ident, ObjectName, ObjectNamePart, Value};

use super::super::{Binder, constant};
use crate::algebra::{Expression, ExpressionKind, Written};

impl Binder<'_> {
    pub(super) fn value(&mut self, value: &Value, position: Option<u32>) -> SqlResult<Expression> {
        let known = |datum, oid| Expression {
            kind: ExpressionKind::Constant(datum),
            of: TypeReference::of(oid),
            position,
        };
        Ok(match value {
            Value::Number(text, _) => return self.number(text, position),
            Value::Boolean(value) => known(Datum::Bool(*value), oid::BOOL),
            Value::Null => known(Datum::Null, oid::UNKNOWN),
            Value::Placeholder(text) => return self.parameter(text, position),
            Value::HexStringLiteral(text) => {
                return self.literal(&format!("x{text}"), TypeReference::of(oid::BIT), position);
            }
            Value::SingleQuotedByteStringLiteral(text) => {
                return self.literal(&format!("b{text}"), TypeReference::of(oid::BIT), position);
            }
            other => match string_value(other) {
                Some(text) => known(Datum::text(text), oid::UNKNOWN),
                None => {
                    return Err(SqlError::unsupported(format!("the literal {other}")).at(position));
                }
            },
        })
    }

    /// `type 'text'`.
    pub(super) fn literal_of_type(
        &mut self,
        value: &Value,
        data_type: &DataType,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let text = string_value(value).ok_or_else(|| SqlError::unsupported("this literal").at(position))?;
        self.typed_literal(&text, data_type, position)
    }

    /// The same with a type's name that the parser takes for a prefix.
    pub(super) fn prefixed(
        &mut self,
        prefix: &Ident,
        value: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let Expr::Value(value) = value else {
            return Err(SqlError::unsupported(format!("the prefix {prefix}")).at(position));
        };
        let name = ObjectName(vec![ObjectNamePart::Identifier(prefix.clone())]);
        self.literal_of_type(&value.value, &DataType::Custom(name, Vec::new()), position)
    }

    pub(super) fn number(&mut self, text: &str, position: Option<u32>) -> SqlResult<Expression> {
        let known = |datum, oid| Expression {
            kind: ExpressionKind::Constant(datum),
            of: TypeReference::of(oid),
            position,
        };
        if let Ok(value) = text.parse::<i32>() {
            return Ok(known(Datum::Int4(value), oid::INT4));
        }
        if let Ok(value) = text.parse::<i64>() {
            return Ok(known(Datum::Int8(value), oid::INT8));
        }
        self.literal(text, TypeReference::of(oid::NUMERIC), position)
    }

    fn parameter(&mut self, text: &str, position: Option<u32>) -> SqlResult<Expression> {
        let number = text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some(index) = number.filter(|number| (1..=65_535).contains(number)).map(|number| number - 1)
        else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            )
            .at(position));
        };
        if let Some(parameter) = self.own_parameter(index) {
            return parameter.map(|parameter| Expression { position, ..parameter }).ok_or_else(|| {
                let message = format!("there is no parameter {text}");
                SqlError::new(SqlState::UNDEFINED_PARAMETER, message).at(position)
            });
        }
        if !self.has_parameters {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            )
            .at(position));
        }
        if index >= self.parameters.len() {
            self.parameters.resize(index + 1, oid::UNKNOWN);
        }
        let of = TypeReference::of(self.parameters[index]);
        Ok(Expression { kind: ExpressionKind::Parameter(index), of, position })
    }

    pub(super) fn typed_literal(
        &mut self,
        text: &str,
        data_type: &DataType,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let target = self.type_of(data_type).map_err(|error| error.at(position))?;
        let text = constant(Datum::text(text), oid::UNKNOWN);
        let text = Expression { position, ..text };
        let converted = self.coerce_to(text, target, CastContext::Explicit, Written::ExplicitCast)?;
        converted.ok_or_else(|| SqlError::internal("a literal that cannot be converted"))
    }

    pub(super) fn interval(
        &mut self,
        interval: &sqlparser::ast::Interval,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let fields = match (&interval.leading_field, &interval.last_field) {
            (None, _) => String::new(),
            (Some(first), None) => format!(" {}", field_name(first)),
            (Some(first), Some(last)) => format!(" {} to {}", field_name(first), field_name(last)),
        };
        use sqlparser::ast::IntervalFields as F;
        let fields = match fields.trim() {
            "" => None,
            "year" => Some(F::Year),
            "month" => Some(F::Month),
            "day" => Some(F::Day),
            "hour" => Some(F::Hour),
            "minute" => Some(F::Minute),
            "second" => Some(F::Second),
            "year to month" => Some(F::YearToMonth),
            "day to hour" => Some(F::DayToHour),
            "day to minute" => Some(F::DayToMinute),
            "day to second" => Some(F::DayToSecond),
            "hour to minute" => Some(F::HourToMinute),
            "hour to second" => Some(F::HourToSecond),
            "minute to second" => Some(F::MinuteToSecond),
            other => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("syntax error at or near \"{other}\""),
                )
                .at(position));
            }
        };
        let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
        let data_type = DataType::Interval { fields, precision };
        let value = self.expression(&interval.value)?;
        let target = self.type_of(&data_type)?;
        match self.coerce_to(value, target, CastContext::Explicit, Written::ExplicitCast)? {
            Some(value) => Ok(value),
            None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in an interval").at(position)),
        }
    }
}

/// The text of a string literal.
pub(crate) fn string_value(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => Some(text.clone()),
        Value::DollarQuotedString(quoted) => Some(quoted.value.clone()),
        _ => None,
    }
}

pub(super) fn field_name(field: &DateTimeField) -> String {
    match field {
        DateTimeField::Custom(ident) => ident.value.to_lowercase(),
        other => other.to_string().to_lowercase(),
    }
}
