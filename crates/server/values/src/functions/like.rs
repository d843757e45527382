//! `LIKE`, `ILIKE`, and the escapes of `LIKE` and `SIMILAR TO`.

use std::borrow::Cow;
use std::sync::Arc;

use super::Table;
use super::arguments::row;
use super::text::lower;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    row!("textlike", [Text text, Text pattern], matches(text.as_bytes(), pattern.as_bytes(), Unit::Character)),
    row!("textnlike", [Text text, Text pattern], not(matches(text.as_bytes(), pattern.as_bytes(), Unit::Character))),
    row!("namelike", [Text text, Text pattern], matches(text.as_bytes(), pattern.as_bytes(), Unit::Character)),
    row!("namenlike", [Text text, Text pattern], not(matches(text.as_bytes(), pattern.as_bytes(), Unit::Character))),
    row!("bytealike", [Bytea bytes, Bytea pattern], matches(bytes, pattern, Unit::Byte)),
    row!("byteanlike", [Bytea bytes, Bytea pattern], not(matches(bytes, pattern, Unit::Byte))),
    row!("texticlike", [Text text, Text pattern], matches_any_case(text, pattern)),
    row!("texticnlike", [Text text, Text pattern], not(matches_any_case(text, pattern))),
    row!("nameiclike", [Text text, Text pattern], matches_any_case(text, pattern)),
    row!("nameicnlike", [Text text, Text pattern], not(matches_any_case(text, pattern))),
    row!("like_escape", [Text pattern, Text escape], like_escape(pattern, escape)),
    row!("like_escape_bytea", [Bytea pattern, Bytea escape], like_escape_bytes(pattern, escape)),
];

/// What `_` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Character,
}

fn not(result: SqlResult<Datum>) -> SqlResult<Datum> {
    match result? {
        Datum::Bool(value) => Ok(Datum::Bool(!value)),
        other => Ok(other),
    }
}

fn in_lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(lower).collect())
}

fn matches_any_case(text: &str, pattern: &str) -> SqlResult<Datum> {
    matches(in_lower_case(text).as_bytes(), in_lower_case(pattern).as_bytes(), Unit::Character)
}

/// Bytes of the first character, or 1.
fn first_length(text: &[u8], unit: Unit) -> usize {
    match (unit, text.first()) {
        (Unit::Character, Some(0xC0..=0xDF)) => 2,
        (Unit::Character, Some(0xE0..=0xEF)) => 3,
        (Unit::Character, Some(0xF0..)) => 4,
        _ => 1,
    }
}

/// Whether a text matches: `%` any characters, `_` one, after `\` the character itself.
///
/// After a mismatch the last `%` takes one character more; those before it never need to.
fn matches(text: &[u8], pattern: &[u8], unit: Unit) -> SqlResult<Datum> {
    let (mut text, mut pattern) = (text, pattern);
    // Where to go on if the last `%` takes one character more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let rest = match (pattern, text) {
            ([], []) => return Ok(Datum::Bool(true)),
            ([b'%', after @ ..], _) => {
                if after.is_empty() {
                    return Ok(Datum::Bool(true));
                }
                pattern = after;
                retry = Some((text, pattern));
                continue;
            }
            ([b'\\'], [_, ..]) => {
                let message = "LIKE pattern must not end with escape character";
                return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
            }
            ([b'_', after @ ..], [_, ..]) => Some((&text[first_length(text, unit).min(text.len())..], after)),
            ([b'\\', wanted, after @ ..] | [wanted, after @ ..], [found, rest @ ..]) if wanted == found => {
                Some((rest, after))
            }
            _ => None,
        };
        (text, pattern) = match (rest, &mut retry) {
            (Some(rest), _) => rest,
            (None, Some((from, after))) if !from.is_empty() => {
                *from = &from[first_length(from, unit).min(from.len())..];
                (*from, *after)
            }
            (None, _) => return Ok(Datum::Bool(false)),
        };
    }
}

fn invalid_escape() -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
        .with_hint("Escape string must be empty or one character.")
}

/// The only character of an escape string; none if it is empty.
///
/// # Errors
/// `22025` if there are more.
pub(super) fn escape_character(escape: &str) -> SqlResult<Option<char>> {
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (_, Some(_)) => Err(invalid_escape()),
        (escape, None) => Ok(escape),
    }
}

/// A pattern with another escape character as one with `\`.
fn like_escape(pattern: &str, escape: &str) -> SqlResult<Datum> {
    let escape = escape_character(escape)?;
    if escape == Some('\\') {
        return Ok(Datum::text(pattern));
    }
    let mut result = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for character in pattern.chars() {
        if Some(character) == escape && !is_escaped {
            result.push('\\');
            is_escaped = true;
            continue;
        }
        if character == '\\' && !is_escaped {
            result.push('\\');
        }
        result.push(character);
        is_escaped = false;
    }
    Ok(Datum::text(result))
}

fn like_escape_bytes(pattern: &[u8], escape: &[u8]) -> SqlResult<Datum> {
    let escape = match escape {
        [] => None,
        [b'\\'] => return Ok(Datum::Bytea(Arc::from(pattern))),
        [escape] => Some(*escape),
        _ => return Err(invalid_escape()),
    };
    let mut result = Vec::with_capacity(pattern.len());
    let mut is_escaped = false;
    for byte in pattern.iter().copied() {
        if Some(byte) == escape && !is_escaped {
            result.push(b'\\');
            is_escaped = true;
            continue;
        }
        if byte == b'\\' && !is_escaped {
            result.push(b'\\');
        }
        result.push(byte);
        is_escaped = false;
    }
    Ok(Datum::Bytea(Arc::from(result)))
}
