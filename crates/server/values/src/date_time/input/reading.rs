//! What the tokens read so far say about a date or time.

use super::Wrong;
use super::numbers::{self, clock, digits, fraction_of_second, leading_integer, offset};
use crate::date_time::calendar::{self, Fields, from_julian, split};
use crate::date_time::tokens::{Form, Token};
use crate::date_time::words::{Unit, Word, date_word};
use crate::date_time::zone::{self, Meaning};
use crate::settings::{DateOrder, Settings, TimeZone};

mod completion;

/// Whether a whole timestamp is read, or a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Timestamp,
    Time,
}

/// What a text says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// A local time, and its offset in seconds east.
    Fields(Fields, i64),
    Epoch,
    Infinity,
    MinusInfinity,
}

/// A set of parts that a text has said.
type Parts = u32;

const YEAR: Parts = 1;
const MONTH: Parts = 1 << 1;
const DAY: Parts = 1 << 2;
const DAY_OF_YEAR: Parts = 1 << 3;
const HOUR: Parts = 1 << 4;
const MINUTE: Parts = 1 << 5;
const SECOND: Parts = 1 << 6;
const FRACTION: Parts = 1 << 7;
const ZONE: Parts = 1 << 8;
const DAYLIGHT: Parts = 1 << 9;
const DAYLIGHT_ADDED: Parts = 1 << 10;
const MERIDIEM: Parts = 1 << 11;
const ERA: Parts = 1 << 12;
const WEEKDAY: Parts = 1 << 13;
const SPECIAL: Parts = 1 << 14;
/// The zone was an abbreviation whose offset depends on the date.
const ABBREVIATION: Parts = 1 << 15;
const DATE: Parts = YEAR | MONTH | DAY;
const TIME: Parts = HOUR | MINUTE | SECOND | FRACTION;

/// A zone whose offset is known when the date is.
enum Zone {
    Offset(i64),
    Named(TimeZone),
    Abbreviation(String, chrono_tz::Tz),
}

