//! The fields of a line of the csv format.

use std::ops::Range;

use seawall_values::SqlResult;

use super::{Fields, Place, bad_format};
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
        let rest = &bytes[start..line.end];
        let plain = memchr::memchr2(options.delimiter, options.quote, rest);
        let length = match plain {
            Some(at) if rest[at] == options.quote => {
                let begin = fields.decoded.len();
                let length = decode(rest, options, &mut fields.decoded)?;
                fields.places.push(Some(Place::Decoded(begin..fields.decoded.len())));
                length
            }
            found => {
                let length = found.unwrap_or(rest.len());
                let is_null = rest[..length] == *options.null.as_bytes();
                fields.places.push((!is_null).then_some(Place::Input(start..start + length)));
                length
            }
        };
        if length == rest.len() {
            return Ok(());
        }
        start += length + 1;
    }
}

/// Takes the quotes out of a field; how long it was.
fn decode(rest: &[u8], options: &CopyOptions, to: &mut Vec<u8>) -> SqlResult<usize> {
    let mut at = 0;
    let mut is_in_quotes = false;
    while let Some(&byte) = rest.get(at) {
        if !is_in_quotes && byte == options.delimiter {
            return Ok(at);
        }
        at += 1;
        if is_in_quotes
            && byte == options.escape
            && let Some(&next) = rest.get(at)
            && (next == options.escape || next == options.quote)
        {
            to.push(next);
            at += 1;
        } else if byte == options.quote {
            is_in_quotes = !is_in_quotes;
        } else {
            to.push(byte);
        }
    }
    if is_in_quotes { Err(bad_format("unterminated CSV quoted field")) } else { Ok(at) }
}
