//! CRC-32C (Castagnoli), the checksum of log records, segment headers and pages.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of bytes that come in pieces: the same number as [`crc32c`] of all of them.
///
/// ```
/// use seawall_codec::checksum::{Crc32c, crc32c};
/// let mut checksum = Crc32c::new();
/// checksum.update(b"1234");
/// checksum.update(b"56789");
/// assert_eq!(checksum.finish(), crc32c(b"123456789"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// The checksum of nothing yet.
    pub fn new() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a 32-bit checksum fits into 32 bits")
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums() {
        // The check value of the CRC catalogue, and three of RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46DD_794E);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..251_u8).cycle().step_by(7).take(10_000).collect();
        for cut in [0, 1, 15, 16, 17, 255, 256, 257, 4096, 9_999, 10_000] {
            let mut checksum = Crc32c::new();
            checksum.update(&bytes[..cut]);
            checksum.update(&bytes[cut..]);
            assert_eq!(checksum.finish(), crc32c(&bytes), "cut at {cut}");
        }
    }
}
