//! How far a repository has the log that leads to a position: what an archiver asks before anything goes up.
//!
//! ```text
//!   timeline 1   [ 5 ][ 6 . . fork                 parts: what is looked at, from the last one back
//!   timeline 2        [ . . . | 6 ][ 7 ][ 8 . |    before: in segment 8, which goes up as a whole
//! ```
//! Of each timeline on the way, segments, tails and gaps on record are what it has. Uploads end in any order, so a part that is missing may
//! lie before some that are there: the reach is the first place within the last [`UPLOADS_AHEAD_MAX`] segments where something is missing.

use std::collections::BTreeMap;

use seawall_archive::{ArchiveError, LogFileName, Repository, SegmentPlace, System};
use seawall_engine::{ArchivedLog, LogFile, UPLOADS_AHEAD_MAX};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HEADER_BYTES, TimelineHistory};

use crate::object_names;
use crate::stored_log::cover;

/// A part of the log that lies on one timeline.
struct Part {
    timeline: TimelineId,
    begin: Lsn,
    end: Lsn,
}

/// See the module. `None` if there is nothing of that log.
///
/// # Errors
/// What the repository says.
pub(crate) fn reach(
    repository: &Repository,
    log: &ArchivedLog,
    history: &TimelineHistory,
    before: Lsn,
) -> Result<Option<Lsn>, ArchiveError> {
    let parts = parts(history, log, before);
    if let Some(last) = parts.last()
        && has_last_segment(repository, log, last)?
    {
        return Ok(Some(last.end));
    }
    for part in parts.iter().rev() {
        let there = segments_there(repository, log, part)?;
        if let Some(reach) = first_missing(&there, log.segment_bytes) {
            return Ok(Some(reach.min(part.end)));
        }
    }
    Ok(None)
}

/// Whether all of a file is there, as a segment, or in tails; or is on record as left out.
///
/// # Errors
/// What the repository says.
pub(crate) fn has(repository: &Repository, log: &ArchivedLog, file: LogFile) -> Result<bool, ArchiveError> {
    let system = System::Seawall(log.database);
    let is_there = |name| Ok::<_, ArchiveError>(repository.stat(system, name)?.is_some());
    let (segment, to) = match file {
        LogFile::History(timeline) => return is_there(LogFileName::History(timeline)),
        LogFile::Segment(segment) => (segment, log.segment_bytes),
        LogFile::Tail { segment, to, .. } => (segment, to),
    };
    let place = SegmentPlace::from(segment);
    if is_there(LogFileName::Segment(place))? {
        return Ok(true);
    }
    if to < log.segment_bytes {
        let tails = repository.list_objects(system, &object_names::tails(segment.timeline))?;
        let of_it = tails.iter().filter_map(|(name, _)| object_names::parse_tail(name));
        let of_it = of_it.filter(|(of, ..)| *of == segment).map(|(_, from, to)| (from, to));
        if cover(of_it).last().is_some_and(|(_, reach)| *reach >= to) {
            return Ok(true);
        }
    }
    Ok(repository.gaps(system)?.into_iter().any(|gap| gap.contains(place)))
}

/// The log up to the beginning of the segment of `before`, which goes up as a whole, in parts of one timeline each.
fn parts(history: &TimelineHistory, log: &ArchivedLog, before: Lsn) -> Vec<Part> {
    let offset = |lsn: Lsn| lsn.get() % log.segment_bytes;
    let start = |lsn: Lsn| Lsn::new(lsn.get() - offset(lsn));
    let last = start(before);
    let mut parts = Vec::new();
    let mut begin = Lsn::ZERO;
    for fork in history.forks.iter().filter(|fork| fork.fork <= before) {
        // Of a segment that has nothing but its header, nothing is needed.
        let end = if offset(fork.fork) <= HEADER_BYTES { start(fork.fork) } else { fork.fork };
        parts.push(Part { timeline: fork.parent, begin, end });
        begin = fork.fork;
    }
    if begin < last {
        parts.push(Part { timeline: history.timeline_at(before), begin, end: last });
    }
    parts
}

/// Whether the segment that a part ends with is there: then nothing else need be looked at.
fn has_last_segment(repository: &Repository, log: &ArchivedLog, part: &Part) -> Result<bool, ArchiveError> {
    let Some(last) = part.end.get().checked_sub(1) else { return Ok(false) };
    let place = SegmentPlace { timeline: part.timeline, digits: last / log.segment_bytes };
    Ok(repository.stat(System::Seawall(log.database), LogFileName::Segment(place))?.is_some())
}

/// The segments of a part that the repository has something of, or has on record as left out, and how far it has each.
fn segments_there(
    repository: &Repository,
    log: &ArchivedLog,
    part: &Part,
) -> Result<BTreeMap<u64, u64>, ArchiveError> {
    let (system, segment_bytes) = (System::Seawall(log.database), log.segment_bytes);
    let wanted = part.begin.get() / segment_bytes..part.end.get().div_ceil(segment_bytes);
    let mut there = BTreeMap::new();
    let mut add = |number: u64, to: u64| {
        if wanted.contains(&number) {
            let farthest = there.entry(number).or_insert(to);
            *farthest = to.max(*farthest);
        }
    };
    // Tails before segments: one that gives way meanwhile has its segment.
    for (name, _) in repository.list_objects(system, &object_names::tails(part.timeline))? {
        if let Some((segment, _, to)) = object_names::parse_tail(&name) {
            add(segment.number, to);
        }
    }
    for (name, _) in repository.list(system, Some(part.timeline))? {
        if let LogFileName::Segment(place) = name {
            add(place.digits, segment_bytes);
        }
    }
    for gap in repository.gaps(system)?.into_iter().filter(|gap| gap.first.timeline == part.timeline) {
        let first = gap.first.digits.max(wanted.start);
        (first..=gap.last.digits.min(wanted.end)).for_each(|number| add(number, segment_bytes));
    }
    Ok(there)
}

/// Where something is missing first, of the last segments.
fn first_missing(there: &BTreeMap<u64, u64>, segment_bytes: u64) -> Option<Lsn> {
    let (last, _) = there.last_key_value()?;
    let mut near = there.range(last.saturating_sub(UPLOADS_AHEAD_MAX)..);
    let (mut number, mut to) = near.next()?;
    for (next, next_to) in near {
        if *to < segment_bytes || *next != number + 1 {
            break;
        }
        (number, to) = (next, next_to);
    }
    Some(Lsn::new(number * segment_bytes + to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_is_where_something_is_missing_first_of_the_last_segments() {
        let reach = |there: &[(u64, u64)]| first_missing(&there.iter().copied().collect(), 100).map(Lsn::get);
        assert_eq!(reach(&[]), None);
        assert_eq!(reach(&[(4, 100), (5, 100), (6, 30)]), Some(630));
        assert_eq!(reach(&[(4, 100), (5, 40), (6, 100)]), Some(540));
        assert_eq!(reach(&[(4, 100), (6, 100), (7, 20)]), Some(500));
        assert_eq!(reach(&[(4, 100), (4 + 2 * UPLOADS_AHEAD_MAX, 100)]), Some(13_300));
    }
}
