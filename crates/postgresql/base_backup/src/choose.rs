//! Which backup a restore begins with, and whether the log reaches its target: found out before anything is written.
//!
//! ```text
//!   timeline 1  ---[ backup a ]------------[ backup b ]-----x left
//!   timeline 2                      `------------[ backup c ]--------- log ends
//!                                   fork      ^ target on timeline 2: from a
//! ```

use std::collections::BTreeSet;

use seawall_archive::{Header, LogFileName, Repository, System, postgresql_last_transaction_end};
use seawall_types::{Lsn, TimelineId, utc};
use seawall_wal::TimelineHistory;

use super::catalog::StoredPostgreSqlBackup;
use super::error::PostgreSqlBackupError;
use super::segments::{Reach, SegmentSize, StoredSegments};
use seawall_backup::BackupError;
use seawall_backup::timelines::{Destination, Followed, OwnBackup, Timelines};

/// Segments that are searched for the last transaction, newest first.
const SEARCHED_MAX: usize = 64;

/// How far a cluster is to be recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PostgreSqlTarget {
    /// Up to the end of the log.
    #[default]
    Latest,
    /// With every record that begins before this position.
    Lsn(Lsn),
    /// With every commit up to this time, in microseconds since 1970.
    Time(i64),
    /// Up to the restore point with this name.
    RestorePoint(String),
}

/// What a repository has of a cluster.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) backups: Vec<StoredPostgreSqlBackup>,
    pub(super) timelines: Timelines,
}

impl Stored {
    /// The history to follow: that of the timeline that was asked for, or of the one that production is on.
    pub(super) fn follow(
        &self,
        repository: &Repository,
        system: System,
        target: &PostgreSqlTarget,
        timeline: Option<TimelineId>,
    ) -> Result<Followed, PostgreSqlBackupError> {
        let Some(first) = self.backups.first() else {
            let problem = "the repository has none of this cluster that is complete".to_owned();
            return Err(BackupError::NoBackup { problem }.into());
        };
        let own: Vec<OwnBackup> = self.backups.iter().map(own_backup).collect();
        let segment_bytes = u64::from(first.manifest.segment_bytes);
        let destination = match target {
            PostgreSqlTarget::Latest | PostgreSqlTarget::RestorePoint(_) => Destination::End,
            PostgreSqlTarget::Lsn(lsn) => Destination::Lsn(*lsn),
            PostgreSqlTarget::Time(micros) => Destination::Time(*micros),
        };
        Ok(self.timelines.follow(repository, system, segment_bytes, &own, destination, timeline)?)
    }

    /// The backup to begin with along a history: the newest one that ends at or before the target.
    pub(super) fn choose(
        &self,
        target: &PostgreSqlTarget,
        history: &TimelineHistory,
        named: Option<&str>,
    ) -> Result<&StoredPostgreSqlBackup, PostgreSqlBackupError> {
        let refuse = |problem: String| Err(BackupError::NoBackup { problem }.into());
        let timeline = history.timeline;
        let on_it = |backup: &&StoredPostgreSqlBackup| backup.is_on(history);
        let is_named = |backup: &&StoredPostgreSqlBackup| named.is_none_or(|name| backup.id == name);
        let fitting: Vec<&StoredPostgreSqlBackup> =
            self.backups.iter().filter(on_it).filter(is_named).collect();
        let Some(first) = fitting.first() else {
            return refuse(match named {
                Some(name) if !self.backups.iter().any(|backup| backup.id == name) => {
                    format!("there is none with the name {name}")
                }
                _ => {
                    let others: BTreeSet<u32> =
                        self.backups.iter().map(|backup| backup.manifest.timeline.get()).collect();
                    format!(
                        "none was taken on timeline {timeline}, or on an ancestor before it was left; there are some on these \
                         timelines: {others:?}"
                    )
                }
            });
        };
        let is_before = |backup: &&&StoredPostgreSqlBackup| match target {
            PostgreSqlTarget::Lsn(lsn) => backup.manifest.end <= *lsn,
            PostgreSqlTarget::Time(micros) => backup.manifest.ended_micros <= *micros,
            PostgreSqlTarget::Latest | PostgreSqlTarget::RestorePoint(_) => true,
        };
        match fitting.iter().rfind(is_before) {
            Some(backup) => Ok(backup),
            None => refuse(format!(
                "the oldest one on the way to it, {}, ends at {} ({}), later than that",
                first.id,
                first.manifest.end,
                utc(first.manifest.ended_micros)
            )),
        }
    }
}

