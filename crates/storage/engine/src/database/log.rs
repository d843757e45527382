//! The log of an open database: its archives, who keeps it, and names of positions in it.

use std::time::Duration;

use seawall_io::OpenMode;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HoldInfo, HoldOptions, LogStream, LogStreamError, SegmentName, TimelineHistory};

use super::Database;
use crate::archiver::ArchiveWatch;
use crate::catalog::Table;
use crate::error::Error;
use crate::inspect::logged_rows::LoggedRows;
use crate::log::hold::LogHold;
use crate::recovery::archive_mode::{ArchiveMode, is_archiving_off};

/// The log of an open database: see [`Database::log`].
#[derive(Clone, Copy, Debug)]
pub struct DatabaseLog<'a> {
    database: &'a Database,
}

impl<'a> DatabaseLog<'a> {
    pub(super) fn new(database: &'a Database) -> DatabaseLog<'a> {
        DatabaseLog { database }
    }

    /// Makes everything committed so far durable, and returns when all archives that are required have it; up to which LSN that is. With
    /// `Background::Manual` the calling thread archives; nobody else does then.
    ///
    /// # Errors
    /// `NoArchive`; `ArchiveGap` if what was committed before was left out of one of them; `Archive` if one of them does not take it (the database's own thread goes on trying instead);
    /// `NotArchived` if the database is closed meanwhile, or, with `Background::Manual`, standbys lack some of it that must have it
    /// first; `Cancelled`; `Stopped`.
    pub fn archive_now(&self) -> Result<Lsn, Error> {
        let engine = self.database.engine();
        let flushed = engine.flush()?;
        engine.wait_archived(flushed, Some(&self.database.session.waits.cancel))?;
        Ok(flushed)
    }

    /// What the log was given for a table since the database was opened, or the table was truncated. Beyond 65,536 tables, those that
    /// wrote least may count less.
    pub fn rows_of(&self, table: &Table) -> LoggedRows {
        let storage = table.object.newest_storage();
        storage.map_or_else(LoggedRows::default, |storage| {
            self.database.engine().counters.logged_by_storage.of(storage)
        })
    }

    /// To wait for gaps in the archive of this name.
    ///
    /// # Errors
    /// `NoArchive` if the options have none of this name.
    pub fn watch_archive(&self, name: &str) -> Result<ArchiveWatch, Error> {
        self.database.engine().watch_archive(name)
    }

    /// Gives the end of the log a name, to recover to it later. Durable when it returns; the position.
    ///
    /// # Errors
    /// `RestorePointName`, and those of a commit.
    pub fn create_restore_point(&self, name: &str) -> Result<Lsn, Error> {
        self.database.engine().create_restore_point(name)
    }

    /// Waits until the log is on another timeline than `timeline`, for `limit` at most: of a standby that is being promoted, or goes on to
    /// the next timeline of its upstream. Whether it is.
    pub fn wait_until_left(&self, timeline: TimelineId, limit: Duration) -> bool {
        self.database.engine().wait_until_left(timeline, limit)
    }

    /// A stream of the log's bytes from `from` on, as a standby receives it. Without a hold, what it has not read may be removed.
    ///
    /// # Errors
    /// `Log` if the log is not kept from there on, or does not go so far; `ReadOnly`.
    pub fn stream(&self, from: Lsn) -> Result<LogStream, Error> {
        let stream = self.database.engine().log.stream(from).ok_or(Error::ReadOnly)?;
        stream.map_err(|error| Error::log(&error))
    }

    /// As `stream`, with the reason why there is none.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn open_stream(&self, from: Lsn) -> Result<Result<LogStream, LogStreamError>, Error> {
        self.database.engine().log.stream(from).ok_or(Error::ReadOnly)
    }

    /// The end of what is durable.
    pub fn flushed(&self) -> Lsn {
        self.database.engine().log.flushed()
    }

    /// Bytes of a segment file.
    pub fn segment_bytes(&self) -> u64 {
        self.database.engine().redo.superblock().segment_bytes
    }

    /// The history of a timeline, of which this directory has the file.
    ///
    /// # Errors
    /// `Log` if there is no such file, or it is damaged.
    pub fn timeline_history(&self, timeline: TimelineId) -> Result<TimelineHistory, Error> {
        let disk = &self.database.engine().environment.disk;
        TimelineHistory::load(disk, timeline).map_err(|error| Error::log(&error))
    }

    /// Whether the database may archive: for a copy of it, which may no more.
    ///
    /// # Errors
    /// `Io`.
    pub fn archive_mode(&self) -> Result<ArchiveMode, Error> {
        let is_off = is_archiving_off(&*self.database.engine().environment.disk)?;
        Ok(if is_off { ArchiveMode::Off } else { ArchiveMode::Preserve })
    }

    /// Fills `buffer` with the bytes of a segment file from `offset` on, as they are.
    ///
    /// # Errors
    /// `Io`.
    pub fn read_segment(&self, name: SegmentName, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let disk = &self.database.engine().environment.disk;
        let file = disk.open(&name.path(), OpenMode::Read);
        file.and_then(|file| file.read_exact_at(buffer, offset)).map_err(|error| Error::io(&error))
    }

    /// The timeline that is written on.
    pub fn timeline(&self) -> TimelineId {
        self.database.engine().timeline()
    }

    /// Keeps it from `from` on, or from where recovery starts, for whoever is to read it: see [`LogHold`]. Durable when
    /// it returns.
    ///
    /// # Errors
    /// `LogHold` if there is one of this name, there are too many, or it is not kept from there on any more; `ReadOnly`.
    pub fn hold(&self, name: &str, options: HoldOptions, from: Option<Lsn>) -> Result<LogHold, Error> {
        self.database.engine().hold_log(name, options, from)
    }

    /// A hold that was made before, by this process or another.
    ///
    /// # Errors
    /// `NoSuchLogHold`; `LogHoldLost` if it held more than its limit: what it needs may be gone.
    pub fn find_hold(&self, name: &str) -> Result<LogHold, Error> {
        self.database.engine().find_log_hold(name)
    }

    /// Changes how many bytes a hold may hold; `None`: any number, until the disk is full. Durable when it returns. What holds more is lost
    /// with the next clean-up of the log that it keeps.
    ///
    /// # Errors
    /// `NoSuchLogHold`; `Io`, `DiskFull`: the limit is as it was.
    pub fn limit_hold(&self, name: &str, limit_bytes: Option<u64>) -> Result<(), Error> {
        self.database.engine().limit_log_hold(name, limit_bytes)
    }

    /// As `find_hold`, of a hold that has to keep all log from where recovery starts, for a copy of the rows: moved back to there if it has
    /// come further, and made there again if it was lost. Durable when it returns.
    ///
    /// # Errors
    /// `NoSuchLogHold`; `ReadOnly`; `Io`, `DiskFull`.
    pub fn hold_again(&self, name: &str) -> Result<LogHold, Error> {
        self.database.engine().hold_log_again(name)
    }

    /// Ends a hold, lost or not. Durable when it returns.
    ///
    /// # Errors
    /// `NoSuchLogHold`, `Io`.
    pub fn release_hold(&self, name: &str) -> Result<(), Error> {
        self.database.engine().release_log_hold(name, None)
    }

    /// Who holds the log, by name.
    ///
    /// # Errors
    /// `Log` if the database is open read-only and the file of holds is damaged; `Io`.
    pub fn holds(&self) -> Result<Vec<HoldInfo>, Error> {
        self.database.engine().log_holds()
    }
}
