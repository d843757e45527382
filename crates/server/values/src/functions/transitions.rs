//! Transition functions of averages and variances of `double precision`, which can be called by name.
//!
//! The state is an array: the count, the sum, and the sum of squared differences from the average (by Youngs and Cramer); those of two
//! variables have the same of the second one and the sum of products after it.

use std::sync::Arc;

use super::arguments::row;
use super::floats::overflow;
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::{SqlError, SqlResult};
use crate::oid;

pub(super) const TABLE: Table = &[
    row!("float8_accum", [Array state, Float8 value], accumulated(&numbers(state, "float8_accum")?, *value)),
    row!("float4_accum", [Array state, Float4 value], {
        accumulated(&numbers(state, "float4_accum")?, f64::from(*value))
    }),
    row!("float8_combine", [Array left, Array right], {
        let name = "float8_combine";
        combined(&numbers(left, name)?, &numbers(right, name)?)
    }),
    row!("float8_regr_accum", [Array state, Float8 y, Float8 x], {
        accumulated_pair(&numbers(state, "float8_regr_accum")?, *y, *x)
    }),
    row!("float8_regr_combine", [Array left, Array right], {
        let name = "float8_regr_combine";
        combined_pairs(&numbers(left, name)?, &numbers(right, name)?)
    }),
    ("int4_sum", summed),
    ("int2_sum", summed),
];

/// The numbers of a state.
fn numbers<const COUNT: usize>(state: &Array, name: &str) -> SqlResult<[f64; COUNT]> {
    let refuse = || SqlError::internal(format!("{name}: expected {COUNT}-element float8 array"));
    let mut numbers = [0.0; COUNT];
    if state.values.len() != COUNT || state.dimensions.len() != 1 {
        return Err(refuse());
    }
    for (number, value) in numbers.iter_mut().zip(&state.values) {
        *number = match value {
            Datum::Float8(value) => *value,
            _ => return Err(refuse()),
        };
    }
    Ok(numbers)
}

fn state(numbers: &[f64]) -> Datum {
    let values = numbers.iter().map(|number| Datum::Float8(*number)).collect();
    Datum::Array(Arc::new(Array::one_dimensional(oid::FLOAT8, values)))
}

/// # Errors
/// `22003` if finite numbers gave infinity.
fn checked(result: f64, were_finite: bool) -> SqlResult<f64> {
    if result.is_infinite() && were_finite { Err(overflow()) } else { Ok(result) }
}

fn accumulated(before: &[f64; 3], value: f64) -> SqlResult<Datum> {
    let [count_before, sum_before, squares_before] = *before;
    let count = count_before + 1.0;
    let sum = sum_before + value;
    let mut squares = squares_before;
    if count_before > 0.0 {
        let difference = value * count - sum;
        squares += difference * difference / (count * count_before);
        if sum.is_infinite() || squares.is_infinite() {
            if !sum_before.is_infinite() && !value.is_infinite() {
                return Err(overflow());
            }
            squares = f64::NAN;
        }
    } else if !value.is_finite() {
        squares = f64::NAN;
    }
    Ok(state(&[count, sum, squares]))
}

fn combined(left: &[f64; 3], right: &[f64; 3]) -> SqlResult<Datum> {
    if left[0] == 0.0 {
        return Ok(state(right));
    }
    if right[0] == 0.0 {
        return Ok(state(left));
    }
    let count = left[0] + right[0];
    let sum = checked(left[1] + right[1], left[1].is_finite() && right[1].is_finite())?;
    let difference = left[1] / left[0] - right[1] / right[0];
    let squares = left[2] + right[2] + left[0] * right[0] * difference * difference / count;
    let squares = checked(squares, left[2].is_finite() && right[2].is_finite())?;
    Ok(state(&[count, sum, squares]))
}

fn accumulated_pair(before: &[f64; 6], y: f64, x: f64) -> SqlResult<Datum> {
    let [count_before, x_sum_before, mut x_squares, y_sum_before, mut y_squares, mut products] = *before;
    let count = count_before + 1.0;
    let (x_sum, y_sum) = (x_sum_before + x, y_sum_before + y);
    if count_before > 0.0 {
        let (x_difference, y_difference) = (x * count - x_sum, y * count - y_sum);
        let scale = 1.0 / (count * count_before);
        x_squares += x_difference * x_difference * scale;
        y_squares += y_difference * y_difference * scale;
        products += x_difference * y_difference * scale;
        let is_x_finite = !x_sum_before.is_infinite() && !x.is_infinite();
        let is_y_finite = !y_sum_before.is_infinite() && !y.is_infinite();
        checked(x_sum, is_x_finite)?;
        checked(y_sum, is_y_finite)?;
        for (value, were_finite) in [
            (&mut x_squares, is_x_finite),
            (&mut y_squares, is_y_finite),
            (&mut products, is_x_finite && is_y_finite),
        ] {
            if checked(*value, were_finite)?.is_infinite() {
                *value = f64::NAN;
            }
        }
    } else {
        if !x.is_finite() {
            (x_squares, products) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (y_squares, products) = (f64::NAN, f64::NAN);
        }
    }
    Ok(state(&[count, x_sum, x_squares, y_sum, y_squares, products]))
}

fn combined_pairs(left: &[f64; 6], right: &[f64; 6]) -> SqlResult<Datum> {
    if left[0] == 0.0 {
        return Ok(state(right));
    }
    if right[0] == 0.0 {
        return Ok(state(left));
    }
    let count = left[0] + right[0];
    let average_difference = |sum: usize| left[sum] / left[0] - right[sum] / right[0];
    let (x, y) = (average_difference(1), average_difference(3));
    let weight = left[0] * right[0];
    let part = |place: usize, added: f64| {
        checked(left[place] + right[place] + added, left[place].is_finite() && right[place].is_finite())
    };
    Ok(state(&[
        count,
        part(1, 0.0)?,
        part(2, weight * x * x / count)?,
        part(3, 0.0)?,
        part(4, weight * y * y / count)?,
        part(5, weight * x * y / count)?,
    ]))
}

/// The sum so far, which is null at first, and an integer, which may be null.
fn summed(call: &Call<'_>) -> SqlResult<Datum> {
    let integer = |value: &Datum| match value {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    };
    let [sum, value] = call.arguments else {
        return Err(super::arguments::mismatch(call));
    };
    Ok(match (integer(sum), integer(value)) {
        (Some(sum), Some(value)) => Datum::Int8(sum.wrapping_add(value)),
        (None, Some(value)) => Datum::Int8(value),
        (_, None) => sum.clone(),
    })
}
