//! Waits for gaps in an archive without polling the database.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::atomic::{AtomicBool, Ordering};

use super::Archiver;
use crate::engine::Engine;
use crate::error::Error;

/// Tells of gaps in an archive: `DatabaseLog::watch_archive`. It does not keep the database open.
#[derive(Debug)]
pub struct ArchiveWatch {
    archiver: Arc<Archiver>,
    is_ended: AtomicBool,
}

impl ArchiveWatch {
    /// Gaps that were opened since the database was opened, and are on record in the archive.
    pub fn gaps(&self) -> u64 {
        self.archiver.state.lock().counts.gaps
    }

    /// Waits until there are more gaps than `seen`, at most for `timeout`. Whether to go on: `false` when `end` was called, or
    /// the database is being closed.
    pub fn wait(&self, seen: u64, timeout: Option<Duration>) -> bool {
        // The word changes for other things too, or is interrupted: how long is left then is of no consequence.
        loop {
            let word = self.archiver.news.read();
            if self.is_over() {
                return false;
            }
            if self.gaps() > seen {
                return true;
            }
            self.archiver.news.wait(word, timeout);
            if timeout.is_some() {
                return !self.is_over();
            }
        }
    }

    /// Wakes all that wait, for the last time.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.archiver.news.wake_all();
    }

    fn is_over(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst) || self.archiver.is_closing.load(Ordering::SeqCst)
    }
}

impl Engine {
    pub(crate) fn watch_archive(&self, name: &str) -> Result<ArchiveWatch, Error> {
        let archiver = self.archivers.all().iter().find(|archiver| archiver.name == name);
        let archiver = Arc::clone(archiver.ok_or(Error::NoArchive)?);
        Ok(ArchiveWatch { archiver, is_ended: AtomicBool::new(false) })
    }
}
