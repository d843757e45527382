//! Constraints of tables, and the columns that they use. `NOT NULL` is shown as a check with a name made of numbers.

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

use super::super::definition_text::{self, Style, action_words};
use super::super::live::constraints::columns_of;
use super::super::live::{Rows, name};
use super::super::names::{Names, quoted};
use super::super::numbers::column_number;
use super::super::source::Source;
use super::{is_shown, yes_or_no};
use crate::schema::{Column, ConstraintKind, Definition, ForeignKey, Index, IndexedValue, Table};

/// The table, if it is one and is shown.
fn shown_table<'a>(
    definition: &'a Definition,
    source: &mut dyn Source,
    names: &Names,
) -> SqlResult<Option<&'a Arc<Table>>> {
    match definition {
        Definition::Table(table) if is_shown(definition, source, names)? => Ok(Some(table)),
        _ => Ok(None),
    }
}

/// Catalog, schema and name of a constraint, or of a table.
fn three_names(names: &Names, table: &Table, object: &str) -> [Datum; 3] {
    [name(&names.database), name(names.namespace(table.namespace)), name(object)]
}

/// Columns with `NOT NULL`, and the names of these constraints.
fn not_null(table: &Table) -> impl Iterator<Item = (String, &Column)> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| column.is_not_null && !column.is_dropped).map(|(position, column)| {
        (format!("{}_{}_{}_not_null", table.namespace, table.oid, column_number(position)), column)
    })
}

fn index_of(table: &Table, oid: seawall_values::Oid) -> Option<&Index> {
    table.indexes.iter().find(|index| index.oid == oid).map(|index| &**index)
}

fn key_positions(index: &Index) -> Vec<usize> {
    let positions = index.keys.iter().filter_map(|key| match key.what {
        IndexedValue::Column(position) => Some(position),
        IndexedValue::Expression(_) => None,
    });
    positions.collect()
}

fn target(source: &mut dyn Source, key: &ForeignKey) -> SqlResult<Option<Arc<Table>>> {
    Ok(match source.definition(key.target)? {
        Some(Definition::Table(table)) => Some(table),
        _ => None,
    })
}

pub(super) fn table_constraints(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    let mut push = |constraint: &str, kind: &str, is_deferrable, is_deferred, nulls_distinct| {
        let mut row = Vec::from(three_names(names, table, constraint));
        row.extend(three_names(names, table, &table.name));
        row.extend([Datum::text(kind), yes_or_no(is_deferrable), yes_or_no(is_deferred), yes_or_no(true)]);
        row.push(nulls_distinct);
        rows.push_back(row);
    };
    for constraint in &table.constraints {
        let (kind, nulls_distinct) = match &constraint.kind {
            ConstraintKind::Check(_) => ("CHECK", Datum::Null),
            ConstraintKind::ForeignKey(_) => ("FOREIGN KEY", Datum::Null),
            ConstraintKind::Unique(index) => match index_of(table, *index) {
                Some(index) if index.is_primary => ("PRIMARY KEY", Datum::Null),
                index => ("UNIQUE", yes_or_no(index.is_none_or(|index| !index.is_nulls_not_distinct))),
            },
        };
        push(&constraint.name, kind, constraint.is_deferrable, constraint.is_deferred, nulls_distinct);
    }
    for (constraint, _) in not_null(table) {
        push(&constraint, "CHECK", false, false, Datum::Null);
    }
    Ok(())
}

