//! One value against many: `IN`, `ANY`, `ALL`, over a list, an array or a subquery.

use std::sync::Arc;

use seawall_values::system::CastContext;
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{BinaryOperator, Expr, ObjectNamePart};

use super::super::types::{array_of, element_of, type_name};
use super::super::{Binder, boolean, column};
use super::IMPLICIT;
use super::comparison::row_fields;
use super::operator::operator_name;
use crate::algebra::{Expression, ExpressionKind, Subquery, SubqueryKind};

/// The array of `LIKE ANY (array)` (`true`) or `LIKE ALL (array)`: sqlparser takes `ALL` for a function.
fn patterns(pattern: &Expr, is_any: bool) -> Option<(&Expr, bool)> {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    if is_any {
        let inner = if let Expr::Nested(inner) = pattern { inner } else { pattern };
        return Some((inner, true));
    }
    let Expr::Function(call) = pattern else { return None };
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
    let is_any = match name.value.to_lowercase().as_str() {
        _ if name.quote_style.is_some() => return None,
        "all" => false,
        "any" | "some" => true,
        _ => return None,
    };
    match &call.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] => Some((array, is_any)),
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    /// `LIKE`, also of any or all patterns of an array.
    pub(super) fn like_any(
        &mut self,
        operator: &str,
        value: &Expr,
        pattern: &Expr,
        is_any: bool,
        escape: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        match patterns(pattern, is_any) {
            Some((array, is_any)) => self.quantified_by(value, operator, None, array, is_any, position),
            None => self.like(operator, value, pattern, escape, position),
        }
    }

    pub(super) fn in_list(
        &mut self,
        value: &Expr,
        list: &[Expr],
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let name = if is_negated { "<>" } else { "=" };
        if let Some(fields) = row_fields(value) {
            let mut tests = Vec::new();
            for item in list {
                let Some(other) = row_fields(item) else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "unequal number of entries in row expressions",
                    )
                    .at(position));
                };
                tests.push(self.row_comparison(name, fields, other, position)?);
            }
            return Ok(boolean(
                if is_negated { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) },
                position,
            ));
        }
        let value = self.expression(value)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.expression(item)?);
        }
        // Several values without columns make one array, as PostgreSQL does it.
        let constants = items.iter().filter(|item| !has_columns(item)).count();
        if constants == items.len()
            && items.len() > 1
            && let Some(common) = self.list_type(&value, &items)
            && let Some(array) = array_of(common)
        {
            let mut elements = Vec::with_capacity(items.len());
            for item in items {
                elements.push(self.coerce_common(item, common, "IN")?);
            }
            let kind = ExpressionKind::Array { elements, element: common, is_nested: false };
            let array = Expression { kind, of: TypeReference::of(array), position };
            return self.scalar_array(value, name, None, array, !is_negated, position);
        }
        let mut tests = Vec::with_capacity(items.len());
        for item in items {
            tests.push(self.operator(None, name, Some(value.clone()), item, position)?);
        }
        if tests.len() == 1
            && let Some(only) = tests.pop()
        {
            return Ok(only);
        }
        Ok(boolean(if is_negated { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) }, position))
    }

    fn list_type(&self, value: &Expression, items: &[Expression]) -> Option<Oid> {
        let types: Vec<Oid> = std::iter::once(value).chain(items).map(|item| item.of.oid).collect();
        let common = super::super::coerce::common_type(&types)?;
        (common != oid::RECORD && element_of(common).is_none()).then_some(common)
    }

    /// `left operator ANY (array)`.
    fn scalar_array(
        &mut self,
        left: Expression,
        name: &str,
        schema: Option<&str>,
        array: Expression,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let array = match array.of.oid {
            oid::UNKNOWN => {
                let target = array_of(if left.of.oid == oid::UNKNOWN { oid::TEXT } else { left.of.oid })
                    .unwrap_or(oid::TEXT_ARRAY);
                self.coerce(array, target, CastContext::Implicit, IMPLICIT)?
            }
            oid::INT2VECTOR => self.coerce(array, oid::INT2_ARRAY, CastContext::Implicit, IMPLICIT)?,
            oid::OIDVECTOR => self.coerce(array, oid::OID_ARRAY, CastContext::Implicit, IMPLICIT)?,
            _ => array,
        };
        let Some(element) = element_of(array.of.oid) else {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires array on right side",
            )
            .at(position));
        };
        let left_type = left.of.oid;
        let placeholder = self.new_column();
        let item = column(placeholder, TypeReference::of(element));
        let compared = self.operator(schema, name, Some(left), item, position)?;
        if compared.of.oid != oid::BOOL {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
            )
            .at(position));
        }
        let ExpressionKind::Call(call) = compared.kind else {
            return Err(SqlError::unsupported(format!("{} {name} ANY", type_name(left_type))).at(position));
        };
        let function = Arc::clone(&call.function);
        let mut arguments = call.arguments.into_iter();
        let (Some(left), Some(item)) = (arguments.next(), arguments.next()) else {
            return Err(SqlError::internal("an operator without its sides"));
        };
        // What the operator converts an element to, the array is converted to.
        let array = if item.of.oid == element {
            array
        } else {
            let target =
                array_of(item.of.oid).ok_or_else(|| SqlError::unsupported("this array").at(position))?;
            self.coerce(array, target, CastContext::Implicit, IMPLICIT)?
        };
        let kind =
            ExpressionKind::ScalarArray { left: Box::new(left), array: Box::new(array), function, is_any };
        Ok(boolean(kind, position))
    }

    pub(super) fn quantified(
        &mut self,
        left: &Expr,
        operator: &BinaryOperator,
        right: &Expr,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (schema, name) = operator_name(operator);
        self.quantified_by(left, &name, schema.as_deref(), right, is_any, position)
    }

    pub(super) fn quantified_by(
        &mut self,
        left: &Expr,
        name: &str,
        schema: Option<&str>,
        right: &Expr,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if let Expr::Subquery(query) = right {
            return self.any_all(left, name, schema, query, is_any, position);
        }
        let left = self.expression(left)?;
        let array = self.expression(right)?;
        self.scalar_array(left, name, schema, array, is_any, position)
    }

    pub(super) fn any_all(
        &mut self,
        left: &Expr,
        name: &str,
        schema: Option<&str>,
        query: &sqlparser::ast::Query,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let fields: Vec<Expression> = match row_fields(left) {
            Some(fields) => fields.iter().map(|field| self.expression(field)).collect::<SqlResult<_>>()?,
            None => vec![self.expression(left)?],
        };
        let (relation, output) = self.subquery_of_expression(query)?;
        if output.len() != fields.len() {
            let message = if output.len() < fields.len() {
                "subquery has too few columns"
            } else {
                "subquery has too many columns"
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        }
        let columns: Vec<Expression> = output.iter().map(|out| column(out.column, out.of)).collect();
        let test = if fields.len() == 1
            && let (Some(left), Some(right)) = (fields.first(), columns.first())
        {
            self.operator(schema, name, Some(left.clone()), right.clone(), position)?
        } else {
            self.bound_rows(name, fields, columns, position)?
        };
        let test = self.coerce_to_boolean(test, "ANY/ALL")?;
        let kind = if is_any { SubqueryKind::Any(Box::new(test)) } else { SubqueryKind::All(Box::new(test)) };
        let columns = output.iter().map(|out| out.column).collect();
        Ok(boolean(ExpressionKind::Subquery(Box::new(Subquery { kind, relation, columns })), position))
    }
}

/// Whether a column is used in it.
fn has_columns(expression: &Expression) -> bool {
    let mut found = false;
    crate::algebra::walk::visit(expression, &mut |inner| {
        found |= matches!(
            inner.kind,
            ExpressionKind::Column(_) | ExpressionKind::WholeRow(..) | ExpressionKind::Subquery(_)
        );
    });
    found
}
