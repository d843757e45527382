//! The timelines of a system, and which of them a restore follows when none is named. Databases and clusters alike.
//!
//! ```text
//!   timeline 1  ------+-------------------------------   goes on, with a backup: production
//!   timeline 2        `----                              a copy that was restored to try something out
//! ```
//! A timeline is *contained* in one that descends from it if it has nothing past the place where it was left. Timelines that are
//! contained in no other compete: each has data that the others lack. If there is one, it is followed. If there are several, the
//! one that was backed up after all of them had begun is followed, for that is what is done with production. If none was, or
//! several were, nothing in the repository says where production is: the restore is refused and names the choices. The highest
//! number says nothing: the copy of a trial has it, too.
//!
//! Only what the target leaves open competes: below a position, only log before it counts; for a time, only timelines that had
//! begun by then. One whose log does not reach the target competes all the same: production may stand idle while a trial archives.
//! A timeline that has nothing but its history does not compete if its parent goes on.
//!
//! PostgreSQL archives whole segments only, also the one in which a timeline was left. Where that is the last one of the parent, it is
//! read: the parent has data that the others lack if a whole record begins there at the fork or later. A record that is cut off at
//! the end of the segment is no data: that is how the archive of a machine that was lost ends.
//!
//! A timeline other than the first whose history is missing contains nothing, and nothing is known to contain more than it. It is
//! followed if it is alone, or named.

use std::collections::BTreeMap;
use std::fmt;

use seawall_archive::{
    ArchiveError, Header, LogFileName, ObjectName, Repository, SegmentNumbers, SegmentPlace, StoredName,
    StoredObject, System, postgresql_last_record,
};
use seawall_types::{Lsn, TimelineId, utc};
use seawall_wal::TimelineHistory;

use crate::error::BackupError;
use crate::history::StoredHistory;
use crate::object_names;

/// The timelines of a system, by their histories in a repository and the log that is there.
#[derive(Clone, Debug, Default)]
pub struct Timelines {
    known: BTreeMap<TimelineId, KnownTimeline>,
}

/// A timeline of a repository.
#[derive(Clone, Debug)]
struct KnownTimeline {
    /// Its ancestors, or what is wrong with its history.
    history: Result<TimelineHistory, String>,
    /// What a restore follows that names it, if its history is missing.
    without_history: Option<TimelineHistory>,
    /// When it was begun, in microseconds since 1970: about when its history was archived.
    begun_micros: i64,
}

impl Timelines {
    /// The timelines whose histories, segments or backups are in the repository. A history that is damaged is remembered: only
    /// those who follow that timeline need it.
    ///
    /// # Errors
    /// What the repository says.
    pub fn load(
        repository: &Repository,
        system: System,
        of_backups: impl Iterator<Item = TimelineId>,
    ) -> Result<Timelines, BackupError> {
        let mut timelines = Timelines::default();
        for timeline in repository.timelines(system)?.into_iter().chain(of_backups) {
            timelines.known.insert(timeline, KnownTimeline::without_history(system, timeline));
        }
        for (name, _) in repository.list_histories(system)? {
            let LogFileName::History(timeline) = name else { continue };
            if let Some(stored) = StoredHistory::read(repository, system, timeline)? {
                let StoredHistory { history, archived_micros: begun_micros, .. } = stored;
                let known = KnownTimeline { history, without_history: None, begun_micros };
                timelines.known.insert(timeline, known);
            }
        }
        Ok(timelines)
    }

    /// The one with the highest number.
    pub fn last(&self) -> TimelineId {
        self.known.last_key_value().map_or(TimelineId::FIRST, |(timeline, _)| *timeline)
    }

    /// The history of a timeline. Of a cluster's whose history is missing: one without ancestors, for what was archived and backed up
    /// on the timeline itself can be restored all the same.
    ///
    /// # Errors
    /// `NoBackup` if there is no such timeline, `Damaged` if its history cannot be read.
    pub fn history(&self, timeline: TimelineId) -> Result<TimelineHistory, BackupError> {
        match self.known.get(&timeline) {
            Some(known) => known.history.clone().or_else(|problem| {
                let damaged = || BackupError::damaged(LogFileName::History(timeline), problem);
                known.without_history.clone().ok_or_else(damaged)
            }),
            None => Err(BackupError::NoBackup {
                problem: format!("there is no timeline {timeline}; the last one is {}", self.last()),
            }),
        }
    }

