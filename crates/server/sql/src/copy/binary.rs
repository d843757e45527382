//! Rows of the binary format, integers big-endian:
//!
//! | bytes | field                                                                       |
//! |------:|-----------------------------------------------------------------------------|
//! |    11 | signature: `PGCOPY\n`, 255, `\r\n`, 0                                       |
//! |     4 | flags: bit 16: rows have OIDs (refused); other bits from 16 on are refused  |
//! |     4 | the length of what follows, which is passed over                            |
//!
//! For each row two bytes with the number of fields, or -1 at the end; for each field four bytes with its length, or -1 for a null, and
//! then its value.

use seawall_values::SqlResult;

use super::{Input, Next, Place, bad_format};

/// Begins the data.
pub(super) const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// Rows have OIDs.
const FLAG_OIDS: u32 = 1 << 16;

/// Where in the data it is.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Header,
    Rows,
    End,
}

/// Reads rows.
#[derive(Debug, Default)]
pub(super) struct BinaryRows {
    part: Part,
}

impl BinaryRows {
    /// Whether the header has been read.
    pub(super) fn is_in_rows(&self) -> bool {
        !matches!(self.part, Part::Header)
    }

    /// The next row.
    pub(super) fn next(
        &mut self,
        input: &mut Input,
        columns: usize,
        places: &mut Vec<Option<Place>>,
    ) -> SqlResult<Next> {
        if matches!(self.part, Part::Header) {
            match header_bytes(input)? {
                Some(length) => input.start += length,
                None => return Ok(Next::More),
            }
            self.part = Part::Rows;
        }
        if matches!(self.part, Part::End) {
            return match (input.start < input.bytes.len(), input.is_complete) {
                (true, _) => Err(bad_format("received copy data after EOF marker")),
                (false, true) => Ok(Next::End),
                (false, false) => Ok(Next::More),
            };
        }
        let Some(count) = number_of_fields(input) else {
            return Ok(if input.is_complete { Next::End } else { Next::More });
        };
        if count == -1 {
            self.part = Part::End;
            input.start += 2;
            return self.next(input, columns, places);
        }
        if i64::from(count) != i64::try_from(columns).unwrap_or(i64::MAX) {
            return Err(bad_format(format!("row field count is {count}, expected {columns}")));
        }
        row(input, columns, places)
    }
}

/// The bytes at a place; `None`: they have not come.
fn four(input: &Input, at: usize) -> Option<[u8; 4]> {
    input.bytes.get(at..)?.first_chunk().copied()
}

fn number_of_fields(input: &Input) -> Option<i16> {
    input.bytes.get(input.start..)?.first_chunk().copied().map(i16::from_be_bytes)
}

/// How long the header is, once it is all there.
fn header_bytes(input: &Input) -> SqlResult<Option<usize>> {
    let missing = |message: &str| if input.is_complete { Err(bad_format(message)) } else { Ok(None) };
    let given = &input.bytes[input.start..];
    let compared = given.len().min(SIGNATURE.len());
    if given[..compared] != SIGNATURE[..compared] {
        return Err(bad_format("COPY file signature not recognized"));
    }
    if compared < SIGNATURE.len() {
        return missing("COPY file signature not recognized");
    }
    let at = input.start + SIGNATURE.len();
    let Some(flags) = four(input, at).map(u32::from_be_bytes) else {
        return missing("invalid COPY file header (missing flags)");
    };
    if flags & FLAG_OIDS != 0 {
        return Err(bad_format("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 16 != 0 {
        return Err(bad_format("unrecognized critical flags in COPY file header"));
    }
    let Some(length) = four(input, at + 4).map(i32::from_be_bytes) else {
        return missing("invalid COPY file header (missing length)");
    };
    let Ok(length) = usize::try_from(length) else {
        return Err(bad_format("invalid COPY file header (missing length)"));
    };
    let total = SIGNATURE.len() + 8 + length;
    if given.len() < total {
        return missing("invalid COPY file header (wrong length)");
    }
    Ok(Some(total))
}

/// After the number of fields. Nothing is taken before all of them are there.
fn row(input: &mut Input, columns: usize, places: &mut Vec<Option<Place>>) -> SqlResult<Next> {
    let mut at = input.start + 2;
    let missing = |input: &Input, places: &mut Vec<Option<Place>>| {
        places.clear();
        if input.is_complete { Err(bad_format("unexpected EOF in COPY data")) } else { Ok(Next::More) }
    };
    for _ in 0..columns {
        let Some(length) = four(input, at).map(i32::from_be_bytes) else { return missing(input, places) };
        at += 4;
        if length == -1 {
            places.push(None);
            continue;
        }
        let Ok(length) = usize::try_from(length) else { return Err(bad_format("invalid field size")) };
        if input.bytes.len() - at < length {
            return missing(input, places);
        }
        places.push(Some(Place::Input(at..at + length)));
        at += length;
    }
    input.start = at;
    Ok(Next::Row)
}
