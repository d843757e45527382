//! `AT TIME ZONE`: a zone is a name, an abbreviation, or an offset as an interval.

use super::casts::{offset_seconds, text};
use crate::date_time::calendar;
use crate::date_time::interval_output;
use crate::date_time::zone::{self, Named};
use crate::date_time::{DAY, SECOND, is_finite, out_of_range};
use crate::datum::{Datum, Interval};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::arguments::mismatch;
use crate::functions::{Call, Table};
use crate::settings::IntervalStyle;

pub(super) const TABLE: Table = &[
    ("timestamptz_zone", |call| utc_to_local(call, |utc| Ok(named(text(call)?)?.offset_at(utc).east))),
    ("timestamp_zone", |call| {
        local_to_utc(call, |local| Ok(named(text(call)?)?.offset_of_local(local).east))
    }),
    ("timetz_zone", |call| {
        let zone = named(text(call)?)?;
        in_zone(call, zone.offset_at(call.settings.transaction_time).east)
    }),
    ("timestamptz_izone", |call| utc_to_local(call, |_| offset(call))),
    ("timestamp_izone", |call| local_to_utc(call, |_| offset(call))),
    ("timetz_izone", |call| in_zone(call, offset(call)?)),
];

fn named(name: &str) -> SqlResult<Named> {
    zone::require(name)
}

/// The first argument as seconds east.
fn offset(call: &Call<'_>) -> SqlResult<i64> {
    let Some(Datum::Interval(interval)) = call.arguments.first() else {
        return Err(mismatch(call));
    };
    if interval.months != 0 || interval.days != 0 {
        return Err(not_an_offset(interval));
    }
    Ok(offset_seconds(interval))
}

#[cold]
fn not_an_offset(interval: &Interval) -> Box<SqlError> {
    let mut text = String::new();
    interval_output(interval, IntervalStyle::Postgres, &mut text);
    let message = format!("interval time zone \"{text}\" must not include months or days");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn utc_to_local(call: &Call<'_>, east: impl Fn(i64) -> SqlResult<i64>) -> SqlResult<Datum> {
    match call.arguments {
        [_, Datum::TimestampTz(utc)] if !is_finite(*utc) => Ok(Datum::Timestamp(*utc)),
        [_, Datum::TimestampTz(utc)] => shifted(*utc, east(*utc)?).map(Datum::Timestamp),
        _ => Err(mismatch(call)),
    }
}

fn local_to_utc(call: &Call<'_>, east: impl Fn(i64) -> SqlResult<i64>) -> SqlResult<Datum> {
    match call.arguments {
        [_, Datum::Timestamp(local)] if !is_finite(*local) => Ok(Datum::TimestampTz(*local)),
        [_, Datum::Timestamp(local)] => shifted(*local, -east(*local)?).map(Datum::TimestampTz),
        _ => Err(mismatch(call)),
    }
}

fn shifted(timestamp: i64, seconds: i64) -> SqlResult<i64> {
    let moved = i128::from(timestamp) + i128::from(seconds) * i128::from(SECOND);
    calendar::checked(moved).ok_or_else(|| out_of_range("timestamp"))
}

/// The time of day that the clocks of another zone show.
fn in_zone(call: &Call<'_>, east: i64) -> SqlResult<Datum> {
    let [_, Datum::TimeTz(micros, west)] = call.arguments else {
        return Err(mismatch(call));
    };
    let moved = i128::from(*micros) + (i128::from(*west) + i128::from(east)) * i128::from(SECOND);
    let micros = i64::try_from(moved.rem_euclid(i128::from(DAY))).unwrap_or(0);
    let west = i32::try_from(-east).map_err(|_| out_of_range("time"))?;
    Ok(Datum::TimeTz(micros, west))
}
