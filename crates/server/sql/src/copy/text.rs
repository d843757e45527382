//! The fields of a line of the text format.

use std::ops::Range;

use seawall_values::SqlResult;

use super::{Fields, Place, invalid_bytes};
use crate::parse::statement::copy::CopyOptions;

/// Finds the fields of a line.
pub(super) fn split(
    bytes: &[u8],
    line: Range<usize>,
    options: &CopyOptions,
    fields: &mut Fields,
) -> SqlResult<()> {
    let mut start = line.start;
    loop {
        let (end, has_escapes) = end_of_field(bytes, start..line.end, options.delimiter);
        let raw = &bytes[start..end];
        let place = if raw == options.null.as_bytes() {
            None
        } else if has_escapes {
            let begin = fields.decoded.len();
            decode(raw, &mut fields.decoded);
            check_text(&fields.decoded[begin..])?;
            Some(Place::Decoded(begin..fields.decoded.len()))
        } else {
            Some(Place::Input(start..end))
        };
        fields.places.push(place);
        if end == line.end {
            return Ok(());
        }
        start = end + 1;
    }
}

/// Where the field ends, and whether it has backslashes.
fn end_of_field(bytes: &[u8], rest: Range<usize>, delimiter: u8) -> (usize, bool) {
    let (mut at, mut has_escapes) = (rest.start, false);
    while let Some(found) = bytes.get(at..rest.end).and_then(|rest| memchr::memchr2(delimiter, b'\\', rest)) {
        at += found;
        if bytes[at] == delimiter {
            return (at, has_escapes);
        }
        has_escapes = true;
        at += 2;
    }
    (rest.end, has_escapes)
}

/// Takes the escapes out.
fn decode(raw: &[u8], to: &mut Vec<u8>) {
    let mut rest = raw;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            to.push(*byte);
            continue;
        }
        // A backslash at the end is nothing.
        let [escape, after @ ..] = rest else { break };
        rest = after;
        match escape {
            b'0'..=b'7' => {
                let (code, used) = digits(after, 2, 8, u32::from(escape - b'0'));
                to.push(code.to_le_bytes()[0]);
                rest = &after[used..];
            }
            b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => {
                let (code, used) = digits(after, 2, 16, 0);
                to.push(code.to_le_bytes()[0]);
                rest = &after[used..];
            }
            b'b' => to.push(0x08),
            b'f' => to.push(0x0C),
            b'n' => to.push(b'\n'),
            b'r' => to.push(b'\r'),
            b't' => to.push(b'\t'),
            b'v' => to.push(0x0B),
            other => to.push(*other),
        }
    }
}

/// A number of at most so many more digits, and how many there were.
fn digits(bytes: &[u8], most: usize, radix: u32, first: u32) -> (u32, usize) {
    let values = bytes.iter().take(most).map_while(|byte| char::from(*byte).to_digit(radix));
    values.fold((first, 0), |(code, used), digit| (code * radix + digit, used + 1))
}

/// Escapes can make bytes that are no text.
fn check_text(value: &[u8]) -> SqlResult<()> {
    if let Some(zero) = value.iter().position(|byte| *byte == 0) {
        return Err(invalid_bytes(value, zero));
    }
    match std::str::from_utf8(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(invalid_bytes(value, error.valid_up_to())),
    }
}
