//! Waits until commits are visible, and as durable as they ask.
//!
//! Without a quorum of standbys (`quorum`) such a wait lasts as long as a flush, and nothing cuts it short but a log that has failed.
//! With one it lasts until enough standbys have what is waited for: it can be cancelled, and ends when the database is closed. The
//! first thread whose time is up makes this server go on alone, if the options say so.

use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_types::Lsn;

use crate::background::IDLE;
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

    /// Waits until `stamp` is visible; returns early if the log is poisoned, because then it may never be, and where standbys are
    /// waited for, if the wait is cancelled or the database closed.
    pub(crate) fn wait_visible(&self, stamp: Lsn, cancel: Option<&CancelToken>) {
        if self.visible() >= stamp {
            return;
        }
        // A commit ahead may be `Sync` and nobody be waiting for its flush: its handle may be held unwaited.
        if let Some(log) = self.log.written() {
            log.request_flush(log.appended());
        }
        self.queue.wait_until(cancel, || self.visible() >= stamp, || self.wait_limit(cancel));
    }

    /// How long to wait for commits that are not visible before another look; `None`: no longer.
    pub(crate) fn wait_limit(&self, cancel: Option<&CancelToken>) -> Option<Duration> {
        let is_poisoned = self.log.written().is_none_or(|log| log.poison_cause().is_some());
        if is_poisoned || self.is_wait_over(cancel) {
            return None;
        }
        let alone_in = self.go_alone_in_time();
        Some(alone_in.map_or(IDLE, |left| left.min(IDLE)))
    }

    /// Whether a wait for standbys is to end without them.
    fn is_wait_over(&self, cancel: Option<&CancelToken>) -> bool {
        self.members.are_required()
            && (cancel.is_some_and(CancelToken::is_requested) || self.lifecycle.check_open().is_err())
    }

    /// As `wait_visible`; `Stopped` if that may never be, `Cancelled` or `Closed` if the wait for standbys was ended.
    pub(crate) fn require_visible(&self, stamp: Lsn, cancel: Option<&CancelToken>) -> Result<(), Error> {
        self.wait_visible(stamp, cancel);
        if self.visible() >= stamp {
            return Ok(());
        }
        if self.is_wait_over(cancel) {
            self.lifecycle.check_not_stopped()?;
            self.lifecycle.check_open()?;
            return Err(Error::Cancelled);
        }
        Err(self.lifecycle.stopped_error())
    }

    /// Waits until a commit is visible that is durable here, and waits for standbys.
    pub(crate) fn require_replicated(&self, stamp: Lsn, cancel: Option<&CancelToken>) -> Result<(), Error> {
        self.require_visible(stamp, cancel).map_err(|error| match error {
            Error::Cancelled | Error::Closed => Error::NotReplicated { lsn: stamp },
            other => other,
        })
    }

    /// Waits until all that is logged now is durable and visible.
    pub(crate) fn wait_for_all_logged(&self, cancel: Option<&CancelToken>) -> Result<(), Error> {
        let logged = self.queue.last_entered();
        self.log()?.flush_until(self.appended())?;
        self.require_visible(logged, cancel)
    }
}
