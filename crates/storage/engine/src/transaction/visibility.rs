//! Waits until commits are visible.

use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Makes all that is logged now durable; where that ends.
    pub(crate) fn flush(&self) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        let (log, end) = (self.log()?, self.appended());
        log.flush_until(end)?;
        Ok(end)
    }

    /// Waits until `stamp` is visible; returns early if the log is poisoned, because then it may never be.
    pub(crate) fn wait_visible(&self, stamp: Lsn) {
        if self.visible() >= stamp {
            return;
        }
        // A commit ahead may be `Sync` and nobody be waiting for its flush: its handle may be held unwaited.
        if let Some(log) = self.log.written() {
            log.request_flush(log.appended());
        }
        let give_up = || self.log.written().is_none_or(|log| log.poison_cause().is_some());
        self.queue.wait_visible(stamp, give_up);
    }

    /// As `wait_visible`; `Stopped` if that may never be.
    pub(crate) fn require_visible(&self, stamp: Lsn) -> Result<(), Error> {
        self.wait_visible(stamp);
        if self.visible() < stamp { Err(self.lifecycle.stopped_error()) } else { Ok(()) }
    }

    /// Waits until all that is logged now is durable and visible.
    pub(crate) fn wait_for_all_logged(&self) -> Result<(), Error> {
        let logged = self.queue.last_entered();
        self.log()?.flush_until(self.appended())?;
        self.require_visible(logged)
    }
}
