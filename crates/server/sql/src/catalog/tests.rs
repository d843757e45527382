//! Rows and texts over a small schema. What is expected was recorded from PostgreSQL 15 with the statements beside it.

mod functions;
mod relations;
mod schema;

use seawall_values::Datum;
use seawall_values::system::system;

use super::{Scan, relation_named, relations as known};
use schema::Schema;

/// All rows of a relation, with some of its columns, as text.
fn rows(source: &mut Schema, relation: &str, columns: &[&str], filter: &[(&str, Datum)]) -> Vec<String> {
    let found = known::by_name(relation).unwrap_or_else(|| panic!("there is no relation {relation}"));
    let position = |column: &str| {
        let position = found.columns.iter().position(|(name, _)| *name == column);
        position.unwrap_or_else(|| panic!("{relation} has no column {column}"))
    };
    let columns: Vec<usize> = columns.iter().map(|column| position(column)).collect();
    let filter: Vec<(usize, Datum)> =
        filter.iter().map(|(column, value)| (position(column), value.clone())).collect();
    let mut scan = Scan::open(found.oid, &columns, &filter).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next(source).unwrap() {
        rows.push(row.iter().map(shown).collect::<Vec<_>>().join("|"));
    }
    rows
}

/// A value as psql shows it.
fn shown(value: &Datum) -> String {
    match value {
        Datum::Null => String::new(),
        Datum::Bool(true) => "t".to_owned(),
        Datum::Bool(false) => "f".to_owned(),
        Datum::Char(0) => String::new(),
        Datum::Char(letter) => char::from(*letter).to_string(),
        Datum::Int2(number) => number.to_string(),
        Datum::Int4(number) => number.to_string(),
        Datum::Int8(number) => number.to_string(),
        Datum::Oid(number) => number.to_string(),
        Datum::Float4(number) => number.to_string(),
        Datum::Text(text) => text.to_string(),
        Datum::Array(array) => {
            let values: Vec<String> = array.values.iter().map(shown).collect();
            if array.dimensions.first().is_some_and(|dimension| dimension.lower == 0) {
                values.join(" ")
            } else {
                format!("{{{}}}", values.join(","))
            }
        }
        other => format!("{other:?}"),
    }
}

/// Whether a value may be one of a type.
fn fits(value: &Datum, of: seawall_values::Oid) -> bool {
    use seawall_values::oid;
    match value {
        Datum::Null => true,
        Datum::Bool(_) => of == oid::BOOL,
        Datum::Char(_) => of == oid::CHAR,
        Datum::Int2(_) => of == oid::INT2,
        Datum::Int4(_) => of == oid::INT4,
        Datum::Int8(_) => of == oid::INT8,
        Datum::Float4(_) => of == oid::FLOAT4,
        Datum::Float8(_) => of == oid::FLOAT8,
        Datum::Numeric(_) => of == oid::NUMERIC,
        Datum::Oid(_) => matches!(of, oid::OID | oid::XID | oid::REGPROC | oid::REGTYPE),
        Datum::Text(_) => {
            matches!(of, oid::TEXT | oid::NAME | oid::VARCHAR | oid::PG_NODE_TREE | oid::ACLITEM) || of == 869
        }
        Datum::TimestampTz(_) => of == oid::TIMESTAMPTZ,
        Datum::Interval(_) => of == oid::INTERVAL,
        Datum::Array(array) => system().type_by_oid(of).unwrap().element == array.element,
        other => panic!("{other:?} in a system relation"),
    }
}
