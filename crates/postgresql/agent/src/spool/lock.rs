//! Files of a spool that one process holds at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use seawall_io::Clock;

use super::Spool;
use super::place::at;

/// How often it is looked whether a lock is free: nobody waits for one but at the end of an agent.
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// A file that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// By the agent, while it runs.
    Agent,
    /// By a command, while it starts one.
    Start,
}

/// Held until dropped, or until the process ends in any way.
#[derive(Debug)]
pub struct SpoolLock {
    _file: File,
}

impl Spool {
    /// Locks a file of the spool, if nobody holds it.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_lock(&self, lock: Lock) -> io::Result<Option<SpoolLock>> {
        let file = self.open_lock(lock)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(SpoolLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks a file of the spool, and waits so long for whoever holds it.
    ///
    /// # Errors
    /// What the system says; `TimedOut`.
    pub fn lock_within(&self, lock: Lock, patience: Duration, clock: &dyn Clock) -> io::Result<SpoolLock> {
        let begun = clock.monotonic();
        loop {
            if let Some(held) = self.try_lock(lock)? {
                return Ok(held);
            }
            if clock.monotonic().saturating_sub(begun) >= patience {
                let holder = match lock {
                    Lock::Agent => "another agent, which ends when its last uploads and downloads have ended",
                    Lock::Start => "another command, which starts an agent",
                };
                let (seconds, directory) = (patience.as_secs(), self.directory.display());
                let problem = format!("{directory} was in use for {seconds} s by {holder}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            clock.sleep(LOCK_AGAIN);
        }
    }

    fn open_lock(&self, lock: Lock) -> io::Result<File> {
        let path = self.directory.join(match lock {
            Lock::Agent => "agent.lock",
            Lock::Start => "start.lock",
        });
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(at(&path))
    }
}
