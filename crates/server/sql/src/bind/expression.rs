//! Values.
//!
//! * `expression_inside` has a line for each kind of expression; calls with a syntax of their own are bound here.
//! * `identifier`, `reference`, `literal`: what the leaves stand for.
//! * `operator`, `comparison`, `condition`, `membership`: tests and operators.
//! * `array`, `field`, `subscript`: values with parts.

mod array;
mod comparison;
mod condition;
mod field;
mod identifier;
mod literal;
mod membership;
mod operator;
mod reference;
mod subscript;

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{
    CastKind, CeilFloorKind, DataType, DateTimeField, Expr, ObjectName, ObjectNamePart, TrimWhereField,
};

use super::call::{Argument, FunctionName, FunctionOrCast};
use super::types::{element_of, type_name};
use super::{Binder, boolean, constant};
use crate::algebra::{Expression, ExpressionKind, Subquery, SubqueryKind, Written};
use literal::field_name;
use membership::patterns;

pub(super) use condition::common_modifier;
pub(crate) use identifier::{folded, name_parts, qualified};
pub(crate) use literal::string_value;

fn function(schema: Option<&str>, name: &str) -> FunctionName {
    FunctionName { schema: schema.map(str::to_owned), name: name.to_owned() }
}

impl Binder<'_> {
    /// The value of an expression.
    pub(crate) fn expression(&mut self, expr: &Expr) -> SqlResult<Expression> {
        self.deeper(|binder| binder.expression_inside(expr))
    }

    fn expression_inside(&mut self, expr: &Expr) -> SqlResult<Expression> {
        let position = self.position(expr);
        match expr {
            Expr::Identifier(ident) => self.identifier(ident, position),
            Expr::CompoundIdentifier(parts) => self.compound(parts, position),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, position),
            Expr::Nested(inner) => self.expression(inner),
            Expr::Value(value) => self.value(&value.value, position),
            Expr::TypedString(typed) => {
                let text = string_value(&typed.value.value)
                    .ok_or_else(|| SqlError::unsupported("this literal").at(position))?;
                self.typed_literal(&text, &typed.data_type, position)
            }
            Expr::Prefixed { prefix, value } => {
                let Expr::Value(value) = value.as_ref() else {
                    return Err(SqlError::unsupported(format!("the prefix {prefix}")).at(position));
                };
                let text = string_value(&value.value)
                    .ok_or_else(|| SqlError::unsupported("this literal").at(position))?;
                let name = ObjectName(vec![ObjectNamePart::Identifier(prefix.clone())]);
                self.typed_literal(&text, &DataType::Custom(name, Vec::new()), position)
            }
            Expr::Interval(interval) => self.interval(interval, position),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr, position),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, position),
            Expr::IsNull(inner) => self.null_test(inner, true, position),
            Expr::IsNotNull(inner) => self.null_test(inner, false, position),
            Expr::IsTrue(inner) => self.boolean_test(inner, Some(true), false, "IS TRUE", position),
            Expr::IsNotTrue(inner) => self.boolean_test(inner, Some(true), true, "IS NOT TRUE", position),
            Expr::IsFalse(inner) => self.boolean_test(inner, Some(false), false, "IS FALSE", position),
            Expr::IsNotFalse(inner) => self.boolean_test(inner, Some(false), true, "IS NOT FALSE", position),
            Expr::IsUnknown(inner) => self.boolean_test(inner, None, false, "IS UNKNOWN", position),
            Expr::IsNotUnknown(inner) => self.boolean_test(inner, None, true, "IS NOT UNKNOWN", position),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, position),
            Expr::IsNotDistinctFrom(left, right) => {
                let distinct = self.distinct(left, right, position)?;
                Ok(boolean(ExpressionKind::Not(Box::new(distinct)), position))
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, position),
            Expr::InSubquery { expr, subquery, negated } => {
                let found = self.any_all(expr, "=", None, subquery, true, position)?;
                Ok(if *negated { boolean(ExpressionKind::Not(Box::new(found)), position) } else { found })
            }
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, position),
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~" } else { "~~" };
                match patterns(pattern, *any) {
                    Some((array, is_any)) => {
                        self.quantified_by(expr, operator, None, array, is_any, position)
                    }
                    None => self.like(operator, expr, pattern, escape_char.as_deref(), position),
                }
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~*" } else { "~~*" };
                match patterns(pattern, *any) {
                    Some((array, is_any)) => {
                        self.quantified_by(expr, operator, None, array, is_any, position)
                    }
                    None => self.like(operator, expr, pattern, escape_char.as_deref(), position),
                }
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let value = self.expression(expr)?;
                let mut arguments = vec![self.expression(pattern)?];
                if let Some(escape) = escape_char {
                    arguments.push(self.expression(escape)?);
                }
                let pattern = self.simple_call("similar_to_escape", arguments, position)?;
                self.operator(None, if *negated { "!~" } else { "~" }, Some(value), pattern, position)
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, true, position)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.quantified(left, compare_op, right, false, position)
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } => {
                self.cast(expr, data_type, position)
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (value, zone) = (self.expression(timestamp)?, self.expression(time_zone)?);
                self.simple_call("timezone", vec![zone, value], position)
            }
            Expr::Extract { field, expr, .. } => {
                let field = constant(Datum::text(field_name(field)), oid::TEXT);
                let value = self.expression(expr)?;
                self.simple_call("extract", vec![field, value], position)
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let value = self.expression(expr)?;
                self.simple_call("ceil", vec![value], position)
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let value = self.expression(expr)?;
                self.simple_call("floor", vec![value], position)
            }
            Expr::Position { expr, r#in } => {
                let (what, within) = (self.expression(expr)?, self.expression(r#in)?);
                self.simple_call("position", vec![within, what], position)
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expression(expr)?];
                match (substring_from, substring_for) {
                    (Some(from), Some(length)) => {
                        arguments.push(self.expression(from)?);
                        arguments.push(self.expression(length)?);
                    }
                    (Some(from), None) => arguments.push(self.expression(from)?),
                    (None, Some(length)) => {
                        arguments.push(constant(Datum::Int4(1), oid::INT4));
                        arguments.push(self.expression(length)?);
                    }
                    (None, None) => {}
                }
                self.simple_call("substring", arguments, position)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "btrim",
                };
                let mut arguments = vec![self.expression(expr)?];
                if let Some(what) = trim_what {
                    arguments.push(self.expression(what)?);
                }
                for characters in trim_characters.iter().flatten() {
                    arguments.push(self.expression(characters)?);
                }
                self.simple_call(name, arguments, position)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![
                    self.expression(expr)?,
                    self.expression(overlay_what)?,
                    self.expression(overlay_from)?,
                ];
                if let Some(length) = overlay_for {
                    arguments.push(self.expression(length)?);
                }
                self.simple_call("overlay", arguments, position)
            }
            Expr::Collate { expr, collation } => {
                let (_, name) = qualified(collation);
                let value = self.expression(expr)?;
                if !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8" | "C.utf8") {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
                    )
                    .at(position));
                }
                let value = self.known(value)?;
                if !matches!(
                    value.of.oid,
                    oid::TEXT
                        | oid::VARCHAR
                        | oid::BPCHAR
                        | oid::NAME
                        | oid::TEXT_ARRAY
                        | oid::VARCHAR_ARRAY
                        | oid::NAME_ARRAY
                ) {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!("collations are not supported by type {}", type_name(value.of.oid)),
                    )
                    .at(position));
                }
                Ok(value)
            }
            Expr::Function(call) => self.function_call(call, position),
            Expr::Case { operand, conditions, else_result, .. } => self
                .without_sets("set-returning functions are not allowed in CASE", |binder| {
                    binder.case(operand.as_deref(), conditions, else_result.as_deref(), position)
                }),
            Expr::Exists { subquery, negated } => {
                let (relation, output) = self.subquery_of_expression(subquery)?;
                let columns = output.iter().map(|column| column.column).collect();
                let kind = ExpressionKind::Subquery(Box::new(Subquery {
                    kind: SubqueryKind::Exists,
                    relation,
                    columns,
                }));
                let exists = boolean(kind, position);
                Ok(if *negated { boolean(ExpressionKind::Not(Box::new(exists)), position) } else { exists })
            }
            Expr::Subquery(query) => {
                let (relation, output) = self.subquery_of_expression(query)?;
                let [only] = output.as_slice() else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "subquery must return only one column",
                    )
                    .at(position));
                };
                let of = only.of;
                let subquery = Subquery { kind: SubqueryKind::Scalar, relation, columns: vec![only.column] };
                Ok(Expression { kind: ExpressionKind::Subquery(Box::new(subquery)), of, position })
            }
            Expr::QualifiedWildcard(name, _) => {
                let (schema, name) = qualified(name);
                let table = self.named_table(schema.as_deref(), &name, position)?;
                let table = table.ok_or_else(|| self.missing_table(&name, position))?;
                Ok(self.whole_row(&table, position))
            }
            Expr::Tuple(fields) => self.row(fields, position),
            Expr::Array(array) => self.array(&array.elem, position),
            Expr::RLike { .. }
            | Expr::Struct { .. }
            | Expr::Lambda(_)
            | Expr::Map(_)
            | Expr::Dictionary(_)
            | Expr::MatchAgainst { .. } => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{expr}\""))
                    .at(position))
            }
            other => Err(SqlError::unsupported(format!("the expression {other}")).at(position)),
        }
    }

    fn cast(&mut self, inner: &Expr, data_type: &DataType, position: Option<u32>) -> SqlResult<Expression> {
        let target = self.type_of(data_type).map_err(|error| error.at(position))?;
        // An array's elements get the type at once, so that an empty one has any.
        let value = match inner {
            Expr::Array(array) if element_of(target.oid).is_some() => {
                self.array_of_type(&array.elem, target, position)?
            }
            inner => self.expression(inner)?,
        };
        let source = value.of.oid;
        match self.coerce_to(value, target, CastContext::Explicit, Written::ExplicitCast)? {
            Some(value) => Ok(value),
            None => {
                let message = format!("cannot cast type {} to {}", type_name(source), type_name(target.oid));
                Err(SqlError::new(SqlState::CANNOT_COERCE, message).at(position))
            }
        }
    }

    /// A function of PostgreSQL's that special syntax stands for.
    pub(super) fn simple_call(
        &mut self,
        name: &str,
        arguments: Vec<Expression>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
        match self.call(&function(Some("pg_catalog"), name), arguments, false, position)? {
            FunctionOrCast::Cast(cast) => Ok(*cast),
            FunctionOrCast::Function(chosen) => {
                let call = crate::algebra::Call {
                    function: chosen.function,
                    arguments: chosen.arguments,
                    written: Written::Function,
                };
                self.implemented(call, chosen.result, position)
            }
        }
    }

    /// `CURRENT_DATE` and its like: functions without parentheses.
    pub(super) fn value_function(
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

/// How conversions that nobody wrote are marked.
pub(super) const IMPLICIT: Written = Written::ImplicitCast;
