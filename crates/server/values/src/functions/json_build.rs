//! `json` and `jsonb` made of values of all types.

use std::sync::Arc;

use super::arguments::mismatch;
use super::quoting::expanded;
use super::text::{BYTES_MAX, too_long};
use super::{Call, Table};
use crate::datum::{Array, Datum, Jsonb};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{
    Layout, append_json, checked_depth, checked_string, escape_into, key_text, normalize_members, to_jsonb,
};

pub(super) const TABLE: Table = &[
    ("to_json", |call| converted(call, Layout::Compact)),
    ("array_to_json", |call| converted(call, Layout::Compact)),
    ("array_to_json_pretty", |call| converted(call, layout(call)?)),
    ("row_to_json", |call| converted(call, Layout::Compact)),
    ("row_to_json_pretty", |call| converted(call, layout(call)?)),
    ("to_jsonb", |call| binary(argument(call, 0)?)),
    ("json_build_object", object),
    ("json_build_object_noargs", object),
    ("json_build_object/variadic", |call| listed(call, object)),
    ("json_build_array", array),
    ("json_build_array_noargs", array),
    ("json_build_array/variadic", |call| listed(call, array)),
    ("jsonb_build_object", binary_object),
    ("jsonb_build_object_noargs", binary_object),
    ("jsonb_build_object/variadic", |call| listed(call, binary_object)),
    ("jsonb_build_array", binary_array),
    ("jsonb_build_array_noargs", binary_array),
    ("jsonb_build_array/variadic", |call| listed(call, binary_array)),
    ("json_object", |call| text_members(&pairs(call)?)),
    ("json_object_two_arg", |call| text_members(&zipped(call)?)),
    ("jsonb_object", |call| binary_members(&pairs(call)?)),
    ("jsonb_object_two_arg", |call| binary_members(&zipped(call)?)),
];

/// An argument with its type.
struct Typed<'a> {
    value: &'a Datum,
    of: crate::Oid,
    call: &'a Call<'a>,
}

impl Typed<'_> {
    fn append(&self, layout: Layout, output: &mut String) -> SqlResult<()> {
        append_json(self.of, self.value, layout, self.call.settings, output)?;
        if output.len() > BYTES_MAX {
            return Err(too_long());
        }
        Ok(())
    }

    fn binary(&self) -> SqlResult<Jsonb> {
        to_jsonb(self.of, self.value, self.call.settings)
    }

    fn key(&self) -> SqlResult<String> {
        key_text(self.of, self.value, self.call.settings)
    }
}

fn argument<'a>(call: &'a Call<'a>, index: usize) -> SqlResult<Typed<'a>> {
    match (call.arguments.get(index), call.argument_types.get(index)) {
        (Some(value), Some(of)) => Ok(Typed { value, of: of.oid, call }),
        _ => Err(mismatch(call)),
    }
}

fn arguments<'a>(call: &'a Call<'a>) -> impl Iterator<Item = SqlResult<Typed<'a>>> {
    (0..call.arguments.len()).map(|index| argument(call, index))
}

fn layout(call: &Call<'_>) -> SqlResult<Layout> {
    match call.arguments {
        [_, Datum::Bool(true)] => Ok(Layout::Lines),
        [_, Datum::Bool(false)] => Ok(Layout::Compact),
        _ => Err(mismatch(call)),
    }
}

fn converted(call: &Call<'_>, layout: Layout) -> SqlResult<Datum> {
    let mut text = String::new();
    argument(call, 0)?.append(layout, &mut text)?;
    Ok(Datum::text(text))
}

fn binary(value: Typed<'_>) -> SqlResult<Datum> {
    datum(value.binary()?)
}

fn datum(value: Jsonb) -> SqlResult<Datum> {
    checked_depth(&value)?;
    Ok(Datum::Jsonb(Arc::new(value)))
}

/// A call whose arguments are the elements of an array; a null array gives null.
fn listed(call: &Call<'_>, build: fn(&Call<'_>) -> SqlResult<Datum>) -> SqlResult<Datum> {
    match call.arguments {
        [Datum::Null] => Ok(Datum::Null),
        _ => build(&expanded(call, 0)?.call()),
    }
}

#[cold]
fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn check_pairs(call: &Call<'_>, function: &str) -> SqlResult<()> {
    if call.arguments.len().is_multiple_of(2) {
        return Ok(());
    }
    Err(invalid("argument list must have even number of elements")
        .with_hint(format!("The arguments of {function}() must consist of alternating keys and values.")))
}

