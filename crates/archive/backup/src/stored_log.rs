//! The log of a database in a repository, along the history of one timeline.
//!
//! ```text
//!   timeline 1   [ 5 whole ][ 6 tails . . |fork
//!   timeline 2               [ . . . . . .| 6 whole ][ 7 tails . . |      the end: nothing further is there
//! ```
//! A segment that is there as a whole is taken as a whole; else the tails of it are put together, and zeros behind them. What a
//! restore that was cut short has left is not fetched again where the header of the object says that it is the same.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use seawall_archive::{ArchiveError, LogFileName, ObjectName, Repository, SegmentPlace, System};
use seawall_engine::{Error, UPLOADS_AHEAD_MAX, restored_log_file};
use seawall_io::Disk;
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{HEADER_BYTES, LogGeometry, SegmentName, TimelineHistory};

use crate::error::BackupError;
use crate::object_names;

/// Between a look at what there is and its fetch, a tail may give way to its segment.
const LOOKS_MAX: u32 = 3;

/// See the module.
pub(crate) struct StoredLog<'a> {
    repository: &'a Repository,
    /// What a restore that was cut short has fetched is here.
    disk: Option<&'a dyn Disk>,
    system: System,
    geometry: LogGeometry,
    history: TimelineHistory,
}

/// How the log ends that was fetched.
#[derive(Default)]
pub(crate) struct FetchedLog {
    /// A part is missing there: it was left out, or there is more behind it. `Gap` or `LeftOut`.
    pub(crate) gap: Option<BackupError>,
    /// The part that is missing, if it is no more than what uploads may have passed that began later.
    pub(crate) passed: Option<PassedLog>,
}

/// Log that is missing, and what lies behind it.
pub(crate) struct PassedLog {
    pub(crate) missing: OnItsWay,
    later: Vec<LaterObject>,
}

/// A part of the log that the repository lacks, and has later log behind, since uploads do not end in the order in which they begin:
/// all that lies behind it is so young that it may be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnItsWay {
    /// The log is there up to here.
    pub from: Lsn,
    /// And goes on here.
    pub to: Lsn,
}

/// Where an object begins in the log, and its name.
struct LaterObject {
    start: Lsn,
    name: LaterName,
}

enum LaterName {
    Segment(SegmentPlace),
    Tail(ObjectName),
}

/// A segment file to put into a log directory.
pub(crate) struct FetchedSegment {
    pub(crate) name: SegmentName,
    pub(crate) content: Vec<u8>,
    /// Its bytes up to here are those of the log.
    pub(crate) bytes: u64,
    /// It was there already.
    pub(crate) is_here: bool,
}

/// What a restore wants of one segment file.
#[derive(Clone, Copy)]
struct Wanted {
    name: SegmentName,
    /// Up to here: the border of the segment, or where its timeline was left.
    end: Lsn,
}

