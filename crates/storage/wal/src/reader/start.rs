//! Where a record starts, for who starts in the middle of the log: at the beginning of a segment, or where a hold is, either of
//! which may be the middle of a record. That begins in a segment that may be gone.
//!
//! ```text
//!      position                     found
//!   ------|-- rest of a record --|--[rec][rec]       nothing is skipped that could be read
//!   ------|X[damaged record]X]------[rec][rec]       something is, and it shows:
//!         |<----- length ------>|                    the first bytes say that a record ends where the next one begins,
//!         |  X X X X |b X X X X X|                   a batch, so a record, starts at b: the one that was found says so,
//!         |  0 0 0 0 0 0 0 0 0 0|0 0 0 0             or there is nothing but zeros up to the end of a segment
//! ```
//! Damage that leaves none of these, at the very beginning of the oldest log there is, is taken for the rest of a record.

use seawall_codec::checksum::Crc32c;
use seawall_types::Lsn;

use super::{LogReader, search};
use crate::error::LogReadError;
use crate::geometry::StreamPosition;
use crate::record::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, STAMP_BYTES};

/// What is read at once.
const PIECE_BYTES: usize = 64 << 10;

impl LogReader {
    /// Where the first record at or behind the position starts that can be read, on the timeline that the position is on, or
    /// where that was left. `None` if there is none. For who starts in the middle of the log, at the beginning of a segment,
    /// which may be the middle of a record. Reads no further than needed.
    ///
    /// # Errors
    /// As `next`.
    pub fn find_record(&mut self) -> Result<Option<Lsn>, LogReadError> {
        if self.verified_record()?.is_some() {
            return Ok(Some(self.position));
        }
        let found = search::record_after(&mut self.bytes, self.key, self.position)?;
        let known_end = self.known_end();
        Ok(found.filter(|found| known_end.is_none_or(|end| *found < end)).or(self.fork))
    }

    /// As `find_record`, and does not pass over one of which it shows that it is damaged: then it is where that is.
    /// The limit must be set, and the log begun up to there.
    ///
    /// # Errors
    /// As `next`.
    pub fn find_start(&mut self) -> Result<Option<Lsn>, LogReadError> {
        let found = self.find_record()?;
        let known_end = self.known_end();
        let next = found.into_iter().chain(known_end).min();
        let Some(next) = next.filter(|next| *next > self.position) else { return Ok(found) };
        if self.was_record(next)? {
            return Ok(Some(self.position));
        }
        if let Some(blank) = self.find_blank(next)? {
            return Ok(Some(blank));
        }
        if known_end == Some(next) {
            return Ok(found);
        }
        let batch_start = self.batch_start_of(next)?;
        let is_skipped = |start: &Lsn| *start > self.position && self.geometry.is_normal(*start);
        Ok(batch_start.filter(is_skipped).or(found))
    }

    /// Where the batch started of the record at `lsn`, which verifies.
    fn batch_start_of(&mut self, lsn: Lsn) -> Result<Option<Lsn>, LogReadError> {
        let bytes = self.header_bytes(lsn)?;
        let header = bytes.and_then(|bytes| RecordHeader::decode(&bytes, self.key.masks(lsn)));
        Ok(header.and_then(|header| header.batch_start(lsn)))
    }

    /// Whether all from the position to `next` was one record: its length or its checksum still says so.
    fn was_record(&mut self, next: Lsn) -> Result<bool, LogReadError> {
        let bytes = self.geometry.payload_between(self.position, next);
        if !(RECORD_HEADER_BYTES as u64..=RECORD_BYTES_MAX).contains(&bytes) {
            return Ok(false);
        }
        let Some(mut header) = self.header_bytes(self.position)? else { return Ok(false) };
        let length = u32::try_from(bytes).expect("a record has at most 1 GiB").to_le_bytes();
        if header.starts_with(&length) {
            return Ok(true);
        }
        header[..4].copy_from_slice(&length);
        let masks = self.key.masks(self.position);
        let Some(header) = RecordHeader::decode(&header, masks) else { return Ok(false) };
        let mut checksum = Crc32c::new();
        let from = StreamPosition(self.stream.0 + STAMP_BYTES as u64);
        let is_whole = self.visit(from, bytes - STAMP_BYTES as u64, &mut |piece| {
            checksum.update(piece);
            true
        })?;
        Ok(is_whole && header.verifies(checksum.finish(), masks))
    }

    /// The first place between the position and `next` from which on there are only zeros up to the end of a segment: from the
    /// position, or from the beginning of a segment on.
    fn find_blank(&mut self, next: Lsn) -> Result<Option<Lsn>, LogReadError> {
        let mut start = self.position;
        while self.geometry.segment_of(start) < self.geometry.segment_of(next) {
            let end = self.geometry.first_record_of(self.geometry.segment_of(start) + 1);
            let bytes = self.geometry.payload_between(start, end);
            let from = self.geometry.stream_position(start);
            if self.visit(from, bytes, &mut |piece| piece.iter().all(|byte| *byte == 0))? {
                return Ok(Some(start));
            }
            start = end;
        }
        Ok(None)
    }

    fn header_bytes(&mut self, lsn: Lsn) -> Result<Option<[u8; RECORD_HEADER_BYTES]>, LogReadError> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let read = self.bytes.read_anyhow(self.geometry.stream_position(lsn), &mut bytes)?;
        Ok((read == bytes.len()).then_some(bytes))
    }

    /// Shows `bytes` bytes of the stream, a piece at a time; whether all were there and `go_on` said so of each.
    fn visit(
        &mut self,
        from: StreamPosition,
        bytes: u64,
        go_on: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, LogReadError> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut done = 0;
        while done < bytes {
            let length = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let piece = &mut buffer[..length];
            if self.bytes.read_anyhow(StreamPosition(from.0 + done), piece)? < length || !go_on(piece) {
                return Ok(false);
            }
            done += length as u64;
        }
        Ok(true)
    }
}
