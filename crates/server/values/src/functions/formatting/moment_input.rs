//! `to_date` and `to_timestamp`: dates read by a template.

use super::moment_fields::{Said, format_error};
use super::moments::{Field, Named, is_delimited, parts};
use super::roman;
use super::template::{Modifiers, Part, is_separator, is_space};
use crate::date_time::calendar::{self, MONTHS, WEEKDAYS};
use crate::date_time::precision::timestamp_to_precision;
use crate::date_time::{SECOND, out_of_range, zone};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Table;
use crate::functions::arguments::row;

pub(super) const TABLE: Table = &[
    row!("to_date", [Text text, Text template], {
        let moment = read(text, template)?.moment(text)?;
        moment.fields.date().map(Datum::Date).ok_or_else(|| {
            let message = format!("date out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        })
    }),
    row!("to_timestamp", call, [Text text, Text template], {
        let moment = read(text, template)?.moment(text)?;
        let local = moment.fields.timestamp().ok_or_else(|| out_of_range("timestamp"))?;
        let utc = match moment.east {
            Some(east) => calendar::checked(i128::from(local) - i128::from(east * SECOND)),
            None => Some(zone::to_utc(local, call.settings.time_zone)?),
        };
        let utc = utc.ok_or_else(|| out_of_range("timestamp"))?;
        timestamp_to_precision(utc, moment.precision).map(Datum::TimestampTz)
    }),
];

/// A text that is read from left to right by the parts of a template.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// `FX` was there: blanks are not skipped.
    is_exact: bool,
    /// Blanks and separators skipped beyond those of the template.
    skipped: i64,
    said: Said,
}

fn read(text: &str, template: &str) -> SqlResult<Said> {
    let parts = parts(template);
    let mut reader = Reader { text, at: 0, is_exact: false, skipped: 0, said: Said::default() };
    for (index, part) in parts.iter().enumerate() {
        if reader.rest().is_empty() {
            break;
        }
        let is_exact_field = matches!(part, Part::Field(Named { field: Field::Exact, .. }, _));
        let is_before_field = matches!(part, Part::Field(..)) || index == 0;
        if !reader.is_exact && !is_exact_field && is_before_field {
            reader.skip_spaces();
        }
        match part {
            Part::Space(_) | Part::Separator(_) => reader.separator(),
            Part::Text(_) => reader.character(),
            Part::Field(named, modifiers) => {
                // A text that ends in blanks ends before a field.
                reader.field(*named, *modifiers, parts.get(index + 1))?;
                if !reader.is_exact {
                    reader.skipped = 0;
                    reader.skip_spaces();
                }
            }
        }
    }
    Ok(reader.said)
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        self.at += self.next().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) {
        while self.next().is_some_and(is_space) {
            self.skip();
            self.skipped += 1;
        }
    }

    /// A blank or separator of the template stands for one of the text, or for none.
    fn separator(&mut self) {
        if self.is_exact {
            return self.skip();
        }
        self.skipped -= 1;
        if self.next().is_some_and(|next| is_space(next) || is_separator(next)) {
            self.skip();
            self.skipped += 1;
        }
    }

    /// Another character of the template stands for any character, unless more than the template says was skipped before.
    fn character(&mut self) {
        if !self.is_exact && self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.skip();
        }
    }

    fn field(&mut self, named: Named, modifiers: Modifiers, next: Option<&Part<Named>>) -> SqlResult<()> {
        if let Some(is_of_weeks) = named.field.is_of_weeks() {
            if self.said.is_of_weeks.is_some_and(|before| before != is_of_weeks) {
                return Err(format_error("invalid combination of date conventions".to_owned()).with_hint(
                    "Do not mix Gregorian and ISO week date conventions in a formatting template.",
                ));
            }
            self.said.is_of_weeks = Some(is_of_weeks);
        }
        let is_delimited = modifiers.is_filled || is_delimited(modifiers, next);
        if self.name_field(named)? {
            return Ok(());
        }
        self.number_field(named, is_delimited)?;
        let is_of_zone = matches!(named.field, Field::ZoneHour | Field::ZoneMinute);
        if modifiers.ordinal.is_some() && !is_of_zone {
            self.skip();
            self.skip();
        }
        Ok(())
    }

    /// Reads a field that is a name. Returns whether the field is one.
    fn name_field(&mut self, named: Named) -> SqlResult<bool> {
        match named.field {
            Field::Exact => self.is_exact = true,
            Field::Meridiem { has_points, .. } => {
                let index = self.word(if has_points { &["a.m.", "p.m."] } else { &["am", "pm"] }, named)?;
                set(&mut self.said.is_pm, index, named)?;
                self.said.is_12_hours = true;
            }
            Field::Era { has_points, .. } => {
                let index = self.word(if has_points { &["a.d.", "b.c."] } else { &["ad", "bc"] }, named)?;
                set(&mut self.said.is_bc, index, named)?;
            }
            Field::MonthName(_) => {
                let index = self.word(&MONTHS, named)?;
                set(&mut self.said.month, index + 1, named)?;
            }
            Field::MonthNameShort(_) => {
                let index = self.word(&MONTHS.map(|name| &name[..3]), named)?;
                set(&mut self.said.month, index + 1, named)?;
            }
            Field::DayName(_) => {
                let index = self.word(&WEEKDAYS, named)?;
                set(&mut self.said.weekday, index, named)?;
                self.said.weekday += 1;
            }
            Field::DayNameShort(_) => {
                let index = self.word(&WEEKDAYS.map(|name| &name[..3]), named)?;
                set(&mut self.said.weekday, index, named)?;
                self.said.weekday += 1;
            }
            Field::RomanMonth(_) => {
                let index = self.word(&roman::MONTHS_BACKWARD, named)?;
                set(&mut self.said.month, 12 - index, named)?;
            }
            Field::ZoneName(_) | Field::Offset => {
                let message = format!("formatting field \"{}\" is only supported in to_char", named.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The place in a list of the word that the text goes on with, in any case.
    fn word(&mut self, words: &[&str], named: Named) -> SqlResult<i64> {
        let rest = self.rest().as_bytes();
        let is_next = |word: &&str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        match words.iter().position(is_next) {
            Some(index) => {
                self.at += words[index].len();
                Ok(i64::try_from(index).unwrap_or(0))
            }
            None => {
                let word = self.rest().split(is_space).next().unwrap_or("");
                Err(format_error(format!("invalid value \"{word}\" for \"{}\"", named.name))
                    .with_detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }

    fn number_field(&mut self, named: Named, is_delimited: bool) -> SqlResult<()> {
        let width = named.name.len();
        match named.field {
            Field::Hour12 => {
                self.number(named, 2, is_delimited, |said| &mut said.hour)?;
                self.said.is_12_hours = true;
            }
            Field::Hour24 => {
                self.number(named, 2, is_delimited, |said| &mut said.hour)?;
                self.said.is_12_hours = false;
            }
            Field::Minute => self.number(named, 2, is_delimited, |said| &mut said.minute).map(drop)?,
            Field::Second => self.number(named, 2, is_delimited, |said| &mut said.second).map(drop)?,
            Field::SecondsOfDay => {
                self.number(named, width, is_delimited, |said| &mut said.seconds_of_day)?;
            }
            Field::Millisecond => {
                let digits = self.number(named, 3, is_delimited, |said| &mut said.millisecond)?;
                self.said.millisecond = self.said.millisecond.saturating_mul(missing_digits(3, digits));
            }
            Field::Microsecond => self.fraction(named, 6, is_delimited)?,
            Field::Fraction(digits) => {
                self.said.fraction_digits = Some(digits);
                self.fraction(named, digits as usize, is_delimited)?;
            }
            Field::ZoneHour => self.zone_hour(named, is_delimited)?,
            Field::ZoneMinute => {
                if self.said.zone_sign == 0 {
                    self.said.zone_sign = 1;
                }
                self.number(named, 2, is_delimited, |said| &mut said.zone_minute)?;
            }
            Field::Month => self.number(named, 2, is_delimited, |said| &mut said.month).map(drop)?,
            Field::DayOfYear => {
                self.number(named, width, is_delimited, |said| &mut said.day_of_year).map(drop)?
            }
            Field::IsoDayOfYear => {
                self.number(named, 3, is_delimited, |said| &mut said.day_of_year).map(drop)?
            }
            Field::Day => self.number(named, 2, is_delimited, |said| &mut said.day).map(drop)?,
            Field::Weekday => self.number(named, width, is_delimited, |said| &mut said.weekday).map(drop)?,
            Field::IsoWeekday => {
                self.number(named, 1, is_delimited, |said| &mut said.weekday)?;
                // Sunday is the first day here.
                self.said.weekday = if self.said.weekday >= 7 { 1 } else { self.said.weekday + 1 };
            }
            Field::Week | Field::IsoWeek => {
                self.number(named, width, is_delimited, |said| &mut said.week)?;
            }
            Field::Quarter => {
                // The first day of a quarter is not meant: the number is read and forgotten.
                self.integer(named, width, is_delimited)?;
            }
            Field::Century => self.number(named, width, is_delimited, |said| &mut said.century).map(drop)?,
            Field::YearWithComma => self.year_with_comma(named)?,
            Field::Year(digits) | Field::IsoYear(digits) => {
                let length = self.number(named, width, is_delimited, |said| &mut said.year)?;
                if digits < 4 && length < 4 {
                    self.said.year = full_year(self.said.year);
                }
                self.said.year_digits = digits;
            }
            Field::WeekOfMonth => {
                self.number(named, width, is_delimited, |said| &mut said.week_of_month)?;
            }
            Field::Julian => self.number(named, width, is_delimited, |said| &mut said.julian).map(drop)?,
            _ => {}
        }
        Ok(())
    }

    fn fraction(&mut self, named: Named, width: usize, is_delimited: bool) -> SqlResult<()> {
        let digits = self.number(named, width, is_delimited, |said| &mut said.microsecond)?;
        self.said.microsecond = self.said.microsecond.saturating_mul(missing_digits(6, digits));
        Ok(())
    }

    /// A sign that was skipped as a separator belongs to the hour.
    fn zone_hour(&mut self, named: Named, is_delimited: bool) -> SqlResult<()> {
        match self.next() {
            Some(sign @ ('+' | '-' | ' ')) => {
                self.said.zone_sign = if sign == '-' { -1 } else { 1 };
                self.skip();
            }
            _ => {
                let is_negative = self.skipped > 0 && self.text[..self.at].ends_with('-');
                self.said.zone_sign = if is_negative { -1 } else { 1 };
            }
        }
        self.number(named, 2, is_delimited, |said| &mut said.zone_hour).map(drop)
    }

    /// `2,001`.
    fn year_with_comma(&mut self, named: Named) -> SqlResult<()> {
        let wrong = || format_error("invalid input string for \"Y,YYY\"".to_owned());
        let rest = self.rest().trim_start_matches(is_space);
        let (thousands, after) = integer_prefix(rest, usize::MAX).ok_or_else(wrong)?;
        let after = after.strip_prefix(',').ok_or_else(wrong)?.trim_start_matches(is_space);
        let (years, after) = integer_prefix(after, 3).ok_or_else(wrong)?;
        let year = thousands.checked_mul(1_000).and_then(|thousands| thousands.checked_add(years));
        let year = year.filter(|year| i32::try_from(*year).is_ok()).ok_or_else(|| {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                "value for \"Y,YYY\" in source string is out of range",
            )
        })?;
        set(&mut self.said.year, year, named)?;
        self.said.year_digits = 4;
        self.at = self.text.len() - after.len();
        Ok(())
    }

    /// Reads a number into a place; returns how many bytes it had.
    fn number(
        &mut self,
        named: Named,
        width: usize,
        is_delimited: bool,
        place: impl Fn(&mut Said) -> &mut i64,
    ) -> SqlResult<usize> {
        let (value, length) = self.integer(named, width, is_delimited)?;
        set(place(&mut self.said), value, named)?;
        Ok(length)
    }

    /// Reads an integer: all of its digits if nothing after it can be one, else exactly `width` characters.
    fn integer(&mut self, named: Named, width: usize, is_delimited: bool) -> SqlResult<(i64, usize)> {
        const FM_HINT: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let start = self.at;
        let rest = self.rest().trim_start_matches(is_space);
        let copy = first_bytes(rest, width);
        let parsed = if is_delimited {
            integer_prefix(rest, usize::MAX)
        } else {
            if rest.len() < width {
                let message = format!("source string too short for \"{}\" formatting field", named.name);
                let remaining = rest.len();
                return Err(format_error(message)
                    .with_detail(format!("Field requires {width} characters, but only {remaining} remain."))
                    .with_hint(FM_HINT));
            }
            let parsed = integer_prefix(copy, usize::MAX);
            let used = parsed.map_or(0, |(_, after)| copy.len() - after.len());
            if used > 0 && used < width {
                let message = format!("invalid value \"{copy}\" for \"{}\"", named.name);
                return Err(format_error(message)
                    .with_detail(format!(
                        "Field requires {width} characters, but only {used} could be parsed."
                    ))
                    .with_hint(FM_HINT));
            }
            parsed.map(|(value, after)| (value, &rest[copy.len() - after.len()..]))
        };
        let Some((value, after)) = parsed else {
            return Err(format_error(format!("invalid value \"{copy}\" for \"{}\"", named.name))
                .with_detail("Value must be an integer."));
        };
        if i32::try_from(value).is_err() {
            let message = format!("value for \"{}\" in source string is out of range", named.name);
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message).with_detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            )));
        }
        self.at = self.text.len() - after.len();
        Ok((value, self.at - start))
    }
}

/// A field that is said twice must say the same.
fn set(place: &mut i64, value: i64, named: Named) -> SqlResult<()> {
    if *place != 0 && *place != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", named.name);
        return Err(format_error(message)
            .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *place = value;
    Ok(())
}

/// As many whole characters as fit into so many bytes.
fn first_bytes(text: &str, width: usize) -> &str {
    if text.len() <= width { text } else { &text[..text.floor_char_boundary(width)] }
}

/// An integer at the start of a text, of at most so many characters with its sign; and the rest. One that is too large is the largest.
fn integer_prefix(text: &str, width: usize) -> Option<(i64, &str)> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits_max = width - (text.len() - digits.len());
    let count = digits.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let end = text.len() - digits.len() + count;
    let saturated = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some((text[..end].parse().unwrap_or(saturated), &text[end..]))
}

/// What a fraction with fewer digits is multiplied with: `5` of a second's tenths are 500 of its thousandths.
fn missing_digits(width: usize, digits: usize) -> i64 {
    let missing = u32::try_from(width.saturating_sub(digits.max(1))).unwrap_or(0);
    10_i64.pow(missing)
}

/// The year nearest to 2020 that ends in a number of one to three digits.
fn full_year(year: i64) -> i64 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}
