//! Conditions that a row must meet before it is written.

use seawall_values::error::ErrorObject;
use seawall_values::{Datum, Settings, SqlError, SqlResult, SqlState, text_form};

use super::super::context::Context;
use super::super::expression::Expression;
use crate::algebra::Demand;
use crate::schema::Table;

/// Bytes of a value that an error shows.
const SHOWN_BYTES: usize = 64;

/// `NOT NULL`, then the `CHECK` constraints and those of views, which see the row in its slots.
pub(crate) fn check(
    table: &Table,
    row: &[Datum],
    checks: &[(Demand, Expression)],
    context: &mut Context<'_>,
) -> SqlResult<()> {
    for (column, value) in table.columns.iter().zip(row) {
        if column.is_not_null && value.is_null() && !column.is_dropped {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                .with_detail(failing_row(table, row, context.settings))
                .about(ErrorObject {
                    table: Some(table.name.clone()),
                    column: Some(column.name.clone()),
                    ..ErrorObject::default()
                }));
        }
    }
    for (demand, condition) in checks {
        let truth = condition.truth(context)?;
        let name = match demand {
            Demand::Constraint(name) => name,
            // A row that a view may or may not show is not shown.
            Demand::View(view) if truth != Some(true) => {
                let message = format!("new row violates check option for view \"{view}\"");
                return Err(SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message)
                    .with_detail(failing_row(table, row, context.settings)));
            }
            Demand::View(_) => continue,
        };
        if truth == Some(false) {
            let message =
                format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                .with_detail(failing_row(table, row, context.settings))
                .about(ErrorObject {
                    table: Some(table.name.clone()),
                    constraint: Some(name.clone()),
                    ..ErrorObject::default()
                }));
        }
    }
    Ok(())
}

/// `Failing row contains (1, null).`
pub(crate) fn failing_row(table: &Table, row: &[Datum], settings: &Settings) -> String {
    let mut shown = Vec::with_capacity(row.len());
    for (column, value) in table.columns.iter().zip(row) {
        if column.is_dropped {
            continue;
        }
        let mut text = String::new();
        match value {
            Datum::Null => text.push_str("null"),
            value if text_form::output(column.of.oid, value, settings, &mut text).is_err() => {
                text.clear();
                text.push_str("...");
            }
            _ => {}
        }
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            text.push_str("...");
        }
        shown.push(text);
    }
    format!("Failing row contains ({}).", shown.join(", "))
}
