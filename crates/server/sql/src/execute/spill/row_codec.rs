//! Rows as bytes in a temporary file: they live as long as their statement, so the layout is nobody else's business.

use std::sync::Arc;

use seawall_values::datum::{Array, Dimension, Interval, Jsonb, Numeric, Record};
use seawall_values::{Datum, SqlError, SqlResult};

/// Appends a row.
pub(crate) fn encode(row: &[Datum], to: &mut Vec<u8>) -> SqlResult<()> {
    put_length(row.len(), to);
    row.iter().try_for_each(|value| put(value, to))
}

/// Reads a row from the front of `bytes`.
pub(crate) fn decode(bytes: &[u8], row: &mut Vec<Datum>) -> SqlResult<()> {
    let mut reader = Reader { bytes };
    let count = reader.length()?;
    for _ in 0..count {
        row.push(reader.datum()?);
    }
    Ok(())
}

fn put_length(length: usize, to: &mut Vec<u8>) {
    to.extend_from_slice(&(length as u64).to_le_bytes());
}

fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    put_length(bytes.len(), to);
    to.extend_from_slice(bytes);
}

fn put(value: &Datum, to: &mut Vec<u8>) -> SqlResult<()> {
    match value {
        Datum::Null => to.push(0),
        Datum::Bool(value) => to.extend([1, u8::from(*value)]),
        Datum::Char(value) => to.extend([2, *value]),
        Datum::Int2(value) => tagged(3, &value.to_le_bytes(), to),
        Datum::Int4(value) => tagged(4, &value.to_le_bytes(), to),
        Datum::Int8(value) => tagged(5, &value.to_le_bytes(), to),
        Datum::Oid(value) => tagged(6, &value.to_le_bytes(), to),
        Datum::Float4(value) => tagged(7, &value.to_le_bytes(), to),
        Datum::Float8(value) => tagged(8, &value.to_le_bytes(), to),
        Datum::Numeric(value) => {
            to.push(9);
            put_numeric(value, to);
        }
        Datum::Text(value) => {
            to.push(10);
            put_bytes(value.as_bytes(), to);
        }
        Datum::Bytea(value) => {
            to.push(11);
            put_bytes(value, to);
        }
        Datum::Date(value) => tagged(12, &value.to_le_bytes(), to),
        Datum::Time(value) => tagged(13, &value.to_le_bytes(), to),
        Datum::TimeTz(time, zone) => {
            tagged(14, &time.to_le_bytes(), to);
            to.extend_from_slice(&zone.to_le_bytes());
        }
        Datum::Timestamp(value) => tagged(15, &value.to_le_bytes(), to),
        Datum::TimestampTz(value) => tagged(16, &value.to_le_bytes(), to),
        Datum::Interval(value) => {
            tagged(17, &value.months.to_le_bytes(), to);
            to.extend_from_slice(&value.days.to_le_bytes());
            to.extend_from_slice(&value.micros.to_le_bytes());
        }
        Datum::Uuid(value) => tagged(18, value, to),
        Datum::Jsonb(value) => {
            to.push(19);
            put_json(value, to);
        }
        Datum::Array(array) => {
            to.push(20);
            put_array(array, to)?;
        }
        Datum::Record(record) => {
            to.push(21);
            put_length(record.types.len(), to);
            record.types.iter().for_each(|of| to.extend_from_slice(&of.to_le_bytes()));
            let names = record.names.as_deref().unwrap_or_default();
            put_length(names.len(), to);
            names.iter().for_each(|name| put_bytes(name.as_bytes(), to));
            encode(&record.values, to)?;
        }
        Datum::Bits(bits, count) => {
            tagged(22, &count.to_le_bytes(), to);
            put_bytes(bits, to);
        }
        Datum::Unsigned8(value) => tagged(23, &value.to_le_bytes(), to),
        Datum::Tid(block, line) => {
            tagged(24, &block.to_le_bytes(), to);
            to.extend_from_slice(&line.to_le_bytes());
        }
        Datum::Internal(_) => return Err(SqlError::internal("an internal value cannot be spilled")),
    }
    Ok(())
}

fn tagged(tag: u8, bytes: &[u8], to: &mut Vec<u8>) {
    to.push(tag);
    to.extend_from_slice(bytes);
}

fn put_numeric(value: &Numeric, to: &mut Vec<u8>) {
    match value {
        Numeric::Finite { digits, scale } => {
            tagged(0, &scale.to_le_bytes(), to);
            put_bytes(&digits.to_signed_bytes_le(), to);
        }
        Numeric::PositiveInfinity => to.push(1),
        Numeric::NegativeInfinity => to.push(2),
        Numeric::NotANumber => to.push(3),
    }
}

