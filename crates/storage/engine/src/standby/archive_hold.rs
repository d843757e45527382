//! The log that archives may lack, kept on a standby: a promotion leaves no gap between what the old primary has archived and what this
//! server archives from then on.
//!
//! ```text
//!   archive   |-- has it --|          the old primary is gone before the rest went up
//!   standby                |-- kept by the hold "archiver NAME" --|promotion|--> its archiver begins at the hold
//! ```
//! The hold is the one that an archiver has (`archiver::keeping`), and moves by what the archive says: a piece at a time, each of which is
//! there whole, and only as far as recovery needs the log no more. An archive that is away is asked again, and the log is kept.
//!
//! **If the power goes**, the hold is as it is on disk, and may stand before pieces that are in the archive: they are asked for again.

use std::sync::Arc;
use std::time::Duration;

use seawall_types::Lsn;
use seawall_wal::{HoldError, LogGeometry};

use crate::archiver::log_archive::ArchivedLog;
use crate::archiver::pieces::LogPieces;
use crate::archiver::uploads::Uploads;
use crate::archiver::{hold_name, hold_options};
use crate::engine::Engine;
use crate::error::Error;
use crate::log::hold::hold_error;
use crate::recovery::timeline::history_of;

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// An archive that has said that it lacks the next piece, or has not answered, is asked again after this.
const ASK_INTERVAL: Duration = Duration::from_secs(30);

/// An archive that is asked.
struct Asked {
    hold: String,
    uploads: Arc<Uploads>,
    not_before: Duration,
}

impl Engine {
    /// Makes the holds that are missing, from where recovery starts. Whether an archive lacks what is before is found out at the promotion
    /// (`archiver::joint`): a hold that was lost says no more than that.
    pub(crate) fn hold_for_archives(&self) -> Result<(), Error> {
        let Some(log) = self.log.received() else { return Ok(()) };
        for archive in &self.options.archives {
            let name = hold_name(&archive.name);
            match log.find_hold(&name) {
                Ok(_) => continue,
                Err(HoldError::Unknown { .. }) => {}
                Err(HoldError::Lost { .. }) => {
                    log.release_hold(&name).map_err(|error| hold_error(&error))?;
                }
                Err(error) => return Err(hold_error(&error)),
            }
            let created = self.clock().wall_micros();
            self.hold_from(None, |from| log.hold(&name, hold_options(archive), from, created))?;
        }
        Ok(())
    }

    /// The thread that moves them.
    pub(crate) fn keep_archive_holds(&self) {
        let mut asked = self.asked_archives();
        while !self.background.stopping() && self.log.received().is_some() {
            for archive in &mut asked {
                if let Err(error) = self.move_archive_hold(archive, false) {
                    tracing::warn!(hold = archive.hold, %error, "the log is kept for an archive, and it is not known what that has");
                    archive.not_before = self.clock().monotonic() + ASK_INTERVAL;
                }
            }
            self.background.rest(LOOK_INTERVAL);
        }
    }

    /// As the thread does, once, in the calling one.
    pub(crate) fn move_archive_holds(&self) -> Result<(), Error> {
        self.asked_archives().iter_mut().try_for_each(|archive| self.move_archive_hold(archive, true))
    }

    fn asked_archives(&self) -> Vec<Asked> {
        let superblock = self.redo.superblock();
        let log = ArchivedLog { database: superblock.database, segment_bytes: superblock.segment_bytes };
        let asked = |archive: &crate::archiver::log_archive::ArchiveOptions| {
            let disk = Arc::clone(&self.environment.disk);
            let uploads = Arc::new(Uploads::new(disk, Arc::clone(&archive.archive), log));
            Asked { hold: hold_name(&archive.name), uploads, not_before: Duration::ZERO }
        };
        self.options.archives.iter().map(asked).collect()
    }

    /// Moves a hold by what the archive has answered, and asks it for more. `is_here`: the calling thread asks.
    fn move_archive_hold(&self, archive: &mut Asked, is_here: bool) -> Result<(), Error> {
        let now = self.clock().monotonic();
        self.take_answer(archive, now)?;
        // Recovery needs the rest.
        let (superblock, until) = (self.redo.superblock(), self.redo.point());
        let Some(from) = self.archive_hold_position(&archive.hold)? else { return Ok(()) };
        if now < archive.not_before
            || until.get() / superblock.segment_bytes <= from.get() / superblock.segment_bytes
        {
            return Ok(());
        }
        let geometry = LogGeometry::new(superblock.segment_bytes).map_err(|error| Error::log(&error))?;
        let history = history_of(&self.environment.disk, &superblock)?;
        if archive.uploads.ask_from(LogPieces { history, geometry }, from, until, is_here) {
            self.take_answer(archive, now)?;
        }
        Ok(())
    }

    fn take_answer(&self, archive: &mut Asked, now: Duration) -> Result<(), Error> {
        let Some(answer) = archive.uploads.take_reached() else { return Ok(()) };
        let failed =
            |error: crate::archiver::log_archive::LogArchiveError| Error::Archive { message: error.0 };
        let Some(reach) = answer.map_err(failed)? else { return Ok(()) };
        // A promotion hands the holds over, and its archiver knows itself what is there.
        let Some(_log_turn) = self.log_turn.take_now() else { return Ok(()) };
        let Some(log) = self.log.received() else { return Ok(()) };
        let Ok(hold) = log.find_hold(&archive.hold) else { return Ok(()) };
        if reach <= hold.get() {
            archive.not_before = now + ASK_INTERVAL;
        }
        hold.advance(reach);
        Ok(())
    }

    /// Where a hold stands; `None`: this is no standby any more.
    fn archive_hold_position(&self, name: &str) -> Result<Option<Lsn>, Error> {
        let Some(log) = self.log.received() else { return Ok(None) };
        match log.find_hold(name) {
            Ok(hold) => Ok(Some(hold.get())),
            // It held more than the limit of its archive: the next one holds from here on.
            Err(HoldError::Lost { .. } | HoldError::Unknown { .. }) => {
                self.hold_for_archives().map(|()| None)
            }
            Err(error) => Err(hold_error(&error)),
        }
    }
}
