//! The thread that applies what a standby receives, as soon as it is durable.
//!
//! ```text
//!   sync of the received log --> apply_work --> a step, and the next, until nothing is left --> visible moves --> those who wait for it
//!                                                 |
//!                                  the memtable is full: the checkpoint thread is asked; when its room is used up, this thread waits
//! ```
//! With `Background::Manual` there is no such thread, and [`Standby::apply`](crate::Standby::apply) does the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_types::Lsn;

use crate::background::IDLE;
use crate::checkpoint::statistics::Trigger;
use crate::engine::Engine;
use crate::error::Error;
use crate::standby::apply::{Pace, StepEnd, not_a_standby};

/// How long a failed step waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// The thread.
    pub(crate) fn keep_applying(&self) {
        let work = &self.background.apply_work;
        loop {
            let seen = work.read();
            if self.background.stopping() || self.log.received().is_none() {
                return;
            }
            let stepped = catch_unwind(AssertUnwindSafe(|| self.apply_what_is_due()));
            let stepped = stepped.unwrap_or_else(|_| {
                Err(self.lifecycle.stop("applying the received log panicked".to_owned()))
            });
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
