//! Rows that are written out, and fields of composite values.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{AccessExpr, Expr};

use super::super::Binder;
use super::super::types::type_name;
use super::identifier::folded;
use crate::algebra::{Expression, ExpressionKind};

impl Binder<'_> {
    pub(in crate::bind) fn access(
        &mut self,
        root: &Expr,
        chain: &[AccessExpr],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let mut value = self.expression(root)?;
        let mut rest = chain;
        while let Some(first) = rest.first() {
            match first {
                AccessExpr::Dot(Expr::Identifier(name)) if crate::parse::is_all_fields_mark(name) => {
                    let message = "row expansion via \"*\" is not supported here";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
                }
                AccessExpr::Dot(Expr::Identifier(name)) => {
                    value = self.field(value, &folded(name), position)?;
                    rest = &rest[1..];
                }
                AccessExpr::Dot(other) => {
                    return Err(SqlError::unsupported(format!("the field {other}")).at(position));
                }
                AccessExpr::Subscript(_) => {
                    let count =
                        rest.iter().take_while(|access| matches!(access, AccessExpr::Subscript(_))).count();
                    value = self.subscripts(value, &rest[..count], position)?;
                    rest = &rest[count..];
                }
            }
        }
        Ok(value)
    }

    pub(super) fn field(
        &mut self,
        value: Expression,
        name: &str,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let fields = self.fields_of(&value)?;
        let Some(index) = fields.iter().position(|(field, _)| field == name) else {
            let message = if value.of.oid == oid::RECORD {
                format!("could not identify column \"{name}\" in record data type")
            } else if fields.is_empty() {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "column notation .{name} applied to type {}, which is not a composite type",
                        type_name(value.of.oid)
                    ),
                )
                .at(position));
            } else {
                format!("column \"{name}\" not found in data type {}", type_name(value.of.oid))
            };
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(position));
        };
        let of = fields[index].1;
        Ok(Expression { kind: ExpressionKind::Field(Box::new(value), index), of, position })
    }

    /// The names and types of the fields of a composite value.
    pub(in crate::bind) fn fields_of(
        &mut self,
        value: &Expression,
    ) -> SqlResult<Vec<(String, TypeReference)>> {
        if super::super::types::is_row_type(value.of.oid) {
            return self.row_columns(value.of.oid);
        }
        match &value.kind {
            ExpressionKind::Row(fields) => Ok(fields
                .iter()
                .enumerate()
                .map(|(index, field)| (format!("f{}", index + 1), field.of))
                .collect()),
            ExpressionKind::WholeRow(ids, _) => {
                let columns =
                    self.scopes.iter().flat_map(|scope| &scope.tables).flat_map(|table| &table.columns);
                let found: Vec<_> = columns.filter(|column| ids.contains(&column.id)).collect();
                let by_id = |id| found.iter().find(|column| column.id == id);
                Ok(ids
                    .iter()
                    .filter_map(|id| by_id(*id))
                    .map(|column| (column.name.clone(), column.of))
                    .collect())
            }
            // Functions that return records with names of their own.
            ExpressionKind::Call(call) | ExpressionKind::SessionCall(call) if value.of.oid == oid::RECORD => {
                Ok(super::super::types::result_columns(call))
            }
            ExpressionKind::Column(id) => Ok(self.record_fields.get(id).cloned().unwrap_or_default()),
            _ => Ok(Vec::new()),
        }
    }

    /// The columns of a row as a whole.
    pub(in crate::bind) fn fields_of_row(&mut self, row: Expression) -> SqlResult<Vec<Expression>> {
        let fields = self.fields_of(&row)?;
        let ExpressionKind::WholeRow(ids, _) = row.kind else {
            return Err(SqlError::internal("a row that is none"));
        };
        let column = |(id, (_, of)): (crate::algebra::ColumnId, (String, TypeReference))| Expression {
            kind: ExpressionKind::Column(id),
            of,
            position: row.position,
        };
        Ok(ids.into_iter().zip(fields).map(column).collect())
    }

    pub(super) fn row(&mut self, fields: &[Expr], position: Option<u32>) -> SqlResult<Expression> {
        let mut bound = Vec::with_capacity(fields.len());
        for field in fields {
            let value = self.expression(field)?;
            // `t.*` is all of its columns.
            match (&value.kind, field) {
                (ExpressionKind::WholeRow(..), Expr::QualifiedWildcard(..)) => {
                    bound.extend(self.fields_of_row(value)?);
                }
                _ => bound.push(self.known(value)?),
            }
        }
        Ok(Expression { kind: ExpressionKind::Row(bound), of: TypeReference::of(oid::RECORD), position })
    }
}
