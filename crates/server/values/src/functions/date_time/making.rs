//! Values from numbers: `make_date` and its like, and seconds since 1970.

use num_traits::ToPrimitive;

use crate::date_time::arithmetic::to_utc;
use crate::date_time::calendar::{self, Fields, TIMESTAMP_END, TIMESTAMP_MIN, UNIX_EPOCH_DAYS, month_days};
use crate::date_time::interval::overflow;
use crate::date_time::{DAY, HOUR, MINUTE, SECOND, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY, zone};
use crate::datum::{Datum, Interval};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Table;
use crate::functions::arguments::{mismatch, row};

pub(super) const TABLE: Table = &[
    row!("make_date", [Int4 year, Int4 month, Int4 day], {
        date(*year, *month, *day, astronomical(*year))?.date().map(Datum::Date).ok_or_else(|| {
            field_error("date", format_args!("out of range: {}-{month:02}-{day:02}", astronomical(*year)))
        })
    }),
    row!("make_time", [Int4 hour, Int4 minute, Float8 second], time(*hour, *minute, *second).map(Datum::Time)),
    row!("make_timestamp", [Int4 year, Int4 month, Int4 day, Int4 hour, Int4 minute, Float8 second], {
        timestamp([*year, *month, *day, *hour, *minute], *second).map(Datum::Timestamp)
    }),
    row!("make_timestamptz", call, [Int4 year, Int4 month, Int4 day, Int4 hour, Int4 minute, Float8 second], {
        let local = timestamp([*year, *month, *day, *hour, *minute], *second)?;
        to_utc(local, call.settings.time_zone).map(Datum::TimestampTz)
    }),
    ("make_timestamptz_at_timezone", |call| match call.arguments {
        [
            Datum::Int4(year),
            Datum::Int4(month),
            Datum::Int4(day),
            Datum::Int4(hour),
            Datum::Int4(minute),
            Datum::Float8(second),
            Datum::Text(zone),
        ] => {
            let local = timestamp([*year, *month, *day, *hour, *minute], *second)?;
            let utc = i128::from(local) - i128::from(offset(zone, local)? * SECOND);
            calendar::checked(utc)
                .map(Datum::TimestampTz)
                .ok_or_else(|| crate::date_time::out_of_range("timestamp"))
        }
        _ => Err(mismatch(call)),
    }),
    row!("make_interval", [Int4 years, Int4 months, Int4 weeks, Int4 days, Int4 hours, Int4 minutes, Float8 seconds], {
        interval([*years, *months, *weeks, *days, *hours, *minutes], *seconds).map(Datum::Interval)
    }),
    row!("float8_timestamptz", [Float8 seconds], from_unix(*seconds).map(Datum::TimestampTz)),
];

#[cold]
fn field_error(what: &str, rest: std::fmt::Arguments<'_>) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} {rest}"))
}

/// A negative year is one before Christ.
fn astronomical(year: i32) -> i64 {
    if year < 0 && year != i32::MIN { i64::from(year) + 1 } else { i64::from(year) }
}

/// A date, and the year that an error about it shows.
fn date(year: i32, month: i32, day: i32, shown: i64) -> SqlResult<Fields> {
    let (astronomical, month, day) = (astronomical(year), i64::from(month), i64::from(day));
    let is_valid =
        year != 0 && (1..=12).contains(&month) && (1..=month_days(astronomical, month)).contains(&day);
    if !is_valid {
        return Err(field_error(
            "date",
            format_args!("field value out of range: {shown}-{month:02}-{day:02}"),
        ));
    }
    Ok(Fields { year: astronomical, month, day, ..Fields::default() })
}

fn time(hour: i32, minute: i32, second: f64) -> SqlResult<i64> {
    let micros = (second * 1e6).round_ties_even().to_i64().filter(|micros| (0..=MINUTE).contains(micros));
    let total = micros.map(|micros| i64::from(hour) * HOUR + i64::from(minute) * MINUTE + micros);
    let is_valid = (0..=24).contains(&hour) && (0..60).contains(&minute);
    total.filter(|total| is_valid && *total <= DAY).ok_or_else(|| {
        let second = two_digits(second);
        field_error("time", format_args!("field value out of range: {hour}:{minute:02}:{second}"))
    })
}

/// A number as C's `%02g` shows it.
fn two_digits(value: f64) -> String {
    let text = general(value);
    if text.len() < 2 { format!("0{text}") } else { text }
}

/// A number as C's `%g` shows it: with six significant digits.
fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let stripped = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => stripped(&format!("{value:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", stripped(digits), exponent.abs())
        }
    }
}

fn timestamp([year, month, day, hour, minute]: [i32; 5], second: f64) -> SqlResult<i64> {
    let date = date(year, month, day, year.into())?;
    if !calendar::is_valid_month(date.year, date.month) {
        return Err(field_error("date", format_args!("out of range: {year}-{month:02}-{day:02}")));
    }
    let time = time(hour, minute, second)?;
    let midnight = date.timestamp();
    let whole = midnight.and_then(|midnight| calendar::checked(i128::from(midnight) + i128::from(time)));
    whole.ok_or_else(|| {
        let second = two_digits(second);
        let text = format_args!("out of range: {year}-{month:02}-{day:02} {hour}:{minute:02}:{second}");
        field_error("timestamp", text)
    })
}

/// The offset that a zone's name or a number with a sign says.
fn offset(name: &str, local: i64) -> SqlResult<i64> {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match zone::numeric_offset(name)? {
        Some(east) => Ok(east),
        None => Ok(zone::require(name)?.offset_of_local(local).east),
    }
}

fn interval(parts: [i32; 6], seconds: f64) -> SqlResult<Interval> {
    let [years, months, weeks, days, hours, minutes] = parts.map(i64::from);
    let micros = (seconds * 1e6).round_ties_even().to_i64();
    let months = i32::try_from(years * 12 + months).ok();
    let days = i32::try_from(weeks * 7 + days).ok();
    let micros = micros.and_then(|micros| (hours * HOUR + minutes * MINUTE).checked_add(micros));
    match (months, days, micros) {
        (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
        _ => Err(overflow()),
    }
}

/// Seconds since 1970.
fn from_unix(seconds: f64) -> SqlResult<i64> {
    if seconds.is_nan() {
        return Err(field_error("timestamp", format_args!("cannot be NaN")));
    }
    if seconds.is_infinite() {
        return Ok(if seconds < 0.0 { TIMESTAMP_MINUS_INFINITY } else { TIMESTAMP_INFINITY });
    }
    let epoch = (UNIX_EPOCH_DAYS * (DAY / SECOND)).to_f64().unwrap_or(0.0);
    let micros = ((seconds - epoch) * 1e6).round_ties_even().to_i64();
    micros
        .filter(|micros| (TIMESTAMP_MIN..TIMESTAMP_END).contains(micros))
        .ok_or_else(|| field_error("timestamp", format_args!("out of range: \"{}\"", general(seconds))))
}
