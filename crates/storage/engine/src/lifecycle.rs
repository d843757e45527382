//! Whether a database is open, takes writes, or has stopped after a failed write; and the lock on its directory.

use std::sync::{Arc, OnceLock};

use seawall_io::{DirectoryLock, Disk};
use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_sync::{Mutex, MutexGuard};

use crate::error::Error;
use crate::in_doubt::protected::Protected;
use crate::log::engine_log::EngineLog;
use crate::log::parking::Door;
use crate::moved::KnownPlace;
use crate::transaction::lock_table::LockTable;

/// See the module.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    closed: AtomicBool,
    /// Why no more writes are taken: the tree could not be written.
    stopped: OnceLock<String>,
    /// Takes no more writes when one of its own has failed.
    log: Arc<EngineLog>,
    locks: Arc<LockTable>,
    protected: Arc<Protected>,
    /// Kept until the engine goes, after `log`; given up early by `close`.
    directory_lock: Mutex<Option<Box<dyn DirectoryLock>>>,
    /// Looked at after each checkpoint.
    known_place: KnownPlace,
}

impl Lifecycle {
    pub(crate) fn new(
        disk: &dyn Disk,
        directory_lock: Box<dyn DirectoryLock>,
        log: Arc<EngineLog>,
        locks: Arc<LockTable>,
        protected: Arc<Protected>,
    ) -> Lifecycle {
        Lifecycle {
            closed: AtomicBool::new(false),
            stopped: OnceLock::new(),
            log,
            locks,
            protected,
            directory_lock: Mutex::new(Some(directory_lock)),
            known_place: KnownPlace::new(disk),
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        self.check_open()?;
        self.check_not_stopped()?;
        if !self.log.takes_writers() {
            return Err(Error::ReadOnly);
        }
        if self.log.parking.door() == Door::HandedOver { Err(Error::HandedOver) } else { Ok(()) }
    }

    /// `Stopped` after a failed write.
    pub(crate) fn check_not_stopped(&self) -> Result<(), Error> {
        let has_stopped = self.stopped.get().is_some() || self.log_failure().is_some();
        if has_stopped { Err(self.stopped_error()) } else { Ok(()) }
    }

    fn log_failure(&self) -> Option<&str> {
        self.log.failure()
    }

    /// The error of a database that takes no more writes.
    pub(crate) fn stopped_error(&self) -> Error {
        let cause = self.stopped.get().map(String::as_str).or_else(|| self.log_failure());
        Error::Stopped { cause: cause.unwrap_or("the log takes no more writes").to_owned() }
    }

    /// Takes no more writes from now on.
    pub(crate) fn stop(&self, cause: String) -> Error {
        tracing::error!(cause, "the database takes no more writes until it is opened again");
        let error = Error::Stopped { cause: self.stopped.get_or_init(|| cause).clone() };
        self.locks.stop();
        self.protected.wake_waiting();
        error
    }

    /// Marks the database closed; `false` if it was already.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// The directory's lock, which stays while this is held.
    pub(crate) fn keep_directory(&self) -> MutexGuard<'_, Option<Box<dyn DirectoryLock>>> {
        self.directory_lock.lock()
    }

    /// Lets go of the directory: another process may open the database now.
    pub(crate) fn release_directory(&self) {
        *self.directory_lock.lock() = None;
    }

    /// Warns if the directory was moved.
    pub(crate) fn look_for_move(&self, disk: &dyn Disk) {
        self.known_place.look(disk);
    }
}
