//! Time zones: the offset at a moment, and what names and abbreviations mean.
//!
//! The IANA database is built in. It lists changes up to the year 2099; later years have the changes of a year in the last 28 of these
//! that has the same calendar, as zones with rules of the form "the last Sunday of March" do.

use std::sync::OnceLock;

use chrono::{DateTime, NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::{OffsetComponents, OffsetName, Tz, TzOffset};
use rustc_hash::FxHashMap;

use super::calendar::{self, Fields, UNIX_EPOCH_DAYS, is_leap, julian, weekday};
use super::input::Wrong;
use super::input::numbers::offset;
use super::output::write_offset;
use super::{DAY, SECOND, append, out_of_range};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::TimeZone;

mod abbreviations;
mod posix;

use abbreviations::ABBREVIATIONS;
pub use abbreviations::Meaning;

/// The first year whose changes the database does not list.
const LISTED_YEARS_END: i64 = 2099;
/// Years after which calendars repeat, between two centuries.
const CALENDAR_CYCLE: i64 = 28;

/// What a zone's clocks show at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Seconds east of Greenwich.
    pub east: i64,
    /// Whether it is the time of the summer.
    pub is_daylight: bool,
    /// Where it is from, unless the zone is a fixed offset.
    listed: Option<TzOffset>,
}

impl Offset {
    fn fixed(east: i64) -> Offset {
        Offset { east, is_daylight: false, listed: None }
    }

    fn listed(zone: Tz, moment: &NaiveDateTime) -> Offset {
        let listed = zone.offset_from_utc_datetime(moment);
        Offset {
            east: i64::from(listed.fix().local_minus_utc()),
            is_daylight: !listed.dst_offset().is_zero(),
            listed: Some(listed),
        }
    }

    /// Its abbreviation in the database; many zones have none.
    pub fn abbreviation(&self) -> Option<&str> {
        self.listed.as_ref().and_then(OffsetName::abbreviation)
    }

    /// Writes the abbreviation, or the offset as an abbreviation.
    pub(crate) fn write_abbreviation(&self, out: &mut String) {
        match &self.listed {
            Some(listed) if listed.abbreviation().is_some() || self.east % 60 == 0 => append(out, listed),
            _ => write_offset(self.east, out),
        }
    }
}

/// The offset of a zone at a moment, which is in UTC.
pub fn offset_at(utc: i64, zone: TimeZone) -> Offset {
    match zone {
        TimeZone::Fixed(east) => Offset::fixed(i64::from(east)),
        TimeZone::Named(Tz::UTC) => Offset::listed(Tz::UTC, &DateTime::UNIX_EPOCH.naive_utc()),
        TimeZone::Named(zone) => {
            let seconds = listed(utc.div_euclid(SECOND)) + UNIX_EPOCH_DAYS * (DAY / SECOND);
            let moment = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::UNIX_EPOCH);
            Offset::listed(zone, &moment.naive_utc())
        }
    }
}

/// A moment with the same place in its year, in a year that the database lists. In seconds since 2000-01-01.
fn listed(seconds: i64) -> i64 {
    const DAY_SECONDS: i64 = DAY / SECOND;
    let day = seconds.div_euclid(DAY_SECONDS) + calendar::EPOCH_JULIAN;
    let first_day = |year| julian(year, 1, 1);
    if day < first_day(LISTED_YEARS_END) {
        return seconds;
    }
    let (year, ..) = calendar::from_julian(day);
    let is_alike = |other: &i64| {
        is_leap(*other) == is_leap(year) && weekday(first_day(*other)) == weekday(first_day(year))
    };
    let alike = (LISTED_YEARS_END - CALENDAR_CYCLE..LISTED_YEARS_END).find(is_alike);
    seconds - (first_day(year) - first_day(alike.unwrap_or(year))) * DAY_SECONDS
}

