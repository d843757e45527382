//! Values as keys: byte order is the order in which PostgreSQL's default btree class of the type sorts them.
//!
//! `codec::sort_key` has the bytes of parts, strings and numbers. What it does not know is here: times with a zone sort by their
//! moment, then by their zone; intervals by their length, with months of 30 days; bit strings by their bits, then by their length;
//! arrays, rows and jsonb by what is in them, as a string inside of the key.

use std::sync::Arc;

use num_bigint::Sign;
use seawall_codec::key::{Key, KeyError};
use seawall_codec::sort_key::{self, Decimal, Nulls, PartOrder, PartReader};
use seawall_values::datum::{Jsonb, Numeric};
use seawall_values::user_types::is_enum;
use seawall_values::{Array, Datum, Interval, Oid, Record, SqlError, SqlResult, SqlState};

use crate::storage::kind::Kind;
use crate::storage::value::damaged;

/// A part of a key: how its values are stored, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The kind of its values.
    pub kind: Kind,
    /// Their order.
    pub order: PartOrder,
}

impl KeyPart {
    /// A part of an index: it may be null.
    pub fn nullable(kind: Kind, is_descending: bool, is_nulls_first: bool) -> KeyPart {
        let nulls = if is_nulls_first { Nulls::First } else { Nulls::Last };
        KeyPart { kind, order: PartOrder { is_descending, nulls } }
    }

    /// A part of a primary key.
    pub fn not_null(kind: Kind, is_descending: bool) -> KeyPart {
        KeyPart { kind, order: PartOrder { is_descending, nulls: Nulls::Never } }
    }

    /// What all keys begin with that have a value here, and not a null, after a prefix.
    pub(crate) fn values_after(self, prefix: &[u8]) -> Vec<u8> {
        let mut bytes = prefix.to_vec();
        sort_key::write_part(PartOrder { is_descending: false, ..self.order }, &mut bytes, |_| ());
        bytes
    }

    /// Appends a value.
    ///
    /// # Errors
    /// `XX000` if the value is not of the kind.
    pub fn write(self, value: &Datum, out: &mut Vec<u8>) -> SqlResult<()> {
        if value.is_null() {
            sort_key::write_null(self.order, out);
            return Ok(());
        }
        let mut result = Ok(());
        sort_key::write_part(self.order, out, |out| result = write_key(self.kind, value, out, 0));
        result
    }

    /// Reads a value; `None`: the key does not give it back.
    ///
    /// # Errors
    /// `XX001`: the bytes are no value of this kind.
    pub fn read(self, reader: &mut PartReader<'_>) -> SqlResult<Option<Datum>> {
        if !self.kind.is_exact_in_keys() {
            self.skip(reader)?;
            return Ok(None);
        }
        if reader.is_null(self.order).map_err(damaged_key)? {
            return Ok(Some(Datum::Null));
        }
        self.read_exact(reader).map(Some)
    }

    fn read_exact(self, reader: &mut PartReader<'_>) -> SqlResult<Datum> {
        let order = self.order;
        let value = match self.kind {
            Kind::Bool => reader.value::<bool, 1>(order).map(Datum::Bool),
            Kind::Char => reader.value::<u8, 1>(order).map(Datum::Char),
            Kind::Int2 => reader.value::<i16, 2>(order).map(Datum::Int2),
            Kind::Int4 => reader.value::<i32, 4>(order).map(Datum::Int4),
            Kind::Int8 => reader.value::<i64, 8>(order).map(Datum::Int8),
            Kind::Oid => reader.value::<u32, 4>(order).map(Datum::Oid),
            Kind::Date => reader.value::<i32, 4>(order).map(Datum::Date),
            Kind::Time => reader.value::<i64, 8>(order).map(Datum::Time),
            Kind::TimeTz => read_timetz(order, reader),
            Kind::Timestamp => reader.value::<i64, 8>(order).map(Datum::Timestamp),
            Kind::TimestampTz => reader.value::<i64, 8>(order).map(Datum::TimestampTz),
            Kind::Uuid => reader.fixed::<16>(order).map(Datum::Uuid),
            Kind::Unsigned8 => reader.value::<u64, 8>(order).map(Datum::Unsigned8),
            Kind::Tid => read_tid(order, reader),
            Kind::Bytea => {
                let mut bytes = Vec::new();
                reader.bytes(order, &mut bytes).map(|()| Datum::Bytea(Arc::from(bytes)))
            }
            Kind::Text => {
                let mut bytes = Vec::new();
                reader.bytes(order, &mut bytes).map_err(damaged_key)?;
                return String::from_utf8(bytes).map(Datum::text).map_err(|_| damaged("a key is not UTF-8"));
            }
            kind => {
                return Err(SqlError::internal(format!("keys do not give back values of the kind {kind:?}")));
            }
        };
        value.map_err(damaged_key)
    }

