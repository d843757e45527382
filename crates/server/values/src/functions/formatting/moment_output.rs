//! `to_char` of timestamps and intervals.

use super::moments::{Case, Field, Named, parts};
use super::roman;
use super::template::{Modifiers, Part};
use crate::date_time::calendar::{self, Fields, MONTHS, WEEKDAYS, iso_week, weekday};
use crate::date_time::output::name;
use crate::date_time::zone::Offset;
use crate::date_time::{IntervalParts, append, is_finite, zone};
use crate::datum::{Datum, Interval};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Table;
use crate::functions::arguments::row;

pub(super) const TABLE: Table = &[
    row!("timestamp_to_char", [Timestamp value, Text template], {
        if template.is_empty() || !is_finite(*value) {
            return Ok(Datum::Null);
        }
        Moment::of_timestamp(*value, None).write(template)
    }),
    row!("timestamptz_to_char", call, [TimestampTz value, Text template], {
        if template.is_empty() || !is_finite(*value) {
            return Ok(Datum::Null);
        }
        let (local, offset) = zone::to_local(*value, call.settings.time_zone);
        Moment::of_timestamp(local, Some(offset)).write(template)
    }),
    row!("interval_to_char", [Interval value, Text template], {
        if template.is_empty() { Ok(Datum::Null) } else { Moment::of_interval(value).write(template) }
    }),
];

/// What a template is filled with.
struct Moment {
    fields: Fields,
    day_of_year: i64,
    offset: Option<Offset>,
    is_interval: bool,
}

/// `22007`: intervals are not on a calendar.
#[cold]
fn not_of_interval() -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
        .with_hint("Intervals are not tied to specific calendar dates.")
}

impl Moment {
    fn of_timestamp(local: i64, offset: Option<Offset>) -> Moment {
        let fields = calendar::split(local);
        Moment { fields, day_of_year: fields.day_of_year(), offset, is_interval: false }
    }

    fn of_interval(interval: &Interval) -> Moment {
        let parts = IntervalParts::of(interval);
        let fields = Fields {
            year: parts.years,
            month: parts.months,
            day: parts.days,
            hour: parts.hours,
            minute: parts.minutes,
            second: parts.seconds,
            micros: parts.micros,
        };
        let day_of_year = (parts.years * 12 + parts.months) * 30 + parts.days;
        Moment { fields, day_of_year, offset: None, is_interval: true }
    }

    fn write(&self, template: &str) -> SqlResult<Datum> {
        let mut out = String::new();
        for part in parts(template) {
            match part {
                Part::Field(named, modifiers) => self.field(named, modifiers, &mut out)?,
                Part::Space(text) | Part::Separator(text) | Part::Text(text) => out.push(text),
            }
        }
        Ok(Datum::text(out))
    }

    fn field(&self, named: Named, modifiers: Modifiers, out: &mut String) -> SqlResult<()> {
        let start = out.len();
        if self.number(named.field, modifiers, out) {
            if let Some(ordinal) = modifiers.ordinal.filter(|_| out.len() > start) {
                let suffix = ordinal.suffix(&out[start..]);
                out.push_str(suffix);
            }
            return Ok(());
        }
        if matches!(named.field, Field::RomanMonth(_)) {
            self.roman_month(named.field, modifiers, out);
        } else if named.field == Field::Exact {
        } else if let Field::Meridiem { has_points, case } = named.field {
            let is_pm = self.fields.hour.rem_euclid(24) >= 12 && self.fields.hour >= 0;
            let text = if is_pm { ["PM", "P.M."] } else { ["AM", "A.M."] };
            out.push_str(&case.of(text[usize::from(has_points)]));
        } else if self.is_interval {
            return Err(not_of_interval());
        } else {
            self.calendar_field(named.field, modifiers, out);
        }
        Ok(())
    }

    /// A field that is a number and that intervals have, too. Returns whether the field is one.
    fn number(&self, field: Field, modifiers: Modifiers, out: &mut String) -> bool {
        let Fields { year, month, day, hour, minute, second, micros } = self.fields;
        let (value, width) = match field {
            Field::Hour12 => (if hour % 12 == 0 { 12 } else { hour % 12 }, if hour >= 0 { 2 } else { 3 }),
            Field::Hour24 => (hour, signed_width(hour, 2)),
            Field::Minute => (minute, signed_width(minute, 2)),
            Field::Second => (second, signed_width(second, 2)),
            Field::Millisecond => return fixed(micros / 1_000, 3, out),
            Field::Microsecond => return fixed(micros, 6, out),
            Field::Fraction(digits) => {
                return fixed(micros / 10_i64.pow(6 - digits), digits as usize, out);
            }
            Field::SecondsOfDay => ((hour * 60 + minute) * 60 + second, 0),
            Field::Month => (month, signed_width(month, 2)),
            Field::DayOfYear => (self.day_of_year, 3),
            Field::IsoDayOfYear => (self.iso_day_of_year(), 3),
            Field::Day => (day, 2),
            Field::Week => ((self.day_of_year - 1) / 7 + 1, 2),
            Field::IsoWeek => (iso_week(self.julian()).1, 2),
            Field::Quarter if month == 0 => return true,
            Field::Quarter => ((month - 1) / 3 + 1, 0),
            Field::Century => {
                let century = self.century();
                (century, if (-99..=99).contains(&century) { signed_width(century, 2) } else { 0 })
            }
            Field::YearWithComma => {
                let year = self.adjusted(year);
                append(out, format_args!("{},{:03}", year / 1_000, year % 1_000));
                return true;
            }
            Field::Year(digits) => self.year(year, digits),
            Field::IsoYear(digits) => self.year(iso_week(self.julian()).0, digits),
            Field::WeekOfMonth => ((day - 1) / 7 + 1, 0),
            Field::Julian => (self.julian(), 0),
            _ => return false,
        };
        let width = if modifiers.is_filled { 0 } else { width };
        append(out, format_args!("{value:0width$}"));
        true
    }

