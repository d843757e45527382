//! Trigonometry in degrees: exact where the result is a round number, by PostgreSQL's method.

use std::f64::consts::PI;

const RADIANS: f64 = PI / 180.0;

/// Sine from 0 to 30 degrees, exact at 0 and 30.
fn sine_to_30(x: f64) -> f64 {
    (x * RADIANS).sin() / (30.0 * RADIANS).sin() / 2.0
}

/// Cosine from 0 to 60 degrees, exact at 0 and 60.
fn cosine_to_60(x: f64) -> f64 {
    1.0 - (1.0 - (x * RADIANS).cos()) / (1.0 - (60.0 * RADIANS).cos()) / 2.0
}

/// Sine from 0 to 90 degrees.
fn sine_of_quarter(x: f64) -> f64 {
    if x <= 30.0 { sine_to_30(x) } else { cosine_to_60(90.0 - x) }
}

/// Cosine from 0 to 90 degrees.
fn cosine_of_quarter(x: f64) -> f64 {
    if x <= 60.0 { cosine_to_60(x) } else { sine_to_30(90.0 - x) }
}

/// Sine.
pub(super) fn sine(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let mut sign = 1.0;
    let mut x = x % 360.0;
    if x < 0.0 {
        (x, sign) = (-x, -sign);
    }
    if x > 180.0 {
        (x, sign) = (360.0 - x, -sign);
    }
    if x > 90.0 {
        x = 180.0 - x;
    }
    sign * sine_of_quarter(x)
}

/// Cosine.
pub(super) fn cosine(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let mut sign = 1.0;
    let mut x = (x % 360.0).abs();
    if x > 180.0 {
        x = 360.0 - x;
    }
    if x > 90.0 {
        (x, sign) = (180.0 - x, -1.0);
    }
    sign * cosine_of_quarter(x)
}

/// An angle from 0 to 90 degrees whose tangent has the same size, and its sign.
fn quarter_and_sign(x: f64) -> (f64, f64) {
    let mut sign = 1.0;
    let mut x = x % 360.0;
    if x < 0.0 {
        (x, sign) = (-x, -sign);
    }
    if x > 180.0 {
        (x, sign) = (360.0 - x, -sign);
    }
    if x > 90.0 {
        (x, sign) = (180.0 - x, -sign);
    }
    (x, sign)
}

/// A zero never has a sign.
fn without_negative_zero(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x }
}

/// Tangent.
pub(super) fn tangent(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let (x, sign) = quarter_and_sign(x);
    let at_45 = sine_of_quarter(45.0) / cosine_of_quarter(45.0);
    without_negative_zero(sign * (sine_of_quarter(x) / cosine_of_quarter(x) / at_45))
}

/// Cotangent.
pub(super) fn cotangent(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let (x, sign) = quarter_and_sign(x);
    let at_45 = cosine_of_quarter(45.0) / sine_of_quarter(45.0);
    without_negative_zero(sign * (cosine_of_quarter(x) / sine_of_quarter(x) / at_45))
}

/// Inverse sine of 0 to 1, exact at 0, 1/2 and 1.
fn inverse_sine_of_quarter(x: f64) -> f64 {
    if x <= 0.5 { x.asin() / 0.5_f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5_f64.acos() * 60.0 }
}

/// Inverse cosine of 0 to 1, exact at 0, 1/2 and 1.
fn inverse_cosine_of_quarter(x: f64) -> f64 {
    if x <= 0.5 { 90.0 - x.asin() / 0.5_f64.asin() * 30.0 } else { x.acos() / 0.5_f64.acos() * 60.0 }
}

/// Inverse sine.
pub(super) fn inverse_sine(x: f64) -> f64 {
    if x >= 0.0 { inverse_sine_of_quarter(x) } else { -inverse_sine_of_quarter(-x) }
}

/// Inverse cosine.
pub(super) fn inverse_cosine(x: f64) -> f64 {
    if x >= 0.0 { inverse_cosine_of_quarter(x) } else { 90.0 + inverse_sine_of_quarter(-x) }
}

/// Inverse tangent.
pub(super) fn inverse_tangent(x: f64) -> f64 {
    x.atan() / 1.0_f64.atan() * 45.0
}

/// The angle of a point.
pub(super) fn inverse_tangent_of_two(y: f64, x: f64) -> f64 {
    y.atan2(x) / 1.0_f64.atan() * 45.0
}
