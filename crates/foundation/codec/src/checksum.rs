//! CRC-32C (Castagnoli), the checksum of log records, segment headers and pages, and CRC-64/NVME, that of whole objects
//! of an archive.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of two stretches one after the other, from those of each; `second_bytes` is the length of the second.
///
/// It is its own inverse in the second argument: `combine(first, whole, second_bytes)` is the CRC-32C of the second
/// stretch. Costs a few hundred steps, whatever the lengths. The method is that of zlib's `crc32_combine`: bytes that
/// follow multiply the first checksum, a polynomial over GF(2), by x to the number of their bits.
///
/// ```
/// use seawall_codec::checksum::{combine, crc32c};
/// assert_eq!(combine(crc32c(b"1234"), crc32c(b"56789"), 5), crc32c(b"123456789"));
/// assert_eq!(combine(crc32c(b"1234"), crc32c(b"123456789"), 5), crc32c(b"56789"));
/// ```
pub fn combine(first: u32, second: u32, second_bytes: u64) -> u32 {
    let mut shifted = first;
    let mut bytes = second_bytes;
    for power in &POWERS[3..] {
        if bytes == 0 {
            break;
        }
        if bytes & 1 == 1 {
            shifted = multiply(*power, shifted);
        }
        bytes >>= 1;
    }
    shifted ^ second
}

/// The polynomial of CRC-32C, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// x to the power of 2^n, modulo the polynomial: enough of them for any number of bytes.
const POWERS: [u32; 67] = {
    let mut powers = [1 << 30; 67];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = multiply(powers[index - 1], powers[index - 1]);
        index += 1;
    }
    powers
};

/// Multiplies two polynomials modulo that of CRC-32C.
const fn multiply(left: u32, mut right: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        if left >> bit & 1 == 1 {
            product ^= right;
        }
        right = if right & 1 == 1 { right >> 1 ^ POLYNOMIAL } else { right >> 1 };
    }
    product
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

/// CRC-64/NVME of bytes that come in pieces: one of the checksums that S3 knows.
///
/// ```
/// use seawall_codec::checksum::Crc64;
/// let mut checksum = Crc64::new();
/// checksum.update(b"1234");
/// checksum.update(b"56789");
/// assert_eq!(checksum.finish(), 0xAE8B_1486_0A79_9888);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// The checksum of nothing yet.
    pub fn new() -> Crc64 {
        Crc64(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Crc64 {
        Crc64::new()
    }
}

/// The finalizer of `SplitMix64`, a bijection: numbers that are alike, as the checksums of similar keys are, become unlike.
///
/// On disk, as the sums of a rewind and the filters of runs are made with it.
pub const fn mixed(number: u64) -> u64 {
    let once = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_numbers_are_those_of_splitmix64() {
        // The generator adds the golden ratio to its state and mixes it: its first two numbers from the seed 0.
        const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
        assert_eq!(mixed(GOLDEN_RATIO), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mixed(GOLDEN_RATIO.wrapping_mul(2)), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(mixed(0), 0);
    }

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
    #[test]
    fn checksums_of_two_stretches_combine_and_come_apart() {
        let bytes: Vec<u8> = (0..251_u8).cycle().step_by(11).take(70_000).collect();
        let whole = crc32c(&bytes);
        for cut in [0, 1, 2, 255, 4095, 4096, 40_000, 65_536, 69_999, 70_000] {
            let (first, second) = bytes.split_at(cut);
            let second_bytes = second.len() as u64;
            assert_eq!(combine(crc32c(first), crc32c(second), second_bytes), whole, "cut at {cut}");
            assert_eq!(combine(crc32c(first), whole, second_bytes), crc32c(second), "cut at {cut}");
        }
        // x has the order 2^31 - 1 modulo this polynomial: so many bytes behind a checksum change nothing of it.
        assert_eq!(combine(whole, 0, (1 << 31) - 1), whole);
        assert_eq!(combine(whole, 0, ((1 << 31) - 1) << 33), whole);
    }
}
