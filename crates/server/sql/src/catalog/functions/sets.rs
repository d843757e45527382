//! Functions that return rows.

use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::system;
use seawall_values::{Datum, SqlError, SqlResult};

use super::super::live::text_or_null;
use super::super::source::Source;
use super::super::{Scan, relations};
use super::{SetImplementation, access_lists};

pub(super) const TABLE: &[(&str, SetImplementation)] = &[
    ("pg_get_keywords", keywords),
    ("pg_options_to_table", options),
    ("aclexplode", explode),
    ("_pg_expandarray/1", expand_array),
    ("show_all_settings", |source, _| all_of(source, "pg_settings")),
    ("pg_lock_status", |source, _| all_of(source, "pg_locks")),
    ("pg_listening_channels", |source, _| {
        Ok(rows(source.listening_channels().iter().map(|channel| vec![Datum::text(channel)]).collect()))
    }),
    ("pg_cursor", |source, _| all_of(source, "pg_cursors")),
    ("pg_prepared_statement", |source, _| all_of(source, "pg_prepared_statements")),
    ("pg_timezone_abbrevs", |source, _| all_of(source, "pg_timezone_abbrevs")),
    ("pg_partition_ancestors", none),
    ("pg_partition_tree", none),
    ("pg_get_publication_tables", none),
    ("pg_get_replication_slots", none),
    ("pg_available_extensions", none),
    ("pg_available_extension_versions", none),
    ("pg_tablespace_databases", none),
    ("pg_hba_file_rules", none),
    ("show_all_file_settings", none),
];

fn rows(rows: Vec<Vec<Datum>>) -> Rows {
    Box::new(rows.into_iter().map(Ok))
}

/// There are no objects of this kind.
fn none(_source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Rows> {
    Ok(rows(Vec::new()))
}

/// The rows of a relation that is a view of the function.
fn all_of(source: &mut dyn Source, relation: &str) -> SqlResult<Rows> {
    let Some(found) = relations::by_name(relation) else { return Ok(rows(Vec::new())) };
    let columns: Vec<usize> = (0..found.columns.len()).collect();
    Scan::rows(found.oid, &columns, &[], source)
}

fn keywords(_source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Rows> {
    let Some(block) = system().block("pg_get_keywords") else { return Ok(rows(Vec::new())) };
    let row = |row: Vec<seawall_values::system::Field>| {
        let text = |position: usize| text_or_null(row[position].as_deref());
        let category = row[1].as_deref().and_then(|text| text.bytes().next()).unwrap_or(0);
        vec![text(0), Datum::Char(category), Datum::Bool(row[2].as_deref() == Some("t")), text(3), text(4)]
    };
    Ok(rows(block.rows().map(row).collect()))
}

/// The values of an array argument.
fn values<'a>(call: &'a Call<'_>) -> SqlResult<&'a [Datum]> {
    match call.arguments.first() {
        Some(Datum::Array(array)) => Ok(&array.values),
        _ => Err(SqlError::internal("a function of arrays got none")),
    }
}

/// `name=value` as a row.
fn options(_source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Rows> {
    let options = values(call)?.iter().filter_map(|option| match option {
        Datum::Text(option) => Some(match option.split_once('=') {
            Some((name, value)) => vec![Datum::text(name), Datum::text(value)],
            None => vec![Datum::text(option), Datum::Null],
        }),
        _ => None,
    });
    Ok(rows(options.collect()))
}

fn explode(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Rows> {
    let mut made = Vec::new();
    for item in values(call)? {
        if let Datum::Text(item) = item {
            made.extend(access_lists::explode(source, item)?);
        }
    }
    Ok(rows(made))
}

/// `_pg_expandarray`: each value with its place, from 1.
fn expand_array(_source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Rows> {
    let numbered = values(call)?.iter().zip(1..);
    Ok(rows(numbered.map(|(value, place)| vec![value.clone(), Datum::Int4(place)]).collect()))
}
