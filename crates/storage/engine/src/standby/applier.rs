//! The thread that applies what a standby receives, as soon as it is durable.
//!
//! ```text
//!   sync of the received log --> apply_work --> a step, and the next, until nothing is left --> visible moves --> those who wait for it
//!                                                 |
//!                                  the memtable is full: the checkpoint thread is asked; when its room is used up, this thread waits
//! ```
//! What is little, the receiving thread applies itself, right after its sync: two changes of threads less until readers see it.
//!
//! With `Background::Manual` there is no such thread, and [`Standby::apply`](crate::Standby::apply) does the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_types::{Lsn, TimelineId};

use crate::background::IDLE;
use crate::checkpoint::statistics::Trigger;
use crate::engine::Engine;
use crate::error::Error;
use crate::standby::apply::{Pace, StepEnd, not_a_standby};

/// How long a failed step waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Log that the receiving thread applies itself: some tenths of a millisecond of work.
const LITTLE_BYTES: u64 = 64 << 10;

impl Engine {
    /// The thread.
    pub(crate) fn keep_applying(&self) {
        let work = &self.background.apply_work;
        loop {
            let seen = work.read();
            if self.background.stopping() || self.log.received().is_none() {
                return;
            }
            let stepped = self.catching(|| self.apply_what_is_due());
            match &stepped {
                Ok(StepEnd::More) => continue,
                Ok(StepEnd::All) => work.wait(seen, Some(IDLE)),
                Ok(StepEnd::Held(left)) => work.wait(seen, Some((*left).min(IDLE))),
                // A promotion may have ended the log that this thread applies.
                Err(_) if self.log.received().is_none() => return,
                Err(error) => {
                    tracing::error!(%error, "what was received cannot be applied");
                    if self.lifecycle.check_not_stopped().is_err() {
                        self.apply_control.applied.wake_all();
                    }
                    work.wait(seen, Some(RETRY));
                }
            }
        }
    }

    fn catching<R>(&self, step: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let stepped = catch_unwind(AssertUnwindSafe(step));
        stepped.unwrap_or_else(|_| Err(self.lifecycle.stop("applying the received log panicked".to_owned())))
    }

    /// What was received is durable up to `flushed`: it is applied, by the calling thread if it is little and nothing is in the way.
    pub(crate) fn apply_synced(&self, flushed: Lsn) {
        let is_all_applied = !self.is_manual() && self.apply_little(flushed);
        if !is_all_applied {
            self.background.apply_work.wake_all();
        }
    }

    /// Whether there is nothing left to do for the thread that applies.
    fn apply_little(&self, flushed: Lsn) -> bool {
        let control = &self.apply_control;
        let is_little = flushed.get().saturating_sub(self.visible().get()) <= LITTLE_BYTES;
        // A checkpoint that is due may have to be waited for, and that is not for this thread.
        if !is_little || control.is_paused() || !control.delay().is_zero() || self.limit_reached().is_some() {
            return false;
        }
        // The other thread tries again after an error, and reports it.
        let stepped = self.catching(|| self.apply_step_now());
        matches!(stepped, Ok(Some((applied, _))) if applied >= flushed) && self.limit_reached().is_none()
    }

    /// One step, unless applying is paused.
    fn apply_what_is_due(&self) -> Result<StepEnd, Error> {
        if self.apply_control.is_paused() {
            return Ok(StepEnd::All);
        }
        let (_, end) = self.apply_turn_step(Pace::Delayed)?;
        self.make_room()?;
        Ok(end)
    }

    /// Lets a checkpoint begin that is due. Waits for one only where the memtables are full.
    pub(crate) fn make_room(&self) -> Result<(), Error> {
        if self.is_manual() {
            let due = self.limit_reached().or_else(|| self.interval_over());
            return due.map_or(Ok(()), |trigger| self.checkpoint(trigger).map(drop));
        }
        // The interval is for the checkpoint thread to watch.
        if self.limit_reached().is_none() {
            return Ok(());
        }
        self.background.want_checkpoint();
        if self.active_bytes() >= self.active_limit() / 4 * 5 {
            self.checkpoint(Trigger::MemtableFull)?;
        }
        Ok(())
    }

    /// Waits until the log is on another timeline than `timeline`, for `limit` at most. Whether it is.
    pub(crate) fn wait_until_left(&self, timeline: TimelineId, limit: Duration) -> bool {
        let begun = self.clock().monotonic();
        let applied = &self.apply_control.applied;
        loop {
            let seen = applied.read();
            // Of the log itself: the superblock is on a timeline earlier than the log.
            if self.log.timeline() != Some(timeline) {
                return true;
            }
            let waited = self.clock().monotonic().saturating_sub(begun);
            let left = limit.checked_sub(waited).filter(|left| !left.is_zero());
            let goes_on =
                self.lifecycle.check_open().and_then(|()| self.lifecycle.check_not_stopped()).is_ok();
            let Some(left) = left.filter(|_| goes_on) else { return false };
            // Bounded, because not everything that ends the wait is announced.
            applied.wait(seen, Some(left.min(IDLE)));
        }
    }

    /// Waits until everything before `lsn` is applied, for `limit` at most.
    pub(crate) fn wait_applied(&self, lsn: Lsn, limit: Duration, cancel: &CancelToken) -> Result<(), Error> {
        let begun = self.clock().monotonic();
        let applied = &self.apply_control.applied;
        loop {
            let seen = applied.read();
            if self.visible() >= lsn {
                return Ok(());
            }
            self.lifecycle.check_open()?;
            self.lifecycle.check_not_stopped()?;
            if self.log.received().is_none() {
                return Err(not_a_standby());
            }
            if cancel.is_requested() {
                return Err(Error::Cancelled);
            }
            let waited = self.clock().monotonic().saturating_sub(begun);
            let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(Error::NotApplied { wanted: lsn, applied: self.visible() });
            };
            // Bounded, because not everything that ends the wait is announced.
            cancel.wait(applied, seen, Some(left.min(IDLE)));
        }
    }
}
