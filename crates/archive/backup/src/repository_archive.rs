//! A repository as an archive of a database's log.
//!
//! **Two copies of a directory** are one database to a repository, as long as they are on the same timeline. Whole segments of both have one
//! name, and the second one is refused. Tails are named by their bytes, so tails of different lengths would lie beside each other, and a
//! restore would take the longest. So whatever this puts of a segment is compared with what others have put of it: one must be the
//! beginning of the other. A whole segment, and the first tail of one, is compared before it goes up. Both are compared again once they are
//! there and before they are acknowledged, since another copy may have gone on from the same log meanwhile: one of the copies, or both,
//! take theirs back. Tails are looked at first and the whole segment after them, and a tail gives way only when its segment is there, so
//! what another copy has is seen in the one or in the other. A tail of the common log may still lie beside the whole segment of another
//! copy, so the one says nothing of the other. What this has put itself is known and not fetched: a tail costs a listing and a look for the
//! whole segment, a segment two listings.
//!
//! **If the power goes** between a put and its comparison, a tail or a segment may stay beside the tails of another copy, as may a segment
//! where the store fails then. It was not acknowledged, and from then on the other copy is refused, too, with the name of the object.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_archive::{
    ArchiveError, Expected, Gap, GapRecord, LogFileName, ObjectKind, ObjectName, ObjectPlace, Packed, Packer,
    Packing, Pushed, Repository, System, identify,
};
use seawall_io::Clock;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HEADER_BYTES, SegmentName, TimelineHistory};

use seawall_engine::{ArchivedLog, LogArchive, LogArchiveError, LogFile, LogGap};

use crate::object_names;
use crate::reach::{has, reach};

/// Bytes of a segment file.
struct Tail<'a> {
    segment: SegmentName,
    from: u64,
    content: &'a [u8],
    /// All of the file, under the segment's name.
    is_whole: bool,
}

/// What a repository has of a segment file, from a byte of it on.
struct StoredTail {
    object: String,
    from: u64,
    content: Vec<u8>,
}

impl Tail<'_> {
    /// Offset in the segment file after its last byte.
    fn end(&self) -> u64 {
        self.from.saturating_add(self.content.len() as u64)
    }

    /// Whether it has the same log as what is stored from `from` on, as far as both have it.
    fn goes_with(&self, from: u64, stored: &[u8]) -> bool {
        let first = self.from.max(from).max(HEADER_BYTES);
        let end = self.end().min(from.saturating_add(stored.len() as u64));
        first >= end || part(self.content, self.from, first..end) == part(stored, from, first..end)
    }
}

/// A part of a file, of which there are bytes from `begin` on.
fn part(bytes: &[u8], begin: u64, wanted: Range<u64>) -> Option<&[u8]> {
    let index = |position: u64| usize::try_from(position.checked_sub(begin)?).ok();
    bytes.get(index(wanted.start)?..index(wanted.end)?)
}

/// Puts the log into a repository.
#[derive(Debug)]
pub struct RepositoryArchive {
    repository: Arc<Repository>,
    packing: Packing,
    clock: Arc<dyn Clock>,
    known: Mutex<KnownTails>,
}

/// Tails of the segment that was put last: those that are this archive's own, from where to where they have it.
#[derive(Debug, Default)]
struct KnownTails {
    segment: Option<SegmentName>,
    own: BTreeSet<(u64, u64)>,
}

impl KnownTails {
    fn has(&self, tail: &Tail<'_>, (from, to): (u64, u64)) -> bool {
        self.segment == Some(tail.segment) && self.own.contains(&(from, to))
    }

    fn add(&mut self, tail: &Tail<'_>) {
        if self.segment != Some(tail.segment) {
            *self = KnownTails { segment: Some(tail.segment), own: BTreeSet::new() };
        }
        self.own.insert((tail.from, tail.end()));
    }
}

impl RepositoryArchive {
    /// Of this repository.
    pub fn new(repository: Arc<Repository>, packing: Packing, clock: Arc<dyn Clock>) -> RepositoryArchive {
        RepositoryArchive { repository, packing, clock, known: Mutex::default() }
    }

