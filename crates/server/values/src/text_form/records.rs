//! The text form of rows: `(1,"a b",)`.

use super::is_space;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::memory::{VALUE_BYTES_MAX, too_large};

/// Reads a row of `count` fields; `read` reads the field with this index.
///
/// # Errors
/// `22P02` for a malformed text, and those of `read`.
pub fn input(
    count: usize,
    text: &str,
    read: &dyn Fn(usize, &str) -> SqlResult<Datum>,
) -> SqlResult<Vec<Datum>> {
    let malformed = |detail: &str| {
        let message = format!("malformed record literal: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    };
    let is_blank = |character: char| u8::try_from(character).is_ok_and(is_space);
    let Some(mut rest) = text.trim_start_matches(is_blank).strip_prefix('(') else {
        return Err(malformed("Missing left parenthesis."));
    };
    let mut values = Vec::with_capacity(count);
    for index in 0..count {
        if index > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| malformed("Too few columns."))?;
        }
        if rest.starts_with([',', ')']) {
            values.push(Datum::Null);
            continue;
        }
        let (field, after) = field(rest).ok_or_else(|| malformed("Unexpected end of input."))?;
        values.push(read(index, &field)?);
        rest = after;
    }
    let Some(rest) = rest.strip_prefix(')') else {
        return Err(malformed("Too many columns."));
    };
    if rest.chars().all(is_blank) { Ok(values) } else { Err(malformed("Junk after right parenthesis.")) }
}

/// A field, without its quotes and escapes, and what is after it; `None`: the text ends before it does.
fn field(text: &str) -> Option<(String, &str)> {
    let (mut field, mut is_quoted) = (String::new(), false);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            ',' | ')' if !is_quoted => return Some((field, &text[at..])),
            '\\' => field.push(characters.next()?.1),
            '"' if is_quoted && characters.next_if(|(_, next)| *next == '"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            _ => field.push(character),
        }
    }
    None
}

/// Writes a row; `write` writes the value of a field, which comes with what `write` knows it by.
///
/// # Errors
/// Those of `write`.
pub fn output<'a, T>(
    fields: &mut dyn Iterator<Item = (&'a Datum, T)>,
    write: &mut dyn FnMut(&Datum, T, &mut String) -> SqlResult<()>,
    out: &mut String,
) -> SqlResult<()> {
    out.push('(');
    for (index, (value, of)) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        let start = out.len();
        write(value, of, out)?;
        let text = &out[start..];
        let is_special = |byte: u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || is_space(byte);
        if text.is_empty() || text.bytes().any(is_special) {
            quote(start, out, VALUE_BYTES_MAX)?;
        }
    }
    out.push(')');
    Ok(())
}

/// Puts the end of a text into quotes, with quotes and backslashes doubled. A row in a row in a row doubles them each time, so a text of a
/// few dozen levels would fill any memory.
///
/// # Errors
/// `54000`: the text would be longer than `limit`.
fn quote(start: usize, out: &mut String, limit: usize) -> SqlResult<()> {
    let doubled = out[start..].bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    let (length, added) = (out.len(), doubled + 2);
    if length + added > limit {
        return Err(too_large(length, added));
    }
    let text = out.split_off(start);
    out.reserve(text.len() + added);
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_end_at_the_limit_of_a_value() {
        let mut text = "a\"b\\".to_owned();
        let error = quote(1, &mut text, 7).unwrap_err();
        assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(text, "a\"b\\");
        quote(1, &mut text, 8).unwrap();
        assert_eq!(text, "a\"\"\"b\\\\\"");
    }
}
