//! The threads that keep the log going: one flushes `Async` commits in time, and writes a record behind the last batch of an
//! idle log; the other makes segments ready ahead of need, so that a slow disk delays no flush.
//!
//! ```text
//!   async_commit -> log_work -----> flush after flush_interval
//!   nothing for IDLE -------------> one record that says nothing, flushed
//!   spares are low -> segment_work -> prepare_ahead
//! ```
//! **Why an idle log gets one more record.** Only a later record says that the log had been durable before it. Damage of
//! the last batch cannot be distinguished from a batch that was torn off when the power went, and would cost acknowledged
//! commits in silence. Behind the last batch of an idle log there is a record that nobody misses.

use std::convert::Infallible;
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{Log, LogError, PreparedRecord};

use crate::background::IDLE;
use crate::engine::Engine;
use crate::error::Error;

/// When the log is idle, and whether that was answered.
#[derive(Debug)]
struct IdleLog {
    /// Where the log ended at the last look.
    end: Lsn,
    /// When it was first seen to end there.
    since: Duration,
    /// The record that says nothing ends here.
    closed_off: Option<Lsn>,
}

impl IdleLog {
    fn new(end: Lsn, now: Duration) -> IdleLog {
        IdleLog { end, since: now, closed_off: None }
    }

    /// Whether a log that ends at `end` is to be closed off now: once, when nothing has been added for a while.
    fn is_to_be_closed_off(&mut self, end: Lsn, now: Duration) -> bool {
        if end != self.end {
            (self.end, self.since) = (end, now);
        }
        self.closed_off != Some(end) && now.saturating_sub(self.since) >= IDLE
    }
}

impl Engine {
    /// The thread that flushes.
    pub(crate) fn keep_log(&self) {
        let (background, Some(log)) = (&self.background, self.log.written()) else { return };
        let mut idle = IdleLog::new(log.appended(), self.clock().monotonic());
        loop {
            let seen = background.log_work.read();
            if background.stopping() {
                return;
            }
            let kept = if background.flush_wanted.load(Ordering::SeqCst) {
                background.rest(self.options.log.flush_interval);
                // Before the flush: a commit that comes now asks again.
                background.flush_wanted.store(false, Ordering::SeqCst);
                log.flush_until(log.appended()).map_err(Error::from)
            } else if idle.is_to_be_closed_off(log.appended(), self.clock().monotonic()) {
                self.close_off(log).map(|end| idle.closed_off = Some(end))
            } else {
                background.log_work.wait(seen, Some(IDLE));
                Ok(())
            };
            if let Err(Error::Parked) = kept {
                // There is nothing to be flushed, and somebody else's log may be next.
                background.log_work.wait(seen, Some(IDLE));
            } else if let Err(error) = kept {
                if self.lifecycle.check_writable().is_err() {
                    return;
                }
                // A full disk, for example. Commits meet the same error and report it.
                tracing::warn!(%error, "the idle log is not closed off; this will be tried again");
                background.log_work.wait(seen, Some(IDLE));
            }
        }
    }

    /// Appends a record that says nothing, durably; where it ends.
    fn close_off(&self, log: &Log) -> Result<Lsn, Error> {
        let appended = log.append(&mut PreparedRecord::no_op(0), |_| Ok::<_, Infallible>(()));
        let Ok((span, ())) = appended?;
        log.flush_until(span.end)?;
        Ok(span.end)
    }

    /// Makes spare segments ready. On a standby for its promotion, too: a timeline begins in one.
    pub(crate) fn prepare_segments(&self) -> Result<(), LogError> {
        match (self.log.written(), self.log.received()) {
            (Some(log), _) => log.prepare_ahead(),
            (None, Some(log)) => log.prepare_ahead(),
            (None, None) => Ok(()),
        }
    }

    /// The thread that makes segments.
    pub(crate) fn keep_segments(&self) {
        let background = &self.background;
        loop {
            let seen = background.segment_work.read();
            if background.stopping() {
                return;
            }
            if let Err(error) = self.prepare_segments() {
                // Whoever needs the segment meets the same error and reports it to its caller.
                tracing::warn!(%error, "log segment not made ready ahead of need");
            }
            background.segment_work.wait(seen, Some(IDLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_log_is_closed_off_once_until_something_is_added() {
        let at = Duration::from_millis;
        let mut idle = IdleLog::new(Lsn::new(100), at(0));
        assert!(!idle.is_to_be_closed_off(Lsn::new(100), at(999)));
        assert!(
            idle.is_to_be_closed_off(Lsn::new(100), at(1000)),
            "what an earlier process has written, too"
        );
        idle.closed_off = Some(Lsn::new(114));
        for now in [1001, 2001, 1 << 40] {
            assert!(!idle.is_to_be_closed_off(Lsn::new(114), at(now)));
        }
        // Added to again and again.
        for now in 0..10_000 {
            assert!(!idle.is_to_be_closed_off(Lsn::new(200 + now), at((1 << 40) + now)));
        }
        assert!(idle.is_to_be_closed_off(Lsn::new(10_199), at((1 << 40) + 20_000)));
    }
}
