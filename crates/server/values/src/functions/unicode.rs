//! Unicode escapes (`unistr`) and normal forms.

use super::Table;
use super::arguments::row;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    row!("unicode_normalize_func", [Text text, Text form], {
        check_form(form)?;
        only_ascii(text)?;
        Ok(Datum::Text(text.clone()))
    }),
    row!("unicode_is_normalized", [Text text, Text form], {
        check_form(form)?;
        only_ascii(text)?;
        Ok(Datum::Bool(true))
    }),
];

fn check_form(form: &str) -> SqlResult<()> {
    if ["NFC", "NFD", "NFKC", "NFKD"].iter().any(|known| known.eq_ignore_ascii_case(form)) {
        return Ok(());
    }
    let message = format!("invalid normalization form: {form}");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// ASCII is in all normal forms; there are no tables for the rest.
fn only_ascii(text: &str) -> SqlResult<()> {
    if text.is_ascii() {
        Ok(())
    } else {
        Err(SqlError::unsupported("normalization of a text that is not ASCII"))
    }
}

fn invalid_escape() -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
        .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
}

/// A text with `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` replaced; `\\` is a backslash.
///
/// # Errors
/// `42601` if an escape is not one of these or means no character.
pub(super) fn without_escapes(text: &str) -> SqlResult<Datum> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut high = None;
    while let Some(at) = rest.find('\\') {
        if at > 0 && high.is_some() {
            return Err(invalid_pair());
        }
        result.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        if let Some(after) = escape.strip_prefix('\\') {
            if high.is_some() {
                return Err(invalid_pair());
            }
            result.push('\\');
            rest = after;
            continue;
        }
        let (skipped, digits) = match escape.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let number = escape
            .get(skipped..skipped + digits)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = number.and_then(|text| u32::from_str_radix(text, 16).ok()).ok_or_else(invalid_escape)?;
        rest = &escape[skipped + digits..];
        match (code, high) {
            (0xD800..0xDC00, None) => high = Some(code),
            (0xDC00..0xE000, Some(first)) => {
                high = None;
                result.extend(char::from_u32(0x10000 + ((first & 0x3FF) << 10) + (code & 0x3FF)));
            }
            (0xD800..0xE000, _) | (_, Some(_)) => return Err(invalid_pair()),
            (code, None) => match char::from_u32(code) {
                Some('\0') | None => {
                    let message = format!("invalid Unicode code point: {code:04X}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                Some(character) => result.push(character),
            },
        }
    }
    if high.is_some() {
        return Err(invalid_pair());
    }
    result.push_str(rest);
    Ok(Datum::text(result))
}

#[cold]
fn invalid_pair() -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair")
}
