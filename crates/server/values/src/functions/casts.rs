//! Casts between the types of numbers, texts, bits and booleans, and those to a type with a modifier.

use std::sync::Arc;

use num_traits::ToPrimitive;

use super::Table;
use super::arguments::{out_of_range, row};
use super::floats::{overflow, underflow};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::modifier::{self, Cast};
use crate::numeric::{self, Numeric};
use crate::oid;
use crate::order::without_blanks;
use crate::text_form::bytes;
use crate::text_form::shortened_name;

/// The tables of this file, by the type of the result.
pub(super) const TABLES: &[Table] = &[
    &[
        row!("i2toi4", [Int2 value], Ok(Datum::Int4(i32::from(*value)))),
        row!("int28", [Int2 value], Ok(Datum::Int8(i64::from(*value)))),
        row!("int48", [Int4 value], Ok(Datum::Int8(i64::from(*value)))),
        row!("i4toi2", [Int4 value], small(i64::from(*value))),
        row!("int82", [Int8 value], small(*value)),
        row!("int84", [Int8 value], integer(*value)),
        row!("i8tooid", [Int8 value], u32::try_from(*value).map(Datum::Oid).map_err(|_| out_of_range("OID"))),
        row!("oidtoi8", [Oid value], Ok(Datum::Int8(i64::from(*value)))),
        row!("xid8toxid", [Unsigned8 value], {
            Ok(Datum::Oid(u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)))
        }),
    ],
    &[
        row!("i2tof", [Int2 value], Ok(Datum::Float4(f32::from(*value)))),
        row!("i4tof", [Int4 value], Ok(Datum::Float4(value.to_f32().unwrap_or(0.0)))),
        row!("i8tof", [Int8 value], Ok(Datum::Float4(value.to_f32().unwrap_or(0.0)))),
        row!("i2tod", [Int2 value], Ok(Datum::Float8(f64::from(*value)))),
        row!("i4tod", [Int4 value], Ok(Datum::Float8(f64::from(*value)))),
        row!("i8tod", [Int8 value], Ok(Datum::Float8(value.to_f64().unwrap_or(0.0)))),
        row!("ftod", [Float4 value], Ok(Datum::Float8(f64::from(*value)))),
        row!("dtof", [Float8 value], narrowed(*value)),
        row!("ftoi2", [Float4 value], whole(f64::from(*value), "smallint").and_then(small)),
        row!("ftoi4", [Float4 value], whole(f64::from(*value), "integer").and_then(integer)),
        row!("ftoi8", [Float4 value], whole(f64::from(*value), "bigint").map(Datum::Int8)),
        row!("dtoi2", [Float8 value], whole(*value, "smallint").and_then(small)),
        row!("dtoi4", [Float8 value], whole(*value, "integer").and_then(integer)),
        row!("dtoi8", [Float8 value], whole(*value, "bigint").map(Datum::Int8)),
    ],
    &[
        row!("int2_numeric", [Int2 value], Ok(number(Numeric::from(*value)))),
        row!("int4_numeric", [Int4 value], Ok(number(Numeric::from(*value)))),
        row!("int8_numeric", [Int8 value], Ok(number(Numeric::from(*value)))),
        row!("float4_numeric", [Float4 value], numeric::from_f32(*value).map(number)),
        row!("float8_numeric", [Float8 value], numeric::from_f64(*value).map(number)),
        row!("numeric_int2", [Numeric value], numeric::to_integer(value, "smallint").map(Datum::Int2)),
        row!("numeric_int4", [Numeric value], numeric::to_integer(value, "integer").map(Datum::Int4)),
        row!("numeric_int8", [Numeric value], numeric::to_integer(value, "bigint").map(Datum::Int8)),
        row!("numeric_float4", [Numeric value], numeric::to_f32(value).map(Datum::Float4)),
        row!("numeric_float8", [Numeric value], numeric::to_f64(value).map(Datum::Float8)),
        row!("numeric", [Numeric value, Int4 modifier], {
            modifier::apply(oid::NUMERIC, *modifier, Datum::Numeric(Arc::clone(value)), Cast::Assignment)
        }),
    ],
    &[
        row!("int4_bool", [Int4 value], Ok(Datum::Bool(*value != 0))),
        row!("bool_int4", [Bool value], Ok(Datum::Int4(i32::from(*value)))),
        row!("booltext", [Bool value], Ok(Datum::text(if *value { "true" } else { "false" }))),
        row!("i4tochar", [Int4 value], {
            i8::try_from(*value).map(|value| Datum::Char(value.cast_unsigned())).map_err(|_| out_of_range("\"char\""))
        }),
        row!("chartoi4", [Char value], Ok(Datum::Int4(i32::from(value.cast_signed())))),
        row!("char_text", [Char value], Ok(character(*value))),
        row!("char_bpchar", [Char value], Ok(character(*value))),
        row!("text_char", [Text text], Ok(Datum::Char(bytes::character(text)))),
        row!("name_text", [Text name], Ok(Datum::Text(Arc::clone(name)))),
        row!("name_bpchar", [Text name], Ok(Datum::Text(Arc::clone(name)))),
        row!("text_name", [Text text], Ok(name(text))),
        row!("bpchar_name", [Text text], Ok(name(without_blanks(shortened_name(text))))),
        row!("varchar", [Text text, Int4 modifier, Bool is_explicit], {
            modifier::apply(oid::VARCHAR, *modifier, Datum::Text(Arc::clone(text)), Cast::from_flag(*is_explicit))
        }),
        row!("bpchar", [Text text, Int4 modifier, Bool is_explicit], {
            modifier::apply(oid::BPCHAR, *modifier, Datum::Text(Arc::clone(text)), Cast::from_flag(*is_explicit))
        }),
    ],
    &[
        row!("bit", [Bits bits count, Int4 modifier, Bool is_explicit], {
            let value = Datum::Bits(Arc::clone(bits), *count);
            modifier::apply(oid::BIT, *modifier, value, Cast::from_flag(*is_explicit))
        }),
        row!("varbit", [Bits bits count, Int4 modifier, Bool is_explicit], {
            let value = Datum::Bits(Arc::clone(bits), *count);
            modifier::apply(oid::VARBIT, *modifier, value, Cast::from_flag(*is_explicit))
        }),
        row!("bitfromint4", [Int4 value, Int4 length], Ok(bits_of(i64::from(*value), *length))),
        row!("bitfromint8", [Int8 value, Int4 length], Ok(bits_of(*value, *length))),
        row!("bittoint4", [Bits bits count], {
            if *count > i32::BITS {
                return Err(out_of_range("integer"));
            }
            u32::try_from(from_bits(bits, *count)).map(|value| Datum::Int4(value.cast_signed())).map_err(|_| out_of_range("integer"))
        }),
        row!("bittoint8", [Bits bits count], {
            if *count > i64::BITS {
                return Err(out_of_range("bigint"));
            }
            Ok(Datum::Int8(from_bits(bits, *count).cast_signed()))
        }),
    ],
];

