//! What a row must meet that no statement of a user has computed: one that a foreign key's action changes, or that is there already when
//! a constraint is added.

use std::sync::Arc;

use seawall_values::error::ErrorObject;
use seawall_values::{Datum, Settings, SqlError, SqlResult, SqlState};

use crate::catalog::names::quoted;
use crate::execute::change::constraint::failing_row;
use crate::schema::{Column, ConstraintKind, Table};
use crate::storage::index_entry::RowExpressions;

/// The default of a column, or else of its domain, as an expression of SQL.
pub(crate) fn default_text<'a>(column: &'a Column, settings: &'a Settings) -> SqlResult<Option<&'a str>> {
    match (&column.default, column.domain) {
        (Some(default), _) => Ok(Some(default)),
        (None, 0) => Ok(None),
        (None, domain) => Ok(settings.types.domain(domain)?.default.as_deref()),
    }
}

/// An error unless the domain of a column allows the value that a row has there.
pub(crate) fn allowed(
    table: &Arc<Table>,
    position: usize,
    row: &[Datum],
    expressions: &mut dyn RowExpressions,
) -> SqlResult<()> {
    let column = &table.columns[position];
    match column.domain {
        0 => Ok(()),
        _ => expressions.assign(table, &quoted(&column.name), column, row).map(drop),
    }
}

/// Computes the generated columns of a row, then checks `NOT NULL` and `CHECK`.
pub(crate) fn complete(
    table: &Arc<Table>,
    row: &mut [Datum],
    expressions: &mut dyn RowExpressions,
    settings: &Settings,
) -> SqlResult<()> {
    for (position, column) in table.columns.iter().enumerate() {
        if let Some(generated) = &column.generated
            && !column.is_dropped
        {
            row[position] = expressions.assign(table, generated, column, row)?;
        }
    }
    for (column, value) in table.columns.iter().zip(&*row) {
        if column.is_not_null && value.is_null() && !column.is_dropped {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            let about = ErrorObject {
                table: Some(table.name.clone()),
                column: Some(column.name.clone()),
                ..ErrorObject::default()
            };
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                .with_detail(failing_row(table, row, settings))
                .about(about));
        }
    }
    for constraint in &table.constraints {
        if let ConstraintKind::Check(condition) = &constraint.kind
            && matches!(expressions.evaluate(table, condition, row)?, Datum::Bool(false))
        {
            let name = &constraint.name;
            let message =
                format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
            let about = ErrorObject {
                table: Some(table.name.clone()),
                constraint: Some(name.clone()),
                ..ErrorObject::default()
            };
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                .with_detail(failing_row(table, row, settings))
                .about(about));
        }
    }
    Ok(())
}
