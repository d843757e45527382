//! The gate before pages and archives: what they hold can never be taken back by a failover.
//!
//! ```text
//!   frozen memtable, rows of a bulk load --> [gate] --> pages          log --> [end that is safe] --> archive
//!                                              |
//!                        a quorum has it; or, where commits wait for none, one standby that could take over
//! ```
//! So a server that was replaced cuts its log where the new timeline left it, and has nothing to take back in its pages
//! (`recovery::rejoin`). The gate costs nothing while no standby has ever connected, and next to nothing while one keeps up.
//!
//! **It has a limit**: after [`CheckpointOptions::standby_wait`](crate::CheckpointOptions::standby_wait), or when half of the room for
//! new rows is used up meanwhile, what is visible goes into pages all the same, and the log and the statistics say so. What is not
//! visible stays out: such a checkpoint fails, and is tried again.

use std::time::Duration;

use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::options::ReplicationLevel;

/// Between two looks at the room that is left: nobody announces it.
const LOOK: Duration = Duration::from_millis(50);

impl Engine {
    /// Waits until no failover takes back what was committed up to `lsn`, or the limit is reached.
    pub(crate) fn wait_safe_for_pages(&self, lsn: Lsn) -> Result<(), Error> {
        if self.is_safe_for_pages(lsn) {
            return Ok(());
        }
        let begun = self.clock().monotonic();
        // No other thread acknowledges, or moves a clock, where the caller does all the work.
        let limit = if self.is_manual() { Duration::ZERO } else { self.options.checkpoint.standby_wait };
        let left = || limit.saturating_sub(self.clock().monotonic().saturating_sub(begun));
        let has_room = || self.active_bytes() < self.active_limit() / 2;
        let goes_on = || self.lifecycle.check_open().is_ok() && !left().is_zero() && has_room();
        let wait = || goes_on().then(|| self.go_alone_in_time().unwrap_or(LOOK).min(left()).min(LOOK));
        self.queue.wait_until(None, || self.is_safe_for_pages(lsn), wait);
        if self.is_safe_for_pages(lsn) {
            return Ok(());
        }
        self.lifecycle.check_not_stopped()?;
        if self.visible() < lsn || self.lifecycle.check_open().is_err() {
            return Err(Error::StandbysLack { lsn });
        }
        self.members.opened_gate();
        tracing::warn!(%lsn, waited = ?self.clock().monotonic().saturating_sub(begun),
            "what standbys lack goes into pages: if one of them is promoted now, this server cannot follow it by a cut of its log");
        Ok(())
    }

    /// Whether no failover takes back what was committed up to `lsn`, as far as is known.
    pub(crate) fn is_safe_for_pages(&self, lsn: Lsn) -> bool {
        if self.log.written().is_none() {
            return true;
        }
        match self.members.are_required() {
            true => self.visible() >= lsn && self.queue.watermarks().at(ReplicationLevel::Flushed) >= lsn,
            false => self.members.has_candidate_with(lsn),
        }
    }

    /// Waits until the log up to `lsn` may go into archives; with the limit of the gate before pages, which is not passed here.
    pub(crate) fn wait_safe_for_archives(&self, lsn: Lsn) -> Result<(), Error> {
        let begun = self.clock().monotonic();
        let limit = if self.is_manual() { Duration::ZERO } else { self.options.checkpoint.standby_wait };
        let left = || limit.saturating_sub(self.clock().monotonic().saturating_sub(begun));
        let goes_on = || self.lifecycle.check_open().is_ok() && !left().is_zero();
        let wait = || goes_on().then(|| self.go_alone_in_time().unwrap_or(LOOK).min(left()).min(LOOK));
        self.queue.wait_until(None, || self.safe_end() >= lsn, wait);
        if self.safe_end() >= lsn {
            return Ok(());
        }
        self.lifecycle.check_not_stopped()?;
        self.lifecycle.check_open()?;
        Err(Error::StandbysLack { lsn })
    }

    /// The end of the log that may go into archives.
    pub(crate) fn safe_end(&self) -> Lsn {
        self.flushed().min(self.queue.watermarks().at(ReplicationLevel::Flushed))
    }
}
