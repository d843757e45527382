//! Parts of texts, and texts made of texts. Positions and lengths count characters.

use std::sync::Arc;

use super::Table;
use super::arguments::row;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    row!("textlen", [Text text], Ok(length(text))),
    row!("bpcharlen", [Text text], Ok(length(text.trim_end_matches(' ')))),
    row!("textoctetlen", [Text text], Ok(Datum::Int4(bounded(text.len())))),
    row!("bpcharoctetlen", [Text text], Ok(Datum::Int4(bounded(text.len())))),
    ("bit_length/1", bit_length),
    row!("textcat", [Text left, Text right], concatenated(left, right)),
    row!("text_substr", [Text text, Int4 start, Int4 length], substring(text, *start, Some(*length))),
    row!("text_substr_no_len", [Text text, Int4 start], substring(text, *start, None)),
    row!("textoverlay", [Text text, Text part, Int4 start, Int4 length], overlay(text, part, *start, *length)),
    row!("textoverlay_no_len", [Text text, Text part, Int4 start], {
        overlay(text, part, *start, bounded(part.chars().count()))
    }),
    row!("textpos", [Text text, Text part], Ok(Datum::Int4(position(text, part)))),
    row!("text_left", [Text text, Int4 count], Ok(Datum::text(&text[..place_of(text, *count)]))),
    row!("text_right", [Text text, Int4 count], Ok(Datum::text(&text[start_of(text, *count)..]))),
    row!("text_reverse", [Text text], Ok(Datum::text(text.chars().rev().collect::<String>()))),
    row!("repeat", [Text text, Int4 count], repeat(text, *count)),
    row!("lpad", [Text text, Int4 length, Text fill], pad(text, *length, fill, Side::Left)),
    row!("rpad", [Text text, Int4 length, Text fill], pad(text, *length, fill, Side::Right)),
    row!("lpad/2", [Text text, Int4 length], pad(text, *length, " ", Side::Left)),
    row!("rpad/2", [Text text, Int4 length], pad(text, *length, " ", Side::Right)),
    row!("btrim", [Text text, Text set], Ok(Datum::text(text.trim_matches(|c| set.contains(c))))),
    row!("ltrim", [Text text, Text set], Ok(Datum::text(text.trim_start_matches(|c| set.contains(c))))),
    row!("rtrim", [Text text, Text set], Ok(Datum::text(text.trim_end_matches(|c| set.contains(c))))),
    row!("btrim1", [Text text], Ok(Datum::text(text.trim_matches(' ')))),
    row!("ltrim1", [Text text], Ok(Datum::text(text.trim_start_matches(' ')))),
    row!("rtrim1", [Text text], Ok(Datum::text(text.trim_end_matches(' ')))),
    row!("replace_text", [Text text, Text from, Text to], replace(text, from, to)),
    row!("translate", [Text text, Text from, Text to], Ok(Datum::text(translate(text, from, to)))),
    row!("split_part", [Text text, Text delimiter, Int4 field], split_part(text, delimiter, *field)),
    row!("upper", [Text text], Ok(Datum::text(text.chars().map(upper).collect::<String>()))),
    row!("lower", [Text text], Ok(Datum::text(text.chars().map(lower).collect::<String>()))),
    row!("initcap", [Text text], Ok(Datum::text(capitalize(text)))),
    row!("text_starts_with", [Text text, Text prefix], Ok(Datum::Bool(text.starts_with(prefix.as_ref())))),
    row!("ascii", [Text text], Ok(Datum::Int4(text.chars().next().map_or(0, code_point)))),
    row!("chr", [Int4 code], character(*code)),
    row!("to_hex32", [Int4 number], Ok(Datum::text(format!("{number:x}")))),
    row!("to_hex64", [Int8 number], Ok(Datum::text(format!("{number:x}")))),
    row!("unistr", [Text text], super::unicode::without_escapes(text)),
];

