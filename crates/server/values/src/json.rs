//! `json` and `jsonb`: text to values, values to text, and the order of values.
//!
//! * `parse`: one parser for both. `tree`: a parsed `json`, whose values know their place in the text.
//! * `print`: the text of a `jsonb`. `convert`: values of all types as JSON.
//!
//! The order of `jsonb` values is in `crate::order`.

mod convert;
mod parse;
mod print;
mod tree;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::datum::{Datum, Jsonb, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};

pub use convert::{Layout, append_json, key_text, to_jsonb};
pub use parse::DEPTH_MAX;
pub use print::{escape_into, print, print_pretty};
pub use tree::{Kind, Tree, parse_tree, validate};

/// The text of a `jsonb` as its value.
///
/// # Errors
/// `22P02` with what is wrong and where; `54001` if it is nested too deep.
pub fn parse(text: &str) -> SqlResult<Jsonb> {
    parse::parse(text, &mut JsonbBuilder)
}

/// The order of keys in an object: shorter ones first.
fn compare_keys(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// Brings members of an object into the order of `jsonb`; of members with the same key the last stays.
pub fn normalize_members(mut members: Vec<(Arc<str>, Jsonb)>) -> Vec<(Arc<str>, Jsonb)> {
    members.sort_by(|left, right| compare_keys(&left.0, &right.0));
    members.reverse();
    members.dedup_by(|next, kept| next.0 == kept.0);
    members.reverse();
    members
}

/// The place of a key in an object.
pub fn find_member(members: &[(Arc<str>, Jsonb)], key: &str) -> Option<usize> {
    members.binary_search_by(|(known, _)| compare_keys(known, key)).ok()
}

/// The value as `->>` gives it: the text of a string, the printed form of all others; null for `null`.
pub fn text_of(value: &Jsonb) -> Datum {
    match value {
        Jsonb::Null => Datum::Null,
        Jsonb::String(text) => Datum::Text(Arc::clone(text)),
        other => {
            let mut text = String::new();
            print(other, &mut text);
            Datum::text(text)
        }
    }
}

/// # Errors
/// `54001` if a value has more levels than one that is parsed may have.
pub fn checked_depth(value: &Jsonb) -> SqlResult<()> {
    fn fits(value: &Jsonb, levels: usize) -> bool {
        match value {
            Jsonb::Array(elements) => levels > 0 && elements.iter().all(|element| fits(element, levels - 1)),
            Jsonb::Object(members) => {
                levels > 0 && members.iter().all(|(_, member)| fits(member, levels - 1))
            }
            Jsonb::Null | Jsonb::Bool(_) | Jsonb::Number(_) | Jsonb::String(_) => true,
        }
    }
    if fits(value, DEPTH_MAX) { Ok(()) } else { Err(too_deep()) }
}

/// `54001`: a value is nested too deep.
#[cold]
pub fn too_deep() -> Box<SqlError> {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
}

/// Bytes that a string of a `jsonb` may have.
const STRING_BYTES_MAX: usize = 0x0FFF_FFFF;

/// A string of a `jsonb`.
///
/// # Errors
/// `54000` if it is too long for PostgreSQL's `jsonb`.
pub fn checked_string(text: &str) -> SqlResult<Arc<str>> {
    if text.len() > STRING_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "string too long to represent as jsonb string",
        )
        .with_detail(format!(
            "Due to an implementation restriction, jsonb strings cannot exceed {STRING_BYTES_MAX} bytes."
        )));
    }
    Ok(Arc::from(text))
}

struct JsonbBuilder;

impl parse::Build for JsonbBuilder {
    type Value = Jsonb;
    const READS_ESCAPES: bool = true;

    fn null(&mut self, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        Ok(Jsonb::Null)
    }

    fn boolean(&mut self, value: bool, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        Ok(Jsonb::Bool(value))
    }

    fn number(&mut self, text: &str, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        Ok(Jsonb::Number(text.parse::<Numeric>()?))
    }

    fn string(&mut self, text: String, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        checked_string(&text).map(Jsonb::String)
    }

    fn array(&mut self, values: Vec<Jsonb>, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        Ok(Jsonb::Array(values))
    }

    fn object(&mut self, members: Vec<(String, Jsonb)>, _span: std::ops::Range<usize>) -> SqlResult<Jsonb> {
        let members = members.into_iter().map(|(key, value)| Ok((checked_string(&key)?, value)));
        Ok(Jsonb::Object(normalize_members(members.collect::<SqlResult<_>>()?)))
    }
}
