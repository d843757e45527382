//! Roots, powers, exponentials and logarithms of `numeric`, with the scales that PostgreSQL gives them.
//!
//! Inner computations are in fixed point: integers that stand for a number times a power of ten, with digits to spare.

use std::cmp::Ordering;
use std::f64::consts::LOG10_E;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::convert::approximate;
use super::{
    Magnitude, Numeric, SIGNIFICANT_DIGITS_MIN, checked, computed_scale, digit_count, leading, overflow,
    quotient, rescaled, ten_to,
};
use crate::error::{SqlError, SqlResult, SqlState};

/// Scales of inner computations are no greater: a limit of time and memory.
const INNER_SCALE_MAX: i64 = 20_000;
/// Results of `exp` beyond `e^6000` overflow, or are zero.
const EXPONENT_MAX: f64 = 6_000.0;

#[cold]
fn invalid(code: SqlState, message: &str) -> Box<SqlError> {
    SqlError::new(code, message)
}

/// A whole part of a float that scales are estimated with.
fn whole(value: f64) -> i64 {
    value.to_i64().unwrap_or(0)
}

/// A scale that an inner computation works with.
fn inner_scale(wanted: i64) -> u32 {
    u32::try_from(wanted.clamp(0, INNER_SCALE_MAX)).unwrap_or(0)
}

/// A square root.
///
/// # Errors
/// `2201F` for a negative number.
pub fn sqrt(value: &Numeric) -> SqlResult<Numeric> {
    if value.sign() == -1 {
        return Err(invalid(
            SqlState::INVALID_ARGUMENT_FOR_POWER,
            "cannot take square root of a negative number",
        ));
    }
    let Numeric::Finite { digits, scale } = value else {
        return Ok(value.clone());
    };
    let weight = Magnitude::of(digits, *scale).weight;
    let result_weight = (weight + 1) * 4 / 2 - 1;
    let result_scale = computed_scale(SIGNIFICANT_DIGITS_MIN - result_weight, &[*scale]);
    // One digit more, cut: rounding it half up is exact, since a root never ends in a lone 5 after this digit.
    let root = rescaled(digits, *scale, 2 * (result_scale + 1)).sqrt();
    Ok(Numeric::Finite { digits: rescaled(&root, result_scale + 1, result_scale), scale: result_scale })
}

/// `e` to a power.
///
/// # Errors
/// `22003` if it is too large.
pub fn exp(value: &Numeric) -> SqlResult<Numeric> {
    let (digits, scale) = match value {
        Numeric::NegativeInfinity => return Ok(Numeric::zero()),
        Numeric::Finite { digits, scale } => (digits, *scale),
        _ => return Ok(value.clone()),
    };
    let weight = whole((approximate(value) * LOG10_E).clamp(-2_000.0, 2_000.0));
    let result_scale = computed_scale(SIGNIFICANT_DIGITS_MIN - weight, &[scale]);
    exponential(digits, scale, result_scale)
}

