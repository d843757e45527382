//! `pg_describe_object`: an object in words, from the number of its class, its own, and that of a column.

use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::live::views::is_view;
use super::super::names::{namespace_name, relation_numbered, relation_text, role_name, type_text};
use super::super::numbers::{
    DATABASE, PG_ATTRDEF, PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PROC, PG_REWRITE,
    PG_TYPE, column_default, column_number, view_of_rule,
};
use super::super::source::Source;
use super::references::reference_output;
use super::{Table, integer, object};
use crate::schema::Definition;

pub(super) const TABLE: Table = &[("pg_describe_object", describe)];

/// `pg_class.oid` of `pg_operator`.
const PG_OPERATOR: Oid = 2617;

fn describe(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let (class, number, column) = (object(call, 0)?, object(call, 1)?, integer(call, 2)?);
    let words = match class {
        PG_CLASS => relation(source, number, column)?,
        PG_TYPE => {
            Some(format!("type {}", type_text(source, number, None)?)).filter(|words| words != "type ???")
        }
        PG_PROC => named(source, "function", oid::REGPROCEDURE, number)?,
        PG_OPERATOR => named(source, "operator", oid::REGOPERATOR, number)?,
        PG_NAMESPACE => namespace_name(source, number)?.map(|name| format!("schema {name}")),
        PG_AUTHID => role_name(source, number)?.map(|name| format!("role {name}")),
        PG_DATABASE if number == DATABASE => Some(format!("database {}", source.asker().database)),
        PG_CONSTRAINT => constraint(source, number)?,
        PG_ATTRDEF => default(source, number)?,
        PG_REWRITE => rule(source, number)?,
        _ => None,
    };
    Ok(words.map_or(Datum::Null, Datum::text))
}

fn named(source: &mut dyn Source, kind: &str, of: Oid, number: Oid) -> SqlResult<Option<String>> {
    let name = reference_output(source, of, number)?;
    Ok((name != number.to_string()).then(|| format!("{kind} {name}")))
}

fn relation(source: &mut dyn Source, number: Oid, column: i64) -> SqlResult<Option<String>> {
    let Some(definition) = relation_numbered(source, number)? else { return Ok(None) };
    let kind = match &definition {
        Definition::Index(..) => "index",
        Definition::Sequence(_) => "sequence",
        _ if is_view(&definition) => "view",
        Definition::Table(_) | Definition::View(_) | Definition::System(_) => "table",
    };
    let words = format!("{kind} {}", relation_text(source, number)?);
    let position = usize::try_from(column).ok().and_then(|column| column.checked_sub(1));
    let name = position.and_then(|position| match &definition {
        Definition::Table(table) => table.columns.get(position).map(|column| column.name.clone()),
        Definition::View(view) => view.columns.get(position).map(|(name, _)| name.clone()),
        Definition::System(relation) => relation.columns.get(position).map(|(name, _)| (*name).to_owned()),
        Definition::Sequence(_) | Definition::Index(..) => None,
    });
    Ok(match (column, name) {
        (0, _) => Some(words),
        (_, Some(name)) => Some(format!("column {name} of {words}")),
        (_, None) => None,
    })
}

fn constraint(source: &mut dyn Source, number: Oid) -> SqlResult<Option<String>> {
    let Some(table) = source.table_of_constraint(number)? else { return Ok(None) };
    let found = table.constraints.iter().find(|constraint| constraint.oid == number);
    let on = relation_text(source, table.oid)?;
    Ok(found.map(|constraint| format!("constraint {} on table {on}", constraint.name)))
}

/// Defaults have no numbers of their own: all tables are asked.
fn default(source: &mut dyn Source, number: Oid) -> SqlResult<Option<String>> {
    let mut after = 0;
    while let Some(definition) = source.definition_after(after)? {
        after = super::super::oid_of(&definition);
        let Definition::Table(table) = &definition else { continue };
        let mut columns = table.columns.iter().enumerate();
        if let Some((_, column)) =
            columns.find(|(position, _)| column_default(table.oid, column_number(*position)) == number)
        {
            let table = relation_text(source, table.oid)?;
            return Ok(Some(format!("default value for column {} of table {table}", column.name)));
        }
    }
    Ok(None)
}

fn rule(source: &mut dyn Source, number: Oid) -> SqlResult<Option<String>> {
    let Some(view) = view_of_rule(number) else { return Ok(None) };
    match source.definition(view)? {
        Some(Definition::View(_)) => {
            Ok(Some(format!("rule _RETURN on view {}", relation_text(source, view)?)))
        }
        _ => Ok(None),
    }
}
