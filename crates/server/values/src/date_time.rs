//! Dates, times, timestamps and intervals.
//!
//! A timestamp is a count of microseconds since 2000-01-01, a date a count of days; `datum` has the representations. Everything
//! between text and these counts is here. The proleptic Gregorian calendar is used throughout, and the year before 1 AD is 1 BC.
//!
//! * `calendar`: days and the fields of a date. * `zone`: time zones. * `words`: the words that inputs contain.
//! * `tokens`, `input`, `interval_input`: text to values. * `output`, `interval_output`: values to text.
//! * `arithmetic`, `interval`: sums, differences, scaling. * `precision`: type modifiers. * `extract`, `truncate`: parts of a value.

pub(crate) mod arithmetic;
pub mod calendar;
pub(crate) mod extract;
mod input;
pub(crate) mod interval;
mod interval_input;
mod interval_iso;
mod interval_output;
pub(crate) mod output;
pub mod precision;
mod tokens;
pub(crate) mod truncate;
mod words;
pub mod zone;

use crate::error::{SqlError, SqlState};

pub use input::{date_input, time_input, timestamp_input, timestamptz_input, timetz_input};
pub use interval_input::interval_input;
pub(crate) use interval_output::Parts as IntervalParts;
pub use interval_output::interval_output;
pub use output::{date_output, time_output, timestamp_output, timestamptz_output, timetz_output};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day of 24 hours.
pub const DAY: i64 = 24 * HOUR;
/// Days of a month, where months are converted to days.
pub(crate) const MONTH_DAYS: i64 = 30;
/// Months of a year.
pub(crate) const YEAR_MONTHS: i64 = 12;

/// `-infinity` of a timestamp.
pub const TIMESTAMP_MINUS_INFINITY: i64 = i64::MIN;
/// `infinity` of a timestamp.
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
/// `-infinity` of a date.
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;
/// `infinity` of a date.
pub const DATE_INFINITY: i32 = i32::MAX;

/// Whether a timestamp is neither of the infinities.
pub(crate) fn is_finite(timestamp: i64) -> bool {
    timestamp != TIMESTAMP_INFINITY && timestamp != TIMESTAMP_MINUS_INFINITY
}

/// Whether a date is neither of the infinities.
pub(crate) fn is_finite_date(date: i32) -> bool {
    date != DATE_INFINITY && date != DATE_MINUS_INFINITY
}

/// `22008`: the result is a date or time that cannot be represented.
#[cold]
pub(crate) fn out_of_range(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// Writes what has a display form: writing to a text cannot fail.
pub(crate) fn append(out: &mut String, value: impl std::fmt::Display) {
    use std::fmt::Write;
    write!(out, "{value}").expect("a write to a text does not fail");
}
