//! Little-endian integers at fixed places of a header, for decoders that know its length already.
//!
//! # Panics
//!
//! Each function panics if the bytes end before the integer does: a decoder checks lengths first.

/// The `N` bytes at `offset`.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("the range has the length of the array")
}

/// The integer of two bytes at `offset`.
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

/// The integer of four bytes at `offset`.
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// The integer of eight bytes at `offset`.
#[inline]
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_where_they_were_written() {
        let bytes = [9, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(array_at(&bytes, 1), [1, 2, 3]);
        assert_eq!(u16_at(&bytes, 1), 0x0201);
        assert_eq!(u32_at(&bytes, 2), 0x0504_0302);
        assert_eq!(u64_at(&bytes, 2), 0x0908_0706_0504_0302);
    }

    #[test]
    #[should_panic(expected = "range end")]
    fn bytes_that_end_too_early_are_a_mistake_of_the_decoder() {
        u64_at(&[0; 8], 1);
    }
}