impl Stored {
    /// The backups that a timeline with this history has all of, oldest first.
    pub(super) fn on_the_way(&self, history: &TimelineHistory) -> Vec<&StoredPostgreSqlBackup> {
        self.backups.iter().filter(|backup| backup.is_on(history)).collect()
    }
}

fn own_backup(backup: &StoredPostgreSqlBackup) -> OwnBackup {
    let manifest = &backup.manifest;
    OwnBackup {
        id: backup.id.clone(),
        timeline: manifest.timeline,
        end: manifest.end,
        ended_micros: manifest.ended_micros,
    }
}

/// The log that is there for a restore.
pub(super) struct LogCheck<'a> {
    pub(super) repository: &'a Repository,
    pub(super) system: System,
    pub(super) history: &'a TimelineHistory,
    pub(super) timelines: &'a Timelines,
    pub(super) backup: &'a StoredPostgreSqlBackup,
}

impl LogCheck<'_> {
    /// Whether the log goes from the backup to the target without a hole; how far it goes.
    pub(super) fn check(&self, target: &PostgreSqlTarget) -> Result<Reach, PostgreSqlBackupError> {
        let size = self.segment_size();
        let segments = StoredSegments::list(self.repository, self.system, self.history, size)?;
        let reach = segments.reach(self.history, size.number(self.backup.manifest.start));
        self.check_target(target, &reach)?;
        Ok(reach)
    }

    fn segment_size(&self) -> SegmentSize {
        SegmentSize::new(self.backup.manifest.segment_bytes).expect("the manifest was checked")
    }

    fn check_target(&self, target: &PostgreSqlTarget, reach: &Reach) -> Result<(), PostgreSqlBackupError> {
        let manifest = &self.backup.manifest;
        if reach.end < manifest.end {
            return Err(match reach.is_gap {
                true => self.gap(reach)?,
                false => BackupError::LogTooShort { log_end: reach.end, needed: manifest.end }.into(),
            });
        }
        match target {
            PostgreSqlTarget::Lsn(lsn) if *lsn < reach.end => Ok(()),
            PostgreSqlTarget::Time(micros) => self.check_time(*micros, reach),
            // It was found before, or lies where somebody says that it does.
            PostgreSqlTarget::RestorePoint(_) => Ok(()),
            _ if reach.is_gap => Err(self.gap(reach)?),
            PostgreSqlTarget::Lsn(lsn) => Err(too_far(format!(
                "{lsn} lies after the end of the log of timeline {} in the repository, {}; restore with --latest, or wait for the \
                 archive",
                self.history.timeline, reach.end
            ))),
            PostgreSqlTarget::Latest => Ok(()),
        }
    }

    /// A segment is archived when it is over: whatever it has was committed before.
    fn check_time(&self, micros: i64, reach: &Reach) -> Result<(), PostgreSqlBackupError> {
        let archived = self.last(reach)?.map(|header| header.created_micros);
        if archived.is_none_or(|archived| micros <= archived) {
            return Ok(());
        }
        if reach.is_gap {
            return Err(self.gap(reach)?);
        }
        let behind = format!("the last segment of timeline {} in the repository", self.history.timeline);
        let last = reach.last.map_or_else(String::new, |place| place.to_string());
        Err(too_far(format!(
            "that is later than {behind}, {last}, was archived ({}); restore with --latest, or wait for the \
             archive{}",
            utc(archived.unwrap_or(0)),
            self.timelines.hint_of_others(self.history.timeline)
        )))
    }

    /// Whether the log has a transaction that ended after a time, as far as its newest segment with any says. If so, PostgreSQL's
    /// recovery stops at that time. `false` if a segment on the way cannot be read, or the last ones have no transaction: this is
    /// asked for a warning, so it refuses no restore and does not read an idle cluster's whole log.
    pub(super) fn goes_beyond(&self, micros: i64, reach: &Reach) -> bool {
        let size = self.segment_size();
        let numbers = size.number(self.backup.manifest.start)..size.number(reach.end);
        for number in numbers.rev().take(SEARCHED_MAX) {
            let place = size.place_along(self.history, number);
            let mut content = Vec::new();
            if self.repository.fetch(self.system, LogFileName::Segment(place), &mut content).is_err() {
                return false;
            }
            match postgresql_last_transaction_end(&content, place.timeline) {
                Ok(None) => {}
                Ok(Some(end)) => return end > micros,
                Err(_) => return false,
            }
        }
        false
    }

    fn last(&self, reach: &Reach) -> Result<Option<Header>, PostgreSqlBackupError> {
        let Some(place) = reach.last else { return Ok(None) };
        Ok(self.repository.stat(self.system, LogFileName::Segment(place))?)
    }

    fn gap(&self, reach: &Reach) -> Result<PostgreSqlBackupError, PostgreSqlBackupError> {
        let place = reach.missing;
        let gaps = self.repository.gaps(self.system)?;
        let why = match gaps.iter().find(|gap| gap.contains(place)) {
            Some(gap) => {
                let record = self.repository.read_gap(self.system, *gap)?;
                format!("{} to {} were left out on purpose: {}", gap.first, gap.last, record.reason)
            }
            None => format!("{place} is not in the repository, and later log is"),
        };
        Ok(too_far(format!(
            "there is a gap on the way: {why}. Restore to a place before {}, or from a backup after it",
            reach.end
        )))
    }
}

