//! Text forms of integers, and of the numbers of objects, transactions, rows and places in the log.

use super::{invalid, is_space, out_of_range, trimmed};
use crate::datum::Datum;
use crate::error::SqlResult;

/// Reads an integer of any width.
pub(crate) fn integer<T: TryFrom<i64>>(text: &str, type_name: &str) -> SqlResult<T> {
    let bytes = text.as_bytes();
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    let (is_negative, first) = match bytes.get(start) {
        Some(b'-') => (true, start + 1),
        Some(b'+') => (false, start + 1),
        _ => (false, start),
    };
    let mut end = first;
    let mut value = Some(0_i64);
    while let Some(digit) = bytes.get(end).filter(|byte| byte.is_ascii_digit()) {
        // Gathered as a negative number, which reaches one farther.
        value = value.and_then(|value| value.checked_mul(10)?.checked_sub(i64::from(digit - b'0')));
        end += 1;
    }
    if end == first || !bytes[end..].iter().all(|byte| is_space(*byte)) {
        return Err(invalid(type_name, text));
    }
    let value = if is_negative { value } else { value.and_then(i64::checked_neg) };
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| out_of_range(type_name, text))
}

/// Writes an integer without allocating.
pub(crate) fn write_integer(value: i64, out: &mut String) {
    let mut buffer = [0_u8; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push('-');
    }
    out.push_str(std::str::from_utf8(&buffer[at..]).expect("digits are ASCII"));
}

/// Reads a number of 32 bits. As in PostgreSQL, a negative number stands for the unsigned one with the same bits.
pub(crate) fn unsigned4(text: &str, type_name: &str) -> SqlResult<u32> {
    let value: i64 = match integer(text, type_name) {
        Err(error) if error.code == crate::error::SqlState::NUMERIC_VALUE_OUT_OF_RANGE => {
            return Err(out_of_range(type_name, text));
        }
        other => other?,
    };
    match (u32::try_from(value), i32::try_from(value)) {
        (Ok(value), _) => Ok(value),
        (_, Ok(value)) => Ok(value.cast_unsigned()),
        _ => Err(out_of_range(type_name, text)),
    }
}

/// Reads a number of 64 bits.
pub(crate) fn unsigned8(text: &str, type_name: &str) -> SqlResult<u64> {
    let word = trimmed(text);
    if let Ok(value) = word.parse::<u64>() {
        return Ok(value);
    }
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(out_of_range(type_name, text));
    }
    integer::<i64>(text, type_name).map(i64::cast_unsigned)
}

/// Reads the number of a registered object. Names are for those who have catalogs.
pub(super) fn registered(text: &str, type_name: &str) -> SqlResult<u32> {
    if text == "-" { Ok(0) } else { unsigned4(text, type_name) }
}

/// Reads a place in the log: two hexadecimal halves.
pub(super) fn lsn(text: &str) -> SqlResult<u64> {
    let half = |text: &str| {
        let is_valid = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| u64::from_str_radix(text, 16).unwrap_or(0))
    };
    let halves = text.split_once('/').and_then(|(high, low)| Some((half(high)?, half(low)?)));
    halves.map(|(high, low)| high << 32 | low).ok_or_else(|| invalid("pg_lsn", text))
}

/// Reads the place of a row: block and line.
pub(super) fn tid(text: &str) -> SqlResult<Datum> {
    let inner = text.trim_start().strip_prefix('(').and_then(|rest| rest.trim_end().strip_suffix(')'));
    let parts = inner.and_then(|inner| inner.split_once(','));
    let parsed = parts.and_then(|(block, line)| {
        let block: i64 = block.trim_start().parse().ok()?;
        let block =
            u32::try_from(block).ok().or_else(|| i32::try_from(block).ok().map(i32::cast_unsigned))?;
        Some((block, line.trim_start().parse().ok()?))
    });
    parsed.map(|(block, line)| Datum::Tid(block, line)).ok_or_else(|| invalid("tid", text))
}
