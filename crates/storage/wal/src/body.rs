//! Reading and writing the fields of record bodies: little-endian integers and variable-length integers (LEB128: seven
//! bits a byte, low ones first, the high bit says that another byte follows).

use crate::error::RecordError;

/// The longest variable-length integer: 64 bits in groups of seven.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`, seven bits a byte.
pub fn put_varint(output: &mut Vec<u8>, value: u64) {
    let (bytes, length) = encode_varint(value);
    output.extend_from_slice(&bytes[..length]);
}

/// The bytes of `value` and how many they are.
pub(crate) fn encode_varint(mut value: u64) -> ([u8; VARINT_BYTES_MAX], usize) {
    let mut bytes = [0; VARINT_BYTES_MAX];
    let mut length = 0;
    loop {
        let low = value.to_le_bytes()[0];
        value >>= 7;
        if value == 0 {
            bytes[length] = low & 0x7F;
            return (bytes, length + 1);
        }
        bytes[length] = low | 0x80;
        length += 1;
    }
}

/// Reads the fields of a body one after another; each read is checked against the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyReader<'a> {
    body: &'a [u8],
    offset: usize,
}

impl<'a> BodyReader<'a> {
    /// Starts at the first byte of `body`.
    pub fn new(body: &'a [u8]) -> BodyReader<'a> {
        BodyReader { body, offset: 0 }
    }

    /// Where the next field starts.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.body.len() - self.offset
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Short`, naming `field`, if there are fewer.
    pub fn bytes(&mut self, count: u64, field: &'static str) -> Result<&'a [u8], RecordError> {
        let short = RecordError::Short { field, offset: self.body.len() };
        let Ok(count) = usize::try_from(count) else { return Err(short) };
        let Some(bytes) = self.body[self.offset..].get(..count) else { return Err(short) };
        self.offset += count;
        Ok(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As `bytes`.
    pub fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let bytes = self.bytes(N as u64, field)?;
        Ok(bytes.try_into().expect("as many bytes as asked for"))
    }

    /// The next integer of variable length.
    ///
    /// # Errors
    /// As `bytes`; `Value` if it is in no form that is ever written.
    pub fn varint(&mut self, field: &'static str) -> Result<u64, RecordError> {
        let start = self.offset;
        let mut value = 0_u64;
        for (index, &byte) in self.body[start..].iter().enumerate() {
            let group = u64::from(byte & 0x7F);
            // The tenth byte holds the last of 64 bits; a last byte of zero would be a longer form of a shorter one.
            if index == VARINT_BYTES_MAX - 1 && byte > 1 || index > 0 && byte == 0 {
                return Err(RecordError::Value { field, offset: start });
            }
            value |= group << (7 * index);
            if byte < 0x80 {
                self.offset = start + index + 1;
                return Ok(value);
            }
        }
        Err(RecordError::Short { field, offset: self.body.len() })
    }

    /// The body ends here.
    ///
    /// # Errors
    /// `Trailing` if it does not.
    pub fn finish(&self) -> Result<(), RecordError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(RecordError::Trailing { bytes, offset: self.offset }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers_come_back() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = BodyReader::new(&bytes);
            assert_eq!(reader.varint("value"), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
            for cut in 0..bytes.len() {
                assert!(BodyReader::new(&bytes[..cut]).varint("value").is_err());
            }
        }
    }

    #[test]
    fn forms_that_are_never_written_are_refused() {
        for bytes in
            [&[0x80, 0x00][..], &[0xFF; 11], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]]
        {
            let result = BodyReader::new(bytes).varint("value");
            assert!(matches!(result, Err(RecordError::Value { .. })), "{bytes:?}: {result:?}");
        }
    }
}
