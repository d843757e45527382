//! Functions of bit strings.

use std::sync::Arc;

use super::Table;
use super::arguments::{out_of_range, row};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::order;
use crate::text_form::bytes::{BitBuilder, bit_at};

pub(super) const TABLE: Table = &[
    row!("bit_and", [Bits left left_count, Bits right right_count], {
        combined((left, *left_count), (right, *right_count), "AND", |left, right| left & right)
    }),
    row!("bit_or", [Bits left left_count, Bits right right_count], {
        combined((left, *left_count), (right, *right_count), "OR", |left, right| left | right)
    }),
    row!("bitxor", [Bits left left_count, Bits right right_count], {
        combined((left, *left_count), (right, *right_count), "XOR", |left, right| left ^ right)
    }),
    row!("bitnot", [Bits bits count], Ok(built(*count, |index| !bit_at(bits, index)))),
    row!("bitcat", [Bits left left_count, Bits right right_count], {
        joined(&[(left, 0, *left_count), (right, 0, *right_count)])
    }),
    row!("bitshiftleft", [Bits bits count, Int4 distance], Ok(shifted(bits, *count, i64::from(*distance)))),
    row!("bitshiftright", [Bits bits count, Int4 distance], Ok(shifted(bits, *count, -i64::from(*distance)))),
    row!("bitlength", [Bits _bits count], i32::try_from(*count).map(Datum::Int4).map_err(|_| out_of_range("integer"))),
    row!("bitoctetlength", [Bits bits _count], {
        i32::try_from(bits.len()).map(Datum::Int4).map_err(|_| out_of_range("integer"))
    }),
    row!("bit_bit_count", [Bits bits _count], {
        Ok(Datum::Int8(bits.iter().map(|byte| i64::from(byte.count_ones())).sum()))
    }),
    row!("bitgetbit", [Bits bits count, Int4 index], {
        Ok(Datum::Int4(i32::from(bit_at(bits, checked_index(*index, *count)?))))
    }),
    row!("bitsetbit", [Bits bits count, Int4 index, Int4 value], set(bits, *count, *index, *value)),
    row!("bitsubstr", [Bits bits count, Int4 start, Int4 length], {
        substring(bits, *count, *start, Some(*length))
    }),
    row!("bitsubstr_no_len", [Bits bits count, Int4 start], substring(bits, *count, *start, None)),
    row!("bitoverlay", [Bits bits count, Bits part part_count, Int4 start, Int4 length], {
        overlay((bits, *count), (part, *part_count), *start, *length)
    }),
    row!("bitoverlay_no_len", [Bits bits count, Bits part part_count, Int4 start], {
        let length = i32::try_from(*part_count).map_err(|_| out_of_range("integer"))?;
        overlay((bits, *count), (part, *part_count), *start, length)
    }),
    row!("bitposition", [Bits bits count, Bits part part_count], Ok(position((bits, *count), (part, *part_count)))),
    ("bitcmp", |call| match call.arguments {
        [left, right] => Ok(Datum::Int4(order::compare(left, right) as i32)),
        _ => Err(super::arguments::mismatch(call)),
    }),
];

/// Bits of a string are at most so many: as PostgreSQL's `VARBITMAXLEN`.
const BITS_MAX: u64 = 0x7fff_ffff - 7;

fn built(count: u32, bit: impl Fn(u32) -> bool) -> Datum {
    let mut builder = BitBuilder::default();
    (0..count).for_each(|index| builder.push(bit(index)));
    builder.finish()
}

fn combined(left: (&[u8], u32), right: (&[u8], u32), verb: &str, of: fn(u8, u8) -> u8) -> SqlResult<Datum> {
    if left.1 != right.1 {
        let message = format!("cannot {verb} bit strings of different sizes");
        return Err(SqlError::new(SqlState::new(b"22026"), message));
    }
    let bytes: Arc<[u8]> = left.0.iter().zip(right.0).map(|(left, right)| of(*left, *right)).collect();
    Ok(Datum::Bits(bytes, left.1))
}

/// Parts of bit strings, each from a first bit to the one before an end, as one.
fn joined(parts: &[(&[u8], u32, u32)]) -> SqlResult<Datum> {
    if parts.iter().map(|(_, first, end)| u64::from(end.saturating_sub(*first))).sum::<u64>() > BITS_MAX {
        let message = format!("bit string length exceeds the maximum allowed ({BITS_MAX})");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut builder = BitBuilder::default();
    for (bits, first, end) in parts {
        (*first..*end).for_each(|index| builder.push(bit_at(bits, index)));
    }
    Ok(builder.finish())
}

/// Bits moved to the left, or to the right if the distance is negative; the length stays.
fn shifted(bits: &[u8], count: u32, distance: i64) -> Datum {
    built(count, |index| {
        let from = u32::try_from(i64::from(index) + distance).ok().filter(|from| *from < count);
        from.is_some_and(|from| bit_at(bits, from))
    })
}

fn checked_index(index: i32, count: u32) -> SqlResult<u32> {
    u32::try_from(index).ok().filter(|index| *index < count).ok_or_else(|| {
        let last = i64::from(count) - 1;
        let message = format!("bit index {index} out of valid range (0..{last})");
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

fn set(bits: &[u8], count: u32, index: i32, value: i32) -> SqlResult<Datum> {
    let changed = checked_index(index, count)?;
    if !matches!(value, 0 | 1) {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1"));
    }
    Ok(built(count, |index| if index == changed { value == 1 } else { bit_at(bits, index) }))
}

#[cold]
fn negative_length() -> Box<SqlError> {
    SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

/// The bits of `substring`: from the first to the one before the end, within the string.
fn part_of(count: u32, start: i32, length: Option<i32>) -> SqlResult<(u32, u32)> {
    let start = i64::from(start);
    let end = match length {
        None => i64::from(count) + 1,
        Some(length) if length < 0 => return Err(negative_length()),
        Some(length) => start + i64::from(length),
    };
    let within = |place: i64| u32::try_from((place - 1).clamp(0, i64::from(count))).unwrap_or(count);
    Ok((within(start), within(end)))
}

fn substring(bits: &[u8], count: u32, start: i32, length: Option<i32>) -> SqlResult<Datum> {
    let (first, end) = part_of(count, start, length)?;
    joined(&[(bits, first, end)])
}

fn overlay(whole: (&[u8], u32), part: (&[u8], u32), start: i32, length: i32) -> SqlResult<Datum> {
    if start <= 0 {
        return Err(negative_length());
    }
    let after = start.checked_add(length).ok_or_else(|| out_of_range("integer"))?;
    let (_, head_end) = part_of(whole.1, 1, Some(start - 1))?;
    let (tail, tail_end) = part_of(whole.1, after, None)?;
    joined(&[(whole.0, 0, head_end), (part.0, 0, part.1), (whole.0, tail, tail_end)])
}

/// Where a part begins, from 1; 0: nowhere.
fn position(whole: (&[u8], u32), part: (&[u8], u32)) -> Datum {
    if whole.1 == 0 || part.1 > whole.1 {
        return Datum::Int4(0);
    }
    let is_here =
        |start: u32| (0..part.1).all(|index| bit_at(whole.0, start + index) == bit_at(part.0, index));
    let found = (0..=whole.1 - part.1).find(|start| is_here(*start));
    Datum::Int4(
        found.map_or(0, |start| i32::try_from(start).map_or(i32::MAX, |start| start.saturating_add(1))),
    )
}
