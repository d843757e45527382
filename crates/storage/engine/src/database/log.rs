//! What a program can do about the log: keep it for somebody, name positions in it, and begin a new timeline.

use std::path::Path;
use std::sync::Arc;

use seawall_io::OsDisk;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HoldInfo, HoldOptions};

use super::Database;
use crate::archiver::ArchiveWatch;
use crate::backup::Backup;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::log::hold::LogHold;
use crate::options::{OpenMode, Options};
use crate::recovery::timeline::{Continuation, NewTimeline};

impl Database {
    /// As [`Database::open`] of an existing database, and goes on on a new timeline, which begins where the log ends: what is
    /// written from now on can never be taken for what another copy of the database, left at the same place, writes on the
    /// old one, nor for what it writes on a new timeline of the same number. `new` is a reason, for people, or a [`NewTimeline`].
    ///
    /// Whatever the number of segments and tables, it takes as long as opening and a few durable writes. If it fails, or the
    /// power goes, the database is on the old timeline, or all of it on the new one.
    ///
    /// # Errors
    /// As `open`, and `ReadOnly`; `TimelineNumber` if the number that was asked for is taken.
    pub fn open_on_new_timeline<'a>(
        directory: impl AsRef<Path>,
        options: Options,
        new: impl Into<NewTimeline<'a>>,
    ) -> Result<Database, Error> {
        let environment = Environment::of_the_system(Arc::new(OsDisk::new(directory.as_ref())));
        Database::open_on_new_timeline_in(environment, options, new)
    }

    /// As [`Database::open_on_new_timeline`], on any disk and clock.
    ///
    /// # Errors
    /// As `open_on_new_timeline`.
    pub fn open_on_new_timeline_in<'a>(
        environment: Environment,
        options: Options,
        new: impl Into<NewTimeline<'a>>,
    ) -> Result<Database, Error> {
        let options = match options.mode {
            OpenMode::ReadOnly => return Err(Error::ReadOnly),
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => {
                Options { mode: OpenMode::Existing, ..options }
            }
        };
        let engine = Engine::open(environment, options, Continuation::New(new.into()), |_| {})?;
        Ok(Database::of(engine))
    }

    /// Makes everything committed so far durable, and returns when all archives that are required have it; up to which LSN that is. With
    /// `Background::Manual` the calling thread archives; nobody else does then.
    ///
    /// # Errors
    /// `NoArchive`; `ArchiveGap` if what was committed before was left out of one of them; `Archive` if one of them does not take it (the database's own thread goes on trying instead);
    /// `NotArchived` if the database is closed meanwhile; `Stopped`.
    pub fn archive_now(&self) -> Result<Lsn, Error> {
        let engine = self.engine();
        let flushed = engine.flush()?;
        engine.wait_archived(flushed)?;
        Ok(flushed)
    }

    /// To wait for gaps in the archive of this name.
    ///
    /// # Errors
    /// `NoArchive` if the options have none of this name.
    pub fn watch_archive(&self, name: &str) -> Result<ArchiveWatch, Error> {
        self.engine().watch_archive(name)
    }

    /// Begins a backup; `name` is that of the hold that keeps the log meanwhile. See [`Backup`].
    ///
    /// # Errors
    /// `LogHold` if there is a hold of this name; `ReadOnly`; damage met on the way.
    pub fn begin_backup(&self, name: &str) -> Result<Backup, Error> {
        Backup::begin(self.engine(), name)
    }

    /// Gives the end of the log a name, to recover to it later. Durable when it returns; the position.
    ///
    /// # Errors
    /// `RestorePointName`, and those of a commit.
    pub fn create_restore_point(&self, name: &str) -> Result<Lsn, Error> {
        self.engine().create_restore_point(name)
    }

    /// The timeline that is written on.
    pub fn timeline(&self) -> TimelineId {
        self.engine().timeline()
    }

    /// Keeps the log from `from` on, or from where recovery starts, for whoever is to read it: see [`LogHold`]. Durable when
    /// it returns.
    ///
    /// # Errors
    /// `LogHold` if there is one of this name, there are too many, or the log is not kept from there on any more; `ReadOnly`.
    pub fn hold_log(&self, name: &str, options: HoldOptions, from: Option<Lsn>) -> Result<LogHold, Error> {
        self.engine().hold_log(name, options, from)
    }

    /// A hold that was made before, by this process or another.
    ///
    /// # Errors
    /// `NoSuchLogHold`; `LogHoldLost` if it held more than its limit: what it needs may be gone.
    pub fn log_hold(&self, name: &str) -> Result<LogHold, Error> {
        self.engine().find_log_hold(name)
    }

    /// Ends a hold, lost or not. Durable when it returns.
    ///
    /// # Errors
    /// `NoSuchLogHold`, `Io`.
    pub fn release_log_hold(&self, name: &str) -> Result<(), Error> {
        self.engine().release_log_hold(name, None)
    }

    /// Who holds the log, by name.
    ///
    /// # Errors
    /// `Log` if the database is open read-only and the file of holds is damaged; `Io`.
    pub fn log_holds(&self) -> Result<Vec<HoldInfo>, Error> {
        self.engine().log_holds()
    }
}
