//! Intervals in the forms of ISO 8601: `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506`.

use super::input::Wrong;
use super::interval_input::Sum;
use super::words::Unit;
use num_traits::ToPrimitive;

/// A text of which the beginning is read.
struct Rest<'a> {
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().first().copied()
    }

    fn take(&mut self) -> Option<u8> {
        let first = self.peek()?;
        // What is not ASCII is no part of an interval: it is the caller's to refuse.
        self.text = self.text.get(1..).unwrap_or("");
        Some(first)
    }

    /// A number: its whole part, its fraction, and the digits of its whole part.
    fn number(&mut self) -> Result<(i64, f64, &'a str), Wrong> {
        let unsigned = self.text.strip_prefix('-').unwrap_or(self.text);
        if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.' || first == '-') {
            return Err(Wrong::Form);
        }
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = &unsigned[..digits(unsigned)];
        let mut end = self.text.len() - unsigned.len() + whole.len();
        if self.text[end..].starts_with('.') {
            end += 1 + digits(&self.text[end + 1..]);
        }
        end += exponent_length(&self.text[end..]);
        let value: f64 = self.text[..end].parse().map_err(|_| Wrong::Form)?;
        self.text = &self.text[end..];
        let trunc = value.trunc().to_i64().ok_or(Wrong::Field)?;
        Ok((trunc, value - value.trunc(), whole))
    }
}

/// The length of `e10` at the start of a text.
fn exponent_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return 0 };
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { text.len() - rest.len() + digits }
}

/// Reads an interval.
pub(super) fn read(text: &str) -> Result<Sum, Wrong> {
    let mut rest = Rest { text: text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Wrong::Form)? };
    let mut sum = Sum::default();
    let (mut is_date, mut has_field) = (true, false);
    while rest.peek().is_some() {
        if rest.peek() == Some(b'T') {
            rest.take();
            (is_date, has_field) = (false, false);
            continue;
        }
        let (value, fraction, digits) = rest.number()?;
        let unit = rest.take();
        let named = if is_date { date_unit(unit) } else { time_unit(unit) };
        if let Some(named) = named {
            sum.add(named, value, fraction)?;
            has_field = true;
            continue;
        }
        if has_field {
            return Err(Wrong::Form);
        }
        if !is_date {
            return time(&mut rest, sum, unit, (value, fraction, digits));
        }
        if !date(&mut rest, &mut sum, unit, (value, fraction, digits))? {
            return Ok(sum);
        }
        (is_date, has_field) = (false, false);
    }
    Ok(sum)
}

fn date_unit(unit: Option<u8>) -> Option<Unit> {
    match unit? {
        b'Y' => Some(Unit::Year),
        b'M' => Some(Unit::Month),
        b'W' => Some(Unit::Week),
        b'D' => Some(Unit::Day),
        _ => None,
    }
}

fn time_unit(unit: Option<u8>) -> Option<Unit> {
    match unit? {
        b'H' => Some(Unit::Hour),
        b'M' => Some(Unit::Minute),
        b'S' => Some(Unit::Second),
        _ => None,
    }
}

/// The rest of a date without names of units. Returns whether a time follows.
fn date(
    rest: &mut Rest<'_>,
    sum: &mut Sum,
    unit: Option<u8>,
    first: (i64, f64, &str),
) -> Result<bool, Wrong> {
    let (value, fraction, digits) = first;
    match unit {
        Some(b'T') | None if digits.len() == 8 => {
            sum.add(Unit::Year, value / 10_000, 0.0)?;
            sum.add(Unit::Month, value / 100 % 100, 0.0)?;
            sum.add(Unit::Day, value % 100, fraction)?;
            return Ok(unit.is_some());
        }
        Some(b'T') | None => {
            sum.add(Unit::Year, value, fraction)?;
            return Ok(unit.is_some());
        }
        Some(b'-') => sum.add(Unit::Year, value, fraction)?,
        _ => return Err(Wrong::Form),
    }
    let (value, fraction, _) = rest.number()?;
    sum.add(Unit::Month, value, fraction)?;
    match rest.take() {
        None => return Ok(false),
        Some(b'T') => return Ok(true),
        Some(b'-') => {}
        Some(_) => return Err(Wrong::Form),
    }
    let (value, fraction, _) = rest.number()?;
    sum.add(Unit::Day, value, fraction)?;
    match rest.take() {
        None => Ok(false),
        Some(b'T') => Ok(true),
        Some(_) => Err(Wrong::Form),
    }
}

/// The rest of a time without names of units, which ends the text.
fn time(rest: &mut Rest<'_>, mut sum: Sum, unit: Option<u8>, first: (i64, f64, &str)) -> Result<Sum, Wrong> {
    let (value, fraction, digits) = first;
    match unit {
        None if digits.len() == 6 => {
            sum.add(Unit::Hour, value / 10_000, 0.0)?;
            sum.add(Unit::Minute, value / 100 % 100, 0.0)?;
            sum.add(Unit::Second, value % 100, fraction)?;
            return Ok(sum);
        }
        None | Some(b':') => sum.add(Unit::Hour, value, fraction)?,
        Some(_) => return Err(Wrong::Form),
    }
    for part in [Unit::Minute, Unit::Second] {
        if unit.is_none() || part == Unit::Second && rest.peek().is_none() {
            return Ok(sum);
        }
        if part == Unit::Second && rest.take() != Some(b':') {
            return Err(Wrong::Form);
        }
        let (value, fraction, _) = rest.number()?;
        sum.add(part, value, fraction)?;
    }
    if rest.peek().is_none() { Ok(sum) } else { Err(Wrong::Form) }
}
