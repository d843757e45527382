//! Assignments to parts of columns: elements of arrays, members of JSON, fields of rows.
//!
//! `SET c.f[2] = x` makes a row of `c` whose field `f` is that of `c` with an element set: each step takes the part out of what it is in,
//! and puts it back.

use seawall_values::system::CastContext;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::{AccessExpr, Expr};

use super::super::expression::folded;
use super::super::types::{element_of, is_row_type, type_name};
use super::super::{Binder, constant};
use crate::algebra::{ColumnId, Expression, ExpressionKind, Relation, Subscript, Written};
use crate::schema::Column;

/// The part of a column that is set.
#[derive(Clone, Debug)]
pub(super) struct Element {
    steps: Vec<Step>,
    /// The type of what is set.
    of: TypeReference,
    /// The domain of the field that is set; 0: none.
    domain: Oid,
    position: Option<u32>,
}

/// One step from a value into a part of it.
#[derive(Clone, Debug)]
enum Step {
    Subscripts {
        subscripts: Vec<Subscript>,
        is_slice: bool,
        /// The type of the part.
        of: TypeReference,
    },
    Field {
        index: usize,
        /// The types of all fields.
        fields: Vec<TypeReference>,
    },
}

impl Element {
    /// The container with the part set.
    fn set(&self, container: Expression, value: Expression) -> Expression {
        set(&self.steps, container, value)
    }

    /// What messages call the last step, if that is a field.
    fn is_field(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Field { .. }))
    }
}

fn set(steps: &[Step], container: Expression, value: Expression) -> Expression {
    let Some((step, rest)) = steps.split_first() else { return value };
    let of = container.of;
    match step {
        Step::Subscripts { subscripts, is_slice, of: part } => {
            let position = value.position;
            let value = if rest.is_empty() {
                value
            } else {
                let (subscripts, is_slice) = (subscripts.clone(), *is_slice);
                let kind = ExpressionKind::Subscript {
                    container: Box::new(container.clone()),
                    subscripts,
                    is_slice,
                };
                set(rest, Expression { kind, of: *part, position: None }, value)
            };
            let kind = ExpressionKind::Assign {
                container: Box::new(container),
                subscripts: subscripts.clone(),
                is_slice: *is_slice,
                value: Box::new(value),
            };
            Expression { kind, of, position }
        }
        Step::Field { index, fields } => {
            let field = |at: usize| {
                let kind = ExpressionKind::Field(Box::new(container.clone()), at);
                Expression { kind, of: fields[at], position: None }
            };
            let mut value = Some(value);
            let whole = (0..fields.len())
                .map(|at| match value.take_if(|_| at == *index) {
                    Some(value) => set(rest, field(at), value),
                    None => field(at),
                })
                .collect();
            Expression { kind: ExpressionKind::Row(whole), of, position: None }
        }
    }
}

