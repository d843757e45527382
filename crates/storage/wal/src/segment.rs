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
//! |     44 |     4 | checksum      | CRC-32C of bytes 0..72 with this field zero           |
//! |     48 |     8 | began         | LSN where the timeline began; 0 for the first one     |
//! |     56 |    16 | mark          | the timeline's mark; zero for the first one           |
//! |     72 |   440 | reserved      | zero; anything else is refused                        |
//! |    512 |     8 | begun         | zero until the log comes here, then `mix(mix(first_lsn XOR log_key))`, as in `record` |
//! |    520 |  3576 | reserved      | zero; anything else is refused                        |
//!
//! *Began* and *mark* are those of the timeline's history. A segment with others was written by another copy of the database, on a
//! timeline that has the same number by chance: it is no part of this log, whatever its name.
//!
//! A header is on stable storage before the file gets its final name, and the name before the first record: whoever
//! finds a file by its name may expect a valid header.
//!
//! *Begun* is durable before the first record of this place is: a segment that is not begun holds zeros, or what is left of
//! another place's records, and nobody need look at it. It lies in a disk sector of its own, so that a power loss while it is
//! written does not touch the header.

use seawall_codec::checksum::crc32c;
use seawall_types::{DatabaseId, Lsn, Timeline, TimelineId, TimelineMark};

use crate::error::SegmentHeaderError;
use crate::geometry::{HEADER_BYTES, LogGeometry, SEGMENT_NUMBER_MAX};

/// The directory of all files of the log.
pub(crate) const LOG_DIRECTORY: &str = "log";

/// The version of segments and records.
pub const FORMAT_VERSION: u32 = 2;

/// The first bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = MAGIC;

const MAGIC: [u8; 8] = *b"SWLOG\r\n\x1A";
const HEADER_PAGE_BYTES: usize = 4096;
const FIELDS_BYTES: usize = 72;
const BEGUN_OFFSET: usize = 512;
const BEGUN_BYTES: usize = 8;
const _: () =
    assert!(FIELDS_BYTES + 440 == BEGUN_OFFSET && BEGUN_OFFSET + BEGUN_BYTES + 3576 == HEADER_PAGE_BYTES);
const _: () = assert!(HEADER_PAGE_BYTES as u64 == HEADER_BYTES);

/// Whether records were ever written into a segment since it has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentUse {
    /// None: zeros, or old bytes of a recycled segment.
    Ready,
    /// Some, or they were about to be.
    Begun,
}

