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

use seawall_values::Oid;

use crate::schema::Definition;

pub(crate) use live::constraints::columns_of as columns_of_expression;
pub use relations::{information_schema, relation, relation_named};
pub use scan::Scan;
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