    /// Those that can be read; of a timeline without an ancestor, one without forks.
    pub fn histories(&self) -> impl Iterator<Item = &TimelineHistory> {
        self.known.values().filter_map(|known| known.history.as_ref().ok())
    }

    /// For whoever has not found something on `timeline`: which others there are. Empty if there are none.
    pub fn hint_of_others(&self, timeline: TimelineId) -> String {
        let others = self.histories().map(|history| history.timeline).filter(|other| *other != timeline);
        let others: Vec<String> = others.map(|other| other.to_string()).collect();
        match others.is_empty() {
            true => String::new(),
            false => format!(
                ". This is timeline {timeline}; the log of others was not read: --timeline {}",
                others.join(", or ")
            ),
        }
    }

    /// The timeline to follow to a destination: the one that is named, or that of production.
    ///
    /// # Errors
    /// `WhichTimeline` if none is named and the repository does not tell; as `history`; what the repository says.
    pub fn follow(
        &self,
        repository: &Repository,
        system: System,
        segment_bytes: u64,
        backups: &[OwnBackup],
        to: Destination,
        named: Option<TimelineId>,
    ) -> Result<Followed, BackupError> {
        let branches = self.branches(repository, system, segment_bytes, backups)?;
        let timeline = match named {
            Some(timeline) => timeline,
            None => choose(&branches, to)?,
        };
        let archived_later = match (to, named) {
            (Destination::Time(micros), None) => archived_later(&branches, timeline, micros),
            _ => Vec::new(),
        };
        let passed_over = passed_over(&branches, timeline, to);
        Ok(Followed { history: self.history(timeline)?, passed_over, archived_later })
    }

    /// Where others have left a timeline.
    fn forks_of(&self, timeline: TimelineId) -> Vec<Lsn> {
        let forks = self.histories().flat_map(|history| &history.forks);
        forks.filter(|fork| fork.parent == timeline).map(|fork| fork.fork).collect()
    }

    /// What competes to be followed: each timeline with what the repository has of it. Looks at the log only if there are several.
    fn branches(
        &self,
        repository: &Repository,
        system: System,
        segment_bytes: u64,
        backups: &[OwnBackup],
    ) -> Result<Vec<Branch>, BackupError> {
        let is_alone = self.known.len() <= 1;
        let branch = |(timeline, known): (&TimelineId, &KnownTimeline)| {
            let log = match is_alone {
                true => None,
                false => {
                    OwnLog::read(repository, system, *timeline, segment_bytes, &self.forks_of(*timeline))?
                }
            };
            let own = backups.iter().filter(|backup| backup.timeline == *timeline).cloned().collect();
            let KnownTimeline { history, begun_micros, .. } = known.clone();
            Ok(Branch { timeline: *timeline, history, begun_micros, log, backups: own })
        };
        self.known.iter().map(branch).collect()
    }
}

/// The timeline that a restore follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its history.
    pub history: TimelineHistory,
    /// Timelines with data that the restore leaves out, and that its target may mean.
    pub passed_over: Vec<PassedOver>,
    /// Those that its target, a time, may mean as well if the log of the timeline that is followed ends before it, and none was named.
    pub archived_later: Vec<PassedOver>,
}

/// Whether a timeline with this history has all of a backup that ended at `end` on `timeline`, and of the log up to there.
pub fn is_on(history: &TimelineHistory, timeline: TimelineId, end: Lsn) -> bool {
    let left = history.forks.iter().find(|fork| fork.parent == timeline);
    timeline == history.timeline || left.is_some_and(|left| left.fork >= end)
}

impl KnownTimeline {
    /// A timeline without a history in the repository. The first one has none. Any other has left a timeline, and nothing says which.
    fn without_history(system: System, timeline: TimelineId) -> KnownTimeline {
        let root = TimelineHistory { timeline, forks: Vec::new() };
        let name = LogFileName::History(timeline);
        let (history, without_history) = match system {
            _ if timeline == TimelineId::FIRST => (Ok(root), None),
            System::Seawall(_) => (Err("it is missing".to_owned()), None),
            System::PostgreSql(_) => {
                let problem = format!(
                    "it is not in the repository: `seawall archive-push pg_wal/{name}` in the cluster's data directory puts it there"
                );
                (Err(problem), Some(root))
            }
        };
        KnownTimeline { history, without_history, begun_micros: i64::MIN }
    }
}

