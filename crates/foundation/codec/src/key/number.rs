//! Integers, floats, `bool`, `char` and `Option`.

use super::{Key, KeyError, take};

macro_rules! unsigned_keys {
    ($($number:ident),*) => { $(
        impl Key for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn decode(input: &mut &[u8]) -> Result<$number, KeyError> {
                Ok($number::from_be_bytes(take(input, stringify!($number))?))
            }
        }
    )* };
}

unsigned_keys!(u8, u16, u32, u64, u128);

macro_rules! signed_keys {
    ($($number:ident),*) => { $(
        impl Key for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                // With the sign bit flipped, negative numbers are before positive ones.
                out.extend_from_slice(&(self ^ $number::MIN).to_be_bytes());
            }

            fn decode(input: &mut &[u8]) -> Result<$number, KeyError> {
                Ok($number::from_be_bytes(take(input, stringify!($number))?) ^ $number::MIN)
            }
        }
    )* };
}

signed_keys!(i8, i16, i32, i64, i128);

macro_rules! float_keys {
    ($($float:ident, $bits:ident);*) => { $(
        /// Sorted by `total_cmp`: negative NaNs, negative infinity, numbers (`-0.0` before `0.0`, two different keys),
        /// infinity, NaNs. The exact bits come back, those of a NaN too.
        impl Key for $float {
            fn encode(&self, out: &mut Vec<u8>) {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let bits = self.to_bits();
                // A larger magnitude is a smaller number when negative: flip all of it.
                let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                ordered.encode(out);
            }

            fn decode(input: &mut &[u8]) -> Result<$float, KeyError> {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let ordered = $bits::from_be_bytes(take(input, stringify!($float))?);
                Ok($float::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered ^ SIGN }))
            }
        }
    )* };
}

float_keys!(f32, u32; f64, u64);

impl Key for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(input: &mut &[u8]) -> Result<bool, KeyError> {
        match take::<1>(input, "bool")? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(KeyError::Byte { what: "bool", byte }),
        }
    }
}

impl Key for char {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<char, KeyError> {
        let number = u32::decode(input)?;
        char::from_u32(number).ok_or(KeyError::Range { what: "char", number: i64::from(number) })
    }
}

/// `None` is before every `Some`.
impl<K: Key> Key for Option<K> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Option<K>, KeyError> {
        match take::<1>(input, "Option")? {
            [0] => Ok(None),
            [1] => K::decode(input).map(Some),
            [byte] => Err(KeyError::Byte { what: "Option", byte }),
        }
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_last(out);
        }
    }

    fn decode_last(mut input: &[u8]) -> Result<Option<K>, KeyError> {
        match take::<1>(&mut input, "Option")? {
            [0] if input.is_empty() => Ok(None),
            [0] => Err(KeyError::Trailing { bytes: input.len() }),
            [1] => K::decode_last(input).map(Some),
            [byte] => Err(KeyError::Byte { what: "Option", byte }),
        }
    }
}
