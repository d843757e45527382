//! Type modifiers: how many characters, bits, digits or fields a value of `varchar(20)` or `numeric(10,2)` may have.
//!
//! PostgreSQL's encoding: the length of strings and the digits of numbers have 4 added to them; -1 is no modifier.

use std::sync::Arc;

use crate::date_time::precision;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric::{self, Numeric};
use crate::oid::{self, Oid};
use crate::text_form::append;
use crate::text_form::bytes::{BitBuilder, bit_at};

/// Added to the modifiers of strings and numbers.
const HEADER: i32 = 4;

/// Whether a conversion was asked for: only then a value is cut without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// A value is stored, or read: one that does not fit is refused.
    Assignment,
    /// `CAST` or `::`.
    Explicit,
}

impl Cast {
    /// The third argument of the functions behind casts.
    pub fn from_flag(is_explicit: bool) -> Cast {
        if is_explicit { Cast::Explicit } else { Cast::Assignment }
    }
}

/// Makes a value of a type fit its modifier. Nulls and types without modifiers stay as they are.
///
/// # Errors
/// `22001`, `22026`, `22003` or `22008` for a value that does not fit.
pub fn apply(of: Oid, modifier: i32, value: Datum, cast: Cast) -> SqlResult<Datum> {
    if modifier < 0 {
        return Ok(value);
    }
    match (of, value) {
        (oid::VARCHAR, Datum::Text(text)) => varchar(text, modifier, cast).map(Datum::Text),
        (oid::BPCHAR, Datum::Text(text)) => character(text, modifier, cast).map(Datum::Text),
        (oid::NUMERIC, Datum::Numeric(value)) if numeric::fits(&value, precision_and_scale(modifier)) => {
            Ok(Datum::Numeric(value))
        }
        (oid::NUMERIC, Datum::Numeric(value)) => {
            number(&value, modifier).map(|value| Datum::Numeric(Arc::new(value)))
        }
        (oid::BIT, Datum::Bits(bits, count)) => fixed_bits(bits, count, modifier, cast),
        (oid::VARBIT, Datum::Bits(bits, count)) => varying_bits(bits, count, modifier, cast),
        (oid::TIME, Datum::Time(micros)) => Ok(Datum::Time(precision::time_to_precision(micros, modifier))),
        (oid::TIMETZ, Datum::TimeTz(micros, zone)) => {
            Ok(Datum::TimeTz(precision::time_to_precision(micros, modifier), zone))
        }
        (oid::TIMESTAMP, Datum::Timestamp(value)) => {
            precision::timestamp_to_precision(value, modifier).map(Datum::Timestamp)
        }
        (oid::TIMESTAMPTZ, Datum::TimestampTz(value)) => {
            precision::timestamp_to_precision(value, modifier).map(Datum::TimestampTz)
        }
        (oid::INTERVAL, Datum::Interval(value)) => {
            precision::interval_to_modifier(value, modifier).map(Datum::Interval)
        }
        (_, value) => Ok(value),
    }
}

/// How many characters of a text are kept, and whether there are fewer than `limit` of them.
fn kept_bytes(text: &str, limit: usize) -> Option<usize> {
    // A text that is short in bytes is short in characters.
    if text.len() <= limit {
        return None;
    }
    text.char_indices().nth(limit).map(|(at, _)| at)
}

fn too_long(type_name: &str, limit: usize) -> Box<SqlError> {
    let message = format!("value too long for type {type_name}({limit})");
    SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message)
}

fn length_of(modifier: i32) -> usize {
    usize::try_from(modifier - HEADER).unwrap_or(0)
}

/// Cuts a text; blanks may always be cut.
fn cut(text: Arc<str>, limit: usize, cast: Cast, type_name: &str) -> SqlResult<Arc<str>> {
    match kept_bytes(&text, limit) {
        None => Ok(text),
        Some(kept) if cast == Cast::Explicit || text[kept..].bytes().all(|byte| byte == b' ') => {
            Ok(Arc::from(&text[..kept]))
        }
        Some(_) => Err(too_long(type_name, limit)),
    }
}