/// The state while tokens are read.
pub(super) struct Reading<'a> {
    wanted: Wanted,
    settings: &'a Settings,
    fields: Fields,
    day_of_year: i64,
    seen: Parts,
    zone: Zone,
    is_year_short: bool,
    is_julian: bool,
    is_bc: bool,
    is_pm: Option<bool>,
    has_month_name: bool,
    /// The unit that the number after it has.
    label: Option<Unit>,
    /// `infinity` or `epoch`; a date or time after it has the last word.
    special: Option<Moment>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(wanted: Wanted, settings: &'a Settings) -> Reading<'a> {
        Reading {
            wanted,
            settings,
            fields: Fields::default(),
            day_of_year: 0,
            seen: 0,
            zone: Zone::Offset(0),
            is_year_short: false,
            is_julian: false,
            is_bc: false,
            is_pm: None,
            has_month_name: false,
            label: None,
            special: None,
        }
    }

    pub(super) fn read(mut self, tokens: &[Token]) -> Result<Moment, Wrong> {
        for index in 0..tokens.len() {
            let said = match tokens[index].form {
                Form::Date if self.wanted == Wanted::Time => self.date_of_time(tokens, index)?,
                Form::Date => self.date_token(&tokens[index].text)?,
                Form::Time => self.time(&tokens[index].text)?,
                Form::SignedNumber => {
                    self.zone = Zone::Offset(offset(&tokens[index].text)?);
                    ZONE
                }
                Form::Number => self.number_token(tokens, index)?,
                Form::Word | Form::SignedWord => match self.word(tokens, index)? {
                    Some(said) => said,
                    None => continue,
                },
            };
            if said & self.seen != 0 {
                return Err(Wrong::Form);
            }
            self.seen |= said;
        }
        self.finish()
    }

    fn has(&self, parts: Parts) -> bool {
        self.seen & parts == parts
    }

    /// A token with `-`, `/` or `.`: a date; after one, a zone's name, or a time and an offset.
    fn date_token(&mut self, text: &str) -> Result<Parts, Wrong> {
        if self.label == Some(Unit::Julian) {
            let (day, rest) = leading_integer(text, Wrong::Field)?;
            if day < 0 {
                return Err(Wrong::Field);
            }
            self.set_julian(day);
            self.zone = Zone::Offset(offset(rest)?);
            self.label = None;
            return Ok(DATE | TIME | ZONE);
        }
        if self.label.is_none() && !self.has(MONTH | DAY) {
            return self.date(text);
        }
        let is_time = text.starts_with(|first: char| first.is_ascii_digit()) || self.label.is_some();
        if !is_time {
            return self.zone_name(text);
        }
        if self.label.take().is_some_and(|label| label != Unit::Time) {
            return Err(Wrong::Form);
        }
        self.time_and_offset(text, self.seen)
    }

    /// The same where a time is wanted: dates are only read before a time with a zone.
    fn date_of_time(&mut self, tokens: &[Token], index: usize) -> Result<Parts, Wrong> {
        let text = &tokens[index].text;
        let is_last_date = tokens.last().is_some_and(|last| last.form == Form::Date);
        if index == 0 && tokens.len() >= 2 && (is_last_date || tokens[1].form == Form::Time) {
            return self.date(text);
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return self.time_and_offset(text, self.seen | DATE);
        }
        self.zone_name(text)
    }

    /// `040506-08`.
    fn time_and_offset(&mut self, text: &str, seen: Parts) -> Result<Parts, Wrong> {
        if self.has(TIME) {
            return Err(Wrong::Form);
        }
        let (time, _) = text.split_once('-').ok_or(Wrong::Form)?;
        self.zone = Zone::Offset(offset(&text[time.len()..])?);
        Ok(self.run_together(time, seen)? | ZONE)
    }

    fn zone_name(&mut self, name: &str) -> Result<Parts, Wrong> {
        let zone = zone::by_name(name).ok_or_else(|| Wrong::ZoneName(name.to_owned()))?;
        self.zone = Zone::Named(zone);
        Ok(ZONE)
    }

    fn time(&mut self, text: &str) -> Result<Parts, Wrong> {
        // A time after `t`, as ISO 8601 has it.
        if self.wanted == Wanted::Timestamp && self.label.take().is_some_and(|label| label != Unit::Time) {
            return Err(Wrong::Form);
        }
        let clock = clock(text, false)?;
        if clock.hours > i64::from(i32::MAX) {
            return Err(Wrong::Field);
        }
        let (hour, minute, second) = (clock.hours, clock.minutes, clock.seconds);
        self.fields = Fields { hour, minute, second, micros: clock.micros, ..self.fields };
        if self.wanted == Wanted::Timestamp {
            self.check_day_end()?;
        }
        Ok(TIME)
    }

    /// 24:00:00 is the last time of a day.
    fn check_day_end(&self) -> Result<(), Wrong> {
        let Fields { hour, minute, second, micros, .. } = self.fields;
        let is_after = hour > 24 || hour == 24 && (minute > 0 || second > 0 || micros > 0);
        if is_after { Err(Wrong::Field) } else { Ok(()) }
    }

    /// A date with separators. A month's name among its parts comes first, since it cannot be anything else.
    fn date(&mut self, text: &str) -> Result<Parts, Wrong> {
        let parts = date_parts(text)?;
        let before = self.seen;
        let (mut seen, mut has_month_name) = (before, false);
        for part in parts.iter().filter(|part| part.starts_with(|first: char| first.is_ascii_alphabetic())) {
            match date_word(part) {
                Some(Word::Ignored) => continue,
                Some(Word::Month(month)) => self.fields.month = month,
                _ => return Err(Wrong::Form),
            }
            if seen & MONTH != 0 {
                return Err(Wrong::Form);
            }
            has_month_name = true;
            seen |= MONTH;
        }
        for part in parts.iter().filter(|part| part.starts_with(|first: char| first.is_ascii_digit())) {
            let said = self.number(part, has_month_name, seen)?;
            if seen & said != 0 {
                return Err(Wrong::Form);
            }
            seen |= said;
        }
        if seen & !(DAY_OF_YEAR | ZONE) == DATE { Ok(seen & !before) } else { Err(Wrong::Form) }
    }

    fn number_token(&mut self, tokens: &[Token], index: usize) -> Result<Parts, Wrong> {
        let text = &tokens[index].text;
        if let Some(label) = self.label.take() {
            self.special = None;
            return self.labelled(label, text);
        }
        let point = text.find('.');
        match self.wanted {
            Wanted::Timestamp => match point {
                Some(_) if self.seen & DATE == 0 => self.date(text),
                Some(point) if point > 2 => self.run_together(text, self.seen),
                // After a part of the date and a time, only a year can be so long.
                _ if text.len() >= 6 && (self.seen & DATE == 0 || self.seen & TIME == 0) => {
                    self.run_together(text, self.seen)
                }
                _ => self.number(text, self.has_month_name, self.seen),
            },
            Wanted::Time => match point {
                Some(_) if index == 0 && tokens.len() >= 2 && tokens[tokens.len() - 1].form == Form::Date => {
                    self.date(text)
                }
                Some(point) if point > 2 => self.run_together(text, self.seen | DATE),
                Some(_) => Err(Wrong::Form),
                None if text.len() > 4 => self.run_together(text, self.seen | DATE),
                None => self.number(text, false, self.seen | DATE),
            },
        }
    }

    /// A number after its unit: `y2001m02d03`, `J2451187`, `t040506`.
    fn labelled(&mut self, label: Unit, text: &str) -> Result<Parts, Wrong> {
        let (value, rest) = leading_integer(text, Wrong::Field)?;
        let can_have_fraction = matches!(label, Unit::Julian | Unit::Time | Unit::Second);
        let is_whole = rest.is_empty();
        let has_fraction = rest.starts_with('.') && can_have_fraction;
        if !is_whole && !has_fraction {
            return Err(Wrong::Form);
        }
        match label {
            Unit::Year => self.fields.year = value,
            // After an hour, `m` are minutes.
            Unit::Month if self.has(MONTH | HOUR) => {
                self.fields.minute = value;
                return Ok(MINUTE);
            }
            Unit::Month => self.fields.month = value,
            Unit::Day => self.fields.day = value,
            Unit::Hour => self.fields.hour = value,
            Unit::Minute => self.fields.minute = value,
            Unit::Second => self.fields.second = value,
            _ => {}
        }
        match label {
            Unit::Year => Ok(YEAR),
            Unit::Month => Ok(MONTH),
            Unit::Day => Ok(DAY),
            Unit::Hour => Ok(HOUR),
            Unit::Minute => Ok(MINUTE),
            Unit::Second if is_whole => Ok(SECOND),
            Unit::Second => {
                self.fields.micros = fraction_of_second(rest)?;
                Ok(SECOND | FRACTION)
            }
            Unit::Julian => self.julian_day(value, rest),
            Unit::Time => match self.run_together(text, self.seen | DATE)? {
                TIME => Ok(TIME),
                _ => Err(Wrong::Form),
            },
            _ => Err(Wrong::Form),
        }
    }

    fn julian_day(&mut self, day: i64, rest: &str) -> Result<Parts, Wrong> {
        if day < 0 {
            return Err(Wrong::Field);
        }
        self.set_julian(day);
        if rest.is_empty() {
            return Ok(DATE);
        }
        let micros = numbers::fraction(rest)? * 86_400e6;
        let time = calendar::split_time(num_traits::ToPrimitive::to_i64(&micros).ok_or(Wrong::Form)?);
        let Fields { year, month, day, .. } = self.fields;
        self.fields = Fields { year, month, day, ..time };
        Ok(DATE | TIME)
    }

    fn set_julian(&mut self, day: i64) {
        let (year, month, day) = from_julian(day);
        self.fields = Fields { year, month, day, ..self.fields };
        self.is_julian = true;
    }

    /// A number of up to four digits: what it is depends on the parts of the date that are there.
    fn number(&mut self, text: &str, has_month_name: bool, seen: Parts) -> Result<Parts, Wrong> {
        let (value, rest) = leading_integer(text, Wrong::Field)?;
        if rest.len() == text.len() {
            return Err(Wrong::Form);
        }
        if rest.starts_with('.') {
            if text.len() - rest.len() > 2 {
                return self.run_together(text, seen | DATE);
            }
            self.fields.micros = fraction_of_second(rest)?;
        } else if !rest.is_empty() {
            return Err(Wrong::Form);
        }
        let is_year_first = text.len() >= 3 || self.settings.date_order == DateOrder::YearMonthDay;
        if text.len() == 3 && seen & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        match seen & DATE {
            0 if is_year_first => Ok(self.set_year(value, text)),
            0 if self.settings.date_order == DateOrder::DayMonthYear => Ok(self.set_day(value)),
            0 => Ok(self.set_month(value)),
            YEAR => Ok(self.set_month(value)),
            MONTH if has_month_name && is_year_first => Ok(self.set_year(value, text)),
            MONTH => Ok(self.set_day(value)),
            part if part == YEAR | MONTH => {
                // The first number was the day after all: `01-Feb-2003` where years are first.
                if has_month_name && text.len() >= 3 && self.is_year_short {
                    self.fields.day = self.fields.year;
                    self.fields.year = value;
                    self.is_year_short = false;
                    return Ok(DAY);
                }
                Ok(self.set_day(value))
            }
            DAY => Ok(self.set_month(value)),
            part if part == MONTH | DAY => Ok(self.set_year(value, text)),
            DATE => self.run_together(text, seen),
            _ => Err(Wrong::Form),
        }
    }

    fn set_year(&mut self, value: i64, text: &str) -> Parts {
        self.fields.year = value;
        self.is_year_short = text.len() <= 2;
        YEAR
    }

    fn set_month(&mut self, value: i64) -> Parts {
        self.fields.month = value;
        MONTH
    }

    fn set_day(&mut self, value: i64) -> Parts {
        self.fields.day = value;
        DAY
    }

    /// Digits of a date or time without separators: `20010203`, `010203`, `040506.789`, `0405`.
    fn run_together(&mut self, text: &str, seen: Parts) -> Result<Parts, Wrong> {
        let (text, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let is_whole = fraction.is_empty();
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Wrong::Form);
        }
        if !is_whole {
            self.fields.micros = fraction_of_second(fraction)?;
        } else if seen & DATE != DATE && text.len() >= 6 {
            let (rest, day) = text.split_at(text.len() - 2);
            let (year, month) = rest.split_at(rest.len() - 2);
            self.fields.year = digits(year)?;
            self.fields.month = digits(month)?;
            self.fields.day = digits(day)?;
            self.is_year_short = text.len() == 6;
            return Ok(DATE);
        }
        if seen & TIME == TIME || !matches!(text.len(), 4 | 6) {
            return Err(Wrong::Form);
        }
        self.fields.hour = digits(&text[..2])?;
        self.fields.minute = digits(&text[2..4])?;
        self.fields.second = digits(&text[4..])?;
        Ok(TIME)
    }

    /// A word, with or without a sign. None: it means nothing.
    fn word(&mut self, tokens: &[Token], index: usize) -> Result<Option<Parts>, Wrong> {
        let text = &tokens[index].text;
        if let Some(meaning) = zone::by_abbreviation(text) {
            return Ok(Some(self.abbreviation(text, meaning)));
        }
        let Some(word) = date_word(text) else {
            return self.zone_name(text).map(Some).map_err(|_| Wrong::Form);
        };
        let is_time = self.wanted == Wanted::Time;
        Ok(Some(match word {
            Word::Ignored => return Ok(None),
            Word::Now if is_time => {
                self.fields = self.now().0;
                TIME
            }
            Word::Now => {
                self.special = None;
                let (fields, east) = self.now();
                (self.fields, self.zone) = (fields, Zone::Offset(east));
                DATE | TIME | ZONE
            }
            Word::Zulu => {
                self.special = None;
                self.fields = Fields { hour: 0, minute: 0, second: 0, ..self.fields };
                self.zone = Zone::Offset(0);
                TIME | ZONE
            }
            Word::Am | Word::Pm => {
                self.is_pm = Some(word == Word::Pm);
                MERIDIEM
            }
            Word::Ad | Word::Bc => {
                self.is_bc = word == Word::Bc;
                ERA
            }
            Word::DaylightSaving => {
                if let Zone::Offset(east) = &mut self.zone {
                    *east += 3_600;
                }
                DAYLIGHT | DAYLIGHT_ADDED
            }
            Word::Unit(unit) => {
                self.label = Some(unit);
                0
            }
            Word::IsoTime => {
                let next = tokens.get(index + 1).map(|next| next.form);
                let is_date_complete = is_time || self.has(DATE);
                if !is_date_complete || !matches!(next, Some(Form::Number | Form::Time | Form::Date)) {
                    return Err(Wrong::Form);
                }
                self.label = Some(Unit::Time);
                0
            }
            _ if is_time => return Err(Wrong::Form),
            Word::Today => self.day_from_today(0),
            Word::Yesterday => self.day_from_today(-1),
            Word::Tomorrow => self.day_from_today(1),
            Word::Epoch => self.special(Moment::Epoch),
            Word::Infinity => self.special(Moment::Infinity),
            Word::MinusInfinity => self.special(Moment::MinusInfinity),
            Word::Weekday => WEEKDAY,
            Word::Month(month) => self.month_name(month),
        }))
    }

    fn special(&mut self, moment: Moment) -> Parts {
        self.special = Some(moment);
        SPECIAL
    }

    fn abbreviation(&mut self, text: &str, meaning: Meaning) -> Parts {
        match meaning {
            Meaning::Standard(east) => {
                self.zone = Zone::Offset(east);
                ZONE
            }
            Meaning::Daylight(east) => {
                self.zone = Zone::Offset(east);
                ZONE | DAYLIGHT
            }
            Meaning::Zone(zone) => {
                self.zone = Zone::Abbreviation(text.to_owned(), zone);
                ZONE | ABBREVIATION
            }
        }
    }

    /// A month's name after a number that was taken for the month: that was the day.
    fn month_name(&mut self, month: i64) -> Parts {
        let was_day = self.has(MONTH)
            && !self.has_month_name
            && self.seen & DAY == 0
            && (1..=31).contains(&self.fields.month);
        let said = if was_day { self.set_day(self.fields.month) } else { MONTH };
        self.has_month_name = true;
        self.fields.month = month;
        said
    }

    /// The time at which the transaction began, in the zone of the session.
    fn now(&self) -> (Fields, i64) {
        let offset = zone::offset_at(self.settings.transaction_time, self.settings.time_zone);
        let local = self.settings.transaction_time.saturating_add(offset.east * crate::date_time::SECOND);
        (split(local), offset.east)
    }

    fn day_from_today(&mut self, days: i64) -> Parts {
        self.special = None;
        let (year, month, day) = from_julian(self.now().0.julian() + days);
        self.fields = Fields { year, month, day, hour: 0, minute: 0, second: 0, ..self.fields };
        DATE
    }
}

/// The runs of digits and of letters of a date, without the separators between them.
fn date_parts(text: &str) -> Result<Vec<&str>, Wrong> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches(|separator: char| !separator.is_ascii_alphanumeric());
        let Some(first) = rest.chars().next() else { return Err(Wrong::Form) };
        let is_same_kind = |other: char| {
            if first.is_ascii_digit() { other.is_ascii_digit() } else { other.is_ascii_alphabetic() }
        };
        let end = rest.find(|other: char| !is_same_kind(other)).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        // The separator after it, or the first character of the next part, is skipped.
        rest = rest[end..].strip_prefix(|_| true).unwrap_or("");
    }
    Ok(parts)
}
