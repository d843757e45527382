//! Text forms of `bytea`, `"char"`, `uuid` and bit strings.

use super::{append, invalid};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

fn hexadecimal_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn push_hexadecimal(byte: u8, out: &mut String) {
    out.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
    out.push(char::from(HEXADECIMAL[usize::from(byte & 15)]));
}

/// Reads a `bytea`: hexadecimal after `\x`, else characters with `\\` and `\ooo`.
///
/// # Errors
/// `22023` for bad hexadecimal digits, `22P02` for a bad escape.
pub fn bytea(text: &str) -> SqlResult<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => hexadecimal_bytes(digits),
        None => escaped_bytes(text.as_bytes()),
    }
}

/// Reads pairs of hexadecimal digits, between which white space may stand.
///
/// # Errors
/// `22023`.
pub fn hexadecimal_bytes(text: &str) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for character in text.chars() {
        if high.is_none() && matches!(character, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = u8::try_from(character).ok().and_then(hexadecimal_digit).ok_or_else(|| {
            let message = format!("invalid hexadecimal digit: \"{character}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?;
        high = match high {
            None => Some(digit),
            Some(high) => {
                bytes.push(high << 4 | digit);
                None
            }
        };
    }
    if high.is_some() {
        let message = "invalid hexadecimal data: odd number of digits";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(bytes)
}

/// Reads bytes with escapes.
///
/// # Errors
/// `22P02`.
pub fn escaped_bytes(text: &[u8]) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', rest @ ..] => {
                bytes.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest
            }
            [b'\\', ..] => {
                let message = "invalid input syntax for type bytea";
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

/// Writes a `bytea` in hexadecimal, or with escapes for what is not printable ASCII.
pub fn write_bytea(bytes: &[u8], is_hexadecimal: bool, out: &mut String) {
    if is_hexadecimal {
        out.reserve(2 + bytes.len() * 2);
        out.push_str("\\x");
        return bytes.iter().for_each(|byte| push_hexadecimal(*byte, out));
    }
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => append(out, format_args!("\\{byte:03o}")),
        }
    }
}

/// Reads a `"char"`: the first byte of the text, or the byte of `\ooo`.
pub(crate) fn character(text: &str) -> u8 {
    match text.as_bytes() {
        [b'\\', high @ b'0'..=b'7', middle @ b'0'..=b'7', low @ b'0'..=b'7'] => {
            (high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0')
        }
        [first, ..] => *first,
        [] => 0,
    }
}

/// Writes a `"char"`: nothing for a zero byte, `\ooo` for one that is no character by itself.
pub(crate) fn write_character(byte: u8, out: &mut String) {
    match byte {
        0 => {}
        0x80.. => append(out, format_args!("\\{byte:03o}")),
        _ => out.push(char::from(byte)),
    }
}

/// Reads a `uuid`: 32 hexadecimal digits, with a hyphen after any four of them, in braces or not.
///
/// # Errors
/// `22P02`.
pub fn uuid(text: &str) -> SqlResult<[u8; 16]> {
    uuid_bytes(text.as_bytes()).ok_or_else(|| invalid("uuid", text))
}

fn uuid_bytes(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text.strip_prefix(b"{") {
        Some(inner) => inner.strip_suffix(b"}")?,
        None => text,
    };
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else {
            return None;
        };
        *byte = hexadecimal_digit(*high)? << 4 | hexadecimal_digit(*low)?;
        rest = after;
        if index % 2 == 1 && index < 15 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
    }
    rest.is_empty().then_some(bytes)
}

/// Writes a `uuid` as 8-4-4-4-12 digits.
pub fn write_uuid(uuid: &[u8; 16], out: &mut String) {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        push_hexadecimal(*byte, out);
    }
}

/// Reads a bit string: binary digits, or hexadecimal ones after `x`.
pub(super) fn bits(text: &str) -> SqlResult<Datum> {
    let (digits, width, name) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (&text[1..], 1, "binary"),
        Some(b'x' | b'X') => (&text[1..], 4, "hexadecimal"),
        _ => (text, 1, "binary"),
    };
    let mut builder = BitBuilder::default();
    for character in digits.chars() {
        let digit = character.to_digit(1 << width).ok_or_else(|| {
            let message = format!("\"{character}\" is not a valid {name} digit");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?;
        (0..width).rev().for_each(|bit| builder.push(digit >> bit & 1 == 1));
    }
    Ok(builder.finish())
}

/// Gathers the bits of a bit string.
#[derive(Debug, Default)]
pub(crate) struct BitBuilder {
    bytes: Vec<u8>,
    count: u32,
}

impl BitBuilder {
    pub(crate) fn push(&mut self, bit: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if bit && let Some(last) = self.bytes.last_mut() {
            *last |= 0x80 >> (self.count % 8);
        }
        self.count += 1;
    }

    pub(crate) fn finish(self) -> Datum {
        Datum::Bits(self.bytes.into(), self.count)
    }
}

/// One bit of a bit string; those after its end are 0.
pub(crate) fn bit_at(bytes: &[u8], index: u32) -> bool {
    let byte = usize::try_from(index / 8).ok().and_then(|at| bytes.get(at)).copied().unwrap_or(0);
    byte >> (7 - index % 8) & 1 == 1
}

/// Writes a bit string as binary digits.
pub(super) fn write_bits(bytes: &[u8], count: u32, out: &mut String) {
    (0..count).for_each(|index| out.push(if bit_at(bytes, index) { '1' } else { '0' }));
}
