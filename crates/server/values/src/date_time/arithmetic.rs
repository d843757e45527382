//! Sums and differences of dates, times, timestamps and intervals, and the conversions between them.

use super::calendar::{self, Fields, TIMESTAMP_END, julian_of_date, month_days, split};
use super::interval::{justify_hours, overflow};
use super::{
    DATE_INFINITY, DATE_MINUS_INFINITY, DAY, SECOND, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY, is_finite,
    is_finite_date, out_of_range, zone,
};
use crate::datum::Interval;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::TimeZone;

/// Whether an interval is added or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Add,
    Subtract,
}

impl Direction {
    fn sign(self) -> i64 {
        match self {
            Direction::Add => 1,
            Direction::Subtract => -1,
        }
    }
}

/// `22008`: infinities have no difference.
#[cold]
fn cannot_subtract(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("cannot subtract infinite {what}"))
}

/// A date some days later.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn add_days(date: i32, days: i64) -> SqlResult<i32> {
    if !is_finite_date(date) {
        return Ok(date);
    }
    calendar::date_of_julian(julian_of_date(date) + days).ok_or_else(|| out_of_range("date"))
}

/// The days between two dates.
///
/// # Errors
/// `22008` for infinities.
pub(crate) fn days_between(left: i32, right: i32) -> SqlResult<i32> {
    if !is_finite_date(left) || !is_finite_date(right) {
        return Err(cannot_subtract("dates"));
    }
    left.checked_sub(right).ok_or_else(|| out_of_range("date"))
}

/// Midnight of a date.
///
/// # Errors
/// `22008` if the date is after the last timestamp.
pub(crate) fn midnight(date: i32) -> SqlResult<i64> {
    match date {
        DATE_MINUS_INFINITY => Ok(TIMESTAMP_MINUS_INFINITY),
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        _ => Some(i64::from(date))
            .filter(|days| *days < TIMESTAMP_END / DAY)
            .map(|days| days * DAY)
            .ok_or_else(|| out_of_range_for_timestamp("date")),
    }
}

#[cold]
fn out_of_range_for_timestamp(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range for timestamp"))
}

/// Midnight of a date in a zone.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn midnight_in(date: i32, zone: TimeZone) -> SqlResult<i64> {
    let local = midnight(date)?;
    if !is_finite(local) {
        return Ok(local);
    }
    zone::to_utc(local, zone).map_err(|_| out_of_range_for_timestamp("date"))
}

/// A place in the order of timestamps for a date: one after the last timestamp is before infinity.
pub(crate) fn order_of_date(date: i32, zone: Option<TimeZone>) -> i64 {
    let local = match midnight(date) {
        Ok(local) if is_finite(local) => local,
        Ok(infinity) => return infinity,
        Err(_) => return TIMESTAMP_INFINITY - 1,
    };
    zone.map_or(local, |zone| order_of_local(local, zone))
}

/// A place in the order of timestamps with zone for one without.
pub(crate) fn order_of_local(local: i64, zone: TimeZone) -> i64 {
    if !is_finite(local) {
        return local;
    }
    let outside = if local < 0 { TIMESTAMP_MINUS_INFINITY + 1 } else { TIMESTAMP_INFINITY - 1 };
    zone::to_utc(local, zone).unwrap_or(outside)
}

/// A timestamp without a zone as one with a zone.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn to_utc(local: i64, zone: TimeZone) -> SqlResult<i64> {
    if is_finite(local) { zone::to_utc(local, zone) } else { Ok(local) }
}

/// A timestamp with a zone as the local time of a zone.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn to_local(utc: i64, zone: TimeZone) -> SqlResult<i64> {
    if is_finite(utc) { checked(zone::to_local(utc, zone).0) } else { Ok(utc) }
}

/// The sum of a date and a time of day.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn at_time(date: i32, micros: i64) -> SqlResult<i64> {
    let midnight = midnight(date)?;
    if !is_finite(midnight) {
        return Ok(midnight);
    }
    checked(midnight.saturating_add(micros))
}

/// The sum of a date and a time of day with a zone in seconds west.
///
/// # Errors
/// `22008` if it cannot be represented.
pub(crate) fn at_time_in(date: i32, micros: i64, west: i32) -> SqlResult<i64> {
    let midnight = midnight(date)?;
    if !is_finite(midnight) {
        return Ok(midnight);
    }
    let utc = i128::from(midnight) + i128::from(micros) + i128::from(west) * i128::from(SECOND);
    calendar::checked(utc).ok_or_else(|| out_of_range_for_timestamp("date"))
}

