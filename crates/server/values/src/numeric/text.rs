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
        if let Some(value) = short(trimmed.as_bytes()) {
            return Ok(value);
        }
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

/// A number of few digits, with a sign and a point at most: what most are.
fn short(text: &[u8]) -> Option<Numeric> {
    const DIGITS_MAX: usize = 18;
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = digits.iter().position(|byte| *byte == b'.');
    let count = digits.len() - usize::from(point.is_some());
    if count == 0 || count > DIGITS_MAX {
        return None;
    }
    let mut value = 0_i64;
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
            _ if Some(at) == point => {}
            _ => return None,
        }
    }
    let scale = u32::try_from(point.map_or(0, |point| digits.len() - point - 1)).ok()?;
    Some(Numeric::Finite { digits: BigInt::from(if is_negative { -value } else { value }), scale })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A short text is the number that any text with these digits is.
        #[test]
        fn short_numbers_are_those_that_long_ones_are(text in "[-+]?[0-9]{0,19}[.]?[0-9]{0,4}") {
            let read = finite(&text, &|| SqlError::internal("no number"));
            if let Some(value) = short(text.as_bytes()) {
                prop_assert_eq!(read.ok().map(|value| value.to_string()), Some(value.to_string()));
            } else {
                prop_assert!(read.is_err() || text.bytes().filter(u8::is_ascii_digit).count() > 18);
            }
        }
    }
}
