//! Telling damage from a torn tail: is there a record behind `x`, where none verifies, that says that `x` was durable?
//!
//! ```text
//!         durable when batch 9 was written          batch 9
//!   ...[rec][rec][rec]x???????????????????[rec][rec]|[rec][rec]     batch 9 starts after x: damage
//!   ...[rec][rec][rec]|x??????[rec][rec]                            all of x's own batch: a torn tail
//!                     ^ batch 9
//! ```
//! Every byte behind `x` may start a record. Cheap tests come first: kind, flags, and a batch that starts behind `x`,
//! which random bytes pass once in millions; then the checksum. Records of another life of a recycled segment fail them,
//! too, since their distances are masked for another LSN.

use seawall_codec::checksum::Crc32c;
use seawall_types::Lsn;

use super::bytes::LogBytes;
use crate::error::LogReadError;
use crate::geometry::{LogGeometry, StreamPosition};
use crate::record::{LogKey, RECORD_HEADER_BYTES, RecordHeader};

const WINDOW_BYTES: usize = 1 << 20;
/// Zeros are passed over in steps of this.
const ZERO_RUN_BYTES: usize = 64;

/// A valid record behind `lsn` whose batch started behind `lsn`, or which lies in a segment whose header is damaged
/// (a header is durable before the first record is written): the log was durable at `lsn`.
pub(super) fn evidence_after(
    bytes: &mut LogBytes,
    key: LogKey,
    lsn: Lsn,
) -> Result<Option<Lsn>, LogReadError> {
    let geometry = bytes.geometry();
    let first = geometry.segment_of(lsn);
    let mut numbers = bytes.numbers_from(first)?.into_iter().peekable();
    while let Some(start) = numbers.next() {
        let mut last = start;
        while let Some(next) = numbers.next_if_eq(&(last + 1)) {
            last = next;
        }
        let from = if start == first {
            StreamPosition(geometry.stream_position(lsn).0 + 1)
        } else {
            geometry.stream_position(geometry.first_record_of(start))
        };
        let to = geometry.stream_position(geometry.first_record_of(last + 1));
        let mut search = Search { bytes, key, geometry, lsn, to };
        if let Some(evidence) = search.run(from)? {
            return Ok(Some(evidence));
        }
    }
    Ok(None)
}

/// A search through consecutive segments up to `to`.
struct Search<'a> {
    bytes: &'a mut LogBytes,
    key: LogKey,
    geometry: LogGeometry,
    lsn: Lsn,
    to: StreamPosition,
}

impl Search<'_> {
    fn run(&mut self, from: StreamPosition) -> Result<Option<Lsn>, LogReadError> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut start = from;
        while start < self.to {
            let left = usize::try_from(self.to.0 - start.0).unwrap_or(usize::MAX);
            let bytes = left.min(window.len());
            let read = self.bytes.read_anyhow(start, &mut window[..bytes])?;
            if read < RECORD_HEADER_BYTES {
                start = self.next_segment(start);
                continue;
            }
            if let Some(evidence) = self.search_window(&window[..read], start)? {
                return Ok(Some(evidence));
            }
            // The last bytes may start a header that goes on in the next window.
            let step = if read == left { left } else { read - (RECORD_HEADER_BYTES - 1) };
            start = StreamPosition(start.0 + step as u64);
        }
        Ok(None)
    }

    /// A file too short ends the stream; it goes on in the next one.
    fn next_segment(&self, position: StreamPosition) -> StreamPosition {
        let (number, _) = self.geometry.file_position(position);
        self.geometry.stream_position(self.geometry.first_record_of(number + 1))
    }

    fn search_window(&mut self, window: &[u8], start: StreamPosition) -> Result<Option<Lsn>, LogReadError> {
        let candidates = window.len().saturating_sub(RECORD_HEADER_BYTES - 1);
        let mut index = 0;
        while index < candidates {
            let header = &window[index..index + RECORD_HEADER_BYTES];
            // Zero is no kind: where there are zeros, the next headers are none.
            if header[12] == 0 && window[index + 12..].starts_with(&[0; ZERO_RUN_BYTES]) {
                index += ZERO_RUN_BYTES;
                continue;
            }
            if header[13] == 0 && header[12].wrapping_sub(1) < 8 {
                let position = StreamPosition(start.0 + index as u64);
                if let Some(lsn) = self.check(header, &window[index..], position)? {
                    return Ok(Some(lsn));
                }
            }
            index += 1;
        }
        Ok(None)
    }

    /// The position's LSN if a record verifies there and is evidence. `bytes` is what the window has of it.
    fn check(
        &mut self,
        header: &[u8],
        bytes: &[u8],
        position: StreamPosition,
    ) -> Result<Option<Lsn>, LogReadError> {
        let lsn = self.geometry.lsn_at(position);
        let masks = self.key.masks(lsn);
        let Some(header) = RecordHeader::decode(header, masks) else { return Ok(None) };
        let Some(batch_start) = header.batch_start(lsn) else { return Ok(None) };
        if position.0 + u64::from(header.length) > self.to.0 {
            return Ok(None);
        }
        let number = self.geometry.segment_of(lsn);
        if batch_start <= self.lsn && self.bytes.has_valid_header(number)? {
            return Ok(None);
        }
        let Some(computed) = self.checksum(header.length, bytes, position)? else { return Ok(None) };
        Ok(header.verifies(computed, masks).then_some(lsn))
    }

    /// CRC-32C of the bytes 12.. of a record of `length` bytes; `None` if there are fewer.
    fn checksum(
        &mut self,
        length: u32,
        bytes: &[u8],
        position: StreamPosition,
    ) -> Result<Option<u32>, LogReadError> {
        let length = usize::try_from(length).expect("a record has at most 1 GiB");
        let at_hand = bytes.len().min(length);
        let mut checksum = Crc32c::new();
        checksum.update(&bytes[12..at_hand]);
        let mut piece = Vec::new();
        let mut done = at_hand;
        while done < length {
            piece.resize((length - done).min(WINDOW_BYTES), 0);
            let read = self.bytes.read_anyhow(StreamPosition(position.0 + done as u64), &mut piece)?;
            if read == 0 {
                return Ok(None);
            }
            checksum.update(&piece[..read]);
            done += read;
        }
        Ok(Some(checksum.finish()))
    }
}
