//! Promotion in place: a standby becomes the primary, and its readers continue undisturbed.
//!
//! ```text
//!   receive nothing more, all whole records durable --> apply the rest --> new timeline (`wal::switch`) --> superblock, both copies
//!       --> the engine's log is written --> background threads
//! ```
//! **If the power goes** before the superblock names the new timeline, this is a standby again, and may go on receiving or be promoted
//! once more. After it, the new timeline is complete: see `recovery::timeline`.
//!
//! Locks of transactions in doubt are held already, and nothing is read, removed or replayed on the way.

use std::sync::Arc;

use seawall_wal::LogObserver;

use crate::engine::Engine;
use crate::error::Error;
use crate::log::setup::LogSetup;
use crate::recovery::timeline::{self, NewTimeline};
use crate::standby::apply::not_a_standby;

impl Engine {
    /// Ends receiving, applies what has come, and writes on a new timeline from now on.
    pub(crate) fn promote(self: &Arc<Self>, new: NewTimeline<'_>) -> Result<(), Error> {
        self.lifecycle.check_open()?;
        let received = self.log.received().ok_or_else(not_a_standby)?;
        let end = received.close()?;
        self.apply_received()?;
        // A checkpoint stores superblocks, too, and a freeze looks whose log it is.
        let checkpoint_turn = self.checkpoint_turn.take();
        let apply_turn = self.apply_turn.take();
        // Another call may have had the turns meanwhile, or the end.
        self.lifecycle.check_open()?;
        self.lifecycle.check_not_stopped()?;
        if self.log.received().is_none() {
            return Err(not_a_standby());
        }
        let setup = LogSetup {
            environment: &self.environment,
            options: &self.options,
            keys: self.keys.as_ref(),
            observer: Some(Arc::clone(&self.observer) as Arc<dyn LogObserver>),
        };
        let mut superblock = self.redo.superblock();
        let log = timeline::begin(&setup, &self.tree, &mut superblock, end, new)?;
        self.redo.stored(superblock);
        self.log.become_written(log);
        drop((apply_turn, checkpoint_turn));
        self.take_up_log_holds()?;
        self.prepare_archivers()?;
        if !self.is_manual() {
            self.start_background()?;
        }
        Ok(())
    }
}
