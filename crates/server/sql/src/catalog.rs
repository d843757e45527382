//! `pg_catalog` and `information_schema` as relations, and functions over them.
//!
//! ```text
//!   file of crate values --> initial rows ---+
//!                                            +--> Scan --> rows
//!   Source: definitions, roles, sessions --> live rows
//! ```
//! * `relations`: which relations there are, with PostgreSQL 15's numbers, names and columns. All of them can be read; one without a
//!   maker of live rows has its initial rows, or none.
//! * `source`: what the schema, the engine and the server tell about themselves.
//! * `scan`: rows of a relation, made as they are asked for: a definition at a time. Start at `Scan::open`.
//! * `live`, `information_schema`: makers of rows.
//! * `definition_text`: `CREATE INDEX`, constraints and types as text.
//! * `functions`: what SQL calls over the catalogs, by `pg_proc.prosrc`.

pub mod definition_text;
pub mod functions;
mod information_schema;
mod initial;
mod live;
pub mod names;
pub mod numbers;
mod relations;
mod scan;
pub mod source;

#[cfg(test)]
mod tests;

use seawall_values::{Datum, Oid};

use crate::schema::{Definition, SystemRelation};

pub(crate) use live::constraints::columns_of as columns_of_expression;
pub use relations::{information_schema, relation, relation_named};
pub use scan::Scan;
pub(crate) use scan::{finds_by, finds_by_name};
pub use source::Source;

/// The number of what is defined.
pub fn oid_of(definition: &Definition) -> Oid {
    match definition {
        Definition::Table(table) => table.oid,
        Definition::View(view) => view.oid,
        Definition::Sequence(sequence) => sequence.oid,
        Definition::Index(_, index) => index.oid,
        Definition::System(relation) => relation.oid,
    }
}

/// Whether an initial row of a relation has this name, in its second column.
pub(crate) fn has_initial_name(relation: &str, name: &str) -> bool {
    let rows = initial::initial_rows(relation).all();
    rows.iter().any(|row| matches!(row.get(1), Some(Datum::Text(known)) if **known == *name))
}

/// Whether a system relation can be read by superusers only.
pub(crate) fn is_secret(relation: &SystemRelation) -> bool {
    match initial::value_of("pg_class", relation.oid, "relacl") {
        Datum::Array(items) => {
            let is_of_all = |item: &Datum| matches!(item, Datum::Text(item) if item.starts_with('='));
            !items.values.iter().any(is_of_all)
        }
        _ => false,
    }
}

/// Whether a system relation is a view in PostgreSQL.
pub(crate) fn is_system_view(relation: Oid) -> bool {
    matches!(initial::value_of("pg_class", relation, "relkind"), Datum::Char(b'v'))
}

/// The role of the system, whose name begins with `pg_`, that has this number and name.
pub(crate) fn system_role(is_meant: impl Fn(Oid, &str) -> bool) -> Option<source::Role> {
    let found = initial::initial_rows("pg_authid").all().iter().find_map(|row| match (&row[0], &row[1]) {
        (Datum::Oid(oid), Datum::Text(name)) if is_meant(*oid, name) => Some((*oid, name.to_string())),
        _ => None,
    });
    found.map(|(oid, name)| source::Role::plain(oid, name))
}

/// The name, schema and owner of what is defined. An index has the schema and owner of its table.
pub(crate) fn heading(definition: &Definition) -> Heading<'_> {
    match definition {
        Definition::Table(table) => {
            Heading { name: &table.name, namespace: table.namespace, owner: table.owner }
        }
        Definition::View(view) => Heading { name: &view.name, namespace: view.namespace, owner: view.owner },
        Definition::Sequence(sequence) => {
            Heading { name: &sequence.name, namespace: sequence.namespace, owner: sequence.owner }
        }
        Definition::Index(table, index) => {
            Heading { name: &index.name, namespace: table.namespace, owner: table.owner }
        }
        Definition::System(relation) => {
            Heading { name: relation.name, namespace: relation.namespace, owner: numbers::BOOTSTRAP_ROLE }
        }
    }
}

/// The name, schema and owner of a relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: Oid,
    pub(crate) owner: Oid,
}
