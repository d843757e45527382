//! Comparison operators of two types, and the larger and the smaller of two values.

use std::cmp::Ordering;

use crate::date_time::arithmetic::{order_of_date, order_of_local};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::functions::arguments::mismatch;
use crate::functions::{Call, Table};
use crate::order::compare;

/// A value's place among timestamps. Where a zone matters it is the session's.
fn ordered(call: &Call<'_>) -> SqlResult<Ordering> {
    let zone = call.settings.time_zone;
    Ok(match call.arguments {
        [Datum::Date(left), Datum::Timestamp(right)] => order_of_date(*left, None).cmp(right),
        [Datum::Timestamp(left), Datum::Date(right)] => left.cmp(&order_of_date(*right, None)),
        [Datum::Date(left), Datum::TimestampTz(right)] => order_of_date(*left, Some(zone)).cmp(right),
        [Datum::TimestampTz(left), Datum::Date(right)] => left.cmp(&order_of_date(*right, Some(zone))),
        [Datum::Timestamp(left), Datum::TimestampTz(right)] => order_of_local(*left, zone).cmp(right),
        [Datum::TimestampTz(left), Datum::Timestamp(right)] => left.cmp(&order_of_local(*right, zone)),
        _ => return Err(mismatch(call)),
    })
}

macro_rules! compared {
    ($($equal:literal, $unequal:literal, $less:literal, $at_most:literal, $greater:literal, $at_least:literal, $order:literal;)*) => {
        &[
            $(
                ($equal, |call| ordered(call).map(|order| Datum::Bool(order.is_eq()))),
                ($unequal, |call| ordered(call).map(|order| Datum::Bool(order.is_ne()))),
                ($less, |call| ordered(call).map(|order| Datum::Bool(order.is_lt()))),
                ($at_most, |call| ordered(call).map(|order| Datum::Bool(order.is_le()))),
                ($greater, |call| ordered(call).map(|order| Datum::Bool(order.is_gt()))),
                ($at_least, |call| ordered(call).map(|order| Datum::Bool(order.is_ge()))),
                ($order, |call| ordered(call).map(|order| Datum::Int4(order as i32))),
            )*
            ("date_larger", larger),
            ("date_smaller", smaller),
            ("time_larger", larger),
            ("time_smaller", smaller),
            ("timetz_larger", larger),
            ("timetz_smaller", smaller),
            ("timestamp_larger", larger),
            ("timestamp_smaller", smaller),
            ("interval_larger", larger),
            ("interval_smaller", smaller),
        ]
    };
}

#[rustfmt::skip]
pub(super) const TABLE: Table = compared! {
    "date_eq_timestamp", "date_ne_timestamp", "date_lt_timestamp", "date_le_timestamp", "date_gt_timestamp", "date_ge_timestamp", "date_cmp_timestamp";
    "timestamp_eq_date", "timestamp_ne_date", "timestamp_lt_date", "timestamp_le_date", "timestamp_gt_date", "timestamp_ge_date", "timestamp_cmp_date";
    "date_eq_timestamptz", "date_ne_timestamptz", "date_lt_timestamptz", "date_le_timestamptz", "date_gt_timestamptz", "date_ge_timestamptz", "date_cmp_timestamptz";
    "timestamptz_eq_date", "timestamptz_ne_date", "timestamptz_lt_date", "timestamptz_le_date", "timestamptz_gt_date", "timestamptz_ge_date", "timestamptz_cmp_date";
    "timestamp_eq_timestamptz", "timestamp_ne_timestamptz", "timestamp_lt_timestamptz", "timestamp_le_timestamptz", "timestamp_gt_timestamptz", "timestamp_ge_timestamptz", "timestamp_cmp_timestamptz";
    "timestamptz_eq_timestamp", "timestamptz_ne_timestamp", "timestamptz_lt_timestamp", "timestamptz_le_timestamp", "timestamptz_gt_timestamp", "timestamptz_ge_timestamp", "timestamptz_cmp_timestamp";
};

fn larger(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(if compare(left, right).is_gt() { left } else { right }.clone()),
        _ => Err(mismatch(call)),
    }
}

fn smaller(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(if compare(left, right).is_lt() { left } else { right }.clone()),
        _ => Err(mismatch(call)),
    }
}
