//! `pg_type`: the types of rows of tables and views, and of arrays of them.

use seawall_values::{Datum, Oid, SqlResult};

use super::super::heading;
use super::super::initial::value_of;
use super::super::names::Names;
use super::super::numbers::{relation_of_type, row_array_type, row_type};
use super::super::source::Source;
use super::{Live, Rows, Table, name};
use crate::schema::Definition;

pub(super) const TABLE: Table =
    &[("pg_type", Live::Each { make: pg_type, numbers: &[0, 11], names: &[], has_system: false })];

/// An initial type of rows, and its array: their functions are those of all.
const PATTERN: Oid = 83;
const ARRAY_PATTERN: Oid = 210;

fn pg_type(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let (Definition::Table(_) | Definition::View(_)) = definition else { return Ok(()) };
    let relation = super::super::oid_of(definition);
    let found = heading(definition);
    for (oid, name) in
        [(row_type(relation), found.name.to_owned()), (row_array_type(relation), format!("_{}", found.name))]
    {
        rows.push_back(row(oid, &name, found.namespace, found.owner));
    }
    Ok(())
}

fn row(oid: Oid, type_name: &str, namespace: Oid, owner: Oid) -> Vec<Datum> {
    let (relation, is_array) = relation_of_type(oid).unwrap_or((0, false));
    let pattern = if is_array { ARRAY_PATTERN } else { PATTERN };
    let columns = super::super::relations::by_name("pg_type")
        .map_or_else(Vec::new, |relation| relation.columns.clone());
    let value = |column: &str| match column {
        "oid" => Datum::Oid(oid),
        "typname" => name(type_name),
        "typnamespace" => Datum::Oid(namespace),
        "typowner" => Datum::Oid(owner),
        "typrelid" => Datum::Oid(if is_array { 0 } else { relation }),
        "typelem" => Datum::Oid(if is_array { row_type(relation) } else { 0 }),
        "typarray" => Datum::Oid(if is_array { 0 } else { row_array_type(relation) }),
        other => value_of("pg_type", pattern, other),
    };
    columns.iter().map(|(column, _)| value(column)).collect()
}
