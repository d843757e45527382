//! Telling damage from a torn tail: is there a record behind `x`, where none verifies, that says that `x` was durable?
//!
//! ```text
//!         durable when batch 9 was written          batch 9
//!   ...[rec][rec][rec]x???????????????????[rec][rec]|[rec][rec]     batch 9 starts after x: damage
//!   ...[rec][rec][rec]|x??????[rec][rec]                            all of x's own batch: a torn tail
//!                     ^ batch 9
//! ```
//! Every byte behind `x` may start a record. Cheap tests come first: kind, flags, and a batch that starts behind `x`,
//! which random bytes pass once in millions; then the checksum.
//!
//! **Old bytes of a recycled segment** are no evidence. Segments that the log has not begun to write are not even read, so
//! opening costs the same however many spares there are. In one that it has begun, each old byte has one chance in 2^32 to
//! pass for a record by its checksum. So a record counts by itself only if it is the first of its batch, at a distance of
//! zero, which is one chance in 2^32 more; or if it lies within 64 KiB behind `x`, where few old bytes can claim so short a
//! distance. Any other record counts if a second one says the same about its batch.
//!
//! Bytes that were made to pass the cheap tests, each claiming a record as long as the rest of the log, cost no more
//! than a few readings of it: checksums of stretches are differences of those of prefixes (`checksums`), asked for in
//! the order of their ends, a window of candidates at a time.

mod checksums;

use std::ops::Range;

use seawall_codec::checksum::combine;
use seawall_types::Lsn;

use super::bytes::LogBytes;
use crate::error::LogReadError;
use crate::geometry::{HEADER_BYTES, LogGeometry, StreamPosition};
use crate::record::{FLAG_ENCRYPTED, LogKey, RECORD_HEADER_BYTES, RecordHeader, RecordKind, STAMP_BYTES};
use crate::sabotage::{Defect, sabotaged};

use checksums::PrefixChecksums;

const WINDOW_BYTES: usize = 1 << 20;
/// So near behind the end any record counts.
const NEAR_BYTES: u64 = 64 << 10;
/// So many segments in a row that were not begun say that the log has not come further. One alone may have lost its mark.
const NOT_BEGUN_MAX: usize = 2;
/// Zeros are passed over in steps of this.
const ZERO_RUN_BYTES: usize = 64;
/// The first byte of a record that its checksum covers.
const CHECKSUMMED_FROM: u64 = STAMP_BYTES as u64;

/// Where the bytes come from that are searched.
pub(crate) trait SearchedBytes {
    /// Fills `buffer` with the stream from `position` on; fewer bytes only where there is a gap.
    fn read_anyhow(&mut self, position: StreamPosition, buffer: &mut [u8]) -> Result<usize, LogReadError>;

    /// Whether the header page of a segment is valid.
    fn has_valid_header(&mut self, number: u64) -> Result<bool, LogReadError>;
}

impl SearchedBytes for LogBytes {
    fn read_anyhow(&mut self, position: StreamPosition, buffer: &mut [u8]) -> Result<usize, LogReadError> {
        LogBytes::read_anyhow(self, position, buffer)
    }

    fn has_valid_header(&mut self, number: u64) -> Result<bool, LogReadError> {
        LogBytes::has_valid_header(self, number)
    }
}

/// The first valid record in a stretch of bytes, and how many bytes were checksummed to find it.
pub(crate) fn first_record(
    bytes: &mut dyn SearchedBytes,
    key: LogKey,
    geometry: LogGeometry,
    stretch: Range<StreamPosition>,
) -> Result<(Option<Lsn>, u64), LogReadError> {
    let lsn = geometry.lsn_at(stretch.start);
    let checksums = PrefixChecksums::from(stretch.start);
    let to = stretch.end;
    let mut search = Search { bytes, key, geometry, lsn, floor: None, to, checksums, claimed: None };
    let found = search.run(stretch.start)?;
    Ok((found, search.checksums.checksummed_bytes))
}

/// The first valid record behind `lsn`, of whatever batch: where the log is known to go on, no old bytes lie in between.
pub(super) fn record_after(bytes: &mut LogBytes, key: LogKey, lsn: Lsn) -> Result<Option<Lsn>, LogReadError> {
    search_after(bytes, key, lsn, None)
}

/// A valid record behind `lsn` whose batch started behind `lsn`, or which lies in a segment whose header is damaged
/// (a header is durable before the first record is written): the log was durable at `lsn`.
pub(super) fn evidence_after(
    bytes: &mut LogBytes,
    key: LogKey,
    lsn: Lsn,
) -> Result<Option<Lsn>, LogReadError> {
    search_after(bytes, key, lsn, Some(lsn))
}

fn search_after(
    bytes: &mut LogBytes,
    key: LogKey,
    lsn: Lsn,
    floor: Option<Lsn>,
) -> Result<Option<Lsn>, LogReadError> {
    let geometry = bytes.geometry();
    let first = geometry.segment_of(lsn);
    let mut numbers = begun_from(bytes, lsn)?.into_iter().peekable();
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
        let checksums = PrefixChecksums::from(from);
        let mut search = Search { bytes, key, geometry, lsn, floor, to, checksums, claimed: None };
        if let Some(evidence) = search.run(from)? {
            return Ok(Some(evidence));
        }
    }
    Ok(None)
}