fn too_far(problem: String) -> PostgreSqlBackupError {
    PostgreSqlBackupError::Target { problem }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_backup::PostgreSqlManifest;
    use seawall_types::TimelineMark;

    use super::*;

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    fn backup(id: &str, on: u32, end: u64) -> StoredPostgreSqlBackup {
        let manifest = PostgreSqlManifest {
            system: 1,
            release: 150_000,
            timeline: timeline(on),
            segment_bytes: 1 << 20,
            start: Lsn::new(end - 10),
            end: Lsn::new(end),
            started_micros: 0,
            ended_micros: i64::try_from(end).unwrap(),
            label: String::new(),
            files: 1,
            has_bad_pages: false,
            bad_files: Vec::new(),
            parts: Vec::new(),
        };
        StoredPostgreSqlBackup { id: id.to_owned(), manifest }
    }

    /// Timeline 2 left 1 at 250; 3 left it at 150.
    fn stored() -> (Stored, BTreeMap<u32, TimelineHistory>) {
        let first = TimelineHistory::first();
        let fork = |number, at| first.fork(timeline(number), Lsn::new(at), TimelineMark::NONE, "");
        let histories = [(1, first.clone()), (2, fork(2, 250)), (3, fork(3, 150))].into();
        let backups =
            vec![backup("a", 1, 100), backup("b", 1, 200), backup("c", 1, 300), backup("d", 2, 400)];
        (Stored { backups, timelines: Timelines::default() }, histories)
    }

    #[test]
    fn the_newest_backup_before_the_target_on_the_way_is_chosen() {
        use PostgreSqlTarget::{Latest, RestorePoint, Time};
        let (stored, histories) = stored();
        let at = |lsn| PostgreSqlTarget::Lsn(Lsn::new(lsn));
        let named = || RestorePoint("x".to_owned());
        for (target, on, expected) in [
            (Latest, 3, "a"),
            (Latest, 1, "c"),
            (Latest, 2, "d"),
            (named(), 2, "d"),
            (at(400), 2, "d"),
            (at(399), 2, "b"),
            (at(300), 1, "c"),
            (at(299), 1, "b"),
            (at(100), 3, "a"),
            (Time(300), 1, "c"),
            (Time(299), 1, "b"),
            (Time(450), 2, "d"),
        ] {
            let chosen = stored.choose(&target, &histories[&on], None).unwrap();
            assert_eq!(chosen.id, expected, "{target:?} {on:?}");
        }
        assert_eq!(stored.choose(&Latest, &histories[&2], Some("a")).unwrap().id, "a");
    }

    #[test]
    fn what_no_backup_leads_to_is_refused_with_what_there_is() {
        use PostgreSqlTarget::{Latest, Lsn as At, Time};
        let (stored, histories) = stored();
        for (target, on, named, expected) in [
            (At(Lsn::new(99)), 1, None, "the oldest one on the way to it, a"),
            (Time(99), 2, None, "ends at 0/64"),
            (Latest, 3, Some("b"), "none was taken on timeline 3"),
            (Latest, 1, Some("z"), "none with the name z"),
            (At(Lsn::new(150)), 1, Some("b"), "later than that"),
        ] {
            let error = stored.choose(&target, &histories[&on], named).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