/// Bytes that a value may have.
pub(super) const BYTES_MAX: usize = 0x3FFF_FFFF;

/// `54000`: a result would have more than a gigabyte.
#[cold]
pub(super) fn too_long() -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// A length as an `integer`; values are shorter than 2^31.
pub(super) fn bounded(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn length(text: &str) -> Datum {
    Datum::Int4(bounded(if text.is_ascii() { text.len() } else { text.chars().count() }))
}

fn bit_length(call: &super::Call<'_>) -> SqlResult<Datum> {
    let bits = match call.arguments {
        [Datum::Text(text)] => text.len() * 8,
        [Datum::Bytea(bytes)] => bytes.len() * 8,
        [Datum::Bits(_, count)] => usize::try_from(*count).unwrap_or(usize::MAX),
        _ => return Err(super::arguments::mismatch(call)),
    };
    Ok(Datum::Int4(i32::try_from(bits).map_err(|_| super::arguments::out_of_range("integer"))?))
}

fn concatenated(left: &str, right: &str) -> SqlResult<Datum> {
    if left.len() + right.len() > BYTES_MAX {
        return Err(too_long());
    }
    Ok(Datum::Text(Arc::from([left, right].concat())))
}

/// The place in bytes of the character at `index`; the end if there are fewer.
fn place(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// The place after so many characters; of a negative number, before so many at the end.
fn place_of(text: &str, count: i32) -> usize {
    match usize::try_from(count) {
        Ok(count) => place(text, count),
        Err(_) => place_before_end(text, count.unsigned_abs()),
    }
}

/// The place before so many characters at the end; of a negative number, after so many at the start.
fn start_of(text: &str, count: i32) -> usize {
    match u32::try_from(count) {
        Ok(count) => place_before_end(text, count),
        Err(_) => place(text, usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}

fn place_before_end(text: &str, count: u32) -> usize {
    match usize::try_from(count).unwrap_or(usize::MAX).checked_sub(1) {
        Some(index) => text.char_indices().rev().nth(index).map_or(0, |(at, _)| at),
        None => text.len(),
    }
}

#[cold]
pub(super) fn negative_length() -> Box<SqlError> {
    SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

/// The half-open range of places, from 0, that a start from 1 and a length mean.
///
/// # Errors
/// `22011` if the length is negative.
pub(super) fn slice_of(start: i32, length: Option<i32>) -> SqlResult<(usize, usize)> {
    let first = i64::from(start) - 1;
    let end = match length {
        Some(length) if length < 0 => return Err(negative_length()),
        Some(length) => first + i64::from(length),
        None => i64::MAX,
    };
    let place = |at: i64| usize::try_from(at.max(0)).unwrap_or(usize::MAX);
    Ok((place(first), place(end)))
}

fn substring(text: &str, start: i32, length: Option<i32>) -> SqlResult<Datum> {
    let (first, end) = slice_of(start, length)?;
    let start = place(text, first);
    let rest = &text[start..];
    Ok(Datum::text(&rest[..place(rest, end.saturating_sub(first))]))
}

fn overlay(text: &str, part: &str, start: i32, length: i32) -> SqlResult<Datum> {
    if start <= 0 {
        return Err(negative_length());
    }
    let after = start.checked_add(length).ok_or_else(|| super::arguments::out_of_range("integer"))?;
    let before = &text[..place(text, slice_of(start, None)?.0)];
    let rest = &text[place(text, slice_of(after, None)?.0)..];
    if before.len() + part.len() + rest.len() > BYTES_MAX {
        return Err(too_long());
    }
    Ok(Datum::text([before, part, rest].concat()))
}

/// The place of a part in a text, from 1; 0: it is not there.
fn position(text: &str, part: &str) -> i32 {
    text.find(part).map_or(0, |at| bounded(text[..at].chars().count() + 1))
}

fn repeat(text: &str, count: i32) -> SqlResult<Datum> {
    let count = usize::try_from(count).unwrap_or(0);
    match text.len().checked_mul(count) {
        Some(length) if length <= BYTES_MAX => Ok(Datum::text(text.repeat(count))),
        _ => Err(too_long()),
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

fn pad(text: &str, length: i32, fill: &str, side: Side) -> SqlResult<Datum> {
    let length = usize::try_from(length).unwrap_or(0);
    let present = text.chars().count();
    if present >= length || fill.is_empty() {
        return Ok(Datum::text(&text[..place(text, length)]));
    }
    if length > BYTES_MAX / 4 && length * 4 > BYTES_MAX {
        return Err(too_long());
    }
    let padding: String = fill.chars().cycle().take(length - present).collect();
    Ok(Datum::text(match side {
        Side::Left => [&padding, text].concat(),
        Side::Right => [text, &padding].concat(),
    }))
}

fn replace(text: &str, from: &str, to: &str) -> SqlResult<Datum> {
    if from.is_empty() {
        return Ok(Datum::text(text));
    }
    if to.len() > from.len() {
        let added = text.matches(from).count().saturating_mul(to.len() - from.len());
        if text.len().saturating_add(added) > BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(Datum::text(text.replace(from, to)))
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let replacement = |character: char| match from.chars().position(|known| known == character) {
        Some(index) => to.chars().nth(index),
        None => Some(character),
    };
    text.chars().filter_map(replacement).collect()
}

fn split_part(text: &str, delimiter: &str, field: i32) -> SqlResult<Datum> {
    if field == 0 {
        let message = "field position must not be zero";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let index = usize::try_from(field.unsigned_abs()).unwrap_or(usize::MAX) - 1;
    let part = match (delimiter.is_empty(), field > 0) {
        (true, _) => (index == 0).then_some(text),
        (false, true) => text.split(delimiter).nth(index),
        // Delimiters are found from the start here too: they may overlap.
        (false, false) => {
            let count = text.split(delimiter).count();
            count.checked_sub(index + 1).and_then(|index| text.split(delimiter).nth(index))
        }
    };
    Ok(Datum::text(part.unwrap_or("")))
}

/// The upper case of a character, if it is one character.
pub(super) fn upper(character: char) -> char {
    let mut mapped = character.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(upper), None) => upper,
        _ => with_iota(character).unwrap_or(character),
    }
}

/// The capital of a Greek letter with an iota below, whose full upper case is two characters.
fn with_iota(character: char) -> Option<char> {
    let code = u32::from(character);
    match code {
        0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7 => char::from_u32(code + 8),
        0x1FB3 | 0x1FC3 | 0x1FF3 => char::from_u32(code + 9),
        _ => None,
    }
}

/// The lower case of a character, if it is one character.
pub(super) fn lower(character: char) -> char {
    let mut mapped = character.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(lower), None) => lower,
        // An i with a dot: the only one.
        _ => 'i',
    }
}

fn capitalize(text: &str) -> String {
    let mut is_within_word = false;
    let characters = text.chars().map(|character| {
        let result = if is_within_word { lower(character) } else { upper(character) };
        is_within_word = character.is_alphanumeric();
        result
    });
    characters.collect()
}

fn code_point(character: char) -> i32 {
    i32::try_from(u32::from(character)).unwrap_or(i32::MAX)
}

fn character(code: i32) -> SqlResult<Datum> {
    let error = |message: String| Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    match u32::try_from(code) {
        Err(_) => {
            let message = "character number must be positive";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
        Ok(0) => error("null character not permitted".to_owned()),
        Ok(0x0011_0000..) => error(format!("requested character too large for encoding: {code}")),
        Ok(code) => match char::from_u32(code) {
            Some(character) => Ok(Datum::text(character.encode_utf8(&mut [0; 4]))),
            None => error(format!("requested character not valid for encoding: {code}")),
        },
    }
}
