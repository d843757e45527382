//! Functions of `numeric`.

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::Table;
use super::arguments::{out_of_range, row};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric::{self, Numeric};

pub(super) const TABLE: Table = &[
    row!("numeric_add", [Numeric left, Numeric right], numeric::add(left, right).map(datum)),
    row!("numeric_sub", [Numeric left, Numeric right], numeric::sub(left, right).map(datum)),
    row!("numeric_mul", [Numeric left, Numeric right], numeric::mul(left, right).map(datum)),
    row!("numeric_div", [Numeric left, Numeric right], numeric::div(left, right).map(datum)),
    row!("numeric_mod", [Numeric left, Numeric right], numeric::rem(left, right).map(datum)),
    row!("numeric_div_trunc", [Numeric left, Numeric right], numeric::div_whole(left, right).map(datum)),
    row!("numeric_power", [Numeric base, Numeric exponent], numeric::power(base, exponent).map(datum)),
    row!("numeric_log", [Numeric base, Numeric value], numeric::log(base, value).map(datum)),
    row!("log/1", [Numeric value], numeric::log(&Numeric::from(10), value).map(datum)),
    row!("log10/1", [Numeric value], numeric::log(&Numeric::from(10), value).map(datum)),
    row!("numeric_ln", [Numeric value], numeric::ln(value).map(datum)),
    row!("numeric_exp", [Numeric value], numeric::exp(value).map(datum)),
    row!("numeric_sqrt", [Numeric value], numeric::sqrt(value).map(datum)),
    row!("numeric_fac", [Int8 value], factorial(*value).map(datum)),
    row!("numeric_gcd", [Numeric left, Numeric right], common(left, right, greatest_divisor).map(datum)),
    row!("numeric_lcm", [Numeric left, Numeric right], common(left, right, least_multiple).map(datum)),
    row!("numeric_uminus", [Numeric value], Ok(datum(value.negated()))),
    row!("numeric_uplus", [Numeric value], Ok(Datum::Numeric(Arc::clone(value)))),
    row!("numeric_abs", [Numeric value], Ok(datum(value.absolute()))),
    row!("numeric_inc", [Numeric value], numeric::add(value, &Numeric::one()).map(datum)),
    row!("numeric_ceil", [Numeric value], Ok(datum(value.ceiling()))),
    row!("numeric_floor", [Numeric value], Ok(datum(value.floor()))),
    row!("numeric_round", [Numeric value, Int4 scale], numeric::checked(value.rounded(*scale)).map(datum)),
    row!("round/1", [Numeric value], numeric::checked(value.rounded(0)).map(datum)),
    row!("numeric_trunc", [Numeric value, Int4 scale], numeric::checked(value.truncated(*scale)).map(datum)),
    row!("trunc/1", [Numeric value], Ok(datum(value.truncated(0)))),
    row!("numeric_sign", [Numeric value], Ok(datum(sign(value)))),
    row!("numeric_scale", [Numeric value], Ok(scale(value, |_, scale| scale))),
    row!("numeric_min_scale", [Numeric value], Ok(scale(value, |value, _| value.least_scale()))),
    row!("numeric_trim_scale", [Numeric value], Ok(datum(value.stripped()))),
    row!("width_bucket_numeric", [Numeric value, Numeric low, Numeric high, Int4 count], {
        bucket(value, low, high, *count)
    }),
];

fn datum(value: Numeric) -> Datum {
    Datum::Numeric(Arc::new(value))
}

fn sign(value: &Numeric) -> Numeric {
    match value.sign() {
        sign @ -1..=1 => Numeric::from(sign),
        _ => Numeric::NotANumber,
    }
}

/// A scale of a number; infinities have none.
fn scale(value: &Numeric, of: fn(&Numeric, u32) -> u32) -> Datum {
    match value {
        Numeric::Finite { scale, .. } => Datum::Int4(i32::try_from(of(value, *scale)).unwrap_or(i32::MAX)),
        _ => Datum::Null,
    }
}

/// The greatest number whose factorial is within the limits.
const FACTORIAL_MAX: i64 = 32_177;

fn factorial(value: i64) -> SqlResult<Numeric> {
    if value < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    if value > FACTORIAL_MAX {
        return Err(numeric::overflow());
    }
    let product = (2..=value).fold(BigInt::from(1), |product, factor| product * factor);
    Ok(Numeric::Finite { digits: product, scale: 0 })
}

/// A function of two finite numbers of one scale.
fn common(left: &Numeric, right: &Numeric, of: fn(&BigInt, &BigInt) -> BigInt) -> SqlResult<Numeric> {
    match (left, right) {
        (
            Numeric::Finite { digits: left, scale: left_scale },
            Numeric::Finite { digits: right, scale: right_scale },
        ) => {
            let (left, right, scale) = numeric::aligned((left, *left_scale), (right, *right_scale));
            numeric::checked(Numeric::Finite { digits: of(&left, &right), scale })
        }
        _ => Ok(Numeric::NotANumber),
    }
}

fn greatest_divisor(left: &BigInt, right: &BigInt) -> BigInt {
    left.gcd(right)
}

fn least_multiple(left: &BigInt, right: &BigInt) -> BigInt {
    if left.is_zero() || right.is_zero() { BigInt::zero() } else { (left / left.gcd(right) * right).abs() }
}

/// The number of the equally wide bucket between `low` and `high` in which a value is.
fn bucket(value: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> SqlResult<Datum> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::new(b"2201G"), message));
    if count <= 0 {
        return refuse("count must be greater than zero");
    }
    if [value, low, high].into_iter().any(|bound| matches!(bound, Numeric::NotANumber)) {
        return refuse("operand, lower bound, and upper bound cannot be NaN");
    }
    let (Numeric::Finite { .. }, Numeric::Finite { .. }) = (low, high) else {
        return refuse("lower and upper bounds must be finite");
    };
    let is_rising = match low.compare(high) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => return refuse("lower bound cannot equal upper bound"),
    };
    let order = |left: &Numeric, right: &Numeric| {
        let order = left.compare(right);
        if is_rising { order } else { order.reverse() }
    };
    if order(value, low).is_lt() {
        return Ok(Datum::Int4(0));
    }
    if order(value, high).is_ge() {
        return count.checked_add(1).map(Datum::Int4).ok_or_else(|| out_of_range("integer"));
    }
    let above = numeric::mul(&numeric::sub(value, low)?, &Numeric::from(count))?;
    let width = numeric::sub(high, low)?;
    let index = match numeric::div_whole(&above, &width)? {
        Numeric::Finite { digits, .. } => digits.to_i32(),
        _ => None,
    };
    index.and_then(|index| index.checked_add(1)).map(Datum::Int4).ok_or_else(|| out_of_range("integer"))
}
