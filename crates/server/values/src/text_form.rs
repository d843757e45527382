//! Text forms: what users write and read.
//!
//! Inputs accept what PostgreSQL's input functions accept and fail with their messages. `input` and `output` know the built-in types;
//! `arrays` and `records` take the types of their elements and fields as functions, for types that tables and users define.

use std::fmt::Write;
use std::sync::Arc;

use crate::datum::{Datum, Record};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::modifier;
use crate::oid::{self, Oid};
use crate::settings::Settings;
use crate::user_types::{CompositeField, is_composite, is_enum};

pub mod arrays;
pub mod bytes;
pub(crate) mod floats;
pub(crate) mod numbers;
pub mod records;
mod type_names;

pub use type_names::{array_element, array_of, type_name};

/// Bytes of a `name`, at most.
pub const NAME_BYTES_MAX: usize = 63;

/// `22P02`: the text is not one of this type.
#[cold]
pub(crate) fn invalid(type_name: &str, text: &str) -> Box<SqlError> {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

/// `22003`: the text is a number that the type cannot hold.
#[cold]
pub(crate) fn out_of_range(type_name: &str, text: &str) -> Box<SqlError> {
    let message = format!("value \"{text}\" is out of range for type {type_name}");
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// What C's `isspace` skips.
pub(crate) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The text without white space at its ends.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_ascii_whitespace() || character == '\x0b')
}

/// Reads a value of a built-in type. The modifier applies as it does to a value that is stored: one that is too long is refused.
///
/// # Errors
/// PostgreSQL's, most of them `22P02`, `22003` or `22007`.
pub fn input(of: Oid, type_modifier: i32, text: &str, settings: &Settings) -> SqlResult<Datum> {
    let value = match of {
        oid::INTERVAL => {
            return Ok(Datum::Interval(crate::date_time::interval_input(text, type_modifier, settings)?));
        }
        oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            date_time_input(of, text, settings)?
        }
        _ if is_enum(of) => return settings.types.place(of, text).map(Datum::Int8),
        _ if is_composite(of) => return composite_input(of, text, settings),
        _ => match scalar_input(of, text)? {
            Some(value) => value,
            None => return composed_input(of, type_modifier, text, settings),
        },
    };
    modifier::apply(of, type_modifier, value, modifier::Cast::Assignment)
}

/// Reads a value of a type that is no array and no time; `None`: it is none of these.
fn scalar_input(of: Oid, text: &str) -> SqlResult<Option<Datum>> {
    Ok(Some(match of {
        oid::BOOL => Datum::Bool(boolean(text)?),
        oid::INT2 => Datum::Int2(numbers::integer(text, "smallint")?),
        oid::INT4 => Datum::Int4(numbers::integer(text, "integer")?),
        oid::INT8 => Datum::Int8(numbers::integer(text, "bigint")?),
        oid::FLOAT4 => Datum::Float4(floats::parse(text)?),
        oid::FLOAT8 => Datum::Float8(floats::parse(text)?),
        oid::NUMERIC => Datum::Numeric(Arc::new(text.parse()?)),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::CSTRING | oid::UNKNOWN | oid::REFCURSOR => {
            Datum::text(text)
        }
        oid::NAME => Datum::text(shortened_name(text)),
        oid::JSON => {
            crate::json::validate(text)?;
            Datum::text(text)
        }
        oid::JSONB => Datum::Jsonb(Arc::new(crate::json::parse(text)?)),
        oid::JSONPATH => Datum::text(crate::jsonpath::canonical(text)?),
        oid::BYTEA => Datum::Bytea(bytes::bytea(text)?.into()),
        oid::UUID => Datum::Uuid(bytes::uuid(text)?),
        oid::CHAR => Datum::Char(bytes::character(text)),
        oid::BIT | oid::VARBIT => bytes::bits(text)?,
        oid::OID | oid::XID | oid::CID => Datum::Oid(numbers::unsigned4(text, type_name(of))?),
        oid::XID8 => Datum::Unsigned8(numbers::unsigned8(text, "xid8")?),
        oid::PG_LSN => Datum::Unsigned8(numbers::lsn(text)?),
        oid::TID => numbers::tid(text)?,
        oid::INT2VECTOR => {
            arrays::vector(oid::INT2, text, &|word| Ok(Datum::Int2(numbers::integer(word, "smallint")?)))?
        }
        oid::OIDVECTOR => {
            arrays::vector(oid::OID, text, &|word| Ok(Datum::Oid(numbers::unsigned4(word, "oid")?)))?
        }
        oid::VOID => Datum::text(""),
        _ if is_registered(of) => Datum::Oid(numbers::registered(text, type_name(of))?),
        _ => return Ok(None),
    }))
}

