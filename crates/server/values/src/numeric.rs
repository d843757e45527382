//! Arithmetic of `numeric`: exact decimal numbers with PostgreSQL's limits and scales.
//!
//! A number is `digits * 10^-scale`. Sums, differences and products are exact. A quotient, a root or a logarithm has the scale that
//! PostgreSQL chooses: at least 16 significant digits, counted in PostgreSQL's own digits of base 10,000 (`Magnitude`).
//!
//! * here: limits, rounding, the four operations. * `text`: text form. * `convert`: to and from integers and floats.
//! * `binary`: binary form.
//! * `series`: roots, powers, exponentials and logarithms.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

pub use crate::datum::Numeric;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::arguments::division_by_zero;

mod binary;
mod convert;
mod series;
mod text;

pub use convert::{from_f32, from_f64, to_f32, to_f64, to_i64, to_integer};
pub use series::{exp, ln, log, power, sqrt};

/// Digits before the point, at most.
pub const INTEGER_DIGITS_MAX: u64 = 131_072;
/// Digits after the point, at most.
pub const SCALE_MAX: u32 = 16_383;
/// A number is rounded before the point at this place at most: to zero, or to one more than all its digits.
const ROUNDED_SCALE_MIN: i32 = -131_073;
/// And after the point at this place at most.
const ROUNDED_SCALE_MAX: i32 = 16_383;
/// Digits after the point that a computed scale has at most.
const COMPUTED_SCALE_MAX: i64 = 1_000;
/// Significant digits that a computed scale gives at least.
const SIGNIFICANT_DIGITS_MIN: i64 = 16;

/// `22003`: the number has too many digits.
#[cold]
pub(crate) fn overflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// A power of ten.
pub(crate) fn ten_to(exponent: u32) -> BigInt {
    match 10_i64.checked_pow(exponent) {
        Some(power) => BigInt::from(power),
        None => BigInt::from(10).pow(exponent),
    }
}

/// How many decimal digits a number has; 0 for zero.
pub(crate) fn digit_count(magnitude: &BigUint) -> u64 {
    if let Some(small) = magnitude.to_u128() {
        return small.checked_ilog10().map_or(0, |digits| u64::from(digits) + 1);
    }
    // Just below log10(2): the estimate is never too high, and at most one too low for the lengths that are allowed.
    let mut count = (magnitude.bits() - 1) * 30_102_999 / 100_000_000;
    let mut power = BigUint::from(10_u32).pow(u32::try_from(count).unwrap_or(u32::MAX));
    while *magnitude >= power {
        count += 1;
        power *= 10_u32;
    }
    count
}

/// Whether a short number has so many digits at most, and already this scale. `false` says nothing.
pub(crate) fn fits(value: &Numeric, (precision, scale): (i32, i32)) -> bool {
    let Numeric::Finite { digits, scale: shown } = value else { return false };
    let limit = u32::try_from(precision).ok().and_then(|precision| 10_u64.checked_pow(precision));
    i32::try_from(*shown) == Ok(scale)
        && limit.zip(digits.to_i64()).is_some_and(|(limit, digits)| digits.unsigned_abs() < limit)
}

/// Divides and rounds half away from zero.
fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let (quotient, remainder) = dividend.div_rem(divisor);
    if remainder.magnitude() * 2_u32 < *divisor.magnitude() {
        return quotient;
    }
    let one = if dividend.is_negative() == divisor.is_negative() { 1 } else { -1 };
    quotient + one
}

/// The same number with another scale, rounded half away from zero if it has fewer digits.
fn rescaled(digits: &BigInt, from: u32, to: u32) -> BigInt {
    match from.cmp(&to) {
        Ordering::Equal => digits.clone(),
        Ordering::Less => digits * ten_to(to - from),
        Ordering::Greater => divide_rounded(digits, &ten_to(from - to)),
    }
}

/// The digits of two numbers at the greater of their scales.
pub(crate) fn aligned(left: (&BigInt, u32), right: (&BigInt, u32)) -> (BigInt, BigInt, u32) {
    let scale = left.1.max(right.1);
    (rescaled(left.0, left.1, scale), rescaled(right.0, right.1, scale), scale)
}

