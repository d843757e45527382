//! Numbers inside of tokens.

use super::Wrong;

/// The integer at the start of a text, 0 if there is none, and the rest. A sign may precede it.
///
/// # Errors
/// `wrong` if it is not one of four bytes.
pub(in crate::date_time) fn leading_integer(text: &str, wrong: Wrong) -> Result<(i64, &str), Wrong> {
    let (value, rest) = leading_long(text, Wrong::Form).unwrap_or((i64::MAX, ""));
    if i32::try_from(value).is_err() { Err(wrong) } else { Ok((value, rest)) }
}

/// The same with an integer of eight bytes.
///
/// # Errors
/// `wrong` if it is not one of eight bytes.
pub(in crate::date_time) fn leading_long(text: &str, wrong: Wrong) -> Result<(i64, &str), Wrong> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return Ok((0, text));
    }
    let end = text.len() - digits.len() + count;
    let value = text[..end].parse().map_err(|_| wrong)?;
    Ok((value, &text[end..]))
}

/// The number of a text of digits, 0 if it is empty.
pub(super) fn digits(text: &str) -> Result<i64, Wrong> {
    leading_integer(text, Wrong::Field).map(|(value, _)| value)
}

/// A fraction: a point and digits up to the end of the text.
pub(in crate::date_time) fn fraction(text: &str) -> Result<f64, Wrong> {
    let digits = text.strip_prefix('.').ok_or(Wrong::Form)?;
    if digits.is_empty() {
        return Ok(0.0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Form);
    }
    text.parse().map_err(|_| Wrong::Form)
}

/// A fraction of a second in microseconds.
pub(in crate::date_time) fn fraction_of_second(text: &str) -> Result<i64, Wrong> {
    let micros = (fraction(text)? * 1e6).round_ties_even();
    num_traits::ToPrimitive::to_i64(&micros).ok_or(Wrong::Form)
}

/// An offset of a zone, `+05:30`, in seconds east.
pub(in crate::date_time) fn offset(text: &str) -> Result<i64, Wrong> {
    const HOURS_MAX: i64 = 15;
    let is_west = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).ok_or(Wrong::Form)?;
    let (mut hours, mut rest) = leading_integer(digits, Wrong::Zone)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minutes, rest) = leading_integer(after, Wrong::Zone)?;
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = leading_integer(after, Wrong::Zone)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if !(0..=HOURS_MAX).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Wrong::Zone);
    }
    if !rest.is_empty() {
        return Err(Wrong::Form);
    }
    let east = (hours * 60 + minutes) * 60 + seconds;
    Ok(if is_west { -east } else { east })
}

/// A time with `:` between its parts.
#[derive(Clone, Copy, Debug)]
pub(in crate::date_time) struct Clock {
    /// Hours: any number in an interval.
    pub(in crate::date_time) hours: i64,
    pub(in crate::date_time) minutes: i64,
    pub(in crate::date_time) seconds: i64,
    pub(in crate::date_time) micros: i64,
}

/// Reads `4:05`, `4:05:06.789`, `05:06.789`. Two parts are minutes and seconds if `is_minute_first`.
pub(in crate::date_time) fn clock(text: &str, is_minute_first: bool) -> Result<Clock, Wrong> {
    let (first, rest) = leading_long(text, Wrong::Field)?;
    let rest = rest.strip_prefix(':').ok_or(Wrong::Form)?;
    let (second, rest) = leading_integer(rest, Wrong::Field)?;
    let minutes_and_seconds = |micros| match i32::try_from(first) {
        Ok(minutes) => Ok(Clock { hours: 0, minutes: i64::from(minutes), seconds: second, micros }),
        Err(_) => Err(Wrong::Field),
    };
    let clock = if rest.is_empty() && is_minute_first {
        minutes_and_seconds(0)?
    } else if rest.is_empty() {
        Clock { hours: first, minutes: second, seconds: 0, micros: 0 }
    } else if rest.starts_with('.') {
        minutes_and_seconds(fraction_of_second(rest)?)?
    } else {
        let rest = rest.strip_prefix(':').ok_or(Wrong::Form)?;
        let (seconds, rest) = leading_integer(rest, Wrong::Field)?;
        let micros = if rest.is_empty() { 0 } else { fraction_of_second(rest)? };
        Clock { hours: first, minutes: second, seconds, micros }
    };
    let is_valid = clock.hours >= 0
        && (0..60).contains(&clock.minutes)
        && (0..=60).contains(&clock.seconds)
        && (0..=1_000_000).contains(&clock.micros);
    if is_valid { Ok(clock) } else { Err(Wrong::Field) }
}