    /// Passes over a value.
    ///
    /// # Errors
    /// As `read`.
    pub fn skip(self, reader: &mut PartReader<'_>) -> SqlResult<()> {
        if reader.is_null(self.order).map_err(damaged_key)? {
            return Ok(());
        }
        let skipped = match self.kind {
            Kind::Bool | Kind::Char => reader.skip_fixed(1),
            Kind::Int2 => reader.skip_fixed(2),
            Kind::Int4 | Kind::Oid | Kind::Float4 | Kind::Date => reader.skip_fixed(4),
            Kind::Int8 | Kind::Float8 | Kind::Time | Kind::Timestamp | Kind::TimestampTz => {
                reader.skip_fixed(8)
            }
            Kind::Unsigned8 => reader.skip_fixed(8),
            Kind::TimeTz => reader.skip_fixed(12),
            Kind::Interval | Kind::Uuid => reader.skip_fixed(16),
            Kind::Tid => reader.skip_fixed(6),
            Kind::Numeric => reader.skip_decimal(self.order),
            Kind::Bits => reader.skip_bytes(self.order).and_then(|()| reader.skip_fixed(4)),
            Kind::Text | Kind::PaddedText | Kind::Bytea | Kind::Jsonb | Kind::Tagged => {
                reader.skip_bytes(self.order)
            }
        };
        skipped.map_err(damaged_key)
    }
}

/// A value of one type of numbers or texts as one of another, for keys that refer to each other; `None`: there is no such value, or the
/// types do not belong together.
pub(crate) fn converted(kind: Kind, value: &Datum) -> Option<Datum> {
    let integer = match value {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        Datum::Numeric(value) => integer_of(value),
        _ => None,
    };
    match (kind, value) {
        (Kind::Int2, _) => integer.and_then(|value| i16::try_from(value).ok()).map(Datum::Int2),
        (Kind::Int4, _) => integer.and_then(|value| i32::try_from(value).ok()).map(Datum::Int4),
        (Kind::Int8, _) => integer.map(Datum::Int8),
        (Kind::Numeric, Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)) => {
            let digits = num_bigint::BigInt::from(integer?);
            Some(Datum::Numeric(Arc::new(Numeric::Finite { digits, scale: 0 })))
        }
        (Kind::Float8, Datum::Float4(value)) => Some(Datum::Float8(f64::from(*value))),
        (Kind::Float8, _) if integer.is_some() => decimal_text(value)?.parse().ok().map(Datum::Float8),
        (Kind::Float4, _) if integer.is_some() => decimal_text(value)?.parse().ok().map(Datum::Float4),
        (_, value) => Some(value.clone()),
    }
}

/// Whether values of one type can refer to those of another.
pub(crate) fn can_refer(from: Oid, to: Oid) -> bool {
    if is_enum(from) || is_enum(to) {
        return from == to;
    }
    let (from, to) = (Kind::of(from), Kind::of(to));
    let group = |kind: Kind| match kind {
        Kind::Int2 | Kind::Int4 | Kind::Int8 => 1,
        Kind::Text | Kind::PaddedText => 2,
        _ => 0,
    };
    let is_integer = group(from) == 1;
    let holds_integers = matches!(to, Kind::Numeric | Kind::Float4 | Kind::Float8);
    from == to
        || (group(from) != 0 && group(from) == group(to))
        || (is_integer && holds_integers)
        || (from == Kind::Float4 && to == Kind::Float8)
}

