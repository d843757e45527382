//! What the log directory holds when a log is opened: its own segments, and files that only take space.

use std::collections::BTreeSet;
use std::io;

use seawall_io::{BLOCK_BYTES, Disk, OpenMode};
use seawall_types::{DatabaseId, Lsn};

use super::{SPARE_PREFIX, SegmentInfo, SegmentState};
use crate::error::{LogError, SegmentHeaderError};
use crate::geometry::LogGeometry;
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName, SegmentUse, check_header};
use crate::timeline::TimelineHistory;

/// The files of a log directory.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// Segments of the log: of its timeline, and of the ancestors up to where they were left.
    pub(crate) segments: BTreeSet<SegmentName>,
    /// Segments that belong to no part of the log: of an ancestor beyond where it was left, of an older timeline that is no
    /// ancestor, or with the header of another place. They can be recycled.
    pub(crate) strays: BTreeSet<SegmentName>,
    /// Segments of newer timelines: a switch to one of them may be under way, so they are left alone.
    newer: BTreeSet<SegmentName>,
    /// Half-made files that a crash left.
    pub(crate) leftovers: Vec<String>,
}

impl FoundFiles {
    /// Lists the directory.
    pub(crate) fn list(
        disk: &dyn Disk,
        history: &TimelineHistory,
        geometry: LogGeometry,
    ) -> Result<FoundFiles, LogError> {
        let names =
            disk.list_names(LOG_DIRECTORY).map_err(|error| LogError::io("list", LOG_DIRECTORY, error))?;
        let mut found = FoundFiles::default();
        for entry in names {
            match SegmentName::parse(&entry) {
                Some(name) if name.timeline > history.timeline => drop(found.newer.insert(name)),
                Some(name) if history.includes(name, geometry) => drop(found.segments.insert(name)),
                Some(name) => drop(found.strays.insert(name)),
                None if entry.starts_with(SPARE_PREFIX) => {
                    found.leftovers.push(format!("{LOG_DIRECTORY}/{entry}"));
                }
                None => {}
            }
        }
        found.leftovers.sort_unstable();
        Ok(found)
    }
}

/// What the header of segment file `name` says, if it can be read.
pub(crate) fn read_header(
    disk: &dyn Disk,
    identity: &LogIdentity,
    name: SegmentName,
) -> io::Result<Result<SegmentUse, SegmentHeaderError>> {
    let mut page = [0; BLOCK_BYTES];
    disk.open(&name.path(), OpenMode::Read)?.read_exact_at(&mut page, 0)?;
    Ok(check_header(&page, identity, name.number))
}

/// Whether the segment file of the log's own timeline was written by another copy of the database, on a timeline of the same number:
/// it holds no part of this log, and its place is free.
pub(crate) fn is_of_other_copy(disk: &dyn Disk, identity: &LogIdentity, name: SegmentName) -> bool {
    matches!(read_header(disk, identity, name), Ok(Err(SegmentHeaderError::OtherTimeline { .. })))
}

/// The segment files of a log that may be open elsewhere.
#[derive(Debug)]
pub struct LogFiles {
    found: FoundFiles,
    history: TimelineHistory,
    geometry: LogGeometry,
}

impl LogFiles {
    /// Lists them, of a log whose last timeline is that of `history`.
    ///
    /// # Errors
    /// `Options` for a size that no segment has; `Io`.
    pub fn list(
        disk: &dyn Disk,
        history: &TimelineHistory,
        segment_bytes: u64,
    ) -> Result<LogFiles, LogError> {
        let geometry = LogGeometry::new(segment_bytes)?;
        let found = FoundFiles::list(disk, history, geometry)?;
        Ok(LogFiles { found, history: history.clone(), geometry })
    }

    /// All of them, by number, if the log is needed from `needed` on and ends at `end`.
    pub fn segments(&self, needed: Lsn, end: Lsn) -> Vec<SegmentInfo> {
        let (needed, current) = (self.geometry.segment_of(needed), self.geometry.segment_of(end));
        let ours = self.found.segments.iter().map(|name| match name.number {
            number if number > current => (name, SegmentState::Spare),
            number if number < needed => (name, SegmentState::Unneeded),
            _ => (name, SegmentState::Live),
        });
        let strays =
            self.found.strays.iter().chain(&self.found.newer).map(|name| (name, SegmentState::Stray));
        let mut segments: Vec<_> = ours
            .chain(strays)
            .map(|(&name, state)| SegmentInfo {
                name,
                first_lsn: self.geometry.first_record_of(name.number),
                state,
            })
            .collect();
        segments.sort_unstable_by_key(|segment| segment.name);
        segments
    }

    /// Where the segments begin from which on none is missing up to the one with `lsn`, oldest first: a record that can be
    /// read starts in the first of them that is what its name says.
    pub fn beginnings(&self, lsn: Lsn) -> impl Iterator<Item = Lsn> {
        let current = self.geometry.segment_of(lsn);
        let geometry = self.geometry;
        let oldest = oldest_without_gap(&self.found.segments, current);
        (oldest..=current).map(move |number| geometry.first_record_of(number))
    }

    /// Where the last segment begins that the log of `database` has begun to write, as the headers say, and so where its end
    /// is to be looked for. Reads one page of each spare.
    pub fn last_begun(&self, disk: &dyn Disk, database: DatabaseId) -> Option<Lsn> {
        let is_begun = |name: &&SegmentName| {
            let timeline = self.history.timeline(name.timeline);
            let identity = LogIdentity { database, timeline, geometry: self.geometry };
            read_header(disk, &identity, **name).is_ok_and(|header| header == Ok(SegmentUse::Begun))
        };
        let last = self.found.segments.iter().rev().find(is_begun);
        last.map(|name| self.geometry.first_record_of(name.number))
    }

    /// No record lies further on.
    pub fn end_at_most(&self) -> Lsn {
        let last = self.found.segments.last().map_or(0, |name| name.number);
        self.geometry.first_record_of(last + 1)
    }
}

/// Numbers down from `current` as long as there is a file of some timeline for each.
pub(crate) fn oldest_without_gap(files: &BTreeSet<SegmentName>, current: u64) -> u64 {
    let mut oldest = current;
    for name in files.iter().rev() {
        if name.number + 1 == oldest {
            oldest = name.number;
        } else if name.number + 1 < oldest {
            break;
        }
    }
    oldest
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::TimelineId;

    #[test]
    fn the_oldest_segment_is_the_last_before_a_gap() {
        let name = |number, timeline| SegmentName { number, timeline: TimelineId::new(timeline).unwrap() };
        let files: BTreeSet<_> =
            [name(3, 1), name(5, 1), name(6, 1), name(7, 1), name(7, 2), name(8, 2), name(9, 2)].into();
        assert_eq!(oldest_without_gap(&files, 8), 5);
        assert_eq!(oldest_without_gap(&files, 9), 5);
        assert_eq!(oldest_without_gap(&files, 20), 20);
        assert_eq!(oldest_without_gap(&files, 3), 3);
    }
}
