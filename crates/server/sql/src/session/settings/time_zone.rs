//! `TimeZone`: a name of the IANA database, hours east of Greenwich, an interval, or a POSIX specification without summer time.

use seawall_values::date_time::zone::by_name;
use seawall_values::settings::{Settings, TimeZone};
use seawall_values::{Datum, SqlResult, oid, text_form};

use super::value::invalid;

const HOUR_SECONDS: i32 = 3_600;
/// Offsets are below a week.
const OFFSET_END: f64 = 168.0 * 3_600.0;

/// The zone that a value of the setting names, and its name in the form in which `SHOW` prints it.
pub(super) fn parse(text: &str) -> SqlResult<(TimeZone, String)> {
    let text = text.trim_start();
    if text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("interval")) {
        return fixed(interval_seconds(text)?, text);
    }
    if let Ok(hours) = text.parse::<f64>()
        && text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'))
    {
        return fixed(hours * f64::from(HOUR_SECONDS), text);
    }
    match by_name(text) {
        Some(zone) => Ok((zone, zone.name().map_or_else(|| text.to_ascii_uppercase(), str::to_owned))),
        None => Err(invalid("TimeZone", text)),
    }
}

/// The offset of `INTERVAL '..'` in seconds.
fn interval_seconds(text: &str) -> SqlResult<f64> {
    // What follows the literal names its fields, such as `HOUR TO MINUTE`.
    let quoted = text[8..].trim_start().strip_prefix('\'');
    let (inner, _) =
        quoted.and_then(|rest| rest.split_once('\'')).ok_or_else(|| invalid("TimeZone", text))?;
    let value = text_form::input(oid::INTERVAL, -1, inner, &Settings::default())?;
    let Datum::Interval(interval) = value else { return Err(invalid("TimeZone", text)) };
    if interval.months != 0 {
        return Err(invalid("TimeZone", text).with_detail("Cannot specify months in time zone interval."));
    }
    if interval.days != 0 {
        return Err(invalid("TimeZone", text).with_detail("Cannot specify days in time zone interval."));
    }
    #[expect(clippy::cast_precision_loss, reason = "offsets that are allowed are small")]
    let seconds = (interval.micros / 1_000_000) as f64;
    Ok(seconds)
}

fn fixed(seconds: f64, text: &str) -> SqlResult<(TimeZone, String)> {
    if seconds.is_nan() || seconds.abs() >= OFFSET_END {
        return Err(invalid("TimeZone", text).with_detail("UTC timezone offset is out of range."));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked above")]
    let east = seconds as i32;
    Ok((TimeZone::Fixed(east), name_of(east)))
}

/// The POSIX specification of an offset: the signs of the two parts differ.
fn name_of(east: i32) -> String {
    let digits = |seconds: i32| {
        let (hours, minutes, seconds) = (seconds / HOUR_SECONDS, seconds / 60 % 60, seconds % 60);
        match (minutes, seconds) {
            (0, 0) => format!("{hours:02}"),
            (_, 0) => format!("{hours:02}:{minutes:02}"),
            _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        }
    };
    let shown = digits(east.abs());
    if east < 0 { format!("<-{shown}>+{shown}") } else { format!("<+{shown}>-{shown}") }
}
