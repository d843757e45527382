//! The binary form of `numeric`: digits of base 10,000.
//!
//! | bytes | field  | meaning                                                              |
//! |------:|--------|----------------------------------------------------------------------|
//! |     2 | count  | how many digits follow                                               |
//! |     2 | weight | the power of 10,000 of the first one                                 |
//! |     2 | sign   | 0: plus; 0x4000: minus; 0xC000: not a number; 0xD000, 0xF000: infinities |
//! |     2 | scale  | decimal digits after the point                                       |
//! |  2 each | digits | 0 to 9,999                                                         |

use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, Zero};

use super::{Numeric, SCALE_MAX, checked, rescaled, ten_to};
use crate::binary_form::Reader;
use crate::error::{SqlError, SqlResult, SqlState};

const PLUS: u16 = 0x0000;
const MINUS: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;
/// PostgreSQL sends this scale with infinities.
const INFINITE_SCALE: u32 = 32;
const BASE: u16 = 10_000;
/// Decimal digits of a digit.
const DIGIT_WIDTH: u32 = 4;

fn invalid(what: &str) -> Box<SqlError> {
    let message = format!("invalid {what} in external \"numeric\" value");
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

impl Numeric {
    /// Reads a number.
    pub(crate) fn receive(reader: &mut Reader<'_>) -> SqlResult<Numeric> {
        let count = reader.u16()?;
        let weight = reader.i16()?;
        let sign = reader.u16()?;
        let scale = u32::from(reader.u16()?);
        if !matches!(sign, PLUS | MINUS | NOT_A_NUMBER | INFINITY | MINUS_INFINITY) {
            return Err(invalid("sign"));
        }
        if scale > SCALE_MAX {
            return Err(invalid("scale"));
        }
        let mut digits = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let digit = reader.u16()?;
            if digit >= BASE {
                return Err(invalid("digit"));
            }
            digits.extend([digit / 100, digit % 100]);
        }
        match sign {
            NOT_A_NUMBER => return Ok(Numeric::NotANumber),
            INFINITY => return Ok(Numeric::PositiveInfinity),
            MINUS_INFINITY => return Ok(Numeric::NegativeInfinity),
            _ => {}
        }
        let digits: Vec<u8> = digits.into_iter().map(|digit| u8::try_from(digit).unwrap_or(0)).collect();
        let magnitude = BigInt::from(BigUint::from_radix_be(&digits, 100).unwrap_or_default());
        let value = if sign == MINUS { -magnitude } else { magnitude };
        // The last digit's power of ten, negated.
        let place = (i64::from(count) - 1 - i64::from(weight)) * i64::from(DIGIT_WIDTH);
        let digits = match u32::try_from(place) {
            Ok(place) if place > scale => value / ten_to(place - scale),
            Ok(place) => rescaled(&value, place, scale),
            Err(_) => value * ten_to(u32::try_from(-place).unwrap_or(0) + scale),
        };
        checked(Numeric::Finite { digits, scale })
    }

    /// Writes the number.
    pub(crate) fn send(&self, out: &mut Vec<u8>) {
        let (sign, digits, scale) = match self {
            Numeric::Finite { digits, scale } => {
                (if digits.is_negative() { MINUS } else { PLUS }, digits, *scale)
            }
            Numeric::NotANumber => return write(&[], 0, NOT_A_NUMBER, 0, out),
            Numeric::PositiveInfinity => return write(&[], 0, INFINITY, INFINITE_SCALE, out),
            Numeric::NegativeInfinity => return write(&[], 0, MINUS_INFINITY, INFINITE_SCALE, out),
        };
        if digits.is_zero() {
            return write(&[], 0, PLUS, scale, out);
        }
        // Zeros after the last digit let the point stand between two digits of base 10,000.
        let filled = (DIGIT_WIDTH - scale % DIGIT_WIDTH) % DIGIT_WIDTH;
        let decimals = (digits.magnitude() * 10_u32.pow(filled)).to_radix_be(10);
        let first = decimals.len() % 4;
        let (head, rest) = decimals.split_at(first);
        let groups = std::iter::once(head).filter(|head| !head.is_empty()).chain(rest.chunks(4));
        let mut large: Vec<u16> = groups
            .map(|group| group.iter().fold(0, |digit, decimal| digit * 10 + u16::from(*decimal)))
            .collect();
        let after_point = i64::from((scale + filled) / DIGIT_WIDTH);
        let weight = i64::try_from(large.len()).unwrap_or(i64::MAX) - after_point - 1;
        while large.last() == Some(&0) {
            large.pop();
        }
        write(&large, i16::try_from(weight).unwrap_or(i16::MAX), sign, scale, out);
    }
}

fn write(digits: &[u16], weight: i16, sign: u16, scale: u32, out: &mut Vec<u8>) {
    out.extend(u16::try_from(digits.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(weight.to_be_bytes());
    out.extend(sign.to_be_bytes());
    out.extend(u16::try_from(scale).unwrap_or(u16::MAX).to_be_bytes());
    digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
}
