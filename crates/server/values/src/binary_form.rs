//! Binary forms: what drivers send and receive when they ask for binary instead of text.
//!
//! Integers and floats are big-endian, texts are UTF-8 without an end, dates and times are the counts that `Datum` has.
//! `numeric` is in digits of base 10,000 (`numeric::binary`), arrays and rows carry the types of their parts (`composed`).

use std::sync::Arc;

use crate::datum::{Datum, Interval, holds_object_numbers};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::encoding::invalid_sequence;
use crate::modifier::{self, Cast};
use crate::numeric::Numeric;
use crate::oid::{self, Oid};
use crate::settings::Settings;
use crate::text_form::{NAME_BYTES_MAX, type_name};
use crate::user_types::{is_composite, is_enum};

mod composed;

/// Reads a value of a built-in type. The modifier applies as it does to a value that is stored.
///
/// # Errors
/// `22P03` or `08P01` for bytes that are no value of the type, `22021` for a text that is not UTF-8, and those of the modifier.
pub fn receive(of: Oid, type_modifier: i32, bytes: &[u8], settings: &Settings) -> SqlResult<Datum> {
    receive_all(of, type_modifier, bytes, settings, || malformed("incorrect binary data format"))
}

/// Reads a value; bytes after its end are an error.
fn receive_all(
    of: Oid,
    type_modifier: i32,
    bytes: &[u8],
    settings: &Settings,
    has_more: impl FnOnce() -> Box<SqlError>,
) -> SqlResult<Datum> {
    let mut reader = Reader { rest: bytes };
    if is_enum(of) {
        return settings.types.place(of, reader.text()?).map(Datum::Int8);
    }
    let value = match scalar(of, &mut reader)? {
        Some(value) => modifier::apply(of, type_modifier, value, Cast::Assignment)?,
        None if is_composite(of) => composed::receive_composite(of, &mut reader, settings)?,
        None => composed::receive(of, type_modifier, &mut reader, settings)?,
    };
    if reader.rest.is_empty() { Ok(value) } else { Err(has_more()) }
}

/// `22P03`: the bytes are no value of the type.
#[cold]
fn malformed(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// Takes parts of a message.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> SqlResult<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")),
        }
    }

    /// All bytes that are left.
    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const COUNT: usize>(&mut self) -> SqlResult<[u8; COUNT]> {
        let mut taken = [0; COUNT];
        taken.copy_from_slice(self.bytes(COUNT)?);
        Ok(taken)
    }

    pub(crate) fn u16(&mut self) -> SqlResult<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> SqlResult<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn u32(&mut self) -> SqlResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn i32(&mut self) -> SqlResult<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn u64(&mut self) -> SqlResult<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> SqlResult<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn text(&mut self) -> SqlResult<&'a str> {
        text(self.all())
    }
}

/// Bytes as a text, which is UTF-8 without zero characters.
///
/// # Errors
/// `22021`.
pub fn text(bytes: &[u8]) -> SqlResult<&str> {
    let invalid_at = match std::str::from_utf8(bytes) {
        Ok(text) => match bytes.iter().position(|byte| *byte == 0) {
            None => return Ok(text),
            Some(at) => at,
        },
        Err(error) => bytes
            .iter()
            .position(|byte| *byte == 0)
            .map_or(error.valid_up_to(), |at| at.min(error.valid_up_to())),
    };
    Err(invalid_sequence(&bytes[invalid_at..], "UTF8"))
}

/// Reads a value of a type that has no parts; `None`: it has some.
fn scalar(of: Oid, reader: &mut Reader<'_>) -> SqlResult<Option<Datum>> {
    Ok(Some(match of {
        oid::BOOL => Datum::Bool(reader.bytes(1)? != [0]),
        oid::CHAR => Datum::Char(reader.array::<1>()?[0]),
        oid::INT2 => Datum::Int2(reader.i16()?),
        oid::INT4 => Datum::Int4(reader.i32()?),
        oid::INT8 => Datum::Int8(reader.i64()?),
        oid::FLOAT4 => Datum::Float4(reader.array().map(f32::from_be_bytes)?),
        oid::FLOAT8 => Datum::Float8(reader.array().map(f64::from_be_bytes)?),
        oid::NUMERIC => Datum::Numeric(Arc::new(Numeric::receive(reader)?)),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::CSTRING | oid::UNKNOWN | oid::REFCURSOR => {
            Datum::text(reader.text()?)
        }
        oid::NAME => Datum::text(name(reader.text()?)?),
        oid::JSON => {
            let text = reader.text()?;
            crate::json::validate(text)?;
            Datum::text(text)
        }
        oid::JSONB => jsonb(reader)?,
        oid::BYTEA => Datum::Bytea(reader.all().into()),
        oid::UUID => Datum::Uuid(reader.array()?),
        oid::BIT | oid::VARBIT => bits(reader)?,
        oid::XID | oid::CID => Datum::Oid(reader.u32()?),
        oid::XID8 | oid::PG_LSN => Datum::Unsigned8(reader.u64()?),
        oid::TID => Datum::Tid(reader.u32()?, reader.u16()?),
        oid::VOID => Datum::text(""),
        oid::DATE => Datum::Date(date(reader.i32()?)?),
        oid::TIME => Datum::Time(time(reader.i64()?)?),
        oid::TIMETZ => Datum::TimeTz(time(reader.i64()?)?, zone(reader.i32()?)?),
        oid::TIMESTAMP => Datum::Timestamp(timestamp(reader.i64()?)?),
        oid::TIMESTAMPTZ => Datum::TimestampTz(timestamp(reader.i64()?)?),
        oid::INTERVAL => {
            let micros = reader.i64()?;
            let days = reader.i32()?;
            Datum::Interval(Interval { months: reader.i32()?, days, micros })
        }
        _ if holds_object_numbers(of) => Datum::Oid(reader.u32()?),
        _ => return Ok(None),
    }))
}

