//! Compression of blocks whose length the reader knows: page images.

use std::fmt;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

/// Faster than higher levels by far, and nearly as small on pages of a few KiB.
const ZSTD_LEVEL: i32 = 1;

/// How a block is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Stored as it is.
    #[default]
    None,
    /// LZ4 block format: fast, about 2:1 on ordinary pages.
    Lz4,
    /// Zstandard frame, level 1: smaller than LZ4, at a third of its speed.
    Zstd,
    /// Snappy block format: about as small as LZ4.
    Snappy,
}

/// A compressed block does not give the bytes that it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The block ends early, or holds more than expected.
    #[error("a block compressed with {compression:?} gives {found} bytes instead of {expected}")]
    Length {
        /// How it is compressed.
        compression: Compression,
        /// Bytes that came out.
        found: usize,
        /// Bytes that should have.
        expected: usize,
    },
    /// The block is not what a compressor writes.
    #[error("a block of {bytes} bytes is not valid {compression:?}: {reason}")]
    Malformed {
        /// How it should be compressed.
        compression: Compression,
        /// Compressed length.
        bytes: usize,
        /// What the decoder says.
        reason: String,
    },
}

impl Compression {
    /// Every one.
    pub const ALL: [Compression; 4] =
        [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Snappy];

    /// The number that stands for it in files.
    pub const fn code(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Zstd => 2,
            Compression::Snappy => 3,
        }
    }

    /// What a number in a file stands for.
    pub const fn from_code(code: u8) -> Option<Compression> {
        match code {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            3 => Some(Compression::Snappy),
            _ => None,
        }
    }
}

/// Compresses one block after another. It keeps what a compressor needs between two blocks, tables of some 100 KiB, so
/// make one for many blocks.
pub struct Compressor(Encoder);

enum Encoder {
    None,
    Lz4,
    Zstd(zstd::bulk::Compressor<'static>),
    Snappy(Box<snap::raw::Encoder>),
}

/// Decompresses one block after another, however each is compressed.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    snappy: snap::raw::Decoder,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Compressor({:?})", self.compression())
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Decompressor")
    }
}

impl Compressor {
    /// One for blocks to be compressed so.
    pub fn new(compression: Compression) -> Compressor {
        Compressor::with_zstd_level(compression, ZSTD_LEVEL)
    }

    /// As `new`, with a level of Zstandard, where it is that; the library takes one out of its range for the nearest.
    pub fn with_zstd_level(compression: Compression, level: i32) -> Compressor {
        Compressor(match compression {
            Compression::None => Encoder::None,
            Compression::Lz4 => Encoder::Lz4,
            Compression::Zstd => Encoder::Zstd(zstd_encoder(level)),
            Compression::Snappy => Encoder::Snappy(Box::new(snap::raw::Encoder::new())),
        })
    }

    /// How it compresses.
    pub fn compression(&self) -> Compression {
        match &self.0 {
            Encoder::None => Compression::None,
            Encoder::Lz4 => Compression::Lz4,
            Encoder::Zstd(_) => Compression::Zstd,
            Encoder::Snappy(_) => Compression::Snappy,
        }
    }

    /// Appends `input`, compressed, to `output`; returns how many bytes that are. May come out longer than `input`.
    ///
    /// # Panics
    /// If `input` has 4 GiB or more.
    pub fn compress(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let start = output.len();
        output.resize(start + self.room_for(input.len()), 0);
        let bytes = self.compress_into(input, &mut output[start..]);
        output.truncate(start + bytes);
        bytes
    }

    /// The longest that so many bytes may come out.
    pub fn room_for(&self, bytes: usize) -> usize {
        match &self.0 {
            Encoder::None => bytes,
            Encoder::Lz4 => get_maximum_output_size(bytes),
            Encoder::Zstd(_) => zstd::zstd_safe::compress_bound(bytes),
            Encoder::Snappy(_) => snap::raw::max_compress_len(bytes),
        }
    }

    /// Puts `input`, compressed, at the start of `output`; returns how many bytes that are. Who compresses many blocks into the
    /// same room need not fill it with zeros each time.
    ///
    /// # Panics
    /// If `output` is shorter than [`Compressor::room_for`] says, or `input` has 4 GiB or more.
    pub fn compress_into(&mut self, input: &[u8], output: &mut [u8]) -> usize {
        const HAS_ROOM: &str = "the output has the room that any input of this length needs";
        assert!(output.len() >= self.room_for(input.len()), "{HAS_ROOM}");
        match &mut self.0 {
            Encoder::None => {
                output[..input.len()].copy_from_slice(input);
                input.len()
            }
            Encoder::Lz4 => compress_into(input, output).expect(HAS_ROOM),
            Encoder::Zstd(encoder) => encoder.compress_to_buffer(input, output).expect(HAS_ROOM),
            Encoder::Snappy(encoder) => encoder.compress(input, output).expect(HAS_ROOM),
        }
    }
}

