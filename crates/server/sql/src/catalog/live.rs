//! Live rows of `pg_catalog`: which relations have them, and who makes them.

mod access;
mod attributes;
mod classes;
pub(super) mod constraints;
pub(super) mod database;
mod dependencies;
mod functions;
mod indexes;
mod replication;
mod roles;
mod seawall;
mod sequences;
mod server;
mod settings;
mod statements;
mod statistics;
mod types;
mod values;
pub(super) mod views;

use std::collections::VecDeque;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use seawall_values::{Datum, SqlResult};

use super::information_schema;
use super::names::Names;
use super::source::Source;
use crate::schema::Definition;

pub(super) use values::*;

/// Rows with all columns of their relation.
pub(super) type Rows = VecDeque<Vec<Datum>>;

/// Makes the rows of one definition.
pub(super) type MakeEach = fn(&Definition, &mut dyn Source, &Names, &mut Rows) -> SqlResult<()>;

/// Makes all rows.
pub(super) type MakeOnce = fn(&mut dyn Source, &Names, &mut Rows) -> SqlResult<()>;

/// How live rows of a relation are made.
#[derive(Debug)]
pub(super) enum Live {
    /// For each table, view and sequence.
    Each {
        /// The maker.
        make: MakeEach,
        /// Columns with the number of the definition, or of an index of it.
        numbers: &'static [usize],
        /// Columns with its name, or that of an index of it.
        names: &'static [usize],
        /// Whether system relations, too, are made here: they are not among the initial rows.
        has_system: bool,
        /// The maker of the rest.
        rest: Option<MakeOnce>,
    },
    /// For each table and view, of which a column has this number; the rest at once.
    Both {
        /// The maker for one.
        each: MakeEach,
        /// Columns with the number of the definition.
        numbers: &'static [usize],
        /// The maker of the rest.
        once: MakeOnce,
    },
    /// All at once.
    Once(MakeOnce),
}

/// A part of the registry.
pub(super) type Table = &'static [(&'static str, Live)];

/// The makers of a relation's live rows, if it has any.
pub(super) fn live(relation: &str) -> Option<&'static Live> {
    static MAP: OnceLock<FxHashMap<&'static str, &'static Live>> = OnceLock::new();
    let tables: [Table; 19] = [
        access::TABLE,
        attributes::TABLE,
        classes::TABLE,
        constraints::TABLE,
        database::TABLE,
        dependencies::TABLE,
        functions::TABLE,
        indexes::TABLE,
        replication::TABLE,
        roles::TABLE,
        seawall::TABLE,
        sequences::TABLE,
        server::TABLE,
        settings::TABLE,
        statements::TABLE,
        statistics::TABLE,
        types::TABLE,
        views::TABLE,
        information_schema::TABLE,
    ];
    MAP.get_or_init(|| {
        tables.iter().flat_map(|table| table.iter()).map(|(name, live)| (*name, live)).collect()
    })
    .get(relation)
    .copied()
}
