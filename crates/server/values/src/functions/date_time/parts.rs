//! `extract`, `date_part`, `date_trunc` and `date_bin`. The first argument is the name of a unit, in any case.

use std::sync::Arc;

use super::casts::text;
use crate::date_time::extract::{self, Part};
use crate::date_time::{is_finite, truncate, zone};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::functions::arguments::{mismatch, row};
use crate::functions::{Call, Table};

pub(super) const TABLE: Table = &[
    ("extract_date", exact),
    ("extract_time", exact),
    ("extract_timetz", exact),
    ("extract_timestamp", exact),
    ("extract_timestamptz", exact),
    ("extract_interval", exact),
    ("date_part/2", float),
    ("time_part", float),
    ("timetz_part", float),
    ("timestamp_part", float),
    ("timestamptz_part", float),
    ("interval_part", float),
    row!("timestamp_trunc", [Text unit, Timestamp value], {
        truncate::timestamp(&unit.to_ascii_lowercase(), *value).map(Datum::Timestamp)
    }),
    row!("timestamptz_trunc", call, [Text unit, TimestampTz value], {
        let zone = call.settings.time_zone;
        truncate::timestamptz(&unit.to_ascii_lowercase(), *value, zone).map(Datum::TimestampTz)
    }),
    row!("timestamptz_trunc_zone", [Text unit, TimestampTz value, Text name], {
        if !is_finite(*value) {
            return Ok(Datum::TimestampTz(*value));
        }
        let zone = zone::require(name)?.zone_at(*value);
        truncate::timestamptz(&unit.to_ascii_lowercase(), *value, zone).map(Datum::TimestampTz)
    }),
    row!("interval_trunc", [Text unit, Interval value], {
        truncate::interval(&unit.to_ascii_lowercase(), value).map(Datum::Interval)
    }),
    row!("timestamp_bin", [Interval width, Timestamp value, Timestamp origin], {
        truncate::bin(width, *value, *origin).map(Datum::Timestamp)
    }),
    row!("timestamptz_bin", [Interval width, TimestampTz value, TimestampTz origin], {
        truncate::bin(width, *value, *origin).map(Datum::TimestampTz)
    }),
];

fn exact(call: &Call<'_>) -> SqlResult<Datum> {
    let numeric = part(call)?.numeric()?;
    Ok(numeric.map_or(Datum::Null, |numeric| Datum::Numeric(Arc::new(numeric))))
}

fn float(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(part(call)?.float().map_or(Datum::Null, Datum::Float8))
}

fn part(call: &Call<'_>) -> SqlResult<Part> {
    let unit = text(call)?.to_ascii_lowercase();
    match &call.arguments[1..] {
        [Datum::Date(value)] => extract::of_date(&unit, *value),
        [Datum::Time(value)] => extract::of_time(&unit, *value),
        [Datum::TimeTz(value, zone)] => extract::of_timetz(&unit, *value, *zone),
        [Datum::Timestamp(value)] => extract::of_timestamp(&unit, *value),
        [Datum::TimestampTz(value)] if !is_finite(*value) => {
            extract::of_timestamptz(&unit, *value, *value, 0)
        }
        [Datum::TimestampTz(value)] => {
            let (local, offset) = zone::to_local(*value, call.settings.time_zone);
            extract::of_timestamptz(&unit, *value, local, offset.east)
        }
        [Datum::Interval(value)] => extract::of_interval(&unit, value),
        _ => Err(mismatch(call)),
    }
}
