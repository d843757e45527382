//! Functions and operators of `jsonb` that look into a value.

use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::json::{index_of_step, no_array, place};
use super::text::bounded;
use super::{Call, Table, implementation};
use crate::datum::{Array, Datum, Jsonb, TypeReference};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{find_member, print_pretty, text_of};
use crate::oid;
use crate::order::compare_jsonb;

pub(super) const TABLE: Table = &[
    row!("jsonb_object_field", [Jsonb value, Text key], Ok(as_json(member(value, key)))),
    row!("jsonb_object_field_text", [Jsonb value, Text key], Ok(as_text(member(value, key)))),
    row!("jsonb_array_element", [Jsonb value, Int4 index], Ok(as_json(element(value, *index)))),
    row!("jsonb_array_element_text", [Jsonb value, Int4 index], Ok(as_text(element(value, *index)))),
    row!("jsonb_extract_path", [Jsonb value, Array path], Ok(as_json(at_path(value, path)))),
    row!("jsonb_extract_path_text", [Jsonb value, Array path], Ok(as_text(at_path(value, path)))),
    row!("jsonb_exists", [Jsonb value, Text key], Ok(Datum::Bool(exists(value, key)))),
    row!("jsonb_exists_any", [Jsonb value, Array keys], {
        Ok(Datum::Bool(keys_of(keys).any(|key| exists(value, key))))
    }),
    row!("jsonb_exists_all", [Jsonb value, Array keys], {
        Ok(Datum::Bool(keys_of(keys).all(|key| exists(value, key))))
    }),
    row!("jsonb_contains", [Jsonb whole, Jsonb part], Ok(Datum::Bool(contains_root(whole, part)))),
    row!("jsonb_contained", [Jsonb part, Jsonb whole], Ok(Datum::Bool(contains_root(whole, part)))),
    row!("jsonb_array_length", [Jsonb value], match value.as_ref() {
        Jsonb::Array(elements) => Ok(Datum::Int4(bounded(elements.len()))),
        Jsonb::Object(_) => Err(no_array("cannot get array length of a non-array")),
        _ => Err(no_array("cannot get array length of a scalar")),
    }),
    row!("jsonb_typeof", [Jsonb value], Ok(Datum::text(type_name(value)))),
    row!("jsonb_pretty", [Jsonb value], {
        let mut text = String::new();
        print_pretty(value, &mut text);
        Ok(Datum::text(text))
    }),
    row!("jsonb_bool", [Jsonb value], match value.as_ref() {
        Jsonb::Bool(value) => Ok(Datum::Bool(*value)),
        other => Err(no_cast(other, "boolean")),
    }),
    ("jsonb_numeric", |call| number(call, None, "numeric")),
    ("jsonb_int2", |call| number(call, Some("numeric_int2"), "smallint")),
    ("jsonb_int4", |call| number(call, Some("numeric_int4"), "integer")),
    ("jsonb_int8", |call| number(call, Some("numeric_int8"), "bigint")),
    ("jsonb_float4", |call| number(call, Some("numeric_float4"), "real")),
    ("jsonb_float8", |call| number(call, Some("numeric_float8"), "double precision")),
];

fn as_json(value: Option<&Jsonb>) -> Datum {
    value.map_or(Datum::Null, |value| Datum::Jsonb(Arc::new(value.clone())))
}

fn as_text(value: Option<&Jsonb>) -> Datum {
    value.map_or(Datum::Null, text_of)
}

fn member<'a>(value: &'a Jsonb, key: &str) -> Option<&'a Jsonb> {
    match value {
        Jsonb::Object(members) => find_member(members, key).map(|at| &members[at].1),
        _ => None,
    }
}

fn element(value: &Jsonb, index: i32) -> Option<&Jsonb> {
    match value {
        Jsonb::Array(elements) => elements.get(place(index, elements.len())?),
        _ => None,
    }
}

fn at_path<'a>(value: &'a Jsonb, path: &Array) -> Option<&'a Jsonb> {
    path.values.iter().try_fold(value, |value, step| match (step, value) {
        (Datum::Text(step), Jsonb::Object(_)) => member(value, step),
        (Datum::Text(step), Jsonb::Array(_)) => element(value, index_of_step(step)?),
        _ => None,
    })
}

/// Whether an object has a key, an array a string, or a value is one.
fn exists(value: &Jsonb, key: &str) -> bool {
    let is_key = |value: &Jsonb| matches!(value, Jsonb::String(text) if text.as_ref() == key);
    match value {
        Jsonb::Object(members) => find_member(members, key).is_some(),
        Jsonb::Array(elements) => elements.iter().any(is_key),
        scalar => is_key(scalar),
    }
}

/// Keys to look for; nulls do not count.
fn keys_of(keys: &Array) -> impl Iterator<Item = &str> {
    keys.values.iter().filter_map(|key| match key {
        Datum::Text(key) => Some(key.as_ref()),
        _ => None,
    })
}

/// Whether a value contains another one. An array contains a value that is one of its elements, but only outermost.
fn contains_root(whole: &Jsonb, part: &Jsonb) -> bool {
    match (whole, part) {
        (Jsonb::Array(elements), part) if !matches!(part, Jsonb::Array(_) | Jsonb::Object(_)) => {
            elements.iter().any(|element| is_same(element, part))
        }
        _ => contains(whole, part),
    }
}

fn is_same(left: &Jsonb, right: &Jsonb) -> bool {
    compare_jsonb(left, right).is_eq()
}

fn contains(whole: &Jsonb, part: &Jsonb) -> bool {
    match (whole, part) {
        (Jsonb::Object(_), Jsonb::Object(members)) => members
            .iter()
            .all(|(key, wanted)| member(whole, key).is_some_and(|found| contains(found, wanted))),
        (Jsonb::Array(elements), Jsonb::Array(parts)) => {
            parts.iter().all(|part| elements.iter().any(|element| contains(element, part)))
        }
        (Jsonb::Object(_) | Jsonb::Array(_), _) | (_, Jsonb::Object(_) | Jsonb::Array(_)) => false,
        _ => is_same(whole, part),
    }
}

fn type_name(value: &Jsonb) -> &'static str {
    match value {
        Jsonb::Null => "null",
        Jsonb::Bool(_) => "boolean",
        Jsonb::Number(_) => "number",
        Jsonb::String(_) => "string",
        Jsonb::Array(_) => "array",
        Jsonb::Object(_) => "object",
    }
}

#[cold]
fn no_cast(value: &Jsonb, target: &str) -> Box<SqlError> {
    let kind = match value {
        Jsonb::Number(_) => "numeric",
        other => type_name(other),
    };
    let message = format!("cannot cast jsonb {kind} to type {target}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A number, by the cast from `numeric` whose source is `cast`.
fn number(call: &Call<'_>, cast: Option<&str>, target: &str) -> SqlResult<Datum> {
    let number = match call.arguments {
        [Datum::Jsonb(value)] => match value.as_ref() {
            Jsonb::Number(number) => Datum::Numeric(Arc::new(number.clone())),
            other => return Err(no_cast(other, target)),
        },
        _ => return Err(mismatch(call)),
    };
    let Some(cast) = cast else { return Ok(number) };
    let cast = implementation(cast).ok_or_else(|| SqlError::unsupported(format!("cast to {target}")))?;
    cast(&Call { arguments: &[number], argument_types: &[TypeReference::of(oid::NUMERIC)], ..*call })
}
