//! Searches the end of a restore in a log that arrives segment by segment.
//!
//! The target is passed, and no more of the log is wanted:
//! * `Lsn`: when the log was read up to there.
//! * `Time`: at the first commit, of a transaction or of a load, that was made later, as PostgreSQL does it. Commits are stamped before
//!   they get their place in the log, and clocks are set back, so times do not quite ascend; the first later one counts.
//! * `RestorePoint`: at the first one of the name that lies behind the backup.
//! * `Latest`: never.

use std::ops::ControlFlow;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::DatabaseKeys;
use seawall_tree::Superblock;
use seawall_types::{Lsn, utc};
use seawall_wal::{LogReader, Record};

use super::{RestoreEnd, RestoreTarget};
use crate::error::Error;
use crate::inspect::log_records::open_reader;
use crate::recovery::timeline::ReplayOntoBackup;

/// The log of the database that is being restored.
pub(super) struct SearchedLog {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) superblock: Superblock,
    pub(super) keys: Option<DatabaseKeys>,
}

impl SearchedLog {
    /// Reads it from the redo point on.
    fn open(&self) -> Result<LogReader, Error> {
        open_reader(&self.disk, &self.superblock, self.keys.as_ref(), self.superblock.redo_point)
    }
}

/// Looks for the place to stop at: see the module.
pub struct EndSearch {
    log: SearchedLog,
    target: RestoreTarget,
    /// The backup ends here: no restore point before counts.
    at_least: Lsn,
    limits: ReplayOntoBackup,
    /// From the first segment on.
    reader: Option<LogReader>,
    /// The log is there up to here.
    arrived: Lsn,
    found: Option<RestoreEnd>,
    last: Option<Lsn>,
    last_commit_micros: Option<i64>,
}

impl std::fmt::Debug for EndSearch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("EndSearch");
        shown.field("target", &self.target).field("arrived", &self.arrived).field("found", &self.found);
        shown.finish_non_exhaustive()
    }
}

impl EndSearch {
    pub(super) fn new(
        log: SearchedLog,
        target: RestoreTarget,
        at_least: Lsn,
        complete_from: Lsn,
    ) -> EndSearch {
        EndSearch {
            target,
            at_least,
            limits: ReplayOntoBackup { complete_from, end: Lsn::MAX },
            reader: None,
            arrived: log.superblock.redo_point,
            found: None,
            last: None,
            last_commit_micros: None,
            log,
        }
    }

    /// The log is there up to `arrived`: reads it. `Break` when no more of it is wanted.
    ///
    /// # Errors
    /// `LoadedPastLog` if rows on the way are in no log; `Log` for damage, with the place.
    pub fn read_until(&mut self, arrived: Lsn) -> Result<ControlFlow<()>, Error> {
        self.arrived = arrived;
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.log.open()?,
        };
        reader.set_arrived(arrived);
        let read = self.read(&mut reader);
        self.reader = Some(reader);
        read
    }

    /// The place to stop at: there is no more of the log, or no more is wanted.
    ///
    /// # Errors
    /// `RestoreTarget` if the log does not reach the target; `Log` for damage.
    pub fn end(&mut self) -> Result<RestoreEnd, Error> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        let end = match &mut self.reader {
            Some(reader) => {
                reader.check_cut_off().map_err(|error| Error::log(&error))?;
                reader.position()
            }
            None => self.arrived,
        };
        if self.target == RestoreTarget::Latest && self.reader.is_some() {
            return Ok(self.here(end));
        }
        Err(Error::RestoreTarget { problem: self.not_found() })
    }

    fn read(&mut self, reader: &mut LogReader) -> Result<ControlFlow<()>, Error> {
        loop {
            if self.is_reached(reader.position()) {
                self.found = Some(self.here(reader.position()));
                return Ok(ControlFlow::Break(()));
            }
            let Some(record) = reader.next().map_err(|error| Error::log(&error))? else { break };
            let span = record.span;
            let decoded = record
                .decode()
                .map_err(|error| Error::Log { message: format!("record at {}: {error}", span.start) })?;
            let time = time_of(&decoded);
            if self.is_beyond(span.end, time) {
                self.found = Some(self.here(span.start));
                return Ok(ControlFlow::Break(()));
            }
            if let Record::BulkLoad(load) = &decoded
                && self.limits.lacks(span.start)
            {
                return Err(Error::LoadedPastLog { table: load.table.get(), lsn: span.start });
            }
            self.last = Some(span.end);
            self.last_commit_micros = time.or(self.last_commit_micros);
            if let (RestoreTarget::RestorePoint(wanted), Record::RestorePoint(point)) =
                (&self.target, &decoded)
                && point.name == wanted
                && span.end >= self.at_least
            {
                self.found = Some(self.here(span.end));
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.is_reached(self.arrived) {
            // Of a record that goes on behind what there is, nothing was committed up to there.
            reader.check_cut_off().map_err(|error| Error::log(&error))?;
            self.found = Some(self.here(reader.position()));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn here(&self, end: Lsn) -> RestoreEnd {
        RestoreEnd { end: self.last.unwrap_or(end), last_commit_micros: self.last_commit_micros }
    }

    /// Whether nothing more is wanted when the log was read up to `position`.
    fn is_reached(&self, position: Lsn) -> bool {
        matches!(self.target, RestoreTarget::Lsn(lsn) if position >= lsn)
    }

    /// Whether a record that ends at `end` is not wanted any more.
    fn is_beyond(&self, end: Lsn, time: Option<i64>) -> bool {
        match self.target {
            RestoreTarget::Lsn(lsn) => end > lsn,
            RestoreTarget::Time(wanted) => time.is_some_and(|time| time > wanted),
            RestoreTarget::Latest | RestoreTarget::RestorePoint(_) => false,
        }
    }

    fn not_found(&self) -> String {
        let end = self.arrived;
        match &self.target {
            RestoreTarget::Lsn(lsn) => format!("the log in the repository ends at {end}, before {lsn}"),
            RestoreTarget::Time(micros) => {
                let last = self.last_commit_micros;
                format!(
                    "the log in the repository ends at {end} and has no commit after the time asked for, {}; the last one is \
                     of {}: to restore all there is, ask for the latest",
                    utc(*micros),
                    last.map_or_else(|| "before the backup".to_owned(), utc)
                )
            }
            RestoreTarget::RestorePoint(name) => {
                format!(
                    "there is no restore point {name:?} after this backup in the log, which ends at {end}"
                )
            }
            RestoreTarget::Latest => "the log is empty".to_owned(),
        }
    }
}

/// When what a record commits was committed, in microseconds since 1970.
fn time_of(record: &Record<'_>) -> Option<i64> {
    match record {
        Record::Commit(commit) => Some(commit.time_micros),
        Record::Prepare(prepare) => Some(prepare.commit.time_micros),
        Record::CommitPrepared(decision) | Record::RollbackPrepared(decision) => {
            Some(decision.commit.time_micros)
        }
        Record::BulkLoad(load) => Some(load.time_micros),
        Record::Checkpoint(_)
        | Record::TimelineSwitch(_)
        | Record::RestorePoint(_)
        | Record::NoOp
        | Record::PageImages(_) => None,
    }
}
