//! Input of intervals.
//!
//! Tokens are read from right to left, so that a unit is known when its number comes.

use super::input::Wrong;
use super::input::numbers::{clock, fraction, leading_integer, leading_long};
use super::precision::{
    DAY_FIELD, HOUR_FIELD, MINUTE_FIELD, MONTH_FIELD, SECOND_FIELD, YEAR_FIELD, interval_fields,
    interval_to_modifier,
};
use super::tokens::{Form, Token, cut};
use super::words::{IntervalWord, Unit, interval_word};
use super::{DAY, HOUR, MINUTE, SECOND, YEAR_MONTHS, interval_iso, out_of_range};
use crate::datum::Interval;
use crate::error::SqlResult;
use crate::settings::{IntervalStyle, Settings};
use num_traits::ToPrimitive;

/// Bytes that the tokens of an interval have, at most.
const BYTES_MAX: usize = 256;

/// Reads an interval; the modifier says what a number without a unit is, and applies to the result.
///
/// # Errors
/// `22007` if it has no form of an interval, `22015` and `22008` if it is out of range.
pub fn interval_input(text: &str, type_modifier: i32, settings: &Settings) -> SqlResult<Interval> {
    let fields = interval_fields(type_modifier);
    let tokens = cut(text, BYTES_MAX).ok_or(Wrong::Form);
    let read = tokens.and_then(|tokens| read(&tokens, fields, settings)).or_else(|wrong| match wrong {
        Wrong::Form => interval_iso::read(text),
        wrong => Err(wrong),
    });
    let sum = read.map_err(|wrong| match wrong {
        Wrong::Field => Wrong::IntervalField.error(text, "interval"),
        wrong => wrong.error(text, "interval"),
    })?;
    interval_to_modifier(sum.interval().ok_or_else(|| out_of_range("interval"))?, type_modifier)
}