/// The offset of a zone when its clocks show this time.
///
/// A time that clocks skip is read with the offset before the change, one that they show twice with the offset after.
pub fn offset_of_local(local: i64, zone: TimeZone) -> Offset {
    if let TimeZone::Fixed(east) = zone {
        return Offset::fixed(i64::from(east));
    }
    // Changes are more than two days apart: one around this time is between these moments.
    let before = offset_at(local.saturating_sub(DAY), zone);
    let after = offset_at(local.saturating_add(DAY), zone);
    if before == after {
        return before;
    }
    let utc = |offset: Offset| local.saturating_sub(offset.east * SECOND);
    let (before_utc, after_utc) = (utc(before), utc(after));
    let is_before = |moment: i64| offset_at(moment, zone) == before;
    match (is_before(before_utc), is_before(after_utc)) {
        (true, true) => before,
        (false, false) => after,
        _ if before_utc > after_utc => before,
        _ => after,
    }
}

/// A moment in UTC as the local time of a zone, with the offset. It may be hours before the first timestamp or after the last one.
pub fn to_local(utc: i64, zone: TimeZone) -> (i64, Offset) {
    let offset = offset_at(utc, zone);
    (utc.saturating_add(offset.east * SECOND), offset)
}

/// The moment in UTC at which clocks of a zone show a local time.
///
/// # Errors
/// `22008` if it cannot be represented.
pub fn to_utc(local: i64, zone: TimeZone) -> SqlResult<i64> {
    let utc = i128::from(local) - i128::from(offset_of_local(local, zone).east * SECOND);
    calendar::checked(utc).ok_or_else(|| out_of_range("timestamp"))
}

/// The same for fields, whose time may carry over into the next day.
pub(super) fn offset_of_fields(fields: &Fields, zone: TimeZone) -> Offset {
    if !calendar::is_valid_month(fields.year, fields.month) {
        return Offset::fixed(0);
    }
    // Dates beyond the timestamps have offsets, too; their zones do not change any more.
    let days = fields.julian() - calendar::EPOCH_JULIAN;
    offset_of_local(days.saturating_mul(DAY).saturating_add(fields.time()), zone)
}

/// The zone of a name, in any case, or of a POSIX specification without summer time such as `UTC+3`.
pub fn by_name(name: &str) -> Option<TimeZone> {
    static NAMES: OnceLock<FxHashMap<String, Tz>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        chrono_tz::TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone)).collect()
    });
    let found = names.get(&name.to_ascii_lowercase()).copied().map(TimeZone::Named);
    found.or_else(|| posix::offset(name).map(TimeZone::Fixed))
}

/// The meaning of an abbreviation, which is in lower case.
pub(super) fn by_abbreviation(abbreviation: &str) -> Option<Meaning> {
    let found = ABBREVIATIONS.binary_search_by(|(known, _)| known.cmp(&abbreviation));
    found.ok().map(|index| ABBREVIATIONS[index].1)
}

/// The offset of a zone when its clocks show `local` and call it `abbreviation`. A zone that does not use the abbreviation at that time
/// has the offset of the latest use before, or else of the first one after; one without abbreviations has the offset of that time.
pub(super) fn abbreviated_offset(local: i64, abbreviation: &str, zone: Tz) -> Offset {
    const QUARTER: i64 = 91 * DAY;
    /// 1800 to 2100: the database knows no abbreviation before, and no change after.
    const LISTED: std::ops::Range<i64> = -200 * 4 * QUARTER..100 * 4 * QUARTER;
    let named = TimeZone::Named(zone);
    let at_that_time = offset_of_local(local, named);
    let is_used =
        |offset: &Offset| offset.abbreviation().is_some_and(|known| known.eq_ignore_ascii_case(abbreviation));
    if is_used(&at_that_time) || at_that_time.abbreviation().is_none() {
        return at_that_time;
    }
    let steps = 1..(LISTED.end - LISTED.start) / QUARTER;
    let start = local.clamp(LISTED.start, LISTED.end);
    let mut earlier = steps.clone().map(|step| offset_at(start - step * QUARTER, named));
    let mut later = steps.map(|step| offset_at(start + step * QUARTER, named));
    earlier.find(is_used).or_else(|| later.find(is_used)).unwrap_or(at_that_time)
}

