//! `pg_constraint`.

use seawall_values::system::system;
use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::definition_text::domain_condition;
use super::super::names::Names;
use super::super::source::Source;
use super::{Live, Rows, Table, array, column_numbers, name};
use crate::schema::user_type::{DomainCheck, UserType, UserTypeKind};
use crate::schema::{
    Constraint, ConstraintKind, Definition, ForeignKey, IndexedValue, ReferentialAction, Table as Defined,
};

pub(super) const TABLE: Table =
    &[("pg_constraint", Live::Both { each: pg_constraint, numbers: &[7], once: domain_constraints })];

fn pg_constraint(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    rows.extend(table.constraints.iter().map(|constraint| row(table, constraint)));
    Ok(())
}

fn domain_constraints(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for known in source.user_types()? {
        let UserTypeKind::Domain(domain) = &known.kind else { continue };
        for check in &domain.checks {
            rows.push_back(domain_row(&known, check));
        }
    }
    Ok(())
}

fn domain_row(of: &UserType, check: &DomainCheck) -> Vec<Datum> {
    let none = Datum::Oid(0);
    vec![
        Datum::Oid(check.oid),
        name(&check.name),
        Datum::Oid(of.namespace),
        Datum::Char(b'c'),
        Datum::Bool(false),
        Datum::Bool(false),
        Datum::Bool(check.is_validated),
        none.clone(),
        Datum::Oid(of.oid),
        none.clone(),
        none.clone(),
        none,
        Datum::Char(b' '),
        Datum::Char(b' '),
        Datum::Char(b' '),
        Datum::Bool(true),
        Datum::Int4(0),
        Datum::Bool(false),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::text(domain_condition(&check.condition)),
    ]
}

/// What differs between the kinds of constraints.
struct Kind {
    letter: u8,
    index: Oid,
    target: Oid,
    actions: [u8; 3],
    columns: Datum,
    target_columns: Datum,
    operators: Datum,
    condition: Datum,
}

fn row(table: &Defined, constraint: &Constraint) -> Vec<Datum> {
    let kind = kind(table, &constraint.kind);
    let [on_update, on_delete, matching] = kind.actions;
    vec![
        Datum::Oid(constraint.oid),
        name(&constraint.name),
        Datum::Oid(table.namespace),
        Datum::Char(kind.letter),
        Datum::Bool(constraint.is_deferrable),
        Datum::Bool(constraint.is_deferred),
        Datum::Bool(constraint.is_validated),
        Datum::Oid(table.oid),
        Datum::Oid(0),
        Datum::Oid(kind.index),
        Datum::Oid(0),
        Datum::Oid(kind.target),
        Datum::Char(on_update),
        Datum::Char(on_delete),
        Datum::Char(matching),
        Datum::Bool(true),
        Datum::Int4(0),
        Datum::Bool(kind.letter != b'c'),
        kind.columns,
        kind.target_columns,
        kind.operators.clone(),
        kind.operators.clone(),
        kind.operators,
        Datum::Null,
        Datum::Null,
        kind.condition,
    ]
}

fn kind(table: &Defined, kind: &ConstraintKind) -> Kind {
    let plain = Kind {
        letter: b'c',
        index: 0,
        target: 0,
        actions: [b' '; 3],
        columns: Datum::Null,
        target_columns: Datum::Null,
        operators: Datum::Null,
        condition: Datum::Null,
    };
    match kind {
        ConstraintKind::Check(condition) => {
            let columns = columns_of(table, condition);
            let columns = if columns.is_empty() { Datum::Null } else { column_numbers(&columns) };
            Kind { columns, condition: Datum::text(condition), ..plain }
        }
        ConstraintKind::Unique(index) => {
            let found = table.indexes.iter().find(|known| known.oid == *index);
            let keys = found.into_iter().flat_map(|index| &index.keys);
            let columns: Vec<usize> = keys.filter_map(|key| column(&key.what)).collect();
            let letter = if found.is_some_and(|index| index.is_primary) { b'p' } else { b'u' };
            Kind { letter, index: *index, columns: column_numbers(&columns), ..plain }
        }
        ConstraintKind::ForeignKey(key) => Kind {
            letter: b'f',
            index: key.target_index,
            target: key.target,
            actions: [
                action(key.on_update),
                action(key.on_delete),
                if key.is_match_full { b'f' } else { b's' },
            ],
            columns: column_numbers(&key.columns),
            target_columns: column_numbers(&key.target_columns),
            operators: array(oid::OID, equalities(table, key).into_iter().map(Datum::Oid)),
            ..plain
        },
    }
}

fn column(what: &IndexedValue) -> Option<usize> {
    match what {
        IndexedValue::Column(position) => Some(*position),
        IndexedValue::Expression(_) => None,
    }
}

fn action(action: ReferentialAction) -> u8 {
    match action {
        ReferentialAction::NoAction => b'a',
        ReferentialAction::Restrict => b'r',
        ReferentialAction::Cascade => b'c',
        ReferentialAction::SetNull => b'n',
        ReferentialAction::SetDefault => b'd',
    }
}

/// The operator `=` of the type of each column.
fn equalities(table: &Defined, key: &ForeignKey) -> Vec<Oid> {
    let types =
        key.columns.iter().filter_map(|position| table.columns.get(*position)).map(|column| column.of.oid);
    types
        .map(|of| {
            let of = if of == oid::VARCHAR { oid::TEXT } else { of };
            let mut operators = system().operators_named("=").iter();
            operators
                .find(|operator| operator.left == of && operator.right == of)
                .map_or(0, |operator| operator.oid)
        })
        .collect()
}

/// The columns whose names are words of an expression, outside of literals.
pub(crate) fn columns_of(table: &Defined, expression: &str) -> Vec<usize> {
    let mut words = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            letter if letter.is_alphanumeric() || letter == '_' => {
                rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len())
            }
            other => other.len_utf8(),
        };
        let (word, following) = rest.split_at(length);
        if first != '\'' {
            words.push(word.trim_matches('"'));
        }
        rest = following;
    }
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped);
    columns
        .filter(|(_, column)| words.contains(&column.name.as_str()))
        .map(|(position, _)| position)
        .collect()
}
