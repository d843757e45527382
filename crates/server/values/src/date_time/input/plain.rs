//! Dates and timestamps as computers write them: `2024-02-29`, `2024-02-29 12:34:56.789`.
//!
//! They mean the same whatever the setting `DateStyle` is, since a number of four digits is a year. All other forms, and all that are
//! wrong, are for `Reading`.

use crate::date_time::calendar::{Fields, month_days};

/// Bytes of a date.
const DATE_BYTES: usize = 10;
/// Bytes of a time without its fraction, and the space before it.
const TIME_BYTES: usize = 9;

/// What a text says, if it is a plain date, or a plain date and time.
pub(super) fn moment(text: &[u8]) -> Option<Fields> {
    let (date, rest) = text.split_first_chunk::<DATE_BYTES>()?;
    let date = self::date(date)?;
    let Some((time, fraction)) = rest.split_first_chunk::<TIME_BYTES>() else {
        return rest.is_empty().then_some(date);
    };
    let [b' ', h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    let micros = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            number(digits)? * 10_i64.pow(6 - u32::try_from(digits.len()).ok()?)
        }
        _ => return None,
    };
    let is_valid = hour < 24 && minute < 60 && second < 60;
    is_valid.then_some(Fields { hour, minute, second, micros, ..date })
}

fn date(text: &[u8; DATE_BYTES]) -> Option<Fields> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let (year, month, day) = (number(&[*y1, *y2, *y3, *y4])?, number(&[*m1, *m2])?, number(&[*d1, *d2])?);
    let is_valid = year > 0 && (1..=12).contains(&month) && day > 0 && day <= month_days(year, month);
    is_valid.then_some(Fields { year, month, day, ..Fields::default() })
}

fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}
