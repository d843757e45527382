//! Conversions between the types, and to the precision of a type.

use crate::date_time::arithmetic::{midnight, midnight_in, to_local, to_utc};
use crate::date_time::precision::{interval_to_modifier, time_to_precision, timestamp_to_precision};
use crate::date_time::{DAY, SECOND, calendar, is_finite, zone};
use crate::datum::{Datum, Interval};
use crate::error::SqlResult;
use crate::functions::arguments::{mismatch, row};
use crate::functions::{Call, Table};
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    row!("date_timestamp", [Date value], midnight(*value).map(Datum::Timestamp)),
    row!("date_timestamptz", call, [Date value], {
        midnight_in(*value, call.settings.time_zone).map(Datum::TimestampTz)
    }),
    row!("timestamp_date", [Timestamp value], Ok(Datum::Date(calendar::date_of(*value)))),
    row!("timestamptz_date", call, [TimestampTz value], {
        to_local(*value, call.settings.time_zone).map(|local| Datum::Date(calendar::date_of(local)))
    }),
    row!("timestamp_timestamptz", call, [Timestamp value], {
        to_utc(*value, call.settings.time_zone).map(Datum::TimestampTz)
    }),
    row!("timestamptz_timestamp", call, [TimestampTz value], {
        to_local(*value, call.settings.time_zone).map(Datum::Timestamp)
    }),
    // Infinity has no time of day.
    row!("timestamp_time", [Timestamp value], {
        Ok(if is_finite(*value) { Datum::Time(value.rem_euclid(DAY)) } else { Datum::Null })
    }),
    row!("timestamptz_time", call, [TimestampTz value], {
        if !is_finite(*value) {
            return Ok(Datum::Null);
        }
        to_local(*value, call.settings.time_zone).map(|local| Datum::Time(local.rem_euclid(DAY)))
    }),
    row!("timestamptz_timetz", call, [TimestampTz value], {
        if !is_finite(*value) {
            return Ok(Datum::Null);
        }
        let (local, offset) = zone::to_local(*value, call.settings.time_zone);
        Ok(Datum::TimeTz(local.rem_euclid(DAY), west(offset)))
    }),
    row!("time_timetz", call, [Time value], Ok(Datum::TimeTz(*value, west(today_offset(*value, call.settings))))),
    ("timetz_time", |call| match call.arguments {
        [Datum::TimeTz(value, _)] => Ok(Datum::Time(*value)),
        _ => Err(mismatch(call)),
    }),
    row!("interval_time", [Interval value], Ok(Datum::Time(value.micros.rem_euclid(DAY)))),
    row!("time_interval", [Time value], Ok(Datum::Interval(Interval { months: 0, days: 0, micros: *value }))),
    row!("time_scale", [Time value, Int4 modifier], Ok(Datum::Time(time_to_precision(*value, *modifier)))),
    ("timetz_scale", |call| match call.arguments {
        [Datum::TimeTz(value, zone), Datum::Int4(modifier)] => {
            Ok(Datum::TimeTz(time_to_precision(*value, *modifier), *zone))
        }
        _ => Err(mismatch(call)),
    }),
    row!("timestamp_scale", [Timestamp value, Int4 modifier], {
        timestamp_to_precision(*value, *modifier).map(Datum::Timestamp)
    }),
    row!("timestamptz_scale", [TimestampTz value, Int4 modifier], {
        timestamp_to_precision(*value, *modifier).map(Datum::TimestampTz)
    }),
    row!("interval_scale", [Interval value, Int4 modifier], {
        interval_to_modifier(*value, *modifier).map(Datum::Interval)
    }),
];

/// An offset as `time with time zone` has it: in seconds west.
pub(super) fn west(offset: zone::Offset) -> i32 {
    i32::try_from(-offset.east).unwrap_or(0)
}

/// The offset of the session's zone at a time of today.
fn today_offset(time: i64, settings: &Settings) -> zone::Offset {
    let (now, _) = zone::to_local(settings.transaction_time, settings.time_zone);
    zone::offset_of_local(now - now.rem_euclid(DAY) + time, settings.time_zone)
}

/// The argument of a function that takes an offset as an interval, in seconds east.
pub(super) fn offset_seconds(interval: &Interval) -> i64 {
    interval.micros / SECOND
}

/// The first argument, if it is a text.
pub(super) fn text<'a>(call: &Call<'a>) -> SqlResult<&'a str> {
    match call.arguments.first() {
        Some(Datum::Text(text)) => Ok(text),
        _ => Err(mismatch(call)),
    }
}
