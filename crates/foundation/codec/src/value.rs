//! Typed values: simple encodings with no order to keep, integers little-endian.
//!
//! | type                       | bytes                                                                         |
//! |----------------------------|-------------------------------------------------------------------------------|
//! | `Vec<u8>`, `&[u8]`         | as it is                                                                      |
//! | `String`, `&str`           | UTF-8                                                                         |
//! | `[u8; N]`, `Uuid`          | as it is                                                                      |
//! | integers, floats           | little-endian, the floats' IEEE bits                                          |
//! | `bool`                     | 0 or 1                                                                        |
//! | `Timestamp`                | microseconds since 1970 as `i64`                                              |
//! | `Option`                   | 0, or 1 and the value                                                         |
//! | `()`                       | nothing                                                                       |
//! | tuples of 1 to 8           | every part but the last after its length in bytes as `u32`; the last as it is |
//!
//! For anything richer implement [`Value`] with the serializer of your choice.

use uuid::Uuid;

use crate::key::Timestamp;

/// Bytes that are not a value of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Not the number of bytes that the type takes.
    #[error("{what} takes {needed} bytes, the value has {length}")]
    Length {
        /// The type that was being read.
        what: &'static str,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        length: usize,
    },
    /// Bytes that no encoding holds, such as a `bool` of 2.
    #[error("{byte:#04x} is not a valid byte of {what}")]
    Byte {
        /// The type that was being read.
        what: &'static str,
        /// The byte.
        byte: u8,
    },
    /// A text that is not UTF-8.
    #[error("the text is not UTF-8 (after {valid} valid bytes)")]
    NotText {
        /// How many bytes before the first bad one.
        valid: usize,
    },
    /// Refused by an application's own [`Value`].
    #[error("{0}")]
    Other(String),
}

/// A type that can be stored as the value of a row.
pub trait Value: Sized {
    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a value, which is all of `bytes`.
    ///
    /// # Errors
    /// [`ValueError`] if `bytes` is not what [`Value::encode`] writes.
    fn decode(bytes: &[u8]) -> Result<Self, ValueError>;
}

/// What may be given where a `V` is asked for: a `V`, a `&V`, `&str` for `String`, a byte slice for `Vec<u8>`.
pub trait AsValue<V: Value> {
    /// Appends what [`Value::encode`] of the `V` would.
    fn encode_value(&self, out: &mut Vec<u8>);
}

impl<V: Value> AsValue<V> for V {
    fn encode_value(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<V: Value> AsValue<V> for &V {
    fn encode_value(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl AsValue<String> for &str {
    fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl AsValue<Vec<u8>> for &[u8] {
    fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> AsValue<Vec<u8>> for &[u8; N] {
    fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(*self);
    }
}

fn exactly<const N: usize>(bytes: &[u8], what: &'static str) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| ValueError::Length { what, needed: N, length: bytes.len() })
}

macro_rules! number_values {
    ($($number:ident),*) => { $(
        impl Value for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(bytes: &[u8]) -> Result<$number, ValueError> {
                Ok($number::from_le_bytes(exactly(bytes, stringify!($number))?))
            }
        }
    )* };
}

number_values!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Value for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &[u8]) -> Result<bool, ValueError> {
        match exactly::<1>(bytes, "bool")? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(ValueError::Byte { what: "bool", byte }),
        }
    }
}

impl Value for () {
    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Result<(), ValueError> {
        exactly::<0>(bytes, "()").map(|_| ())
    }
}

impl Value for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, ValueError> {
        Ok(bytes.to_vec())
    }
}

impl Value for String {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<String, ValueError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(ValueError::NotText { valid: error.valid_up_to() }),
        }
    }
}

impl<const N: usize> Value for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<[u8; N], ValueError> {
        exactly(bytes, "a byte array")
    }
}

impl Value for Uuid {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Uuid, ValueError> {
        exactly(bytes, "Uuid").map(Uuid::from_bytes)
    }
}

impl Value for Timestamp {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_micros().encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Timestamp, ValueError> {
        exactly(bytes, "Timestamp").map(|bytes| Timestamp::from_micros(i64::from_le_bytes(bytes)))
    }
}

impl<V: Value> Value for Option<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Option<V>, ValueError> {
        match bytes.split_first() {
            None => Err(ValueError::Length { what: "Option", needed: 1, length: 0 }),
            Some((0, rest)) => exactly::<0>(rest, "None").map(|_| None),
            Some((1, rest)) => V::decode(rest).map(Some),
            Some((&byte, _)) => Err(ValueError::Byte { what: "Option", byte }),
        }
    }
}

/// Appends a part of a tuple after its length.
fn encode_part<V: Value>(part: &V, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    part.encode(out);
    let bytes = u32::try_from(out.len() - start - 4)
        .expect("a value has less than 4 GiB: its row has 64 MiB at most");
    out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
}

/// Takes a part of a tuple off the front of `input`.
fn decode_part<V: Value>(input: &mut &[u8]) -> Result<V, ValueError> {
    let short = |needed| ValueError::Length { what: "a part of a tuple", needed, length: input.len() };
    let (length, rest) = input.split_first_chunk::<4>().ok_or_else(|| short(4))?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (part, rest) = rest.split_at_checked(length).ok_or_else(|| short(length.saturating_add(4)))?;
    *input = rest;
    V::decode(part)
}

macro_rules! tuple_values {
    ($(($($part:ident $index:tt,)* ; $last:ident $last_index:tt))*) => { $(
        impl<$($part: Value,)* $last: Value> Value for ($($part,)* $last,) {
            fn encode(&self, out: &mut Vec<u8>) {
                $(encode_part(&self.$index, out);)*
                self.$last_index.encode(out);
            }

            #[allow(unused_mut, reason = "a tuple of one part has no part before its last")]
            fn decode(mut bytes: &[u8]) -> Result<Self, ValueError> {
                Ok(($(decode_part::<$part>(&mut bytes)?,)* $last::decode(bytes)?,))
            }
        }
    )* };
}

tuple_values! {
    (; A 0)
    (A 0, ; B 1)
    (A 0, B 1, ; C 2)
    (A 0, B 1, C 2, ; D 3)
    (A 0, B 1, C 2, D 3, ; E 4)
    (A 0, B 1, C 2, D 3, E 4, ; F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, ; G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, ; H 7)
}

/// The value's bytes, as a table stores them.
pub fn encode<V: Value>(value: &V) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_values_are_as_documented() {
        assert_eq!(encode(&(7u16, "ab".to_owned())), b"\x02\0\0\0\x07\0ab");
        assert_eq!(encode(&Some(1.0f32)), [1, 0, 0, 0x80, 0x3F]);
        assert_eq!(encode(&None::<u64>), [0]);
        assert_eq!(encode(&()), []);
    }

    #[test]
    fn what_no_encoding_holds_is_refused() {
        assert!(matches!(bool::decode(&[2]), Err(ValueError::Byte { byte: 2, .. })));
        assert!(matches!(u32::decode(&[2]), Err(ValueError::Length { needed: 4, length: 1, .. })));
        assert!(matches!(Option::<u8>::decode(&[]), Err(ValueError::Length { .. })));
        assert!(matches!(String::decode(&[0xFF]), Err(ValueError::NotText { valid: 0 })));
        let lying_length = [0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert!(matches!(<(String, u8)>::decode(&lying_length), Err(ValueError::Length { .. })));
    }
}