/// An integer in digits: a float of them is the nearest one.
fn decimal_text(value: &Datum) -> Option<String> {
    match value {
        Datum::Int2(value) => Some(value.to_string()),
        Datum::Int4(value) => Some(value.to_string()),
        Datum::Int8(value) => Some(value.to_string()),
        _ => None,
    }
}

fn integer_of(value: &Numeric) -> Option<i64> {
    let Numeric::Finite { digits, scale } = value else { return None };
    let unit = num_bigint::BigInt::from(10).pow(*scale);
    let whole = digits / &unit;
    if &whole * unit == *digits { i64::try_from(whole).ok() } else { None }
}

fn read_timetz(order: PartOrder, reader: &mut PartReader<'_>) -> Result<Datum, KeyError> {
    let (moment, zone) = (reader.value::<i64, 8>(order)?, reader.value::<i32, 4>(order)?);
    Ok(Datum::TimeTz(moment.wrapping_sub(i64::from(zone) * 1_000_000), zone))
}

fn read_tid(order: PartOrder, reader: &mut PartReader<'_>) -> Result<Datum, KeyError> {
    Ok(Datum::Tid(reader.value::<u32, 4>(order)?, reader.value::<u16, 2>(order)?))
}

#[cold]
fn damaged_key(error: KeyError) -> Box<SqlError> {
    damaged(&error.to_string())
}

/// Deepest nesting of what is in a key.
const DEPTH_MAX: usize = 200;

/// Appends a value that is not null, so that it ends itself.
fn write_key(kind: Kind, value: &Datum, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint(format!("A value that is a key may be nested {DEPTH_MAX} levels deep.")));
    }
    match value {
        Datum::Bool(value) => value.encode(out),
        Datum::Char(value) => value.encode(out),
        Datum::Int2(value) => value.encode(out),
        Datum::Int4(value) | Datum::Date(value) => value.encode(out),
        Datum::Int8(value) | Datum::Time(value) => value.encode(out),
        Datum::Timestamp(value) | Datum::TimestampTz(value) => value.encode(out),
        Datum::Oid(value) => value.encode(out),
        Datum::Float4(value) => sort_key::write_f32(*value, out),
        Datum::Float8(value) => sort_key::write_f64(*value, out),
        Datum::Numeric(value) => write_numeric(value, out),
        Datum::Text(text) if kind == Kind::PaddedText => {
            sort_key::write_bytes(text.trim_end_matches(' ').as_bytes(), out);
        }
        Datum::Text(text) => sort_key::write_bytes(text.as_bytes(), out),
        Datum::Bytea(bytes) => sort_key::write_bytes(bytes, out),
        Datum::TimeTz(time, zone) => {
            time.wrapping_add(i64::from(*zone) * 1_000_000).encode(out);
            zone.encode(out);
        }
        Datum::Interval(interval) => span(*interval).encode(out),
        Datum::Uuid(bytes) => bytes.encode(out),
        Datum::Bits(bytes, bits) => {
            sort_key::write_bytes(bytes, out);
            bits.encode(out);
        }
        Datum::Unsigned8(value) => value.encode(out),
        Datum::Tid(block, line) => {
            block.encode(out);
            line.encode(out);
        }
        Datum::Jsonb(value) => write_nested(out, |out| write_jsonb(value, out, depth))?,
        Datum::Array(value) => write_nested(out, |out| write_array(value, out, depth))?,
        Datum::Record(value) => write_nested(out, |out| write_record(value, out, depth))?,
        Datum::Null | Datum::Internal(_) => {
            return Err(SqlError::internal(format!("a value of the kind {kind:?} is not one for a key")));
        }
    }
    Ok(())
}