/// Reads a row of a composite type.
fn composite_input(of: Oid, text: &str, settings: &Settings) -> SqlResult<Datum> {
    let fields = &settings.types.composite(of)?.fields;
    let read = |index: usize, text: &str| {
        let field = &fields[index];
        check_no_domain(field)?;
        input(field.of.oid, field.of.modifier, text, settings)
    };
    let values = records::input(fields.len(), text, &read)?;
    // Of a field that is null, too: a domain may demand that it is not.
    fields.iter().try_for_each(check_no_domain)?;
    Ok(composite_row(fields, values))
}

/// `0A000`: what a domain demands of a field cannot be looked at here.
pub(crate) fn check_no_domain(field: &CompositeField) -> SqlResult<()> {
    match field.domain {
        0 => Ok(()),
        _ => Err(SqlError::unsupported("input of a composite type with a field of a domain")
            .with_hint("Use ROW(...), or json_populate_record.")),
    }
}

/// A row of a composite type.
pub(crate) fn composite_row(fields: &[CompositeField], values: Vec<Datum>) -> Datum {
    let types = fields.iter().map(|field| field.of.oid).collect();
    Datum::Record(Arc::new(Record { types, names: None, values }))
}

/// Reads an array; other types have no text form that can be read.
fn composed_input(of: Oid, type_modifier: i32, text: &str, settings: &Settings) -> SqlResult<Datum> {
    if let Some(element) = array_element(of) {
        let read = |text: &str| input(element, type_modifier, text, settings);
        return Ok(Datum::Array(Arc::new(arrays::input(element, text, &read)?)));
    }
    let message = match of {
        oid::RECORD => "input of anonymous composite types is not implemented".to_owned(),
        _ if type_names::is_pseudo(of) => format!("cannot accept a value of type {}", type_name(of)),
        _ => return Err(SqlError::unsupported(format!("input of type {}", type_name(of)))),
    };
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// Whether `input` reads values of a type from nothing but their text.
pub fn has_input(of: Oid) -> bool {
    match of {
        oid::BOOL | oid::INT2 | oid::INT4 | oid::INT8 | oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC => true,
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::CSTRING | oid::UNKNOWN | oid::REFCURSOR | oid::NAME => {
            true
        }
        oid::JSON
        | oid::JSONB
        | oid::JSONPATH
        | oid::BYTEA
        | oid::UUID
        | oid::CHAR
        | oid::BIT
        | oid::VARBIT => true,
        oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL => true,
        oid::OID | oid::XID | oid::CID | oid::XID8 | oid::PG_LSN | oid::TID => true,
        oid::INT2VECTOR | oid::OIDVECTOR | oid::VOID => true,
        _ if is_enum(of) || is_composite(of) => true,
        _ => array_element(of).is_some_and(has_input),
    }
}

fn date_time_input(of: Oid, text: &str, settings: &Settings) -> SqlResult<Datum> {
    use crate::date_time as read;
    Ok(match of {
        oid::DATE => Datum::Date(read::date_input(text, settings)?),
        oid::TIME => Datum::Time(read::time_input(text, settings)?),
        oid::TIMETZ => {
            let (micros, zone) = read::timetz_input(text, settings)?;
            Datum::TimeTz(micros, zone)
        }
        oid::TIMESTAMP => Datum::Timestamp(read::timestamp_input(text, settings)?),
        _ => Datum::TimestampTz(read::timestamptz_input(text, settings)?),
    })
}

/// Writes a value of a built-in type at the end of a text. A null writes nothing.
///
/// # Errors
/// `0A000` for values that have no text form.
pub fn output(of: Oid, value: &Datum, settings: &Settings, out: &mut String) -> SqlResult<()> {
    use crate::date_time as write;
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Char(byte) => bytes::write_character(*byte, out),
        Datum::Int2(value) => numbers::write_integer(i64::from(*value), out),
        Datum::Int4(value) => numbers::write_integer(i64::from(*value), out),
        Datum::Int8(place) if is_enum(of) => out.push_str(settings.types.label(of, *place)?),
        Datum::Int8(value) => numbers::write_integer(*value, out),
        Datum::Oid(value) if *value == 0 && is_registered(of) => out.push('-'),
        Datum::Oid(value) => numbers::write_integer(i64::from(*value), out),
        Datum::Float4(value) => floats::write(*value, settings.extra_float_digits, out),
        Datum::Float8(value) => floats::write(*value, settings.extra_float_digits, out),
        Datum::Numeric(value) => append(out, value),
        Datum::Text(text) => out.push_str(text),
        Datum::Bytea(value) => bytes::write_bytea(value, settings.is_bytea_hex, out),
        Datum::Date(value) => write::date_output(*value, settings, out),
        Datum::Time(value) => write::time_output(*value, out),
        Datum::TimeTz(micros, zone) => write::timetz_output(*micros, *zone, out),
        Datum::Timestamp(value) => write::timestamp_output(*value, settings, out)?,
        Datum::TimestampTz(value) => write::timestamptz_output(*value, settings, out)?,
        Datum::Interval(value) => write::interval_output(value, settings.interval_style, out),
        Datum::Uuid(value) => bytes::write_uuid(value, out),
        Datum::Jsonb(value) => crate::json::print(value, out),
        Datum::Array(array) if matches!(of, oid::INT2VECTOR | oid::OIDVECTOR) => {
            arrays::write_vector(array, &mut |value, out| output(array.element, value, settings, out), out)?;
        }
        Datum::Array(array) => {
            arrays::output(array, &mut |value, out| output(array.element, value, settings, out), out)?;
        }
        Datum::Record(record) => record_output(record, settings, out)?,
        Datum::Bits(bits, count) => bytes::write_bits(bits, *count, out),
        Datum::Unsigned8(value) if of == oid::PG_LSN => {
            append(out, format_args!("{:X}/{:X}", value >> 32, value & 0xffff_ffff))
        }
        Datum::Unsigned8(value) => append(out, value),
        Datum::Tid(block, line) => append(out, format_args!("({block},{line})")),
        Datum::Internal(_) => {
            let message = format!("cannot display a value of type {}", type_name(of));
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    Ok(())
}

fn record_output(record: &Record, settings: &Settings, out: &mut String) -> SqlResult<()> {
    let mut fields = record.values.iter().zip(record.types.iter().copied());
    records::output(&mut fields, &mut |value, of, out| output(of, value, settings, out), out)
}

/// The text form of a value.
///
/// # Errors
/// As `output`.
pub fn text_of(of: Oid, value: &Datum, settings: &Settings) -> SqlResult<String> {
    let mut text = String::new();
    output(of, value, settings, &mut text)?;
    Ok(text)
}

/// Writes what has a display form: writing to a text cannot fail.
pub(crate) fn append(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a write to a text does not fail");
}

/// Whether a type is one of `regclass` and its like, which show names for numbers.
pub fn is_registered(of: Oid) -> bool {
    matches!(
        of,
        oid::REGPROC
            | oid::REGPROCEDURE
            | oid::REGOPER
            | oid::REGOPERATOR
            | oid::REGCLASS
            | oid::REGTYPE
            | oid::REGCONFIG
            | oid::REGNAMESPACE
            | oid::REGROLE
            | oid::REGCOLLATION
            | 3769
    )
}

/// A name, cut to the length that names have, at the boundary of a character.
pub fn shortened_name(text: &str) -> &str {
    if text.len() <= NAME_BYTES_MAX { text } else { &text[..text.floor_char_boundary(NAME_BYTES_MAX)] }
}

/// `true`, `false`, and the unique beginnings of these and of `yes`, `no`, `on` and `off`, and `1` and `0`.
fn boolean(text: &str) -> SqlResult<bool> {
    boolean_word(text).ok_or_else(|| invalid("boolean", text))
}

/// What a word means as a boolean, if it means one.
pub fn boolean_word(text: &str) -> Option<bool> {
    let word = trimmed(text);
    let begins = |whole: &str, least: usize| {
        (least..=whole.len()).contains(&word.len())
            && whole.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        return Some(true);
    }
    let is_false = begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0";
    is_false.then_some(false)
}
