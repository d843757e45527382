//! Type modifiers: digits after the second's point, and the fields of an interval.

use super::{DAY, HOUR, MINUTE, SECOND, YEAR_MONTHS, is_finite, out_of_range};
use crate::datum::Interval;
use crate::error::{SqlError, SqlResult, SqlState};

/// Digits after the point, at most.
pub const PRECISION_MAX: i32 = 6;
/// The precision of an interval's modifier that says none.
const INTERVAL_PRECISION_NONE: i32 = 0xffff;
/// The fields of an interval's modifier that says none.
const FIELDS_ALL: i32 = 0x7fff;

/// Bits of the fields in an interval's modifier.
pub(crate) const MONTH_FIELD: i32 = 1 << 1;
/// `YEAR`.
pub(crate) const YEAR_FIELD: i32 = 1 << 2;
/// `DAY`.
pub(crate) const DAY_FIELD: i32 = 1 << 3;
/// `HOUR`.
pub(crate) const HOUR_FIELD: i32 = 1 << 10;
/// `MINUTE`.
pub(crate) const MINUTE_FIELD: i32 = 1 << 11;
/// `SECOND`.
pub(crate) const SECOND_FIELD: i32 = 1 << 12;

/// The fields that an interval's modifier keeps.
pub(crate) fn interval_fields(modifier: i32) -> i32 {
    if modifier < 0 { FIELDS_ALL } else { modifier >> 16 & FIELDS_ALL }
}

/// Rounds half away from zero to a unit.
fn rounded(micros: i64, unit: i64) -> i64 {
    let half = if micros >= 0 { unit / 2 } else { -(unit / 2) };
    micros.checked_add(half).map_or(micros, |sum| sum / unit * unit)
}

/// Microseconds of the last digit of a precision.
fn unit(precision: i32) -> i64 {
    u32::try_from(PRECISION_MAX - precision).map_or(1, |dropped| 10_i64.pow(dropped.min(6)))
}

/// A time of day with the precision of its type; a negative one is none.
pub fn time_to_precision(micros: i64, precision: i32) -> i64 {
    if (0..PRECISION_MAX).contains(&precision) { rounded(micros, unit(precision)) } else { micros }
}

/// A timestamp with the precision of its type; a negative one is none.
///
/// # Errors
/// `22023` if there is no such precision, which types never have.
pub fn timestamp_to_precision(timestamp: i64, precision: i32) -> SqlResult<i64> {
    if precision == -1 || precision == PRECISION_MAX || !is_finite(timestamp) {
        return Ok(timestamp);
    }
    if !(0..=PRECISION_MAX).contains(&precision) {
        let message = format!("timestamp({precision}) precision must be between 0 and {PRECISION_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(rounded(timestamp, unit(precision)))
}

/// An interval without the fields that its type does not have, and with its precision.
///
/// # Errors
/// `22008` if the rounded value does not fit.
pub fn interval_to_modifier(interval: Interval, modifier: i32) -> SqlResult<Interval> {
    if modifier < 0 {
        return Ok(interval);
    }
    let kept = without_fields(interval, interval_fields(modifier));
    let precision = modifier & 0xffff;
    if precision == INTERVAL_PRECISION_NONE || precision >= PRECISION_MAX {
        return Ok(kept);
    }
    let unit = unit(precision);
    let half = if kept.micros >= 0 { unit / 2 } else { -(unit / 2) };
    let micros = kept.micros.checked_add(half).ok_or_else(|| out_of_range("interval"))? / unit * unit;
    Ok(Interval { micros, ..kept })
}

/// The fields below the last one that a type has are cut off; those above the first one stay.
fn without_fields(interval: Interval, fields: i32) -> Interval {
    let Interval { months, days, micros } = interval;
    let year_months = i32::try_from(YEAR_MONTHS).unwrap_or(12);
    let last_unit = match fields {
        FIELDS_ALL => return interval,
        YEAR_FIELD => return Interval { months: months / year_months * year_months, days: 0, micros: 0 },
        _ if fields & SECOND_FIELD != 0 => SECOND,
        _ if fields & MINUTE_FIELD != 0 => MINUTE,
        _ if fields & HOUR_FIELD != 0 => HOUR,
        _ if fields & DAY_FIELD != 0 => DAY,
        _ if fields & MONTH_FIELD != 0 => return Interval { months, days: 0, micros: 0 },
        _ => SECOND,
    };
    match last_unit {
        SECOND => interval,
        DAY => Interval { months, days, micros: 0 },
        unit => Interval { months, days, micros: micros / unit * unit },
    }
}
