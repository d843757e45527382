//! Text, byte strings and UUIDs.
//!
//! In the middle of a key a string of any length must end itself, and a string must sort before its extensions
//! whatever follows it. So 00 is written as 00 FF and the end as 00 01: at the first difference the shorter string
//! shows 00 01, which is below 00 FF and below every other byte.

use uuid::Uuid;

use super::{AsKey, Key, KeyError, take};

const ESCAPE: u8 = 0;
pub(crate) const ESCAPED_ZERO: u8 = 0xFF;
pub(crate) const END: u8 = 1;

pub(crate) fn encode_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    for (index, run) in bytes.split(|byte| *byte == ESCAPE).enumerate() {
        if index > 0 {
            out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        }
        out.extend_from_slice(run);
    }
    out.extend_from_slice(&[ESCAPE, END]);
}

fn decode_escaped(input: &mut &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut bytes = Vec::new();
    let mut rest = *input;
    loop {
        let zero = rest.iter().position(|byte| *byte == ESCAPE).ok_or(KeyError::Unended)?;
        bytes.extend_from_slice(&rest[..zero]);
        match rest.get(zero + 1) {
            Some(&END) => {
                *input = &rest[zero + 2..];
                return Ok(bytes);
            }
            Some(&ESCAPED_ZERO) => bytes.push(0),
            Some(&byte) => return Err(KeyError::Byte { what: "an escaped string", byte }),
            None => return Err(KeyError::Unended),
        }
        rest = &rest[zero + 2..];
    }
}

fn text(bytes: Vec<u8>) -> Result<String, KeyError> {
    String::from_utf8(bytes).map_err(|error| KeyError::NotText { valid: error.utf8_error().valid_up_to() })
}

impl Key for String {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_escaped(self.as_bytes(), out);
    }

    fn decode(input: &mut &[u8]) -> Result<String, KeyError> {
        text(decode_escaped(input)?)
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode_last(input: &[u8]) -> Result<String, KeyError> {
        text(input.to_vec())
    }
}

impl Key for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_escaped(self, out);
    }

    fn decode(input: &mut &[u8]) -> Result<Vec<u8>, KeyError> {
        decode_escaped(input)
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode_last(input: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(input.to_vec())
    }
}

impl<const N: usize> Key for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(input: &mut &[u8]) -> Result<[u8; N], KeyError> {
        take(input, "a byte array")
    }
}

impl Key for Uuid {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(input: &mut &[u8]) -> Result<Uuid, KeyError> {
        Ok(Uuid::from_bytes(take(input, "Uuid")?))
    }
}

impl AsKey<String> for &str {
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl AsKey<Vec<u8>> for &[u8] {
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> AsKey<Vec<u8>> for &[u8; N] {
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(*self);
    }
}