/// A timeline, with what a repository has of it.
#[derive(Clone, Debug)]
struct Branch {
    timeline: TimelineId,
    history: Result<TimelineHistory, String>,
    begun_micros: i64,
    log: Option<OwnLog>,
    /// Backups that were taken on it.
    backups: Vec<OwnBackup>,
}

/// A complete backup.
#[derive(Clone, Debug)]
pub struct OwnBackup {
    /// Its name.
    pub id: String,
    /// The timeline that it ended on.
    pub timeline: TimelineId,
    /// Where it ended.
    pub end: Lsn,
    /// When, in microseconds since 1970.
    pub ended_micros: i64,
}

/// The log that was archived on a timeline.
#[derive(Clone, Copy, Debug)]
struct OwnLog {
    /// There is certainly log before this position. PostgreSQL archives the segment in which a timeline was left as a whole: of a
    /// last segment with a fork, no more than the beginning of its last whole record is certain; of another, the first byte.
    certain: Lsn,
    /// There is none from here on.
    end: Lsn,
    /// When the last of it was archived.
    newest_micros: i64,
}

/// An object of the log that reaches farther than others.
struct Farthest {
    certain: u64,
    end: u64,
    name: StoredName,
}

/// A whole segment.
struct LastSegment {
    place: SegmentPlace,
    start: u64,
    end: u64,
}

impl OwnLog {
    fn read(
        repository: &Repository,
        system: System,
        timeline: TimelineId,
        segment_bytes: u64,
        forks: &[Lsn],
    ) -> Result<Option<OwnLog>, BackupError> {
        let segment = last_segment(repository, system, timeline, segment_bytes)?;
        let segment = segment.map(|segment| segment.farthest(repository, system, forks)).transpose()?;
        let tail = match system {
            System::Seawall(_) => last_tail(repository, system, timeline, segment_bytes)?,
            System::PostgreSql(_) => None,
        };
        let farthest = [segment, tail].into_iter().flatten().max_by_key(|object| object.end);
        let Some(Farthest { certain, end, name }) = farthest else { return Ok(None) };
        let newest_micros = header(repository, name)?.map_or(i64::MIN, |header| header.created_micros);
        Ok(Some(OwnLog { certain: Lsn::new(certain), end: Lsn::new(end), newest_micros }))
    }
}

fn last_segment(
    repository: &Repository,
    system: System,
    timeline: TimelineId,
    segment_bytes: u64,
) -> Result<Option<LastSegment>, BackupError> {
    let numbers = SegmentNumbers::new(system, u32::try_from(segment_bytes).unwrap_or(0));
    let segment = |(name, _): (LogFileName, u64)| match name {
        LogFileName::Segment(place) => Some(place),
        LogFileName::Partial(_) | LogFileName::BackupLabel(..) | LogFileName::History(_) => None,
    };
    let segments = repository.list(system, Some(timeline))?.into_iter().filter_map(segment);
    Ok(segments.max_by_key(|place| place.digits).map(|place| {
        let start = numbers.of(place.digits).saturating_mul(segment_bytes);
        LastSegment { place, start, end: start.saturating_add(segment_bytes) }
    }))
}

impl LastSegment {
    fn farthest(
        &self,
        repository: &Repository,
        system: System,
        forks: &[Lsn],
    ) -> Result<Farthest, BackupError> {
        let is_left_here = forks.iter().any(|fork| (self.start..self.end).contains(&fork.get()));
        let certain = match system {
            System::Seawall(_) => self.end,
            System::PostgreSql(_) if is_left_here => self.certain_of_postgresql(repository, system)?,
            System::PostgreSql(_) => self.start.saturating_add(1),
        };
        let name = StoredName::LogFile(system, LogFileName::Segment(self.place));
        Ok(Farthest { certain, end: self.end, name })
    }

    /// The position after the beginning of its last whole record. All of it counts if it cannot be read: rather a question than rows
    /// that are left out in silence.
    fn certain_of_postgresql(&self, repository: &Repository, system: System) -> Result<u64, BackupError> {
        let mut content = Vec::new();
        match repository.fetch(system, LogFileName::Segment(self.place), &mut content) {
            // Retention has removed it meanwhile.
            Err(ArchiveError::NotFound { .. }) => return Ok(self.start),
            Err(ArchiveError::Damaged { .. }) => return Ok(self.end),
            fetched => drop(fetched?),
        }
        Ok(match postgresql_last_record(&content, self.place.timeline) {
            Ok(Some(record)) => record.get().saturating_add(1),
            Ok(None) => self.start,
            Err(_) => self.end,
        })
    }
}

