//! Recycling: segments that nobody needs get the places that the log reaches next, so that it writes no zeros for them.
//!
//! ```text
//!   old [97][98]   1. header of place A5, A6; sync each      (no lock: appenders go on)
//!         |   |    2. rename to A5, A6                       \  in the lock that an `append` in want of a segment takes:
//!         v   v    3. ONE sync of the directory               }  a few renames and one sync
//!       [A5][A6]   4. offer A5 and A6                        /
//! ```
//! **If the power goes** after some of 1, segments have old names and the header of another place: the oldest ones first, so
//! that `open` recognises them by reading one header more than there are. After some of 2, each name is the old or the new
//! one, in any combination, whatever the order of the calls: under the new name there is a valid header, for it was synced
//! before, and behind it records of the segment's former life. No such record verifies at the new place (`record`), so the
//! log ends where it ended. Before 3 has succeeded no record is written into any of them: a record in a segment whose name
//! can still be lost would be lost with it.
//!
//! How many: as many as are filled from one checkpoint to the next, measured. Fewer, and the log makes new ones from zeros
//! while old ones are removed; more only take space.

use std::io;

use seawall_io::OpenMode;
use seawall_types::Lsn;

use crate::error::LogError;
use crate::geometry::LogGeometry;
use crate::metrics::Counters;
use crate::segment::{SegmentName, SegmentUse, encode_header};
use crate::segment_set::{SegmentSet, fatal, spare_path};

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
    /// Nothing is known; measuring starts at `end`.
    pub(crate) fn from(end: Lsn) -> RecycleEstimate {
        RecycleEstimate { cycle_start: end, cycle_bytes: 0 }
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

/// Gives the first `wanted` of `unneeded` the places behind the segments that are ready. Returns how many got one, which is
/// none, without a sync of the directory, if no file can be used; the log may have made some of the places itself meanwhile.
pub(crate) fn recycle(
    segments: &SegmentSet,
    counters: &Counters,
    unneeded: &[SegmentName],
    wanted: usize,
) -> Result<u64, LogError> {
    let mut readied = Vec::new();
    let mut number = segments.prepared_until();
    for &name in unneeded.iter().take(wanted) {
        if segments.make_ready_for(name, number)? {
            readied.push((name, number));
            number += 1;
        }
    }
    if readied.is_empty() {
        return Ok(0);
    }
    let preparing = segments.lock_preparing();
    let mut until = segments.prepared_until();
    let mut recycled = 0;
    for (name, number) in readied {
        // The log was faster: this one has the header of a place that is taken, and is as old as before.
        if number != until {
            continue;
        }
        let (from, to) = (name.path(), segments.path_of(number));
        segments.disk.rename(&from, &to).map_err(|error| LogError::io("recycle", &from, error))?;
        segments.renamed(name, segments.name_of(number));
        segments.open_handle(number)?;
        recycled += 1;
        until += 1;
    }
    if recycled > 0 {
        segments.publish(&preparing, until, counters)?;
        counters.segments_recycled.add(recycled);
    }
    Ok(recycled)
}

impl SegmentSet {
    /// Gives the spare `name` of the parent timeline place `number` of this one. It loses its old name durably before its header
    /// changes: the parent may read on into it if the power goes.
    pub(crate) fn adopt(
        &self,
        name: SegmentName,
        number: u64,
        segment_use: SegmentUse,
        counters: &Counters,
    ) -> Result<(), LogError> {
        let preparing = self.lock_preparing();
        let (from, between, to) = (name.path(), spare_path(number), self.path_of(number));
        let failed = |error| LogError::io("recycle", &from, error);
        self.disk.rename(&from, &between).map_err(failed)?;
        self.forget(name);
        self.sync_names(counters)?;
        let file = self.disk.open(&between, OpenMode::Write).map_err(failed)?;
        file.write_all_at(&encode_header(&self.identity, number, segment_use), 0).map_err(failed)?;
        file.sync_data().map_err(|error| fatal("sync", &between, &error))?;
        self.disk.rename(&between, &to).map_err(failed)?;
        self.add(self.name_of(number));
        self.open_handle(number)?;
        self.publish(&preparing, number + 1, counters)?;
        counters.segments_recycled.add(1);
        Ok(())
    }

    /// Writes the header of place `number` into the old segment `name`, durably. `false` if it is not a whole segment, or gone.
    fn make_ready_for(&self, name: SegmentName, number: u64) -> Result<bool, LogError> {
        let path = name.path();
        let failed = |error| LogError::io("recycle", &path, error);
        let file = match self.disk.open(&path, OpenMode::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(failed)?,
        };
        if file.length().map_err(failed)? != self.identity.geometry.segment_bytes() {
            return Ok(false);
        }
        file.write_all_at(&encode_header(&self.identity, number, SegmentUse::Ready), 0).map_err(failed)?;
        file.sync_data().map_err(|error| fatal("sync", &path, &error))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_recycled_as_are_filled_between_two_checkpoints() {
        let geometry = LogGeometry::new(1 << 20).unwrap();
        let mut estimate = RecycleEstimate::from(Lsn::new(5 << 20));
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
    fn a_burst_does_not_fill_the_disk_with_spares() {
        let mut estimate = RecycleEstimate::from(Lsn::ZERO);
        estimate.cycle_ended(Lsn::new(1 << 50));
        let segments = |bytes| estimate.segments(LogGeometry::new(bytes).unwrap());
        assert_eq!((segments(64 << 10), segments(16 << 20), segments(1 << 30)), (256, 64, 1));
    }
}
