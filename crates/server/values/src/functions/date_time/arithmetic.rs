//! Sums, differences, multiples and ages.

use crate::date_time::arithmetic::{
    Direction, add_days, age, at_time, at_time_in, between, days_between, midnight, shift, shift_in,
    shift_time, to_local,
};
use crate::date_time::interval::{
    add, justify, justify_days, justify_hours, negate, overflow, scaled, subtract,
};
use crate::date_time::{is_finite, is_finite_date};
use crate::datum::{Datum, Interval};
use crate::error::SqlResult;
use crate::functions::Table;
use crate::functions::arguments::{division_by_zero, mismatch, row};

use Direction::{Add, Subtract};

fn interval(micros: i64) -> Datum {
    Datum::Interval(Interval { months: 0, days: 0, micros })
}

fn fitting(result: Option<Interval>) -> SqlResult<Datum> {
    result.map(Datum::Interval).ok_or_else(overflow)
}

pub(super) const TABLE: Table = &[
    row!("date_pli", [Date date, Int4 days], add_days(*date, i64::from(*days)).map(Datum::Date)),
    row!("date_mii", [Date date, Int4 days], add_days(*date, -i64::from(*days)).map(Datum::Date)),
    row!("date_mi", [Date left, Date right], days_between(*left, *right).map(Datum::Int4)),
    row!("date_pl_interval", [Date date, Interval by], {
        midnight(*date).and_then(|start| shift(start, by, Add)).map(Datum::Timestamp)
    }),
    row!("date_mi_interval", [Date date, Interval by], {
        midnight(*date).and_then(|start| shift(start, by, Subtract)).map(Datum::Timestamp)
    }),
    row!("datetime_timestamp", [Date date, Time time], at_time(*date, *time).map(Datum::Timestamp)),
    ("datetimetz_timestamptz", |call| match call.arguments {
        [Datum::Date(date), Datum::TimeTz(time, zone)] => {
            at_time_in(*date, *time, *zone).map(Datum::TimestampTz)
        }
        _ => Err(mismatch(call)),
    }),
    row!("time_pl_interval", [Time time, Interval by], Ok(Datum::Time(shift_time(*time, by, Add)))),
    row!("time_mi_interval", [Time time, Interval by], Ok(Datum::Time(shift_time(*time, by, Subtract)))),
    row!("time_mi_time", [Time left, Time right], Ok(interval(left - right))),
    ("timetz_pl_interval", |call| match call.arguments {
        [Datum::TimeTz(time, zone), Datum::Interval(by)] => {
            Ok(Datum::TimeTz(shift_time(*time, by, Add), *zone))
        }
        _ => Err(mismatch(call)),
    }),
    ("timetz_mi_interval", |call| match call.arguments {
        [Datum::TimeTz(time, zone), Datum::Interval(by)] => {
            Ok(Datum::TimeTz(shift_time(*time, by, Subtract), *zone))
        }
        _ => Err(mismatch(call)),
    }),
    ("timestamp_mi", |call| match call.arguments {
        [Datum::Timestamp(left), Datum::Timestamp(right)]
        | [Datum::TimestampTz(left), Datum::TimestampTz(right)] => {
            between(*left, *right).map(Datum::Interval)
        }
        _ => Err(mismatch(call)),
    }),
    row!("timestamp_pl_interval", [Timestamp value, Interval by], shift(*value, by, Add).map(Datum::Timestamp)),
    row!("timestamp_mi_interval", [Timestamp value, Interval by], {
        shift(*value, by, Subtract).map(Datum::Timestamp)
    }),
    row!("timestamptz_pl_interval", call, [TimestampTz value, Interval by], {
        shift_in(*value, by, Add, call.settings.time_zone).map(Datum::TimestampTz)
    }),
    row!("timestamptz_mi_interval", call, [TimestampTz value, Interval by], {
        shift_in(*value, by, Subtract, call.settings.time_zone).map(Datum::TimestampTz)
    }),
    row!("interval_um", [Interval value], fitting(negate(value))),
    row!("interval_pl", [Interval left, Interval right], fitting(add(left, right))),
    row!("interval_mi", [Interval left, Interval right], fitting(subtract(left, right))),
    row!("interval_mul", [Interval value, Float8 by], scaled(value, |part| part * by).map(Datum::Interval)),
    row!("mul_d_interval", [Float8 by, Interval value], scaled(value, |part| part * by).map(Datum::Interval)),
    row!("interval_div", [Interval value, Float8 by], {
        if *by == 0.0 {
            return Err(division_by_zero());
        }
        scaled(value, |part| part / by).map(Datum::Interval)
    }),
    row!("interval_justify_hours", [Interval value], justify_hours(value).map(Datum::Interval)),
    row!("interval_justify_days", [Interval value], justify_days(value).map(Datum::Interval)),
    row!("interval_justify_interval", [Interval value], justify(value).map(Datum::Interval)),
    row!("timestamp_age", [Timestamp left, Timestamp right], age(*left, *right).map(Datum::Interval)),
    row!("timestamptz_age", call, [TimestampTz left, TimestampTz right], {
        let zone = call.settings.time_zone;
        age(to_local(*left, zone)?, to_local(*right, zone)?).map(Datum::Interval)
    }),
    row!("date_finite", [Date value], Ok(Datum::Bool(is_finite_date(*value)))),
    ("timestamp_finite", |call| match call.arguments {
        [Datum::Timestamp(value) | Datum::TimestampTz(value)] => Ok(Datum::Bool(is_finite(*value))),
        _ => Err(mismatch(call)),
    }),
    row!("interval_finite", [Interval _value], Ok(Datum::Bool(true))),
];