fn last_tail(
    repository: &Repository,
    system: System,
    timeline: TimelineId,
    segment_bytes: u64,
) -> Result<Option<Farthest>, BackupError> {
    let tail = |(name, _): (ObjectName, u64)| {
        let (segment, _, to) = object_names::parse_tail(&name)?;
        let end = segment.number.saturating_mul(segment_bytes).saturating_add(to);
        Some(Farthest { certain: end, end, name: StoredName::Object(system, name) })
    };
    let tails = repository.list_objects(system, &object_names::tails(timeline))?.into_iter().filter_map(tail);
    Ok(tails.max_by_key(|tail| tail.end))
}

/// `None` if the object is gone by now, or damaged: then it does not say when it was archived.
fn header(repository: &Repository, name: StoredName) -> Result<Option<Header>, BackupError> {
    let Some(path) = name.path() else { return Ok(None) };
    match repository.header_of(&StoredObject { path, bytes: 0, name: Some(name) }) {
        Err(ArchiveError::NotFound { .. } | ArchiveError::Damaged { .. }) => Ok(None),
        header => Ok(header?),
    }
}

/// How far a restore is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// As far as there is log.
    End,
    /// To this position.
    Lsn(Lsn),
    /// To this time, in microseconds since 1970.
    Time(i64),
}

impl Destination {
    /// Log from here on does not matter.
    fn limit(self) -> Lsn {
        match self {
            Destination::Lsn(lsn) => lsn,
            Destination::End | Destination::Time(_) => Lsn::MAX,
        }
    }
}

impl Branch {
    fn had_begun(&self, to: Destination) -> bool {
        match to {
            Destination::End | Destination::Lsn(_) => true,
            Destination::Time(micros) => self.begun_micros <= micros,
        }
    }

    fn has_data(&self) -> bool {
        self.log.is_some() || !self.backups.is_empty()
    }

    /// Whether it has nothing, and the one that it left goes on.
    fn is_empty_beside(&self, branches: &[Branch], limit: Lsn) -> bool {
        let Some(left) = self.history.as_ref().ok().and_then(|history| history.forks.last()) else {
            return false;
        };
        let goes_on = |other: &Branch| other.timeline == left.parent && other.goes_beyond(left.fork, limit);
        !self.has_data() && branches.iter().any(goes_on)
    }

    /// Whether it has something past `fork`, before `limit`.
    fn goes_beyond(&self, fork: Lsn, limit: Lsn) -> bool {
        let has_log = self.log.is_some_and(|log| log.certain > fork);
        fork < limit && (has_log || self.backups.iter().any(|backup| backup.end > fork))
    }

    /// Whether all that matters of it is in `other`, too.
    fn is_contained_in(&self, other: &Branch, limit: Lsn) -> bool {
        let Ok(history) = &other.history else { return false };
        let left = history.forks.iter().find(|fork| fork.parent == self.timeline);
        left.is_some_and(|left| !self.goes_beyond(left.fork, limit))
    }

    /// When something of it was archived or backed up last.
    fn newest_micros(&self) -> i64 {
        let backup = self.newest_backup().map(|backup| backup.ended_micros);
        self.log.map(|log| log.newest_micros).max(backup).unwrap_or(self.begun_micros)
    }

    fn passed_over_for(&self, followed: &Branch, may_be_meant: bool) -> PassedOver {
        PassedOver {
            timeline: self.timeline,
            is_newer: self.newest_micros() > followed.newest_micros(),
            may_be_meant,
            what: self.to_string(),
        }
    }

    fn newest_backup(&self) -> Option<&OwnBackup> {
        self.backups.iter().max_by_key(|backup| backup.ended_micros)
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "timeline {}", self.timeline)?;
        match &self.history {
            Ok(history) => {
                if let Some(left) = history.forks.last() {
                    write!(formatter, ", which left timeline {} at {}", left.parent, left.fork)?;
                }
            }
            Err(problem) => write!(formatter, ", whose history cannot be read ({problem})")?,
        }
        match self.log {
            Some(log) => write!(formatter, " (log up to {}, archived {}", log.end, utc(log.newest_micros))?,
            None => write!(formatter, " (no log of its own")?,
        }
        match self.newest_backup() {
            Some(backup) => write!(formatter, "; newest backup {})", backup.id),
            None => write!(formatter, "; no backup)"),
        }
    }
}

