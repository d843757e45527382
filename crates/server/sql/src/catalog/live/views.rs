//! `pg_tables`, `pg_views`, `pg_matviews`.

use seawall_values::{Datum, SqlResult};

use super::super::definition_text::view_query;
use super::super::initial::{text_beside, value_of};
use super::super::names::Names;
use super::super::source::Source;
use super::super::{heading, oid_of};
use super::{Live, Rows, Table, name, text_or_null};
use crate::schema::{ConstraintKind, Definition};

pub(super) const TABLE: Table = &[
    ("pg_tables", Live::Each { make: pg_tables, numbers: &[], names: &[1], has_system: true, rest: None }),
    ("pg_views", Live::Each { make: pg_views, numbers: &[], names: &[1], has_system: true, rest: None }),
    (
        "pg_matviews",
        Live::Each { make: pg_matviews, numbers: &[], names: &[1], has_system: false, rest: None },
    ),
];

/// Whether a relation is a view.
pub(in super::super) fn is_view(definition: &Definition) -> bool {
    match definition {
        Definition::View(_) => true,
        Definition::System(relation) => {
            matches!(value_of("pg_class", relation.oid, "relkind"), Datum::Char(b'v'))
        }
        Definition::Table(_) | Definition::Sequence(_) | Definition::Index(..) => false,
    }
}

fn pg_tables(
    definition: &Definition,
    _source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let (has_indexes, has_triggers) = match definition {
        Definition::Table(table) if table.query.is_none() => {
            let mut kinds = table.constraints.iter().map(|constraint| &constraint.kind);
            (!table.indexes.is_empty(), kinds.any(|kind| matches!(kind, ConstraintKind::ForeignKey(_))))
        }
        Definition::System(relation) if !is_view(definition) => {
            (matches!(value_of("pg_class", relation.oid, "relhasindex"), Datum::Bool(true)), false)
        }
        _ => return Ok(()),
    };
    let found = heading(definition);
    rows.push_back(vec![
        name(names.namespace(found.namespace)),
        name(found.name),
        name(&names.role(found.owner)),
        Datum::Null,
        Datum::Bool(has_indexes),
        Datum::Bool(false),
        Datum::Bool(has_triggers),
        Datum::Bool(false),
    ]);
    Ok(())
}

fn pg_views(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    if !is_view(definition) {
        return Ok(());
    }
    let found = heading(definition);
    rows.push_back(vec![
        name(names.namespace(found.namespace)),
        name(found.name),
        name(&names.role(found.owner)),
        text_or_null(definition_of(source, definition)?),
    ]);
    Ok(())
}

fn pg_matviews(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let Some(query) = &table.query else { return Ok(()) };
    rows.push_back(vec![
        name(names.namespace(table.namespace)),
        name(&table.name),
        name(&names.role(table.owner)),
        Datum::Null,
        Datum::Bool(!table.indexes.is_empty()),
        Datum::Bool(query.is_populated),
        text_or_null(definition_of(source, definition)?),
    ]);
    Ok(())
}

/// The query of a view, as `pg_get_viewdef` shows it.
pub(in super::super) fn definition_of(
    source: &mut dyn Source,
    definition: &Definition,
) -> SqlResult<Option<String>> {
    match definition {
        Definition::View(view) => shown(source, &view.query).map(Some),
        Definition::Table(table) => match &table.query {
            Some(query) => shown(source, &query.text).map(Some),
            None => Ok(None),
        },
        Definition::System(_) => Ok(text_beside("pg_class", oid_of(definition), "_view")),
        Definition::Sequence(_) | Definition::Index(..) => Ok(None),
    }
}

fn shown(source: &mut dyn Source, query: &str) -> SqlResult<String> {
    let query = view_query(source, query)?;
    Ok(format!(" {};", query.trim().trim_end_matches(';')))
}
