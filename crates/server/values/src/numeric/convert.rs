//! `numeric` to and from integers and floats.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Numeric;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::arguments::out_of_range;
use crate::text_form::floats;

macro_rules! from_integer {
    ($($native:ty),*) => {
        $(impl From<$native> for Numeric {
            fn from(value: $native) -> Numeric {
                Numeric::Finite { digits: BigInt::from(value), scale: 0 }
            }
        })*
    };
}
from_integer!(i16, i32, i64, u64, i128);

/// A float as a number with the 15 digits that a double always has.
///
/// # Errors
/// None today; a float is within the limits of a number.
pub fn from_f64(value: f64) -> SqlResult<Numeric> {
    from_float(value, 15)
}

/// A float as a number with the 6 digits that it always has.
///
/// # Errors
/// None today.
pub fn from_f32(value: f32) -> SqlResult<Numeric> {
    from_float(f64::from(value), 6)
}

fn from_float(value: f64, digits: usize) -> SqlResult<Numeric> {
    if value.is_nan() {
        return Ok(Numeric::NotANumber);
    }
    if value.is_infinite() {
        return Ok(if value > 0.0 { Numeric::PositiveInfinity } else { Numeric::NegativeInfinity });
    }
    // As C's "%.*g" would print it: so many significant digits, and no zeros at the end.
    let text = format!("{value:.*e}", digits - 1);
    let parsed: Numeric = text.parse()?;
    Ok(parsed.stripped())
}

/// The nearest double; a number beyond the range of doubles is refused.
///
/// # Errors
/// `22003` if it is too large.
pub fn to_f64(value: &Numeric) -> SqlResult<f64> {
    match value {
        Numeric::NotANumber => Ok(f64::NAN),
        Numeric::PositiveInfinity => Ok(f64::INFINITY),
        Numeric::NegativeInfinity => Ok(f64::NEG_INFINITY),
        Numeric::Finite { digits, scale } => {
            if let (Some(small), true) = (digits.to_i64(), *scale <= 15)
                && small.unsigned_abs() < 1 << 53
                && let (Some(dividend), Some(divisor)) = (small.to_f64(), 10_i64.pow(*scale).to_f64())
            {
                // Both are exact, so one rounding gives the nearest double.
                return Ok(dividend / divisor);
            }
            let text = value.to_string();
            let nearest: f64 = text.parse().unwrap_or(f64::INFINITY);
            if nearest.is_infinite() || (nearest == 0.0 && value.sign() != 0) {
                let message = format!("\"{text}\" is out of range for type double precision");
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            Ok(nearest)
        }
    }
}

/// The nearest `real`.
///
/// # Errors
/// `22003` if it is too large or too small.
pub fn to_f32(value: &Numeric) -> SqlResult<f32> {
    match value {
        Numeric::NotANumber => Ok(f32::NAN),
        Numeric::PositiveInfinity => Ok(f32::INFINITY),
        Numeric::NegativeInfinity => Ok(f32::NEG_INFINITY),
        Numeric::Finite { .. } => floats::parse::<f32>(&value.to_string()),
    }
}

/// The nearest `bigint`, rounded half away from zero; `None` if it does not fit, or is not finite.
pub fn to_i64(value: &Numeric) -> Option<i64> {
    match value.rounded(0) {
        Numeric::Finite { digits, .. } => digits.to_i64(),
        _ => None,
    }
}

/// The nearest integer of a type, which is named in the error.
///
/// # Errors
/// `22003` if it does not fit, `0A000` for what is not finite.
pub fn to_integer<T: TryFrom<i64>>(value: &Numeric, name: &str) -> SqlResult<T> {
    let unfit = |what: &str| {
        let message = format!("cannot convert {what} to {name}");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    };
    match value {
        Numeric::NotANumber => Err(unfit("NaN")),
        Numeric::PositiveInfinity | Numeric::NegativeInfinity => Err(unfit("infinity")),
        Numeric::Finite { .. } => {
            to_i64(value).and_then(|value| T::try_from(value).ok()).ok_or_else(|| out_of_range(name))
        }
    }
}

/// A double near the number: what scales are estimated with.
pub(super) fn approximate(value: &Numeric) -> f64 {
    match value {
        Numeric::NotANumber => f64::NAN,
        Numeric::PositiveInfinity => f64::INFINITY,
        Numeric::NegativeInfinity => f64::NEG_INFINITY,
        Numeric::Finite { .. } => value.to_string().parse().unwrap_or(f64::NAN),
    }
}
