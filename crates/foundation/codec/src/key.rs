//! Typed keys: encodings whose byte order is the order of the values, so that a table, which compares keys bytewise,
//! sorts integers as integers and tuples as tuples.
//!
//! ```text
//!   (u32, String, i16)      (7, "ab", -1)
//!                                |
//!                                v
//!   00 00 00 07 | 61 62 00 01 | 7F FF          compared byte by byte, left to right
//!      u32        text, ended     i16, sign flipped
//! ```
//!
//! | type              | bytes                                                                                  |
//! |-------------------|----------------------------------------------------------------------------------------|
//! | `u8` .. `u128`    | big-endian                                                                             |
//! | `i8` .. `i128`    | big-endian with the sign bit flipped                                                   |
//! | `f32`, `f64`      | bits, big-endian; all flipped if negative, else the sign bit (order of `total_cmp`)    |
//! | `bool`            | 0 or 1                                                                                 |
//! | `char`            | code point as `u32`                                                                    |
//! | `String`, `&str`  | UTF-8; followed by more: 00 becomes 00 FF, then 00 01; at the end of a key: as it is   |
//! | `Vec<u8>`, `&[u8]`| as text                                                                                |
//! | `[u8; N]`         | as it is                                                                               |
//! | `Option`          | 0, or 1 and the key                                                                    |
//! | tuples of 1 to 8  | the parts, one after another                                                           |
//! | `Uuid`            | its 16 bytes                                                                           |
//! | `Timestamp`       | microseconds since 1970 as `i64`                                                       |
//! | `SystemTime`      | whole seconds since 1970, rounded down, as `i64`; nanoseconds as `u32`                 |
//!
//! Invariants:
//! * `a < b` exactly if the bytes of `a` are before the bytes of `b`; a text sorts right after its own prefix.
//! * Encodings in the middle of a key end themselves: no encoding made by [`Key::encode`] is a prefix of another.
//! * `decode` takes exactly what `encode` can have written and refuses everything else.
//!
//! A key that is one text or byte string is stored as its plain bytes, so the command line finds it as it is typed.

mod number;
pub(crate) mod text;
mod time;
mod tuple;

pub use time::Timestamp;