fn name(text: &str) -> SqlResult<&str> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(text);
    }
    let detail = format!("Identifier must be less than {} characters.", NAME_BYTES_MAX + 1);
    Err(SqlError::new(SqlState::NAME_TOO_LONG, "identifier too long").with_detail(detail))
}

/// The version of the binary form of `jsonb`, which is its text.
const JSONB_VERSION: u8 = 1;

fn jsonb(reader: &mut Reader<'_>) -> SqlResult<Datum> {
    let [version] = reader.array()?;
    if version != JSONB_VERSION {
        return Err(SqlError::internal(format!("unsupported jsonb version number {version}")));
    }
    Ok(Datum::Jsonb(Arc::new(crate::json::parse(reader.text()?)?)))
}

fn bits(reader: &mut Reader<'_>) -> SqlResult<Datum> {
    let refuse = || malformed("invalid length in external bit string");
    let count = u32::try_from(reader.i32()?).map_err(|_| refuse())?;
    let length = usize::try_from(count.div_ceil(8)).map_err(|_| refuse())?;
    let mut bytes = reader.bytes(length)?.to_vec();
    // The bits after the last one are 0, whatever the driver sent.
    if let (Some(last), used @ 1..) = (bytes.last_mut(), count % 8) {
        *last &= 0xff << (8 - used);
    }
    Ok(Datum::Bits(bytes.into(), count))
}

/// Days from 2000-01-01 to 4714-11-24 BC, the first date there is.
const DATE_MIN: i32 = -2_451_545;
/// Days from 2000-01-01 to the day after the last date there is.
const DATE_END: i32 = 2_145_031_949;
/// Microseconds from 2000-01-01 to 4714-11-24 BC.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// Microseconds from 2000-01-01 to the first moment that is no timestamp.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;
/// A time zone is less than so many seconds from Greenwich.
const ZONE_END: i32 = 16 * 3_600;

#[cold]
fn out_of_range(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn date(days: i32) -> SqlResult<i32> {
    let is_valid = matches!(days, i32::MIN | i32::MAX) || (DATE_MIN..DATE_END).contains(&days);
    if is_valid { Ok(days) } else { Err(out_of_range("date")) }
}

fn time(micros: i64) -> SqlResult<i64> {
    if (0..=DAY).contains(&micros) { Ok(micros) } else { Err(out_of_range("time")) }
}

fn zone(seconds: i32) -> SqlResult<i32> {
    if seconds > -ZONE_END && seconds < ZONE_END {
        return Ok(seconds);
    }
    Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT, "time zone displacement out of range"))
}

fn timestamp(micros: i64) -> SqlResult<i64> {
    let is_valid = matches!(micros, i64::MIN | i64::MAX) || (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros);
    if is_valid { Ok(micros) } else { Err(out_of_range("timestamp")) }
}

/// Writes a value of a built-in type at the end of a message. A null writes nothing: its length says that it is one.
///
/// # Errors
/// `0A000` for values that have no binary form.
pub fn send(of: Oid, value: &Datum, settings: &Settings, out: &mut Vec<u8>) -> SqlResult<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(byte) => out.push(*byte),
        Datum::Int2(value) => out.extend(value.to_be_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend(value.to_be_bytes()),
        Datum::Int8(place) if is_enum(of) => out.extend(settings.types.label(of, *place)?.as_bytes()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            out.extend(value.to_be_bytes());
        }
        Datum::Oid(value) => out.extend(value.to_be_bytes()),
        Datum::Float4(value) => out.extend(value.to_be_bytes()),
        Datum::Float8(value) => out.extend(value.to_be_bytes()),
        Datum::Numeric(value) => value.send(out),
        Datum::Text(text) => out.extend(text.as_bytes()),
        Datum::Bytea(bytes) => out.extend(&bytes[..]),
        Datum::TimeTz(micros, zone) => {
            out.extend(micros.to_be_bytes());
            out.extend(zone.to_be_bytes());
        }
        Datum::Interval(Interval { months, days, micros }) => {
            out.extend(micros.to_be_bytes());
            out.extend(days.to_be_bytes());
            out.extend(months.to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend(bytes),
        Datum::Jsonb(value) => {
            let mut text = String::new();
            crate::json::print(value, &mut text);
            out.push(JSONB_VERSION);
            out.extend(text.as_bytes());
        }
        Datum::Array(array) => composed::send_array(array, settings, out)?,
        Datum::Record(record) => composed::send_record(record, settings, out)?,
        Datum::Bits(bits, count) => {
            out.extend(count.to_be_bytes());
            out.extend(&bits[..]);
        }
        Datum::Unsigned8(value) => out.extend(value.to_be_bytes()),
        Datum::Tid(block, line) => {
            out.extend(block.to_be_bytes());
            out.extend(line.to_be_bytes());
        }
        Datum::Internal(_) => {
            let message = format!("no binary output function available for type {}", type_name(of));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
    }
    Ok(())
}
