//! The face of a standby, a database that follows a primary.

use seawall_types::Lsn;

use super::Database;
use crate::checkpoint::statistics::{CheckpointStatistics, Trigger};
use crate::error::Error;
use crate::recovery::timeline::NewTimeline;
use crate::standby::apply::not_a_standby;

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
    /// `Log` if they are not the log that goes on here: to be asked for again from `wanted` on. `DiskFull`; `Stopped`.
    pub fn receive(&self, start: Lsn, bytes: &[u8]) -> Result<(), Error> {
        let received = self.database.engine().log.received().ok_or_else(not_a_standby)?;
        received.receive(start, bytes).map_err(|error| match error {
            seawall_wal::ReceiveError::Log { source } => source.into(),
            other => Error::log(&other),
        })
    }

    /// Makes all whole records durable that have come; where they end. The primary may be told.
    ///
    /// # Errors
    /// `Stopped`, `Closed`.
    pub fn sync(&self) -> Result<Lsn, Error> {
        Ok(self.database.engine().log.received().ok_or_else(not_a_standby)?.sync()?)
    }

    /// Applies all that is durable, and shows it; up to where. Takes the checkpoints that are due.
    ///
    /// # Errors
    /// `Log` for damage; `LoadedPastLog` if the primary loaded rows past its log; those of a checkpoint.
    pub fn apply(&self) -> Result<Lsn, Error> {
        self.database.engine().apply_received()
    }

    /// Runs a checkpoint: what is applied goes into the tree, and the log before it may go.
    ///
    /// # Errors
    /// As [`Database::checkpoint`].
    pub fn checkpoint(&self) -> Result<CheckpointStatistics, Error> {
        self.database.engine().checkpoint(Trigger::Request)
    }

    /// Everything up to here is seen by new snapshots.
    pub fn applied(&self) -> Lsn {
        self.database.engine().visible()
    }

    /// Receives nothing more, applies what has come, and writes on a new timeline from now on. Sessions, snapshots and transactions
    /// in doubt go on. `new` is a reason, for people, or a [`NewTimeline`].
    ///
    /// # Errors
    /// `TimelineNumber` if the number that was asked for is taken; those of `sync` and `apply`.
    pub fn promote<'n>(&self, new: impl Into<NewTimeline<'n>>) -> Result<(), Error> {
        self.database.engine().promote(new.into())
    }
}