/// The steps that are written after the name of the column.
fn written_steps(written: &Expr) -> Option<Vec<AccessExpr>> {
    match written {
        Expr::CompoundFieldAccess { access_chain, .. } => Some(access_chain.clone()),
        Expr::CompoundIdentifier(parts) => {
            Some(parts.iter().skip(1).map(|part| AccessExpr::Dot(Expr::Identifier(part.clone()))).collect())
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// The part of a column that is written; `None`: all of it.
    pub(super) fn element(&mut self, column: &Column, written: &Expr) -> SqlResult<Option<Element>> {
        let Some(chain) = written_steps(written) else { return Ok(None) };
        let position = self.position(written);
        let (mut steps, mut of, mut domain) = (Vec::new(), column.of, 0);
        let mut rest = chain.as_slice();
        while let Some(first) = rest.first() {
            match first {
                AccessExpr::Dot(Expr::Identifier(name)) => {
                    let name = folded(name);
                    let (step, field, field_domain) = self.field_step(column, of, &name, position)?;
                    steps.push(step);
                    (of, domain) = (field, field_domain);
                    rest = &rest[1..];
                }
                AccessExpr::Dot(_) => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a field").at(position));
                }
                AccessExpr::Subscript(_) => {
                    let is_subscript = |access: &&AccessExpr| matches!(access, AccessExpr::Subscript(_));
                    let count = rest.iter().take_while(is_subscript).count();
                    let step = self.subscript_step(of, &rest[..count], position)?;
                    if let Step::Subscripts { of: part, .. } = &step {
                        of = *part;
                    }
                    steps.push(step);
                    domain = 0;
                    rest = &rest[count..];
                }
            }
        }
        Ok(Some(Element { steps, of, domain, position }))
    }

    fn subscript_step(
        &mut self,
        container: TypeReference,
        chain: &[AccessExpr],
        position: Option<u32>,
    ) -> SqlResult<Step> {
        let null = Expression { kind: ExpressionKind::Constant(Datum::Null), of: container, position };
        let bound = self.subscripts(null, chain, position)?;
        let ExpressionKind::Subscript { subscripts, is_slice, .. } = bound.kind else {
            return Err(SqlError::internal("subscripts that are none"));
        };
        let of = match element_of(container.oid) {
            _ if is_slice => container,
            Some(element) => TypeReference { oid: element, modifier: container.modifier },
            None if bound.of.oid == container.oid => container,
            None => {
                let message = format!("assignment to elements of type {}", type_name(container.oid));
                return Err(SqlError::unsupported(message).at(position));
            }
        };
        Ok(Step::Subscripts { subscripts, is_slice, of })
    }

    /// The step to a field, its type, and its domain.
    fn field_step(
        &mut self,
        column: &Column,
        container: TypeReference,
        name: &str,
        position: Option<u32>,
    ) -> SqlResult<(Step, TypeReference, Oid)> {
        let wrong = |code, why: String| {
            let message =
                format!("cannot assign to field \"{name}\" of column \"{}\" because {why}", column.name);
            SqlError::new(code, message).at(position)
        };
        if !is_row_type(container.oid) {
            let why = format!("its type {} is not a composite type", type_name(container.oid));
            return Err(wrong(SqlState::DATATYPE_MISMATCH, why));
        }
        let columns = self.row_columns(container.oid)?;
        let Some(index) = columns.iter().position(|(known, _)| known == name) else {
            let why = format!("there is no such column in data type {}", type_name(container.oid));
            return Err(wrong(SqlState::UNDEFINED_COLUMN, why));
        };
        let domain = self.row_domains(container.oid)?.get(index).copied().unwrap_or(0);
        let fields: Vec<TypeReference> = columns.into_iter().map(|(_, of)| of).collect();
        let of = fields[index];
        Ok((Step::Field { index, fields }, of, domain))
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
            let what = if element.is_field() { "a subfield" } else { "an array element" };
            let message = format!("cannot set {what} to DEFAULT");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        let of = match element.domain {
            0 => element.of,
            domain => TypeReference { oid: domain, modifier: element.of.modifier },
        };
        let coerced = self.coerce_to(value, of, CastContext::Assignment, Written::ImplicitCast)?;
        coerced.ok_or_else(|| {
            let (wanted, given) = (type_name(of.oid), type_name(from));
            let message = match element.is_field() {
                true => format!("subfield of \"{}\" is of type {wanted} but expression is of type {given}", column.name),
                false => format!(
                    "subscripted assignment to \"{}\" requires type {wanted} but expression is of type {given}",
                    column.name
                ),
            };
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression.")
                .at(position)
        })
    }

    /// `UPDATE`: what the column becomes. `before`: what it is, or has become by assignments to other parts.
    pub(super) fn updated_element(
        &mut self,
        column: &Column,
        element: &Element,
        before: Expression,
        value: Expression,
    ) -> SqlResult<Expression> {
        let value = self.element_value(column, element, value)?;
        self.checked_whole(column, element.set(before, value))
    }

    /// A value of which parts were set, as the domain of the column demands it.
    fn checked_whole(&mut self, column: &Column, value: Expression) -> SqlResult<Expression> {
        match column.domain {
            0 => Ok(value),
            domain => self.checked(value, domain, domain),
        }
    }

    /// `INSERT`: columns of which parts are given, in place of the parts.
    pub(super) fn with_elements(
        &mut self,
        source: (Relation, Vec<(usize, ColumnId)>),
        elements: &[Option<Element>],
        columns: &[Column],
    ) -> SqlResult<(Relation, Vec<(usize, ColumnId)>)> {
        let (relation, given) = source;
        if elements.iter().all(Option::is_none) {
            return Ok((relation, given));
        }
        let mut whole: Vec<(usize, ColumnId)> = Vec::with_capacity(given.len());
        let mut made: Vec<(usize, Expression)> = Vec::new();
        for ((position, id), element) in given.into_iter().zip(elements) {
            let Some(element) = element else {
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
            let value = self.checked_whole(&columns[position], value)?;
            let id = self.new_column();
            values.push((id, value));
            whole.push((position, id));
        }
        Ok((Relation::Compute { input: Box::new(relation), values }, whole))
    }
}

/// What a column has become by assignments to parts of it, without what its domain demands; `None`: it was set as a whole.
pub(super) fn set_by_parts(value: Expression) -> Option<Expression> {
    if is_made_of_parts(&value) {
        return Some(value);
    }
    match value.kind {
        ExpressionKind::CheckDomain(check) if is_made_of_parts(&check.value) => Some(check.value),
        _ => None,
    }
}

/// A row that a statement has written knows where it stands; one that was made of parts does not.
fn is_made_of_parts(value: &Expression) -> bool {
    match value.kind {
        ExpressionKind::Assign { .. } => true,
        ExpressionKind::Row(_) => value.position.is_none(),
        _ => false,
    }
}