/// Which log a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogIdentity {
    pub(crate) database: DatabaseId,
    pub(crate) timeline: Timeline,
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
pub(crate) fn encode_header(
    identity: &LogIdentity,
    number: u64,
    segment_use: SegmentUse,
) -> [u8; HEADER_PAGE_BYTES] {
    let segment_bytes =
        u32::try_from(identity.geometry.segment_bytes()).expect("the geometry allows at most 1 GiB");
    let mut page = [0; HEADER_PAGE_BYTES];
    page[0..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    page[12..16].copy_from_slice(&identity.timeline.id.get().to_le_bytes());
    page[16..24].copy_from_slice(&identity.geometry.first_record_of(number).get().to_le_bytes());
    page[24..40].copy_from_slice(identity.database.as_bytes());
    page[40..44].copy_from_slice(&segment_bytes.to_le_bytes());
    page[48..56].copy_from_slice(&identity.timeline.began.get().to_le_bytes());
    page[56..72].copy_from_slice(identity.timeline.mark.as_bytes());
    let checksum = checksum_of(&page);
    page[44..48].copy_from_slice(&checksum.to_le_bytes());
    if segment_use == SegmentUse::Begun {
        page[BEGUN_OFFSET..BEGUN_OFFSET + BEGUN_BYTES].copy_from_slice(&seal(identity, number).to_le_bytes());
    }
    page
}

fn checksum_of(page: &[u8; HEADER_PAGE_BYTES]) -> u32 {
    let mut fields: [u8; FIELDS_BYTES] = bytes_at(page, 0);
    fields[44..48].fill(0);
    crc32c(&fields)
}

fn seal(identity: &LogIdentity, number: u64) -> u64 {
    identity.key().seal_of(identity.geometry.first_record_of(number))
}

/// What a header page says of whose segment it is.
pub(crate) struct HeaderFields {
    pub(crate) database: DatabaseId,
    pub(crate) timeline: u32,
    pub(crate) began: Lsn,
    pub(crate) mark: TimelineMark,
    pub(crate) first_lsn: Lsn,
    pub(crate) segment_bytes: u64,
}

/// Reads a header page by what it says itself; whether that can be is for `check_header` to say.
pub(crate) fn header_fields(page: &[u8; HEADER_PAGE_BYTES]) -> Result<HeaderFields, SegmentHeaderError> {
    check_seal(page)?;
    Ok(HeaderFields {
        database: DatabaseId::from_bytes(bytes_at(page, 24)),
        timeline: u32::from_le_bytes(bytes_at(page, 12)),
        began: Lsn::new(u64::from_le_bytes(bytes_at(page, 48))),
        mark: TimelineMark::from_bytes(bytes_at(page, 56)),
        first_lsn: Lsn::new(u64::from_le_bytes(bytes_at(page, 16))),
        segment_bytes: u64::from(u32::from_le_bytes(bytes_at(page, 40))),
    })
}

/// Magic, version and checksum.
fn check_seal(page: &[u8; HEADER_PAGE_BYTES]) -> Result<(), SegmentHeaderError> {
    let magic: [u8; 8] = bytes_at(page, 0);
    if magic != MAGIC {
        return Err(SegmentHeaderError::Magic { found: magic });
    }
    let version = u32::from_le_bytes(bytes_at(page, 8));
    if version != FORMAT_VERSION {
        return Err(SegmentHeaderError::Version { found: version, known: FORMAT_VERSION });
    }
    let (stored, computed) = (u32::from_le_bytes(bytes_at(page, 44)), checksum_of(page));
    if stored != computed {
        return Err(SegmentHeaderError::Checksum { stored, computed });
    }
    Ok(())
}

fn check_reserved(page: &[u8; HEADER_PAGE_BYTES]) -> Result<(), SegmentHeaderError> {
    for (start, end) in [(FIELDS_BYTES, BEGUN_OFFSET), (BEGUN_OFFSET + BEGUN_BYTES, HEADER_PAGE_BYTES)] {
        if let Some(index) = page[start..end].iter().position(|&byte| byte != 0) {
            return Err(SegmentHeaderError::Reserved { offset: start + index });
        }
    }
    Ok(())
}

/// Refuses, field by field, what is not the header page of segment `number` of this log.
pub(crate) fn check_header(
    page: &[u8; HEADER_PAGE_BYTES],
    identity: &LogIdentity,
    number: u64,
) -> Result<SegmentUse, SegmentHeaderError> {
    check_seal(page)?;
    check_reserved(page)?;
    let database = DatabaseId::from_bytes(bytes_at(page, 24));
    if database != identity.database {
        return Err(SegmentHeaderError::Database { found: database, expected: identity.database });
    }
    let timeline = u32::from_le_bytes(bytes_at(page, 12));
    if timeline != identity.timeline.id.get() {
        return Err(SegmentHeaderError::Timeline { found: timeline, expected: identity.timeline.id });
    }
    let began = Lsn::new(u64::from_le_bytes(bytes_at(page, 48)));
    let mark = TimelineMark::from_bytes(bytes_at(page, 56));
    if (began, mark) != (identity.timeline.began, identity.timeline.mark) {
        let found = Timeline { began, mark, ..identity.timeline };
        return Err(SegmentHeaderError::OtherTimeline { found, expected: identity.timeline });
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
    match u64::from_le_bytes(bytes_at(page, BEGUN_OFFSET)) {
        0 => Ok(SegmentUse::Ready),
        found if found == seal(identity, number) => Ok(SegmentUse::Begun),
        found => Err(SegmentHeaderError::Begun { found }),
    }
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
            timeline: Timeline::FIRST,
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
        let page = encode_header(&identity(), 7, SegmentUse::Ready);
        assert_eq!(check_header(&page, &identity(), 7), Ok(SegmentUse::Ready));
        let begun = encode_header(&identity(), 7, SegmentUse::Begun);
        assert_eq!(check_header(&begun, &identity(), 7), Ok(SegmentUse::Begun));
        assert!(matches!(check_header(&page, &identity(), 8), Err(SegmentHeaderError::FirstLsn { .. })));
        let mut other = identity();
        other.database = DatabaseId::from_bytes([1; 16]);
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::Database { .. })));
        let mut other = identity();
        other.timeline.id = TimelineId::new(2).unwrap();
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::Timeline { .. })));
        for timeline in [
            Timeline { began: Lsn::new(1), ..Timeline::FIRST },
            Timeline { mark: TimelineMark::from_bytes([1; 16]), ..Timeline::FIRST },
        ] {
            let other = LogIdentity { timeline, ..identity() };
            assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::OtherTimeline { .. })));
        }
        let mut other = identity();
        other.geometry = LogGeometry::new(2 << 20).unwrap();
        assert!(matches!(check_header(&page, &other, 7), Err(SegmentHeaderError::SegmentBytes { .. })));
    }

    #[test]
    fn every_flipped_byte_of_a_header_is_noticed() {
        for page in [SegmentUse::Ready, SegmentUse::Begun].map(|used| encode_header(&identity(), 7, used)) {
            for offset in 0..page.len() {
                let mut damaged = page;
                damaged[offset] ^= 0x10;
                assert!(check_header(&damaged, &identity(), 7).is_err(), "offset {offset}");
            }
        }
    }

    #[test]
    fn header_with_unknown_version_is_refused() {
        let mut page = encode_header(&identity(), 7, SegmentUse::Ready);
        page[8] = 9;
        let expected = SegmentHeaderError::Version { found: 9, known: FORMAT_VERSION };
        assert_eq!(check_header(&page, &identity(), 7), Err(expected));
    }
}
