//! The text form of `numeric`.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::{INTEGER_DIGITS_MAX, Numeric, SCALE_MAX, overflow, ten_to};
use crate::error::{SqlError, SqlResult, SqlState};

impl FromStr for Numeric {
    type Err = Box<SqlError>;

    fn from_str(text: &str) -> SqlResult<Numeric> {
        let trimmed =
            text.trim_matches(|character: char| character.is_ascii_whitespace() || character == '\x0b');
        let invalid = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        match special(trimmed) {
            Some(value) => Ok(value),
            None => finite(trimmed, &invalid),
        }
    }
}

fn special(text: &str) -> Option<Numeric> {
    if text.eq_ignore_ascii_case("nan") {
        return Some(Numeric::NotANumber);
    }
    let (is_negative, word) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let is_infinity = word.eq_ignore_ascii_case("infinity") || word.eq_ignore_ascii_case("inf");
    is_infinity.then_some(if is_negative { Numeric::NegativeInfinity } else { Numeric::PositiveInfinity })
}

fn finite(text: &str, invalid: &dyn Fn() -> Box<SqlError>) -> SqlResult<Numeric> {
    let bytes = text.as_bytes();
    let is_negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mut digits = Vec::with_capacity(bytes.len());
    let mut after_point = None;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' => digits.push(*byte),
            b'.' if after_point.is_none() => after_point = Some(digits.len()),
            _ => break,
        }
        at += 1;
    }
    if digits.is_empty() {
        return Err(invalid());
    }
    let exponent = match bytes.get(at) {
        None => 0,
        Some(b'e' | b'E') => exponent(&text[at + 1..]).ok_or_else(invalid)?,
        Some(_) => return Err(invalid()),
    };
    // PostgreSQL refuses exponents beyond half of an integer also for zero.
    if exponent.unsigned_abs() >= u64::from(u32::MAX / 4) {
        return Err(overflow());
    }
    let decimals = i64::try_from(digits.len() - after_point.unwrap_or(digits.len())).unwrap_or(i64::MAX);
    let value = shifted(&digits, decimals - exponent)?;
    Ok(if is_negative { value.negated() } else { value })
}

/// An exponent, saturated; `None`: it is not one.
fn exponent(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = unsigned.parse().unwrap_or(i64::MAX);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The number with these decimal digits, `scale` of them after the point.
fn shifted(digits: &[u8], scale: i64) -> SqlResult<Numeric> {
    if scale > i64::from(SCALE_MAX) {
        return Err(overflow());
    }
    let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    let significant = i64::try_from(digits.len() - first).unwrap_or(i64::MAX);
    let limit = i64::try_from(INTEGER_DIGITS_MAX).unwrap_or(i64::MAX);
    if significant > 0 && significant - scale > limit {
        return Err(overflow());
    }
    let value = match std::str::from_utf8(&digits[first..]).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(small) => BigInt::from(small),
        None => BigInt::parse_bytes(&digits[first..], 10).unwrap_or_default(),
    };
    match u32::try_from(scale) {
        Ok(scale) => Ok(Numeric::Finite { digits: value, scale }),
        Err(_) if value.is_zero() => Ok(Numeric::zero()),
        Err(_) => {
            Ok(Numeric::Finite { digits: value * ten_to(u32::try_from(-scale).unwrap_or(0)), scale: 0 })
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digits, scale) = match self {
            Numeric::Finite { digits, scale } => (digits, usize::try_from(*scale).unwrap_or(0)),
            Numeric::PositiveInfinity => return formatter.write_str("Infinity"),
            Numeric::NegativeInfinity => return formatter.write_str("-Infinity"),
            Numeric::NotANumber => return formatter.write_str("NaN"),
        };
        let text = digits.magnitude().to_str_radix(10);
        if digits.is_negative() {
            formatter.write_str("-")?;
        }
        if scale == 0 {
            return formatter.write_str(&text);
        }
        match text.len().checked_sub(scale) {
            Some(whole) if whole > 0 => write!(formatter, "{}.{}", &text[..whole], &text[whole..]),
            _ => write!(formatter, "0.{text:0>scale$}"),
        }
    }
}
