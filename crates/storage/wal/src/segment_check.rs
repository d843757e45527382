//! Checks a single segment file without the rest of the log, for archives.
//!
//! Its header says whose it is; then every record in it that verifies proves itself, since a record's checksum covers its
//! place. Records are packed without regard to segments, so the first bytes may belong to a record of the segment before,
//! and the last record may go on in the next: these two stretches are not verified here. Everything between is.
//!
//! ```text
//!   header | rest of a record | record | record | ... | record | beginning of one
//!            found by search    each starts where the last ends    plausible, and nothing behind it verifies
//! ```
//! The search is that of `reader::search`, so bytes that were made to look like headers cost no more than a few readings of the
//! segment.

use seawall_codec::checksum::crc32c;
use seawall_types::{DatabaseId, Lsn, Timeline, TimelineId};

use crate::error::{LogReadError, SegmentCheckError, SegmentHeaderError};
use crate::geometry::{HEADER_BYTES, LogGeometry, StreamPosition};
use crate::reader::search::{SearchedBytes, first_record};
use crate::record::{FLAG_ENCRYPTED, LogKey, RECORD_HEADER_BYTES, RecordHeader, RecordKind, STAMP_BYTES};
use crate::segment::{LogIdentity, SegmentName, SegmentUse, check_header, header_fields};

/// What a segment file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentContent {
    /// The database that wrote it.
    pub database: DatabaseId,
    /// The name that it must have.
    pub name: SegmentName,
    /// Its size.
    pub segment_bytes: u64,
    /// Where its last record ends; the end of the segment, if that record goes on in the next.
    pub records_end: Lsn,
    /// The records reach the end of the segment.
    pub is_full: bool,
    /// Bytes of records that were verified.
    pub verified_bytes: u64,
}

/// Looks at a whole segment file.
///
/// # Errors
/// `Header` if it is no segment that a log has begun, `Damaged` if a record does not verify although later ones do.
pub fn check_segment(file: &[u8]) -> Result<SegmentContent, SegmentCheckError> {
    check_counting(file, &mut 0)
}

/// As `check_segment`; counts the bytes that the search for records has checksummed.
fn check_counting(file: &[u8], searched: &mut u64) -> Result<SegmentContent, SegmentCheckError> {
    let page = file.get(..header_bytes()).and_then(|page| page.try_into().ok());
    let too_short = SegmentHeaderError::Length { found: file.len() as u64, expected: HEADER_BYTES };
    let page = page.ok_or(too_short)?;
    let (identity, number) = identity_of(page)?;
    let segment_use = check_header(page, &identity, number)?;
    let segment_bytes = identity.geometry.segment_bytes();
    if file.len() as u64 != segment_bytes {
        let found = file.len() as u64;
        return Err(SegmentHeaderError::Length { found, expected: segment_bytes }.into());
    }
    if segment_use == SegmentUse::Ready {
        return Err(SegmentCheckError::NotBegun);
    }
    let key = identity.key();
    let mut walk = Walk { file, number, geometry: identity.geometry, key, searched };
    let (end, verified_bytes) = walk.run()?;
    Ok(SegmentContent {
        database: identity.database,
        name: SegmentName { number, timeline: identity.timeline.id },
        segment_bytes,
        records_end: walk.lsn(end),
        is_full: end == file.len(),
        verified_bytes,
    })
}

/// Whose segment it says that it is. Everything is checked by `check_header` afterwards.
fn identity_of(page: &[u8; 4096]) -> Result<(LogIdentity, u64), SegmentHeaderError> {
    let fields = header_fields(page)?;
    let timeline = TimelineId::new(fields.timeline)
        .ok_or(SegmentHeaderError::Timeline { found: 0, expected: TimelineId::FIRST })?;
    let geometry = LogGeometry::new(fields.segment_bytes).map_err(|_| SegmentHeaderError::SegmentBytes {
        found: fields.segment_bytes,
        expected: crate::geometry::SEGMENT_BYTES_MIN,
    })?;
    let timeline = Timeline { id: timeline, began: fields.began, mark: fields.mark };
    let identity = LogIdentity { database: fields.database, timeline, geometry };
    Ok((identity, geometry.segment_of(fields.first_lsn)))
}

fn header_bytes() -> usize {
    usize::try_from(HEADER_BYTES).expect("a page fits into memory")
}

struct Walk<'a> {
    file: &'a [u8],
    number: u64,
    geometry: LogGeometry,
    key: LogKey,
    /// Bytes that searches have checksummed.
    searched: &'a mut u64,
}

/// The record bytes of one segment.
struct Payload<'a> {
    start: StreamPosition,
    bytes: &'a [u8],
}

impl SearchedBytes for Payload<'_> {
    fn read_anyhow(&mut self, position: StreamPosition, buffer: &mut [u8]) -> Result<usize, LogReadError> {
        let offset = usize::try_from(position.0 - self.start.0).unwrap_or(usize::MAX);
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn has_valid_header(&mut self, _number: u64) -> Result<bool, LogReadError> {
        Ok(true)
    }
}