fn varchar(text: Arc<str>, modifier: i32, cast: Cast) -> SqlResult<Arc<str>> {
    cut(text, length_of(modifier), cast, "character varying")
}

fn character(text: Arc<str>, modifier: i32, cast: Cast) -> SqlResult<Arc<str>> {
    let limit = length_of(modifier);
    let text = cut(text, limit, cast, "character")?;
    let count = text.chars().count();
    if count >= limit {
        return Ok(text);
    }
    let mut padded = String::with_capacity(text.len() + limit - count);
    padded.push_str(&text);
    padded.extend(std::iter::repeat_n(' ', limit - count));
    Ok(padded.into())
}

/// The digits in all and after the point that a modifier of `numeric` allows.
pub fn precision_and_scale(modifier: i32) -> (i32, i32) {
    let packed = modifier - HEADER;
    // The scale is a signed number of 11 bits.
    (packed >> 16 & 0xffff, ((packed & 0x7ff) ^ 0x400) - 0x400)
}

fn number(value: &Numeric, modifier: i32) -> SqlResult<Numeric> {
    let (precision, scale) = precision_and_scale(modifier);
    let overflow = |detail: String| {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
    };
    let field = || format!("A field with precision {precision}, scale {scale}");
    match value {
        Numeric::NotANumber => return Ok(Numeric::NotANumber),
        Numeric::PositiveInfinity | Numeric::NegativeInfinity => {
            return Err(overflow(format!("{} cannot hold an infinite value.", field())));
        }
        Numeric::Finite { .. } => {}
    }
    let rounded = value.rounded(scale);
    let whole_digits = precision - scale;
    let Numeric::Finite { digits, scale: shown } = &rounded else {
        return Ok(rounded);
    };
    let count = i64::try_from(numeric::digit_count(digits.magnitude())).unwrap_or(i64::MAX);
    if count - i64::from(*shown) <= i64::from(whole_digits) || count == 0 {
        return Ok(rounded);
    }
    let limit = if whole_digits == 0 { "1".to_owned() } else { format!("10^{whole_digits}") };
    Err(overflow(format!("{} must round to an absolute value less than {limit}.", field())))
}

fn resized(bits: &[u8], length: u32) -> Datum {
    let mut builder = BitBuilder::default();
    (0..length).for_each(|index| builder.push(bit_at(bits, index)));
    builder.finish()
}

fn fixed_bits(bits: Arc<[u8]>, count: u32, modifier: i32, cast: Cast) -> SqlResult<Datum> {
    let length = u32::try_from(modifier).unwrap_or(0);
    if count == length {
        return Ok(Datum::Bits(bits, count));
    }
    if cast == Cast::Explicit {
        return Ok(resized(&bits, length));
    }
    let message = format!("bit string length {count} does not match type bit({length})");
    Err(SqlError::new(SqlState::new(b"22026"), message))
}

fn varying_bits(bits: Arc<[u8]>, count: u32, modifier: i32, cast: Cast) -> SqlResult<Datum> {
    let length = u32::try_from(modifier).unwrap_or(0);
    if count <= length {
        return Ok(Datum::Bits(bits, count));
    }
    if cast == Cast::Explicit {
        return Ok(resized(&bits, length));
    }
    let message = format!("bit string too long for type bit varying({length})");
    Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message))
}

/// Writes a modifier as it stands after the name of its type: `(20)`, `(10,2)`.
pub fn write(of: Oid, modifier: i32, out: &mut String) {
    if modifier < 0 {
        return;
    }
    match of {
        oid::VARCHAR | oid::BPCHAR => append(out, format_args!("({})", length_of(modifier))),
        oid::NUMERIC => {
            let (precision, scale) = precision_and_scale(modifier);
            append(out, format_args!("({precision},{scale})"));
        }
        oid::INTERVAL => {}
        _ => append(out, format_args!("({modifier})")),
    }
}
