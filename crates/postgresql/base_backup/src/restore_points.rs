//! Which backup a restore point lies behind: the log says, so it is read.
//!
//! ```text
//!   [ backup a ]----- x ------[ backup b ]---------- end of the log
//!                     from here: b's log first, from its end on; then a's, up to where b ended
//! ```

use seawall_archive::{LogFileName, Repository, SegmentPlace, System, postgresql_restore_points};
use seawall_types::Lsn;
use seawall_wal::TimelineHistory;

use super::catalog::StoredPostgreSqlBackup;
use super::choose::Stored;
use super::error::PostgreSqlBackupError;
use super::segments::{SegmentSize, StoredSegments};
use seawall_backup::BackupError;

/// A look for a restore point along a history.
pub(super) struct Search<'a> {
    pub(super) repository: &'a Repository,
    pub(super) system: System,
    pub(super) history: &'a TimelineHistory,
    pub(super) name: &'a str,
    /// Segments that are read at a time.
    pub(super) threads: usize,
}

impl Search<'_> {
    /// Of some backups on the way, oldest first, the newest one that the restore point lies behind. `read` is told how many
    /// segments were read.
    pub(super) fn backup<'b>(
        &self,
        backups: &[&'b StoredPostgreSqlBackup],
        read: &mut dyn FnMut(u64),
    ) -> Result<&'b StoredPostgreSqlBackup, PostgreSqlBackupError> {
        let mut before = None;
        let mut count = 0;
        let Some(newest) = backups.last() else { return Err(self.none(count)) };
        let size = SegmentSize::new(newest.manifest.segment_bytes).expect("the manifest was checked");
        let segments = StoredSegments::list(self.repository, self.system, self.history, size)?;
        for backup in backups.iter().rev() {
            let first = size.number(backup.manifest.end);
            let end = size.number(segments.reach(self.history, first).end);
            // What lies behind the next backup was read for that.
            let end = before.map_or(end, |newer: Lsn| end.min(size.number(newer) + 1));
            let places: Vec<SegmentPlace> =
                (first..end).map(|number| size.place_along(self.history, number)).collect();
            for some in places.chunks(self.threads.max(1)) {
                count += some.len() as u64;
                if self.are_behind(some, backup.manifest.end)? {
                    return Ok(backup);
                }
                read(count);
            }
            before = Some(backup.manifest.end);
        }
        Err(self.none(count))
    }

    /// The same refusal, with the other timelines. Their log is not read: it may be all that there is in the repository.
    pub(super) fn with_other_timelines(
        &self,
        stored: &Stored,
        refused: PostgreSqlBackupError,
    ) -> PostgreSqlBackupError {
        let PostgreSqlBackupError::Target { problem } = refused else {
            return refused;
        };
        let hint = stored.timelines.hint_of_others(self.history.timeline);
        PostgreSqlBackupError::Target { problem: format!("{problem}{hint}") }
    }

    fn none(&self, count: u64) -> PostgreSqlBackupError {
        let problem = format!(
            "there is no restore point {:?} in the log of timeline {} in the repository behind its oldest backup ({count} segments were \
             read); --backup NAME restores from a backup all the same",
            self.name, self.history.timeline
        );
        PostgreSqlBackupError::Target { problem }
    }

    /// Whether it is in one of these segments, at or behind `end`.
    fn are_behind(&self, places: &[SegmentPlace], end: Lsn) -> Result<bool, PostgreSqlBackupError> {
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                places.iter().map(|place| scope.spawn(move || self.is_behind(*place, end))).collect();
            // In order, and no further: what lies behind the restore point need not be good.
            for reader in readers {
                let panicked = |_| {
                    PostgreSqlBackupError::io("cannot read the log")(std::io::Error::other(
                        "a thread panicked",
                    ))
                };
                if reader.join().map_err(panicked)?? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn is_behind(&self, place: SegmentPlace, end: Lsn) -> Result<bool, PostgreSqlBackupError> {
        let mut content = Vec::new();
        self.repository.fetch(self.system, LogFileName::Segment(place), &mut content)?;
        let points = postgresql_restore_points(&content, place.timeline);
        let points = points.map_err(|problem| BackupError::damaged(place, problem.to_string()))?;
        Ok(points.iter().any(|point| point.name == self.name && point.lsn >= end))
    }
}
