//! The shortest decimal text of a float, as PostgreSQL chooses it.
//!
//! Rust finds the shortest text that is read as the same number. PostgreSQL differs in two corners:
//! * A text exactly in the middle between two floats is not taken, though it would be read as the even one of them.
//! * Of two texts that are equally near to the number, the one with the even last digit is taken.

use num_bigint::BigUint;

use super::Float;

/// A finite positive or negative number as `d.ddde±x`.
pub(super) fn text<T: Float>(value: T) -> String {
    let binary = Binary::of(value);
    let mut text = format!("{value:e}");
    let mut decimal = Decimal::of(&text);
    while binary.is_boundary(&decimal) {
        text = format!("{value:.*e}", decimal.digits.len());
        decimal = Decimal::of(&text);
    }
    if decimal.is_odd() && binary.is_halfway(decimal.decimals) {
        let end = text.find('e').unwrap_or(text.len());
        let even = char::from(decimal.digits.bytes().last().map_or(b'0', |odd| odd - 1));
        text.replace_range(end - 1..end, even.encode_utf8(&mut [0; 4]));
    }
    text
}

/// The digits of a text and how many of them are after the point; fewer than none: zeros follow them.
struct Decimal {
    digits: String,
    decimals: i32,
}

impl Decimal {
    fn of(text: &str) -> Decimal {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits: String = mantissa.bytes().filter(u8::is_ascii_digit).map(char::from).collect();
        let after_first = i32::try_from(digits.len()).unwrap_or(i32::MAX) - 1;
        Decimal { decimals: after_first - exponent.parse::<i32>().unwrap_or(0), digits }
    }

    fn is_odd(&self) -> bool {
        self.digits.bytes().last().is_some_and(|digit| digit % 2 == 1)
    }

    fn number(&self) -> BigUint {
        BigUint::parse_bytes(self.digits.as_bytes(), 10).unwrap_or_default()
    }
}

/// `significand * 2^exponent`
struct Binary {
    significand: u64,
    exponent: i32,
}

impl Binary {
    fn of<T: Float>(value: T) -> Binary {
        let wide: f64 = value.into();
        let bits = wide.to_bits();
        let (fraction, biased) = (bits & ((1 << 52) - 1), i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0));
        let (significand, exponent) =
            if biased == 0 { (fraction, -1_074) } else { (fraction | 1 << 52, biased - 1_075) };
        // The narrower type has fewer bits in its significand; the others are zeros.
        let least = (exponent + 53 - T::SIGNIFICAND_BITS).max(T::EXPONENT_MIN).max(exponent);
        Binary { significand: significand >> (least - exponent), exponent: least }
    }

    /// Whether a text is in the middle between the number and one of its neighbours.
    fn is_boundary(&self, decimal: &Decimal) -> bool {
        // Only the even one of two neighbours is read from such a text.
        if self.significand % 2 == 1 {
            return false;
        }
        let twos = self.exponent - 1;
        let number = match (u32::try_from(-twos), decimal.decimals) {
            // A middle with so many bits after the point has as many decimals.
            (Ok(places), decimals) if i32::try_from(places) == Ok(decimals) => {
                if places > 27 {
                    return false;
                }
                decimal.number() / BigUint::from(5_u32).pow(places)
            }
            (Err(_), ..=0) => {
                let scaled = decimal.number() * BigUint::from(10_u32).pow(decimal.decimals.unsigned_abs());
                if scaled.trailing_zeros().is_none_or(|zeros| zeros != u64::from(twos.unsigned_abs())) {
                    return false;
                }
                scaled >> twos.unsigned_abs()
            }
            _ => return false,
        };
        let doubled = self.significand * 2;
        // Below a power of two, the neighbour is nearer.
        number == BigUint::from(doubled + 1) || number == BigUint::from(doubled - 1)
    }

    /// Whether the number is in the middle of two that have so many decimals.
    fn is_halfway(&self, decimals: i32) -> bool {
        let zeros = i32::try_from(self.significand.trailing_zeros()).unwrap_or(0);
        // A number with so many bits after the point has as many decimals, and the last one is 5.
        let exact_decimals = -(self.exponent + zeros);
        if exact_decimals > 0 || decimals >= 0 {
            return exact_decimals == decimals + 1;
        }
        let shift = u32::try_from(self.exponent + zeros).unwrap_or(0);
        let whole = BigUint::from(self.significand >> zeros) << shift;
        let power = BigUint::from(10_u32).pow(decimals.unsigned_abs());
        whole % &power * 2_u32 == power
    }
}
