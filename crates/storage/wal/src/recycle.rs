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
//! while old ones are removed; more only take space. Spares that are there already and are not wanted any more stay until the
//! log has used them up: the next ones are removed meanwhile.

use std::ops::ControlFlow;

use seawall_io::OpenMode;
use seawall_io::sabotage::{Defect, sabotaged};
use seawall_types::Lsn;

use crate::error::LogError;
use crate::geometry::LogGeometry;
use crate::metrics::Counters;
use crate::retention::RetentionReport;
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

/// Gives up to `wanted` of the segments that nobody needs the places behind the segments that are ready: none, without a sync of
/// the directory, if no file can be used. The log may have made some of the places itself meanwhile. Calls `rest` after each
/// header, and goes on with what has one when that says so.
pub(crate) fn recycle(
    segments: &SegmentSet,
    counters: &Counters,
    first_needed: u64,
    wanted: usize,
    rest: &mut dyn FnMut() -> ControlFlow<()>,
    report: &mut RetentionReport,
) -> Result<(), LogError> {
    let readied = write_headers(segments, first_needed, wanted, rest)?;
    if readied.is_empty() {
        return Ok(());
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
        if let Err(error) = segments.disk.rename(&from, &to) {
            segments.set_aside(name, &LogError::io("recycle", &from, error), counters);
            report.failed += 1;
            break;
        }
        segments.renamed(name, segments.name_of(number));
        segments.open_handle(number)?;
        recycled += 1;
        until += 1;
    }
    if recycled > 0 {
        if sabotaged(Defect::RecycledBeforeNameSynced) {
            segments.offer(until);
        }
        segments.publish(&preparing, until, counters)?;
        counters.segments_recycled.add(recycled);
        report.recycled = recycled;
    }
    Ok(())
}

/// The next places, and the old segments that have their headers now.
fn write_headers(
    segments: &SegmentSet,
    first_needed: u64,
    wanted: usize,
    rest: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Vec<(SegmentName, u64)>, LogError> {
    let mut readied = Vec::new();
    let mut number = segments.prepared_until();
    for name in segments.unneeded(first_needed) {
        if readied.len() == wanted {
            break;
        }
        if segments.make_ready_for(name, number)? {
            readied.push((name, number));
            number += 1;
            if rest().is_break() {
                break;
            }
        }
    }
    Ok(readied)
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

    /// Writes the header of place `number` into the old segment `name`, durably. `false` if that is not a whole segment that can
    /// be written: it is to be removed then.
    fn make_ready_for(&self, name: SegmentName, number: u64) -> Result<bool, LogError> {
        let path = name.path();
        let header = encode_header(&self.identity, number, SegmentUse::Ready);
        let segment_bytes = self.identity.geometry.segment_bytes();
        let written = self.disk.open(&path, OpenMode::Write).and_then(|file| {
            let is_whole = file.length()? == segment_bytes;
            if is_whole {
                file.write_all_at(&header, 0)?;
            }
            Ok(is_whole.then_some(file))
        });
        match written {
            Ok(Some(_)) if sabotaged(Defect::RecycledHeaderNotSynced) => Ok(true),
            Ok(Some(file)) => {
                file.sync_data().map_err(|error| fatal("sync", &path, &error))?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                tracing::debug!(%path, %error, "a segment cannot be recycled");
                Ok(false)
            }
        }
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