/// What the parts read so far come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Sum {
    fn interval(&self) -> Option<Interval> {
        let months = i64::from(self.years) * YEAR_MONTHS + i64::from(self.months);
        Some(Interval { months: i32::try_from(months).ok()?, days: self.days, micros: self.micros })
    }

    fn negated(&self) -> Option<Sum> {
        Some(Sum {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }

    /// Adds a number and its fraction of a unit. What is left of a month becomes days, of a week or a day it becomes time.
    pub(super) fn add(&mut self, unit: Unit, value: i64, fraction: f64) -> Result<(), Wrong> {
        let added = match unit {
            Unit::Microsecond => self.add_micros(value, fraction, 1),
            Unit::Millisecond => self.add_micros(value, fraction, 1_000),
            Unit::Second => self.add_micros(value, fraction, SECOND),
            Unit::Minute => self.add_micros(value, fraction, MINUTE),
            Unit::Hour => self.add_micros(value, fraction, HOUR),
            Unit::Day => self.add_days(value, 1).and_then(|()| self.add_time(fraction, DAY)),
            Unit::Week => self.add_days(value, 7).and_then(|()| self.add_part_of_days(fraction, 7.0)),
            Unit::Month => {
                let months = i32::try_from(value).ok().and_then(|value| self.months.checked_add(value));
                months.and_then(|months| {
                    self.months = months;
                    self.add_part_of_days(fraction, f64::from(30))
                })
            }
            Unit::Year => self.add_years(value, fraction, 1),
            Unit::Decade => self.add_years(value, fraction, 10),
            Unit::Century => self.add_years(value, fraction, 100),
            Unit::Millennium => self.add_years(value, fraction, 1_000),
            _ => return Err(Wrong::Form),
        };
        added.ok_or(Wrong::Field)
    }

    fn add_micros(&mut self, value: i64, fraction: f64, unit: i64) -> Option<()> {
        self.micros = value.checked_mul(unit)?.checked_add(self.micros)?;
        self.add_time(fraction, unit)
    }

    fn add_time(&mut self, fraction: f64, unit: i64) -> Option<()> {
        if fraction == 0.0 {
            return Some(());
        }
        let micros = fraction * unit.to_f64()?;
        self.micros = self.micros.checked_add(micros.trunc().to_i64()?)?;
        let rest = micros.fract();
        let rounded = if rest > 0.5 {
            1
        } else if rest < -0.5 {
            -1
        } else {
            0
        };
        self.micros = self.micros.checked_add(rounded)?;
        Some(())
    }

    fn add_days(&mut self, value: i64, days: i64) -> Option<()> {
        let days = i32::try_from(value.checked_mul(days)?).ok()?;
        self.days = self.days.checked_add(days)?;
        Some(())
    }

    fn add_part_of_days(&mut self, fraction: f64, unit: f64) -> Option<()> {
        let days = fraction * unit;
        self.days = self.days.checked_add(days.trunc().to_i32()?)?;
        self.add_time(days.fract(), DAY)
    }

    fn add_years(&mut self, value: i64, fraction: f64, years: i64) -> Option<()> {
        let value = i32::try_from(value.checked_mul(years)?).ok()?;
        self.years = self.years.checked_add(value)?;
        let months = fraction * years.to_f64()? * YEAR_MONTHS.to_f64()?;
        self.months = self.months.checked_add(months.round_ties_even().to_i32()?)?;
        Some(())
    }

    fn negate_time(&mut self) -> Result<(), Wrong> {
        self.micros = self.micros.checked_neg().ok_or(Wrong::Field)?;
        Ok(())
    }
}

/// A set of units that an interval has said.
fn bit(unit: Unit) -> u32 {
    1 << (unit as u32)
}

fn all_of_second() -> u32 {
    bit(Unit::Second) | bit(Unit::Millisecond) | bit(Unit::Microsecond)
}

fn read(tokens: &[Token], fields: i32, settings: &Settings) -> Result<Sum, Wrong> {
    // In the standard, a sign before the first part is the sign of all of them.
    let is_signed = |token: &Token| token.text.starts_with(['-', '+']);
    let is_negative = settings.interval_style == IntervalStyle::SqlStandard
        && tokens.first().is_some_and(|first| first.text.starts_with('-'))
        && !tokens[1..].iter().any(is_signed);
    let is_minute_first = fields == MINUTE_FIELD | SECOND_FIELD;
    let (mut sum, mut seen, mut unit, mut is_ago) = (Sum::default(), 0, None, false);
    for token in tokens.iter().rev() {
        let said = match token.form {
            Form::Time => {
                add_clock(&mut sum, &token.text, is_minute_first)?;
                if is_negative && sum.micros > 0 {
                    sum.negate_time()?;
                }
                unit = Some(Unit::Day);
                all_of_second() | bit(Unit::Minute) | bit(Unit::Hour)
            }
            Form::SignedNumber
                if token.text.contains(':')
                    && add_clock(&mut sum, &token.text[1..], is_minute_first).is_ok() =>
            {
                if token.text.starts_with('-') || is_negative && sum.micros > 0 {
                    sum.negate_time()?;
                }
                unit = Some(Unit::Day);
                all_of_second() | bit(Unit::Minute) | bit(Unit::Hour)
            }
            Form::SignedNumber | Form::Date | Form::Number => {
                let (said, next) =
                    add_number(&mut sum, &token.text, unit.unwrap_or(last_unit(fields)), is_negative)?;
                unit = Some(next);
                said
            }
            Form::Word | Form::SignedWord => {
                match interval_word(&token.text) {
                    Some(IntervalWord::Ignored) => continue,
                    Some(IntervalWord::Ago) => {
                        is_ago = true;
                        // A number directly before it is an error: this is no unit of an interval.
                        unit = Some(Unit::Epoch);
                    }
                    Some(IntervalWord::Unit(word)) => unit = Some(word),
                    None => return Err(Wrong::Form),
                }
                0
            }
        };
        if said & seen != 0 {
            return Err(Wrong::Form);
        }
        seen |= said;
    }
    if seen == 0 {
        return Err(Wrong::Form);
    }
    if is_ago { sum.negated().ok_or(Wrong::Field) } else { Ok(sum) }
}

/// Sets the time.
fn add_clock(sum: &mut Sum, text: &str, is_minute_first: bool) -> Result<(), Wrong> {
    let clock = clock(text, is_minute_first)?;
    let rest = clock.minutes * MINUTE + clock.seconds * SECOND + clock.micros;
    let micros = clock.hours.checked_mul(HOUR).and_then(|hours| hours.checked_add(rest));
    sum.micros = micros.ok_or(Wrong::Field)?;
    Ok(())
}

/// Adds a number of a unit, or `years-months`. Returns the units that it says, and the unit of a number before it that has none.
fn add_number(sum: &mut Sum, text: &str, unit: Unit, is_negative: bool) -> Result<(u32, Unit), Wrong> {
    let (mut value, rest) = leading_long(text, Wrong::Field)?;
    let (mut unit, mut part) = (unit, 0.0);
    if let Some(rest) = rest.strip_prefix('-') {
        let (months, rest) = leading_integer(rest, Wrong::Field)?;
        if !(0..YEAR_MONTHS).contains(&months) {
            return Err(Wrong::Field);
        }
        if !rest.is_empty() {
            return Err(Wrong::Form);
        }
        let months = if text.starts_with('-') { -months } else { months };
        let total = value.checked_mul(YEAR_MONTHS).and_then(|value| value.checked_add(months));
        (value, unit) = (total.ok_or(Wrong::Field)?, Unit::Month);
    } else if rest.starts_with('.') {
        part = fraction(rest)?;
        if text.starts_with('-') {
            part = -part;
        }
    } else if !rest.is_empty() {
        return Err(Wrong::Form);
    }
    if is_negative {
        (value, part) = (if value > 0 { -value } else { value }, -part.abs());
    }
    sum.add(unit, value, part)?;
    let said = if unit == Unit::Second && part != 0.0 { all_of_second() } else { bit(unit) };
    Ok((said, if unit == Unit::Hour { Unit::Day } else { unit }))
}

/// The unit of a number at the end that has none.
fn last_unit(fields: i32) -> Unit {
    const YEAR_TO_MONTH: i32 = YEAR_FIELD | MONTH_FIELD;
    const DAY_TO_HOUR: i32 = DAY_FIELD | HOUR_FIELD;
    const HOUR_TO_MINUTE: i32 = HOUR_FIELD | MINUTE_FIELD;
    const DAY_TO_MINUTE: i32 = DAY_FIELD | HOUR_FIELD | MINUTE_FIELD;
    match fields {
        YEAR_FIELD => Unit::Year,
        MONTH_FIELD | YEAR_TO_MONTH => Unit::Month,
        DAY_FIELD => Unit::Day,
        HOUR_FIELD | DAY_TO_HOUR => Unit::Hour,
        MINUTE_FIELD | HOUR_TO_MINUTE | DAY_TO_MINUTE => Unit::Minute,
        _ => Unit::Second,
    }
}
