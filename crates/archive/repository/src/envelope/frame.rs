//! One frame of an object: a stretch of its content. Integers little-endian.
//!
//! | offset | bytes | field        | meaning                                                                   |
//! |-------:|------:|--------------|---------------------------------------------------------------------------|
//! |      0 |     4 | plain_bytes  | length of the stretch: the header's frame_bytes, in the last frame what is left |
//! |      4 |     4 | stored       | bits 0..31: length of what follows this header; bit 31: it is not compressed, since that made it no shorter |
//! |      8 |     4 | checksum     | CRC-32C of the frame's number (8 bytes), bytes 0..8, and what follows this header |
//! |     12 |       | stretch      | compressed on its own, then encrypted                                     |
//! |        |    16 | tag          | in an encrypted object only, counted in stored; bytes 0..8 are the associated data |
//!
//! An encrypted frame's nonce is its number and whether it is the last one: the key is that of this object only.

use seawall_codec::checksum::Crc32c;
use seawall_codec::encryption::TAG_BYTES;

/// Length of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 12;
/// What a frame may be longer than its plain bytes.
pub(crate) const AROUND_BYTES_MAX: u64 = (FRAME_HEADER_BYTES + TAG_BYTES) as u64;

const FLAG_NOT_COMPRESSED: u32 = 1 << 31;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) plain_bytes: u32,
    /// Of what follows the header.
    pub(crate) stored_bytes: u32,
    pub(crate) is_compressed: bool,
    pub(crate) checksum: u32,
}

impl FrameHeader {
    /// The bytes that checksum and tag cover.
    pub(crate) fn covered(&self) -> [u8; 8] {
        let flag = if self.is_compressed { 0 } else { FLAG_NOT_COMPRESSED };
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.plain_bytes.to_le_bytes());
        bytes[4..].copy_from_slice(&(self.stored_bytes | flag).to_le_bytes());
        bytes
    }

    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.covered());
        bytes[8..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let word = |offset: usize| {
            u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four of twelve bytes"))
        };
        FrameHeader {
            plain_bytes: word(0),
            stored_bytes: word(4) & !FLAG_NOT_COMPRESSED,
            is_compressed: word(4) & FLAG_NOT_COMPRESSED == 0,
            checksum: word(8),
        }
    }

    /// The checksum of the frame with this header, the number `index` and these bytes.
    pub(crate) fn checksum_of(&self, index: u32, stored: &[u8]) -> u32 {
        let mut checksum = Crc32c::new();
        checksum.update(&u64::from(index).to_le_bytes());
        checksum.update(&self.covered());
        checksum.update(stored);
        checksum.finish()
    }
}
