//! Text forms of `real` and `double precision`.

use std::fmt::{Display, LowerExp};
use std::str::FromStr;

use super::{append, invalid, is_space};
use crate::error::{SqlError, SqlResult, SqlState};

mod shortest;

/// The two widths.
pub(crate) trait Float: Copy + Into<f64> + FromStr + LowerExp + Display {
    /// The name of the type.
    const NAME: &'static str;
    /// Significant digits that every number of the type keeps.
    const DIGITS: i32;
    /// Numbers with so many digits before the point are shown with an exponent.
    const FIXED_DIGITS_MAX: i32;
    /// Bits of a significand, with the highest one, which is not stored.
    const SIGNIFICAND_BITS: i32;
    /// The least exponent of two that the last bit of a significand has.
    const EXPONENT_MIN: i32;
    /// Narrows a double, which may become infinite.
    fn narrow(value: f64) -> Self;
}

impl Float for f32 {
    const NAME: &'static str = "real";
    const DIGITS: i32 = 6;
    const FIXED_DIGITS_MAX: i32 = 6;
    const SIGNIFICAND_BITS: i32 = 24;
    const EXPONENT_MIN: i32 = -149;
    #[expect(clippy::cast_possible_truncation, reason = "this is the rounding that is asked for")]
    fn narrow(value: f64) -> f32 {
        value as f32
    }
}

impl Float for f64 {
    const NAME: &'static str = "double precision";
    const DIGITS: i32 = 15;
    const FIXED_DIGITS_MAX: i32 = 15;
    const SIGNIFICAND_BITS: i32 = 53;
    const EXPONENT_MIN: i32 = -1_074;
    fn narrow(value: f64) -> f64 {
        value
    }
}

/// Reads a float.
pub(crate) fn parse<T: Float>(text: &str) -> SqlResult<T> {
    let bytes = text.as_bytes();
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(start, |last| last + 1);
    let number = &text[start..end];
    if let Some(value) = special(number) {
        return Ok(T::narrow(value));
    }
    if !is_number(number.as_bytes()) {
        return Err(invalid(T::NAME, text));
    }
    let value: T = number.parse().map_err(|_| invalid(T::NAME, text))?;
    let wide: f64 = value.into();
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    if wide.is_infinite() || (wide == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))) {
        let message = format!("\"{number}\" is out of range for type {}", T::NAME);
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(value)
}

fn special(text: &str) -> Option<f64> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("nan") {
        Some(f64::NAN)
    } else if is("infinity") || is("+infinity") || is("inf") || is("+inf") {
        Some(f64::INFINITY)
    } else if is("-infinity") || is("-inf") {
        Some(f64::NEG_INFINITY)
    } else {
        None
    }
}

/// A sign, digits with a point among them, and an exponent.
fn is_number(bytes: &[u8]) -> bool {
    let count = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unsigned = match bytes.first() {
        Some(b'-' | b'+') => &bytes[1..],
        _ => bytes,
    };
    let whole = count(unsigned);
    let rest = &unsigned[whole..];
    let (fraction, rest) = match rest.first() {
        Some(b'.') => (count(&rest[1..]), &rest[1 + count(&rest[1..])..]),
        _ => (0, rest),
    };
    if whole + fraction == 0 {
        return false;
    }
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let digits = match exponent {
                [b'-' | b'+', digits @ ..] => digits,
                digits => digits,
            };
            !digits.is_empty() && count(digits) == digits.len()
        }
        _ => false,
    }
}

/// Writes a float: the shortest text that gives the same number, or so many digits if `extra_digits` is not positive.
pub(crate) fn write<T: Float>(value: T, extra_digits: i32, out: &mut String) {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return out.push_str("NaN");
    }
    if wide.is_infinite() {
        return out.push_str(if wide > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if wide == 0.0 {
        return out.push_str(if wide.is_sign_negative() { "-0" } else { "0" });
    }
    if extra_digits > 0 {
        write_scientific(&shortest::text(value), T::FIXED_DIGITS_MAX, out);
    } else {
        let digits = usize::try_from((T::DIGITS + extra_digits).max(1)).unwrap_or(1);
        let rounded = format!("{value:.*e}", digits - 1);
        write_scientific(&rounded, i32::try_from(digits).unwrap_or(i32::MAX), out);
    }
}

/// Writes `d.ddde±x` as C's `%g` does: with an exponent only if it is below -4 or has reached the limit.
fn write_scientific(text: &str, exponent_limit: i32, out: &mut String) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    out.push_str(sign);
    if exponent < -4 || exponent >= exponent_limit {
        out.push_str(whole);
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        return append(out, format_args!("e{sign}{:02}", exponent.abs()));
    }
    let Ok(shift) = usize::try_from(exponent) else {
        out.push_str("0.");
        (1..exponent.unsigned_abs()).for_each(|_| out.push('0'));
        out.push_str(whole);
        return out.push_str(fraction);
    };
    out.push_str(whole);
    let moved = shift.min(fraction.len());
    out.push_str(&fraction[..moved]);
    (moved..shift).for_each(|_| out.push('0'));
    if fraction.len() > shift {
        out.push('.');
        out.push_str(&fraction[shift..]);
    }
}