    /// Puts a tail or a whole segment. When this returns, no other copy of the database has put another one of the same log.
    fn store_compared(
        &self,
        log: &ArchivedLog,
        tail: &Tail<'_>,
        put: impl FnOnce() -> Result<Pushed, ArchiveError>,
        remove: impl FnOnce() -> Result<(), ArchiveError>,
    ) -> Result<(), LogArchiveError> {
        if tail.from == 0 || self.lock_known().segment != Some(tail.segment) {
            self.compare(log, tail)?;
        }
        let pushed = put().map_err(|error| match error {
            ArchiveError::OtherContent { object, .. } => self.other_copy(&object),
            error => words(&error),
        })?;
        let other = self.other_log(log, tail);
        // Where the store does not tell, a segment stays: a backup of this database may have found it there meanwhile, and count on it.
        let stays = pushed == Pushed::AlreadyThere || (tail.is_whole && other.is_err());
        if !matches!(other, Ok(None)) && !stays {
            remove().map_err(|error| words(&error))?;
        }
        if let Some(object) = other? {
            return Err(self.other_copy(&object));
        }
        if !tail.is_whole {
            self.lock_known().add(tail);
        }
        Ok(())
    }

    /// Puts the history of a timeline, which belongs to the copy that archives first.
    fn store_history(&self, timeline: TimelineId, packed: &Packed) -> Result<(), LogArchiveError> {
        let pushed = self.repository.push(packed).map_err(|error| match &error {
            ArchiveError::OtherContent { .. } => LogArchiveError(format!(
                "timeline {timeline} in {} is that of another copy of this database, which was restored or promoted to it, too, and \
                 archived first: {error}. To archive there, restore this one again: it gets a number that is free",
                self.repository.url()
            )),
            _ => words(&error),
        });
        pushed.map(drop)
    }

    fn lock_known(&self) -> MutexGuard<'_, KnownTails> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what the repository has of a segment begins as this does, or the other way round.
    fn compare(&self, log: &ArchivedLog, tail: &Tail<'_>) -> Result<(), LogArchiveError> {
        match self.other_log(log, tail)? {
            Some(object) => Err(self.other_copy(&object)),
            None => Ok(()),
        }
    }

    /// An object of the repository that has another log of the segment, if there is one.
    fn other_log(&self, log: &ArchivedLog, tail: &Tail<'_>) -> Result<Option<String>, LogArchiveError> {
        let differs = |stored: &StoredTail| !tail.goes_with(stored.from, &stored.content);
        // In this order: a tail that is not there any more has given way to the whole segment.
        if let Some(stored) = self.farthest_other(log, tail)?.filter(differs) {
            return Ok(Some(stored.object));
        }
        Ok(self.whole_segment(log, tail)?.filter(differs).map(|stored| stored.object))
    }

    /// Of the tails that overlap with this one and are not known to be this archive's own, the one that reaches farthest. It tells of those
    /// before it, since the bytes of a record say where it is and when it was written. One that is damaged is nothing to compare with:
    /// it must not keep the log from going on, nor the whole segment from taking its place.
    fn farthest_other(
        &self,
        log: &ArchivedLog,
        tail: &Tail<'_>,
    ) -> Result<Option<StoredTail>, LogArchiveError> {
        for (name, from) in self.others(log, tail)? {
            let mut content = Vec::new();
            match self.repository.fetch_object(System::Seawall(log.database), &name, &mut content) {
                Ok(_) => return Ok(Some(StoredTail { object: name.to_string(), from, content })),
                // It has given way to the whole segment.
                Err(ArchiveError::NotFound { .. }) => {}
                Err(error @ ArchiveError::Damaged { .. }) => {
                    tracing::warn!(%error, "a damaged tail in the archive is not compared with the log");
                }
                Err(error) => return Err(words(&error)),
            }
        }
        Ok(None)
    }

    /// The tails that overlap with this one and are not known to be this archive's own, with where they begin, the farthest first.
    fn others(&self, log: &ArchivedLog, tail: &Tail<'_>) -> Result<Vec<(ObjectName, u64)>, LogArchiveError> {
        let system = System::Seawall(log.database);
        let listed = self.repository.list_objects(system, &object_names::tails(tail.segment.timeline));
        let listed = listed.map_err(|error| words(&error))?;
        let known = self.lock_known();
        let mut others: Vec<(ObjectName, u64, u64)> = listed
            .into_iter()
            .filter_map(|(name, _)| {
                let (segment, from, to) = object_names::parse_tail(&name)?;
                let is_other = (from, to) != (tail.from, tail.end()) && !known.has(tail, (from, to));
                let overlaps = segment == tail.segment && from < tail.end() && to > tail.from;
                (is_other && overlaps).then_some((name, from, to))
            })
            .collect();
        others.sort_by_key(|(_, from, to)| (Reverse(*to), *from));
        Ok(others.into_iter().map(|(name, from, _)| (name, from)).collect())
    }