/// The timeline to follow if none is named.
///
/// # Errors
/// `WhichTimeline` if the repository does not tell.
fn choose(branches: &[Branch], to: Destination) -> Result<TimelineId, BackupError> {
    let competing = leaves(&meant(branches, to), to.limit());
    let all_readable = competing.iter().all(|branch| branch.history.is_ok());
    match &competing[..] {
        [] => Ok(TimelineId::FIRST),
        // Whether its history is needed is found out when it is followed.
        [only] if all_readable || branches.len() == 1 => Ok(only.timeline),
        _ => match &backed_up_since_all_began(&competing)[..] {
            [one] if all_readable => Ok(one.timeline),
            _ => Err(which(&competing)),
        },
    }
}

/// Those that the target may mean.
fn meant(branches: &[Branch], to: Destination) -> Vec<&Branch> {
    let is_meant = |branch: &&Branch| branch.had_begun(to) && !branch.is_empty_beside(branches, to.limit());
    let meant: Vec<&Branch> = branches.iter().filter(is_meant).collect();
    // If none had begun, the restore is refused later, with what there is.
    if meant.is_empty() { branches.iter().collect() } else { meant }
}

/// Those that are contained in no other.
fn leaves<'a>(branches: &[&'a Branch], limit: Lsn) -> Vec<&'a Branch> {
    let is_leaf = |branch: &&&Branch| !branches.iter().any(|other| branch.is_contained_in(other, limit));
    branches.iter().filter(is_leaf).copied().collect()
}

fn backed_up_since_all_began<'a>(competing: &[&'a Branch]) -> Vec<&'a Branch> {
    let all_begun = competing.iter().map(|branch| branch.begun_micros).max();
    let is_later = |branch: &&&Branch| branch.newest_backup().map(|backup| backup.ended_micros) > all_begun;
    competing.iter().filter(is_later).copied().collect()
}

fn which(competing: &[&Branch]) -> BackupError {
    let choices: Vec<String> = competing.iter().map(ToString::to_string).collect();
    BackupError::WhichTimeline { choices: choices.join("; ") }
}

/// A timeline with data that a restore leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The timeline.
    pub timeline: TimelineId,
    /// Something was archived or backed up on it later than on the timeline that is followed.
    pub is_newer: bool,
    /// Production may have been on it at the time asked for. It left the timeline that is followed, was archived only after that time,
    /// and the log of the timeline that is followed has no transaction that ended after that time.
    pub may_be_meant: bool,
    /// What there is of it, in words.
    pub what: String,
}

/// What a restore along `timeline` leaves out of what its target may mean.
fn passed_over(branches: &[Branch], timeline: TimelineId, to: Destination) -> Vec<PassedOver> {
    let Some(followed) = branches.iter().find(|branch| branch.timeline == timeline) else {
        return Vec::new();
    };
    let mut meant = meant(branches, to);
    if !meant.iter().any(|branch| branch.timeline == timeline) {
        meant.push(followed);
    }
    let leaves_out = |other: &&Branch| {
        let forks = other.history.iter().flat_map(|history| &history.forks);
        let parts = forks.filter(|fork| fork.parent == timeline).all(|left| left.fork < to.limit());
        other.timeline != timeline && other.has_data() && parts
    };
    let others = leaves(&meant, to.limit()).into_iter().filter(leaves_out);
    others.map(|other| other.passed_over_for(followed, false)).collect()
}

/// The timelines that left `timeline` and were archived only after a time. A history has no time, and is archived late where a
/// failover happens during an outage of the archive. So production may have been on one of them at that time, unless the log of
/// `timeline` goes on after it.
fn archived_later(branches: &[Branch], timeline: TimelineId, micros: i64) -> Vec<PassedOver> {
    let Some(followed) = branches.iter().find(|branch| branch.timeline == timeline) else {
        return Vec::new();
    };
    let has_left = |history: &TimelineHistory| history.forks.iter().any(|fork| fork.parent == timeline);
    let is_later = |branch: &&Branch| {
        branch.history.as_ref().is_ok_and(has_left) && !branch.had_begun(Destination::Time(micros))
    };
    let later: Vec<&Branch> = branches.iter().filter(is_later).collect();
    let leaves = leaves(&later, Lsn::MAX).into_iter();
    leaves.map(|other| other.passed_over_for(followed, true)).collect()
}

#[cfg(test)]
mod tests;
