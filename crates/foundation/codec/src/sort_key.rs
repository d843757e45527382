//! Keys of several parts whose types are known only when the program runs, such as the columns of an index: each part ascending or
//! descending, with its nulls first or last. Byte order is the order of the values.
//!
//! ```text
//!   (7, null, "ab" descending)
//!        |
//!        v
//!   01 80 00 00 07 | 02 | 01 9E 9D FF FE        mark and value, mark of a null, mark and inverted value
//! ```
//! A part is a mark, unless it can never be null, and its value. The value ends itself, so that another part can follow; the bytes
//! of a descending value are inverted.
//!
//! | mark | meaning            |
//! |-----:|--------------------|
//! |   00 | null, nulls first  |
//! |   01 | a value follows    |
//! |   02 | null, nulls last   |
//!
//! | value         | bytes                                                                                           |
//! |---------------|-------------------------------------------------------------------------------------------------|
//! | integers      | as in typed keys (module `key` of crate codec)                                                  |
//! | floats        | as there, but -0 is 0, and there is one NaN, after all others                                   |
//! | texts, bytes  | 00 becomes 00 FF, then 00 01                                                                    |
//! | decimals      | class: 10 minus infinity, 20 negative, 30 zero, 40 positive, 50 infinity, 60 not a number; of   |
//! |               | 20 and 40: exponent of ten plus 2^23 in three bytes, then pairs of digits plus 1 (01 to 64 hex),|
//! |               | then 00; of 20 exponent, digits and end are inverted. The point is before the first digit, which|
//! |               | is not 0; zeros at the end are left out                                                         |
//!
//! Invariant: no value of a type is a prefix of another, so what follows a part never changes its place.

use crate::key::{Key, KeyError, text};

const NULL_FIRST: u8 = 0;
const PRESENT: u8 = 1;
const NULL_LAST: u8 = 2;

const MINUS_INFINITY: u8 = 0x10;
const NEGATIVE: u8 = 0x20;
const ZERO: u8 = 0x30;
const POSITIVE: u8 = 0x40;
const INFINITY: u8 = 0x50;
const NOT_A_NUMBER: u8 = 0x60;
const EXPONENT_ZERO: i64 = 1 << 23;
const EXPONENT_BYTES: usize = 3;
const DIGITS_END: u8 = 0;

/// Where the nulls of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// There are none: the part has no mark.
    Never,
    /// Before all values.
    First,
    /// After all values.
    Last,
}

/// The order of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOrder {
    /// Largest first.
    pub is_descending: bool,
    /// Where its nulls are.
    pub nulls: Nulls,
}

impl PartOrder {
    fn mask(self) -> u8 {
        if self.is_descending { 0xFF } else { 0 }
    }
}

/// A decimal number, as its text has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal<'a> {
    /// Less than all others.
    MinusInfinity,
    /// `digits * 10^-scale`, negative or not.
    Finite {
        /// Whether it is below zero.
        is_negative: bool,
        /// All digits, `0` to `9`.
        digits: &'a str,
        /// How many of them are after the point.
        scale: u32,
    },
    /// Greater than all numbers.
    Infinity,
    /// Greater than infinity.
    NotANumber,
}

/// Appends a part that is null. A part that cannot be null has no such encoding: it is written as nulls first.
pub fn write_null(order: PartOrder, out: &mut Vec<u8>) {
    out.push(if order.nulls == Nulls::Last { NULL_LAST } else { NULL_FIRST });
}

/// Appends a part with the value that `write` appends.
pub fn write_part(order: PartOrder, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if order.nulls != Nulls::Never {
        out.push(PRESENT);
    }
    let start = out.len();
    write(out);
    if order.is_descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends a float: -0 as 0, every NaN as the one.
pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN.copysign(1.0) } else { value + 0.0 };
    value.encode(out);
}

/// Appends a float of four bytes as `write_f64` does one of eight.
pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    let value = if value.is_nan() { f32::NAN.copysign(1.0) } else { value + 0.0 };
    value.encode(out);
}

/// Appends a text or a byte string with its end.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    text::encode_escaped(bytes, out);
}

/// Appends a decimal number. Numbers that differ only in how many zeros follow their last digit have the same bytes.
pub fn write_decimal(decimal: Decimal<'_>, out: &mut Vec<u8>) {
    match decimal {
        Decimal::MinusInfinity => out.push(MINUS_INFINITY),
        Decimal::Infinity => out.push(INFINITY),
        Decimal::NotANumber => out.push(NOT_A_NUMBER),
        Decimal::Finite { is_negative, digits, scale } => write_finite(is_negative, digits, scale, out),
    }
}

