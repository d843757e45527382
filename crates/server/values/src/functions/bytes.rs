//! `bytea`: parts, bits, patterns.

use std::sync::Arc;

use super::Table;
use super::arguments::row;
use super::text::{BYTES_MAX, bounded, negative_length, slice_of, too_long};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    row!("byteaoctetlen", [Bytea bytes], Ok(Datum::Int4(bounded(bytes.len())))),
    row!("byteacat", [Bytea left, Bytea right], joined(&[left, right])),
    row!("bytea_substr", [Bytea bytes, Int4 start, Int4 length], substring(bytes, *start, Some(*length))),
    row!("bytea_substr_no_len", [Bytea bytes, Int4 start], substring(bytes, *start, None)),
    row!("byteaoverlay", [Bytea bytes, Bytea part, Int4 start, Int4 length], {
        overlay(bytes, part, *start, *length)
    }),
    row!("byteaoverlay_no_len", [Bytea bytes, Bytea part, Int4 start], {
        overlay(bytes, part, *start, bounded(part.len()))
    }),
    row!("byteapos", [Bytea bytes, Bytea part], Ok(Datum::Int4(position(bytes, part)))),
    row!("byteatrim", [Bytea bytes, Bytea set], Ok(datum(trim_end(trim_start(bytes, set), set)))),
    row!("bytealtrim", [Bytea bytes, Bytea set], Ok(datum(trim_start(bytes, set)))),
    row!("byteartrim", [Bytea bytes, Bytea set], Ok(datum(trim_end(bytes, set)))),
    row!("byteaGetByte", [Bytea bytes, Int4 index], {
        let at = checked_index(i64::from(*index), bytes.len())?;
        Ok(Datum::Int4(i32::from(bytes[at])))
    }),
    row!("byteaSetByte", [Bytea bytes, Int4 index, Int4 value], {
        let at = checked_index(i64::from(*index), bytes.len())?;
        let mut changed = bytes.to_vec();
        changed[at] = value.to_le_bytes()[0];
        Ok(datum(&changed))
    }),
    row!("byteaGetBit", [Bytea bytes, Int8 index], {
        let at = checked_index(*index, bytes.len().saturating_mul(8))?;
        Ok(Datum::Int4(i32::from(bytes[at / 8] >> (at % 8) & 1)))
    }),
    row!("byteaSetBit", [Bytea bytes, Int8 index, Int4 value], set_bit(bytes, *index, *value)),
    row!("bytea_bit_count", [Bytea bytes], {
        Ok(Datum::Int8(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()))
    }),
];

fn datum(bytes: &[u8]) -> Datum {
    Datum::Bytea(Arc::from(bytes))
}

fn joined(parts: &[&[u8]]) -> SqlResult<Datum> {
    if parts.iter().map(|part| part.len()).sum::<usize>() > BYTES_MAX {
        return Err(too_long());
    }
    Ok(datum(&parts.concat()))
}

fn substring(bytes: &[u8], start: i32, length: Option<i32>) -> SqlResult<Datum> {
    let (first, end) = slice_of(start, length)?;
    let end = end.min(bytes.len());
    Ok(datum(&bytes[first.min(end)..end]))
}

fn overlay(bytes: &[u8], part: &[u8], start: i32, length: i32) -> SqlResult<Datum> {
    if start <= 0 {
        return Err(negative_length());
    }
    let after = start.checked_add(length).ok_or_else(|| super::arguments::out_of_range("integer"))?;
    let before = &bytes[..slice_of(start, None)?.0.min(bytes.len())];
    let rest = &bytes[slice_of(after, None)?.0.min(bytes.len())..];
    joined(&[before, part, rest])
}

fn position(bytes: &[u8], part: &[u8]) -> i32 {
    if part.is_empty() {
        return 1;
    }
    bytes.windows(part.len()).position(|window| window == part).map_or(0, |at| bounded(at + 1))
}

fn trim_start<'a>(bytes: &'a [u8], set: &[u8]) -> &'a [u8] {
    let start = bytes.iter().position(|byte| !set.contains(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn trim_end<'a>(bytes: &'a [u8], set: &[u8]) -> &'a [u8] {
    let end = bytes.iter().rposition(|byte| !set.contains(byte)).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// # Errors
/// `2202E` if there is nothing at the index.
fn checked_index(index: i64, count: usize) -> SqlResult<usize> {
    match usize::try_from(index) {
        Ok(at) if at < count => Ok(at),
        _ => {
            let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
            let message = format!("index {index} out of valid range, 0..{last}");
            Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message))
        }
    }
}

fn set_bit(bytes: &[u8], index: i64, value: i32) -> SqlResult<Datum> {
    let at = checked_index(index, bytes.len().saturating_mul(8))?;
    let mut changed = bytes.to_vec();
    let bit = 1 << (at % 8);
    match value {
        0 => changed[at / 8] &= !bit,
        1 => changed[at / 8] |= bit,
        _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    Ok(datum(&changed))
}
