//! Mathematics on `double precision` and integers. Results are PostgreSQL's down to the errors; the last digit is the C library's.

use super::Table;
use super::arguments::{out_of_range, row};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

macro_rules! of_float {
    ($source:literal, $x:ident, $result:expr) => {
        row!($source, [Float8 $x], checked($result, $x.is_infinite()))
    };
}

pub(super) const TABLE: Table = &[
    row!("float4abs", [Float4 x], Ok(Datum::Float4(x.abs()))),
    row!("float8abs", [Float8 x], Ok(Datum::Float8(x.abs()))),
    row!("int2abs", [Int2 x], x.checked_abs().map(Datum::Int2).ok_or_else(|| out_of_range("smallint"))),
    row!("int4abs", [Int4 x], x.checked_abs().map(Datum::Int4).ok_or_else(|| out_of_range("integer"))),
    row!("int8abs", [Int8 x], x.checked_abs().map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))),
    row!("dround", [Float8 x], Ok(Datum::Float8(x.round_ties_even()))),
    row!("dceil", [Float8 x], Ok(Datum::Float8(x.ceil()))),
    row!("dfloor", [Float8 x], Ok(Datum::Float8(x.floor()))),
    row!("dtrunc", [Float8 x], Ok(Datum::Float8(x.trunc()))),
    row!("dsign", [Float8 x], Ok(Datum::Float8(if *x > 0.0 { 1.0 } else if *x < 0.0 { -1.0 } else { 0.0 }))),
    row!("dsqrt", [Float8 x], square_root(*x)),
    of_float!("dcbrt", x, x.cbrt()),
    row!("dpow", [Float8 x, Float8 y], power(*x, *y)),
    row!("dexp", [Float8 x], exponential(*x)),
    row!("dlog1", [Float8 x], logarithm(*x, f64::ln)),
    row!("dlog10", [Float8 x], logarithm(*x, f64::log10)),
    ("dpi", |_| Ok(Datum::Float8(std::f64::consts::PI))),
    of_float!("degrees", x, x / RADIANS_PER_DEGREE),
    of_float!("radians", x, x * RADIANS_PER_DEGREE),
    row!("dsin", [Float8 x], of_angle(*x, f64::sin)),
    row!("dcos", [Float8 x], of_angle(*x, f64::cos)),
    row!("dtan", [Float8 x], of_angle(*x, f64::tan)),
    row!("dcot", [Float8 x], of_angle(*x, |x| 1.0 / x.tan())),
    row!("dasin", [Float8 x], within(*x, -1.0, 1.0, f64::asin)),
    row!("dacos", [Float8 x], within(*x, -1.0, 1.0, f64::acos)),
    row!("datan", [Float8 x], Ok(Datum::Float8(x.atan()))),
    row!("datan2", [Float8 y, Float8 x], Ok(Datum::Float8(y.atan2(*x)))),
    row!("dsinh", [Float8 x], Ok(Datum::Float8(x.sinh()))),
    row!("dcosh", [Float8 x], Ok(Datum::Float8(x.cosh()))),
    row!("dtanh", [Float8 x], Ok(Datum::Float8(x.tanh()))),
    row!("dasinh", [Float8 x], Ok(Datum::Float8(inverse_hyperbolic_sine(*x)))),
    row!("dacosh", [Float8 x], within(*x, 1.0, f64::INFINITY, f64::acosh)),
    row!("datanh", [Float8 x], within(*x, -1.0, 1.0, inverse_hyperbolic_tangent)),
    row!("dsind", [Float8 x], of_angle(*x, super::degrees::sine)),
    row!("dcosd", [Float8 x], of_angle(*x, super::degrees::cosine)),
    row!("dtand", [Float8 x], of_angle(*x, super::degrees::tangent)),
    row!("dcotd", [Float8 x], of_angle(*x, super::degrees::cotangent)),
    row!("dasind", [Float8 x], within(*x, -1.0, 1.0, super::degrees::inverse_sine)),
    row!("dacosd", [Float8 x], within(*x, -1.0, 1.0, super::degrees::inverse_cosine)),
    row!("datand", [Float8 x], Ok(Datum::Float8(super::degrees::inverse_tangent(*x)))),
    row!("datan2d", [Float8 y, Float8 x], Ok(Datum::Float8(super::degrees::inverse_tangent_of_two(*y, *x)))),
    row!("int4gcd", [Int4 x, Int4 y], {
        i32::try_from(greatest_common_divisor(i64::from(*x), i64::from(*y)))
            .map(Datum::Int4)
            .map_err(|_| out_of_range("integer"))
    }),
    row!("int8gcd", [Int8 x, Int8 y], {
        i64::try_from(greatest_common_divisor(*x, *y)).map(Datum::Int8).map_err(|_| out_of_range("bigint"))
    }),
    row!("int4lcm", [Int4 x, Int4 y], {
        let multiple = least_common_multiple(i64::from(*x), i64::from(*y));
        i32::try_from(multiple).map(Datum::Int4).map_err(|_| out_of_range("integer"))
    }),
    row!("int8lcm", [Int8 x, Int8 y], {
        i64::try_from(least_common_multiple(*x, *y)).map(Datum::Int8).map_err(|_| out_of_range("bigint"))
    }),
    row!("width_bucket_float8", [Float8 x, Float8 low, Float8 high, Int4 count], {
        bucket(*x, *low, *high, *count)
    }),
];

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