fn write_finite(is_negative: bool, digits: &str, scale: u32, out: &mut Vec<u8>) {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        out.push(ZERO);
        return;
    }
    out.push(if is_negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    let before_point = i64::try_from(digits.len()).unwrap_or(i64::MAX) - i64::from(scale);
    let exponent = u32::try_from(EXPONENT_ZERO + before_point).unwrap_or(u32::MAX);
    out.extend_from_slice(&exponent.to_be_bytes()[1..]);
    for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
        let (tens, ones) = (pair[0] - b'0', pair.get(1).map_or(0, |digit| digit - b'0'));
        out.push(tens * 10 + ones + 1);
    }
    out.push(DIGITS_END);
    if is_negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Reads the parts of a key, one after another.
#[derive(Clone, Copy, Debug)]
pub struct PartReader<'a> {
    rest: &'a [u8],
}

impl<'a> PartReader<'a> {
    /// Stands at the first part.
    pub fn new(key: &'a [u8]) -> PartReader<'a> {
        PartReader { rest: key }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the mark of a part; `true`: it is null, and the next part follows.
    ///
    /// # Errors
    /// The key has ended, or the byte is no mark.
    pub fn is_null(&mut self, order: PartOrder) -> Result<bool, KeyError> {
        if order.nulls == Nulls::Never {
            return Ok(false);
        }
        match self.take(1, "a null mark")?[0] {
            PRESENT => Ok(false),
            NULL_FIRST | NULL_LAST => Ok(true),
            byte => Err(KeyError::Byte { what: "a null mark", byte }),
        }
    }

    /// Reads a value of `N` bytes.
    ///
    /// # Errors
    /// The key has ended.
    pub fn fixed<const N: usize>(&mut self, order: PartOrder) -> Result<[u8; N], KeyError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, "a value of a fixed length")?);
        bytes.iter_mut().for_each(|byte| *byte ^= order.mask());
        Ok(bytes)
    }

    /// Reads a value that has a [`Key`] of `N` bytes, such as an integer.
    ///
    /// # Errors
    /// The key has ended, or has bytes that no value has.
    pub fn value<K: Key, const N: usize>(&mut self, order: PartOrder) -> Result<K, KeyError> {
        K::decode_last(&self.fixed::<N>(order)?)
    }

    /// Reads a text or a byte string into `out`, after what is there.
    ///
    /// # Errors
    /// The string has no end, or an escape that none has.
    pub fn bytes(&mut self, order: PartOrder, out: &mut Vec<u8>) -> Result<(), KeyError> {
        let mask = order.mask();
        loop {
            let zero = self.rest.iter().position(|byte| *byte == mask).ok_or(KeyError::Unended)?;
            out.extend(self.rest[..zero].iter().map(|byte| byte ^ mask));
            let next = *self.rest.get(zero + 1).ok_or(KeyError::Unended)? ^ mask;
            self.rest = &self.rest[zero + 2..];
            match next {
                text::END => return Ok(()),
                text::ESCAPED_ZERO => out.push(0),
                byte => return Err(KeyError::Byte { what: "an escaped string", byte }),
            }
        }
    }

    /// Passes over a text or a byte string.
    ///
    /// # Errors
    /// The string has no end.
    pub fn skip_bytes(&mut self, order: PartOrder) -> Result<(), KeyError> {
        let mask = order.mask();
        loop {
            let zero = self.rest.iter().position(|byte| *byte == mask).ok_or(KeyError::Unended)?;
            let next = *self.rest.get(zero + 1).ok_or(KeyError::Unended)? ^ mask;
            self.rest = &self.rest[zero + 2..];
            if next == text::END {
                return Ok(());
            }
        }
    }

    /// Passes over a value of a fixed length.
    ///
    /// # Errors
    /// The key has ended.
    pub fn skip_fixed(&mut self, bytes: usize) -> Result<(), KeyError> {
        self.take(bytes, "a value of a fixed length").map(drop)
    }

    /// Passes over a decimal number.
    ///
    /// # Errors
    /// The number has no end, or its class is none.
    pub fn skip_decimal(&mut self, order: PartOrder) -> Result<(), KeyError> {
        let class = self.fixed::<1>(order)?[0];
        let inverted = match class {
            MINUS_INFINITY | ZERO | INFINITY | NOT_A_NUMBER => return Ok(()),
            POSITIVE => 0,
            NEGATIVE => 0xFF,
            byte => return Err(KeyError::Byte { what: "a decimal number", byte }),
        };
        self.skip_fixed(EXPONENT_BYTES)?;
        let end = DIGITS_END ^ order.mask() ^ inverted;
        let length = self.rest.iter().position(|byte| *byte == end).ok_or(KeyError::Unended)?;
        self.rest = &self.rest[length + 1..];
        Ok(())
    }

    fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], KeyError> {
        let short = KeyError::Short { what, needed: bytes, left: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
