//! Recycling: segments that are not needed get the places that the log reaches next, so that it writes no zeros for them.
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
//! How many: as many as are filled from one checkpoint to the next, measured; until the first has ended since the log was opened, as the
//! options expect. So the seconds after a restart or a new timeline, when all old segments may go at once, do not end with a log that has to
//! make new ones from zeros. Fewer, and the log makes new ones from zeros
//! while old ones are removed; more only take space. Spares that are there already and are not wanted any more stay until the
//! log has used them up: the next ones are removed meanwhile.

pub(crate) mod estimate;

use std::ops::ControlFlow;

use seawall_io::OpenMode;

use crate::error::LogError;
use crate::metrics::Counters;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{SegmentName, SegmentUse, encode_header};
use crate::segment_set::{SegmentSet, fatal, spare_path};

/// What became of segments that were to be recycled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recycled {
    /// Segments given a new place.
    pub(crate) segments: u64,
    /// Segments that could not be renamed.
    pub(crate) failed: u64,
}

/// Gives up to `wanted` of the segments that are not needed the places after the segments that are ready: none, without a sync of
/// the directory, if no file can be used. The log may have made some of the places itself meanwhile. Calls `rest` after each
/// header, and goes on with what has one when that says so.
pub(crate) fn recycle(
    segments: &SegmentSet,
    counters: &Counters,
    first_needed: u64,
    wanted: usize,
    rest: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Recycled, LogError> {
    let mut recycled = Recycled::default();
    let readied = write_headers(segments, first_needed, wanted, rest)?;
    if readied.is_empty() {
        return Ok(recycled);
    }
    let preparing = segments.lock_preparing();
    let mut until = segments.prepared_until();
    for (name, number) in readied {
        // The log was faster: this one has the header of a place that is taken, and is as old as before.
        if number != until {
            continue;
        }
        let (from, to) = (name.path(), segments.path_of(number));
        if let Err(error) = segments.disk.rename(&from, &to) {
            segments.set_aside(name, &LogError::io("recycle", &from, error), counters);
            recycled.failed += 1;
            break;
        }
        segments.renamed(name, segments.name_of(number));
        segments.open_handle(number)?;
        recycled.segments += 1;
        until += 1;
    }
    if recycled.segments > 0 {
        if sabotaged(Defect::RecycledBeforeNameSynced) {
            segments.offer(until);
        }
        segments.publish(&preparing, until, counters)?;
        counters.segments_recycled.add(recycled.segments);
    }
    Ok(recycled)
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

/// When a segment of the parent timeline that becomes one of another timeline loses its old name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldName {
    /// Durably, before its header changes: if the power goes, a parent that was written here may read on into it.
    GoesFirst,
    /// With the new name, which takes a sync less. A parent that was received ends before a segment with another header, and makes
    /// that one ready anew.
    GoesLast,
}

impl SegmentSet {
    /// Gives the spare `name` of the parent timeline place `number` of this one. The old name goes as `old_name` says.
    pub(crate) fn adopt(
        &self,
        name: SegmentName,
        number: u64,
        segment_use: SegmentUse,
        old_name: OldName,
        counters: &Counters,
    ) -> Result<(), LogError> {
        let preparing = self.lock_preparing();
        let (from, between, to) = (name.path(), spare_path(number), self.path_of(number));
        let failed = |error| LogError::io("recycle", &from, error);
        let between = match old_name {
            OldName::GoesFirst => {
                self.disk.rename(&from, &between).map_err(failed)?;
                self.sync_names(counters)?;
                between
            }
            OldName::GoesLast => from.clone(),
        };
        self.forget(name);
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
