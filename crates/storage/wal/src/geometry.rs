//! Where a log sequence number lies: segment and offset. All LSN arithmetic of the crate is here.
//!
//! ```text
//!   LSN       n*S        n*S+4096                     (n+1)*S     (n+1)*S+4096
//!              | header     | record bytes ...           | header      | ...
//!   stream                  n*(S-4096)                                 (n+1)*(S-4096)
//! ```
//!
//! Segment `n` covers the LSNs `n*S..(n+1)*S`; its first [`HEADER_BYTES`] are the header page, which holds no record
//! bytes. A *normalised* LSN never points into a header page: the position right behind a record that fills its
//! segment to the last byte is the first byte behind the next header. Leaving the headers out gives the *stream*, in
//! which record bytes lie end to end; both `S` and the header are whole blocks, so blocks of the stream are blocks of
//! files.

use seawall_types::Lsn;

use crate::error::LogError;

/// The header page at the start of each segment.
pub const HEADER_BYTES: u64 = 4096;
/// No record starts further on.
const POSITION_MAX: u64 = 1 << 62;
/// No segment has a higher number: the smallest ones then end at `POSITION_MAX`.
pub(crate) const SEGMENT_NUMBER_MAX: u64 = POSITION_MAX / SEGMENT_BYTES_MIN;
/// The smallest segment; meant for tests.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The largest segment.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The size of a log's segments, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGeometry {
    segment_bytes: u64,
}

/// A position in the stream of record bytes, headers left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamPosition(pub(crate) u64);

impl LogGeometry {
    /// Segments of `segment_bytes`, header page included.
    ///
    /// # Errors
    /// `LogError::Options` unless it is a power of two from 64 KiB to 1 GiB.
    pub fn new(segment_bytes: u64) -> Result<LogGeometry, LogError> {
        let in_bounds = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes);
        if !in_bounds || !segment_bytes.is_power_of_two() {
            return Err(LogError::Options {
                problem: format!(
                    "segments of {segment_bytes} bytes: not a power of two from 64 KiB to 1 GiB"
                ),
            });
        }
        Ok(LogGeometry { segment_bytes })
    }

    /// Bytes of a segment file, header page included.
    pub const fn segment_bytes(self) -> u64 {
        self.segment_bytes
    }

    /// Record bytes that a segment holds.
    pub const fn payload_bytes(self) -> u64 {
        self.segment_bytes - HEADER_BYTES
    }

    /// Where a new log's first record starts: segments are numbered from 1.
    pub const fn first_lsn(self) -> Lsn {
        self.first_record_of(1)
    }

    /// The number of the segment that `lsn` lies in.
    pub const fn segment_of(self, lsn: Lsn) -> u64 {
        lsn.get() / self.segment_bytes
    }

    /// The byte of its segment file that `lsn` lies at.
    pub const fn offset_of(self, lsn: Lsn) -> u64 {
        lsn.get() % self.segment_bytes
    }

    /// The first LSN behind the header page of segment `number`.
    pub const fn first_record_of(self, number: u64) -> Lsn {
        Lsn::new(number.saturating_mul(self.segment_bytes).saturating_add(HEADER_BYTES))
    }

    /// `lsn`, or the first byte behind the header page that it points into.
    pub const fn normalise(self, lsn: Lsn) -> Lsn {
        if self.offset_of(lsn) < HEADER_BYTES { self.first_record_of(self.segment_of(lsn)) } else { lsn }
    }

    /// Whether a record may start at `lsn`. No log becomes so long that adding to a position would run over.
    pub const fn is_normal(self, lsn: Lsn) -> bool {
        let is_within = lsn.get() >= self.segment_bytes && lsn.get() <= POSITION_MAX;
        is_within && self.offset_of(lsn) >= HEADER_BYTES
    }

    /// The normalised position `bytes` record bytes after the normalised `lsn`.
    pub const fn advance(self, lsn: Lsn, bytes: u64) -> Lsn {
        if self.offset_of(lsn) + bytes < self.segment_bytes {
            return Lsn::new(lsn.get() + bytes);
        }
        self.lsn_at(StreamPosition(self.stream_position(lsn).0 + bytes))
    }

    /// Record bytes between two normalised positions.
    pub const fn payload_between(self, start: Lsn, end: Lsn) -> u64 {
        self.stream_position(end).0.saturating_sub(self.stream_position(start).0)
    }

    pub(crate) const fn stream_position(self, lsn: Lsn) -> StreamPosition {
        let payload_offset = self.offset_of(lsn).saturating_sub(HEADER_BYTES);
        StreamPosition(self.segment_of(lsn) * self.payload_bytes() + payload_offset)
    }

    pub(crate) const fn lsn_at(self, position: StreamPosition) -> Lsn {
        let (number, offset) = self.file_position(position);
        Lsn::new(number * self.segment_bytes + offset)
    }

    /// Segment number and offset in its file.
    pub(crate) const fn file_position(self, position: StreamPosition) -> (u64, u64) {
        let payload = self.payload_bytes();
        (position.0 / payload, position.0 % payload + HEADER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_bounds_are_refused() {
        for bytes in [0, 1, 32 << 10, (64 << 10) + 1, 100_000, 2 << 30] {
            assert!(LogGeometry::new(bytes).is_err(), "{bytes}");
        }
        assert!(LogGeometry::new(16 << 20).is_ok());
    }

    #[test]
    fn advancing_skips_header_pages_and_lands_on_normal_positions() {
        let geometry = LogGeometry::new(64 << 10).unwrap();
        let first = geometry.first_lsn();
        assert_eq!(first, Lsn::new((64 << 10) + 4096));
        for bytes in (0..400_000).step_by(977).chain([61_439, 61_440, 61_441, 122_880]) {
            let end = geometry.advance(first, bytes);
            assert!(geometry.is_normal(end), "{end}");
            assert_eq!(geometry.payload_between(first, end), bytes);
            assert_eq!(geometry.lsn_at(geometry.stream_position(end)), end);
            assert_eq!(geometry.advance(geometry.advance(first, bytes / 3), bytes - bytes / 3), end);
        }
        // A record that fills the segment ends behind the next header.
        assert_eq!(geometry.advance(first, 61_440), geometry.first_record_of(2));
        assert_eq!(geometry.normalise(Lsn::new(2 * (64 << 10))), geometry.first_record_of(2));
    }
}
