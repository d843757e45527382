//! `tables`, `views`, `sequences`, `schemata`.

use seawall_values::{Datum, Oid, SqlResult, TypeReference};

use super::super::live::views::{definition_of, is_view};
use super::super::live::{Rows, name, text_or_null};
use super::super::names::Names;
use super::super::numbers::PG_NAMESPACE;
use super::super::source::Source;
use super::super::{definition_text, heading, initial};
use super::{TypeShape, is_shown, numeric_precision, yes_or_no};
use crate::schema::{CheckOption, Definition};

pub(super) fn tables(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let found = heading(definition);
    let is_relation = match definition {
        Definition::Table(table) => table.query.is_none(),
        definition => matches!(definition, Definition::View(_) | Definition::System(_)),
    };
    if !is_relation || !is_shown(definition, source, names)? {
        return Ok(());
    }
    let temporary = source.asker().temporary_namespace;
    let is_view = is_view(definition);
    let kind = match is_view {
        _ if temporary != 0 && found.namespace == temporary => "LOCAL TEMPORARY",
        true => "VIEW",
        false => "BASE TABLE",
    };
    rows.push_back(vec![
        name(&names.database),
        name(names.namespace(found.namespace)),
        name(found.name),
        Datum::text(kind),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        yes_or_no(!is_view),
        yes_or_no(false),
        Datum::Null,
    ]);
    Ok(())
}

/// Views, without what tells which ones can be written to.
pub(super) fn views(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    if !is_view(definition) || !is_shown(definition, source, names)? {
        return Ok(());
    }
    let found = heading(definition);
    let mut row = vec![
        name(&names.database),
        name(names.namespace(found.namespace)),
        name(found.name),
        text_or_null(definition_of(source, definition)?),
        Datum::text(check_option(definition)),
    ];
    row.extend(std::iter::repeat_n(yes_or_no(false), 5));
    rows.push_back(row);
    Ok(())
}

fn check_option(definition: &Definition) -> &'static str {
    let Definition::View(view) = definition else { return "NONE" };
    match view.check_option() {
        None => "NONE",
        Some(CheckOption::Local) => "LOCAL",
        Some(CheckOption::Cascaded) => "CASCADED",
    }
}

/// Sequences, but not those that are a part of an identity column.
pub(super) fn sequences(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Sequence(sequence) = definition else { return Ok(()) };
    if !is_shown(definition, source, names)? {
        return Ok(());
    }
    if let Some((table, position)) = sequence.owned_by
        && let Some(Definition::Table(table)) = source.definition(table)?
        && table.columns.get(position).is_some_and(|column| column.identity.is_some())
    {
        return Ok(());
    }
    let shape = TypeShape { of: sequence.of, modifier: -1 };
    rows.push_back(vec![
        name(&names.database),
        name(names.namespace(sequence.namespace)),
        name(&sequence.name),
        Datum::text(definition_text::column_type(source, TypeReference::of(sequence.of))?),
        numeric_precision(shape).map_or(Datum::Null, Datum::Int4),
        Datum::Int4(2),
        Datum::Int4(0),
        Datum::text(sequence.start.to_string()),
        Datum::text(sequence.minimum.to_string()),
        Datum::text(sequence.maximum.to_string()),
        Datum::text(sequence.increment.to_string()),
        yes_or_no(sequence.is_cycling),
    ]);
    Ok(())
}

/// The schemas whose owner's role the user has, or that the user may use.
pub(super) fn schemata(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let of_system = initial::initial_rows("pg_namespace").all().iter();
    let of_system = of_system.filter_map(|row| match (&row[1], &row[2]) {
        (Datum::Text(namespace), Datum::Oid(owner)) => Some((namespace.to_string(), *owner)),
        _ => None,
    });
    let mut shown: Vec<(String, Oid)> = of_system.collect();
    shown.retain(|(namespace, owner)| {
        names.has_role(*owner) || ["pg_catalog", "information_schema"].contains(&namespace.as_str())
    });
    for namespace in source.namespaces()? {
        let list = source.access_list((namespace.oid, PG_NAMESPACE, 0))?.unwrap_or_default();
        if names.has_role(namespace.owner) || !list.held(names.rights()).is_none() {
            shown.push((namespace.name, namespace.owner));
        }
    }
    for (namespace, owner) in shown {
        rows.push_back(vec![
            name(&names.database),
            name(&namespace),
            name(&names.role(owner)),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
        ]);
    }
    Ok(())
}
