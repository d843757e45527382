//! Those who need the log: archives, standbys, backups. A hold has a name, a position and a limit; what that means, and what
//! is on disk of it, is in `wal::holds`.

use std::sync::Arc;

use seawall_io::is_disk_full;
use seawall_types::Lsn;
use seawall_wal::{HoldError, HoldInfo, HoldKind, HoldLifetime, HoldOptions, HoldPosition, Log, ReceivedLog};

use crate::engine::Engine;
use crate::error::Error;

/// Keeps the log from a position on, for whoever is to read it: `DatabaseLog::hold`.
///
/// One that ends with the process ends when this is dropped. A permanent one stays, whatever happens to this and to the
/// process, until it is released, or lost because it held more than its limit.
#[derive(Debug)]
pub struct LogHold {
    engine: Arc<Engine>,
    name: String,
    position: Arc<HoldPosition>,
    lifetime: HoldLifetime,
}

impl LogHold {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The log is kept from here on.
    pub fn position(&self) -> Lsn {
        self.position.get()
    }

    /// Says that nothing before `to` is needed any more. Cheap: durable by the time that anything is removed.
    ///
    /// # Errors
    /// `LogHoldLost`: the log from the position on may be gone; `NoSuchLogHold` if somebody has released it.
    pub fn advance(&self, to: Lsn) -> Result<(), Error> {
        self.engine.held_log()?.check(&self.name, &self.position).map_err(|error| hold_error(&error))?;
        let before = self.position.get();
        self.position.advance(to);
        let segment_bytes = self.engine.redo.superblock().segment_bytes;
        if to.get() / segment_bytes > before.get() / segment_bytes {
            self.engine.background.want_cleaning();
        }
        Ok(())
    }

    /// Ends the hold, and no other that was made under its name since. Durable when it returns.
    ///
    /// # Errors
    /// `NoSuchLogHold` if somebody was faster; `Io`: then the next process may find it again.
    pub fn release(self) -> Result<(), Error> {
        self.engine.release_log_hold(&self.name, Some(&self.position))
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        if self.lifetime == HoldLifetime::Process
            && !self.position.is_over()
            && let Ok(log) = self.engine.held_log()
        {
            log.forget(&self.name, &self.position);
            self.engine.background.want_cleaning();
        }
    }
}

/// The log that holds keep: written here, or received.
#[derive(Clone, Copy)]
enum HeldLog<'a> {
    Written(&'a Log),
    Received(&'a ReceivedLog),
}

impl HeldLog<'_> {
    fn hold(
        self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        match self {
            HeldLog::Written(log) => log.hold(name, options, from, created_micros),
            HeldLog::Received(log) => log.hold(name, options, from, created_micros),
        }
    }

    fn find(self, name: &str) -> Result<Arc<HoldPosition>, HoldError> {
        match self {
            HeldLog::Written(log) => log.find_hold(name),
            HeldLog::Received(log) => log.find_hold(name),
        }
    }

    fn check(self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        match self {
            HeldLog::Written(log) => log.check_hold(name, position),
            HeldLog::Received(log) => log.check_hold(name, position),
        }
    }

    fn limit(self, name: &str, limit_bytes: Option<u64>) -> Result<(), HoldError> {
        match self {
            HeldLog::Written(log) => log.limit_hold(name, limit_bytes),
            HeldLog::Received(log) => log.limit_hold(name, limit_bytes),
        }
    }

    fn release(self, name: &str, position: Option<&Arc<HoldPosition>>) -> Result<(), HoldError> {
        match (self, position) {
            (HeldLog::Written(log), None) => log.release_hold(name),
            (HeldLog::Written(log), Some(position)) => log.release_this_hold(name, position),
            (HeldLog::Received(log), None) => log.release_hold(name),
            (HeldLog::Received(log), Some(position)) => log.release_this_hold(name, position),
        }
    }

    fn forget(self, name: &str, position: &Arc<HoldPosition>) {
        match self {
            HeldLog::Written(log) => log.forget_hold(name, position),
            HeldLog::Received(log) => log.forget_hold(name, position),
        }
    }

    fn list(self) -> Vec<HoldInfo> {
        match self {
            HeldLog::Written(log) => log.holds(),
            HeldLog::Received(log) => log.holds(),
        }
    }
}