    /// The segment of a tail, if that is there as a whole. A put compares a whole segment with one of its name.
    fn whole_segment(
        &self,
        log: &ArchivedLog,
        tail: &Tail<'_>,
    ) -> Result<Option<StoredTail>, LogArchiveError> {
        if tail.is_whole {
            return Ok(None);
        }
        let name = LogFileName::Segment(tail.segment.into());
        let system = System::Seawall(log.database);
        if self.repository.stat(system, name).map_err(|error| words(&error))?.is_none() {
            return Ok(None);
        }
        let mut content = Vec::new();
        self.repository.fetch(system, name, &mut content).map_err(|error| words(&error))?;
        Ok(Some(StoredTail { object: name.to_string(), from: 0, content }))
    }

    fn other_copy(&self, object: &str) -> LogArchiveError {
        LogArchiveError(format!(
            "{} has the log of another copy of this database: {object} has other bytes. The copy that archives or is backed up first has \
             the repository. Give this one a repository of its own, or a timeline of its own (seawall new-timeline)",
            self.repository.url()
        ))
    }

    fn pack(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<Packed, ArchiveError> {
        let system = System::Seawall(log.database);
        let created = self.clock.wall_micros();
        let expected = Expected { system: Some(system), fork: None };
        let header = match file {
            LogFile::Segment(segment) => identify(&segment.file_name(), content, &expected)?.header(created),
            LogFile::History(timeline) => {
                let path = TimelineHistory::path(timeline);
                let name = path.rsplit('/').next().unwrap_or(&path);
                identify(name, content, &expected)?.header(created)
            }
            LogFile::Tail { segment, from, to } => {
                let start = segment.number.saturating_mul(log.segment_bytes);
                let place = ObjectPlace {
                    timeline: segment.timeline,
                    segment_bytes: u32::try_from(log.segment_bytes).unwrap_or(0),
                    start: Lsn::new(start + from),
                    end: Lsn::new(start + to),
                    created_micros: created,
                };
                object_names::tail(segment, from, to).header(ObjectKind::LogTail, system, place)
            }
        };
        Ok(Packer::new(self.packing).pack(header, content))
    }
}

fn words(error: &ArchiveError) -> LogArchiveError {
    LogArchiveError(error.to_string())
}

impl LogArchive for RepositoryArchive {
    fn store(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<(), LogArchiveError> {
        let packed = self.pack(log, file, content).map_err(|error| words(&error))?;
        let (repository, system) = (&self.repository, System::Seawall(log.database));
        match file {
            LogFile::History(timeline) => self.store_history(timeline, &packed),
            LogFile::Segment(segment) => {
                let name = LogFileName::Segment(segment.into());
                let whole = Tail { segment, from: 0, content, is_whole: true };
                let remove = || repository.remove(system, name);
                self.store_compared(log, &whole, || repository.push(&packed), remove)
            }
            LogFile::Tail { segment, from, to } => {
                let name = object_names::tail(segment, from, to);
                let tail = Tail { segment, from, content, is_whole: false };
                let remove = || repository.remove_object(system, &name);
                self.store_compared(log, &tail, || repository.push_object(&packed), remove)
            }
        }
    }

    fn remove_tails(&self, log: &ArchivedLog, segment: SegmentName) -> Result<(), LogArchiveError> {
        let system = System::Seawall(log.database);
        let tails = self.repository.list_objects(system, &object_names::tails(segment.timeline));
        for (name, _) in tails.map_err(|error| words(&error))? {
            if object_names::parse_tail(&name).is_some_and(|(of, ..)| of == segment) {
                self.repository.remove_object(system, &name).map_err(|error| words(&error))?;
            }
        }
        Ok(())
    }

    fn note_gap(&self, log: &ArchivedLog, gap: &LogGap) -> Result<(), LogArchiveError> {
        let record = GapRecord {
            gap: Gap { first: gap.first.into(), last: gap.last.into() },
            noticed_micros: gap.noticed_micros,
            reason: gap.reason.clone(),
        };
        self.repository.record_gap(System::Seawall(log.database), &record).map_err(|error| words(&error))
    }

    fn has(&self, log: &ArchivedLog, file: LogFile) -> Result<bool, LogArchiveError> {
        has(&self.repository, log, file).map_err(|error| words(&error))
    }

    fn reach(
        &self,
        log: &ArchivedLog,
        history: &TimelineHistory,
        before: Lsn,
    ) -> Result<Option<Lsn>, LogArchiveError> {
        reach(&self.repository, log, history, before).map_err(|error| words(&error))
    }
}