/// The zone of a name, an abbreviation, or a specification, as functions take them.
///
/// # Errors
/// `22023` if there is none.
pub fn require(name: &str) -> SqlResult<Named> {
    let lower = name.to_lowercase();
    match by_abbreviation(&lower) {
        Some(Meaning::Standard(east) | Meaning::Daylight(east)) => {
            Ok(Named::Zone(TimeZone::Fixed(i32::try_from(east).unwrap_or(0))))
        }
        Some(Meaning::Zone(zone)) => Ok(Named::Abbreviation(lower, zone)),
        None => by_name(name).map(Named::Zone).ok_or_else(|| not_recognized(name)),
    }
}

/// The seconds east of an offset such as `+05:30`; none if the text does not have this form.
///
/// # Errors
/// `22023` if the offset is out of range.
pub(crate) fn numeric_offset(text: &str) -> SqlResult<Option<i64>> {
    match offset(text) {
        Ok(east) => Ok(Some(east)),
        Err(Wrong::Form) => Ok(None),
        Err(_) => {
            let message = format!("numeric time zone \"{text}\" out of range");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// What the name of a zone stands for.
#[derive(Clone, Debug)]
pub enum Named {
    /// A zone.
    Zone(TimeZone),
    /// An abbreviation whose offset depends on the moment.
    Abbreviation(String, Tz),
}

impl Named {
    /// The offset when clocks show this time.
    pub fn offset_of_local(&self, local: i64) -> Offset {
        match self {
            Named::Zone(zone) => offset_of_local(local, *zone),
            Named::Abbreviation(abbreviation, zone) => abbreviated_offset(local, abbreviation, *zone),
        }
    }

    /// The offset at a moment in UTC.
    pub fn offset_at(&self, utc: i64) -> Offset {
        match self {
            Named::Zone(zone) => offset_at(utc, *zone),
            Named::Abbreviation(abbreviation, zone) => {
                let named = TimeZone::Named(*zone);
                let local = utc.saturating_add(offset_at(utc, named).east * SECOND);
                abbreviated_offset(local, abbreviation, *zone)
            }
        }
    }

    /// The zone itself; an abbreviation is the offset that it stands for at a moment.
    pub(crate) fn zone_at(&self, utc: i64) -> TimeZone {
        match self {
            Named::Zone(zone) => *zone,
            Named::Abbreviation(..) => TimeZone::Fixed(i32::try_from(self.offset_at(utc).east).unwrap_or(0)),
        }
    }
}

/// `22023`: there is no such zone.
#[cold]
pub(crate) fn not_recognized(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
}

/// The zones of `pg_timezone_names` with their offsets at a moment in UTC.
pub fn names_at(utc: i64) -> impl Iterator<Item = (&'static str, Offset)> {
    chrono_tz::TZ_VARIANTS.iter().map(move |zone| (zone.name(), offset_at(utc, TimeZone::Named(*zone))))
}

/// The rows of `pg_timezone_abbrevs` at a moment in UTC: abbreviation, seconds east, whether it is summer time.
pub fn abbreviations_at(utc: i64) -> impl Iterator<Item = (String, i64, bool)> {
    ABBREVIATIONS.iter().map(move |(abbreviation, meaning)| {
        let (east, is_daylight) = match meaning {
            Meaning::Standard(east) => (*east, false),
            Meaning::Daylight(east) => (*east, true),
            Meaning::Zone(zone) => {
                let offset = offset_at(utc, TimeZone::Named(*zone));
                (offset.east, offset.is_daylight)
            }
        };
        (abbreviation.to_ascii_uppercase(), east, is_daylight)
    })
}
