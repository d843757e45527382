//! Assignments to elements of arrays and members of JSON.

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::Expr;

use super::super::types::{element_of, type_name};
use super::super::{Binder, constant};
use crate::algebra::{ColumnId, Expression, ExpressionKind, Relation, Subscript, Written};
use crate::schema::Column;

/// The part of a column that is set.
#[derive(Clone, Debug)]
pub(super) struct Element {
    subscripts: Vec<Subscript>,
    is_slice: bool,
    /// The type of what is set.
    of: TypeReference,
    position: Option<u32>,
}

impl Element {
    /// The container with the part set.
    fn set(self, container: Expression, value: Expression) -> Expression {
        let (of, position) = (container.of, value.position);
        let kind = ExpressionKind::Assign {
            container: Box::new(container),
            subscripts: self.subscripts,
            is_slice: self.is_slice,
            value: Box::new(value),
        };
        Expression { kind, of, position }
    }
}

impl Binder<'_> {
    /// The part of a column that is written; `None`: all of it.
    pub(super) fn element(&mut self, column: &Column, written: &Expr) -> SqlResult<Option<Element>> {
        let Expr::CompoundFieldAccess { access_chain, .. } = written else { return Ok(None) };
        let position = self.position(written);
        let is_subscript = |access| matches!(access, &sqlparser::ast::AccessExpr::Subscript(_));
        if !access_chain.iter().all(is_subscript) {
            return Err(SqlError::unsupported("assignment to a field of a column").at(position));
        }
        let null = Expression { kind: ExpressionKind::Constant(Datum::Null), of: column.of, position };
        let bound = self.subscripts(null, access_chain, position)?;
        let ExpressionKind::Subscript { subscripts, is_slice, .. } = bound.kind else {
            return Err(SqlError::internal("subscripts that are none"));
        };
        let of = match element_of(column.of.oid) {
            _ if is_slice => column.of,
            Some(element) => TypeReference { oid: element, modifier: column.of.modifier },
            None if bound.of.oid == column.of.oid => column.of,
            None => {
                let message = format!("assignment to elements of type {}", type_name(column.of.oid));
                return Err(SqlError::unsupported(message).at(position));
            }
        };
        Ok(Some(Element { subscripts, is_slice, of, position }))
    }

    /// A value as the part takes it.
    pub(super) fn element_value(
        &mut self,
        column: &Column,
        element: &Element,
        value: Expression,
    ) -> SqlResult<Expression> {
        let (from, position) = (value.of.oid, element.position);
        if matches!(value.kind, ExpressionKind::Default) {
            let message = "cannot set an array element to DEFAULT";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        let coerced = self.coerce_to(value, element.of, CastContext::Assignment, Written::ImplicitCast)?;
        coerced.ok_or_else(|| {
            let message = format!(
                "subscripted assignment to \"{}\" requires type {} but expression is of type {}",
                column.name,
                type_name(element.of.oid),
                type_name(from)
            );
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression.")
                .at(position)
        })
    }

    /// `UPDATE`: what the column becomes. `before`: what it is, or has become by assignments to other parts.
    pub(super) fn updated_element(
        &mut self,
        column: &Column,
        element: Element,
        before: Expression,
        value: Expression,
    ) -> SqlResult<Expression> {
        let value = self.element_value(column, &element, value)?;
        Ok(element.set(before, value))
    }

    /// `INSERT`: columns of which parts are given, in place of the parts.
    pub(super) fn with_elements(
        &mut self,
        source: (Relation, Vec<(usize, ColumnId)>),
        elements: &[Option<Element>],
        columns: &[Column],
    ) -> (Relation, Vec<(usize, ColumnId)>) {
        let (relation, given) = source;
        if elements.iter().all(Option::is_none) {
            return (relation, given);
        }
        let mut whole: Vec<(usize, ColumnId)> = Vec::with_capacity(given.len());
        let mut made: Vec<(usize, Expression)> = Vec::new();
        for ((position, id), element) in given.into_iter().zip(elements) {
            let Some(element) = element.clone() else {
                whole.push((position, id));
                continue;
            };
            let value = self.column_expression(id, element.of);
            match made.iter_mut().find(|(known, _)| *known == position) {
                Some((_, before)) => {
                    let container = std::mem::replace(before, constant(Datum::Null, element.of.oid));
                    *before = element.set(container, value);
                }
                None => {
                    let kind = ExpressionKind::Constant(Datum::Null);
                    let null = Expression { kind, of: columns[position].of, position: None };
                    made.push((position, element.set(null, value)));
                }
            }
        }
        let mut values = Vec::with_capacity(made.len());
        for (position, value) in made {
            let id = self.new_column();
            values.push((id, value));
            whole.push((position, id));
        }
        (Relation::Compute { input: Box::new(relation), values }, whole)
    }
}
