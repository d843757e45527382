//! Input of dates, times and timestamps.
//!
//! The tokens of a text are read from left to right. What a number means depends on what was read before it and on the setting
//! `DateStyle`: `Reading` is what is known so far. A part that is said twice is an error.

use super::calendar::{date_of, is_valid_month};
use super::tokens::cut;
use super::zone;
use super::{
    DATE_INFINITY, DATE_MINUS_INFINITY, DAY, SECOND, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY, calendar,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::Settings;

pub(super) mod numbers;
mod plain;
mod reading;

use reading::{Moment, Reading, Wanted};

/// Bytes that the tokens of a date or time have, at most.
const BYTES_MAX: usize = 153;
/// 1970-01-01.
pub(crate) const UNIX_EPOCH: i64 = -calendar::UNIX_EPOCH_DAYS * DAY;

/// Why a text is no date or time.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It has not the form of one.
    Form,
    /// A field is out of range.
    Field,
    /// The month or the day is: perhaps they are in another order.
    MonthOrDay,
    /// A field of an interval is out of range.
    IntervalField,
    /// The offset of the zone is out of range.
    Zone,
    /// There is no zone of this name.
    ZoneName(String),
}

impl Wrong {
    /// The error about a text that was to be of a type.
    #[cold]
    pub(super) fn error(self, text: &str, type_name: &str) -> Box<SqlError> {
        let field = || format!("date/time field value out of range: \"{text}\"");
        match self {
            Wrong::Form => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {type_name}: \"{text}\""),
            ),
            Wrong::Field => SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, field()),
            Wrong::MonthOrDay => SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, field())
                .with_hint("Perhaps you need a different \"datestyle\" setting."),
            Wrong::IntervalField => SqlError::new(
                SqlState::INTERVAL_FIELD_OVERFLOW,
                format!("interval field value out of range: \"{text}\""),
            ),
            Wrong::Zone => SqlError::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Wrong::ZoneName(name) => zone::not_recognized(&name),
        }
    }
}

#[cold]
fn type_out_of_range(what: &str, text: &str) -> Box<SqlError> {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

fn read(text: &str, wanted: Wanted, settings: &Settings) -> Result<Moment, Wrong> {
    if wanted == Wanted::Timestamp
        && let Some(fields) = plain::moment(text.as_bytes())
    {
        let east = zone::offset_of_fields(&fields, settings.time_zone).east;
        return Ok(Moment::Fields(fields, east));
    }
    read_by_tokens(text, wanted, settings)
}

fn read_by_tokens(text: &str, wanted: Wanted, settings: &Settings) -> Result<Moment, Wrong> {
    let tokens = cut(text, BYTES_MAX).ok_or(Wrong::Form)?;
    Reading::new(wanted, settings).read(&tokens)
}

/// Reads a date.
///
/// # Errors
/// `22007` and `22008`; `22023` for a zone that does not exist.
pub fn date_input(text: &str, settings: &Settings) -> SqlResult<i32> {
    if let Some(date) = plain::moment(text.as_bytes()).and_then(|fields| fields.date()) {
        return Ok(date);
    }
    match read(text, Wanted::Timestamp, settings).map_err(|wrong| wrong.error(text, "date"))? {
        Moment::Fields(fields, _) => fields.date().ok_or_else(|| type_out_of_range("date", text)),
        Moment::Epoch => Ok(date_of(UNIX_EPOCH)),
        Moment::Infinity => Ok(DATE_INFINITY),
        Moment::MinusInfinity => Ok(DATE_MINUS_INFINITY),
    }
}

/// Reads a time of day. A zone may be there; it has no effect.
///
/// # Errors
/// As `date_input`.
pub fn time_input(text: &str, settings: &Settings) -> SqlResult<i64> {
    let moment = read(text, Wanted::Time, settings).map_err(|wrong| wrong.error(text, "time"))?;
    match moment {
        Moment::Fields(fields, _) => Ok(fields.time()),
        _ => Err(Wrong::Form.error(text, "time")),
    }
}

/// Reads a time of day with a zone: microseconds, and seconds west of Greenwich.
///
/// # Errors
/// As `date_input`.
pub fn timetz_input(text: &str, settings: &Settings) -> SqlResult<(i64, i32)> {
    const TYPE_NAME: &str = "time with time zone";
    match read(text, Wanted::Time, settings).map_err(|wrong| wrong.error(text, TYPE_NAME))? {
        Moment::Fields(fields, east) => {
            let west = i32::try_from(-east).map_err(|_| Wrong::Zone.error(text, TYPE_NAME))?;
            Ok((fields.time(), west))
        }
        _ => Err(Wrong::Form.error(text, TYPE_NAME)),
    }
}

/// Reads a timestamp without a zone. A zone may be there; it has no effect.
///
/// # Errors
/// As `date_input`.
pub fn timestamp_input(text: &str, settings: &Settings) -> SqlResult<i64> {
    match read(text, Wanted::Timestamp, settings).map_err(|wrong| wrong.error(text, "timestamp"))? {
        Moment::Fields(fields, _) => fields.timestamp().ok_or_else(|| type_out_of_range("timestamp", text)),
        Moment::Epoch => Ok(UNIX_EPOCH),
        Moment::Infinity => Ok(TIMESTAMP_INFINITY),
        Moment::MinusInfinity => Ok(TIMESTAMP_MINUS_INFINITY),
    }
}

/// Reads a timestamp with a zone; without one it is in the zone of the session.
///
/// # Errors
/// As `date_input`.
pub fn timestamptz_input(text: &str, settings: &Settings) -> SqlResult<i64> {
    let moment = read(text, Wanted::Timestamp, settings)
        .map_err(|wrong| wrong.error(text, "timestamp with time zone"))?;
    match moment {
        Moment::Fields(fields, east) => {
            // The local time alone may be outside the range that its moment in UTC is in.
            let valid = Some(&fields).filter(|fields| is_valid_month(fields.year, fields.month));
            let local = valid.map(|fields| {
                i128::from(fields.julian() - calendar::EPOCH_JULIAN) * i128::from(DAY)
                    + i128::from(fields.time())
            });
            let utc = local.and_then(|local| calendar::checked(local - i128::from(east * SECOND)));
            utc.ok_or_else(|| type_out_of_range("timestamp", text))
        }
        Moment::Epoch => Ok(UNIX_EPOCH),
        Moment::Infinity => Ok(TIMESTAMP_INFINITY),
        Moment::MinusInfinity => Ok(TIMESTAMP_MINUS_INFINITY),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::{DateOrder, TimeZone};

    proptest! {
        /// What is plain means what its tokens mean, in whatever order dates are written.
        #[test]
        fn plain_texts_mean_what_tokens_mean(
            year in "[0-9]{4}|2024",
            rest in "-(0[1-9]|1[0-9])-[0-3][0-9]",
            time in prop::option::of("[ t][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.][0-9]{0,7})?"),
            order in prop::sample::select(vec![DateOrder::YearMonthDay, DateOrder::DayMonthYear, DateOrder::MonthDayYear]),
        ) {
            let text = format!("{year}{rest}{}", time.unwrap_or_default());
            let zone = TimeZone::Named(chrono_tz::Europe::Berlin);
            let settings = Settings { date_order: order, time_zone: zone, ..Settings::default() };
            let by_tokens = read_by_tokens(&text, Wanted::Timestamp, &settings);
            let read = read(&text, Wanted::Timestamp, &settings);
            prop_assert_eq!(format!("{read:?}"), format!("{by_tokens:?}"), "{}", text);
        }
    }
}
