//! Definitions as text: `pg_get_expr`, `pg_get_indexdef`, `pg_get_constraintdef`, `pg_get_viewdef`, `format_type` and their kind.

use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::super::definition_text::{self, Style};
use super::super::initial::text_beside;
use super::super::live::views::definition_of;
use super::super::names::{self, quoted, relation_numbered, relation_text, type_text};
use super::super::numbers::column_number;
use super::super::source::Source;
use super::references::relation_of_name;
use super::{Table, boolean, integer, nothing, object, text};
use crate::schema::Definition;
use crate::schema::user_type::UserTypeKind;

pub(super) const TABLE: Table = &[
    ("format_type", format_type),
    ("pg_get_expr", |_, call| expression(call, Style::Exact)),
    ("pg_get_expr_ext", |_, call| expression(call, style(call, 2)?)),
    ("pg_get_indexdef", |source, call| index(source, call, 0, Style::Exact)),
    ("pg_get_indexdef_ext", |source, call| index(source, call, integer(call, 1)?, style(call, 2)?)),
    ("pg_get_constraintdef", |source, call| constraint(source, call, Style::Exact)),
    ("pg_get_constraintdef_ext", |source, call| constraint(source, call, style(call, 1)?)),
    ("pg_get_viewdef", view),
    ("pg_get_viewdef_ext", view),
    ("pg_get_viewdef_wrap", view),
    ("pg_get_viewdef_name", view_named),
    ("pg_get_viewdef_name_ext", view_named),
    ("pg_get_ruledef", rule),
    ("pg_get_ruledef_ext", rule),
    ("pg_get_userbyid", user),
    ("pg_get_serial_sequence", serial_sequence),
    ("pg_get_triggerdef", nothing),
    ("pg_get_triggerdef_ext", nothing),
    ("pg_get_partkeydef", nothing),
    ("pg_get_partition_constraintdef", nothing),
    ("pg_get_statisticsobjdef", nothing),
    ("pg_get_statisticsobjdef_columns", nothing),
    ("pg_get_statisticsobjdef_expressions", nothing),
];

fn style(call: &Call<'_>, position: usize) -> SqlResult<Style> {
    Ok(if boolean(call, position)? { Style::Pretty } else { Style::Exact })
}

/// It is not strict: without a modifier the name is that of SQL's grammar.
fn format_type(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(Datum::Oid(of)) = call.arguments.first() else { return Ok(Datum::Null) };
    let modifier = match call.arguments.get(1) {
        Some(Datum::Int4(modifier)) => Some(*modifier),
        _ => None,
    };
    type_text(source, *of, modifier).map(Datum::text)
}

/// A tree of PostgreSQL's is text of SQL here.
fn expression(call: &Call<'_>, style: Style) -> SqlResult<Datum> {
    Ok(Datum::text(definition_text::expression(text(call, 0)?, style)))
}

fn index(source: &mut dyn Source, call: &Call<'_>, column: i64, style: Style) -> SqlResult<Datum> {
    let number = object(call, 0)?;
    let Some(Definition::Index(table, index)) = source.definition(number)? else {
        return Ok(initial_index(number, column));
    };
    match usize::try_from(column) {
        Ok(0) => definition_text::index(source, &table, &index, style).map(Datum::text),
        Ok(column) => Ok(definition_text::index_column(&table, &index, column, style)
            .map_or_else(|| Datum::text(""), Datum::text)),
        Err(_) => Ok(Datum::text("")),
    }
}

/// An index of a system relation: its keys are columns.
fn initial_index(number: Oid, column: i64) -> Datum {
    if column == 0 {
        return text_beside("pg_index", number, "_definition").map_or(Datum::Null, Datum::text);
    }
    let attributes = super::super::initial::initial_rows("pg_attribute").numbered(number);
    let position = super::super::relations::column_position("pg_attribute", "attnum").unwrap_or(0);
    let is_meant =
        |row: &&Vec<Datum>| matches!(row[position], Datum::Int2(number) if i64::from(number) == column);
    match attributes.iter().find(is_meant).map(|row| &row[1]) {
        Some(Datum::Text(name)) => Datum::text(quoted(name)),
        _ => Datum::Null,
    }
}

fn constraint(source: &mut dyn Source, call: &Call<'_>, style: Style) -> SqlResult<Datum> {
    let number = object(call, 0)?;
    let Some(table) = source.table_of_constraint(number)? else {
        for known in source.user_types()? {
            let UserTypeKind::Domain(domain) = &known.kind else { continue };
            if let Some(check) = domain.checks.iter().find(|check| check.oid == number) {
                return definition_text::domain_check(source, check, style).map(Datum::text);
            }
        }
        return Ok(text_beside("pg_constraint", number, "_definition").map_or(Datum::Null, Datum::text));
    };
    match table.constraints.iter().find(|constraint| constraint.oid == number) {
        Some(constraint) => definition_text::constraint(source, &table, constraint, style).map(Datum::text),
        None => Ok(Datum::Null),
    }
}

fn view(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(found) = relation_numbered(source, object(call, 0)?)? else { return Ok(Datum::Null) };
    Ok(definition_of(source, &found)?.map_or(Datum::Null, Datum::text))
}

fn view_named(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let found = relation_of_name(source, text(call, 0)?)?;
    Ok(definition_of(source, &found)?.map_or_else(|| Datum::text("Not a view"), Datum::text))
}

/// The rule of a view is found from the number of the rule.
fn rule(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let number = object(call, 0)?;
    let Some(view) = super::super::numbers::view_of_rule(number) else { return Ok(Datum::Null) };
    let Some(found) = source.definition(view)? else { return Ok(Datum::Null) };
    let Some(query) = definition_of(source, &found)? else { return Ok(Datum::Null) };
    let view = relation_text(source, view)?;
    Ok(Datum::text(format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {view} DO INSTEAD {query}")))
}

fn user(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let number = object(call, 0)?;
    let name = names::role_name(source, number)?;
    Ok(Datum::text(name.unwrap_or_else(|| names::unknown_role(number))))
}

/// The sequence of a serial or identity column.
fn serial_sequence(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let found = relation_of_name(source, text(call, 0)?)?;
    let column = text(call, 1)?;
    let Definition::Table(table) = &found else { return Ok(Datum::Null) };
    let is_meant = |known: &crate::schema::Column| known.name == column && !known.is_dropped;
    let Some(position) = table.columns.iter().position(is_meant) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
        ));
    };
    let sequence = match table.columns[position].sequence {
        0 => owned_sequence(source, table.oid, column_number(position))?,
        sequence => sequence,
    };
    let Some(Definition::Sequence(sequence)) = source.definition(sequence)? else { return Ok(Datum::Null) };
    names::qualified(source, sequence.namespace, &sequence.name, false).map(Datum::text)
}

/// A sequence that was given to a column by `OWNED BY`; 0: there is none.
fn owned_sequence(source: &mut dyn Source, table: Oid, column: i16) -> SqlResult<Oid> {
    let mut after = 0;
    while let Some(definition) = source.definition_after(after)? {
        if let Definition::Sequence(sequence) = &definition
            && sequence
                .owned_by
                .is_some_and(|(owner, position)| owner == table && column_number(position) == column)
        {
            return Ok(sequence.oid);
        }
        after = super::super::oid_of(&definition);
    }
    Ok(0)
}
