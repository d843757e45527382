//! Rows of `information_schema`. A view without a maker here has no rows: there are no objects of its kind.
//!
//! Relations are shown to those who have their owner's role or a privilege on them; system relations to all. Constraints are those of users' tables.

mod columns;
mod constraints;
mod privileges;
mod routines;
mod tables;
mod type_shape;

use seawall_values::{Datum, SqlResult};

use super::live::{Live, Rows, Table, name};
use super::names::Names;
use super::numbers::PG_CLASS;
use super::source::Source;
use super::{heading, live, oid_of};
use crate::schema::Definition;

pub(super) use type_shape::{
    TypeShape, character_length, datetime_precision, interval_fields, numeric_precision, numeric_radix,
    numeric_scale, octet_length,
};

pub(super) const TABLE: Table = &[
    ("tables", Live::Each { make: tables::tables, numbers: &[], names: &[2], has_system: true, rest: None }),
    ("views", Live::Each { make: tables::views, numbers: &[], names: &[2], has_system: true, rest: None }),
    (
        "columns",
        Live::Each { make: columns::columns, numbers: &[], names: &[2], has_system: true, rest: None },
    ),
    (
        "sequences",
        Live::Each { make: tables::sequences, numbers: &[], names: &[2], has_system: false, rest: None },
    ),
    ("schemata", Live::Once(tables::schemata)),
    ("routines", Live::Once(routines::routines)),
    ("parameters", Live::Once(routines::parameters)),
    ("table_constraints", each_of_table(constraints::table_constraints, &[5])),
    ("key_column_usage", each_of_table(constraints::key_column_usage, &[5])),
    ("constraint_column_usage", each_of_table(constraints::constraint_column_usage, &[])),
    ("constraint_table_usage", each_of_table(constraints::constraint_table_usage, &[])),
    ("referential_constraints", each_of_table(constraints::referential_constraints, &[])),
    ("check_constraints", each_of_table(constraints::check_constraints, &[])),
    (
        "table_privileges",
        each_of_table(|of, source, names, rows| privileges::of_table(of, source, names, rows, true), &[4]),
    ),
    (
        "role_table_grants",
        each_of_table(|of, source, names, rows| privileges::of_table(of, source, names, rows, false), &[4]),
    ),
    (
        "column_privileges",
        each_of_table(|of, source, names, rows| privileges::of_columns(of, source, names, rows, true), &[4]),
    ),
    (
        "role_column_grants",
        each_of_table(|of, source, names, rows| privileges::of_columns(of, source, names, rows, false), &[4]),
    ),
    ("enabled_roles", Live::Once(privileges::enabled_roles)),
    ("applicable_roles", Live::Once(privileges::applicable_roles)),
    ("information_schema_catalog_name", Live::Once(catalog_name)),
    ("character_sets", Live::Once(character_sets)),
    ("collations", Live::Once(collations)),
    ("collation_character_set_applicability", Live::Once(collation_character_sets)),
];

const fn each_of_table(make: live::MakeEach, names: &'static [usize]) -> Live {
    Live::Each { make, numbers: &[], names, has_system: false, rest: None }
}

/// Whether the user may see that a relation is there.
fn is_shown(definition: &Definition, source: &mut dyn Source, names: &Names) -> SqlResult<bool> {
    if matches!(definition, Definition::System(_)) || names.has_role(heading(definition).owner) {
        return Ok(true);
    }
    let rights = names.rights();
    let lists = source.access_lists(oid_of(definition), PG_CLASS)?;
    Ok(lists.iter().any(|(_, list)| !list.held(rights).is_none()))
}

fn yes_or_no(is_true: bool) -> Datum {
    Datum::text(if is_true { "YES" } else { "NO" })
}

fn catalog_name(_source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.push_back(vec![name(&names.database)]);
    Ok(())
}

fn character_sets(_source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let utf8 = || name("UTF8");
    rows.push_back(vec![
        Datum::Null,
        Datum::Null,
        utf8(),
        name("UCS"),
        utf8(),
        name(&names.database),
        Datum::Null,
        Datum::Null,
    ]);
    Ok(())
}

/// The names of all collations.
fn collation_names() -> impl Iterator<Item = Datum> {
    super::initial::initial_rows("pg_collation").all().iter().filter_map(|row| row.get(1).cloned())
}

fn collations(_source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(
        collation_names().map(|collation| {
            vec![name(&names.database), name("pg_catalog"), collation, Datum::text("NO PAD")]
        }),
    );
    Ok(())
}

fn collation_character_sets(_source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(collation_names().map(|collation| {
        vec![name(&names.database), name("pg_catalog"), collation, Datum::Null, Datum::Null, name("UTF8")]
    }));
    Ok(())
}
