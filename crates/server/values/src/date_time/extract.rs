//! Parts of a value: `extract` and `date_part`.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::calendar::{self, Fields, UNIX_EPOCH_DAYS, iso_week, julian_of_date, split, split_time, weekday};
use super::words::{self, Unit};
use super::{DATE_INFINITY, DAY, HOUR, MONTH_DAYS, SECOND, YEAR_MONTHS, is_finite, is_finite_date};
use crate::datum::{Interval, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric;

/// A part, exact or as far as `double precision` shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A whole number.
    Whole(i64),
    /// `digits / 10^scale`.
    Scaled(i128, u32),
    /// Microseconds of an interval as seconds, and the sum of its parts in floating point.
    Seconds(i128, f64),
    /// A day, and the microseconds of it.
    Julian(i64, i64),
    /// The last of moments, or the first.
    Infinity { is_negative: bool },
    /// Infinity has no such part.
    None,
}

impl Part {
    /// The part as `extract` returns it; nothing for `None`.
    ///
    /// # Errors
    /// None: all parts fit.
    pub(crate) fn numeric(self) -> SqlResult<Option<Numeric>> {
        let exact = |digits: i128, scale| Numeric::Finite { digits: BigInt::from(digits), scale };
        Ok(Some(match self {
            Part::Whole(value) => exact(value.into(), 0),
            Part::Scaled(digits, scale) => exact(digits, scale),
            Part::Seconds(micros, _) => exact(micros, 6),
            Part::Julian(day, micros) => {
                let fraction = numeric::div(&exact(micros.into(), 0), &exact(DAY.into(), 0))?;
                numeric::add(&exact(day.into(), 0), &fraction)?
            }
            Part::Infinity { is_negative: true } => Numeric::NegativeInfinity,
            Part::Infinity { is_negative: false } => Numeric::PositiveInfinity,
            Part::None => return Ok(None),
        }))
    }

    /// The part as `date_part` returns it.
    pub(crate) fn float(self) -> Option<f64> {
        let float = |value: i64| value.to_f64().unwrap_or(f64::NAN);
        Some(match self {
            Part::Whole(value) => float(value),
            Part::Scaled(digits, scale) => {
                digits.to_f64().unwrap_or(f64::NAN) / 10_f64.powi(i32::try_from(scale).unwrap_or(0))
            }
            Part::Seconds(_, sum) => sum,
            Part::Julian(day, micros) => float(day) + float(micros) / float(DAY),
            Part::Infinity { is_negative: true } => f64::NEG_INFINITY,
            Part::Infinity { is_negative: false } => f64::INFINITY,
            Part::None => return None,
        })
    }
}

