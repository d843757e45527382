//! How many segments to recycle: as many as the log fills from one checkpoint to the next.

use seawall_types::Lsn;

use crate::geometry::LogGeometry;

/// Spares to keep at most, in bytes and in files, whatever the log has filled.
const SPARES_BYTES_MAX: u64 = 1 << 30;
const SPARES_MAX: u64 = 256;

/// How much is logged from one checkpoint to the next. Rises at once and falls slowly, as PostgreSQL's estimate does: a burst
/// is likely to come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecycleEstimate {
    cycle_start: Lsn,
    cycle_bytes: u64,
}

impl RecycleEstimate {
    /// Nothing is measured yet, and so much expected; measuring starts at `end`.
    pub(crate) fn from(end: Lsn, expected_bytes: u64) -> RecycleEstimate {
        RecycleEstimate { cycle_start: end, cycle_bytes: expected_bytes }
    }

    /// A checkpoint has ended when the log had reached `appended`.
    pub(crate) fn cycle_ended(&mut self, appended: Lsn) {
        let bytes = appended.bytes_since(self.cycle_start);
        let slowly = self.cycle_bytes / 10 * 9 + bytes / 10;
        *self = RecycleEstimate { cycle_start: appended, cycle_bytes: bytes.max(slowly) };
    }

    /// In whole segments, within limits.
    pub(crate) fn segments(&self, geometry: LogGeometry) -> u64 {
        let most = (SPARES_BYTES_MAX / geometry.segment_bytes()).clamp(1, SPARES_MAX);
        self.cycle_bytes.div_ceil(geometry.segment_bytes()).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_recycled_as_are_filled_between_two_checkpoints() {
        let geometry = LogGeometry::new(1 << 20).unwrap();
        let mut estimate = RecycleEstimate::from(Lsn::new(5 << 20), 0);
        assert_eq!(estimate.segments(geometry), 0);
        estimate.cycle_ended(Lsn::new(25 << 20));
        assert_eq!(estimate.segments(geometry), 20);
        // A slower cycle counts for a tenth, a faster one at once.
        estimate.cycle_ended(Lsn::new(25 << 20));
        assert_eq!(estimate.segments(geometry), 18);
        estimate.cycle_ended(Lsn::new(65 << 20));
        assert_eq!(estimate.segments(geometry), 40);
        for _ in 0..60 {
            estimate.cycle_ended(Lsn::new(65 << 20));
        }
        assert_eq!(estimate.segments(geometry), 1);
    }

    #[test]
    fn what_is_expected_counts_until_it_is_measured() {
        let geometry = LogGeometry::new(1 << 20).unwrap();
        let mut estimate = RecycleEstimate::from(Lsn::new(5 << 20), 50 << 20);
        assert_eq!(estimate.segments(geometry), 50);
        estimate.cycle_ended(Lsn::new(5 << 20));
        assert_eq!(estimate.segments(geometry), 45);
        estimate.cycle_ended(Lsn::new(105 << 20));
        assert_eq!(estimate.segments(geometry), 100);
    }

    #[test]
    fn a_burst_does_not_fill_the_disk_with_spares() {
        let mut estimate = RecycleEstimate::from(Lsn::ZERO, 0);
        estimate.cycle_ended(Lsn::new(1 << 50));
        let segments = |bytes| estimate.segments(LogGeometry::new(bytes).unwrap());
        assert_eq!((segments(64 << 10), segments(16 << 20), segments(1 << 30)), (256, 64, 1));
    }
}
