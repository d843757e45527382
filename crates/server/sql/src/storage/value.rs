//! One value as bytes, in a row.
//!
//! Integers are little-endian. A length is a varint: seven bits a byte, lowest first, the high bit set in all but the last.
//!
//! | kind                             | bytes                                                                            |
//! |----------------------------------|----------------------------------------------------------------------------------|
//! | bool, "char"                     | 1                                                                                |
//! | int2, int4, int8, oid, floats    | 2, 4, 8, 4, 4 or 8                                                               |
//! | date, time, timestamps           | 4, 8, 8: as PostgreSQL's binary form counts                                      |
//! | time with time zone, interval    | 8 and 4; months 4, days 4, microseconds 8                                        |
//! | uuid, pg_lsn and xid8, tid       | 16; 8; block 4, line 2                                                           |
//! | texts, bytea                     | length, bytes                                                                    |
//! | numeric                          | length; 0 and scale as varint and digits as a signed integer of any length; 1, 2 |
//! |                                  | or 3 alone: infinity, minus infinity, not a number                               |
//! | bit strings                      | bits as varint, bytes                                                            |
//! | jsonb                            | length; value: 0 null, 1 false, 2 true, 3 numeric, 4 text, 5 array and 6 object  |
//! |                                  | with their count and values (each after its key as text)                         |
//! | all others (tagged)              | 0 null; 1 array: type of elements 4, dimensions 1, each length 4 and lower 4,    |
//! |                                  | tagged values; 2 row: count, types 4 each, tagged values; else 3 + kind, value   |

use std::sync::Arc;

use num_bigint::BigInt;
use seawall_values::datum::{Jsonb, Numeric};
use seawall_values::{Array, Datum, Dimension, Interval, Record, SqlError, SqlResult, SqlState};

use crate::storage::kind::Kind;

/// Deepest nesting of arrays, rows and jsonb in a stored value.
const DEPTH_MAX: usize = 2_000;
const DIMENSIONS_MAX: u8 = 6;

const TAG_NULL: u8 = 0;
const TAG_ARRAY: u8 = 1;
const TAG_RECORD: u8 = 2;
const TAG_KIND: u8 = 3;

/// The kinds that a tag can name, in the order of their tags. New ones go to the end.
const TAGGED_KINDS: [Kind; 23] = [
    Kind::Bool,
    Kind::Char,
    Kind::Int2,
    Kind::Int4,
    Kind::Int8,
    Kind::Oid,
    Kind::Float4,
    Kind::Float8,
    Kind::Numeric,
    Kind::Text,
    Kind::PaddedText,
    Kind::Bytea,
    Kind::Date,
    Kind::Time,
    Kind::TimeTz,
    Kind::Timestamp,
    Kind::TimestampTz,
    Kind::Interval,
    Kind::Uuid,
    Kind::Jsonb,
    Kind::Bits,
    Kind::Unsigned8,
    Kind::Tid,
];

/// A signed integer of any length, little-endian.
fn integer(bytes: &[u8]) -> BigInt {
    const SHORT: usize = size_of::<i64>();
    let Some(last) = bytes.last().filter(|_| bytes.len() <= SHORT) else {
        return BigInt::from_signed_bytes_le(bytes);
    };
    let mut whole = if last & 0x80 == 0 { [0; SHORT] } else { [0xFF; SHORT] };
    whole[..bytes.len()].copy_from_slice(bytes);
    BigInt::from(i64::from_le_bytes(whole))
}

