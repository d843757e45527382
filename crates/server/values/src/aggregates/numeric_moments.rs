//! `sum`, `avg` and variances over `numeric`: exact sums, and rows can be taken back.

use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::{Accumulator, Table};
use crate::datum::{Datum, Numeric};
use crate::error::SqlResult;
use crate::numeric;
use crate::oid;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("sum", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::Sum))),
    ("avg", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::Average))),
    ("variance", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::VarianceOfSample))),
    ("var_samp", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::VarianceOfSample))),
    ("var_pop", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::VarianceOfPopulation))),
    ("stddev", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::DeviationOfSample))),
    ("stddev_samp", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::DeviationOfSample))),
    ("stddev_pop", &[oid::NUMERIC], |_, _| Box::new(Moments::new(Statistic::DeviationOfPopulation))),
];

/// The number that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    Sum,
    Average,
    VarianceOfSample,
    VarianceOfPopulation,
    DeviationOfSample,
    DeviationOfPopulation,
}

impl Statistic {
    fn is_of_sample(self) -> bool {
        matches!(self, Statistic::VarianceOfSample | Statistic::DeviationOfSample)
    }

    fn is_deviation(self) -> bool {
        matches!(self, Statistic::DeviationOfSample | Statistic::DeviationOfPopulation)
    }

    fn needs_squares(self) -> bool {
        !matches!(self, Statistic::Sum | Statistic::Average)
    }
}

/// An exact sum: `digits * 10^-scale`.
#[derive(Default)]
struct Sum {
    digits: BigInt,
    scale: u32,
}

impl Sum {
    fn add(&mut self, digits: &BigInt, scale: u32) {
        match scale.cmp(&self.scale) {
            std::cmp::Ordering::Equal => self.digits += digits,
            std::cmp::Ordering::Less => self.digits += digits * power_of_ten(self.scale - scale),
            std::cmp::Ordering::Greater => {
                self.digits *= power_of_ten(scale - self.scale);
                self.scale = scale;
                self.digits += digits;
            }
        }
    }
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

struct Moments {
    statistic: Statistic,
    count: i64,
    sum: Sum,
    squares: Sum,
    nan_count: i64,
    infinity_count: i64,
    negative_infinity_count: i64,
    /// Values of each scale: the scale of the sum is the greatest one among rows that are not taken back.
    scale_counts: std::collections::BTreeMap<u32, i64>,
}

impl Moments {
    fn new(statistic: Statistic) -> Moments {
        Moments {
            statistic,
            count: 0,
            sum: Sum::default(),
            squares: Sum::default(),
            nan_count: 0,
            infinity_count: 0,
            negative_infinity_count: 0,
            scale_counts: std::collections::BTreeMap::new(),
        }
    }

    /// Takes a value (`weight` 1) or takes it back (-1).
    fn take(&mut self, value: &Numeric, weight: i64) {
        match value {
            Numeric::NotANumber => self.nan_count += weight,
            Numeric::PositiveInfinity => self.infinity_count += weight,
            Numeric::NegativeInfinity => self.negative_infinity_count += weight,
            Numeric::Finite { digits, scale } => {
                self.count += weight;
                if weight > 0 {
                    self.sum.add(digits, *scale);
                } else {
                    self.sum.add(&-digits, *scale);
                }
                if self.statistic.needs_squares() {
                    self.squares.add(&(digits * digits * weight), *scale * 2);
                }
                let count = self.scale_counts.entry(*scale).or_insert(0);
                *count += weight;
                if *count == 0 {
                    self.scale_counts.remove(scale);
                }
            }
        }
    }

    /// The result that infinities and NaN force.
    fn special(&self) -> Option<Numeric> {
        if self.nan_count > 0 || self.infinity_count > 0 && self.negative_infinity_count > 0 {
            Some(Numeric::NotANumber)
        } else if self.infinity_count > 0 {
            Some(Numeric::PositiveInfinity)
        } else if self.negative_infinity_count > 0 {
            Some(Numeric::NegativeInfinity)
        } else {
            None
        }
    }

    /// The sum with the scale of the remaining rows.
    fn scaled_sum(&self) -> (BigInt, u32) {
        let scale = self.scale_counts.last_key_value().map_or(0, |(scale, _)| *scale);
        (&self.sum.digits / power_of_ten(self.sum.scale - scale), scale)
    }
}

impl Accumulator for Moments {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Numeric(value)] => self.take(value, 1),
            [Datum::Null] => {}
            _ => return Err(super::misplaced(arguments)),
        }
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        if let [Datum::Numeric(value)] = arguments {
            self.take(value, -1);
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        let total = self.count + self.nan_count + self.infinity_count + self.negative_infinity_count;
        if total == 0 || total == 1 && self.statistic.is_of_sample() {
            return Ok(Datum::Null);
        }
        if let Some(special) = self.special() {
            let special = if self.statistic.needs_squares() { Numeric::NotANumber } else { special };
            return Ok(Datum::Numeric(Arc::new(special)));
        }
        let (digits, scale) = self.scaled_sum();
        if self.statistic.needs_squares() {
            let squares = &self.squares.digits / power_of_ten(self.squares.scale - scale * 2);
            return variance(self.statistic, self.count, &digits, &squares, scale);
        }
        let sum = numeric::checked(Numeric::Finite { digits, scale })?;
        let count = Numeric::Finite { digits: BigInt::from(self.count), scale: 0 };
        Ok(Datum::Numeric(Arc::new(match self.statistic {
            Statistic::Average => numeric::div(&sum, &count)?,
            _ => sum,
        })))
    }

    fn memory_bytes(&self) -> usize {
        let digits = self.sum.digits.bits() + self.squares.digits.bits();
        size_of::<Self>()
            + usize::try_from(digits / 8).unwrap_or(usize::MAX / 2)
            + self.scale_counts.len() * 16
    }
}

/// A variance or its root, of `count` values with these sums: `sum * 10^-scale` and `squares * 10^-2*scale`.
///
/// # Errors
/// `22003` if the result has too many digits.
pub(super) fn variance(
    statistic: Statistic,
    count: i64,
    sum: &BigInt,
    squares: &BigInt,
    scale: u32,
) -> SqlResult<Datum> {
    if count == 0 || count == 1 && statistic.is_of_sample() {
        return Ok(Datum::Null);
    }
    let count = BigInt::from(count);
    let numerator = &count * squares - sum * sum;
    if !numerator.is_positive() {
        return Ok(Datum::Numeric(Arc::new(Numeric::Finite { digits: BigInt::zero(), scale: 0 })));
    }
    let denominator = if statistic.is_of_sample() { &count * (&count - 1) } else { &count * &count };
    let numerator = Numeric::Finite { digits: numerator, scale: scale * 2 };
    let variance = numeric::div(&numerator, &Numeric::Finite { digits: denominator, scale: 0 })?;
    let result = if statistic.is_deviation() { square_root(&variance) } else { variance };
    Ok(Datum::Numeric(Arc::new(result)))
}

/// The square root with as many digits after the point as the argument has, rounded.
fn square_root(value: &Numeric) -> Numeric {
    let Numeric::Finite { digits, scale } = value else { return value.clone() };
    // One digit more than wanted, for rounding.
    let root = (digits * power_of_ten(scale + 2)).sqrt();
    Numeric::Finite { digits: (root + 5) / 10, scale: *scale }
}
