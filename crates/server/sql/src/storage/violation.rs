//! What is said of rows that break a constraint, in PostgreSQL's words.

use seawall_values::error::ErrorObject;
use seawall_values::{Datum, Settings, SqlError, SqlState, TypeReference, text_form};

use crate::catalog::definition_text::{self, Style};
use crate::schema::{Constraint, ForeignKey, Index, Table};

/// A column, or an indexed expression, with its type and its value.
type Shown<'a> = (String, TypeReference, &'a Datum);

/// `(a, b)=(1, x)`.
fn key_values(values: &[Shown<'_>], settings: &Settings) -> String {
    let names: Vec<&str> = values.iter().map(|(name, _, _)| name.as_str()).collect();
    let texts: Vec<String> = values.iter().map(|(_, of, value)| shown(*of, value, settings)).collect();
    format!("({})=({})", names.join(", "), texts.join(", "))
}

fn shown(of: TypeReference, value: &Datum, settings: &Settings) -> String {
    let mut text = String::new();
    match value {
        Datum::Null => text.push_str("null"),
        value if text_form::output(of.oid, value, settings, &mut text).is_err() => {
            "...".clone_into(&mut text)
        }
        _ => {}
    }
    text
}

fn about(schema: &str, table: &Table, constraint: &str) -> ErrorObject {
    ErrorObject {
        schema: Some(schema.to_owned()),
        table: Some(table.name.clone()),
        constraint: Some(constraint.to_owned()),
        ..ErrorObject::default()
    }
}

/// The values of an index with their names.
fn indexed<'a>(table: &Table, index: &Index, values: &'a [Datum]) -> Vec<Shown<'a>> {
    let name = |key| definition_text::index_key(table, key, Style::Pretty);
    index.keys.iter().zip(values).map(|(key, value)| (name(key), key.of, value)).collect()
}

/// `23505`: another row has the key.
pub(crate) fn duplicate_key(
    schema: &str,
    table: &Table,
    index: &Index,
    values: &[Datum],
    settings: &Settings,
) -> Box<SqlError> {
    let name = &index.name;
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    let detail = format!("Key {} already exists.", key_values(&indexed(table, index, values), settings));
    SqlError::new(SqlState::UNIQUE_VIOLATION, message).with_detail(detail).about(about(schema, table, name))
}

/// `23505`: rows that are there already have one key, so the index cannot be made.
pub(crate) fn duplicated_key(
    schema: &str,
    table: &Table,
    index: &Index,
    values: &[Datum],
    settings: &Settings,
) -> Box<SqlError> {
    let message = format!("could not create unique index \"{}\"", index.name);
    let detail = format!("Key {} is duplicated.", key_values(&indexed(table, index, values), settings));
    SqlError::new(SqlState::UNIQUE_VIOLATION, message).with_detail(detail).about(about(
        schema,
        table,
        &index.name,
    ))
}

fn columns_of<'a>(table: &Table, columns: &[usize], values: &'a [Datum]) -> Vec<Shown<'a>> {
    let column = |(column, value): (&usize, &'a Datum)| {
        (table.columns[*column].name.clone(), table.columns[*column].of, value)
    };
    columns.iter().zip(values).map(column).collect()
}

/// `23503`: a row refers to one that is not there.
pub(crate) fn missing_target(
    schema: &str,
    (table, constraint, key): (&Table, &Constraint, &ForeignKey),
    target: &Table,
    values: &[Datum],
    settings: &Settings,
) -> Box<SqlError> {
    let (name, on) = (&constraint.name, &table.name);
    let message = format!("insert or update on table \"{on}\" violates foreign key constraint \"{name}\"");
    let values = key_values(&columns_of(table, &key.columns, values), settings);
    let detail = format!("Key {values} is not present in table \"{}\".", target.name);
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail(detail)
        .about(about(schema, table, name))
}

/// `23503`: `MATCH FULL`, and only some of the columns are null.
pub(crate) fn partly_null(schema: &str, table: &Table, constraint: &Constraint) -> Box<SqlError> {
    let (name, on) = (&constraint.name, &table.name);
    let message = format!("insert or update on table \"{on}\" violates foreign key constraint \"{name}\"");
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail("MATCH FULL does not allow mixing of null and nonnull key values.")
        .about(about(schema, table, name))
}

/// `23503`: a row goes that another one refers to.
pub(crate) fn still_referenced(
    schema: &str,
    (table, constraint, key): (&Table, &Constraint, &ForeignKey),
    target: &Table,
    values: &[Datum],
    settings: &Settings,
) -> Box<SqlError> {
    let (name, on, from) = (&constraint.name, &target.name, &table.name);
    let message = format!(
        "update or delete on table \"{on}\" violates foreign key constraint \"{name}\" on table \"{from}\""
    );
    let values = key_values(&columns_of(target, &key.target_columns, values), settings);
    let detail = format!("Key {values} is still referenced from table \"{from}\".");
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail(detail)
        .about(about(schema, table, name))
}