pub(super) fn key_column_usage(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    for constraint in &table.constraints {
        // For each column its place in the key that a foreign key refers to.
        let (columns, in_unique) = match &constraint.kind {
            ConstraintKind::Check(_) => continue,
            ConstraintKind::Unique(index) => {
                (index_of(table, *index).map_or_else(Vec::new, key_positions), Vec::new())
            }
            ConstraintKind::ForeignKey(key) => {
                let target = target(source, key)?;
                let unique = target.as_ref().and_then(|target| index_of(target, key.target_index));
                let unique = unique.map_or_else(Vec::new, key_positions);
                let place = |column: &usize| unique.iter().position(|position| position == column);
                (key.columns.clone(), key.target_columns.iter().map(place).collect())
            }
        };
        for (ordinal, position) in columns.into_iter().enumerate() {
            let Some(column) = table.columns.get(position) else { continue };
            let place = in_unique.get(ordinal).copied().flatten();
            let mut row = Vec::from(three_names(names, table, &constraint.name));
            row.extend(three_names(names, table, &table.name));
            row.push(name(&column.name));
            row.push(Datum::Int4(i32::from(column_number(ordinal))));
            row.push(place.map_or(Datum::Null, |place| Datum::Int4(i32::from(column_number(place)))));
            rows.push_back(row);
        }
    }
    Ok(())
}

/// The columns that a constraint is about; of a foreign key, those that it refers to.
pub(super) fn constraint_column_usage(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    for constraint in &table.constraints {
        let (used, columns) = match &constraint.kind {
            ConstraintKind::Check(condition) => (Some(Arc::clone(table)), columns_of(table, condition)),
            ConstraintKind::Unique(index) => {
                (Some(Arc::clone(table)), index_of(table, *index).map_or_else(Vec::new, key_positions))
            }
            ConstraintKind::ForeignKey(key) => (target(source, key)?, key.target_columns.clone()),
        };
        let Some(used) = used else { continue };
        for column in columns.into_iter().filter_map(|position| used.columns.get(position)) {
            let mut row = Vec::from(three_names(names, &used, &used.name));
            row.push(name(&column.name));
            row.extend(three_names(names, table, &constraint.name));
            rows.push_back(row);
        }
    }
    Ok(())
}

/// The table whose key a constraint is, or which a foreign key refers to.
pub(super) fn constraint_table_usage(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    for constraint in &table.constraints {
        let used = match &constraint.kind {
            ConstraintKind::Check(_) => None,
            ConstraintKind::Unique(_) => Some(Arc::clone(table)),
            ConstraintKind::ForeignKey(key) => target(source, key)?,
        };
        let Some(used) = used else { continue };
        let mut row = Vec::from(three_names(names, &used, &used.name));
        row.extend(three_names(names, table, &constraint.name));
        rows.push_back(row);
    }
    Ok(())
}

pub(super) fn referential_constraints(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    for constraint in &table.constraints {
        let ConstraintKind::ForeignKey(key) = &constraint.kind else { continue };
        let mut row = Vec::from(three_names(names, table, &constraint.name));
        let target = target(source, key)?;
        let unique = target.as_ref().and_then(|target| {
            let mut constraints = target.constraints.iter();
            let unique = constraints.find(
                |known| matches!(known.kind, ConstraintKind::Unique(index) if index == key.target_index),
            );
            unique.map(|unique| three_names(names, target, &unique.name))
        });
        row.extend(unique.unwrap_or_default());
        row.push(Datum::text(if key.is_match_full { "FULL" } else { "NONE" }));
        row.extend([key.on_update, key.on_delete].map(|action| Datum::text(action_words(action))));
        rows.push_back(row);
    }
    Ok(())
}

pub(super) fn check_constraints(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(table) = shown_table(definition, source, names)? else { return Ok(()) };
    let mut push = |constraint: &str, clause: &str| {
        let mut row = Vec::from(three_names(names, table, constraint));
        row.push(Datum::text(clause));
        rows.push_back(row);
    };
    for constraint in &table.constraints {
        if matches!(constraint.kind, ConstraintKind::Check(_)) {
            let text = definition_text::constraint(source, table, constraint, Style::Exact)?;
            push(&constraint.name, text.strip_prefix("CHECK ").unwrap_or(&text));
        }
    }
    for (constraint, column) in not_null(table) {
        push(&constraint, &format!("{} IS NOT NULL", quoted(&column.name)));
    }
    Ok(())
}
