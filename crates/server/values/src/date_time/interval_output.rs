//! Text forms of intervals, in the styles of the setting `IntervalStyle`.

use super::append;
use super::output::{write_fraction, write_padded};
use super::{HOUR, MINUTE, SECOND};
use crate::datum::Interval;
use crate::settings::IntervalStyle;

/// An interval as its text form has it. Years and months have one sign, and so have the parts of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) years: i64,
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) hours: i64,
    pub(crate) minutes: i64,
    pub(crate) seconds: i64,
    pub(crate) micros: i64,
}

impl Parts {
    pub(crate) fn of(interval: &Interval) -> Parts {
        let months = i64::from(interval.months);
        Parts {
            years: months / 12,
            months: months % 12,
            days: i64::from(interval.days),
            hours: interval.micros / HOUR,
            minutes: interval.micros % HOUR / MINUTE,
            seconds: interval.micros % MINUTE / SECOND,
            micros: interval.micros % SECOND,
        }
    }

    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.has_seconds()
    }

    fn has_seconds(&self) -> bool {
        self.seconds != 0 || self.micros != 0
    }

    fn is_time_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.is_second_negative()
    }

    fn is_second_negative(&self) -> bool {
        self.seconds < 0 || self.micros < 0
    }
}

/// The text form of an interval.
pub fn interval_output(interval: &Interval, style: IntervalStyle, out: &mut String) {
    let parts = Parts::of(interval);
    match style {
        IntervalStyle::Postgres => postgres(&parts, out),
        IntervalStyle::PostgresVerbose => verbose(&parts, out),
        IntervalStyle::SqlStandard => sql_standard(&parts, out),
        IntervalStyle::Iso8601 => iso_8601(&parts, out),
    }
}

/// `1 year 2 mons -3 days +04:05:06`: after a negative part, a positive one has its sign.
fn postgres(parts: &Parts, out: &mut String) {
    let (mut is_first, mut is_after_negative) = (true, false);
    for (value, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if value == 0 {
            continue;
        }
        let blank = if is_first { "" } else { " " };
        let sign = if is_after_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        append(out, format_args!("{blank}{sign}{value} {unit}{plural}"));
        (is_first, is_after_negative) = (false, value < 0);
    }
    if !is_first && !parts.has_time() {
        return;
    }
    if !is_first {
        out.push(' ');
    }
    if parts.is_time_negative() {
        out.push('-');
    } else if is_after_negative {
        out.push('+');
    }
    write_clock(parts, 2, out);
}

/// Hours, minutes and seconds without a sign, the hours with at least so many digits.
fn write_clock(parts: &Parts, hour_width: usize, out: &mut String) {
    write_padded(parts.hours, hour_width, out);
    out.push(':');
    write_padded(parts.minutes, 2, out);
    out.push(':');
    write_padded(parts.seconds, 2, out);
    write_fraction(parts.micros, out);
}

/// `@ 1 day 2 hours ago`: the sign of the first part is said by its last word.
fn verbose(parts: &Parts, out: &mut String) {
    let units = [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    out.push('@');
    let (mut is_first, mut is_ago) = (true, false);
    for (value, unit) in units {
        if value == 0 {
            continue;
        }
        if is_first {
            is_ago = value < 0;
        }
        let shown = if is_ago { -value } else { value };
        append(out, format_args!(" {shown} {unit}{}", if shown == 1 { "" } else { "s" }));
        is_first = false;
    }
    if parts.has_seconds() {
        if is_first {
            is_ago = parts.is_second_negative();
        }
        out.push_str(if parts.is_second_negative() == is_ago { " " } else { " -" });
        write_padded(parts.seconds, 1, out);
        write_fraction(parts.micros, out);
        out.push_str(if parts.seconds.abs() == 1 && parts.micros == 0 { " sec" } else { " secs" });
        is_first = false;
    }
    if is_first {
        out.push_str(" 0");
    }
    if is_ago {
        out.push_str(" ago");
    }
}

/// `1-2`, `3 4:05:06`, or all of it with signs where the standard has no form.
fn sql_standard(parts: &Parts, out: &mut String) {
    let values =
        [parts.years, parts.months, parts.days, parts.hours, parts.minutes, parts.seconds, parts.micros];
    let has_negative = values.iter().any(|value| *value < 0);
    let has_positive = values.iter().any(|value| *value > 0);
    let has_months = parts.years != 0 || parts.months != 0;
    let has_days = parts.days != 0 || parts.has_time();
    if !has_negative && !has_positive {
        return out.push('0');
    }
    let sign = |is_negative| if is_negative { '-' } else { '+' };
    let (years, months, days) = (parts.years.abs(), parts.months.abs(), parts.days.abs());
    if has_negative && has_positive || has_months && has_days {
        let month_sign = sign(parts.years < 0 || parts.months < 0);
        let (day_sign, time_sign) = (sign(parts.days < 0), sign(parts.is_time_negative()));
        append(out, format_args!("{month_sign}{years}-{months} {day_sign}{days} {time_sign}"));
        return write_clock(parts, 1, out);
    }
    if has_negative {
        out.push('-');
    }
    if has_months {
        return append(out, format_args!("{years}-{months}"));
    }
    if parts.days != 0 {
        append(out, format_args!("{days} "));
    }
    write_clock(parts, 1, out);
}

/// `P1Y2M3DT4H5M6S`.
fn iso_8601(parts: &Parts, out: &mut String) {
    let start = out.len();
    out.push('P');
    let write = |parts: &[(i64, char)], out: &mut String| {
        for (value, unit) in parts.iter().filter(|(value, _)| *value != 0) {
            append(out, format_args!("{value}{unit}"));
        }
    };
    write(&[(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')], out);
    if parts.has_time() || out.len() == start + 1 {
        out.push('T');
    }
    write(&[(parts.hours, 'H'), (parts.minutes, 'M')], out);
    if parts.has_seconds() || out.len() == start + 2 && out.ends_with('T') {
        if parts.is_second_negative() {
            out.push('-');
        }
        write_padded(parts.seconds, 1, out);
        write_fraction(parts.micros, out);
        out.push('S');
    }
}
