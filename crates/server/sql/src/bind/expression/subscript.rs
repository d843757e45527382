//! Subscripts of arrays and of `jsonb`.

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{AccessExpr, Expr};

use super::super::coerce::can_coerce;
use super::super::types::{element_of, type_name};
use super::super::{Binder, constant};
use super::IMPLICIT;
use crate::algebra::{Expression, ExpressionKind, Subscript};

/// Dimensions that an array may have.
const DIMENSIONS_MAX: usize = 6;

impl Binder<'_> {
    pub(in crate::bind) fn subscripts(
        &mut self,
        value: Expression,
        chain: &[AccessExpr],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        use sqlparser::ast::Subscript as Written;
        let is_slice =
            chain.iter().any(|access| matches!(access, AccessExpr::Subscript(Written::Slice { .. })));
        let container = value.of.oid;
        let (element, index_type) = match container {
            oid::JSONB => (oid::JSONB, oid::TEXT),
            oid::INT2VECTOR => (oid::INT2, oid::INT4),
            oid::OIDVECTOR => (oid::OID, oid::INT4),
            _ => match element_of(container) {
                Some(element) => (element, oid::INT4),
                None => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!(
                            "cannot subscript type {} because it does not support subscripting",
                            type_name(container)
                        ),
                    )
                    .at(position));
                }
            },
        };
        if container == oid::JSONB && is_slice {
            let slice = chain.iter().find_map(|access| match access {
                AccessExpr::Subscript(Written::Slice { lower_bound, upper_bound, .. }) => {
                    upper_bound.as_ref().or(lower_bound.as_ref())
                }
                _ => None,
            });
            let at = slice.and_then(|bound| self.position(bound)).or(position);
            let message = "jsonb subscript does not support slices";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        if container != oid::JSONB && chain.len() > DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                chain.len()
            );
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mut subscripts = Vec::with_capacity(chain.len());
        for access in chain {
            let AccessExpr::Subscript(subscript) = access else { continue };
            let index = |binder: &mut Self, expr: &Expr| -> SqlResult<Expression> {
                let at = binder.position(expr);
                let bound = binder.expression(expr)?;
                if container == oid::JSONB {
                    let target = if can_coerce(bound.of.oid, oid::INT4, CastContext::Implicit)
                        && bound.of.oid != oid::UNKNOWN
                    {
                        oid::INT4
                    } else {
                        index_type
                    };
                    return binder.coerce(bound, target, CastContext::Implicit, IMPLICIT);
                }
                if !can_coerce(bound.of.oid, index_type, CastContext::Assignment) {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        "array subscript must have type integer",
                    )
                    .at(at));
                }
                binder.coerce(bound, index_type, CastContext::Assignment, IMPLICIT)
            };
            subscripts.push(match subscript {
                // Among slices a single number is the last subscript of a slice that begins with 1.
                Written::Index { index: to } => Subscript {
                    from: is_slice.then(|| constant(Datum::Int4(1), oid::INT4)),
                    to: Some(index(self, to)?),
                },
                Written::Slice { lower_bound, upper_bound, .. } => Subscript {
                    from: lower_bound.as_ref().map(|bound| index(self, bound)).transpose()?,
                    to: upper_bound.as_ref().map(|bound| index(self, bound)).transpose()?,
                },
            });
        }
        let of =
            if is_slice { value.of } else { TypeReference { oid: element, modifier: value.of.modifier } };
        let kind = ExpressionKind::Subscript { container: Box::new(value), subscripts, is_slice };
        Ok(Expression { kind, of, position })
    }
}
