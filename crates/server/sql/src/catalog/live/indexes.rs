//! `pg_index`, `pg_indexes`.

use seawall_values::system::system;
use seawall_values::user_types::{element_of_user_array, is_enum};
use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::definition_text::{self, Style};
use super::super::initial::{initial_rows, text_beside, value_of};
use super::super::names::Names;
use super::super::numbers::{BTREE, column_number};
use super::super::relations::column_position;
use super::super::source::Source;
use super::{Live, Rows, Table, int2vector, name, oidvector, small};
use crate::schema::{Definition, Index, IndexedValue, Table as Defined};

pub(super) const TABLE: Table = &[
    ("pg_index", Live::Each { make: pg_index, numbers: &[0, 1], names: &[], has_system: false, rest: None }),
    (
        "pg_indexes",
        Live::Each { make: pg_indexes, numbers: &[], names: &[1, 2], has_system: true, rest: None },
    ),
];

fn pg_index(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    rows.extend(table.indexes.iter().map(|index| index_row(table, index)));
    Ok(())
}

fn index_row(table: &Defined, index: &Index) -> Vec<Datum> {
    let expressions: Vec<&str> = index.keys.iter().filter_map(|key| expression(&key.what)).collect();
    let keys = index.keys.iter().map(|key| match key.what {
        IndexedValue::Column(position) => column_number(position),
        IndexedValue::Expression(_) => 0,
    });
    let constraint = table.constraints.iter().find(|constraint| constraint.oid == index.constraint);
    vec![
        Datum::Oid(index.oid),
        Datum::Oid(table.oid),
        small(index.keys.len() + index.included.len()),
        small(index.keys.len()),
        Datum::Bool(index.is_unique || constraint.is_some()),
        Datum::Bool(index.is_nulls_not_distinct),
        Datum::Bool(index.is_primary),
        Datum::Bool(false),
        Datum::Bool(constraint.is_none_or(|constraint| !constraint.is_deferrable)),
        Datum::Bool(false),
        Datum::Bool(index.is_valid),
        Datum::Bool(false),
        Datum::Bool(index.is_valid),
        Datum::Bool(true),
        Datum::Bool(false),
        int2vector(keys.chain(index.included.iter().map(|position| column_number(*position)))),
        oidvector(index.keys.iter().map(|key| collation(key.of.oid))),
        oidvector(index.keys.iter().map(|key| operator_class(key.of.oid))),
        int2vector(
            index.keys.iter().map(|key| i16::from(key.is_descending) | i16::from(key.is_nulls_first) << 1),
        ),
        if expressions.is_empty() { Datum::Null } else { Datum::text(expressions.join(", ")) },
        super::text_or_null(index.predicate.as_ref()),
    ]
}

fn expression(what: &IndexedValue) -> Option<&str> {
    match what {
        IndexedValue::Column(_) => None,
        IndexedValue::Expression(expression) => Some(expression),
    }
}

pub(super) fn collation(of: Oid) -> Oid {
    match value_of("pg_type", of, "typcollation") {
        Datum::Oid(collation) => collation,
        _ => 0,
    }
}

/// The type whose B-tree operators compare values of a type: its own, or the one that it is stored as.
pub(super) fn compared_type(of: Oid) -> Oid {
    match system().type_by_oid(of) {
        Some(row) if row.element != 0 && row.length == -1 => oid::ANYARRAY,
        Some(row) if row.kind == b'e' => oid::ANYENUM,
        Some(row) if row.kind == b'r' => oid::ANYRANGE,
        _ if of == oid::VARCHAR => oid::TEXT,
        Some(_) => of,
        None if is_enum(of) => oid::ANYENUM,
        None if element_of_user_array(of).is_some() => oid::ANYARRAY,
        None => oid::RECORD,
    }
}

/// The default class of B-tree indexes of a type: its own, or that of the type that it is stored as.
fn operator_class(of: Oid) -> Oid {
    let of = compared_type(of);
    let columns = ["oid", "opcmethod", "opcintype", "opcdefault"];
    let [Some(number), Some(method), Some(input), Some(is_default)] =
        columns.map(|column| column_position("pg_opclass", column))
    else {
        return 0;
    };
    let found = initial_rows("pg_opclass").all().iter().find(|row| {
        matches!((&row[method], &row[input], &row[is_default]),
            (Datum::Oid(method), Datum::Oid(input), Datum::Bool(true)) if *method == BTREE && *input == of)
    });
    match found.map(|row| &row[number]) {
        Some(Datum::Oid(class)) => *class,
        _ => 0,
    }
}

fn pg_indexes(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    match definition {
        Definition::Table(table) => {
            for index in &table.indexes {
                let text = definition_text::index(source, table, index, Style::Exact)?;
                rows.push_back(vec![
                    name(names.namespace(table.namespace)),
                    name(&table.name),
                    name(&index.name),
                    Datum::Null,
                    Datum::text(text),
                ]);
            }
        }
        Definition::System(relation) => {
            let Some(owner) = column_position("pg_index", "indrelid") else { return Ok(()) };
            let is_of = |row: &&Vec<Datum>| matches!(row[owner], Datum::Oid(oid) if oid == relation.oid);
            for row in initial_rows("pg_index").all().iter().filter(is_of) {
                let Datum::Oid(index) = row[0] else { continue };
                rows.push_back(vec![
                    name(names.namespace(relation.namespace)),
                    name(relation.name),
                    value_of("pg_class", index, "relname"),
                    Datum::Null,
                    super::text_or_null(text_beside("pg_index", index, "_definition")),
                ]);
            }
        }
        Definition::View(_) | Definition::Sequence(_) | Definition::Index(..) => {}
    }
    Ok(())
}
