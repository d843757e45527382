//! Values.
//!
//! * `expression_inside` has a line for each kind of expression.
//! * `call_syntax`: calls with a syntax of their own. `subquery`: queries inside of expressions.
//! * `identifier`, `reference`, `literal`: what the leaves stand for.
//! * `operator`, `comparison`, `condition`, `membership`: tests and operators.
//! * `array`, `field`, `subscript`: values with parts.

mod array;
mod call_syntax;
mod comparison;
mod condition;
mod field;
mod identifier;
mod literal;
mod membership;
mod operator;
mod reference;
mod subquery;
mod subscript;

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{CastKind, CeilFloorKind, DataType, DateTimeField, Expr};

use super::types::{element_of, type_name};
use super::{Binder, boolean, constant};
use crate::algebra::{Expression, ExpressionKind, Written};
use literal::field_name;

pub(super) use call_syntax::IMPLICIT;
pub(super) use condition::common_modifier;
pub(crate) use identifier::{folded, name_parts, qualified};

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
            Expr::TypedString(typed) => self.literal_of_type(&typed.value.value, &typed.data_type, position),
            Expr::Prefixed { prefix, value } => self.prefixed(prefix, value, position),
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
                self.like_any(operator, expr, pattern, *any, escape_char.as_deref(), position)
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~*" } else { "~~*" };
                self.like_any(operator, expr, pattern, *any, escape_char.as_deref(), position)
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                self.similar_to(expr, pattern, escape_char.as_deref(), *negated, position)
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
                self.call_of("timezone", [&**time_zone, &**timestamp], position)
            }
            Expr::Extract { field, expr, .. } => {
                let field = constant(Datum::text(field_name(field)), oid::TEXT);
                let value = self.expression(expr)?;
                self.simple_call("extract", vec![field, value], position)
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.call_of("ceil", [&**expr], position)
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.call_of("floor", [&**expr], position)
            }
            Expr::Position { expr, r#in } => self.call_of("position", [&**r#in, &**expr], position),
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                self.substring(expr, substring_from.as_deref(), substring_for.as_deref(), position)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let characters = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                self.trim(*trim_where, expr, characters, position)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let arguments = [expr, overlay_what, overlay_from].into_iter().chain(overlay_for);
                self.call_of("overlay", arguments.map(AsRef::as_ref), position)
            }
            Expr::Collate { expr, collation } => self.collate(expr, collation, position),
            Expr::Function(call) => self.function_call(call, position),
            Expr::Case { operand, conditions, else_result, .. } => self
                .without_sets("set-returning functions are not allowed in CASE", |binder| {
                    binder.case(operand.as_deref(), conditions, else_result.as_deref(), position)
                }),
            Expr::Exists { subquery, negated } => self.exists(subquery, *negated, position),
            Expr::Subquery(query) => self.scalar_subquery(query, position),
            Expr::QualifiedWildcard(name, _) => self.row_of_table(name, position),
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
}
