//! The checksum of a stretch of the log: what ties a backup to the log that it was taken with.
//!
//! ```text
//!   segment 5  [header| . . . .from======]    segment 6  [header|=========to . . . ]      CRC-64/NVME of what is marked
//! ```
//! Headers of segments do not count. Segments come in their order; of one that a timeline was left in, no more than up to there.

use seawall_codec::checksum::Crc64;
use seawall_types::Lsn;
use seawall_wal::HEADER_BYTES;

/// The checksum of a stretch of the log, as its segments come.
#[derive(Clone, Debug)]
pub struct LogChecksum {
    segment_bytes: u64,
    /// What lies before is in it.
    position: Lsn,
    end: Lsn,
    checksum: Crc64,
}

impl LogChecksum {
    /// A checksum of the log from `from` to `end`, in segments of `segment_bytes`.
    pub fn new(segment_bytes: u64, from: Lsn, end: Lsn) -> LogChecksum {
        LogChecksum { segment_bytes, position: from, end, checksum: Crc64::new() }
    }

    /// Adds what the file of a segment, or the first bytes of it, has of the log before `to`.
    pub fn add(&mut self, segment: u64, file: &[u8], to: Lsn) {
        let start = segment.saturating_mul(self.segment_bytes);
        let from = self.position.get().max(start.saturating_add(HEADER_BYTES));
        let to = to.min(self.end).get().min(start.saturating_add(file.len() as u64));
        if from >= to {
            return;
        }
        let offset =
            |position: u64| usize::try_from(position - start).expect("a file in memory is no longer");
        self.checksum.update(&file[offset(from)..offset(to)]);
        self.position = Lsn::new(to);
    }

    /// No log lies between the end of a segment and the end of the next one's header.
    fn is_over(&self) -> bool {
        let next = match self.position.get() % self.segment_bytes {
            0 => self.position.get().saturating_add(HEADER_BYTES),
            _ => self.position.get(),
        };
        next >= self.end.get()
    }

    /// The checksum, when all of the stretch was added.
    pub fn complete(&self) -> Option<u64> {
        self.is_over().then(|| self.checksum.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: u64 = 3 * HEADER_BYTES;

    /// The file of a segment, whose bytes are told by where they are.
    fn file(segment: u64) -> Vec<u8> {
        let byte = |at: u64| u8::try_from((segment * SEGMENT_BYTES + at) % 251).unwrap();
        (0..SEGMENT_BYTES).map(byte).collect()
    }

    fn checksum(from: u64, end: u64, parts: &[(u64, u64)]) -> Option<u64> {
        let mut checksum = LogChecksum::new(SEGMENT_BYTES, Lsn::new(from), Lsn::new(end));
        parts.iter().for_each(|(segment, to)| checksum.add(*segment, &file(*segment), Lsn::new(*to)));
        checksum.complete()
    }

    #[test]
    fn a_stretch_that_ends_before_the_first_record_of_a_segment_needs_nothing_of_that() {
        let (from, border) = (SEGMENT_BYTES + HEADER_BYTES + 7, 2 * SEGMENT_BYTES);
        let whole = checksum(from, border, &[(1, u64::MAX)]);
        assert!(whole.is_some());
        for end in [border + 1, border + HEADER_BYTES] {
            assert_eq!(checksum(from, end, &[(1, u64::MAX)]), whole, "{end}");
            assert_eq!(checksum(from, end, &[(1, u64::MAX), (2, u64::MAX)]), whole, "{end}");
        }
        assert_eq!(checksum(from, border + HEADER_BYTES, &[(1, border - 1)]), None, "not all of it");
        assert_eq!(checksum(from, border + HEADER_BYTES + 1, &[(1, u64::MAX)]), None, "not all of it");
    }

    #[test]
    fn it_is_the_same_however_the_log_comes_and_another_for_other_bytes() {
        let (from, end) = (SEGMENT_BYTES + HEADER_BYTES + 7, 3 * SEGMENT_BYTES - 9);
        let whole = checksum(from, end, &[(1, u64::MAX), (2, u64::MAX)]);
        assert!(whole.is_some());
        let in_parts = [(1, from + 5), (1, 2 * SEGMENT_BYTES), (2, end - 3), (2, end)];
        assert_eq!(checksum(from, end, &in_parts), whole);
        assert_ne!(checksum(from + 1, end, &[(1, u64::MAX), (2, u64::MAX)]), whole);
        assert_ne!(checksum(from, end - 1, &[(1, u64::MAX), (2, u64::MAX)]), whole);
        assert_eq!(checksum(from, end, &[(1, u64::MAX), (2, end - 1)]), None, "not all of it");
    }
}
