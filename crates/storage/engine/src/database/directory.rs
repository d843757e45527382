//! What is done with the directory of a database that is not open in this process: opening it otherwise than usual, looking at its
//! files, also of one that another process has open, and upkeep.

use std::ops::ControlFlow;

use seawall_keys::{MasterKey, OtherMasterKeys};
use seawall_types::{DatabaseId, Lsn};
use seawall_wal::{ReceivedMark, TimelineHistory};

use super::Database;
use crate::encryption::open_superblock;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::handover::HandoverRecord;
use crate::inspect::check::{CheckSummary, Damage};
use crate::inspect::log_overview::{self, LogOverview, RestorePointInfo};
use crate::inspect::log_records::{self, LogRecordInfo};
use crate::inspect::statistics::published::{self, PublishedStatistics};
use crate::options::{OpenMode, Options};
use crate::recovery::archive_mode;
use crate::recovery::rejoin::{self, Rejoined, ServerToFollow};
use crate::recovery::restore;
use crate::recovery::rewind;
use crate::recovery::statistics::RecoveryProgress;
use crate::recovery::timeline::{Continuation, NewTimeline, history_of};
use crate::standby::copied;

/// The directory of a database that is not open here.
#[derive(Clone, Debug)]
pub struct DatabaseDirectory {
    environment: Environment,
}

impl DatabaseDirectory {
    /// The directory at `place`: a path, or an [`Environment`] with any disk and clock. Looks at nothing yet.
    pub fn at(place: impl Into<Environment>) -> DatabaseDirectory {
        DatabaseDirectory { environment: place.into() }
    }