/// The reader knows the length and has a checksum of its own: none of them is stored.
fn zstd_encoder(level: i32) -> zstd::bulk::Compressor<'static> {
    const KNOWN: &str = "the library takes its own parameters";
    let mut encoder = zstd::bulk::Compressor::new(level).expect(KNOWN);
    encoder.include_contentsize(false).expect(KNOWN);
    encoder.include_checksum(false).expect(KNOWN);
    encoder.include_dictid(false).expect(KNOWN);
    encoder
}

impl Decompressor {
    /// One for blocks of any kind.
    pub fn new() -> Decompressor {
        Decompressor::default()
    }

    /// Fills `output`, whose length is that of the original, from `input`. Never writes more than that, and allocates
    /// nothing that the block asks for.
    ///
    /// # Errors
    /// [`DecompressError`] if the block is damaged; what `output` then holds is of no use.
    pub fn decompress(
        &mut self,
        compression: Compression,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), DecompressError> {
        let expected = output.len();
        let malformed =
            |reason: String| DecompressError::Malformed { compression, bytes: input.len(), reason };
        let found = match compression {
            Compression::None => {
                if input.len() == expected {
                    output.copy_from_slice(input);
                }
                input.len()
            }
            Compression::Lz4 => {
                decompress_into(input, output).map_err(|error| malformed(error.to_string()))?
            }
            Compression::Zstd => {
                let decoder = match &mut self.zstd {
                    Some(decoder) => decoder,
                    none => none.insert(
                        zstd::bulk::Decompressor::new().map_err(|error| malformed(error.to_string()))?,
                    ),
                };
                let done = decoder.decompress_to_buffer(input, output);
                done.map_err(|error| malformed(error.to_string()))?
            }
            Compression::Snappy => {
                let said = snap::raw::decompress_len(input).map_err(|error| malformed(error.to_string()))?;
                if said == expected {
                    let done = self.snappy.decompress(input, output);
                    done.map_err(|error| malformed(error.to_string()))?;
                }
                said
            }
        };
        if found != expected {
            return Err(DecompressError::Length { compression, found, expected });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u8> {
        (0..128_u8).flat_map(|byte| [byte, 0, 0].into_iter().cycle().take(64)).collect()
    }

    #[test]
    fn a_block_comes_back() {
        let mut decompressor = Decompressor::new();
        for compression in Compression::ALL {
            let mut compressor = Compressor::new(compression);
            assert_eq!(compressor.compression(), compression);
            for input in [Vec::new(), vec![1], page(), vec![9; 100_000]] {
                let mut output = vec![0xEE; 3];
                let bytes = compressor.compress(&input, &mut output);
                assert_eq!(output.len(), 3 + bytes);
                let mut room = vec![0x77; compressor.room_for(input.len()) + 1];
                assert_eq!(compressor.compress_into(&input, &mut room), bytes);
                assert_eq!((&room[..bytes], room.last()), (&output[3..], Some(&0x77)));
                assert!(compression == Compression::None || input.len() < 1000 || bytes < input.len() / 2);
                let mut back = vec![0; input.len()];
                decompressor.decompress(compression, &output[3..], &mut back).unwrap();
                assert_eq!(back, input);
            }
            assert_eq!(Compression::from_code(compression.code()), Some(compression));
        }
        assert_eq!(Compression::from_code(4), None);
    }

    #[test]
    fn a_damaged_block_is_refused_or_keeps_its_length() {
        let input = page();
        let mut decompressor = Decompressor::new();
        let mut output = vec![0; input.len()];
        for compression in Compression::ALL {
            let mut packed = Vec::new();
            Compressor::new(compression).compress(&input, &mut packed);
            for cut in 0..packed.len() {
                let refused = decompressor.decompress(compression, &packed[..cut], &mut output);
                assert!(refused.is_err(), "{compression:?} cut at {cut}");
            }
            for position in 0..packed.len() {
                let mut damaged = packed.clone();
                damaged[position] ^= 0x55;
                // Either an error or other bytes of the same length; a checksum tells the latter. Never a panic.
                if let Err(error) = decompressor.decompress(compression, &damaged, &mut output) {
                    assert!(!error.to_string().is_empty());
                }
            }
            for length in [input.len() - 1, input.len() + 1] {
                let refused = decompressor.decompress(compression, &packed, &mut vec![0; length]);
                assert!(refused.is_err(), "{compression:?}, {length} bytes expected");
            }
            // And it works as before.
            decompressor.decompress(compression, &packed, &mut output).unwrap();
            assert_eq!(output, input);
        }
    }
}