/// The number itself, if it is within the limits.
///
/// # Errors
/// `22003` if it has too many digits before or after the point.
pub fn checked(value: Numeric) -> SqlResult<Numeric> {
    let Numeric::Finite { digits, scale } = &value else {
        return Ok(value);
    };
    // A number with fewer bits than the largest integer part is not measured.
    let is_large = digits.bits() > 400_000;
    if *scale > SCALE_MAX
        || (is_large && digit_count(digits.magnitude()) > INTEGER_DIGITS_MAX + u64::from(*scale))
    {
        return Err(overflow());
    }
    Ok(value)
}

/// A number's first digit of base 10,000 and its place: what PostgreSQL estimates scales with.
struct Magnitude {
    /// The power of 10,000 of the first digit.
    weight: i64,
    /// 1 to 9,999; 0 for zero.
    first: u32,
}

impl Magnitude {
    fn of(digits: &BigInt, scale: u32) -> Magnitude {
        let count = digit_count(digits.magnitude());
        if count == 0 {
            return Magnitude { weight: 0, first: 0 };
        }
        let exponent = i64::try_from(count).unwrap_or(i64::MAX) - i64::from(scale) - 1;
        let weight = exponent.div_euclid(4);
        // The first digit has one to four decimal digits.
        let kept = u64::try_from(exponent.rem_euclid(4) + 1).unwrap_or(4);
        Magnitude { weight, first: leading(digits.magnitude(), count, kept).to_u32().unwrap_or(0) }
    }
}

/// The first `kept` decimal digits of a number that has `count`, with zeros after the last one.
fn leading(magnitude: &BigUint, count: u64, kept: u64) -> BigUint {
    let power = |exponent: u64| BigUint::from(10_u32).pow(u32::try_from(exponent).unwrap_or(u32::MAX));
    if count > kept { magnitude / power(count - kept) } else { magnitude * power(kept - count) }
}

/// A scale that was computed, within its limits and no less than those of the arguments.
fn computed_scale(wanted: i64, scales: &[u32]) -> u32 {
    let least = scales.iter().map(|scale| i64::from(*scale)).max().unwrap_or(0);
    let scale = wanted.max(least).clamp(0, COMPUTED_SCALE_MAX);
    u32::try_from(scale).unwrap_or(0)
}

/// A sum.
///
/// # Errors
/// `22003` if it is too large.
pub fn add(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    use Numeric::{Finite, NegativeInfinity, NotANumber, PositiveInfinity};
    match (left, right) {
        (Finite { digits: left, scale: left_scale }, Finite { digits: right, scale: right_scale }) => {
            if left_scale == right_scale {
                return checked(Finite { digits: left + right, scale: *left_scale });
            }
            let (left, right, scale) = aligned((left, *left_scale), (right, *right_scale));
            checked(Finite { digits: left + right, scale })
        }
        (NotANumber, _) | (_, NotANumber) => Ok(NotANumber),
        (PositiveInfinity, NegativeInfinity) | (NegativeInfinity, PositiveInfinity) => Ok(NotANumber),
        (Finite { .. }, infinity) | (infinity, _) => Ok(infinity.clone()),
    }
}

/// A difference.
///
/// # Errors
/// `22003` if it is too large.
pub fn sub(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    add(left, &right.negated())
}

/// A product. It is exact, unless it would have more digits after the point than a number can have.
///
/// # Errors
/// `22003` if it is too large.
pub fn mul(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    match (left, right) {
        (
            Numeric::Finite { digits: left, scale: left_scale },
            Numeric::Finite { digits: right, scale: right_scale },
        ) => {
            let scale = left_scale + right_scale;
            let digits = left * right;
            if scale > SCALE_MAX {
                return checked(Numeric::Finite {
                    digits: rescaled(&digits, scale, SCALE_MAX),
                    scale: SCALE_MAX,
                });
            }
            checked(Numeric::Finite { digits, scale })
        }
        (Numeric::NotANumber, _) | (_, Numeric::NotANumber) => Ok(Numeric::NotANumber),
        _ => Ok(Numeric::infinity(left.sign() * right.sign())),
    }
}

