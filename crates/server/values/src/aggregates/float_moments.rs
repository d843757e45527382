//! `sum`, `avg` and variances over floating-point numbers, by the method of Youngs and Cramer: PostgreSQL's steps in PostgreSQL's
//! order, so that the last digit is the same.

use super::{Accumulator, Table};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid;
use crate::settings::Settings;

macro_rules! table {
    ($($name:literal = $statistic:ident,)*) => {
        &[
            ("sum", &[oid::FLOAT4], |_, _| Box::new(Sum4 { sum: None })),
            ("sum", &[oid::FLOAT8], |_, _| Box::new(Sum8 { sum: None })),
            $(
                ($name, &[oid::FLOAT4], |_, _| Box::new(Moments::new(Statistic::$statistic))),
                ($name, &[oid::FLOAT8], |_, _| Box::new(Moments::new(Statistic::$statistic))),
            )*
        ]
    };
}

pub(super) const TABLE: Table = table! {
    "avg" = Average,
    "variance" = VarianceOfSample,
    "var_samp" = VarianceOfSample,
    "var_pop" = VarianceOfPopulation,
    "stddev" = DeviationOfSample,
    "stddev_samp" = DeviationOfSample,
    "stddev_pop" = DeviationOfPopulation,
};

/// `22003`, as PostgreSQL says it of floating-point numbers.
#[cold]
pub(super) fn overflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

struct Sum4 {
    sum: Option<f32>,
}

impl Accumulator for Sum4 {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Float4(value)] => {
                let before = self.sum.unwrap_or(0.0);
                let sum = self.sum.map_or(*value, |sum| sum + value);
                if sum.is_infinite() && !before.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.sum = Some(sum);
                Ok(())
            }
            [Datum::Null] => Ok(()),
            _ => Err(super::misplaced(arguments)),
        }
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.sum.map_or(Datum::Null, Datum::Float4))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

struct Sum8 {
    sum: Option<f64>,
}

impl Accumulator for Sum8 {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Float8(value)] => {
                let before = self.sum.unwrap_or(0.0);
                let sum = self.sum.map_or(*value, |sum| sum + value);
                if sum.is_infinite() && !before.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.sum = Some(sum);
                Ok(())
            }
            [Datum::Null] => Ok(()),
            _ => Err(super::misplaced(arguments)),
        }
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.sum.map_or(Datum::Null, Datum::Float8))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[derive(Clone, Copy)]
enum Statistic {
    Average,
    VarianceOfSample,
    VarianceOfPopulation,
    DeviationOfSample,
    DeviationOfPopulation,
}

struct Moments {
    statistic: Statistic,
    count: f64,
    sum: f64,
    /// The sum of squares of differences from the mean.
    squares: f64,
}

impl Moments {
    fn new(statistic: Statistic) -> Moments {
        Moments { statistic, count: 0.0, sum: 0.0, squares: 0.0 }
    }

    fn take(&mut self, value: f64) -> SqlResult<()> {
        let (count, sum) = (self.count + 1.0, self.sum + value);
        if self.count > 0.0 {
            let difference = value * count - sum;
            let squares = self.squares + difference * difference / (count * self.count);
            if sum.is_infinite() || squares.is_infinite() {
                if !self.sum.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            } else {
                self.squares = squares;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        (self.count, self.sum) = (count, sum);
        Ok(())
    }
}

impl Accumulator for Moments {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Float4(value)] => self.take(f64::from(*value)),
            [Datum::Float8(value)] => self.take(*value),
            [Datum::Null] => Ok(()),
            _ => Err(super::misplaced(arguments)),
        }
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        let least = match self.statistic {
            Statistic::VarianceOfSample | Statistic::DeviationOfSample => 2.0,
            Statistic::Average | Statistic::VarianceOfPopulation | Statistic::DeviationOfPopulation => 1.0,
        };
        if self.count < least {
            return Ok(Datum::Null);
        }
        Ok(Datum::Float8(match self.statistic {
            Statistic::Average => self.sum / self.count,
            Statistic::VarianceOfSample => self.squares / (self.count - 1.0),
            Statistic::VarianceOfPopulation => self.squares / self.count,
            Statistic::DeviationOfSample => (self.squares / (self.count - 1.0)).sqrt(),
            Statistic::DeviationOfPopulation => (self.squares / self.count).sqrt(),
        }))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
