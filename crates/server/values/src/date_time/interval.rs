//! Arithmetic of intervals.

use num_traits::ToPrimitive;

use super::{DAY, MONTH_DAYS, out_of_range};
use crate::datum::Interval;
use crate::error::{SqlError, SqlResult};

/// `22008`: the result does not fit.
#[cold]
pub(crate) fn overflow() -> Box<SqlError> {
    out_of_range("interval")
}

/// The length by which intervals are compared: a month has 30 days, a day 24 hours.
pub(crate) fn length(interval: &Interval) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY) + i128::from(interval.micros)
}

/// The sum of two intervals, part by part, unless a part does not fit.
pub(crate) fn add(left: &Interval, right: &Interval) -> Option<Interval> {
    Some(Interval {
        months: left.months.checked_add(right.months)?,
        days: left.days.checked_add(right.days)?,
        micros: left.micros.checked_add(right.micros)?,
    })
}

/// The difference of two intervals, part by part, unless a part does not fit.
pub(crate) fn subtract(left: &Interval, right: &Interval) -> Option<Interval> {
    Some(Interval {
        months: left.months.checked_sub(right.months)?,
        days: left.days.checked_sub(right.days)?,
        micros: left.micros.checked_sub(right.micros)?,
    })
}

/// The interval with the signs of its parts changed, unless a part does not fit.
pub(crate) fn negate(interval: &Interval) -> Option<Interval> {
    subtract(&Interval::default(), interval)
}

/// An interval with each part put through `by`, a multiplication or a division: what is left of a month becomes days, what is left of a
/// day becomes time. The steps, in floating point, are PostgreSQL's.
///
/// # Errors
/// `22008` if a part does not fit.
pub(crate) fn scaled(interval: &Interval, by: impl Fn(f64) -> f64) -> SqlResult<Interval> {
    const DAY_SECONDS: f64 = 86_400.0;
    let months = by(f64::from(interval.months));
    let days = by(f64::from(interval.days));
    let rest_days = to_micros((months - months.trunc()) * 30.0);
    let mut seconds = to_micros((days - days.trunc() + rest_days - rest_days.trunc()) * DAY_SECONDS);
    let mut whole_days = days.trunc() + rest_days.trunc();
    if seconds.abs() >= DAY_SECONDS {
        whole_days += (seconds / DAY_SECONDS).trunc();
        seconds -= (seconds / DAY_SECONDS).trunc() * DAY_SECONDS;
    }
    let micros = (by(interval.micros.to_f64().unwrap_or(0.0)) + seconds * 1e6).round_ties_even();
    let parts = (months.trunc().to_i32(), whole_days.to_i32(), micros.to_i64());
    let (Some(months), Some(days), Some(micros)) = parts else { return Err(overflow()) };
    Ok(Interval { months, days, micros })
}

/// A number rounded to six digits after the point.
fn to_micros(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// Parts in wide integers, so that whole units can move between them.
#[derive(Clone, Copy)]
struct Parts {
    months: i64,
    days: i64,
    micros: i64,
}

impl Parts {
    fn of(interval: &Interval) -> Parts {
        Parts { months: interval.months.into(), days: interval.days.into(), micros: interval.micros }
    }

    fn interval(self) -> SqlResult<Interval> {
        match (i32::try_from(self.months), i32::try_from(self.days)) {
            (Ok(months), Ok(days)) => Ok(Interval { months, days, micros: self.micros }),
            _ => Err(overflow()),
        }
    }

    fn whole_days(&mut self) {
        self.days += self.micros / DAY;
        self.micros %= DAY;
    }

    fn whole_months(&mut self) {
        self.months += self.days / MONTH_DAYS;
        self.days %= MONTH_DAYS;
    }

    /// Gives the time the sign of the days.
    fn align_time(&mut self) {
        if self.days > 0 && self.micros < 0 {
            self.micros += DAY;
            self.days -= 1;
        } else if self.days < 0 && self.micros > 0 {
            self.micros -= DAY;
            self.days += 1;
        }
    }

    /// Gives the days, or else the time, the sign of the months.
    fn align_days(&mut self) {
        let rest = if self.days == 0 { self.micros } else { self.days };
        if self.months > 0 && rest < 0 {
            self.days += MONTH_DAYS;
            self.months -= 1;
        } else if self.months < 0 && rest > 0 {
            self.days -= MONTH_DAYS;
            self.months += 1;
        }
    }
}

/// 24 hours become a day.
///
/// # Errors
/// `22008` if the days do not fit.
pub(crate) fn justify_hours(interval: &Interval) -> SqlResult<Interval> {
    let mut parts = Parts::of(interval);
    parts.whole_days();
    parts.align_time();
    parts.interval()
}

/// 30 days become a month.
///
/// # Errors
/// `22008` if the months do not fit.
pub(crate) fn justify_days(interval: &Interval) -> SqlResult<Interval> {
    let mut parts = Parts::of(interval);
    parts.whole_months();
    if parts.months > 0 && parts.days < 0 {
        parts.days += MONTH_DAYS;
        parts.months -= 1;
    } else if parts.months < 0 && parts.days > 0 {
        parts.days -= MONTH_DAYS;
        parts.months += 1;
    }
    parts.interval()
}

/// Both, and one sign for all parts.
///
/// # Errors
/// `22008` if the months do not fit.
pub(crate) fn justify(interval: &Interval) -> SqlResult<Interval> {
    let mut parts = Parts::of(interval);
    parts.whole_days();
    parts.whole_months();
    parts.align_days();
    parts.align_time();
    parts.interval()
}
