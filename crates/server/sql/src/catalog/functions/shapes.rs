//! The functions of `information_schema`: shapes of types, and places in indexes.

use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, SqlError, SqlResult};

use super::super::information_schema::{
    TypeShape, character_length, datetime_precision, interval_fields, numeric_precision, numeric_radix,
    numeric_scale, octet_length,
};
use super::super::relations::column_position;
use super::super::source::Source;
use super::{Table, integer, object};
use crate::schema::{Definition, IndexedValue};

pub(super) const TABLE: Table = &[
    ("_pg_truetypid/2", |_, call| true_type(call, "atttypid", "typbasetype")),
    ("_pg_truetypmod/2", |_, call| true_type(call, "atttypmod", "typtypmod")),
    ("_pg_char_max_length/2", |_, call| number(call, character_length)),
    ("_pg_char_octet_length/2", |_, call| number(call, octet_length)),
    ("_pg_numeric_precision/2", |_, call| number(call, numeric_precision)),
    ("_pg_numeric_precision_radix/2", |_, call| number(call, numeric_radix)),
    ("_pg_numeric_scale/2", |_, call| number(call, numeric_scale)),
    ("_pg_datetime_precision/2", |_, call| number(call, datetime_precision)),
    ("_pg_interval_type/2", |_, call| Ok(interval_fields(shape(call)?).map_or(Datum::Null, Datum::text))),
    ("_pg_index_position/2", index_position),
];

fn shape(call: &Call<'_>) -> SqlResult<TypeShape> {
    let modifier = i32::try_from(integer(call, 1)?).unwrap_or(-1);
    Ok(TypeShape { of: object(call, 0)?, modifier })
}

fn number(call: &Call<'_>, property: fn(TypeShape) -> Option<i32>) -> SqlResult<Datum> {
    Ok(property(shape(call)?).map_or(Datum::Null, Datum::Int4))
}

/// A property of a column, or of what is below its domain: the arguments are rows of `pg_attribute` and `pg_type`.
fn true_type(call: &Call<'_>, of_column: &str, of_domain: &str) -> SqlResult<Datum> {
    let (Some(Datum::Record(column)), Some(Datum::Record(of))) =
        (call.arguments.first(), call.arguments.get(1))
    else {
        return Err(SqlError::internal("a function of rows got none"));
    };
    let field = |relation: &str, column: &str, record: &seawall_values::Record| {
        let position = column_position(relation, column);
        position.and_then(|position| record.values.get(position).cloned()).unwrap_or_default()
    };
    Ok(match field("pg_type", "typtype", of) {
        Datum::Char(b'd') => field("pg_type", of_domain, of),
        _ => field("pg_attribute", of_column, column),
    })
}

/// The place of a column in an index, from 1.
fn index_position(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let (number, column): (Oid, i64) = (object(call, 0)?, integer(call, 1)?);
    let Some(Definition::Index(_, index)) = source.definition(number)? else { return Ok(Datum::Null) };
    let is_meant = |what: &IndexedValue| matches!(what, IndexedValue::Column(position) if i64::try_from(*position).is_ok_and(|position| position + 1 == column));
    let place = index.keys.iter().position(|key| is_meant(&key.what));
    Ok(place.map_or(Datum::Null, |place| Datum::Int4(i32::from(super::super::numbers::column_number(place)))))
}
