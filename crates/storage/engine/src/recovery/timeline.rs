//! Timelines: opens a database on a new timeline. Restore points: named positions of the log.
//!
//! ```text
//!   recovery of the log on timeline 1, to its end --> wal::begin_timeline (history, segment, switch record)
//!       --> superblock, both copies: timeline 2 --> open
//! ```
//! **If the power goes** before the superblock says so, the database is on timeline 1, as it was, and what was made of
//! timeline 2 is never used: see `wal::switch`. No checkpoint, no removal, no look at a page: what a promotion costs is
//! one history file, one segment, one record and two superblocks.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_tree::{Superblock, Tree};
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::{
    LogEnd, LogError, LogFiles, OpenLog, RESTORE_POINT_NAME_BYTES_MAX, ReceivedLog, RestorePoint,
    TimelineHistory,
};

use crate::engine::Engine;
use crate::error::Error;
use crate::log::setup::LogSetup;

/// A timeline to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTimeline<'a> {
    /// Why, for people: it ends up in the timeline's history file.
    pub reason: &'a str,
    /// Its number: above that of the timeline which it leaves, and no timeline in the log directory may have it. For callers that
    /// agree on numbers among servers, as on the terms of an election. Default: one above all numbers in the log directory.
    pub number: Option<TimelineId>,
}

impl<'a> From<&'a str> for NewTimeline<'a> {
    fn from(reason: &'a str) -> NewTimeline<'a> {
        NewTimeline { reason, number: None }
    }
}

/// How a replay onto a backup differs: see `restore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayOntoBackup {
    /// See `BackupBase`.
    pub(crate) complete_from: Lsn,
    /// Where it stops: the end of a record.
    pub(crate) end: Lsn,
}

impl ReplayOntoBackup {
    /// Whether rows that were loaded past the log, by a record at `lsn`, are missing.
    pub(crate) fn lacks(&self, lsn: Lsn) -> bool {
        lsn >= self.complete_from
    }
}

/// On which timeline a database goes on when it is opened for writing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Continuation<'a> {
    /// On the one that it was on.
    Same,
    /// On a new one, which begins where the log ends.
    New(NewTimeline<'a>),
    /// On the one that it was on, which another server writes.
    Followed,
    /// A restore of a backup: on a new timeline, which begins where the replay onto the backup's rows stops.
    Restored { new: NewTimeline<'a>, onto_backup: ReplayOntoBackup },
}

/// The log that a new timeline leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    /// Where.
    pub(crate) end: LogEnd,
    /// If this process has received it, and receives no more.
    pub(crate) received: Option<&'a ReceivedLog>,
}

/// The history of the timeline that `superblock` is on.
pub(crate) fn history_of(disk: &Arc<dyn Disk>, superblock: &Superblock) -> Result<TimelineHistory, Error> {
    let history = TimelineHistory::load(disk, superblock.timeline).map_err(|error| Error::log(&error))?;
    history.check_mark(superblock.timeline_mark).map_err(|error| Error::log(&error))?;
    Ok(history)
}

/// The segments of a database's log.
pub(crate) fn list_log_files(disk: &Arc<dyn Disk>, superblock: &Superblock) -> Result<LogFiles, Error> {
    let history = history_of(disk, superblock)?;
    let listed = LogFiles::list(&**disk, &history, superblock.segment_bytes);
    listed.map_err(|error| Error::log(&error))
}

/// The number of a new timeline.
pub(crate) fn number_of(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    new: NewTimeline<'_>,
) -> Result<TimelineId, Error> {
    let timeline = seawall_wal::next_timeline(&**disk, superblock.timeline, new.number);
    timeline.map_err(|error| match error {
        LogError::TimelineNumber { wanted, last } => Error::TimelineNumber { wanted, last },
        other => Error::log(&other),
    })
}

/// Begins a new timeline where the log ends, and makes the database go on there: see the module.
pub(crate) fn begin(
    setup: &LogSetup<'_>,
    tree: &Tree,
    superblock: &mut Superblock,
    left: Left<'_>,
    new: NewTimeline<'_>,
) -> Result<OpenLog, Error> {
    let begun = begin_log(setup, superblock, left, new)?;
    go_on(tree, superblock, begun)
}

/// A new timeline of which the log is there, and which nothing names yet.
pub(crate) struct BegunTimeline {
    log: OpenLog,
    next: Superblock,
}

/// The log of a new timeline, durable: the first half of `begin`.
pub(crate) fn begin_log(
    setup: &LogSetup<'_>,
    superblock: &Superblock,
    left: Left<'_>,
    new: NewTimeline<'_>,
) -> Result<BegunTimeline, Error> {
    let end = left.end;
    let environment = setup.environment;
    let disk = &environment.disk;
    let timeline = number_of(disk, superblock, new)?;
    // Two copies of a database may both begin a timeline here, and neither knows of the other: see `wal::timeline`.
    let mut mark = [0; 16];
    environment.random.fill(&mut mark);
    let mark = TimelineMark::from_bytes(mark);
    let history = history_of(disk, superblock)?.fork(timeline, end.lsn, mark, new.reason);
    let next = Superblock { timeline, timeline_mark: mark, ..superblock.clone() };
    let log_options = setup.log_options(&next, history);
    let time_micros = environment.clock.wall_micros();
    let begun = match left.received {
        Some(received) => received.begin_timeline(&log_options, end, time_micros),
        None => seawall_wal::begin_timeline(disk, log_options, end, time_micros),
    };
    let log = begun.map_err(|error| Error::log(&error))?;
    tracing::info!(parent = %superblock.timeline, %timeline, fork = %end.lsn, %mark, reason = new.reason,
        "a new timeline begins");
    Ok(BegunTimeline { log, next })
}

/// Makes the database go on there: the second half of `begin`.
pub(crate) fn go_on(
    tree: &Tree,
    superblock: &mut Superblock,
    begun: BegunTimeline,
) -> Result<OpenLog, Error> {
    for _copy in 0..2 {
        tree.store_superblock(&begun.next).map_err(|error| Error::tree(&error))?;
    }
    *superblock = begun.next;
    Ok(begun.log)
}

impl Engine {
    /// Writes a named position into the log, durably; the position.
    pub(crate) fn create_restore_point(&self, name: &str) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        if !(1..=RESTORE_POINT_NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(Error::RestorePointName {
                name: name.to_owned(),
                limit: RESTORE_POINT_NAME_BYTES_MAX,
            });
        }
        let mut record = RestorePoint { name, time_micros: self.clock().wall_micros() }.prepare();
        let appended = self.append(&mut record, |_| Ok::<_, std::convert::Infallible>(()));
        let Ok((span, ())) = appended?;
        self.log()?.flush_until(span.end)?;
        Ok(span.end)
    }

    pub(crate) fn timeline(&self) -> TimelineId {
        self.redo.superblock().timeline
    }
}
