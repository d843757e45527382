//! Numbers as the values of settings: decimal, octal, hexadecimal, with a fraction or an exponent, and with a unit after them.

use super::unit::Unit;

/// Why a text is not a number that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNumber {
    /// The text is none at all.
    Malformed,
    /// What follows the number is not one of the units of this one.
    Unit(Unit),
    /// The number is beyond 32 bits.
    TooLarge,
}

/// A whole number; a fraction is rounded.
pub(super) fn integer(text: &str, unit: Option<Unit>) -> Result<i32, NotNumber> {
    let text = text.trim_start();
    let (value, rest) = octal(text).or_else(|| number(text)).ok_or(NotNumber::Malformed)?;
    let value = with_unit(value, rest, unit)?.round_ties_even();
    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value) {
        return Err(NotNumber::TooLarge);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked above")]
    let value = value as i32;
    Ok(value)
}

/// A number of any kind but `NaN`.
pub(super) fn real(text: &str, unit: Option<Unit>) -> Result<f64, NotNumber> {
    let text = text.trim_start();
    let (value, rest) = number(text).or_else(|| infinity(text)).ok_or(NotNumber::Malformed)?;
    with_unit(value, rest, unit)
}

fn with_unit(value: f64, rest: &str, unit: Option<Unit>) -> Result<f64, NotNumber> {
    match (rest.trim(), unit) {
        ("", _) => Ok(value),
        (_, None) => Err(NotNumber::Malformed),
        (name, Some(unit)) => unit.convert(value, name).ok_or(NotNumber::Unit(unit)),
    }
}

/// The sign of a number, and what follows it.
fn signed(text: &str) -> (f64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// `010` is 8, unless it goes on as a decimal fraction.
fn octal(text: &str) -> Option<(f64, &str)> {
    let (sign, digits) = signed(text);
    if !digits.starts_with('0') || digits.starts_with("0x") || digits.starts_with("0X") {
        return None;
    }
    let end = digits.find(|digit: char| !matches!(digit, '0'..='7')).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if rest.starts_with(['.', 'e', 'E']) {
        return None;
    }
    let value = digits.bytes().fold(0.0, |value, digit| value * 8.0 + f64::from(digit - b'0'));
    Some((sign * value, rest))
}

/// A hexadecimal whole number, or a decimal one.
fn number(text: &str) -> Option<(f64, &str)> {
    let (sign, rest) = signed(text);
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(digits.len());
        let values = digits[..end].chars().filter_map(|digit| digit.to_digit(16));
        let value = values.fold(0.0, |value, digit| value * 16.0 + f64::from(digit));
        return (end > 0).then_some((sign * value, &digits[end..]));
    }
    let end = decimal_length(rest)?;
    let value: f64 = rest[..end].parse().ok()?;
    Some((sign * value, &rest[end..]))
}

/// How many bytes of a text are a decimal number without a sign.
fn decimal_length(text: &str) -> Option<usize> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mut end = whole;
    let mut count = whole;
    if text[end..].starts_with('.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some(end)
}

fn infinity(text: &str) -> Option<(f64, &str)> {
    let (sign, rest) = signed(text);
    let words = ["infinity", "inf"];
    let word = words
        .into_iter()
        .find(|word| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))?;
    Some((sign * f64::INFINITY, &rest[word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_in_all_bases() {
        for (text, expected) in [
            ("5", 5),
            (" -7", -7),
            ("0x10", 16),
            ("010", 8),
            ("1e3", 1_000),
            ("1.6", 2),
            ("2.5", 2),
            ("0.9", 1),
            ("0", 0),
        ] {
            assert_eq!(integer(text, None), Ok(expected), "{text}");
        }
        for text in ["", "x", "5x", "nan", "inf", "08", "-", ".", "é", "1 é"] {
            assert_eq!(integer(text, None), Err(NotNumber::Malformed), "{text}");
        }
        assert_eq!(integer("99999999999", None), Err(NotNumber::TooLarge));
    }

    #[test]
    fn units_are_converted() {
        let unit = Unit::named("ms").unwrap();
        for (text, expected) in
            [("1.5s", 1_500), ("5 min ", 300_000), ("500us", 0), ("1501us", 2), ("1d", 86_400_000)]
        {
            assert_eq!(integer(text, Some(unit)), Ok(expected), "{text}");
        }
        assert_eq!(integer("25x", Some(unit)), Err(NotNumber::Unit(unit)));
        assert_eq!(integer("1 S", Some(unit)), Err(NotNumber::Unit(unit)));
        assert_eq!(real("0.1 s", Some(unit)), Ok(100.0));
        assert_eq!(real("-Infinity", None), Ok(f64::NEG_INFINITY));
        assert_eq!(integer("1.5MB", Unit::named("kB")), Ok(1_536));
    }
}
