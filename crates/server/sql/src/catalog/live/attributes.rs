//! `pg_attribute`, `pg_attrdef`.

use seawall_values::system::system;
use seawall_values::user_types::{element_of_user_array, is_enum, relation_of_composite};
use seawall_values::{Datum, Oid, SqlResult, TypeReference, oid};

use super::super::definition_text;
use super::super::initial::value_of;
use super::super::names::Names;
use super::super::numbers::{PG_CLASS, column_default, column_number};
use super::super::oid_of;
use super::super::source::Source;
use super::access::items;
use super::{Live, Rows, Table, name};
use crate::schema::user_type::UserTypeKind;
use crate::schema::{Column, Definition, Identity};

pub(super) const TABLE: Table = &[
    (
        "pg_attribute",
        Live::Each { make: pg_attribute, numbers: &[0], names: &[], has_system: false, rest: Some(fields) },
    ),
    ("pg_attrdef", Live::Each { make: pg_attrdef, numbers: &[1], names: &[], has_system: false, rest: None }),
];

/// The columns that every table has: name, type, number.
const SYSTEM_COLUMNS: [(&str, Oid, i16); 6] = [
    ("ctid", oid::TID, -1),
    ("xmin", oid::XID, -2),
    ("cmin", oid::CID, -3),
    ("xmax", oid::XID, -4),
    ("cmax", oid::CID, -5),
    ("tableoid", oid::OID, -6),
];

struct Attribute<'a> {
    relation: Oid,
    name: &'a str,
    of: TypeReference,
    number: i16,
    column: Option<&'a Column>,
    access: Datum,
}

impl Attribute<'_> {
    fn row(&self) -> Vec<Datum> {
        let is_dropped = self.column.is_some_and(|column| column.is_dropped);
        let of = if is_dropped { 0 } else { self.of.oid };
        let typed = |column: &str| value_of("pg_type", self.known_type(), column);
        let is_array =
            system().type_by_oid(self.known_type()).is_some_and(|row| row.element != 0 && row.length == -1)
                || element_of_user_array(of).is_some();
        let identity = match self.column.and_then(|column| column.identity) {
            Some(Identity::Always) => b'a',
            Some(Identity::ByDefault) => b'd',
            None => 0,
        };
        let has_default =
            self.column.is_some_and(|column| column.default.is_some() || column.generated.is_some());
        let is_generated = self.column.is_some_and(|column| column.generated.is_some());
        let is_not_null = self.number < 0 || self.column.is_some_and(|column| column.is_not_null);
        vec![
            Datum::Oid(self.relation),
            name(self.name),
            Datum::Oid(of),
            Datum::Int4(if self.number < 0 { 0 } else { -1 }),
            typed("typlen"),
            Datum::Int2(self.number),
            Datum::Int4(i32::from(is_array)),
            Datum::Int4(-1),
            Datum::Int4(self.of.modifier),
            typed("typbyval"),
            typed("typalign"),
            typed("typstorage"),
            Datum::Char(0),
            Datum::Bool(is_not_null && !is_dropped),
            Datum::Bool(has_default && !is_dropped),
            Datum::Bool(self.column.is_some_and(|column| !column.missing.is_null())),
            Datum::Char(identity),
            Datum::Char(if is_generated { b's' } else { 0 }),
            Datum::Bool(is_dropped),
            Datum::Bool(true),
            Datum::Int4(0),
            typed("typcollation"),
            self.access.clone(),
            Datum::Null,
            Datum::Null,
            Datum::Null,
        ]
    }

    /// The type, or one with the same representation: rows of tables are like any record.
    fn known_type(&self) -> Oid {
        match self.column.map_or(self.of.oid, |column| column.of.oid) {
            of if system().type_by_oid(of).is_some() => of,
            of if is_enum(of) => oid::ANYENUM,
            of if element_of_user_array(of).is_some() => oid::INT4_ARRAY,
            _ => oid::RECORD,
        }
    }
}

fn pg_attribute(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let lists = source.access_lists(oid_of(definition), PG_CLASS)?;
    let mut push = |relation, name: &str, of, number: i16, column| {
        let list = lists.iter().find(|(known, _)| *known > 0 && i32::from(*known) == i32::from(number));
        let is_whole = relation == oid_of(definition);
        let access = list.filter(|_| is_whole).map_or(Datum::Null, |(_, list)| items(list, names));
        rows.push_back(Attribute { relation, name, of, number, column, access }.row());
    };
    match definition {
        Definition::Table(table) => {
            for (position, column) in table.columns.iter().enumerate() {
                let number = column_number(position);
                let name = if column.is_dropped {
                    format!("........pg.dropped.{number}........")
                } else {
                    column.name.clone()
                };
                let of = if column.domain == 0 { column.of.oid } else { column.domain };
                let of = TypeReference { oid: of, modifier: column.of.modifier };
                push(table.oid, &name, of, number, Some(column));
            }
            for (name, of, number) in SYSTEM_COLUMNS {
                push(table.oid, name, TypeReference::of(of), number, None);
            }
            for index in &table.indexes {
                let keys = index.keys.iter().map(|key| (definition_text::key_name(table, key), key.of));
                let included = index.included.iter().filter_map(|position| table.columns.get(*position));
                let included = included.map(|column| (column.name.clone(), column.of));
                for (position, (name, of)) in keys.chain(included).enumerate() {
                    push(index.oid, &name, of, column_number(position), None);
                }
            }
        }
        Definition::View(view) => {
            for (position, (name, of)) in view.columns.iter().enumerate() {
                push(view.oid, name, *of, column_number(position), None);
            }
        }
        Definition::Sequence(sequence) => {
            let columns = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
            for (position, (name, of)) in columns.into_iter().enumerate() {
                push(sequence.oid, name, TypeReference::of(of), column_number(position), None);
            }
        }
        Definition::Index(..) | Definition::System(_) => {}
    }
    Ok(())
}

/// Fields of composite types that users have made.
fn fields(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for known in source.user_types()? {
        let UserTypeKind::Composite(fields) = &known.kind else { continue };
        let relation = relation_of_composite(known.oid).unwrap_or(0);
        for (position, field) in fields.iter().enumerate() {
            let of = if field.domain == 0 { field.of.oid } else { field.domain };
            let of = TypeReference { oid: of, modifier: field.of.modifier };
            let number = column_number(position);
            let access = Datum::Null;
            rows.push_back(Attribute { relation, name: &field.name, of, number, column: None, access }.row());
        }
    }
    Ok(())
}

/// Defaults, and expressions of generated columns. An identity column has none.
fn pg_attrdef(
    definition: &Definition,
    source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
        if let Some(expression) = column.default.as_ref().or(column.generated.as_ref()) {
            let expression = definition_text::with_relation_names(source, expression)?;
            let number = column_number(position);
            rows.push_back(vec![
                Datum::Oid(column_default(table.oid, number)),
                Datum::Oid(table.oid),
                Datum::Int2(number),
                Datum::text(&expression),
            ]);
        }
    }
    Ok(())
}