/// `e` to the power of `digits * 10^-scale`, rounded to a scale.
fn exponential(digits: &BigInt, scale: u32, result_scale: u32) -> SqlResult<Numeric> {
    let estimate = approximate(&Numeric::Finite { digits: digits.clone(), scale });
    if estimate.abs() >= EXPONENT_MAX {
        if estimate > 0.0 {
            return Err(overflow());
        }
        return Ok(Numeric::Finite { digits: BigInt::zero(), scale: result_scale });
    }
    // The argument is halved until it is below 0.01, and the result squared as often, which doubles the error each time.
    let halvings = (estimate.abs() * 100.0).log2().ceil().max(0.0).to_u32().unwrap_or(0);
    let result_digits = whole(estimate * LOG10_E) + i64::from(result_scale);
    let working =
        inner_scale(result_digits.max(0) + i64::from(halvings) + 12 + i64::from(scale.min(result_scale)));
    let one = ten_to(working);
    // The reciprocal of a large number keeps the digits that a small one loses in fixed point.
    let argument = rescaled(&digits.abs(), scale, working) >> halvings;
    let (mut sum, mut term) = (one.clone(), one.clone());
    for n in 1_u32.. {
        term = &term * &argument / &one / n;
        if term.is_zero() {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    if digits.is_negative() {
        return checked(quotient((&BigInt::one(), 0), (&sum, working), result_scale));
    }
    checked(Numeric::Finite { digits: rescaled(&sum, working, result_scale), scale: result_scale })
}

/// A natural logarithm.
///
/// # Errors
/// `2201E` for zero and negative numbers.
pub fn ln(value: &Numeric) -> SqlResult<Numeric> {
    refuse_logarithm(value)?;
    let Numeric::Finite { digits, scale } = value else {
        return Ok(value.clone());
    };
    let weight = logarithm_weight(digits, *scale);
    let result_scale = computed_scale(SIGNIFICANT_DIGITS_MIN - weight, &[*scale]);
    Ok(Numeric::Finite { digits: logarithm(digits, *scale, result_scale), scale: result_scale })
}

fn refuse_logarithm(value: &Numeric) -> SqlResult<()> {
    match value.sign() {
        0 => Err(invalid(SqlState::INVALID_ARGUMENT_FOR_LOG, "cannot take logarithm of zero")),
        -1 => Err(invalid(SqlState::INVALID_ARGUMENT_FOR_LOG, "cannot take logarithm of a negative number")),
        _ => Ok(()),
    }
}

/// About `log10(abs(ln(value)))`, the place of the first digit of a logarithm.
fn logarithm_weight(digits: &BigInt, scale: u32) -> i64 {
    if !digits.is_positive() {
        return 0;
    }
    let power = ten_to(scale);
    let (ten, low, high) = (digits * 10, &power * 9, &power * 11);
    if ten >= low && ten <= high {
        // ln(1 + x) is about x.
        let difference = digits - &power;
        let magnitude = Magnitude::of(&difference, scale);
        return match magnitude.first.checked_ilog10() {
            Some(place) => magnitude.weight * 4 + i64::from(place),
            None => 0,
        };
    }
    let magnitude = Magnitude::of(digits, scale);
    let count = digit_count(digits.magnitude());
    let first_digits = u64::from(magnitude.first.checked_ilog10().unwrap_or(0)) + 1;
    // The first two digits of base 10,000.
    let head = leading(digits.magnitude(), count, first_digits + 4).to_f64().unwrap_or(1.0);
    let place = (magnitude.weight * 4 - 4).to_f64().unwrap_or(0.0);
    whole((head.ln() + place * std::f64::consts::LN_10).abs().log10())
}

/// The natural logarithm of a positive number, rounded to a scale.
fn logarithm(digits: &BigInt, scale: u32, result_scale: u32) -> BigInt {
    // ln(x) = ln(m) + k ln(10), with m between 0.1 and 1: the series converges fast after some square roots.
    let count = u32::try_from(digit_count(digits.magnitude())).unwrap_or(u32::MAX);
    let place = i64::from(count) - i64::from(scale);
    // A number close to 1 has a small logarithm, all digits of which come from the difference.
    let (mantissa, mantissa_scale, tens) =
        if (0..=1).contains(&place) { (digits, scale, 0) } else { (digits, count, place) };
    let spare = 24 + i64::from(place.unsigned_abs().checked_ilog10().unwrap_or(0));
    let working = inner_scale(i64::from(result_scale) + spare);
    let mut result = logarithm_series(&rescaled(mantissa, mantissa_scale, working), working);
    if tens != 0 {
        result += logarithm_series(&(ten_to(working) * 10), working) * tens;
    }
    rescaled(&result, working, result_scale)
}

/// The natural logarithm in fixed point, of a positive number that is not far from 1.
fn logarithm_series(value: &BigInt, working: u32) -> BigInt {
    let one = ten_to(working);
    let (low, high) = (&one * 9 / 10, &one * 11 / 10);
    let mut reduced = value.clone();
    let mut doublings = 1_u32;
    while reduced < low || reduced > high {
        reduced = (&reduced * &one).sqrt();
        doublings += 1;
    }
    // ln((1 + z) / (1 - z)) = 2 (z + z^3/3 + z^5/5 + ...)
    let z = (&reduced - &one) * &one / (&reduced + &one);
    let square = &z * &z / &one;
    let (mut sum, mut power) = (z.clone(), z);
    for n in (3_u32..).step_by(2) {
        power = &power * &square / &one;
        let term = &power / n;
        if term.is_zero() {
            break;
        }
        sum += term;
    }
    sum << doublings
}

/// A logarithm to a base.
///
/// # Errors
/// `2201E` for zero and negative numbers, `22012` for the base 1.
pub fn log(base: &Numeric, value: &Numeric) -> SqlResult<Numeric> {
    if matches!(base, Numeric::NotANumber) || matches!(value, Numeric::NotANumber) {
        return Ok(Numeric::NotANumber);
    }
    if base.sign() < 0 || value.sign() < 0 {
        return Err(invalid(
            SqlState::INVALID_ARGUMENT_FOR_LOG,
            "cannot take logarithm of a negative number",
        ));
    }
    refuse_logarithm(base)?;
    refuse_logarithm(value)?;
    match (base, value) {
        (
            Numeric::Finite { digits: base, scale: base_scale },
            Numeric::Finite { digits: value, scale: value_scale },
        ) => {
            let base_weight = logarithm_weight(base, *base_scale);
            let value_weight = logarithm_weight(value, *value_scale);
            let weight = value_weight - base_weight;
            let result_scale = computed_scale(SIGNIFICANT_DIGITS_MIN - weight, &[*base_scale, *value_scale]);
            let wanted = i64::from(result_scale) + weight + 8;
            let base_inner = inner_scale(wanted - base_weight);
            let value_inner = inner_scale(wanted - value_weight);
            let base = logarithm(base, *base_scale, base_inner);
            if base.is_zero() {
                return Err(crate::functions::arguments::division_by_zero());
            }
            let value = logarithm(value, *value_scale, value_inner);
            checked(quotient((&value, value_inner), (&base, base_inner), result_scale))
        }
        (Numeric::PositiveInfinity, Numeric::PositiveInfinity) => Ok(Numeric::NotANumber),
        (Numeric::PositiveInfinity, _) => Ok(Numeric::zero()),
        _ => Ok(Numeric::PositiveInfinity),
    }
}

/// A power.
///
/// # Errors
/// `2201F` for zero to a negative power and a negative number to a broken one, `22003` if it is too large.
pub fn power(base: &Numeric, exponent: &Numeric) -> SqlResult<Numeric> {
    if base.sign() == 0 && exponent.sign() == -1 {
        return Err(invalid(
            SqlState::INVALID_ARGUMENT_FOR_POWER,
            "zero raised to a negative power is undefined",
        ));
    }
    match (base, exponent) {
        (
            Numeric::Finite { digits: base_digits, scale: base_scale },
            Numeric::Finite { digits: exponent_digits, scale: exponent_scale },
        ) => {
            if exponent.is_whole()
                && let Numeric::Finite { digits, .. } = exponent.rounded(0)
                && let Some(exponent) = digits.to_i32()
            {
                let scale = computed_scale(SIGNIFICANT_DIGITS_MIN, &[*base_scale]);
                return whole_power(base_digits, *base_scale, exponent, scale);
            }
            broken_power((base_digits, *base_scale), (exponent_digits, *exponent_scale), exponent)
        }
        _ => special_power(base, exponent),
    }
}

/// POSIX's rules for powers with infinities and what is not a number.
fn special_power(base: &Numeric, exponent: &Numeric) -> SqlResult<Numeric> {
    let is_one = |value: &Numeric| value.compare(&Numeric::one()).is_eq();
    if matches!(base, Numeric::NotANumber) || matches!(exponent, Numeric::NotANumber) {
        let is_certain = exponent.sign() == 0 || is_one(base);
        return Ok(if is_certain { Numeric::one() } else { Numeric::NotANumber });
    }
    if base.sign() < 0 && matches!(exponent, Numeric::Finite { .. }) && !exponent.is_whole() {
        return Err(complex());
    }
    if is_one(base) || exponent.sign() == 0 {
        return Ok(Numeric::one());
    }
    if base.sign() == 0 {
        return Ok(Numeric::zero());
    }
    if let Numeric::Finite { digits, .. } = exponent {
        // An infinity to a finite power.
        let is_odd = matches!(exponent.rounded(0), Numeric::Finite { digits, .. } if digits.is_odd());
        return Ok(match (digits.is_negative(), base) {
            (true, _) => Numeric::zero(),
            (false, Numeric::NegativeInfinity) if is_odd => Numeric::NegativeInfinity,
            (false, _) => Numeric::PositiveInfinity,
        });
    }
    match base.absolute().compare(&Numeric::one()) {
        Ordering::Equal => Ok(Numeric::one()),
        order => {
            let grows = (order == Ordering::Greater) == (exponent.sign() > 0);
            Ok(if grows { Numeric::PositiveInfinity } else { Numeric::zero() })
        }
    }
}

#[cold]
fn complex() -> Box<SqlError> {
    let message = "a negative number raised to a non-integer power yields a complex result";
    invalid(SqlState::INVALID_ARGUMENT_FOR_POWER, message)
}

/// A power whose exponent is an `integer`, rounded to a scale.
fn whole_power(base: &BigInt, base_scale: u32, exponent: i32, scale: u32) -> SqlResult<Numeric> {
    let zero = || Numeric::Finite { digits: BigInt::zero(), scale };
    if exponent == 0 {
        return Ok(Numeric::Finite { digits: ten_to(scale), scale });
    }
    if base.is_zero() {
        return Ok(zero());
    }
    let count = digit_count(base.magnitude());
    let head = leading(base.magnitude(), count, 17).to_f64().unwrap_or(1.0);
    let place =
        (i64::try_from(count).unwrap_or(i64::MAX) - i64::from(base_scale) - 17).to_f64().unwrap_or(0.0);
    let weight = f64::from(exponent) * (head.log10() + place);
    if weight > 3.0 * 32_767.0 * 4.0 {
        return Err(overflow());
    }
    if weight + 1.0 < -f64::from(scale) {
        return Ok(zero());
    }
    // So many significant digits, and some for the errors of the multiplications.
    let spare = whole(f64::from(exponent).abs().ln()) + 12;
    let significant = u64::try_from((1 + i64::from(scale) + whole(weight)).max(0) + spare).unwrap_or(0);
    let (digits, places) =
        scientific_power(base, i64::from(base_scale), exponent.unsigned_abs(), significant);
    if exponent > 0 {
        return checked(at_scale(&digits, places, scale));
    }
    // The reciprocal: 10^places / digits.
    let shift = places + i64::from(scale);
    if shift < 0 {
        return Ok(zero());
    }
    let numerator = ten_to(u32::try_from(shift).map_err(|_| overflow())?);
    checked(Numeric::Finite { digits: super::divide_rounded(&numerator, &digits), scale })
}

/// A power as digits and their scale, which may be negative, with at least so many significant digits.
fn scientific_power(base: &BigInt, base_scale: i64, exponent: u32, significant: u64) -> (BigInt, i64) {
    let shorten = |digits: BigInt, places: i64| {
        let count = digit_count(digits.magnitude());
        let Some(excess) = count.checked_sub(significant.max(1) + 4).filter(|excess| *excess > 0) else {
            return (digits, places);
        };
        let dropped = u32::try_from(excess).unwrap_or(u32::MAX);
        (super::divide_rounded(&digits, &ten_to(dropped)), places - i64::from(dropped))
    };
    let (mut result, mut result_places) = (BigInt::one(), 0_i64);
    let (mut square, mut square_places) = shorten(base.clone(), base_scale);
    let mut bits = exponent;
    loop {
        if bits & 1 == 1 {
            (result, result_places) = shorten(result * &square, result_places + square_places);
        }
        bits >>= 1;
        if bits == 0 {
            return (result, result_places);
        }
        (square, square_places) = shorten(&square * &square, 2 * square_places);
    }
}

/// `digits * 10^-places`, rounded to a scale.
fn at_scale(digits: &BigInt, places: i64, scale: u32) -> Numeric {
    let digits = match u32::try_from(places) {
        Ok(places) => rescaled(digits, places, scale),
        Err(_) => digits * ten_to(u32::try_from(-places).unwrap_or(u32::MAX).saturating_add(scale)),
    };
    Numeric::Finite { digits, scale }
}

/// A power by way of the logarithm of its base.
fn broken_power(
    base: (&BigInt, u32),
    exponent: (&BigInt, u32),
    whole_exponent: &Numeric,
) -> SqlResult<Numeric> {
    if base.0.is_zero() {
        return Ok(Numeric::Finite { digits: BigInt::zero(), scale: inner_scale(SIGNIFICANT_DIGITS_MIN) });
    }
    let is_negative = base.0.is_negative();
    if is_negative && !whole_exponent.is_whole() {
        return Err(complex());
    }
    let magnitude = base.0.abs();
    let weight = logarithm_weight(&magnitude, base.1);
    let low_scale = inner_scale(8 - weight);
    let low = logarithm(&magnitude, base.1, low_scale) * exponent.0;
    let estimate = approximate(&Numeric::Finite {
        digits: rescaled(&low, low_scale + exponent.1, low_scale),
        scale: low_scale,
    });
    if estimate.abs() > 2_000.0 * 3.01 {
        if estimate > 0.0 {
            return Err(overflow());
        }
        return Ok(Numeric::Finite { digits: BigInt::zero(), scale: inner_scale(super::COMPUTED_SCALE_MAX) });
    }
    let result_weight = whole(estimate * LOG10_E);
    let scale = computed_scale(SIGNIFICANT_DIGITS_MIN - result_weight, &[base.1, exponent.1]);
    let significant = (i64::from(scale) + result_weight).max(0);
    let inner = inner_scale(significant - weight + 8);
    let product = logarithm(&magnitude, base.1, inner) * exponent.0;
    let result = exponential(&rescaled(&product, inner + exponent.1, inner), inner, scale)?;
    let is_odd = matches!(whole_exponent.rounded(0), Numeric::Finite { digits, .. } if digits.is_odd());
    Ok(if is_negative && is_odd { result.negated() } else { result })
}
