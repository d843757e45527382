//! Sizes on disk.

use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, SqlResult};

use super::super::live::count;
use super::super::names::relation_numbered;
use super::super::oid_of;
use super::super::source::Source;
use super::{Table, object, text};
use crate::schema::Definition;

pub(super) const TABLE: Table = &[
    ("pg_relation_size/1", |source, call| relation(source, object(call, 0)?)),
    ("pg_relation_size", |source, call| match text(call, 1)? {
        "main" => relation(source, object(call, 0)?),
        _ => Ok(Datum::Int8(0)),
    }),
    ("pg_table_size", |source, call| relation(source, object(call, 0)?)),
    ("pg_indexes_size", |source, call| with_indexes(source, object(call, 0)?, false)),
    ("pg_total_relation_size", |source, call| with_indexes(source, object(call, 0)?, true)),
    ("pg_database_size_oid", database),
    ("pg_database_size_name", database),
    ("pg_tablespace_size_oid", database),
    ("pg_tablespace_size_name", database),
    ("pg_relation_filenode", |_, call| Ok(Datum::Oid(object(call, 0)?))),
    ("pg_relation_filepath", |_, _| Ok(Datum::Null)),
];

/// A table without its indexes, or an index; null: there is no such relation.
fn relation(source: &mut dyn Source, oid: Oid) -> SqlResult<Datum> {
    match relation_numbered(source, oid)? {
        None => Ok(Datum::Null),
        Some(Definition::System(_) | Definition::View(_)) => Ok(Datum::Int8(0)),
        Some(_) => Ok(count(source.statistics(oid)?.bytes)),
    }
}

/// The indexes of a table, and the table itself if it counts.
fn with_indexes(source: &mut dyn Source, oid: Oid, counts_table: bool) -> SqlResult<Datum> {
    let Some(definition) = relation_numbered(source, oid)? else { return Ok(Datum::Null) };
    let mut bytes = if counts_table { bytes_of(source, &definition)? } else { 0 };
    if let Definition::Table(table) = &definition {
        for index in &table.indexes {
            bytes += source.statistics(index.oid)?.bytes;
        }
    }
    Ok(count(bytes))
}

fn bytes_of(source: &mut dyn Source, definition: &Definition) -> SqlResult<u64> {
    match definition {
        Definition::System(_) | Definition::View(_) => Ok(0),
        other => Ok(source.statistics(oid_of(other))?.bytes),
    }
}

/// All relations together: there is one database, and one place for it.
fn database(source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Datum> {
    let (mut bytes, mut after) = (0, 0);
    while let Some(definition) = source.definition_after(after)? {
        after = oid_of(&definition);
        bytes += bytes_of(source, &definition)?;
        if let Definition::Table(table) = &definition {
            for index in &table.indexes {
                bytes += source.statistics(index.oid)?.bytes;
            }
        }
    }
    Ok(count(bytes))
}
