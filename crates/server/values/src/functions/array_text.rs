//! Arrays as texts with delimiters, and texts that are parted into arrays.

use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::text::{BYTES_MAX, too_long};
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::SqlResult;
use crate::oid;
use crate::text_form;

pub(super) const TABLE: Table = &[
    row!("array_to_text", call, [Array array, Text delimiter], joined(call, array, delimiter, None)),
    ("array_to_text_null", |call| match call.arguments {
        [Datum::Null, _, _] | [_, Datum::Null, _] => Ok(Datum::Null),
        [Datum::Array(array), Datum::Text(delimiter), Datum::Null] => joined(call, array, delimiter, None),
        [Datum::Array(array), Datum::Text(delimiter), Datum::Text(null)] => {
            joined(call, array, delimiter, Some(null))
        }
        _ => Err(mismatch(call)),
    }),
    ("text_to_array", array),
    ("text_to_array_null", array),
];

/// The elements with a delimiter between them; nulls are left out, or shown by a text.
fn joined(call: &Call<'_>, array: &Array, delimiter: &str, null: Option<&str>) -> SqlResult<Datum> {
    let mut text = String::new();
    let mut is_first = true;
    for value in &array.values {
        if value.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            text.push_str(delimiter);
        }
        match value {
            Datum::Null => text.push_str(null.unwrap_or_default()),
            Datum::Text(part) => text.push_str(part),
            _ => text_form::output(array.element, value, call.settings, &mut text)?,
        }
        if text.len() > BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(Datum::text(text))
}

fn array(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(parts(call)?
        .map_or(Datum::Null, |parts| Datum::Array(Arc::new(Array::one_dimensional(oid::TEXT, parts)))))
}

/// The parts of a text between delimiters. Without a delimiter each character is a part; an empty one parts nothing. A third argument
/// is the text of nulls.
///
/// # Errors
/// `XX000` if the arguments are of other types.
pub(crate) fn parts(call: &Call<'_>) -> SqlResult<Option<Vec<Datum>>> {
    let (text, delimiter, null) = match call.arguments {
        [Datum::Null, ..] => return Ok(None),
        [Datum::Text(text), delimiter] => (text, delimiter, &Datum::Null),
        [Datum::Text(text), delimiter, null] => (text, delimiter, null),
        _ => return Err(mismatch(call)),
    };
    let null = match null {
        Datum::Text(null) => Some(null.as_ref()),
        _ => None,
    };
    let part = |part: &str| if Some(part) == null { Datum::Null } else { Datum::text(part) };
    Ok(Some(match delimiter {
        _ if text.is_empty() => Vec::new(),
        Datum::Text(delimiter) if delimiter.is_empty() => vec![part(text)],
        Datum::Text(delimiter) => text.split(delimiter.as_ref()).map(part).collect(),
        _ => text.char_indices().map(|(at, found)| part(&text[at..at + found.len_utf8()])).collect(),
    }))
}