/// Appends what `write` appends as a string: what follows is outside of its order.
fn write_nested(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> SqlResult<()>) -> SqlResult<()> {
    let mut nested = Vec::new();
    write(&mut nested)?;
    sort_key::write_bytes(&nested, out);
    Ok(())
}

fn write_numeric(value: &Numeric, out: &mut Vec<u8>) {
    match value {
        Numeric::Finite { digits, scale } => {
            let (is_negative, text) = (digits.sign() == Sign::Minus, digits.magnitude().to_string());
            sort_key::write_decimal(Decimal::Finite { is_negative, digits: &text, scale: *scale }, out);
        }
        Numeric::PositiveInfinity => sort_key::write_decimal(Decimal::Infinity, out),
        Numeric::NegativeInfinity => sort_key::write_decimal(Decimal::MinusInfinity, out),
        Numeric::NotANumber => sort_key::write_decimal(Decimal::NotANumber, out),
    }
}

/// The length of an interval in microseconds, with months of 30 days and days of 24 hours.
fn span(interval: Interval) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400_000_000 + i128::from(interval.micros)
}

const END: u8 = 0;
const ELEMENT: u8 = 1;
const NULL_ELEMENT: u8 = 2;

/// Elements first; of equal ones the shorter array is first; then dimensions decide.
fn write_array(array: &Array, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    let kind = Kind::of(array.element);
    array.values.iter().try_for_each(|value| write_element(kind, value, out, depth))?;
    out.push(END);
    u32::try_from(array.dimensions.len()).unwrap_or(u32::MAX).encode(out);
    array.dimensions.iter().for_each(|dimension| dimension.length.encode(out));
    array.dimensions.iter().for_each(|dimension| dimension.lower.encode(out));
    Ok(())
}

fn write_record(record: &Record, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    for (of, value) in record.types.iter().zip(&record.values) {
        write_element(Kind::of(*of), value, out, depth)?;
    }
    out.push(END);
    Ok(())
}

fn write_element(kind: Kind, value: &Datum, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    if value.is_null() {
        out.push(NULL_ELEMENT);
        return Ok(());
    }
    out.push(ELEMENT);
    write_key(kind, value, out, depth + 1)
}

/// PostgreSQL's order of jsonb: an empty array is before scalars, which are before other arrays and objects.
fn write_jsonb(value: &Jsonb, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    out.push(match value {
        Jsonb::Array(values) if values.is_empty() => 0,
        Jsonb::Array(_) => 2,
        Jsonb::Object(_) => 3,
        Jsonb::Null | Jsonb::Bool(_) | Jsonb::Number(_) | Jsonb::String(_) => 1,
    });
    write_jsonb_value(value, out, depth)
}

/// Null, strings, numbers, booleans, arrays, objects; of arrays and of objects those with fewer members are first.
fn write_jsonb_value(value: &Jsonb, out: &mut Vec<u8>, depth: usize) -> SqlResult<()> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint(format!("A value that is a key may be nested {DEPTH_MAX} levels deep.")));
    }
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    match value {
        Jsonb::Null => out.push(0),
        Jsonb::String(text) => {
            out.push(1);
            sort_key::write_bytes(text.as_bytes(), out);
        }
        Jsonb::Number(number) => {
            out.push(2);
            write_numeric(number, out);
        }
        Jsonb::Bool(value) => out.extend_from_slice(&[3, u8::from(*value)]),
        Jsonb::Array(values) => {
            out.push(4);
            count(values.len()).encode(out);
            values.iter().try_for_each(|value| write_jsonb_value(value, out, depth + 1))?;
        }
        Jsonb::Object(fields) => {
            out.push(5);
            count(fields.len()).encode(out);
            for (key, value) in fields {
                sort_key::write_bytes(key.as_bytes(), out);
                write_jsonb_value(value, out, depth + 1)?;
            }
        }
    }
    Ok(())
}
