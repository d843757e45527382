//! Sizes in bytes as texts with units, and back.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::arguments::{mismatch, out_of_range, row};
use super::{Call, Table};
use crate::datum::{Datum, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric;

pub(super) const TABLE: Table = &[
    row!("pg_size_pretty", [Int8 size], Ok(Datum::text(pretty(*size)))),
    row!("pg_size_pretty_numeric", [Numeric size], pretty_number(size).map(Datum::text)),
    row!("pg_size_bytes", [Text text], bytes(text)),
    ("pg_column_size", stored_size),
];

struct Unit {
    name: &'static str,
    /// A size below it is shown in this unit.
    limit: i64,
    /// Whether twice the size is at hand, of which the half is rounded.
    is_rounded: bool,
    bits: u32,
}

const LIMIT: i64 = 20 * 1024 - 1;

const UNITS: [Unit; 6] = [
    Unit { name: "bytes", limit: 10 * 1024, is_rounded: false, bits: 0 },
    Unit { name: "kB", limit: LIMIT, is_rounded: true, bits: 10 },
    Unit { name: "MB", limit: LIMIT, is_rounded: true, bits: 20 },
    Unit { name: "GB", limit: LIMIT, is_rounded: true, bits: 30 },
    Unit { name: "TB", limit: LIMIT, is_rounded: true, bits: 40 },
    Unit { name: "PB", limit: LIMIT, is_rounded: true, bits: 50 },
];

/// How many bits a size is shifted by from a unit to the next one: one bit is kept to round by.
fn shift(unit: &Unit, next: &Unit) -> u32 {
    next.bits - unit.bits - u32::from(next.is_rounded) + u32::from(unit.is_rounded)
}

fn pretty(size: i64) -> String {
    let mut size = size;
    for (unit, next) in UNITS.iter().zip(&UNITS[1..]) {
        if size.unsigned_abs() < unit.limit.unsigned_abs() {
            return shown(size, unit);
        }
        size /= 1 << shift(unit, next);
    }
    shown(size, &UNITS[UNITS.len() - 1])
}

fn shown(size: i64, unit: &Unit) -> String {
    let step = if size < 0 { -1 } else { 1 };
    let size = if unit.is_rounded { (size + step) / 2 } else { size };
    format!("{size} {}", unit.name)
}

fn whole(number: i64) -> Numeric {
    Numeric::Finite { digits: BigInt::from(number), scale: 0 }
}

fn pretty_number(size: &Numeric) -> SqlResult<String> {
    let mut size = size.clone();
    let last = UNITS.len() - 1;
    for (unit, next) in UNITS.iter().zip(&UNITS[1..]) {
        let limit = whole(unit.limit);
        let is_below =
            size.compare(&limit) == Ordering::Less && size.compare(&whole(-unit.limit)) == Ordering::Greater;
        if is_below {
            return shown_number(&size, unit);
        }
        size = numeric::div_whole(&size, &whole(1 << shift(unit, next)))?;
    }
    shown_number(&size, &UNITS[last])
}

fn shown_number(size: &Numeric, unit: &Unit) -> SqlResult<String> {
    if !unit.is_rounded {
        return Ok(format!("{size} {}", unit.name));
    }
    let step = if size.compare(&whole(0)) == Ordering::Less { -1 } else { 1 };
    let half = numeric::div_whole(&numeric::add(size, &whole(step))?, &whole(2))?;
    Ok(format!("{half} {}", unit.name))
}

#[cold]
fn invalid_size(text: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{text}\""))
}

/// The length of a number at the start of a text: sign, digits with a point, exponent.
fn number_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(text.starts_with(['+', '-']));
    let before = digits(at);
    at += before;
    let mut after = 0;
    if bytes.get(at) == Some(&b'.') {
        after = digits(at + 1);
        at += 1 + after;
    }
    if before + after == 0 {
        return None;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    Some(at)
}

fn bytes(text: &str) -> SqlResult<Datum> {
    let trimmed = text.trim_start_matches(is_space);
    let (number, rest) = trimmed.split_at(number_length(trimmed).ok_or_else(|| invalid_size(text))?);
    let number: Numeric = number.parse()?;
    let name = rest.trim_matches(is_space);
    let bits = match UNITS.iter().find(|unit| unit.name.eq_ignore_ascii_case(name)) {
        _ if name.is_empty() => 0,
        Some(unit) => unit.bits,
        None => {
            return Err(invalid_size(text)
                .with_detail(format!("Invalid size unit: \"{name}\"."))
                .with_hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let size = if bits == 0 { number } else { numeric::mul(&number, &whole(1 << bits))? };
    numeric::to_integer::<i64>(&size, "bigint").map(Datum::Int8)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// The bytes that a value takes: those of types with a length, else of its contents and a length, which has four bytes.
fn stored_size(call: &Call<'_>) -> SqlResult<Datum> {
    let [value] = call.arguments else { return Err(mismatch(call)) };
    let of = call.argument_types.first().ok_or_else(|| mismatch(call))?.oid;
    let length = crate::system::system().type_by_oid(of).map_or(-1, |row| row.length);
    if length > 0 {
        return Ok(Datum::Int4(i32::from(length)));
    }
    let contents = match value {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        other => other.memory_bytes().saturating_sub(size_of::<Datum>()),
    };
    i32::try_from(contents + 4).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}
