//! Those who need the log: archives, standbys, backups. A hold has a name, a position and a limit; what that means, and what
//! is on disk of it, is in `wal::holds`.

use std::sync::Arc;

use seawall_io::is_disk_full;
use seawall_types::Lsn;
use seawall_wal::{HoldError, HoldInfo, HoldKind, HoldLifetime, HoldOptions, HoldPosition};

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
        self.engine.log()?.check_hold(&self.name, &self.position).map_err(|error| hold_error(&error))?;
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
            && let Some(log) = self.engine.log.written()
        {
            log.forget_hold(&self.name, &self.position);
            self.engine.background.want_cleaning();
        }
    }
}

impl Engine {
    pub(crate) fn hold_log(
        self: &Arc<Self>,
        name: &str,
        options: HoldOptions,
        from: Option<Lsn>,
    ) -> Result<LogHold, Error> {
        self.lifecycle.check_writable()?;
        let log = self.log()?;
        if options.kind == HoldKind::Standby {
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
        let position = self.log()?.find_hold(name).map_err(|error| hold_error(&error))?;
        // Whoever made it decides when it ends.
        let lifetime = HoldLifetime::Permanent;
        Ok(LogHold { engine: Arc::clone(self), name: name.to_owned(), position, lifetime })
    }

    /// Ends the hold of this name, or only the very one of `position`.
    pub(crate) fn release_log_hold(
        &self,
        name: &str,
        position: Option<&Arc<HoldPosition>>,
    ) -> Result<(), Error> {
        self.lifecycle.check_open()?;
        let log = self.log()?;
        let released = match position {
            Some(position) => log.release_this_hold(name, position),
            None => log.release_hold(name),
        };
        let released = released.map_err(|error| hold_error(&error));
        self.background.want_cleaning();
        released
    }

    pub(crate) fn log_holds(&self) -> Result<Vec<HoldInfo>, Error> {
        match self.log.written() {
            Some(log) => Ok(log.holds()),
            None => {
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
