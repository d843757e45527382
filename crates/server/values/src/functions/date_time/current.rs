//! The clock, and when the transaction and the statement began.

use crate::date_time::output::{name, write_padded};
use crate::date_time::{append, calendar, zone};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::functions::{Call, Table};

pub(super) const TABLE: Table = &[
    ("now", |call| Ok(Datum::TimestampTz(call.settings.transaction_time))),
    ("statement_timestamp", |call| Ok(Datum::TimestampTz(call.settings.statement_time))),
    ("clock_timestamp", |call| Ok(Datum::TimestampTz((call.settings.clock)()))),
    ("timeofday", time_of_day),
];

/// `Fri Feb 03 04:05:06.000000 2001 UTC`.
fn time_of_day(call: &Call<'_>) -> SqlResult<Datum> {
    let (local, offset) = zone::to_local((call.settings.clock)(), call.settings.time_zone);
    let fields = calendar::split(local);
    let weekday = &name(&calendar::WEEKDAYS, calendar::weekday(fields.julian()))[..3];
    let month = &name(&calendar::MONTHS, fields.month - 1)[..3];
    let mut text = String::new();
    append(&mut text, format_args!("{weekday} {month} "));
    let parts = [
        (fields.day, 2, ' '),
        (fields.hour, 2, ':'),
        (fields.minute, 2, ':'),
        (fields.second, 2, '.'),
        (fields.micros, 6, ' '),
    ];
    for (value, width, after) in parts {
        write_padded(value, width, &mut text);
        text.push(after);
    }
    append(&mut text, format_args!("{} ", fields.year));
    offset.write_abbreviation(&mut text);
    Ok(Datum::text(text))
}
