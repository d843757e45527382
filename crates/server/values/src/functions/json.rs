//! Functions and operators of `json`, which give parts of a value as they were written.

use super::arguments::{mismatch, row};
use super::text::bounded;
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{Kind, Tree, escape_into, parse_tree};

pub(super) const TABLE: Table = &[
    row!("json_object_field", [Text json, Text key], {
        found(json, |tree| member(tree, key).map(|tree| as_json(tree, json)))
    }),
    row!("json_object_field_text", [Text json, Text key], {
        found(json, |tree| member(tree, key).and_then(|tree| as_text(tree, json)))
    }),
    row!("json_array_element", [Text json, Int4 index], {
        found(json, |tree| element(tree, *index).map(|tree| as_json(tree, json)))
    }),
    row!("json_array_element_text", [Text json, Int4 index], {
        found(json, |tree| element(tree, *index).and_then(|tree| as_text(tree, json)))
    }),
    row!("json_extract_path", [Text json, Array path], {
        found(json, |tree| at_path(tree, path).map(|tree| as_json(tree, json)))
    }),
    row!("json_extract_path_text", [Text json, Array path], {
        found(json, |tree| at_path(tree, path).and_then(|tree| as_text(tree, json)))
    }),
    row!("json_array_length", [Text json], match parse_tree(json)?.kind {
        Kind::Array(elements) => Ok(Datum::Int4(bounded(elements.len()))),
        Kind::Object(_) => Err(no_array("cannot get array length of a non-array")),
        _ => Err(no_array("cannot get array length of a scalar")),
    }),
    row!("json_typeof", [Text json], Ok(Datum::text(type_name(&parse_tree(json)?)))),
    row!("json_strip_nulls", [Text json], {
        let mut stripped = String::with_capacity(json.len());
        append_without_nulls(&parse_tree(json)?, json, &mut stripped);
        Ok(Datum::text(stripped))
    }),
];

/// `22023`.
#[cold]
pub(super) fn no_array(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn found(json: &str, part: impl FnOnce(&Tree) -> Option<Datum>) -> SqlResult<Datum> {
    Ok(part(&parse_tree(json)?).unwrap_or(Datum::Null))
}

fn as_json(tree: &Tree, whole: &str) -> Datum {
    Datum::text(tree.text(whole))
}

fn as_text(tree: &Tree, whole: &str) -> Option<Datum> {
    tree.as_text(whole).map(Datum::text)
}

/// The member with a key: the last one, where a key is repeated.
fn member<'a>(tree: &'a Tree, key: &str) -> Option<&'a Tree> {
    match &tree.kind {
        Kind::Object(members) => {
            members.iter().rev().find(|(known, _)| known == key).map(|(_, member)| member)
        }
        _ => None,
    }
}

/// The place of an element: an index below 0 counts from the end.
pub(super) fn place(index: i32, count: usize) -> Option<usize> {
    let place = match usize::try_from(index) {
        Ok(place) => place,
        Err(_) => count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (place < count).then_some(place)
}

fn element(tree: &Tree, index: i32) -> Option<&Tree> {
    match &tree.kind {
        Kind::Array(elements) => elements.get(place(index, elements.len())?),
        _ => None,
    }
}

/// A step of a path as an index. As C reads numbers: blanks and a plus may stand before it.
pub(super) fn index_of_step(step: &str) -> Option<i32> {
    step.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']).parse().ok()
}

fn at_path<'a>(tree: &'a Tree, path: &Array) -> Option<&'a Tree> {
    path.values.iter().try_fold(tree, |tree, step| match (step, &tree.kind) {
        (Datum::Text(step), Kind::Object(_)) => member(tree, step),
        (Datum::Text(step), Kind::Array(_)) => element(tree, index_of_step(step)?),
        _ => None,
    })
}

fn type_name(tree: &Tree) -> &'static str {
    match tree.kind {
        Kind::Null => "null",
        Kind::Bool(_) => "boolean",
        Kind::Number => "number",
        Kind::String(_) => "string",
        Kind::Array(_) => "array",
        Kind::Object(_) => "object",
    }
}

/// Appends a value without the members that are null, in one line.
fn append_without_nulls(tree: &Tree, whole: &str, output: &mut String) {
    match &tree.kind {
        Kind::Array(elements) => {
            output.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    output.push(',');
                }
                append_without_nulls(element, whole, output);
            }
            output.push(']');
        }
        Kind::Object(members) => {
            output.push('{');
            let kept = members.iter().filter(|(_, member)| !matches!(member.kind, Kind::Null));
            for (index, (key, member)) in kept.enumerate() {
                if index > 0 {
                    output.push(',');
                }
                escape_into(key, output);
                output.push(':');
                append_without_nulls(member, whole, output);
            }
            output.push('}');
        }
        Kind::String(text) => escape_into(text, output),
        Kind::Null | Kind::Bool(_) | Kind::Number => output.push_str(tree.text(whole)),
    }
}

/// The steps of a path.
///
/// # Errors
/// `2202E` if the array has more than one dimension.
pub(super) fn checked_path(path: &Array) -> SqlResult<&[Datum]> {
    if path.dimensions.len() > 1 {
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    Ok(&path.values)
}

/// The text of an argument of type `text`.
pub(super) fn text_argument<'a>(call: &Call<'a>, index: usize) -> SqlResult<&'a str> {
    match call.arguments.get(index) {
        Some(Datum::Text(text)) => Ok(text),
        _ => Err(mismatch(call)),
    }
}