fn number(value: Numeric) -> Datum {
    Datum::Numeric(Arc::new(value))
}

fn small(value: i64) -> SqlResult<Datum> {
    i16::try_from(value).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}

fn integer(value: i64) -> SqlResult<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

/// The nearest whole number; one that is halfway goes to the even one.
fn whole(value: f64, type_name: &str) -> SqlResult<i64> {
    value.round_ties_even().to_i64().ok_or_else(|| out_of_range(type_name))
}

fn narrowed(value: f64) -> SqlResult<Datum> {
    let result = value.to_f32().unwrap_or(f32::NAN);
    if result.is_infinite() && !value.is_infinite() {
        return Err(overflow());
    }
    if result == 0.0 && value != 0.0 {
        return Err(underflow());
    }
    Ok(Datum::Float4(result))
}

fn character(byte: u8) -> Datum {
    let mut text = String::new();
    bytes::write_character(byte, &mut text);
    Datum::text(text)
}

fn name(text: &str) -> Datum {
    Datum::text(shortened_name(text))
}

/// The last bits of an integer, with its sign before them; one bit if no length is given.
fn bits_of(value: i64, length: i32) -> Datum {
    let length = u32::try_from(length).unwrap_or(0).max(1);
    let mut builder = bytes::BitBuilder::default();
    for place in (0..length).rev() {
        builder.push(value >> place.min(i64::BITS - 1) & 1 == 1);
    }
    builder.finish()
}

fn from_bits(bits: &[u8], count: u32) -> u64 {
    (0..count).fold(0, |value, index| value << 1 | u64::from(bytes::bit_at(bits, index)))
}
