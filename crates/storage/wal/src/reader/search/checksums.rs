//! CRC-32C of prefixes of a stretch of the log. Those of two prefixes give that of the bytes between them.
//!
//! ```text
//!   stream   base.......|.......|....x..|.......|
//!   marks    0          1       2       3            checksum of base..mark, one for each block passed so far
//!                               |--->|               cursor: goes on from the last question, or starts at a mark
//! ```
//! Questions in ascending order cost one reading of the stream; any other costs a block more.

use seawall_codec::checksum::{Crc32c, combine, crc32c};

use super::SearchedBytes;
use crate::error::LogReadError;
use crate::geometry::StreamPosition;

const BLOCK_BYTES: usize = 4096;

pub(super) struct PrefixChecksums {
    base: StreamPosition,
    /// The checksum of everything before each block, as far as was read.
    marks: Vec<u32>,
    /// The block that the cursor is in, as far as the stream has it.
    block: Vec<u8>,
    block_index: Option<usize>,
    /// The checksum of the block's first `cursor_offset` bytes.
    cursor: Crc32c,
    cursor_offset: usize,
    /// The work that was done.
    pub(super) checksummed_bytes: u64,
}

impl PrefixChecksums {
    /// Prefixes start at `base`.
    pub(super) fn from(base: StreamPosition) -> PrefixChecksums {
        PrefixChecksums {
            base,
            marks: vec![crc32c(&[])],
            block: Vec::with_capacity(BLOCK_BYTES),
            block_index: None,
            cursor: Crc32c::new(),
            cursor_offset: 0,
            checksummed_bytes: 0,
        }
    }

    /// From now on prefixes start at `base`.
    pub(super) fn restart(&mut self, base: StreamPosition) {
        let checksummed_bytes = self.checksummed_bytes;
        *self = PrefixChecksums { checksummed_bytes, ..PrefixChecksums::from(base) };
    }

    /// The checksum of everything from the base to `position`; `None` if the stream has a gap before.
    ///
    /// # Panics
    /// If `position` lies before the base.
    pub(super) fn up_to(
        &mut self,
        bytes: &mut dyn SearchedBytes,
        position: StreamPosition,
    ) -> Result<Option<u32>, LogReadError> {
        assert!(position >= self.base, "{position:?} lies before {:?}", self.base);
        let bytes_before = position.0 - self.base.0;
        let index = usize::try_from(bytes_before / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        let offset =
            usize::try_from(bytes_before % BLOCK_BYTES as u64).expect("an offset in a block is small");
        while self.marks.len() <= index {
            let last = self.marks.len() - 1;
            if !self.enter(bytes, last)? || self.block.len() < BLOCK_BYTES {
                return Ok(None);
            }
            let mark = self.advance(BLOCK_BYTES);
            self.marks.push(mark);
        }
        if offset == 0 {
            return Ok(Some(self.marks[index]));
        }
        if !self.enter(bytes, index)? || self.block.len() < offset {
            return Ok(None);
        }
        Ok(Some(self.advance(offset)))
    }

    /// Reads the block with this index, whose mark is known, unless it is at hand; `false` if there is nothing.
    fn enter(&mut self, bytes: &mut dyn SearchedBytes, index: usize) -> Result<bool, LogReadError> {
        if self.block_index != Some(index) {
            let start = StreamPosition(self.base.0 + index as u64 * BLOCK_BYTES as u64);
            self.block_index = None;
            self.block.resize(BLOCK_BYTES, 0);
            let read = bytes.read_anyhow(start, &mut self.block)?;
            self.block.truncate(read);
            self.block_index = Some(index);
            (self.cursor, self.cursor_offset) = (Crc32c::new(), 0);
        }
        Ok(!self.block.is_empty())
    }

    /// The checksum up to `offset` of the block at hand.
    fn advance(&mut self, offset: usize) -> u32 {
        if offset < self.cursor_offset {
            (self.cursor, self.cursor_offset) = (Crc32c::new(), 0);
        }
        self.cursor.update(&self.block[self.cursor_offset..offset]);
        self.checksummed_bytes += (offset - self.cursor_offset) as u64;
        self.cursor_offset = offset;
        let index = self.block_index.expect("the caller has entered a block");
        combine(self.marks[index], self.cursor.finish(), offset as u64)
    }
}
