//! Settings of a session that change what functions return, and the moments that they show.

use std::sync::Arc;

use crate::datum::Interval;
use crate::random::Random;
use crate::user_types::UserTypes;

/// In which order the parts of a date are read and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    MonthDayYear,
    /// Day, month, year.
    DayMonthYear,
    /// Year, month, day.
    YearMonthDay,
}

/// How dates are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `2001-02-03 04:05:06+00`.
    #[default]
    Iso,
    /// `Sat Feb 03 04:05:06 2001`.
    Postgres,
    /// `02/03/2001 04:05:06.00 UTC`.
    Sql,
    /// `03.02.2001 04:05:06.00 UTC`.
    German,
}

/// How intervals are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`.
    Iso8601,
}

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// One of the IANA database.
    Named(chrono_tz::Tz),
    /// A fixed number of seconds east of Greenwich.
    Fixed(i32),
}

impl TimeZone {
    /// The name in the IANA database; a fixed offset has none.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            TimeZone::Named(zone) => Some(zone.name()),
            TimeZone::Fixed(_) => None,
        }
    }
}

/// What functions of types depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `TimeZone`.
    pub time_zone: TimeZone,
    /// `TimeZone` as it was given.
    pub time_zone_name: String,
    /// `DateStyle`, first part.
    pub date_style: DateStyle,
    /// `DateStyle`, second part.
    pub date_order: DateOrder,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `extra_float_digits`; above 0: the shortest text that gives the same number.
    pub extra_float_digits: i32,
    /// `bytea_output`: as `\x..` if true, else with escapes.
    pub is_bytea_hex: bool,
    /// When the transaction began: microseconds since 2000-01-01 UTC.
    pub transaction_time: i64,
    /// When the statement began.
    pub statement_time: i64,
    /// The clock: microseconds since 2000-01-01 UTC.
    pub clock: fn() -> i64,
    /// The session's random numbers.
    pub random: Arc<Random>,
    /// Types that users have made.
    pub types: Arc<UserTypes>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            time_zone: TimeZone::Named(chrono_tz::Tz::UTC),
            time_zone_name: "UTC".to_owned(),
            date_style: DateStyle::Iso,
            date_order: DateOrder::MonthDayYear,
            interval_style: IntervalStyle::Postgres,
            extra_float_digits: 1,
            is_bytea_hex: true,
            transaction_time: 0,
            statement_time: 0,
            clock: || 0,
            random: Arc::default(),
            types: Arc::default(),
        }
    }
}

impl Settings {
    /// The offset of a fixed zone as an interval.
    pub fn offset(seconds: i32) -> Interval {
        Interval { months: 0, days: 0, micros: i64::from(seconds) * 1_000_000 }
    }
}