/// # Errors
/// `22003` if a finite argument gave infinity.
fn checked(result: f64, is_infinite: bool) -> SqlResult<Datum> {
    if result.is_infinite() && !is_infinite { Err(overflow()) } else { Ok(Datum::Float8(result)) }
}

#[cold]
fn overflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
fn underflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

#[cold]
fn input_out_of_range() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn square_root(x: f64) -> SqlResult<Datum> {
    if x < 0.0 {
        let message = "cannot take square root of a negative number";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    Ok(Datum::Float8(x.sqrt()))
}

fn power(x: f64, y: f64) -> SqlResult<Datum> {
    if x == 0.0 && y < 0.0 {
        let message = "zero raised to a negative power is undefined";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    if x < 0.0 && x.is_finite() && y.is_finite() && y.floor() != y {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message));
    }
    let result = x.powf(y);
    if x.is_finite() && y.is_finite() {
        if result.is_infinite() {
            return Err(overflow());
        }
        if result == 0.0 && x != 0.0 {
            return Err(underflow());
        }
    }
    Ok(Datum::Float8(result))
}

fn exponential(x: f64) -> SqlResult<Datum> {
    let result = x.exp();
    if result == 0.0 && x.is_finite() {
        return Err(underflow());
    }
    checked(result, x.is_infinite())
}

fn logarithm(x: f64, of: fn(f64) -> f64) -> SqlResult<Datum> {
    let message = if x == 0.0 {
        "cannot take logarithm of zero"
    } else if x < 0.0 {
        "cannot take logarithm of a negative number"
    } else {
        return Ok(Datum::Float8(of(x)));
    };
    Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, message))
}

/// A function of an angle, which must be finite.
fn of_angle(x: f64, of: fn(f64) -> f64) -> SqlResult<Datum> {
    if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(of(x))) }
}

/// A function of an argument from `low` to `high`.
fn within(x: f64, low: f64, high: f64, of: fn(f64) -> f64) -> SqlResult<Datum> {
    if x < low || x > high { Err(input_out_of_range()) } else { Ok(Datum::Float8(of(x))) }
}

fn inverse_hyperbolic_sine(x: f64) -> f64 {
    if x == 0.0 || x.is_infinite() { x } else { x.asinh() }
}

fn inverse_hyperbolic_tangent(x: f64) -> f64 {
    if x == 0.0 { x } else { x.atanh() }
}

fn greatest_common_divisor(x: i64, y: i64) -> u64 {
    num_integer::Integer::gcd(&x.unsigned_abs(), &y.unsigned_abs())
}

fn least_common_multiple(x: i64, y: i64) -> u128 {
    if x == 0 || y == 0 {
        return 0;
    }
    u128::from(x.unsigned_abs() / greatest_common_divisor(x, y)) * u128::from(y.unsigned_abs())
}

/// `2201G`.
#[cold]
pub(super) fn bucket_error(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::new(b"2201G"), message)
}

fn bucket(x: f64, low: f64, high: f64, count: i32) -> SqlResult<Datum> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let is_rising = low < high;
    let (before, after) = if is_rising { (x < low, x >= high) } else { (x > low, x <= high) };
    if before {
        return Ok(Datum::Int4(0));
    }
    if after {
        return count.checked_add(1).map(Datum::Int4).ok_or_else(|| out_of_range("integer"));
    }
    // Halves cannot overflow.
    let share = if (high - low).is_finite() {
        (x - low) / (high - low)
    } else {
        (x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    let index = num_traits::ToPrimitive::to_i32(&(f64::from(count) * share)).unwrap_or(count);
    // Rounding may give the bucket after the last.
    Ok(Datum::Int4(index.min(count - 1) + 1))
}
