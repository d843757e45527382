//! A log segment file: one header page, then records end to end. Header page, integers little-endian:
//!
//! | offset | bytes | field         | meaning                                               |
//! |-------:|------:|---------------|-------------------------------------------------------|
//! |      0 |     8 | magic         | `SWLOG\r\n` and 0x1A; a text-mode copy does not match  |
//! |      8 |     4 | version       | [`FORMAT_VERSION`]; an unknown one is refused         |
//! |     12 |     4 | timeline      | the timeline the segment was written on               |
//! |     16 |     8 | first_lsn     | LSN of the first byte after this page                 |
//! |     24 |    16 | database      | database id; the log of another one is refused        |
//! |     40 |     4 | segment_bytes | length of the file                                    |
//! |     44 |     4 | checksum      | CRC-32C of bytes 0..44                                |
//! |     48 |  4048 | reserved      | zero; anything else is refused                        |
//!
//! A header is on stable storage before the file gets its final name, and the name before the first record: whoever
//! finds a file by its name may expect a valid header.

use seawall_codec::checksum::crc32c;
use seawall_types::{DatabaseId, Lsn, TimelineId};

use crate::error::SegmentHeaderError;
use crate::geometry::{HEADER_BYTES, LogGeometry, SEGMENT_NUMBER_MAX};

/// The directory of all files of the log.
pub(crate) const LOG_DIRECTORY: &str = "log";

/// The version of segments and records.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SWLOG\r\n\x1A";
const HEADER_PAGE_BYTES: usize = 4096;
const _: () = assert!(48 + 4048 == HEADER_PAGE_BYTES && HEADER_PAGE_BYTES as u64 == HEADER_BYTES);

/// Which log a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogIdentity {
    pub(crate) database: DatabaseId,
    pub(crate) timeline: TimelineId,
    pub(crate) geometry: LogGeometry,
}

/// One segment file of a log directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Its number: the segment covers the LSNs from this times the segment size on.
    pub number: u64,
    /// Its timeline.
    pub timeline: TimelineId,
}

impl SegmentName {
    /// The 24 hexadecimal digits: 8 of the timeline, 16 of the number.
    pub fn file_name(self) -> String {
        format!("{:08X}{:016X}", self.timeline.get(), self.number)
    }

    /// Relative to the database directory.
    pub fn path(self) -> String {
        format!("{LOG_DIRECTORY}/{}", self.file_name())
    }

    /// Reads a file name; `None` for anything but a segment's.
    pub fn parse(file_name: &str) -> Option<SegmentName> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
        if file_name.len() != 24 || !file_name.as_bytes().iter().all(is_digit) {
            return None;
        }
        let timeline = TimelineId::new(u32::from_str_radix(&file_name[..8], 16).ok()?)?;
        let number = u64::from_str_radix(&file_name[8..], 16).ok()?;
        (number <= SEGMENT_NUMBER_MAX).then_some(SegmentName { number, timeline })
    }
}

