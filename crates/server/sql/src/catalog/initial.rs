//! Rows of system relations that every database has: those of the file in crate `values`, as values.

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use seawall_values::datum::{Array, Dimension};
use seawall_values::system::{Block, array_elements, system};
use seawall_values::{Datum, Oid, TypeReference, oid};

use super::numbers::{BOOTSTRAP_ROLE, PUBLIC};
use super::relations;

/// The rows of one relation, in the order of their first column. They have its columns, and then texts that are beside these.
#[derive(Debug)]
pub(super) struct InitialRows {
    rows: Vec<Vec<Datum>>,
}

impl InitialRows {
    /// All of them.
    pub(super) fn all(&self) -> &[Vec<Datum>] {
        &self.rows
    }

    /// Those whose first column is this number.
    pub(super) fn numbered(&self, number: Oid) -> &[Vec<Datum>] {
        let first = |row: &[Datum]| match row.first() {
            Some(Datum::Oid(oid)) => *oid,
            _ => 0,
        };
        let start = self.rows.partition_point(|row| first(row) < number);
        let count = self.rows[start..].partition_point(|row| first(row) == number);
        &self.rows[start..start + count]
    }
}

/// The rows of the relation of this name. They are read when they are first asked for.
pub(super) fn initial_rows(relation: &str) -> &'static InitialRows {
    static NONE: InitialRows = InitialRows { rows: Vec::new() };
    static ALL: OnceLock<FxHashMap<&'static str, OnceLock<InitialRows>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let names = relations::all().iter().map(|relation| relation.name);
        names.filter(|name| block_of(name).is_some()).map(|name| (name, OnceLock::new())).collect()
    });
    let (Some(rows), Some(block)) = (all.get(relation), block_of(relation)) else { return &NONE };
    rows.get_or_init(|| read(block))
}

/// A value of the row with this number; null if there is no such row.
pub(super) fn value_of(relation: &str, number: Oid, column: &str) -> Datum {
    let Some(position) = relations::column_position(relation, column) else { return Datum::Null };
    initial_rows(relation).numbered(number).first().map_or(Datum::Null, |row| row[position].clone())
}

/// A value beside the columns of the row whose first column is this number.
pub(super) fn text_beside(relation: &str, number: Oid, column: &str) -> Option<String> {
    let position = block_of(relation)?.position(column);
    match initial_rows(relation).numbered(number).first()?.get(position) {
        Some(Datum::Text(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// The block with the rows of a relation; those of results of functions, which have names of views, are not meant.
fn block_of(relation: &str) -> Option<&'static Block> {
    system().block(relation).filter(|block| block.schema != "results")
}

fn read(block: &Block) -> InitialRows {
    let types: Vec<Oid> = relations::by_name(block.name).map_or_else(Vec::new, |relation| {
        relation.columns.iter().map(|(_, of): &(&str, TypeReference)| of.oid).collect()
    });
    let row = |fields: Vec<Option<std::borrow::Cow<'static, str>>>| {
        // After the columns come texts that are beside them.
        let values = types.iter().copied().chain(std::iter::repeat(oid::TEXT)).zip(fields);
        values.map(|(of, field)| field.map_or(Datum::Null, |text| datum(of, &text))).collect()
    };
    let rows = block.rows().map(row).filter(|row: &Vec<Datum>| !is_defined(block.name, row));
    InitialRows { rows: rows.collect() }
}

/// Whether an initial row is that of an object which is defined like those of users, and may be renamed.
fn is_defined(relation: &str, row: &[Datum]) -> bool {
    match (relation, &row[0]) {
        ("pg_authid", Datum::Oid(oid)) => *oid == BOOTSTRAP_ROLE,
        ("pg_namespace", Datum::Oid(oid)) => *oid == PUBLIC,
        _ => false,
    }
}

/// A value of one of the types that system relations have.
fn datum(of: Oid, text: &str) -> Datum {
    let vector = |element: Oid| {
        let values: Vec<Datum> = text.split_ascii_whitespace().map(|text| datum(element, text)).collect();
        vector(element, values)
    };
    match of {
        oid::BOOL => Datum::Bool(text == "t"),
        oid::CHAR => Datum::Char(text.bytes().next().unwrap_or(0)),
        oid::INT2 => Datum::Int2(number(text)),
        oid::INT4 => Datum::Int4(number(text)),
        oid::INT8 => Datum::Int8(number(text)),
        oid::FLOAT4 => Datum::Float4(number(text)),
        oid::OID | oid::XID | oid::REGPROC | oid::REGTYPE => Datum::Oid(number(text)),
        oid::INT2VECTOR => vector(oid::INT2),
        oid::OIDVECTOR => vector(oid::OID),
        _ => match system().type_by_oid(of).map_or(0, |row| row.element) {
            0 => Datum::text(text),
            element => {
                let values = array_elements(text).into_iter();
                let values = values.map(|value| value.map_or(Datum::Null, |text| datum(element, &text)));
                Datum::Array(Arc::new(Array::one_dimensional(element, values.collect())))
            }
        },
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} in the catalogs is not a number"))
}

/// An `int2vector` or `oidvector`: an array that begins with 0, also an empty one.
pub(super) fn vector(element: Oid, values: Vec<Datum>) -> Datum {
    let length = i32::try_from(values.len()).unwrap_or(i32::MAX);
    Datum::Array(Arc::new(Array { element, dimensions: vec![Dimension { length, lower: 0 }], values }))
}