fn put_array(array: &Array, to: &mut Vec<u8>) -> SqlResult<()> {
    to.extend_from_slice(&array.element.to_le_bytes());
    put_length(array.dimensions.len(), to);
    for dimension in &array.dimensions {
        to.extend_from_slice(&dimension.length.to_le_bytes());
        to.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    encode(&array.values, to)
}

fn put_json(value: &Jsonb, to: &mut Vec<u8>) {
    match value {
        Jsonb::Null => to.push(0),
        Jsonb::Bool(value) => to.extend([1, u8::from(*value)]),
        Jsonb::Number(value) => {
            to.push(2);
            put_numeric(value, to);
        }
        Jsonb::String(value) => {
            to.push(3);
            put_bytes(value.as_bytes(), to);
        }
        Jsonb::Array(items) => {
            to.push(4);
            put_length(items.len(), to);
            items.iter().for_each(|item| put_json(item, to));
        }
        Jsonb::Object(members) => {
            to.push(5);
            put_length(members.len(), to);
            for (key, value) in members {
                put_bytes(key.as_bytes(), to);
                put_json(value, to);
            }
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

#[cold]
fn damaged() -> Box<SqlError> {
    SqlError::new(seawall_values::SqlState::DATA_CORRUPTED, "a row of a temporary file cannot be read")
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> SqlResult<&'a [u8]> {
        let (front, rest) = self.bytes.split_at_checked(count).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(front)
    }

    fn fixed<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (front, rest) = self.bytes.split_first_chunk().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(*front)
    }

    fn byte(&mut self) -> SqlResult<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    fn length(&mut self) -> SqlResult<usize> {
        usize::try_from(u64::from_le_bytes(self.fixed()?)).map_err(|_| damaged())
    }

    fn bytes(&mut self) -> SqlResult<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> SqlResult<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged())
    }

    fn datum(&mut self) -> SqlResult<Datum> {
        Ok(match self.byte()? {
            0 => Datum::Null,
            1 => Datum::Bool(self.byte()? != 0),
            2 => Datum::Char(self.byte()?),
            3 => Datum::Int2(i16::from_le_bytes(self.fixed()?)),
            4 => Datum::Int4(i32::from_le_bytes(self.fixed()?)),
            5 => Datum::Int8(i64::from_le_bytes(self.fixed()?)),
            6 => Datum::Oid(u32::from_le_bytes(self.fixed()?)),
            7 => Datum::Float4(f32::from_le_bytes(self.fixed()?)),
            8 => Datum::Float8(f64::from_le_bytes(self.fixed()?)),
            9 => Datum::Numeric(Arc::new(self.numeric()?)),
            10 => Datum::Text(Arc::from(self.text()?)),
            11 => Datum::Bytea(Arc::from(self.bytes()?)),
            12 => Datum::Date(i32::from_le_bytes(self.fixed()?)),
            13 => Datum::Time(i64::from_le_bytes(self.fixed()?)),
            14 => Datum::TimeTz(i64::from_le_bytes(self.fixed()?), i32::from_le_bytes(self.fixed()?)),
            15 => Datum::Timestamp(i64::from_le_bytes(self.fixed()?)),
            16 => Datum::TimestampTz(i64::from_le_bytes(self.fixed()?)),
            17 => Datum::Interval(Interval {
                months: i32::from_le_bytes(self.fixed()?),
                days: i32::from_le_bytes(self.fixed()?),
                micros: i64::from_le_bytes(self.fixed()?),
            }),
            18 => Datum::Uuid(self.fixed()?),
            19 => Datum::Jsonb(Arc::new(self.json()?)),
            20 => Datum::Array(Arc::new(self.array()?)),
            21 => Datum::Record(Arc::new(self.record()?)),
            22 => {
                let count = u32::from_le_bytes(self.fixed()?);
                Datum::Bits(Arc::from(self.bytes()?), count)
            }
            23 => Datum::Unsigned8(u64::from_le_bytes(self.fixed()?)),
            24 => Datum::Tid(u32::from_le_bytes(self.fixed()?), u16::from_le_bytes(self.fixed()?)),
            _ => return Err(damaged()),
        })
    }

    fn numeric(&mut self) -> SqlResult<Numeric> {
        Ok(match self.byte()? {
            0 => {
                let scale = u32::from_le_bytes(self.fixed()?);
                Numeric::Finite { digits: num_bigint::BigInt::from_signed_bytes_le(self.bytes()?), scale }
            }
            1 => Numeric::PositiveInfinity,
            2 => Numeric::NegativeInfinity,
            3 => Numeric::NotANumber,
            _ => return Err(damaged()),
        })
    }

    fn values(&mut self) -> SqlResult<Vec<Datum>> {
        let count = self.length()?;
        (0..count).map(|_| self.datum()).collect()
    }

    fn array(&mut self) -> SqlResult<Array> {
        let element = u32::from_le_bytes(self.fixed()?);
        let count = self.length()?;
        let dimensions = (0..count).map(|_| {
            let length = i32::from_le_bytes(self.fixed()?);
            Ok(Dimension { length, lower: i32::from_le_bytes(self.fixed()?) })
        });
        let dimensions = dimensions.collect::<SqlResult<Vec<_>>>()?;
        Ok(Array { element, dimensions, values: self.values()? })
    }

    fn record(&mut self) -> SqlResult<Record> {
        let count = self.length()?;
        let types = (0..count).map(|_| Ok(u32::from_le_bytes(self.fixed()?)));
        let types = types.collect::<SqlResult<Vec<_>>>()?;
        let names =
            (0..self.length()?).map(|_| self.text().map(Arc::from)).collect::<SqlResult<Arc<[_]>>>()?;
        let names = (!names.is_empty()).then_some(names);
        Ok(Record { types, names, values: self.values()? })
    }

    fn json(&mut self) -> SqlResult<Jsonb> {
        Ok(match self.byte()? {
            0 => Jsonb::Null,
            1 => Jsonb::Bool(self.byte()? != 0),
            2 => Jsonb::Number(self.numeric()?),
            3 => Jsonb::String(Arc::from(self.text()?)),
            4 => {
                let count = self.length()?;
                Jsonb::Array((0..count).map(|_| self.json()).collect::<SqlResult<_>>()?)
            }
            5 => {
                let count = self.length()?;
                let members = (0..count).map(|_| Ok((Arc::from(self.text()?), self.json()?)));
                Jsonb::Object(members.collect::<SqlResult<_>>()?)
            }
            _ => return Err(damaged()),
        })
    }
}