/// A quotient, rounded to the scale that PostgreSQL chooses.
///
/// # Errors
/// `22012` for a zero divisor; `22003` if it is too large.
pub fn div(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    match (left, right) {
        (Numeric::NotANumber, _) | (_, Numeric::NotANumber) => Ok(Numeric::NotANumber),
        (_, divisor) if divisor.sign() == 0 => Err(division_by_zero()),
        (
            Numeric::Finite { digits: left, scale: left_scale },
            Numeric::Finite { digits: right, scale: right_scale },
        ) => {
            let (dividend, divisor) = (Magnitude::of(left, *left_scale), Magnitude::of(right, *right_scale));
            let weight = dividend.weight - divisor.weight - i64::from(dividend.first <= divisor.first);
            let scale = computed_scale(SIGNIFICANT_DIGITS_MIN - weight * 4, &[*left_scale, *right_scale]);
            checked(quotient((left, *left_scale), (right, *right_scale), scale))
        }
        (Numeric::Finite { .. }, _) => Ok(Numeric::zero()),
        (infinity, Numeric::Finite { .. }) => Ok(Numeric::infinity(infinity.sign() * right.sign())),
        _ => Ok(Numeric::NotANumber),
    }
}

/// A quotient of this scale, rounded half away from zero. The divisor is not zero.
fn quotient(left: (&BigInt, u32), right: (&BigInt, u32), scale: u32) -> Numeric {
    // left / 10^l / (right / 10^r) * 10^scale
    let (dividend, divisor) = if scale + right.1 >= left.1 {
        (left.0 * ten_to(scale + right.1 - left.1), right.0.clone())
    } else {
        (left.0.clone(), right.0 * ten_to(left.1 - scale - right.1))
    };
    Numeric::Finite { digits: divide_rounded(&dividend, &divisor), scale }
}

/// `div()`: the whole part of a quotient.
///
/// # Errors
/// As `div`.
pub fn div_whole(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    match (left, right) {
        (
            Numeric::Finite { digits: left, scale: left_scale },
            Numeric::Finite { digits: right, scale: right_scale },
        ) if !right.is_zero() => {
            let (left, right, _) = aligned((left, *left_scale), (right, *right_scale));
            checked(Numeric::Finite { digits: left / right, scale: 0 })
        }
        _ => div(left, right),
    }
}

/// A remainder, with the sign of the dividend.
///
/// # Errors
/// `22012` for a zero divisor.
pub fn rem(left: &Numeric, right: &Numeric) -> SqlResult<Numeric> {
    match (left, right) {
        (Numeric::NotANumber, _) | (_, Numeric::NotANumber) => Ok(Numeric::NotANumber),
        (_, divisor) if divisor.sign() == 0 => Err(division_by_zero()),
        (
            Numeric::Finite { digits: left, scale: left_scale },
            Numeric::Finite { digits: right, scale: right_scale },
        ) => {
            let (left, right, scale) = aligned((left, *left_scale), (right, *right_scale));
            Ok(Numeric::Finite { digits: left % right, scale })
        }
        (Numeric::Finite { .. }, _) => Ok(left.clone()),
        _ => Ok(Numeric::NotANumber),
    }
}

impl Numeric {
    /// 0.
    pub fn zero() -> Numeric {
        Numeric::Finite { digits: BigInt::zero(), scale: 0 }
    }

    /// 1.
    pub fn one() -> Numeric {
        Numeric::Finite { digits: BigInt::one(), scale: 0 }
    }

    /// The infinity of a sign; zero times infinity is not a number.
    fn infinity(sign: i32) -> Numeric {
        match sign {
            1 => Numeric::PositiveInfinity,
            -1 => Numeric::NegativeInfinity,
            _ => Numeric::NotANumber,
        }
    }

    /// -1, 0 or 1; 2 for what is not a number.
    pub fn sign(&self) -> i32 {
        match self {
            Numeric::Finite { digits, .. } => match digits.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            Numeric::PositiveInfinity => 1,
            Numeric::NegativeInfinity => -1,
            Numeric::NotANumber => 2,
        }
    }