impl<'a> StoredLog<'a> {
    pub(crate) fn new(
        repository: &'a Repository,
        disk: Option<&'a dyn Disk>,
        database: DatabaseId,
        geometry: LogGeometry,
        history: TimelineHistory,
    ) -> StoredLog<'a> {
        StoredLog { repository, disk, system: System::Seawall(database), geometry, history }
    }

    /// Fetches the log from the segment of `from` on, `threads` segments at a time, and gives each to `put`, in order, with the place
    /// up to which the log is there now. Ends when `put` says so, with the segment of `to`, or as far as there is any log, and says
    /// whether a part is missing there. What lies behind does not matter.
    ///
    /// # Errors
    /// What the repository says.
    pub(crate) fn fetch(
        &self,
        from: Lsn,
        to: Lsn,
        threads: usize,
        put: &mut dyn FnMut(FetchedSegment, Lsn) -> Result<ControlFlow<()>, BackupError>,
    ) -> Result<FetchedLog, BackupError> {
        std::thread::scope(|scope| {
            let mut under_way = VecDeque::new();
            let mut next = from;
            let mut position = from;
            loop {
                while under_way.len() < threads.max(1)
                    && self.geometry.segment_of(next) <= self.geometry.segment_of(to)
                {
                    let wanted = self.wanted_at(next);
                    next = wanted.end;
                    under_way.push_back((wanted, scope.spawn(move || self.fetch_segment(wanted.name))));
                }
                let Some((wanted, fetching)) = under_way.pop_front() else {
                    return Ok(FetchedLog::default());
                };
                let panicked = |_| Error::Io { message: "a thread of the restore panicked".to_owned() };
                let Some(fetched) = fetching.join().map_err(panicked)?? else {
                    return self.end_at(position, wanted);
                };
                let end = self.end_of(&fetched);
                position = end.min(wanted.end).max(position);
                if put(fetched, position)?.is_break() {
                    return Ok(FetchedLog::default());
                }
                if end < wanted.end {
                    return self.end_at(position, wanted);
                }
            }
        })
    }

    /// What of the log lies in one segment file, from `position` on.
    fn wanted_at(&self, position: Lsn) -> Wanted {
        let number = self.geometry.segment_of(position);
        let timeline = self.history.timeline_at(position);
        let border = self.geometry.first_record_of(number + 1);
        let left = self.history.forks.iter().find(|fork| fork.parent == timeline).map(|fork| fork.fork);
        let end = left.filter(|fork| *fork < border).unwrap_or(border);
        Wanted { name: SegmentName { number, timeline }, end }
    }

    /// The log goes so far in it.
    fn end_of(&self, fetched: &FetchedSegment) -> Lsn {
        let number = fetched.name.number;
        match fetched.bytes {
            bytes if bytes >= self.geometry.segment_bytes() => self.geometry.first_record_of(number + 1),
            bytes => Lsn::new(number * self.geometry.segment_bytes() + bytes),
        }
    }

    /// What there is ends here: the log, or what goes before a gap.
    fn end_at(&self, end: Lsn, wanted: Wanted) -> Result<FetchedLog, BackupError> {
        let timeline = wanted.name.timeline;
        if let Some(left_out) = self.left_out(end, timeline)? {
            return Ok(FetchedLog { gap: Some(left_out), passed: None });
        }
        // Where a timeline was left, all of it was there before.
        let is_left = self.history.forks.iter().any(|fork| fork.parent == timeline);
        let later = self.later_than(end, timeline)?;
        let gap = (is_left || !later.is_empty())
            .then_some(BackupError::Gap { timeline: timeline.get(), from: end });
        let number = |object: &LaterObject| self.geometry.segment_of(object.start);
        let is_near = |object| number(object).saturating_sub(wanted.name.number) <= UPLOADS_AHEAD_MAX;
        let first = later.iter().map(|object| object.start).min();
        let passed = first.filter(|_| !is_left && later.iter().all(is_near));
        let passed = passed.map(|to| PassedLog { missing: OnItsWay { from: end, to }, later });
        Ok(FetchedLog { gap, passed })
    }

    /// Whether all that lies behind a part that is missing was packed at `since` or later, so that this may be on its way.
    ///
    /// # Errors
    /// What the repository says.
    pub(crate) fn is_all_since(&self, passed: &PassedLog, since: i64) -> Result<bool, BackupError> {
        for object in &passed.later {
            let header = match &object.name {
                LaterName::Segment(place) => {
                    self.repository.stat(self.system, LogFileName::Segment(*place))?
                }
                LaterName::Tail(name) => {
                    match self.repository.fetch_object(self.system, name, &mut Vec::new()) {
                        Ok(header) => Some(header),
                        // Its segment is whole by now.
                        Err(ArchiveError::NotFound { .. }) => None,
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            if header.is_some_and(|header| header.created_micros < since) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The gap on record that the segment of `from` lies in.
    fn left_out(&self, from: Lsn, timeline: TimelineId) -> Result<Option<BackupError>, BackupError> {
        let place = SegmentPlace { timeline, digits: self.geometry.segment_of(from) };
        let gaps = self.repository.gaps(self.system)?;
        let Some(gap) = gaps.into_iter().find(|gap| gap.contains(place)) else { return Ok(None) };
        let reason = self.repository.read_gap(self.system, gap)?.reason;
        let timeline = timeline.get();
        Ok(Some(BackupError::LeftOut { timeline, from, gap: gap.to_string(), reason }))
    }

    /// What is there behind `end`, of this timeline.
    fn later_than(&self, end: Lsn, timeline: TimelineId) -> Result<Vec<LaterObject>, BackupError> {
        let at = |number: u64, offset: u64| {
            Lsn::new(number.saturating_mul(self.geometry.segment_bytes()).saturating_add(offset))
        };
        let segment = |(name, _): (LogFileName, u64)| match name {
            LogFileName::Segment(place) => {
                Some(LaterObject { start: at(place.digits, HEADER_BYTES), name: LaterName::Segment(place) })
            }
            LogFileName::Partial(_) | LogFileName::BackupLabel(..) | LogFileName::History(_) => None,
        };
        let tail = |(name, _): (ObjectName, u64)| {
            let (segment, from, _) = object_names::parse_tail(&name)?;
            Some(LaterObject { start: at(segment.number, from), name: LaterName::Tail(name) })
        };
        let segments = self.repository.list(self.system, Some(timeline))?.into_iter().filter_map(segment);
        // Of later segments, or of this one behind a tail that is missing.
        let tails = self.repository.list_objects(self.system, &object_names::tails(timeline))?;
        let later = segments.chain(tails.into_iter().filter_map(tail));
        Ok(later.filter(|object| object.start > end).collect())
    }

    /// A segment that an earlier attempt has put, if it is what the repository has: a record that goes on in the next one is not
    /// known to be good by itself.
    fn segment_here(&self, name: SegmentName) -> Result<Option<FetchedSegment>, BackupError> {
        let Some(disk) = self.disk else { return Ok(None) };
        let Some(content) = restored_log_file(disk, &name.file_name())? else { return Ok(None) };
        let bytes = self.geometry.segment_bytes();
        let stored = LogFileName::Segment(name.into());
        let is_whole =
            content.len() as u64 == bytes && self.repository.has_content(self.system, stored, &content)?;
        Ok(is_whole.then_some(FetchedSegment { name, content, bytes, is_here: true }))
    }

    /// A segment as far as it is there; `None` if nothing of it is.
    pub(crate) fn fetch_segment(&self, name: SegmentName) -> Result<Option<FetchedSegment>, BackupError> {
        if let Some(segment) = self.segment_here(name)? {
            return Ok(Some(segment));
        }
        let place = SegmentPlace::from(name);
        let mut looks = 0;
        loop {
            looks += 1;
            let mut content = Vec::new();
            match self.repository.fetch(self.system, LogFileName::Segment(place), &mut content) {
                Ok(_) if content.len() as u64 != self.geometry.segment_bytes() => {
                    let problem = format!("it has {} bytes and is not a segment of this log", content.len());
                    return Err(BackupError::damaged(name.file_name(), problem));
                }
                Ok(_) => {
                    let bytes = self.geometry.segment_bytes();
                    return Ok(Some(FetchedSegment { name, content, bytes, is_here: false }));
                }
                Err(ArchiveError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            match self.fetch_tails(name) {
                Err(BackupError::Archive(ArchiveError::NotFound { .. })) if looks < LOOKS_MAX => {}
                // It may have been stored as a whole between the two looks, and its tails removed.
                Ok(None) if looks == 1 => {}
                other => return other,
            }
        }
    }

    fn fetch_tails(&self, name: SegmentName) -> Result<Option<FetchedSegment>, BackupError> {
        let mut content = Vec::new();
        for (from, to) in self.tails_of(name)? {
            let object = object_names::tail(name, from, to);
            let mut bytes = Vec::new();
            self.repository.fetch_object(self.system, &object, &mut bytes)?;
            let is_whole = bytes.len() as u64 == to - from && from <= content.len() as u64;
            let from = usize::try_from(from).ok().filter(|_| is_whole);
            let from =
                from.ok_or_else(|| BackupError::damaged(&object, "its length is not that of its name"))?;
            content.truncate(from);
            content.extend_from_slice(&bytes);
        }
        if content.is_empty() {
            return Ok(None);
        }
        let bytes = content.len() as u64;
        let segment_bytes = usize::try_from(self.geometry.segment_bytes()).expect("at most 1 GiB");
        content.resize(segment_bytes, 0);
        Ok(Some(FetchedSegment { name, content, bytes, is_here: false }))
    }

    /// The tails that cover the longest beginning of a segment file, each from where the one before ends or sooner.
    fn tails_of(&self, name: SegmentName) -> Result<Vec<(u64, u64)>, BackupError> {
        let objects = self.repository.list_objects(self.system, &object_names::tails(name.timeline))?;
        let of_it = objects.iter().filter_map(|(object, _)| object_names::parse_tail(object));
        let fits = |to: u64| to <= self.geometry.segment_bytes();
        let ranges = of_it.filter(|(of, _, to)| *of == name && fits(*to)).map(|(_, from, to)| (from, to));
        Ok(cover(ranges))
    }
}

/// Of some ranges, those that cover the longest stretch from zero on: few of them.
pub(crate) fn cover(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut farthest: BTreeMap<u64, u64> = BTreeMap::new();
    for (from, to) in ranges {
        let entry = farthest.entry(from).or_insert(to);
        *entry = (*entry).max(to);
    }
    let (mut chosen, mut covered) = (Vec::new(), 0);
    loop {
        let reaching = farthest.range(..=covered).max_by_key(|(_, to)| **to);
        match reaching {
            Some((from, to)) if *to > covered => {
                chosen.push((*from, *to));
                covered = *to;
            }
            Some(_) | None => return chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_put_together_as_far_as_they_reach() {
        type Tails = &'static [(u64, u64)];
        let cases: [(Tails, Tails); 5] = [
            (&[], &[]),
            (&[(5, 9)], &[]),
            (&[(0, 4), (4, 9), (10, 12)], &[(0, 4), (4, 9)]),
            (&[(0, 4), (0, 8), (4, 9), (2, 11)], &[(0, 8), (2, 11)]),
            (&[(0, 8), (8, 9), (9, 10), (3, 7)], &[(0, 8), (8, 9), (9, 10)]),
        ];
        for (given, expected) in cases {
            assert_eq!(cover(given.iter().copied()), expected, "{given:?}");
        }
    }
}