/// Appends a length or a count.
pub(crate) fn write_length(length: usize, out: &mut Vec<u8>) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7F).to_le_bytes()[0]);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Appends a byte string with its length.
pub(crate) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a value that is not null.
///
/// # Errors
/// `XX000` if the value is not of the kind, `54001` if it is nested too deeply.
pub fn write_value(kind: Kind, value: &Datum, out: &mut Vec<u8>) -> SqlResult<()> {
    match (kind, value) {
        (Kind::Bool, Datum::Bool(value)) => out.push(u8::from(*value)),
        (Kind::Char, Datum::Char(value)) => out.push(*value),
        (Kind::Int2, Datum::Int2(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Int4, Datum::Int4(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Int8, Datum::Int8(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Oid, Datum::Oid(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Float4, Datum::Float4(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Float8, Datum::Float8(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Numeric, Datum::Numeric(value)) => write_numeric(value, out),
        (Kind::Text | Kind::PaddedText, Datum::Text(value)) => write_bytes(value.as_bytes(), out),
        (Kind::Bytea, Datum::Bytea(value)) => write_bytes(value, out),
        (Kind::Date, Datum::Date(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Time, Datum::Time(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Timestamp, Datum::Timestamp(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::TimestampTz, Datum::TimestampTz(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::TimeTz, Datum::TimeTz(time, zone)) => {
            out.extend_from_slice(&time.to_le_bytes());
            out.extend_from_slice(&zone.to_le_bytes());
        }
        (Kind::Interval, Datum::Interval(value)) => {
            out.extend_from_slice(&value.months.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.micros.to_le_bytes());
        }
        (Kind::Uuid, Datum::Uuid(value)) => out.extend_from_slice(value),
        (Kind::Jsonb, Datum::Jsonb(value)) => write_framed(out, |out| write_jsonb(value, 0, out))?,
        (Kind::Bits, Datum::Bits(bytes, bits)) => {
            write_length(usize::try_from(*bits).unwrap_or(usize::MAX), out);
            out.extend_from_slice(bytes);
        }
        (Kind::Unsigned8, Datum::Unsigned8(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Kind::Tid, Datum::Tid(block, line)) => {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&line.to_le_bytes());
        }
        (Kind::Tagged, value) => write_framed(out, |out| write_tagged(value, 0, out))?,
        (kind, value) => return Err(wrong_kind(kind, value)),
    }
    Ok(())
}

#[cold]
fn wrong_kind(kind: Kind, value: &Datum) -> Box<SqlError> {
    SqlError::internal(format!(
        "a value of the kind {kind:?} was expected, not one of the kind {:?}",
        kind_of(value)
    ))
}

#[cold]
fn too_deep() -> Box<SqlError> {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint(format!("A stored value may be nested {DEPTH_MAX} levels deep."))
}

/// Appends what `write` appends, after its length.
fn write_framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>) -> SqlResult<()> {
    let mut body = Vec::new();
    write(&mut body)?;
    write_bytes(&body, out);
    Ok(())
}

fn write_numeric(value: &Numeric, out: &mut Vec<u8>) {
    match value {
        Numeric::Finite { digits, scale } => {
            if let (Ok(short), Ok(scale @ 0..=127)) = (i64::try_from(digits), u8::try_from(*scale)) {
                let bytes = short.to_le_bytes();
                let kept = signed_bytes(&bytes);
                write_length(2 + kept.len(), out);
                out.extend_from_slice(&[0, scale]);
                out.extend_from_slice(kept);
                return;
            }
            let digits = digits.to_signed_bytes_le();
            let mut head = vec![0];
            write_length(usize::try_from(*scale).unwrap_or(usize::MAX), &mut head);
            write_length(head.len() + digits.len(), out);
            out.extend_from_slice(&head);
            out.extend_from_slice(&digits);
        }
        Numeric::PositiveInfinity => write_bytes(&[1], out),
        Numeric::NegativeInfinity => write_bytes(&[2], out),
        Numeric::NotANumber => write_bytes(&[3], out),
    }
}

/// The fewest bytes that say the same number, of a number in the complement of two.
fn signed_bytes(bytes: &[u8; 8]) -> &[u8] {
    let mut kept = bytes.as_slice();
    while let [.., before, last] = kept
        && (*last == 0 && *before < 0x80 || *last == 0xFF && *before >= 0x80)
    {
        kept = &kept[..kept.len() - 1];
    }
    kept
}

fn write_jsonb(value: &Jsonb, depth: usize, out: &mut Vec<u8>) -> SqlResult<()> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match value {
        Jsonb::Null => out.push(0),
        Jsonb::Bool(false) => out.push(1),
        Jsonb::Bool(true) => out.push(2),
        Jsonb::Number(number) => {
            out.push(3);
            write_numeric(number, out);
        }
        Jsonb::String(text) => {
            out.push(4);
            write_bytes(text.as_bytes(), out);
        }
        Jsonb::Array(values) => {
            out.push(5);
            write_length(values.len(), out);
            values.iter().try_for_each(|value| write_jsonb(value, depth + 1, out))?;
        }
        Jsonb::Object(fields) => {
            out.push(6);
            write_length(fields.len(), out);
            for (key, value) in fields {
                write_bytes(key.as_bytes(), out);
                write_jsonb(value, depth + 1, out)?;
            }
        }
    }
    Ok(())
}

fn write_tagged(value: &Datum, depth: usize, out: &mut Vec<u8>) -> SqlResult<()> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match value {
        Datum::Null => out.push(TAG_NULL),
        Datum::Array(array) => {
            out.push(TAG_ARRAY);
            out.extend_from_slice(&array.element.to_le_bytes());
            let dimensions = u8::try_from(array.dimensions.len()).unwrap_or(u8::MAX);
            if dimensions > DIMENSIONS_MAX {
                return Err(SqlError::internal("an array of more than six dimensions"));
            }
            out.push(dimensions);
            for dimension in &array.dimensions {
                out.extend_from_slice(&dimension.length.to_le_bytes());
                out.extend_from_slice(&dimension.lower.to_le_bytes());
            }
            array.values.iter().try_for_each(|value| write_tagged(value, depth + 1, out))?;
        }
        Datum::Record(record) => {
            out.push(TAG_RECORD);
            write_length(record.types.len(), out);
            record.types.iter().for_each(|of| out.extend_from_slice(&of.to_le_bytes()));
            record.values.iter().try_for_each(|value| write_tagged(value, depth + 1, out))?;
        }
        value => {
            let kind = kind_of(value).ok_or_else(|| wrong_kind(Kind::Tagged, value))?;
            let number = TAGGED_KINDS.iter().position(|known| *known == kind);
            let number = number.and_then(|number| u8::try_from(number).ok());
            out.push(TAG_KIND + number.ok_or_else(|| wrong_kind(kind, value))?);
            write_value(kind, value, out)?;
        }
    }
    Ok(())
}

fn kind_of(value: &Datum) -> Option<Kind> {
    Some(match value {
        Datum::Bool(_) => Kind::Bool,
        Datum::Char(_) => Kind::Char,
        Datum::Int2(_) => Kind::Int2,
        Datum::Int4(_) => Kind::Int4,
        Datum::Int8(_) => Kind::Int8,
        Datum::Oid(_) => Kind::Oid,
        Datum::Float4(_) => Kind::Float4,
        Datum::Float8(_) => Kind::Float8,
        Datum::Numeric(_) => Kind::Numeric,
        Datum::Text(_) => Kind::Text,
        Datum::Bytea(_) => Kind::Bytea,
        Datum::Date(_) => Kind::Date,
        Datum::Time(_) => Kind::Time,
        Datum::TimeTz(..) => Kind::TimeTz,
        Datum::Timestamp(_) => Kind::Timestamp,
        Datum::TimestampTz(_) => Kind::TimestampTz,
        Datum::Interval(_) => Kind::Interval,
        Datum::Uuid(_) => Kind::Uuid,
        Datum::Jsonb(_) => Kind::Jsonb,
        Datum::Bits(..) => Kind::Bits,
        Datum::Unsigned8(_) => Kind::Unsigned8,
        Datum::Tid(..) => Kind::Tid,
        Datum::Null | Datum::Array(_) | Datum::Record(_) | Datum::Internal(_) => return None,
    })
}

/// Reads values one after another. All that is wrong with the bytes is `XX001`.
#[derive(Clone, Copy, Debug)]
pub struct ValueReader<'a> {
    rest: &'a [u8],
}

/// `XX001`: stored bytes that nothing here has written.
#[cold]
pub(crate) fn damaged(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("a stored row is damaged: {what}"))
        .with_hint("Check the database with \"seawall check\".")
}

impl<'a> ValueReader<'a> {
    /// Stands at the first value.
    pub fn new(bytes: &'a [u8]) -> ValueReader<'a> {
        ValueReader { rest: bytes }
    }

    /// Whether all has been read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, bytes: usize) -> SqlResult<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| damaged("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| damaged("it ends early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> SqlResult<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a length or a count.
    pub(crate) fn length(&mut self) -> SqlResult<usize> {
        let mut length = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            length |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(length).map_err(|_| damaged("a length is out of range"));
            }
        }
        Err(damaged("a length has no end"))
    }

    /// A count of things that take at least a byte each, so that no more are made room for than can be there.
    pub(crate) fn count(&mut self) -> SqlResult<usize> {
        let count = self.length()?;
        if count > self.rest.len() { Err(damaged("a count is out of range")) } else { Ok(count) }
    }

    pub(crate) fn bytes(&mut self) -> SqlResult<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> SqlResult<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged("a text is not UTF-8"))
    }

    /// Passes over a value.
    ///
    /// # Errors
    /// The bytes end early.
    pub fn skip(&mut self, kind: Kind) -> SqlResult<()> {
        let bytes = match kind {
            Kind::Bool | Kind::Char => 1,
            Kind::Int2 => 2,
            Kind::Int4 | Kind::Oid | Kind::Float4 | Kind::Date => 4,
            Kind::Int8 | Kind::Float8 | Kind::Time | Kind::Timestamp | Kind::TimestampTz => 8,
            Kind::Unsigned8 => 8,
            Kind::TimeTz => 12,
            Kind::Interval | Kind::Uuid => 16,
            Kind::Tid => 6,
            Kind::Bits => self.length()?.div_ceil(8),
            Kind::Numeric | Kind::Text | Kind::PaddedText | Kind::Bytea | Kind::Jsonb | Kind::Tagged => {
                self.length()?
            }
        };
        self.take(bytes).map(drop)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The bytes are no value of this kind.
    pub fn value(&mut self, kind: Kind) -> SqlResult<Datum> {
        Ok(match kind {
            Kind::Bool => Datum::Bool(self.boolean()?),
            Kind::Char => Datum::Char(self.byte()?),
            Kind::Int2 => Datum::Int2(i16::from_le_bytes(self.array()?)),
            Kind::Int4 => Datum::Int4(i32::from_le_bytes(self.array()?)),
            Kind::Int8 => Datum::Int8(i64::from_le_bytes(self.array()?)),
            Kind::Oid => Datum::Oid(u32::from_le_bytes(self.array()?)),
            Kind::Float4 => Datum::Float4(f32::from_le_bytes(self.array()?)),
            Kind::Float8 => Datum::Float8(f64::from_le_bytes(self.array()?)),
            Kind::Numeric => Datum::Numeric(Arc::new(self.numeric()?)),
            Kind::Text | Kind::PaddedText => Datum::text(self.text()?),
            Kind::Bytea => Datum::Bytea(Arc::from(self.bytes()?)),
            Kind::Date => Datum::Date(i32::from_le_bytes(self.array()?)),
            Kind::Time => Datum::Time(i64::from_le_bytes(self.array()?)),
            Kind::TimeTz => {
                Datum::TimeTz(i64::from_le_bytes(self.array()?), i32::from_le_bytes(self.array()?))
            }
            Kind::Timestamp => Datum::Timestamp(i64::from_le_bytes(self.array()?)),
            Kind::TimestampTz => Datum::TimestampTz(i64::from_le_bytes(self.array()?)),
            Kind::Interval => Datum::Interval(Interval {
                months: i32::from_le_bytes(self.array()?),
                days: i32::from_le_bytes(self.array()?),
                micros: i64::from_le_bytes(self.array()?),
            }),
            Kind::Uuid => Datum::Uuid(self.array()?),
            Kind::Jsonb => Datum::Jsonb(Arc::new(ValueReader::new(self.bytes()?).jsonb(0)?)),
            Kind::Bits => {
                let bits = self.length()?;
                let bytes = self.take(bits.div_ceil(8))?;
                let bits = u32::try_from(bits).map_err(|_| damaged("a bit string is too long"))?;
                Datum::Bits(Arc::from(bytes), bits)
            }
            Kind::Unsigned8 => Datum::Unsigned8(u64::from_le_bytes(self.array()?)),
            Kind::Tid => Datum::Tid(u32::from_le_bytes(self.array()?), u16::from_le_bytes(self.array()?)),
            Kind::Tagged => ValueReader::new(self.bytes()?).tagged(0)?,
        })
    }

    fn boolean(&mut self) -> SqlResult<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a boolean is neither true nor false")),
        }
    }

    fn numeric(&mut self) -> SqlResult<Numeric> {
        let mut body = ValueReader::new(self.bytes()?);
        let class = body.byte()?;
        Ok(match class {
            0 => {
                let scale = u32::try_from(body.length()?).map_err(|_| damaged("a scale is out of range"))?;
                Numeric::Finite { digits: integer(body.rest), scale }
            }
            1 => Numeric::PositiveInfinity,
            2 => Numeric::NegativeInfinity,
            3 => Numeric::NotANumber,
            _ => return Err(damaged("a numeric of no known class")),
        })
    }

    fn jsonb(&mut self, depth: usize) -> SqlResult<Jsonb> {
        if depth > DEPTH_MAX {
            return Err(damaged("it is nested too deeply"));
        }
        Ok(match self.byte()? {
            0 => Jsonb::Null,
            1 => Jsonb::Bool(false),
            2 => Jsonb::Bool(true),
            3 => Jsonb::Number(self.numeric()?),
            4 => Jsonb::String(Arc::from(self.text()?)),
            5 => Jsonb::Array((0..self.count()?).map(|_| self.jsonb(depth + 1)).collect::<SqlResult<_>>()?),
            6 => {
                let count = self.count()?;
                let field = |_| Ok((Arc::from(self.text()?), self.jsonb(depth + 1)?));
                Jsonb::Object((0..count).map(field).collect::<SqlResult<_>>()?)
            }
            _ => return Err(damaged("a jsonb value of no known type")),
        })
    }

    fn tagged(&mut self, depth: usize) -> SqlResult<Datum> {
        if depth > DEPTH_MAX {
            return Err(damaged("it is nested too deeply"));
        }
        Ok(match self.byte()? {
            TAG_NULL => Datum::Null,
            TAG_ARRAY => Datum::Array(Arc::new(self.tagged_array(depth)?)),
            TAG_RECORD => Datum::Record(Arc::new(self.tagged_record(depth)?)),
            tag => {
                let kind = TAGGED_KINDS.get(usize::from(tag - TAG_KIND));
                self.value(*kind.ok_or_else(|| damaged("a value of no known kind"))?)?
            }
        })
    }

    fn tagged_array(&mut self, depth: usize) -> SqlResult<Array> {
        let element = u32::from_le_bytes(self.array()?);
        let count = self.byte()?;
        if count > DIMENSIONS_MAX {
            return Err(damaged("an array has too many dimensions"));
        }
        let mut dimensions = Vec::with_capacity(usize::from(count));
        let mut values = usize::from(count > 0);
        for _ in 0..count {
            let (length, lower) = (i32::from_le_bytes(self.array()?), i32::from_le_bytes(self.array()?));
            let product = usize::try_from(length).ok().and_then(|length| values.checked_mul(length));
            values = product
                .filter(|values| *values <= self.rest.len())
                .ok_or_else(|| damaged("an array's length"))?;
            dimensions.push(Dimension { length, lower });
        }
        let values = (0..values).map(|_| self.tagged(depth + 1)).collect::<SqlResult<_>>()?;
        Ok(Array { element, dimensions, values })
    }

    fn tagged_record(&mut self, depth: usize) -> SqlResult<Record> {
        let count = self.count()?;
        let types = (0..count).map(|_| Ok(u32::from_le_bytes(self.array()?))).collect::<SqlResult<_>>()?;
        let values = (0..count).map(|_| self.tagged(depth + 1)).collect::<SqlResult<_>>()?;
        Ok(Record { types, names: None, values })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_integers_are_written_as_long_ones_are(number: i64, shift in 0_u32..64) {
            for number in [number >> shift, -(number >> shift).saturating_abs(), 0, -1, 127, 128, -128, -129, i64::MIN] {
                let written = signed_bytes(&number.to_le_bytes()).to_vec();
                prop_assert_eq!(written, BigInt::from(number).to_signed_bytes_le());
            }
        }
    }
}
