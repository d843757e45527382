//! Values without their smaller parts: `date_trunc`, and the start of the bin that a timestamp is in.

use super::calendar::{EPOCH_JULIAN, Fields, split, weekday};
use super::extract::{unrecognized, unsupported};
use super::interval_output::Parts;
use super::words::{self, Unit};
use super::{DAY, HOUR, MINUTE, SECOND, YEAR_MONTHS, is_finite, out_of_range, zone};
use crate::datum::Interval;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::TimeZone;

fn unit(name: &str, type_name: &str) -> SqlResult<Unit> {
    words::interval_unit(name).ok_or_else(|| unrecognized(name, type_name))
}

/// A timestamp without the parts smaller than a unit.
///
/// # Errors
/// `22023` if there is no such unit, `0A000` if timestamps do not have it.
pub(crate) fn timestamp(name: &str, timestamp: i64) -> SqlResult<i64> {
    if !is_finite(timestamp) {
        return Ok(timestamp);
    }
    const TYPE_NAME: &str = "timestamp without time zone";
    local(name, unit(name, TYPE_NAME)?, timestamp, TYPE_NAME)
}

/// The same in a zone.
///
/// # Errors
/// As `timestamp`.
pub(crate) fn timestamptz(name: &str, utc: i64, zone: TimeZone) -> SqlResult<i64> {
    if !is_finite(utc) {
        return Ok(utc);
    }
    const TYPE_NAME: &str = "timestamp with time zone";
    let unit = unit(name, TYPE_NAME)?;
    let (shown, offset) = zone::to_local(utc, zone);
    let start = local(name, unit, shown, TYPE_NAME)?;
    if micros_of(unit).is_some() {
        // Within an hour the offset is the same: of a time that clocks show twice, it is the same one.
        return Ok(start - offset.east * SECOND);
    }
    zone::to_utc(start, zone)
}

/// The length of a unit that divides a day.
fn micros_of(unit: Unit) -> Option<i64> {
    match unit {
        Unit::Microsecond => Some(1),
        Unit::Millisecond => Some(1_000),
        Unit::Second => Some(SECOND),
        Unit::Minute => Some(MINUTE),
        Unit::Hour => Some(HOUR),
        _ => None,
    }
}

fn local(name: &str, unit: Unit, timestamp: i64, type_name: &str) -> SqlResult<i64> {
    if let Some(micros) = micros_of(unit) {
        return Ok(timestamp - timestamp.rem_euclid(micros));
    }
    let midnight = timestamp - timestamp.rem_euclid(DAY);
    let Fields { year, month, .. } = split(timestamp);
    let (year, month) = match unit {
        Unit::Day => return Ok(midnight),
        Unit::Week => {
            let days_since_monday = (weekday(midnight / DAY + EPOCH_JULIAN) + 6) % 7;
            let monday = midnight - days_since_monday * DAY;
            return if is_valid(monday) { Ok(monday) } else { Err(out_of_range("timestamp")) };
        }
        Unit::Month => (year, month),
        Unit::Quarter => (year, (month - 1) / 3 * 3 + 1),
        Unit::Year => (year, 1),
        Unit::Decade => (year.div_euclid(10) * 10, 1),
        Unit::Century => (first_year(year, 100), 1),
        Unit::Millennium => (first_year(year, 1_000), 1),
        _ => return Err(unsupported(name, type_name)),
    };
    Fields { year, month, day: 1, ..Fields::default() }.timestamp().ok_or_else(|| out_of_range("timestamp"))
}

fn is_valid(timestamp: i64) -> bool {
    super::calendar::checked(timestamp.into()).is_some()
}

/// The first year of a century or millennium: 2001, and 100 BC.
fn first_year(year: i64, years: i64) -> i64 {
    (year - 1).div_euclid(years) * years + 1
}

/// An interval without the parts smaller than a unit.
///
/// # Errors
/// As `timestamp`.
pub(crate) fn interval(name: &str, interval: &Interval) -> SqlResult<Interval> {
    const TYPE_NAME: &str = "interval";
    let unit = unit(name, TYPE_NAME)?;
    let Interval { months, days, micros } = *interval;
    if let Some(length) = micros_of(unit) {
        return Ok(Interval { months, days, micros: micros / length * length });
    }
    let years = i32::try_from(Parts::of(interval).years * YEAR_MONTHS).unwrap_or(months);
    let months = match unit {
        Unit::Day => return Ok(Interval { months, days, micros: 0 }),
        Unit::Month => months,
        Unit::Quarter => months / 3 * 3,
        Unit::Year => years,
        Unit::Decade => months / 120 * 120,
        Unit::Century => months / 1_200 * 1_200,
        Unit::Millennium => months / 12_000 * 12_000,
        Unit::Week => {
            return Err(unsupported(name, TYPE_NAME).with_detail("Months usually have fractional weeks."));
        }
        _ => return Err(unsupported(name, TYPE_NAME)),
    };
    Ok(Interval { months, days: 0, micros: 0 })
}

/// The start of the bin of a width, counted from an origin, that a timestamp is in.
///
/// # Errors
/// `22008` if the width is not positive, `0A000` if it has months.
pub(crate) fn bin(width: &Interval, timestamp: i64, origin: i64) -> SqlResult<i64> {
    if !is_finite(timestamp) {
        return Ok(timestamp);
    }
    if !is_finite(origin) {
        return Err(out_of_range("origin"));
    }
    if width.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let width = i128::from(width.days) * i128::from(DAY) + i128::from(width.micros);
    let width = i64::try_from(width).map_err(|_| out_of_range("interval"))?;
    if width <= 0 {
        let message = "stride must be greater than zero";
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    let distance = timestamp.checked_sub(origin).ok_or_else(|| out_of_range("interval"))?;
    let start = i128::from(timestamp) - i128::from(distance.rem_euclid(width));
    super::calendar::checked(start).ok_or_else(|| out_of_range("timestamp"))
}
