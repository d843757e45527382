//! `sum`, `avg` and variances over integers: exact sums.

use super::numeric_moments::{Statistic, variance};
use super::{Accumulator, Table};
use crate::datum::{Datum, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric;
use crate::oid;
use crate::settings::Settings;
use num_bigint::BigInt;
use std::sync::Arc;

macro_rules! variances {
    ($($name:literal = $statistic:ident,)*) => {
        &[
            ("sum", &[oid::INT2], |_, _| Box::new(Sum::new(SumResult::Int8))),
            ("sum", &[oid::INT4], |_, _| Box::new(Sum::new(SumResult::Int8))),
            ("sum", &[oid::INT8], |_, _| Box::new(Sum::new(SumResult::Numeric))),
            ("avg", &[oid::INT2], |_, _| Box::new(Sum::new(SumResult::Average))),
            ("avg", &[oid::INT4], |_, _| Box::new(Sum::new(SumResult::Average))),
            ("avg", &[oid::INT8], |_, _| Box::new(Sum::new(SumResult::Average))),
            $(
                ($name, &[oid::INT2], |_, _| Box::new(Variance::new(Statistic::$statistic))),
                ($name, &[oid::INT4], |_, _| Box::new(Variance::new(Statistic::$statistic))),
                ($name, &[oid::INT8], |_, _| Box::new(Variance::new(Statistic::$statistic))),
            )*
        ]
    };
}

pub(super) const TABLE: Table = variances! {
    "variance" = VarianceOfSample,
    "var_samp" = VarianceOfSample,
    "var_pop" = VarianceOfPopulation,
    "stddev" = DeviationOfSample,
    "stddev_samp" = DeviationOfSample,
    "stddev_pop" = DeviationOfPopulation,
};

/// The integer of a row; none: null.
fn integer(arguments: &[Datum]) -> SqlResult<Option<i64>> {
    match arguments {
        [Datum::Int2(value)] => Ok(Some(i64::from(*value))),
        [Datum::Int4(value)] => Ok(Some(i64::from(*value))),
        [Datum::Int8(value)] => Ok(Some(*value)),
        [Datum::Null] => Ok(None),
        _ => Err(super::misplaced(arguments)),
    }
}

#[derive(Clone, Copy)]
enum SumResult {
    Int8,
    Numeric,
    Average,
}

struct Sum {
    wanted: SumResult,
    count: i64,
    /// No number of rows that fits into `count` makes it overflow.
    sum: i128,
}

impl Sum {
    fn new(wanted: SumResult) -> Sum {
        Sum { wanted, count: 0, sum: 0 }
    }
}

impl Accumulator for Sum {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        if let Some(value) = integer(arguments)? {
            self.sum += i128::from(value);
            self.count += 1;
        }
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        if let Some(value) = integer(arguments)? {
            self.sum -= i128::from(value);
            self.count -= 1;
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let sum = || Numeric::Finite { digits: BigInt::from(self.sum), scale: 0 };
        Ok(match self.wanted {
            SumResult::Int8 => {
                Datum::Int8(i64::try_from(self.sum).map_err(|_| {
                    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")
                })?)
            }
            SumResult::Numeric => Datum::Numeric(Arc::new(sum())),
            SumResult::Average => {
                let count = Numeric::Finite { digits: BigInt::from(self.count), scale: 0 };
                Datum::Numeric(Arc::new(numeric::div(&sum(), &count)?))
            }
        })
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

struct Variance {
    statistic: Statistic,
    count: i64,
    sum: i128,
    squares: BigInt,
    /// Squares not yet in `squares`, which are slower to add to.
    recent_squares: u128,
}

impl Variance {
    fn new(statistic: Statistic) -> Variance {
        Variance { statistic, count: 0, sum: 0, squares: BigInt::ZERO, recent_squares: 0 }
    }

    fn flush(&mut self) {
        self.squares += self.recent_squares;
        self.recent_squares = 0;
    }
}

/// Above this a square might overflow: one is at most 2^126.
const RECENT_SQUARES_MAX: u128 = 1 << 127;

impl Accumulator for Variance {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        if let Some(value) = integer(arguments)? {
            self.count += 1;
            self.sum += i128::from(value);
            let magnitude = u128::from(value.unsigned_abs());
            self.recent_squares += magnitude * magnitude;
            if self.recent_squares >= RECENT_SQUARES_MAX {
                self.flush();
            }
        }
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        if let Some(value) = integer(arguments)? {
            self.count -= 1;
            self.sum -= i128::from(value);
            let magnitude = u128::from(value.unsigned_abs());
            self.flush();
            self.squares -= magnitude * magnitude;
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        let squares = &self.squares + self.recent_squares;
        variance(self.statistic, self.count, &BigInt::from(self.sum), &squares, 0)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + 64
    }
}