    /// As [`Database::open`], telling `progress` how the recovery goes: at most a few times a second.
    ///
    /// # Errors
    /// As `open`.
    pub fn open(self, options: Options, progress: impl FnMut(RecoveryProgress)) -> Result<Database, Error> {
        Engine::open(self.environment, options, Continuation::Same, progress).map(Database::of)
    }

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
        self,
        options: Options,
        new: impl Into<NewTimeline<'a>>,
    ) -> Result<Database, Error> {
        let options = match options.mode {
            OpenMode::ReadOnly => return Err(Error::ReadOnly),
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => {
                Options { mode: OpenMode::Existing, ..options }
            }
        };
        Engine::open(self.environment, options, Continuation::New(new.into()), |_| {}).map(Database::of)
    }

    /// Opens a copy of another database to follow it: what that one's log holds behind the end of the log here is received, applied
    /// and read ([`Database::standby`]), and nothing is written until a promotion. The log here ends where that one's had come by.
    ///
    /// # Errors
    /// As `open`, and `ReadOnly`.
    pub fn follow(self, options: Options) -> Result<Database, Error> {
        let options = match options.mode {
            OpenMode::ReadOnly => return Err(Error::ReadOnly),
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => {
                Options { mode: OpenMode::Existing, ..options }
            }
        };
        Engine::open(self.environment, options, Continuation::Followed, |_| {}).map(Database::of)
    }

    /// Whether the directory has a database that needs nothing of another server: no restore, copy or rewind is under way.
    ///
    /// # Errors
    /// `RestoreMarker` for damage; `Io`.
    pub fn is_whole(&self) -> Result<bool, Error> {
        let disk = &*self.environment.disk;
        let is_under_way = restore::is_under_way(disk)? || rewind::is_rewinding(disk)?;
        Ok(!is_under_way && copied::read(disk)?.is_none())
    }

    /// Whether the log of the timeline that the database is on is another server's: it was opened by `follow` before, and was not
    /// promoted since; or it is being rewound ([`Rewind`](crate::Rewind)). Of a directory without a database, or with one that a restore or a
    /// copy has not made whole, `false`.
    ///
    /// # Errors
    /// `Tree` or `Log` for damage; `Io`.
    pub fn is_followed(&self) -> Result<bool, Error> {
        let disk = &self.environment.disk;
        // It may have a superblock, and not what that relies on.
        if restore::is_under_way(&**disk)? {
            return Ok(false);
        }
        // Its log may be that of one server or of the other.
        if rewind::is_rewinding(&**disk)? {
            return Ok(true);
        }
        let superblock = match open_superblock(&**disk) {
            Err(Error::NoDatabase { .. }) => return Ok(false),
            opened => opened?.1,
        };
        let history = history_of(disk, &superblock)?;
        let timeline = history.timeline(superblock.timeline);
        let mark = ReceivedMark::open(&**disk, superblock.database, timeline);
        Ok(mark.map_err(|error| Error::log(&error))?.is_some())
    }

    /// The role of the primary that this server has handed over, or was about to, if what the record says still counts: the database is on
    /// the timeline that it names, and takes no writes (see [`Database::handover`]); or it is a standby since.
    ///
    /// # Errors
    /// `HandoverRecord` if the file is damaged; as `is_followed`.
    pub fn handover(&self) -> Result<Option<HandoverRecord>, Error> {
        let disk = &self.environment.disk;
        let Some(record) = HandoverRecord::read(&**disk)? else { return Ok(None) };
        let counts = record.timeline == open_superblock(&**disk)?.1.timeline || self.is_followed()?;
        Ok(Some(record).filter(|_| counts))
    }

    /// Forgets that record, durably. For a server that is closed, and follows another one from now on.
    ///
    /// # Errors
    /// `Io`.
    pub fn forget_handover(&self) -> Result<(), Error> {
        HandoverRecord::remove(&*self.environment.disk)
    }

    /// Makes the database of a server that was replaced ready to follow the server that has this history: cuts its log where that one's
    /// timeline left it, and puts what is cut off aside, in the directory `aside`. Where the log here is a part of that one's, nothing is
    /// done. The caller has made sure that it is the same database. Afterwards, [`DatabaseDirectory::follow`].
    ///
    /// A database that was not a standby, and one whose log is cut, may archive from then on if the server to follow may
    /// ([`ServerToFollow`]): with the log of another server it must not get into a repository that this one does not write to.
    ///
    /// If it fails, or the power goes, the database has all of its log, and this may be called again; or it is cut.
    ///
    /// # Errors
    /// `PagesBeyondFork` if pages hold what would be cut off: [`Rewind`](crate::Rewind) takes it out of them. `Rewinding` if that was begun.
    /// `NotItsLog`: the database has to be made anew. `InUse`, and those of `open`.
    pub fn rejoin<'a>(
        &self,
        options: &Options,
        upstream: impl Into<ServerToFollow<'a>>,
    ) -> Result<Rejoined, Error> {
        rejoin::rejoin(&self.environment, options, upstream.into())
    }

    /// The database's id, and the history of the timeline that it is on; of one that is being rewound, as far as its rows have it.
    ///
    /// # Errors
    /// `NoDatabase`; `Tree`, `Log` if the superblock or the history is damaged.
    pub fn identity(&self) -> Result<(DatabaseId, TimelineHistory), Error> {
        rejoin::identity(&self.environment.disk)
    }

    /// Opens the database for a check only: [`Database::check`] of one that may not open otherwise.
    ///
    /// # Errors
    /// What kept the check from being made.
    pub fn check(self, options: Options, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        let options = Options { mode: OpenMode::ReadOnly, ..options };
        crate::inspect::check::check_directory(self.environment, options, report)
    }

    /// Looks at the log: at names and headers of segments, and at the last one that was written. The database may be open
    /// elsewhere: what is not flushed yet is not seen, and what is removed in the middle may be missing.
    ///
    /// # Errors
    /// As `log_records`.
    pub fn log_overview(&self, master_key: Option<&MasterKey>) -> Result<LogOverview, Error> {
        log_overview::log_overview(&self.environment, master_key)
    }

    /// Tells `visit` of each record from `from` on (by default, from the oldest that is kept) until it breaks or the log ends.
    /// The database may be open elsewhere: what is not flushed yet is not seen.
    ///
    /// `master_key` is that of an encrypted database.
    ///
    /// # Errors
    /// `NoDatabase`, `Tree` for a damaged superblock, `Encrypted`, `NotEncrypted`, `MasterKey`, `WrongMasterKey` and `Keys` as
    /// for opening, `Log` for a damaged record or a segment that is gone; `LogNotKept` if it is gone since a checkpoint has passed it.
    pub fn log_records(
        &self,
        master_key: Option<&MasterKey>,
        from: Option<Lsn>,
        visit: &mut dyn FnMut(LogRecordInfo) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        log_records::log_records(&self.environment, master_key, from, visit)
    }

    /// The named positions between the oldest record of the log and its end: reads all of it.
    ///
    /// # Errors
    /// As `log_records`.
    pub fn restore_points(&self, master_key: Option<&MasterKey>) -> Result<Vec<RestorePointInfo>, Error> {
        log_overview::restore_points(&self.environment, master_key)
    }

    /// The statistics that the process which has the database open has published; `None` if it is closed, open for less than a
    /// second, or publishes nothing ([`Options::publish_statistics`]).
    ///
    /// Reads two files and disturbs nobody: neither a process that has the database open, nor one that is about to open it.
    ///
    /// # Errors
    /// `NoDatabase`; `Tree` if the superblock is damaged; `Io`.
    pub fn published_statistics(&self) -> Result<Option<PublishedStatistics>, Error> {
        published::read(&*self.environment.disk)
    }

    /// Whether the database was restored, and may not archive: see [`ArchiveMode`](crate::ArchiveMode).
    ///
    /// # Errors
    /// `Io`.
    pub fn is_archiving_off(&self) -> Result<bool, Error> {
        archive_mode::is_archiving_off(&*self.environment.disk)
    }

    /// Lets a restored database archive and be backed up from its next open on. Durable when it returns; where nothing is off,
    /// nothing is changed.
    ///
    /// # Errors
    /// `Io`.
    pub fn allow_archiving(&self) -> Result<(), Error> {
        archive_mode::allow_archiving(&*self.environment.disk)
    }

    /// Keeps a database from archiving from its next open on. Durable when it returns; where it is kept from that already, nothing
    /// is changed.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn forbid_archiving(&self) -> Result<(), Error> {
        archive_mode::forbid_archiving(&*self.environment.disk)
    }

    /// As [`Database::rotate_master_key`]; `old` is a master key that opens the database.
    ///
    /// # Errors
    /// As `rotate_master_key`, and `InUse`, `NoDatabase`, `WrongMasterKey`.
    pub fn rotate_master_key(
        &self,
        old: MasterKey,
        new: &MasterKey,
        others: OtherMasterKeys,
    ) -> Result<(), Error> {
        crate::encryption::rotate_master_key(&self.environment, old, new, others)
    }
}
