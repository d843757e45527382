//! `generate_series`: numbers and moments from a start to a stop.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Rows, Table, values};
use crate::datum::{Datum, Interval, Numeric, TypeReference};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{Call, arguments, implementation};
use crate::settings::Settings;
use crate::{numeric, oid, order};

pub(super) const TABLE: Table = &[
    ("generate_series_int4", integers),
    ("generate_series_step_int4", integers),
    ("generate_series_int8", integers),
    ("generate_series_step_int8", integers),
    ("generate_series_numeric", numbers),
    ("generate_series_step_numeric", numbers),
    ("generate_series_timestamp", |call| moments(call, "timestamp_pl_interval")),
    ("generate_series_timestamptz", |call| moments(call, "timestamptz_pl_interval")),
];

#[cold]
fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cold]
fn zero_step() -> Box<SqlError> {
    invalid("step size cannot equal zero")
}

fn integers(call: &Call<'_>) -> SqlResult<Rows> {
    match *call.arguments {
        [Datum::Int4(start), Datum::Int4(stop)] => Ok(values((start..=stop).map(Datum::Int4))),
        [Datum::Int8(start), Datum::Int8(stop)] => Ok(values((start..=stop).map(Datum::Int8))),
        [Datum::Int4(start), Datum::Int4(stop), Datum::Int4(step)] => {
            // A number past the stop ends the series, so all that are given fit.
            let number = move |value: i64| Datum::Int4(i32::try_from(value).unwrap_or(stop));
            Ok(values(stepped(start.into(), stop.into(), step.into())?.map(number)))
        }
        [Datum::Int8(start), Datum::Int8(stop), Datum::Int8(step)] => {
            Ok(values(stepped(start, stop, step)?.map(Datum::Int8)))
        }
        _ => Err(arguments::mismatch(call)),
    }
}

/// Numbers from a start up or down to a stop. An overflow ends them.
fn stepped(start: i64, stop: i64, step: i64) -> SqlResult<impl Iterator<Item = i64> + Send> {
    if step == 0 {
        return Err(zero_step());
    }
    let is_within = move |value: &i64| if step > 0 { *value <= stop } else { *value >= stop };
    Ok(std::iter::successors(Some(start), move |value| value.checked_add(step)).take_while(is_within))
}

/// A bound of a series of numbers.
fn finite(value: &Datum, what: &str) -> SqlResult<Arc<Numeric>> {
    match value {
        Datum::Numeric(number) => match number.as_ref() {
            Numeric::Finite { .. } => Ok(Arc::clone(number)),
            Numeric::NotANumber => Err(invalid(format!("{what} cannot be NaN"))),
            Numeric::PositiveInfinity | Numeric::NegativeInfinity => {
                Err(invalid(format!("{what} cannot be infinity")))
            }
        },
        _ => Err(SqlError::internal("a bound of a series is no number")),
    }
}

fn numbers(call: &Call<'_>) -> SqlResult<Rows> {
    let (start, stop, step) = match call.arguments {
        [start, stop] => (start, stop, None),
        [start, stop, step] => (start, stop, Some(step)),
        _ => return Err(arguments::mismatch(call)),
    };
    let (start, stop) = (finite(start, "start value")?, finite(stop, "stop value")?);
    let zero = Numeric::Finite { digits: 0.into(), scale: 0 };
    let one = Arc::new(Numeric::Finite { digits: 1.into(), scale: 0 });
    let step = step.map_or(Ok(one), |step| finite(step, "step size"))?;
    let direction = step.compare(&zero);
    if direction == Ordering::Equal {
        return Err(zero_step());
    }
    Ok(Box::new(Series {
        next: Some(Datum::Numeric(start)),
        stop: Datum::Numeric(stop),
        direction,
        add: move |value: &Datum| match value {
            Datum::Numeric(value) => numeric::add(value, &step).map(|sum| Datum::Numeric(Arc::new(sum))),
            _ => Err(SqlError::internal("a value of a series is no number")),
        },
    }))
}

/// Moments and the interval between them: the addition is that of the operator, whose source is `addition`.
fn moments(call: &Call<'_>, addition: &'static str) -> SqlResult<Rows> {
    let [start, stop, Datum::Interval(step)] = call.arguments else {
        return Err(arguments::mismatch(call));
    };
    let zero = Datum::Interval(Interval::default());
    let direction = order::compare(&Datum::Interval(*step), &zero);
    if direction == Ordering::Equal {
        return Err(zero_step());
    }
    let add = implementation(addition).ok_or_else(|| SqlError::unsupported("generate_series of moments"))?;
    let of = call.argument_types.first().copied().ok_or_else(|| arguments::mismatch(call))?;
    let (step, settings): (Datum, Settings) = (Datum::Interval(*step), call.settings.clone());
    Ok(Box::new(Series {
        next: Some(start.clone()),
        stop: stop.clone(),
        direction,
        add: move |value: &Datum| {
            add(&Call {
                arguments: &[value.clone(), step.clone()],
                argument_types: &[of, TypeReference::of(oid::INTERVAL)],
                result_type: of,
                settings: &settings,
            })
        },
    }))
}

/// Values from a start to a stop.
struct Series<F> {
    next: Option<Datum>,
    stop: Datum,
    /// `Greater`: the values grow.
    direction: Ordering,
    add: F,
}

impl<F: Fn(&Datum) -> SqlResult<Datum>> Iterator for Series<F> {
    type Item = SqlResult<Vec<Datum>>;

    fn next(&mut self) -> Option<SqlResult<Vec<Datum>>> {
        let value = self.next.take()?;
        if order::compare(&value, &self.stop) == self.direction {
            return None;
        }
        match (self.add)(&value) {
            Ok(next) => self.next = Some(next),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(vec![value]))
    }
}
