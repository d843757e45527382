//! Members of objects and elements of arrays of `json` and `jsonb` as rows.

use std::sync::Arc;

use super::{Rows, Table, values};
use crate::datum::{Datum, Jsonb};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::jsonb_path::selected;
use crate::functions::{Call, arguments};
use crate::json::{Kind, Tree, parse_tree, text_of};

pub(super) const TABLE: Table = &[
    ("json_array_elements", |call| elements(call, "json_array_elements", as_json)),
    ("json_array_elements_text", |call| elements(call, "json_array_elements_text", as_text)),
    ("json_each", |call| members(call, as_json)),
    ("json_each_text", |call| members(call, as_text)),
    ("json_object_keys", |call| keys(call)),
    ("jsonb_array_elements", |call| binary_elements(call, binary)),
    ("jsonb_array_elements_text", |call| binary_elements(call, text_of)),
    ("jsonb_each", |call| binary_members(call, "jsonb_each", binary)),
    ("jsonb_each_text", |call| binary_members(call, "jsonb_each_text", text_of)),
    ("jsonb_object_keys", |call| binary_keys(call)),
    ("jsonb_path_query", |call| Ok(values(selected(call)?))),
    ("jsonb_path_query_tz", |call| Ok(values(selected(call)?))),
];

#[cold]
fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn text<'a>(call: &Call<'a>) -> SqlResult<&'a str> {
    match call.arguments {
        [Datum::Text(text)] => Ok(text),
        _ => Err(arguments::mismatch(call)),
    }
}

fn as_json(tree: &Tree, whole: &str) -> Datum {
    Datum::text(tree.text(whole))
}

fn as_text(tree: &Tree, whole: &str) -> Datum {
    tree.as_text(whole).map_or(Datum::Null, Datum::text)
}

fn elements(call: &Call<'_>, function: &str, value: fn(&Tree, &str) -> Datum) -> SqlResult<Rows> {
    let whole = text(call)?;
    match parse_tree(whole)?.kind {
        Kind::Array(elements) => {
            Ok(values(elements.iter().map(|element| value(element, whole)).collect::<Vec<_>>()))
        }
        Kind::Object(_) => Err(invalid(format!("cannot call {function} on a non-array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn rows(rows: Vec<Vec<Datum>>) -> Rows {
    Box::new(rows.into_iter().map(Ok))
}

fn members(call: &Call<'_>, value: fn(&Tree, &str) -> Datum) -> SqlResult<Rows> {
    let whole = text(call)?;
    match parse_tree(whole)?.kind {
        Kind::Object(members) => {
            let row = |(key, member): &(String, Tree)| vec![Datum::text(key), value(member, whole)];
            Ok(rows(members.iter().map(row).collect()))
        }
        Kind::Array(_) => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}

fn keys(call: &Call<'_>) -> SqlResult<Rows> {
    match parse_tree(text(call)?)?.kind {
        Kind::Object(members) => {
            Ok(values(members.into_iter().map(|(key, _)| Datum::text(key)).collect::<Vec<_>>()))
        }
        Kind::Array(_) => Err(invalid("cannot call json_object_keys on an array")),
        _ => Err(invalid("cannot call json_object_keys on a scalar")),
    }
}

fn argument<'a>(call: &Call<'a>) -> SqlResult<&'a Arc<Jsonb>> {
    match call.arguments {
        [Datum::Jsonb(value)] => Ok(value),
        _ => Err(arguments::mismatch(call)),
    }
}

fn binary(value: &Jsonb) -> Datum {
    Datum::Jsonb(Arc::new(value.clone()))
}

fn binary_elements(call: &Call<'_>, of: fn(&Jsonb) -> Datum) -> SqlResult<Rows> {
    let value = Arc::clone(argument(call)?);
    match value.as_ref() {
        Jsonb::Array(elements) => {
            let count = elements.len();
            let element = move |index| match value.as_ref() {
                Jsonb::Array(elements) => of(&elements[index]),
                _ => Datum::Null,
            };
            Ok(values((0..count).map(element)))
        }
        Jsonb::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

fn binary_members(call: &Call<'_>, function: &str, of: fn(&Jsonb) -> Datum) -> SqlResult<Rows> {
    match argument(call)?.as_ref() {
        Jsonb::Object(members) => {
            let row = |(key, member): &(Arc<str>, Jsonb)| vec![Datum::Text(Arc::clone(key)), of(member)];
            Ok(rows(members.iter().map(row).collect()))
        }
        _ => Err(invalid(format!("cannot call {function} on a non-object"))),
    }
}

fn binary_keys(call: &Call<'_>) -> SqlResult<Rows> {
    match argument(call)?.as_ref() {
        Jsonb::Object(members) => {
            let keys = members.iter().map(|(key, _)| Datum::Text(Arc::clone(key)));
            Ok(values(keys.collect::<Vec<_>>()))
        }
        Jsonb::Array(_) => Err(invalid("cannot call jsonb_object_keys on an array")),
        _ => Err(invalid("cannot call jsonb_object_keys on a scalar")),
    }
}
