//! Text forms of dates, times and timestamps, in the styles of the setting `DateStyle`.

use super::calendar::{Fields, MONTHS, WEEKDAYS, from_julian, julian_of_date, split, split_time, weekday};
use super::zone;
use super::{DATE_INFINITY, DATE_MINUS_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY};
use crate::error::SqlResult;
use crate::settings::{DateOrder, DateStyle, Settings};

/// The text form of a date.
pub fn date_output(date: i32, settings: &Settings, out: &mut String) {
    match date {
        DATE_MINUS_INFINITY => out.push_str("-infinity"),
        DATE_INFINITY => out.push_str("infinity"),
        _ => {
            let (year, month, day) = from_julian(julian_of_date(date));
            let fields = Fields { year, month, day, ..Fields::default() };
            let separator = match settings.date_style {
                DateStyle::Iso | DateStyle::Postgres => '-',
                DateStyle::Sql => '/',
                DateStyle::German => '.',
            };
            write_date(&fields, separator, settings, out);
            write_era(&fields, out);
        }
    }
}

/// The text form of a time of day.
pub fn time_output(micros: i64, out: &mut String) {
    write_time(&split_time(micros), out);
}

/// The text form of a time of day with a zone, which is in seconds west of Greenwich.
pub fn timetz_output(micros: i64, zone: i32, out: &mut String) {
    write_time(&split_time(micros), out);
    write_offset(-i64::from(zone), out);
}

/// The text form of a timestamp without a zone.
///
/// # Errors
/// None: every timestamp has a text form.
pub fn timestamp_output(timestamp: i64, settings: &Settings, out: &mut String) -> SqlResult<()> {
    if !write_infinity(timestamp, out) {
        write_timestamp(&split(timestamp), None, settings, out);
    }
    Ok(())
}

/// The text form of a timestamp with a zone, in the zone of the session.
///
/// # Errors
/// `22008` if the local time is before the first day of the calendar.
pub fn timestamptz_output(timestamp: i64, settings: &Settings, out: &mut String) -> SqlResult<()> {
    if !write_infinity(timestamp, out) {
        let (local, offset) = zone::to_local(timestamp, settings.time_zone);
        write_timestamp(&split(local), Some(offset), settings, out);
    }
    Ok(())
}

fn write_infinity(timestamp: i64, out: &mut String) -> bool {
    match timestamp {
        TIMESTAMP_MINUS_INFINITY => out.push_str("-infinity"),
        TIMESTAMP_INFINITY => out.push_str("infinity"),
        _ => return false,
    }
    true
}

fn write_timestamp(fields: &Fields, offset: Option<zone::Offset>, settings: &Settings, out: &mut String) {
    match settings.date_style {
        DateStyle::Iso => write_date(fields, '-', settings, out),
        DateStyle::Sql => write_date(fields, '/', settings, out),
        DateStyle::German => write_date(fields, '.', settings, out),
        DateStyle::Postgres => write_weekday(fields, settings, out),
    }
    out.push(' ');
    write_time(fields, out);
    if settings.date_style == DateStyle::Postgres {
        out.push(' ');
        write_padded(displayed_year(fields), 4, out);
    }
    if let Some(offset) = offset {
        write_zone(offset, settings.date_style, out);
    }
    write_era(fields, out);
}

/// `Sat Feb 03`, or with the day first.
fn write_weekday(fields: &Fields, settings: &Settings, out: &mut String) {
    out.push_str(&name(&WEEKDAYS, weekday(fields.julian()))[..3]);
    out.push(' ');
    let month = &name(&MONTHS, fields.month - 1)[..3];
    if settings.date_order == DateOrder::DayMonthYear {
        write_padded(fields.day, 2, out);
        out.push(' ');
        out.push_str(month);
    } else {
        out.push_str(month);
        out.push(' ');
        write_padded(fields.day, 2, out);
    }
}

/// A name by its number.
pub(crate) fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or("???")
}

fn write_zone(offset: zone::Offset, style: DateStyle, out: &mut String) {
    if style == DateStyle::Iso {
        return write_offset(offset.east, out);
    }
    out.push(' ');
    offset.write_abbreviation(out);
}

fn write_date(fields: &Fields, separator: char, settings: &Settings, out: &mut String) {
    let year = displayed_year(fields);
    let parts = match settings.date_style {
        DateStyle::Iso => [(year, 4), (fields.month, 2), (fields.day, 2)],
        DateStyle::German => [(fields.day, 2), (fields.month, 2), (year, 4)],
        DateStyle::Postgres | DateStyle::Sql if settings.date_order == DateOrder::DayMonthYear => {
            [(fields.day, 2), (fields.month, 2), (year, 4)]
        }
        DateStyle::Postgres | DateStyle::Sql => [(fields.month, 2), (fields.day, 2), (year, 4)],
    };
    for (index, (value, width)) in parts.into_iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        write_padded(value, width, out);
    }
}

/// The year as it is shown: 1 BC is year 1 of its era.
pub(crate) fn displayed_year(fields: &Fields) -> i64 {
    if fields.year > 0 { fields.year } else { 1 - fields.year }
}

fn write_era(fields: &Fields, out: &mut String) {
    if fields.year <= 0 {
        out.push_str(" BC");
    }
}

fn write_time(fields: &Fields, out: &mut String) {
    write_padded(fields.hour, 2, out);
    out.push(':');
    write_padded(fields.minute, 2, out);
    out.push(':');
    write_padded(fields.second, 2, out);
    write_fraction(fields.micros, out);
}

/// Microseconds as digits after a point, without zeros at their end.
pub(crate) fn write_fraction(micros: i64, out: &mut String) {
    if micros != 0 {
        out.push('.');
        write_padded(micros, 6, out);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// An offset in seconds east of Greenwich: `+05:30`.
pub(crate) fn write_offset(east: i64, out: &mut String) {
    out.push(if east < 0 { '-' } else { '+' });
    let seconds = east.abs();
    write_padded(seconds / 3_600, 2, out);
    if seconds % 3_600 != 0 {
        out.push(':');
        write_padded(seconds / 60 % 60, 2, out);
    }
    if seconds % 60 != 0 {
        out.push(':');
        write_padded(seconds % 60, 2, out);
    }
}

/// A number with zeros in front up to a width; it is not negative.
pub(crate) fn write_padded(value: i64, width: usize, out: &mut String) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut start) = (value.unsigned_abs(), digits.len());
    while rest > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b"0123456789"[usize::try_from(rest % 10).unwrap_or(0)];
        rest /= 10;
    }
    out.extend(digits[start..].iter().copied().map(char::from));
}