fn checked(timestamp: i64) -> SqlResult<i64> {
    calendar::checked(timestamp.into()).ok_or_else(|| out_of_range("timestamp"))
}

/// A time of day and the time of an interval, around the clock.
pub(crate) fn shift_time(micros: i64, interval: &Interval, direction: Direction) -> i64 {
    let shift = interval.micros % DAY * direction.sign();
    (micros + shift).rem_euclid(DAY)
}

/// The time between two timestamps, in days and less.
///
/// # Errors
/// `22008` for infinities.
pub(crate) fn between(left: i64, right: i64) -> SqlResult<Interval> {
    if !is_finite(left) || !is_finite(right) {
        return Err(cannot_subtract("timestamps"));
    }
    let micros = left.checked_sub(right).ok_or_else(overflow)?;
    justify_hours(&Interval { months: 0, days: 0, micros })
}

/// A timestamp and an interval: first the months, at the end of shorter months, then the days, then the time.
///
/// # Errors
/// `22008` if the result cannot be represented.
pub(crate) fn shift(timestamp: i64, interval: &Interval, direction: Direction) -> SqlResult<i64> {
    if !is_finite(timestamp) {
        return Ok(timestamp);
    }
    let moved = shift_date(timestamp, interval, direction)?;
    shift_clock(moved, interval, direction)
}

/// The same for a timestamp with a zone: months and days are those of the zone's calendar, so a day may have 23 or 25 hours.
///
/// # Errors
/// `22008` if the result cannot be represented.
pub(crate) fn shift_in(
    timestamp: i64,
    interval: &Interval,
    direction: Direction,
    zone: TimeZone,
) -> SqlResult<i64> {
    if !is_finite(timestamp) {
        return Ok(timestamp);
    }
    let mut moved = timestamp;
    // Each of the two steps ends with a time that the zone's clocks show.
    for part in [Interval { days: 0, ..*interval }, Interval { months: 0, ..*interval }] {
        if part.months != 0 || part.days != 0 {
            let (local, _) = zone::to_local(moved, zone);
            moved = zone::to_utc(shift_date(local, &part, direction)?, zone)?;
        }
    }
    shift_clock(moved, interval, direction)
}

fn shift_clock(timestamp: i64, interval: &Interval, direction: Direction) -> SqlResult<i64> {
    let moved = match direction {
        Direction::Add => timestamp.checked_add(interval.micros),
        Direction::Subtract => timestamp.checked_sub(interval.micros),
    };
    checked(moved.ok_or_else(|| out_of_range("timestamp"))?)
}

fn shift_date(timestamp: i64, interval: &Interval, direction: Direction) -> SqlResult<i64> {
    let mut moved = timestamp;
    if interval.months != 0 {
        let fields = split(moved);
        let months = fields.year * 12 + fields.month - 1 + i64::from(interval.months) * direction.sign();
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let day = fields.day.min(month_days(year, month));
        let fields = Fields { year, month, day, ..fields };
        moved = fields.timestamp().ok_or_else(|| out_of_range("timestamp"))?;
    }
    if interval.days != 0 {
        let days = i128::from(interval.days) * i128::from(direction.sign());
        let micros = i128::from(moved) + days * i128::from(DAY);
        moved = calendar::checked(micros).ok_or_else(|| out_of_range("timestamp"))?;
    }
    Ok(moved)
}

/// The years, months, days and time from one timestamp to another, as people count their age.
///
/// # Errors
/// `22008` for infinities.
pub(crate) fn age(left: i64, right: i64) -> SqlResult<Interval> {
    if !is_finite(left) || !is_finite(right) {
        return Err(out_of_range("timestamp"));
    }
    let is_negative = left < right;
    let (later, earlier) = if is_negative { (right, left) } else { (left, right) };
    let (until, since) = (split(later), split(earlier));
    let mut micros = until.time() - since.time();
    let mut days = until.day - since.day;
    let mut months = (until.year - since.year) * 12 + until.month - since.month;
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    if days < 0 {
        // Days are borrowed from the month in which the earlier timestamp is.
        days += month_days(since.year, since.month);
        months -= 1;
    }
    let sign = if is_negative { -1 } else { 1 };
    match (i32::try_from(months * sign), i32::try_from(days * sign)) {
        (Ok(months), Ok(days)) => Ok(Interval { months, days, micros: micros * sign }),
        _ => Err(overflow()),
    }
}