/// What there is at an offset.
enum Found {
    /// A record that verifies, and where it ends.
    Record {
        end: usize,
    },
    /// The beginning of something that goes on in the next segment.
    Beginning,
    Nothing,
}

impl Walk<'_> {
    fn lsn(&self, offset: usize) -> Lsn {
        Lsn::new(self.number * self.geometry.segment_bytes() + offset as u64)
    }

    /// Where the records end, and how many bytes of them were verified.
    fn run(&mut self) -> Result<(usize, u64), SegmentCheckError> {
        let begin = header_bytes();
        let Some(first) = self.next_record(begin) else {
            // A stretch of one long record, or nothing was ever written here.
            let is_empty = self.file[begin..].iter().all(|byte| *byte == 0);
            return Ok((if is_empty { begin } else { self.file.len() }, 0));
        };
        let mut offset = first;
        loop {
            match self.at(offset) {
                Found::Record { end } => offset = end,
                found => {
                    if let Some(later) = self.next_record(offset + 1) {
                        return Err(SegmentCheckError::Damaged {
                            offset,
                            lsn: self.lsn(offset),
                            later: self.lsn(later),
                        });
                    }
                    let verified = (offset - first) as u64;
                    let goes_on = matches!(found, Found::Beginning);
                    return Ok((if goes_on { self.file.len() } else { offset }, verified));
                }
            }
        }
    }

    /// The first record that verifies, at `from` or later.
    fn next_record(&mut self, from: usize) -> Option<usize> {
        let start = self.geometry.stream_position(self.geometry.first_record_of(self.number));
        let position = |offset: usize| StreamPosition(start.0 + (offset - header_bytes()) as u64);
        let mut payload = Payload { start, bytes: &self.file[header_bytes()..] };
        let stretch = position(from)..position(self.file.len());
        let (found, searched) = first_record(&mut payload, self.key, self.geometry, stretch)
            .expect("bytes in memory can be read");
        *self.searched += searched;
        let offset = |lsn| usize::try_from(self.geometry.offset_of(lsn)).expect("a segment fits into memory");
        found.map(offset)
    }

    fn at(&self, offset: usize) -> Found {
        let rest = &self.file[offset..];
        if rest.len() < RECORD_HEADER_BYTES {
            return Found::Beginning;
        }
        // Cheap: most offsets that no record starts at are told by these two bytes.
        if RecordKind::from_byte(rest[12]).is_none() || rest[13] > FLAG_ENCRYPTED {
            return Found::Nothing;
        }
        let masks = self.key.masks(self.lsn(offset));
        let Some(header) = RecordHeader::decode(rest, masks) else { return Found::Nothing };
        let length = usize::try_from(header.length).expect("32 bits");
        let Some(record) = rest.get(..length) else { return Found::Beginning };
        if header.verifies(crc32c(&record[STAMP_BYTES..]), masks) {
            Found::Record { end: offset + length }
        } else {
            Found::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PreparedRecord;
    use crate::segment::encode_header;

    /// Rows whose values are arrays of small 16-bit numbers: at every second byte stands a kind and no flags, and a length of some
    /// hundred KiB. To check each for itself would take a terabyte.
    #[test]
    fn values_that_look_like_headers_cost_a_few_readings_of_the_segment() {
        let geometry = LogGeometry::new(16 << 20).unwrap();
        let database = DatabaseId::from_bytes([3; 16]);
        let identity = LogIdentity { database, timeline: Timeline::FIRST, geometry };
        let mut file = encode_header(&identity, 5, SegmentUse::Begun).to_vec();
        let numbers = (0_u32..).map(|index| u16::try_from(1 + index % 10).unwrap());
        file.extend(numbers.take((16 << 19) - 2048).flat_map(u16::to_le_bytes));
        assert_eq!(file.len(), 16 << 20);
        let mut searched = 0;
        let content = check_counting(&file, &mut searched).unwrap();
        assert_eq!((content.verified_bytes, content.is_full), (0, true));
        assert!(searched > 0 && searched <= 4 * (16 << 20), "{searched} bytes");
        // With a record at the end, as of the next transaction.
        let record = PreparedRecord::no_op(1000);
        let start = file.len() - record.record_bytes();
        let lsn = Lsn::new(5 * (16 << 20) + start as u64);
        file[start..].copy_from_slice(record.as_bytes());
        file[start..start + STAMP_BYTES].copy_from_slice(&record.stamp(identity.key(), lsn, lsn));
        let mut searched = 0;
        let content = check_counting(&file, &mut searched).unwrap();
        assert_eq!(content.verified_bytes, record.record_bytes() as u64);
        assert!(searched <= 4 * (16 << 20), "{searched} bytes");
    }
}