fn object(call: &Call<'_>) -> SqlResult<Datum> {
    check_pairs(call, "json_build_object")?;
    let mut text = String::from("{");
    for (index, value) in arguments(call).enumerate() {
        let value = value?;
        if !index.is_multiple_of(2) {
            text.push_str(" : ");
            value.append(Layout::Compact, &mut text)?;
            continue;
        }
        if value.value.is_null() {
            let message = format!("argument {} cannot be null", index + 1);
            return Err(invalid(message).with_hint("Object keys should be text."));
        }
        if index > 0 {
            text.push_str(", ");
        }
        escape_into(&value.key()?, &mut text);
    }
    text.push('}');
    Ok(Datum::text(text))
}

fn array(call: &Call<'_>) -> SqlResult<Datum> {
    let mut text = String::from("[");
    for (index, value) in arguments(call).enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        value?.append(Layout::Compact, &mut text)?;
    }
    text.push(']');
    Ok(Datum::text(text))
}

fn binary_object(call: &Call<'_>) -> SqlResult<Datum> {
    check_pairs(call, "jsonb_build_object")?;
    let mut members = Vec::with_capacity(call.arguments.len() / 2);
    for index in (0..call.arguments.len()).step_by(2) {
        let (key, value) = (argument(call, index)?, argument(call, index + 1)?);
        if key.value.is_null() {
            return Err(invalid(format!("argument {}: key must not be null", index + 1)));
        }
        members.push((checked_string(&key.key()?)?, value.binary()?));
    }
    datum(Jsonb::Object(normalize_members(members)))
}

fn binary_array(call: &Call<'_>) -> SqlResult<Datum> {
    let elements = arguments(call).map(|value| value?.binary());
    datum(Jsonb::Array(elements.collect::<SqlResult<_>>()?))
}

/// Keys and their values, which may be null.
type Pairs<'a> = Vec<(&'a str, Option<&'a str>)>;

#[cold]
fn wrong_shape(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn pair<'a>(key: &'a Datum, value: &'a Datum) -> SqlResult<(&'a str, Option<&'a str>)> {
    let value = match value {
        Datum::Text(value) => Some(value.as_ref()),
        _ => None,
    };
    match key {
        Datum::Text(key) => Ok((key, value)),
        _ => {
            let message = "null value not allowed for object key";
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
        }
    }
}

/// Keys and values that take turns in an array.
fn pairs<'a>(call: &Call<'a>) -> SqlResult<Pairs<'a>> {
    let [Datum::Array(array)] = call.arguments else { return Err(mismatch(call)) };
    match array.dimensions[..] {
        [] => {}
        [outer] if outer.length % 2 == 0 => {}
        [_] => return Err(wrong_shape("array must have even number of elements")),
        [_, inner] if inner.length == 2 => {}
        [_, _] => return Err(wrong_shape("array must have two columns")),
        _ => return Err(wrong_shape("wrong number of array subscripts")),
    }
    array.values.chunks_exact(2).map(|both| pair(&both[0], &both[1])).collect()
}

/// Keys of one array with the values of another one.
fn zipped<'a>(call: &Call<'a>) -> SqlResult<Pairs<'a>> {
    let [Datum::Array(keys), Datum::Array(values)] = call.arguments else { return Err(mismatch(call)) };
    let count = |array: &Array| array.dimensions.len();
    if count(keys) > 1 || count(keys) != count(values) {
        return Err(wrong_shape("wrong number of array subscripts"));
    }
    if keys.values.len() != values.values.len() {
        return Err(wrong_shape("mismatched array dimensions"));
    }
    keys.values.iter().zip(&values.values).map(|(key, value)| pair(key, value)).collect()
}

fn text_members(pairs: &[(&str, Option<&str>)]) -> SqlResult<Datum> {
    let mut text = String::from("{");
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        escape_into(key, &mut text);
        text.push_str(" : ");
        match value {
            Some(value) => escape_into(value, &mut text),
            None => text.push_str("null"),
        }
        if text.len() > BYTES_MAX {
            return Err(too_long());
        }
    }
    text.push('}');
    Ok(Datum::text(text))
}

fn binary_members(pairs: &[(&str, Option<&str>)]) -> SqlResult<Datum> {
    let member = |(key, value): &(&str, Option<&str>)| {
        let value = match value {
            Some(value) => Jsonb::String(checked_string(value)?),
            None => Jsonb::Null,
        };
        Ok((checked_string(key)?, value))
    };
    let members = pairs.iter().map(member).collect::<SqlResult<_>>()?;
    datum(Jsonb::Object(normalize_members(members)))
}