impl Engine {
    fn held_log(&self) -> Result<HeldLog<'_>, Error> {
        match (self.log.written(), self.log.received()) {
            (Some(log), _) => Ok(HeldLog::Written(log)),
            (None, Some(log)) => Ok(HeldLog::Received(log)),
            (None, None) => Err(Error::ReadOnly),
        }
    }

    pub(crate) fn hold_log(
        self: &Arc<Self>,
        name: &str,
        options: HoldOptions,
        from: Option<Lsn>,
    ) -> Result<LogHold, Error> {
        self.lifecycle.check_open()?;
        self.lifecycle.check_not_stopped()?;
        let log = self.held_log()?;
        if options.kind == HoldKind::Standby && self.log.written().is_some() {
            // First: no row that a standby needs from the hold on is loaded past the log.
            self.always_log_loads()?;
        }
        let created = self.clock().wall_micros();
        let position = self.hold_from(from, |from| log.hold(name, options, from, created))?;
        self.pacing.slow_writers_for(&options, &position);
        let name = name.to_owned();
        Ok(LogHold { engine: Arc::clone(self), name, position, lifetime: options.lifetime })
    }

    /// Makes a hold with `make`, from `from` on or from where recovery starts.
    pub(crate) fn hold_from(
        &self,
        from: Option<Lsn>,
        mut make: impl FnMut(Lsn) -> Result<Arc<HoldPosition>, HoldError>,
    ) -> Result<Arc<HoldPosition>, Error> {
        loop {
            let redo_point = self.redo.point();
            match make(from.unwrap_or(redo_point)) {
                // A checkpoint has ended since: its redo point is known by now.
                Err(HoldError::NotRetained { .. }) if from.is_none() && self.redo.point() > redo_point => {}
                made => return made.map_err(|error| hold_error(&error)),
            }
        }
    }

    pub(crate) fn find_log_hold(self: &Arc<Self>, name: &str) -> Result<LogHold, Error> {
        self.lifecycle.check_open()?;
        let position = self.held_log()?.find(name).map_err(|error| hold_error(&error))?;
        // Whoever made it decides when it ends.
        let lifetime = HoldLifetime::Permanent;
        Ok(LogHold { engine: Arc::clone(self), name: name.to_owned(), position, lifetime })
    }

    /// Changes how many bytes a hold may hold.
    pub(crate) fn limit_log_hold(&self, name: &str, limit_bytes: Option<u64>) -> Result<(), Error> {
        self.lifecycle.check_open()?;
        self.held_log()?.limit(name, limit_bytes).map_err(|error| hold_error(&error))?;
        self.background.want_cleaning();
        Ok(())
    }

    /// Moves a hold back to where recovery starts, or makes it there again if it was lost.
    pub(crate) fn hold_log_again(self: &Arc<Self>, name: &str) -> Result<LogHold, Error> {
        self.lifecycle.check_writable()?;
        let log = self.log()?;
        let found = log.holds().into_iter().find(|hold| hold.name == name);
        let found = found.ok_or_else(|| Error::NoSuchLogHold { name: name.to_owned() })?;
        if found.options.kind == HoldKind::Standby {
            // A lost one may have been found by the open of the database: nobody has asked for that since.
            self.always_log_loads()?;
        }
        if found.lost_at.is_some() || found.position > self.redo.point() {
            let (options, created) = (found.options, self.clock().wall_micros());
            let position = self.hold_from(None, |from| log.replace_hold(name, options, from, created))?;
            self.pacing.slow_writers_for(&options, &position);
        }
        self.find_log_hold(name)
    }

    /// Ends the hold of this name, or only the very one of `position`.
    pub(crate) fn release_log_hold(
        &self,
        name: &str,
        position: Option<&Arc<HoldPosition>>,
    ) -> Result<(), Error> {
        self.lifecycle.check_open()?;
        let released = self.held_log()?.release(name, position).map_err(|error| hold_error(&error));
        self.background.want_cleaning();
        released
    }

    pub(crate) fn log_holds(&self) -> Result<Vec<HoldInfo>, Error> {
        match self.held_log() {
            Ok(log) => Ok(log.list()),
            Err(_) => {
                let database = self.redo.superblock().database;
                seawall_wal::read_holds(&*self.environment.disk, database).map_err(|error| hold_error(&error))
            }
        }
    }

    /// Nobody needs the log before.
    pub(crate) fn log_needed_from(&self) -> Result<Lsn, Error> {
        // First: a checkpoint that ends meanwhile only moves it forward.
        let redo_point = self.redo.point();
        let holds = self.log_holds()?;
        Ok(needed_from(redo_point, &holds))
    }

    /// Permanent holds of former processes slow writers as before, and standbys find the rows of bulk loads in the log.
    pub(crate) fn take_up_log_holds(&self) -> Result<(), Error> {
        let Some(log) = self.log.written() else { return Ok(()) };
        for hold in log.holds() {
            if let Ok(position) = log.find_hold(&hold.name) {
                self.pacing.slow_writers_for(&hold.options, &position);
                if hold.options.kind == HoldKind::Standby {
                    self.always_log_loads()?;
                }
            }
        }
        Ok(())
    }
}

/// From where on recovery, which starts at `redo_point`, and `holds` need the log.
pub(crate) fn needed_from(redo_point: Lsn, holds: &[HoldInfo]) -> Lsn {
    let active = holds.iter().filter(|hold| hold.lost_at.is_none());
    active.map(|hold| hold.position).fold(redo_point, Lsn::min)
}

/// The error of a hold, as a user should see it.
pub(crate) fn hold_error(error: &HoldError) -> Error {
    let message = crate::error::chain(error);
    match error {
        HoldError::Closed => Error::Closed,
        HoldError::Unknown { name } => Error::NoSuchLogHold { name: name.clone() },
        HoldError::Lost { name, position, limit_bytes, .. } => Error::LogHoldLost {
            name: name.clone(),
            position: *position,
            limit: limit_bytes.unwrap_or(u64::MAX),
        },
        HoldError::Io { source, .. } if is_disk_full(source) => Error::DiskFull { message },
        HoldError::Io { .. } => Error::Io { message },
        HoldError::File { .. } => Error::Log { message },
        _ => Error::LogHold { message },
    }
}