/// Bytes that are not a key of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key ends in the middle of a part.
    #[error("the key ends early: {what} needs {needed} bytes, {left} are left")]
    Short {
        /// The part that was being read.
        what: &'static str,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// A text or byte string in the middle of a key has no end mark.
    #[error("the key ends early: a text or byte string is not ended by 00 01")]
    Unended,
    /// Bytes that no encoding holds, such as a `bool` of 2.
    #[error("{byte:#04x} is not a valid byte of {what}")]
    Byte {
        /// The part that was being read.
        what: &'static str,
        /// The byte.
        byte: u8,
    },
    /// A number out of its type's range, such as a `char` that is a surrogate.
    #[error("{number} is out of range for {what}")]
    Range {
        /// The part that was being read.
        what: &'static str,
        /// The number.
        number: i64,
    },
    /// A text that is not UTF-8.
    #[error("a text in the key is not UTF-8 (after {valid} valid bytes)")]
    NotText {
        /// How many bytes before the first bad one.
        valid: usize,
    },
    /// Bytes after the last part.
    #[error("{bytes} bytes follow the last part of the key")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// A type whose encoding sorts as its values do.
pub trait Key: Sized {
    /// Appends an encoding that ends itself, so that another part can follow.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes one encoding off the front of `input`.
    ///
    /// # Errors
    /// [`KeyError`] if `input` does not start with what [`Key::encode`] writes.
    fn decode(input: &mut &[u8]) -> Result<Self, KeyError>;

    /// Appends the encoding of the last part of a key. The end of the key ends it, so text needs no end mark.
    fn encode_last(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// Reads the last part of a key, which is all of `input`.
    ///
    /// # Errors
    /// [`KeyError`] if `input` is not what [`Key::encode_last`] writes, no more and no less.
    fn decode_last(mut input: &[u8]) -> Result<Self, KeyError> {
        let key = Self::decode(&mut input)?;
        if input.is_empty() { Ok(key) } else { Err(KeyError::Trailing { bytes: input.len() }) }
    }
}

/// What may be given where a `K` is asked for: a `K`, a `&K`, `&str` for `String`, a byte slice for `Vec<u8>`.
pub trait AsKey<K: Key> {
    /// Appends what [`Key::encode_last`] of the `K` would.
    fn encode_key(&self, out: &mut Vec<u8>);
}

impl<K: Key> AsKey<K> for K {
    fn encode_key(&self, out: &mut Vec<u8>) {
        self.encode_last(out);
    }
}

impl<K: Key> AsKey<K> for &K {
    fn encode_key(&self, out: &mut Vec<u8>) {
        self.encode_last(out);
    }
}

/// The first parts of a tuple `K`, as a shorter tuple: `(u64,)` for `(u64, String)`.
pub trait KeyPrefix<K: Key> {
    /// Appends the bytes that every `K` with these first parts starts with, and no other `K`.
    fn encode_prefix(&self, out: &mut Vec<u8>);
}

/// The whole key, as a table stores it.
pub fn encode<K: Key>(key: &K) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode_last(&mut out);
    out
}

/// Reads a whole key, as a table stores it.
///
/// # Errors
/// [`KeyError`] if `bytes` is not what [`encode`] writes.
pub fn decode<K: Key>(bytes: &[u8]) -> Result<K, KeyError> {
    K::decode_last(bytes)
}

/// Takes `N` bytes off the front of `input`.
fn take<const N: usize>(input: &mut &[u8], what: &'static str) -> Result<[u8; N], KeyError> {
    let Some((front, rest)) = input.split_first_chunk::<N>() else {
        return Err(KeyError::Short { what, needed: N, left: input.len() });
    };
    *input = rest;
    Ok(*front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_keys_are_as_documented() {
        assert_eq!(encode(&(7u32, "ab".to_owned(), -1i16)), b"\0\0\0\x07ab\0\x01\x7f\xff");
        assert_eq!(encode(&"a\0b".to_owned()), b"a\0b");
        assert_eq!(encode(&("a\0b".to_owned(), true)), b"a\0\xffb\0\x01\x01");
        assert_eq!(encode(&Some(1.0f32)), [1, 0xBF, 0x80, 0, 0]);
        assert_eq!(encode(&None::<u64>), [0]);
        assert_eq!(encode(&-1i64), [0x7F, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(encode(&-1.0f64), [0x40, 0x0F, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn borrowed_and_owned_keys_have_the_same_bytes() {
        let bytes = |key: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            key(&mut out);
            out
        };
        let owned = bytes(&|out| AsKey::<String>::encode_key(&"caf\u{e9}".to_owned(), out));
        let borrowed = bytes(&|out| AsKey::<String>::encode_key(&"caf\u{e9}", out));
        assert_eq!(owned, borrowed);
        assert_eq!(
            bytes(&|out| AsKey::<Vec<u8>>::encode_key(&b"\0\xff", out)),
            bytes(&|out| AsKey::<Vec<u8>>::encode_key(&vec![0u8, 255], out))
        );
    }

    #[test]
    fn a_prefix_fits_only_its_own_extensions() {
        let mut prefix = Vec::new();
        KeyPrefix::<(String, u8)>::encode_prefix(&("ab".to_owned(),), &mut prefix);
        assert!(encode(&("ab".to_owned(), 0u8)).starts_with(&prefix));
        assert!(!encode(&("abc".to_owned(), 0u8)).starts_with(&prefix));
    }

    #[test]
    fn what_no_encoding_holds_is_refused() {
        assert!(matches!(decode::<bool>(&[2]), Err(KeyError::Byte { byte: 2, .. })));
        assert!(matches!(decode::<Option<u8>>(&[3, 0]), Err(KeyError::Byte { byte: 3, .. })));
        assert!(matches!(decode::<u32>(&[1, 2, 3]), Err(KeyError::Short { needed: 4, left: 3, .. })));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(KeyError::Trailing { bytes: 1 })));
        assert!(matches!(decode::<(String, u8)>(b"abc"), Err(KeyError::Unended)));
        assert!(matches!(decode::<(String, u8)>(b"a\0\x02"), Err(KeyError::Byte { byte: 2, .. })));
        assert!(matches!(decode::<String>(&[b'a', 0xFF]), Err(KeyError::NotText { valid: 1 })));
        assert!(matches!(decode::<char>(&0xD800u32.to_be_bytes()), Err(KeyError::Range { .. })));
    }
}