    /// A year of an era as templates show it: 1 BC is 1.
    fn adjusted(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn year(&self, year: i64, digits: u32) -> (i64, usize) {
        let shown = self.adjusted(year);
        let shown = if digits == 4 { shown } else { shown % 10_i64.pow(digits) };
        let sign = self.adjusted(self.fields.year);
        (shown, if digits == 1 { 1 } else { signed_width(sign, digits as usize) })
    }

    fn century(&self) -> i64 {
        match self.fields.year {
            year if self.is_interval => year / 100,
            year @ 1.. => (year - 1) / 100 + 1,
            year => year / 100 - 1,
        }
    }

    fn julian(&self) -> i64 {
        calendar::julian(self.fields.year, self.fields.month, self.fields.day)
    }

    fn iso_day_of_year(&self) -> i64 {
        let julian = self.julian();
        julian - calendar::first_week(iso_week(julian).0) + 1
    }

    /// Fields that only a date has.
    fn calendar_field(&self, field: Field, modifiers: Modifiers, out: &mut String) {
        let today = weekday(self.julian());
        let is_padded = !modifiers.is_filled && !modifiers.is_translated;
        let named = |names: &[&'static str], index: i64, case: Case, out: &mut String| {
            let width = if is_padded { 9 } else { 0 };
            append(out, format_args!("{:width$}", case.of(name(names, index))));
        };
        match field {
            Field::MonthName(case) => named(&MONTHS, self.fields.month - 1, case, out),
            Field::MonthNameShort(case) => out.push_str(&case.of(&name(&MONTHS, self.fields.month - 1)[..3])),
            Field::DayName(case) => named(&WEEKDAYS, today, case, out),
            Field::DayNameShort(case) => out.push_str(&case.of(&name(&WEEKDAYS, today)[..3])),
            Field::Weekday | Field::IsoWeekday => {
                let number = if field == Field::Weekday { today + 1 } else { (today + 6) % 7 + 1 };
                let digits = number.to_string();
                out.push_str(&digits);
                out.push_str(modifiers.ordinal.map_or("", |ordinal| ordinal.suffix(&digits)));
            }
            Field::Era { has_points, case } => {
                let text = if self.fields.year <= 0 { ["BC", "B.C."] } else { ["AD", "A.D."] };
                out.push_str(&case.of(text[usize::from(has_points)]));
            }
            _ => self.zone_field(field, modifiers, out),
        }
    }

    fn zone_field(&self, field: Field, modifiers: Modifiers, out: &mut String) {
        let east = self.offset.map_or(0, |offset| offset.east);
        let sign = if east >= 0 { '+' } else { '-' };
        let (hours, minutes) = (east.abs() / 3_600, east.abs() % 3_600 / 60);
        match field {
            Field::ZoneHour => append(out, format_args!("{sign}{hours:02}")),
            Field::ZoneMinute => append(out, format_args!("{minutes:02}")),
            Field::Offset => {
                let width = if modifiers.is_filled { 0 } else { 2 };
                append(out, format_args!("{sign}{hours:0width$}"));
                if minutes != 0 {
                    append(out, format_args!(":{minutes:02}"));
                }
            }
            Field::ZoneName(case) => {
                let mut text = String::new();
                if let Some(offset) = self.offset {
                    offset.write_abbreviation(&mut text);
                }
                out.push_str(&if case == Case::Lower { text.to_ascii_lowercase() } else { text });
            }
            _ => {}
        }
    }

    /// An interval of whole years has the month XII; a negative one counts backward.
    fn roman_month(&self, field: Field, modifiers: Modifiers, out: &mut String) {
        let Fields { year, month, .. } = self.fields;
        let month = match month {
            0 if year == 0 => return,
            0 => {
                if year > 0 {
                    12
                } else {
                    1
                }
            }
            ..0 => 13 + month,
            _ => month,
        };
        let case = if field == Field::RomanMonth(Case::Lower) { Case::Lower } else { Case::Upper };
        let width = if modifiers.is_filled { 0 } else { 4 };
        append(out, format_args!("{:width$}", case.of(roman::month(month))));
    }
}

/// The width of a number with its sign.
fn signed_width(value: i64, width: usize) -> usize {
    if value >= 0 { width } else { width + 1 }
}

fn fixed(value: i64, width: usize, out: &mut String) -> bool {
    append(out, format_args!("{value:0width$}"));
    true
}
