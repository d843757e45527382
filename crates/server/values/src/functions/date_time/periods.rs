//! `OVERLAPS`, and the limits of window frames in intervals.

use std::cmp::Ordering;

use crate::date_time::arithmetic::{Direction, midnight, shift, shift_in};
use crate::date_time::interval::{add, length, overflow, subtract};
use crate::datum::{Datum, Interval};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::arguments::mismatch;
use crate::functions::{Call, Table};
use crate::order::compare;

pub(super) const TABLE: Table = &[
    ("overlaps_time", overlaps),
    ("overlaps_timetz", overlaps),
    ("overlaps_timestamp", overlaps),
    ("in_range_date_interval", in_range),
    ("in_range_timestamp_interval", in_range),
    ("in_range_timestamptz_interval", in_range),
    ("in_range_time_interval", in_range),
    ("in_range_timetz_interval", in_range),
    ("in_range_interval_interval", in_range),
];

/// Whether two periods have a moment in common. A period's ends come in any order; its later one does not belong to it, unless it is
/// the only one. Of a period with one null the other end is all that is known.
fn overlaps(call: &Call<'_>) -> SqlResult<Datum> {
    let [start, end, other_start, other_end] = call.arguments else {
        return Err(mismatch(call));
    };
    let (Some(first), Some(second)) = (period(start, end), period(other_start, other_end)) else {
        return Ok(Datum::Null);
    };
    let (earlier, later) = match compare(first.0, second.0) {
        Ordering::Equal => {
            // Both begin at the same moment: that is in common unless it is not known whether a period has it.
            let is_known = first.1.is_some() && second.1.is_some();
            return Ok(if is_known { Datum::Bool(true) } else { Datum::Null });
        }
        Ordering::Less => (first, second),
        Ordering::Greater => (second, first),
    };
    // The end of the earlier one decides, if it is known; a period that may be longer overlaps perhaps.
    let Some(end) = earlier.1 else { return Ok(Datum::Null) };
    if compare(later.0, end).is_lt() {
        return Ok(Datum::Bool(true));
    }
    Ok(if later.1.is_some() { Datum::Bool(false) } else { Datum::Null })
}

/// The earlier end of a period, and the later one if it is known.
fn period<'a>(start: &'a Datum, end: &'a Datum) -> Option<(&'a Datum, Option<&'a Datum>)> {
    match (start.is_null(), end.is_null()) {
        (true, true) => None,
        (true, false) => Some((end, None)),
        (false, true) => Some((start, None)),
        _ if compare(start, end).is_gt() => Some((end, Some(start))),
        _ => Some((start, Some(end))),
    }
}

/// Whether a value is at most (or at least) as far from a base as an offset says.
fn in_range(call: &Call<'_>) -> SqlResult<Datum> {
    let [value, base, Datum::Interval(offset), Datum::Bool(is_before), Datum::Bool(is_less)] = call.arguments
    else {
        return Err(mismatch(call));
    };
    if length(offset) < 0 {
        let message = "invalid preceding or following size in window function";
        return Err(SqlError::new(SqlState::new(b"22013"), message));
    }
    let order = match (value, base) {
        (Datum::Date(value), Datum::Date(base)) => {
            midnight(*value)?.cmp(&shift(midnight(*base)?, offset, direction(*is_before))?)
        }
        (Datum::Timestamp(value), Datum::Timestamp(base)) => {
            value.cmp(&shift(*base, offset, direction(*is_before))?)
        }
        (Datum::TimestampTz(value), Datum::TimestampTz(base)) => {
            value.cmp(&shift_in(*base, offset, direction(*is_before), call.settings.time_zone)?)
        }
        (Datum::Interval(value), Datum::Interval(base)) => {
            let limit = if *is_before { subtract(base, offset) } else { add(base, offset) };
            length(value).cmp(&length(&limit.ok_or_else(overflow)?))
        }
        (Datum::Time(value), Datum::Time(base)) => value.cmp(&time_limit(*base, offset, *is_before)),
        (Datum::TimeTz(..), Datum::TimeTz(base, zone)) => {
            compare(value, &Datum::TimeTz(time_limit(*base, offset, *is_before), *zone))
        }
        _ => return Err(mismatch(call)),
    };
    Ok(Datum::Bool(if *is_less { order.is_le() } else { order.is_ge() }))
}

fn direction(is_before: bool) -> Direction {
    if is_before { Direction::Subtract } else { Direction::Add }
}

/// A limit before or after a time of day. It may be on another day, so that the order of times goes on beyond midnight.
fn time_limit(base: i64, offset: &Interval, is_before: bool) -> i64 {
    // Far enough from all times, and an offset of a zone can still be added.
    const FARTHEST: i64 = i64::MAX / 2;
    let limit =
        if is_before { base.saturating_sub(offset.micros) } else { base.saturating_add(offset.micros) };
    limit.clamp(-FARTHEST, FARTHEST)
}