/// Why a name is no unit of a type's parts.
#[cold]
pub(crate) fn unsupported(name: &str, type_name: &str) -> Box<SqlError> {
    let message = format!("unit \"{name}\" not supported for type {type_name}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// `22023`: there is no such unit.
#[cold]
pub(crate) fn unrecognized(name: &str, type_name: &str) -> Box<SqlError> {
    let message = format!("unit \"{name}\" not recognized for type {type_name}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The unit of a name; words for moments such as `now` are names of units that no type supports.
fn unit(name: &str, type_name: &str) -> SqlResult<Unit> {
    match words::unit(name) {
        Some(unit) => Ok(unit),
        None if words::is_moment(name) => Err(unsupported(name, type_name)),
        None => Err(unrecognized(name, type_name)),
    }
}

/// The unit of a name for types that know words for moments not at all.
pub(crate) fn plain_unit(name: &str, type_name: &str) -> SqlResult<Unit> {
    words::unit(name).ok_or_else(|| unrecognized(name, type_name))
}

/// Years as they are counted from the year 1: there is no year 0.
fn year_of_era(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// Centuries and millennia: the first one after Christ is 1, the last one before is -1.
fn period_of(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// The part of a date that a unit names, if dates have it.
fn date_part(fields: &Fields, unit: Unit) -> Option<i64> {
    let julian = fields.julian();
    Some(match unit {
        Unit::Day => fields.day,
        Unit::Week => iso_week(julian).1,
        Unit::Month => fields.month,
        Unit::Quarter => (fields.month - 1) / 3 + 1,
        Unit::Year => year_of_era(fields.year),
        Unit::Decade => fields.year.div_euclid(10),
        Unit::Century => period_of(fields.year, 100),
        Unit::Millennium => period_of(fields.year, 1_000),
        Unit::IsoYear => year_of_era(iso_week(julian).0),
        Unit::DayOfWeek => weekday(julian),
        Unit::IsoDayOfWeek => (weekday(julian) + 6) % 7 + 1,
        Unit::DayOfYear => fields.day_of_year(),
        _ => return None,
    })
}

/// The part of a time of day that a unit names.
fn time_part(fields: &Fields, unit: Unit) -> Option<Part> {
    let micros = fields.second * SECOND + fields.micros;
    Some(match unit {
        Unit::Microsecond => Part::Whole(micros),
        Unit::Millisecond => Part::Scaled(micros.into(), 3),
        Unit::Second => Part::Scaled(micros.into(), 6),
        Unit::Minute => Part::Whole(fields.minute),
        Unit::Hour => Part::Whole(fields.hour),
        _ => return None,
    })
}

/// The part of an offset in seconds east.
fn zone_part(east: i64, unit: Unit) -> Option<i64> {
    match unit {
        Unit::Zone => Some(east),
        Unit::ZoneHour => Some(east / 3_600),
        Unit::ZoneMinute => Some(east / 60 % 60),
        _ => None,
    }
}

/// The part of an infinite date: units that only grow are infinite, those that come again are not known.
fn infinite_part(unit: Unit, is_negative: bool) -> Option<Part> {
    match unit {
        Unit::Year
        | Unit::Decade
        | Unit::Century
        | Unit::Millennium
        | Unit::Julian
        | Unit::IsoYear
        | Unit::Epoch => Some(Part::Infinity { is_negative }),
        Unit::Time => None,
        _ => Some(Part::None),
    }
}

/// Seconds since 1970 of a timestamp.
fn epoch(timestamp: i64) -> Part {
    Part::Scaled(i128::from(timestamp) + i128::from(UNIX_EPOCH_DAYS * DAY), 6)
}

/// The part of a timestamp without a zone.
///
/// # Errors
/// `22023` if there is no such unit, `0A000` if timestamps do not have it.
pub(crate) fn of_timestamp(name: &str, timestamp: i64) -> SqlResult<Part> {
    of_moment(name, timestamp, timestamp, None, "timestamp without time zone")
}

/// The part of a timestamp with a zone: `local` is what the clocks of its zone show.
///
/// # Errors
/// As `of_timestamp`.
pub(crate) fn of_timestamptz(name: &str, utc: i64, local: i64, east: i64) -> SqlResult<Part> {
    of_moment(name, utc, local, Some(east), "timestamp with time zone")
}

fn of_moment(name: &str, utc: i64, local: i64, east: Option<i64>, type_name: &str) -> SqlResult<Part> {
    let unit = unit(name, type_name)?;
    if !is_finite(utc) {
        return infinite_part(unit, utc < 0).ok_or_else(|| unsupported(name, type_name));
    }
    let fields = split(local);
    let part = match unit {
        Unit::Epoch => Some(epoch(utc)),
        Unit::Julian => Some(Part::Julian(fields.julian(), local.rem_euclid(DAY))),
        _ => date_part(&fields, unit)
            .or_else(|| east.and_then(|east| zone_part(east, unit)))
            .map(Part::Whole)
            .or_else(|| time_part(&fields, unit)),
    };
    part.ok_or_else(|| unsupported(name, type_name))
}

/// The part of a date.
///
/// # Errors
/// As `of_timestamp`.
pub(crate) fn of_date(name: &str, date: i32) -> SqlResult<Part> {
    const TYPE_NAME: &str = "date";
    let unit = unit(name, TYPE_NAME)?;
    let part = if is_finite_date(date) {
        let days = i64::from(date);
        let (year, month, day) = calendar::from_julian(julian_of_date(date));
        let fields = Fields { year, month, day, ..Fields::default() };
        match unit {
            Unit::Epoch => Some((days + UNIX_EPOCH_DAYS) * (DAY / SECOND)),
            Unit::Julian => Some(days + calendar::EPOCH_JULIAN),
            _ => date_part(&fields, unit),
        }
        .map(Part::Whole)
    } else {
        let is_of_time = time_part(&Fields::default(), unit).is_some() || zone_part(0, unit).is_some();
        if is_of_time { None } else { infinite_part(unit, date != DATE_INFINITY) }
    };
    part.ok_or_else(|| unsupported(name, TYPE_NAME))
}

/// The part of a time of day.
///
/// # Errors
/// As `of_timestamp`.
pub(crate) fn of_time(name: &str, micros: i64) -> SqlResult<Part> {
    const TYPE_NAME: &str = "time without time zone";
    let unit = plain_unit(name, TYPE_NAME)?;
    let part = match unit {
        Unit::Epoch => Some(Part::Scaled(micros.into(), 6)),
        _ => time_part(&split_time(micros), unit),
    };
    part.ok_or_else(|| unsupported(name, TYPE_NAME))
}

/// The part of a time of day with a zone in seconds west.
///
/// # Errors
/// As `of_timestamp`.
pub(crate) fn of_timetz(name: &str, micros: i64, west: i32) -> SqlResult<Part> {
    const TYPE_NAME: &str = "time with time zone";
    let unit = plain_unit(name, TYPE_NAME)?;
    let west = i64::from(west);
    let part = match unit {
        Unit::Epoch => Some(Part::Scaled((micros + west * SECOND).into(), 6)),
        _ => zone_part(-west, unit).map(Part::Whole).or_else(|| time_part(&split_time(micros), unit)),
    };
    part.ok_or_else(|| unsupported(name, TYPE_NAME))
}

/// The part of an interval.
///
/// # Errors
/// As `of_timestamp`.
pub(crate) fn of_interval(name: &str, interval: &Interval) -> SqlResult<Part> {
    const TYPE_NAME: &str = "interval";
    let unit = plain_unit(name, TYPE_NAME)?;
    let (years, months) =
        (i64::from(interval.months) / YEAR_MONTHS, i64::from(interval.months) % YEAR_MONTHS);
    let part = match unit {
        Unit::Hour => Some(Part::Whole(interval.micros / HOUR)),
        Unit::Day => Some(Part::Whole(interval.days.into())),
        Unit::Month => Some(Part::Whole(months)),
        Unit::Quarter => Some(Part::Whole(months / 3 + 1)),
        Unit::Year => Some(Part::Whole(years)),
        Unit::Decade => Some(Part::Whole(years / 10)),
        Unit::Century => Some(Part::Whole(years / 100)),
        Unit::Millennium => Some(Part::Whole(years / 1_000)),
        Unit::Epoch => Some(interval_epoch(interval, years, months)),
        _ => time_part(&split_time(interval.micros), unit),
    };
    part.ok_or_else(|| unsupported(name, TYPE_NAME))
}

/// Seconds of an interval: a year has 365.25 days, a month 30.
fn interval_epoch(interval: &Interval, years: i64, months: i64) -> Part {
    const DAY_SECONDS: i64 = DAY / SECOND;
    let days = i64::from(interval.days);
    let quarter_days = years * 1_461 + (months * MONTH_DAYS + days) * 4;
    let micros = i128::from(quarter_days) * i128::from(DAY / 4) + i128::from(interval.micros);
    // Added in this order, the sum has PostgreSQL's last digit.
    let parts = [years * 1_461 * (DAY_SECONDS / 4), months * MONTH_DAYS * DAY_SECONDS, days * DAY_SECONDS];
    let time = interval.micros.to_f64().unwrap_or(f64::NAN) / 1e6;
    Part::Seconds(micros, parts.iter().filter_map(i64::to_f64).fold(time, |sum, part| sum + part))
}