/// The segments from that of `lsn` on that may hold records, and those between them.
fn begun_from(bytes: &mut LogBytes, lsn: Lsn) -> Result<Vec<u64>, LogReadError> {
    let geometry = bytes.geometry();
    let first = geometry.segment_of(lsn);
    // There are records before `lsn`, whatever its header says.
    let is_begun_before = geometry.offset_of(lsn) > HEADER_BYTES;
    let (mut begun, mut between) = (Vec::new(), Vec::new());
    for number in bytes.numbers_from(first)? {
        // Another copy's files say nothing of how far this log goes: their places are empty.
        if !bytes.exists(number)? {
            continue;
        }
        between.push(number);
        if (number == first && is_begun_before) || bytes.may_have_records(number)? {
            begun.append(&mut between);
        } else if between.len() == NOT_BEGUN_MAX {
            break;
        }
    }
    Ok(begun)
}

/// A search through consecutive segments up to `to`.
struct Search<'a> {
    bytes: &'a mut dyn SearchedBytes,
    key: LogKey,
    geometry: LogGeometry,
    lsn: Lsn,
    /// A record whose batch started behind it counts; `None`: every record does, since there are no old bytes.
    floor: Option<Lsn>,
    to: StreamPosition,
    /// Checksums of the stream from `from` or the last gap on.
    checksums: PrefixChecksums,
    /// Where its batch started, by the last record that does not count alone.
    claimed: Option<Lsn>,
}

/// What passed the cheap tests.
struct Candidate {
    header: RecordHeader,
    start: StreamPosition,
    /// Checksum of the stream up to the byte from which on the record's checksum counts.
    before: u32,
    /// Where its batch started, if it does not count alone.
    claims: Option<Lsn>,
}

impl Candidate {
    fn end(&self) -> StreamPosition {
        StreamPosition(self.start.0 + u64::from(self.header.length))
    }
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
                self.checksums.restart(start);
                continue;
            }
            let candidates = self.candidates(&window[..read], start)?;
            if let Some(evidence) = self.first_verified(candidates)? {
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

    /// What in the window passes the cheap tests.
    fn candidates(&mut self, window: &[u8], start: StreamPosition) -> Result<Vec<Candidate>, LogReadError> {
        let header_count = window.len().saturating_sub(RECORD_HEADER_BYTES - 1);
        let mut candidates = Vec::new();
        let mut index = 0;
        while index < header_count {
            let header = &window[index..index + RECORD_HEADER_BYTES];
            // Zero is no kind: where there are zeros, the next headers are none.
            if header[12] == 0 && window[index + 12..].starts_with(&[0; ZERO_RUN_BYTES]) {
                index += ZERO_RUN_BYTES;
                continue;
            }
            if header[13] <= FLAG_ENCRYPTED && RecordKind::from_byte(header[12]).is_some() {
                let position = StreamPosition(start.0 + index as u64);
                candidates.extend(self.candidate(header, position)?);
            }
            index += 1;
        }
        Ok(candidates)
    }

    /// What the header at `start` claims, if a record there would be evidence.
    fn candidate(&mut self, header: &[u8], start: StreamPosition) -> Result<Option<Candidate>, LogReadError> {
        let lsn = self.geometry.lsn_at(start);
        let Some(header) = RecordHeader::decode(header, self.key.masks(lsn)) else { return Ok(None) };
        let Some(batch_start) = header.batch_start(lsn) else { return Ok(None) };
        if start.0 + u64::from(header.length) > self.to.0 {
            return Ok(None);
        }
        let number = self.geometry.segment_of(lsn);
        let counts_alone = match self.floor {
            None => true,
            Some(floor) => {
                let is_behind = if sabotaged(Defect::TornTailOffByOne) {
                    batch_start >= floor
                } else {
                    batch_start > floor
                };
                if !is_behind && self.bytes.has_valid_header(number)? {
                    return Ok(None);
                }
                !is_behind || batch_start == lsn || lsn.bytes_since(self.lsn) <= NEAR_BYTES
            }
        };
        let claims = (!counts_alone).then_some(batch_start);
        let checked_from = StreamPosition(start.0 + CHECKSUMMED_FROM);
        let before = self.checksums.up_to(self.bytes, checked_from)?;
        Ok(before.map(|before| Candidate { header, start, before, claims }))
    }

    /// The first of the candidates that is a record.
    fn first_verified(&mut self, mut candidates: Vec<Candidate>) -> Result<Option<Lsn>, LogReadError> {
        // In this order the prefixes are read once, however the candidates overlap.
        candidates.sort_unstable_by_key(Candidate::end);
        let mut first: Option<Lsn> = None;
        for candidate in candidates {
            let Some(whole) = self.checksums.up_to(self.bytes, candidate.end())? else { continue };
            let bytes = u64::from(candidate.header.length) - CHECKSUMMED_FROM;
            let computed = combine(candidate.before, whole, bytes);
            let lsn = self.geometry.lsn_at(candidate.start);
            if !candidate.header.verifies(computed, self.key.masks(lsn)) {
                continue;
            }
            let counts = candidate.claims.is_none() || self.claimed == candidate.claims;
            self.claimed = candidate.claims.or(self.claimed);
            if counts {
                first = Some(first.map_or(lsn, |first| first.min(lsn)));
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests;