    /// The number with its sign changed.
    #[must_use]
    pub fn negated(&self) -> Numeric {
        match self {
            Numeric::Finite { digits, scale } => Numeric::Finite { digits: -digits, scale: *scale },
            Numeric::PositiveInfinity => Numeric::NegativeInfinity,
            Numeric::NegativeInfinity => Numeric::PositiveInfinity,
            Numeric::NotANumber => Numeric::NotANumber,
        }
    }

    /// The number without its sign.
    #[must_use]
    pub fn absolute(&self) -> Numeric {
        if self.sign() == -1 { self.negated() } else { self.clone() }
    }

    /// Rounded half away from zero to so many digits after the point; a negative count rounds before it.
    #[must_use]
    pub fn rounded(&self, scale: i32) -> Numeric {
        self.cut(scale, divide_rounded)
    }

    /// Cut after so many digits after the point; a negative count cuts before it.
    #[must_use]
    pub fn truncated(&self, scale: i32) -> Numeric {
        self.cut(scale, |digits, power| digits / power)
    }

    /// The least whole number that is not less.
    #[must_use]
    pub fn ceiling(&self) -> Numeric {
        self.cut_at(0, Integer::div_ceil)
    }

    /// The greatest whole number that is not greater.
    #[must_use]
    pub fn floor(&self) -> Numeric {
        self.cut_at(0, Integer::div_floor)
    }

    /// No number has digits farther from the point, so scales beyond them are not told apart.
    fn cut(&self, scale: i32, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> Numeric {
        self.cut_at(scale.clamp(ROUNDED_SCALE_MIN, ROUNDED_SCALE_MAX), divide)
    }

    fn cut_at(&self, scale: i32, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> Numeric {
        let Numeric::Finite { digits, scale: old } = self else {
            return self.clone();
        };
        let shown = u32::try_from(scale).unwrap_or(0);
        let dropped = i64::from(*old) - i64::from(scale);
        let Ok(dropped) = u32::try_from(dropped) else {
            return Numeric::Finite { digits: rescaled(digits, *old, shown), scale: shown };
        };
        let kept = divide(digits, &ten_to(dropped));
        Numeric::Finite { digits: kept * ten_to(scale.min(0).unsigned_abs()), scale: shown }
    }

    /// Digits after the point that the value needs.
    pub fn least_scale(&self) -> u32 {
        match self.stripped() {
            Numeric::Finite { scale, .. } => scale,
            _ => 0,
        }
    }

    /// The same value without zeros at its end.
    #[must_use]
    pub fn stripped(&self) -> Numeric {
        let Numeric::Finite { digits, scale } = self else {
            return self.clone();
        };
        let (mut digits, mut scale) = (digits.clone(), *scale);
        if digits.is_zero() {
            scale = 0;
        }
        // Long runs of zeros go sixteen at a time.
        for (step, power) in [(16, 10_000_000_000_000_000_u64), (1, 10)] {
            while scale >= step {
                let (quotient, remainder) = digits.div_rem(&BigInt::from(power));
                if !remainder.is_zero() {
                    break;
                }
                (digits, scale) = (quotient, scale - step);
            }
        }
        Numeric::Finite { digits, scale }
    }

    /// Whether there are no digits other than zeros after the point.
    pub fn is_whole(&self) -> bool {
        matches!(self, Numeric::Finite { .. }) && self.least_scale() == 0
    }

    /// The order of values: what is not a number is last, and equal to itself.
    pub fn compare(&self, other: &Numeric) -> Ordering {
        match (self, other) {
            (
                Numeric::Finite { digits: left, scale: left_scale },
                Numeric::Finite { digits: right, scale: right_scale },
            ) => {
                if left_scale == right_scale || left.sign() != right.sign() {
                    return left.cmp(right);
                }
                let (left, right, _) = aligned((left, *left_scale), (right, *right_scale));
                left.cmp(&right)
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Numeric::NegativeInfinity => 0,
            Numeric::Finite { .. } => 1,
            Numeric::PositiveInfinity => 2,
            Numeric::NotANumber => 3,
        }
    }

    /// Hashes the value: numbers that are equal have equal hashes, whatever their scales.
    pub fn hash_into(&self, hasher: &mut impl Hasher) {
        hasher.write_u8(self.rank());
        if let Numeric::Finite { digits, scale } = self.stripped() {
            digits.hash(hasher);
            scale.hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests;
