//! `ARRAY[...]`.

use seawall_values::system::CastContext;
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::Expr;

use super::super::Binder;
use super::super::types::{array_of, element_of, type_name};
use crate::algebra::{Expression, ExpressionKind, Written};

impl Binder<'_> {
    pub(super) fn array(&mut self, elements: &[Expr], position: Option<u32>) -> SqlResult<Expression> {
        if elements.is_empty() {
            return Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                "cannot determine type of empty array",
            )
            .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].")
            .at(position));
        }
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            bound.push(self.expression(element)?);
        }
        let common = self.common_type_of(&bound.iter().collect::<Vec<_>>(), "ARRAY")?;
        self.array_from(bound, common, position)
    }

    fn array_from(
        &mut self,
        elements: Vec<Expression>,
        common: Oid,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let mut converted = Vec::with_capacity(elements.len());
        for element in elements {
            converted.push(self.coerce_common(element, common, "ARRAY")?);
        }
        let (array, element, is_nested) = match element_of(common) {
            Some(element) => (common, element, true),
            None => {
                let array = array_of(common).ok_or_else(|| {
                    let message = format!("could not find array type for data type {}", type_name(common));
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position)
                })?;
                (array, common, false)
            }
        };
        let kind = ExpressionKind::Array { elements: converted, element, is_nested };
        Ok(Expression { kind, of: TypeReference::of(array), position })
    }

    pub(super) fn array_of_type(
        &mut self,
        elements: &[Expr],
        target: TypeReference,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let element = element_of(target.oid).unwrap_or(oid::TEXT);
        let is_nested = elements.iter().any(|inner| matches!(inner, Expr::Array(_)));
        let mut bound = Vec::with_capacity(elements.len());
        for inner in elements {
            let value = match inner {
                Expr::Array(array) => self.array_of_type(&array.elem, target, position)?,
                inner => self.expression(inner)?,
            };
            let wanted = if is_nested { target.oid } else { element };
            let (source, at) = (value.of.oid, value.position);
            let wanted = TypeReference { oid: wanted, modifier: target.modifier };
            let value = self.coerce_to(value, wanted, CastContext::Explicit, Written::ExplicitCast)?;
            bound.push(value.ok_or_else(|| {
                let message = format!("cannot cast type {} to {}", type_name(source), type_name(wanted.oid));
                SqlError::new(SqlState::CANNOT_COERCE, message).at(at)
            })?);
        }
        let kind = ExpressionKind::Array { elements: bound, element, is_nested };
        Ok(Expression { kind, of: target, position })
    }
}
