//! The face of a standby, a database that follows a primary.

use std::time::Duration;

use seawall_types::{Lsn, TimelineId};
use seawall_wal::TimelineHistory;

use super::Database;
use crate::checkpoint::statistics::{CheckpointStatistics, Trigger};
use crate::error::Error;
use crate::recovery::timeline::NewTimeline;
use crate::standby::apply::not_a_standby;
use crate::standby::control::StandbyStatistics;
use crate::standby::copied;
use crate::standby::phases::Promotion;

/// A database that follows another one: see [`Database::standby`].
#[derive(Clone, Copy, Debug)]
pub struct Standby<'a> {
    database: &'a Database,
}

impl<'a> Standby<'a> {
    pub(super) fn new(database: &'a Database) -> Standby<'a> {
        Standby { database }
    }

    /// Where the stream of the primary's log is to go on.
    ///
    /// # Errors
    /// `Log` if the database was promoted.
    pub fn wanted(&self) -> Result<Lsn, Error> {
        Ok(self.database.engine().log.received().ok_or_else(not_a_standby)?.wanted())
    }

    /// Verifies and writes bytes of the primary's log, as [`LogStream`](seawall_wal::LogStream) gives them: of which the first one
    /// belongs at `start`.
    ///
    /// # Errors
    /// `Log` if they are not the log that goes on here: to be asked for again from `wanted` on. `FollowedPastLog` if rows are missing from
    /// that log: the standby has to be made anew. `DiskFull`; `Stopped`.
    pub fn receive(&self, start: Lsn, bytes: &[u8]) -> Result<(), Error> {
        let received = self.database.engine().log.received().ok_or_else(not_a_standby)?;
        received.receive(start, bytes).map_err(|error| match error {
            seawall_wal::ReceiveError::Log { source } => source.into(),
            seawall_wal::ReceiveError::LoadedPastLog { lsn } => Error::FollowedPastLog { lsn },
            other => Error::log(&other),
        })
    }

    /// Forgets the beginning of a record that is to go on behind `end`, where the log that is received ends, or the timeline was left: a byte
    /// of it was changed on the way, and no end comes. It is wanted again then. Whether there was such a record.
    ///
    /// # Errors
    /// `Log` if the database was promoted.
    pub fn forget_record_across(&self, end: Lsn) -> Result<bool, Error> {
        let received = self.database.engine().log.received().ok_or_else(not_a_standby)?;
        let has_forgotten = received.forget_record_across(end);
        if has_forgotten {
            tracing::warn!(%end, "a record that ends here is to go on: it is damaged, and asked for again");
        }
        Ok(has_forgotten)
    }

    /// Makes all whole records durable that have come; where they end. The primary may be told. With background threads they are applied
    /// then: what is little by this call itself, before it returns.
    ///
    /// # Errors
    /// `Stopped`, `Closed`.
    pub fn sync(&self) -> Result<Lsn, Error> {
        let engine = self.database.engine();
        let synced = engine.log.received().ok_or_else(not_a_standby)?.sync()?;
        engine.apply_synced(synced);
        Ok(synced)
    }

    /// Applies all that is durable, and shows it; up to where. Takes the checkpoints that are due. With background threads this happens
    /// by itself after each `sync`. Does nothing while applying is paused, and applies no commit before its delay is over.
    ///
    /// # Errors
    /// `Log` for damage; those of a checkpoint.
    pub fn apply(&self) -> Result<Lsn, Error> {
        self.database.engine().apply_received()
    }

    /// Runs a checkpoint: what is applied goes into the tree, and the log before it may go, but for what an archive of the options lacks.
    /// With `Background::Manual` the calling thread asks the archives.
    ///
    /// # Errors
    /// As [`Database::checkpoint`]; `Archive` if the calling thread has no answer.
    pub fn checkpoint(&self) -> Result<CheckpointStatistics, Error> {
        if self.database.engine().is_manual() {
            self.database.engine().move_archive_holds()?;
        }
        self.database.engine().checkpoint(Trigger::Request)
    }

    /// Everything up to here is seen by new snapshots.
    pub fn applied(&self) -> Lsn {
        self.database.engine().visible()
    }

    /// Of a copy of a running database, up to where it needs the log; `None` once that is applied, and of any other. Before, what is read
    /// belongs to no moment, and a promotion is refused.
    pub fn copied_until(&self) -> Option<Lsn> {
        self.database.engine().apply_control.copied_until()
    }

    /// The timeline of the primary that the rows of such a copy are of; `None` for a whole database. The log of an earlier one alone
    /// does not make it whole.
    ///
    /// # Errors
    /// `Io`; `RestoreMarker` if the file that says so is damaged.
    pub fn copied_on(&self) -> Result<Option<TimelineId>, Error> {
        let copied = copied::read(&*self.database.engine().environment.disk)?;
        Ok(copied.filter(|_| self.copied_until().is_some()).map(|copied| copied.timeline))
    }

    /// The history of that timeline.
    ///
    /// # Errors
    /// As `copied_on`; `Log` if the history is damaged, or not there.
    pub fn copied_history(&self) -> Result<Option<TimelineHistory>, Error> {
        if self.copied_until().is_none() {
            return Ok(None);
        }
        let disk = &self.database.engine().environment.disk;
        copied::read(&**disk)?.map(|copied| copied.history(disk)).transpose()
    }

    /// Waits until everything before `lsn` is applied, for at most `limit`. [`Database::cancel_token`] ends the wait.
    ///
    /// # Errors
    /// `NotApplied` if that took longer; `Cancelled`; `Log` if the database was promoted before it had come so far; `Stopped`, `Closed`.
    pub fn wait_applied(&self, lsn: Lsn, limit: Duration) -> Result<(), Error> {
        self.database.engine().wait_applied(lsn, limit, &self.database.cancel_token())
    }

    /// Applies nothing more until `resume_applying`. Receiving goes on, and a promotion applies everything.
    pub fn pause_applying(&self) {
        self.database.engine().apply_control.pause();
    }

    /// Applies again.
    pub fn resume_applying(&self) {
        let engine = self.database.engine();
        engine.apply_control.resume();
        engine.background.apply_work.wake_all();
    }

    /// Applies each commit, and what comes after it, only `delay` after its time on the primary, by this server's clock. A promotion does
    /// not wait.
    pub fn set_apply_delay(&self, delay: Duration) {
        let engine = self.database.engine();
        engine.apply_control.set_delay(delay);
        engine.background.apply_work.wake_all();
    }

    /// How far it has come, and how fast it applies.
    ///
    /// # Errors
    /// `Log` if the database was promoted.
    pub fn statistics(&self) -> Result<StandbyStatistics, Error> {
        let engine = self.database.engine();
        let log = engine.log.received().ok_or_else(not_a_standby)?;
        let (control, counters) = (&engine.apply_control, &engine.apply_control.counters);
        Ok(StandbyStatistics {
            timeline: log.timeline(),
            received: log.wanted(),
            flushed: log.flushed(),
            applied: engine.visible(),
            records: counters.records(),
            rows: counters.rows(),
            bytes: counters.bytes(),
            busy: counters.busy(),
            last_end_micros: counters.last_end_micros(),
            paused: control.is_paused(),
            delay: control.delay(),
            last_error: engine.counters.last_apply_error.lock().clone(),
        })
    }

    /// Where the timeline that is received was left for one of `history`, which is that of the upstream; `None` if that is on the same
    /// timeline. Above [`Standby::wanted`]: there is more to receive of the old timeline first.
    ///
    /// # Errors
    /// `OtherHistory` if the upstream's timeline does not follow from this server's.
    pub fn left_for(&self, history: &TimelineHistory) -> Result<Option<Lsn>, Error> {
        self.database.engine().left_for(history)
    }

    /// Goes on to the next timeline: `history` is that of the one which left the received timeline where the log ends here. Sessions and
    /// snapshots go on.
    ///
    /// # Errors
    /// `BeyondFork` if this server has more of the old timeline; `CopyBeyondFork`; `OtherHistory`; `Log` while it is being promoted; those
    /// of `sync`.
    pub fn follow_timeline(&self, history: &TimelineHistory) -> Result<(), Error> {
        self.database.engine().follow_timeline(history)
    }

    /// Receives nothing more, applies what has come, and writes on a new timeline from now on. Sessions, snapshots and transactions
    /// in doubt go on. `new` is a reason, for people, or a [`NewTimeline`]. Returns what took how long, as [`Statistics`](crate::Statistics) do.
    ///
    /// # Errors
    /// `TimelineNumber` if the number that was asked for is taken; those of `sync` and `apply`.
    pub fn promote<'n>(&self, new: impl Into<NewTimeline<'n>>) -> Result<Promotion, Error> {
        self.database.engine().promote(new.into())
    }
}
