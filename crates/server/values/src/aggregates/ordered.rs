//! `percentile_cont`, `percentile_disc` and `mode`: values come in the order of `WITHIN GROUP`, fractions before them.

use std::sync::Arc;

use num_traits::ToPrimitive;

use super::{Accumulator, Table, intervals};
use crate::datum::{Array, Datum, TypeReference};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::{self, Oid};
use crate::order;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("percentile_cont", &[oid::FLOAT8, oid::FLOAT8], |types, _| continuous(types)),
    ("percentile_cont", &[oid::FLOAT8, oid::INTERVAL], |types, _| continuous(types)),
    ("percentile_cont", &[oid::FLOAT8_ARRAY, oid::FLOAT8], |types, _| continuous(types)),
    ("percentile_cont", &[oid::FLOAT8_ARRAY, oid::INTERVAL], |types, _| continuous(types)),
    ("percentile_disc", &[oid::FLOAT8, oid::ANYELEMENT], |types, _| discrete(types)),
    ("percentile_disc", &[oid::FLOAT8_ARRAY, oid::ANYELEMENT], |types, _| discrete(types)),
    ("mode", &[oid::ANYELEMENT], |_, _| Box::new(Mode::default())),
];

fn continuous(types: &[TypeReference]) -> Box<dyn Accumulator> {
    Box::new(Percentile::new(types, interpolated))
}

fn discrete(types: &[TypeReference]) -> Box<dyn Accumulator> {
    Box::new(Percentile::new(types, at_least))
}

/// Chooses the value at a fraction of sorted values, of which there is one at least.
type Choose = fn(&[Datum], f64) -> SqlResult<Datum>;

struct Percentile {
    choose: Choose,
    element: Oid,
    fraction: Datum,
    values: Vec<Datum>,
    heap_bytes: usize,
}

impl Percentile {
    fn new(types: &[TypeReference], choose: Choose) -> Percentile {
        let element = types.last().map_or(oid::FLOAT8, |last| last.oid);
        Percentile { choose, element, fraction: Datum::Null, values: Vec::new(), heap_bytes: 0 }
    }

    fn at(&self, fraction: &Datum) -> SqlResult<Datum> {
        match fraction {
            Datum::Float8(fraction) if !(0.0..=1.0).contains(fraction) => Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("percentile value {fraction} is not between 0 and 1"),
            )),
            Datum::Float8(fraction) => (self.choose)(&self.values, *fraction),
            _ => Ok(Datum::Null),
        }
    }
}

impl Accumulator for Percentile {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let [fraction, value] = arguments else { return Err(super::misplaced(arguments)) };
        if self.fraction.is_null() {
            self.fraction = fraction.clone();
        }
        if !value.is_null() {
            self.heap_bytes += value.memory_bytes();
            self.values.push(value.clone());
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        match &self.fraction {
            _ if self.values.is_empty() => Ok(Datum::Null),
            Datum::Array(fractions) => {
                let values = fractions.values.iter().map(|fraction| self.at(fraction));
                Ok(Datum::Array(Arc::new(Array {
                    element: self.element,
                    dimensions: fractions.dimensions.clone(),
                    values: values.collect::<SqlResult<_>>()?,
                })))
            }
            fraction => self.at(fraction),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes
    }
}

/// The first value at or after the fraction.
fn at_least(values: &[Datum], fraction: f64) -> SqlResult<Datum> {
    let row = (fraction * count(values)).ceil().max(1.0);
    Ok(value_at(values, row - 1.0))
}

/// The value at the fraction, between two rows if no row is just there.
fn interpolated(values: &[Datum], fraction: f64) -> SqlResult<Datum> {
    let place = fraction * (count(values) - 1.0);
    let (low, high) = (value_at(values, place.floor()), value_at(values, place.ceil()));
    let share = place - place.floor();
    match (&low, &high) {
        _ if share == 0.0 => Ok(low),
        (Datum::Float8(low), Datum::Float8(high)) => Ok(Datum::Float8(low + share * (high - low))),
        (Datum::Interval(low), Datum::Interval(high)) => {
            intervals::between(low, high, share).map(Datum::Interval)
        }
        _ => Err(super::misplaced(&[low, high])),
    }
}

fn count(values: &[Datum]) -> f64 {
    values.len().to_f64().unwrap_or(f64::MAX)
}

fn value_at(values: &[Datum], place: f64) -> Datum {
    place.to_usize().and_then(|place| values.get(place)).cloned().unwrap_or_default()
}

/// The most frequent value; of several the first.
#[derive(Default)]
struct Mode {
    best: Datum,
    best_count: u64,
    last: Datum,
    last_count: u64,
}

impl Accumulator for Mode {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let [value] = arguments else { return Err(super::misplaced(arguments)) };
        if value.is_null() {
            return Ok(());
        }
        if self.last_count > 0 && order::is_equal(&self.last, value) {
            self.last_count += 1;
        } else {
            self.last = value.clone();
            self.last_count = 1;
        }
        if self.last_count > self.best_count {
            self.best = self.last.clone();
            self.best_count = self.last_count;
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.best.clone())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.best.memory_bytes() + self.last.memory_bytes()
    }
}
