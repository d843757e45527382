//! `sum` and `avg` of intervals.

use num_traits::ToPrimitive;

use super::{Accumulator, Table};
use crate::date_time::interval::{add, overflow, scaled, subtract};
use crate::datum::{Datum, Interval};
use crate::error::SqlResult;
use crate::oid;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("sum", &[oid::INTERVAL], |_, _| Box::new(Sum { is_average: false, count: 0, sum: Interval::default() })),
    ("avg", &[oid::INTERVAL], |_, _| Box::new(Sum { is_average: true, count: 0, sum: Interval::default() })),
];

struct Sum {
    is_average: bool,
    count: i64,
    sum: Interval,
}

impl Accumulator for Sum {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Interval(value)] => {
                self.sum = add(&self.sum, value).ok_or_else(overflow)?;
                self.count += 1;
                Ok(())
            }
            [Datum::Null] => Ok(()),
            _ => Err(super::misplaced(arguments)),
        }
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        if let [Datum::Interval(value)] = arguments {
            self.sum = subtract(&self.sum, value).ok_or_else(overflow)?;
            self.count -= 1;
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        if self.is_average {
            let count = self.count.to_f64().unwrap_or(1.0);
            return scaled(&self.sum, |part| part / count).map(Datum::Interval);
        }
        Ok(Datum::Interval(self.sum))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The interval at `share` of the way from `low` to `high`.
///
/// # Errors
/// As `scaled`.
pub(super) fn between(low: &Interval, high: &Interval, share: f64) -> SqlResult<Interval> {
    let difference = subtract(high, low).ok_or_else(overflow)?;
    add(low, &scaled(&difference, |part| part * share)?).ok_or_else(overflow)
}
