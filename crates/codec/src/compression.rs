//! Compression of blocks whose length the reader knows: page images in the recovery file.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

/// How a block is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Stored as it is.
    #[default]
    None,
    /// LZ4 block format: fast, about 2:1 on ordinary pages.
    Lz4,
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
    #[error("a block of {bytes} bytes is no valid LZ4: {reason}")]
    Malformed {
        /// Compressed length.
        bytes: usize,
        /// What the decoder says.
        reason: String,
    },
}

impl Compression {
    /// The number that stands for it in files.
    pub const fn code(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 1,
        }
    }

    /// What a number in a file stands for.
    pub const fn from_code(code: u8) -> Option<Compression> {
        match code {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            _ => None,
        }
    }

    /// Appends `input`, compressed, to `output`; returns how many bytes that are. May come out longer than `input`.
    pub fn compress(self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let start = output.len();
        match self {
            Compression::None => output.extend_from_slice(input),
            Compression::Lz4 => {
                output.resize(start + get_maximum_output_size(input.len()), 0);
                let bytes = compress_into(input, &mut output[start..])
                    .expect("the output has the room that any input of this length needs");
                output.truncate(start + bytes);
            }
        }
        output.len() - start
    }

    /// Fills `output`, whose length is that of the original, from `input`. Never writes more than that.
    ///
    /// # Errors
    /// [`DecompressError`] if the block is damaged; what `output` then holds is of no use.
    pub fn decompress(self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let expected = output.len();
        let found = match self {
            Compression::None => {
                if input.len() == expected {
                    output.copy_from_slice(input);
                }
                input.len()
            }
            Compression::Lz4 => decompress_into(input, output).map_err(|error| {
                DecompressError::Malformed { bytes: input.len(), reason: error.to_string() }
            })?,
        };
        if found != expected {
            return Err(DecompressError::Length { compression: self, found, expected });
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
        for compression in [Compression::None, Compression::Lz4] {
            for input in [Vec::new(), vec![1], page(), vec![9; 100_000]] {
                let mut output = vec![0xEE; 3];
                let bytes = compression.compress(&input, &mut output);
                assert_eq!(output.len(), 3 + bytes);
                let mut back = vec![0; input.len()];
                compression.decompress(&output[3..], &mut back).unwrap();
                assert_eq!(back, input);
            }
            assert_eq!(Compression::from_code(compression.code()), Some(compression));
        }
        assert_eq!(Compression::from_code(2), None);
    }

    #[test]
    fn a_damaged_block_is_refused_or_keeps_its_length() {
        let input = page();
        let mut packed = Vec::new();
        Compression::Lz4.compress(&input, &mut packed);
        let mut output = vec![0; input.len()];
        for cut in 0..packed.len() {
            assert!(Compression::Lz4.decompress(&packed[..cut], &mut output).is_err(), "cut at {cut}");
        }
        for position in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[position] ^= 0x55;
            // Either an error or other bytes of the same length; a checksum tells the latter. Never a panic.
            if let Err(error) = Compression::Lz4.decompress(&damaged, &mut output) {
                assert!(!error.to_string().is_empty());
            }
        }
        assert!(Compression::Lz4.decompress(&packed, &mut vec![0; input.len() - 1]).is_err());
        assert!(Compression::Lz4.decompress(&packed, &mut vec![0; input.len() + 1]).is_err());
        assert!(Compression::None.decompress(&packed, &mut output).is_err());
    }
}