/// What the header page of segment `number` of this log says.
pub(crate) fn encode_header(identity: &LogIdentity, number: u64) -> [u8; HEADER_PAGE_BYTES] {
    let segment_bytes =
        u32::try_from(identity.geometry.segment_bytes()).expect("the geometry allows at most 1 GiB");
    let mut page = [0; HEADER_PAGE_BYTES];
    page[0..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    page[12..16].copy_from_slice(&identity.timeline.get().to_le_bytes());
    page[16..24].copy_from_slice(&identity.geometry.first_record_of(number).get().to_le_bytes());
    page[24..40].copy_from_slice(identity.database.as_bytes());
    page[40..44].copy_from_slice(&segment_bytes.to_le_bytes());
    let checksum = crc32c(&page[..44]);
    page[44..48].copy_from_slice(&checksum.to_le_bytes());
    page
}

/// Refuses, field by field, what is not the header page of segment `number` of this log.
pub(crate) fn check_header(
    page: &[u8; HEADER_PAGE_BYTES],
    identity: &LogIdentity,
    number: u64,
) -> Result<(), SegmentHeaderError> {
    let magic: [u8; 8] = bytes_at(page, 0);
    if magic != MAGIC {
        return Err(SegmentHeaderError::Magic { found: magic });
    }
    let version = u32::from_le_bytes(bytes_at(page, 8));
    if version != FORMAT_VERSION {
        return Err(SegmentHeaderError::Version { found: version, known: FORMAT_VERSION });
    }
    let (stored, computed) = (u32::from_le_bytes(bytes_at(page, 44)), crc32c(&page[..44]));
    if stored != computed {
        return Err(SegmentHeaderError::Checksum { stored, computed });
    }
    if let Some(index) = page[48..].iter().position(|&byte| byte != 0) {
        return Err(SegmentHeaderError::Reserved { offset: 48 + index });
    }
    let database = DatabaseId::from_bytes(bytes_at(page, 24));
    if database != identity.database {
        return Err(SegmentHeaderError::Database { found: database, expected: identity.database });
    }
    let timeline = u32::from_le_bytes(bytes_at(page, 12));
    if timeline != identity.timeline.get() {
        return Err(SegmentHeaderError::Timeline { found: timeline, expected: identity.timeline });
    }
    let segment_bytes = u64::from(u32::from_le_bytes(bytes_at(page, 40)));
    let expected = identity.geometry.segment_bytes();
    if segment_bytes != expected {
        return Err(SegmentHeaderError::SegmentBytes { found: segment_bytes, expected });
    }
    let first_lsn = Lsn::new(u64::from_le_bytes(bytes_at(page, 16)));
    let expected = identity.geometry.first_record_of(number);
    if first_lsn != expected {
        return Err(SegmentHeaderError::FirstLsn { found: first_lsn, expected });
    }
    Ok(())
}

fn bytes_at<const N: usize>(page: &[u8], offset: usize) -> [u8; N] {
    page[offset..offset + N].try_into().expect("the range has the length of the array")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> LogIdentity {
        LogIdentity {
            database: DatabaseId::from_bytes(*b"0123456789abcdef"),
            timeline: TimelineId::FIRST,
            geometry: LogGeometry::new(1 << 20).unwrap(),
        }
    }

    #[test]
    fn names_are_24_hexadecimal_digits() {
        let name = SegmentName { number: 0xA1, timeline: TimelineId::new(2).unwrap() };
        assert_eq!(name.file_name(), "0000000200000000000000A1");
        assert_eq!(SegmentName::parse(&name.file_name()), Some(name));
        for other in ["spare.7", "00000002.history", "0000000200000000000000a1", "000000000000000000000001"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_header_is_accepted_by_its_own_log_only() {
        let page = encode_header(&identity(), 7);
        assert_eq!(check_header(&page, &identity(), 7), Ok(()));
        assert!(matches!(check_header(&page, &identity(), 8), Err(SegmentHeaderError::FirstLsn { .. })));
        let mut other = identity();
        other.database = DatabaseId::from_bytes([1; 16]);
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::Database { .. })));
        let mut other = identity();
        other.timeline = TimelineId::new(2).unwrap();
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::Timeline { .. })));
        let mut other = identity();
        other.geometry = LogGeometry::new(2 << 20).unwrap();
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::SegmentBytes { .. })));
    }

    #[test]
    fn every_flipped_byte_of_a_header_is_noticed() {
        let page = encode_header(&identity(), 7);
        for offset in 0..page.len() {
            let mut damaged = page;
            damaged[offset] ^= 0x10;
            assert!(check_header(&damaged, &identity(), 7).is_err(), "offset {offset}");
        }
    }

    #[test]
    fn header_with_unknown_version_is_refused() {
        let mut page = encode_header(&identity(), 7);
        page[8] = 9;
        let expected = SegmentHeaderError::Version { found: 9, known: FORMAT_VERSION };
        assert_eq!(check_header(&page, &identity(), 7), Err(expected));
    }
}
