//! Promotion in place: a standby becomes the primary, and its readers continue undisturbed.
//!
//! ```text
//!   receive nothing more, all whole records durable --> apply the rest --> new timeline (`wal::switch`) --> superblock, both copies
//!       --> the engine's log is written --> holds, archivers, background threads --> writers
//! ```
//! **If the power goes** before the superblock names the new timeline, this is a standby again, and may go on receiving or be promoted
//! once more. After it, the new timeline is complete: see `recovery::timeline`.
//!
//! Locks of transactions in doubt are held already, and nothing is read, removed or replayed on the way. Six syncs in series, if all
//! that was received is durable: four of the log (`wal::switch`), and each copy of the superblock.
//!
//! A failure before the engine's log is written leaves a standby that receives nothing more, and may be promoted once more. After that
//! nothing is taken back: the engine stops, and the next open finds a database on its new timeline.

use std::sync::Arc;

use seawall_wal::{LogEnd, LogObserver};

use crate::engine::Engine;
use crate::error::Error;
use crate::log::setup::LogSetup;
use crate::recovery::timeline::{self, Left, NewTimeline};
use crate::sabotage::{Defect, sabotaged};
use crate::standby::apply::not_a_standby;
use crate::standby::phases::{Laps, Promotion, PromotionPhases};

impl Engine {
    /// Ends receiving, applies what has come, and writes on a new timeline from now on.
    pub(crate) fn promote(self: &Arc<Self>, new: NewTimeline<'_>) -> Result<Promotion, Error> {
        let mut laps = Laps::begin(&**self.clock());
        let mut phases = PromotionPhases::default();
        self.lifecycle.check_open()?;
        self.check_copy_is_whole()?;
        let _log_turn = self.log_turn.take();
        let received = self.log.received().ok_or_else(not_a_standby)?;
        // A number that cannot be had ends nothing.
        timeline::number_of(&self.environment.disk, &self.redo.superblock(), new)?;
        let end = received.end()?;
        phases.receive = laps.lap();
        if !sabotaged(Defect::PromotionSkipsUnapplied) {
            self.apply_the_rest()?;
        }
        phases.apply = laps.lap();
        self.begin_writing(end, new, &mut laps, &mut phases)?;
        self.apply_control.applied.wake_all();
        self.background.apply_work.wake_all();
        // From here on the timeline is this server's: half a primary would be neither.
        self.take_up_writing().map_err(|error| {
            self.lifecycle
                .stop(format!("the promotion could not be completed, and the next open does: {error}"))
        })?;
        phases.writers = laps.lap();
        let promotion = Promotion { timeline: self.timeline(), fork: end.lsn, phases };
        *self.counters.promotion.lock() = Some(promotion);
        tracing::info!(timeline = %promotion.timeline, fork = %promotion.fork, took = ?phases.total(), ?phases,
            "this server was promoted");
        Ok(promotion)
    }

    /// The new timeline, and the engine's log on it. A freeze looks whose log it is, and a checkpoint stores superblocks, too; none of
    /// them is waited for but for a chunk that is being written.
    fn begin_writing(
        &self,
        end: LogEnd,
        new: NewTimeline<'_>,
        laps: &mut Laps<'_>,
        phases: &mut PromotionPhases,
    ) -> Result<(), Error> {
        let _apply_turn = self.apply_turn.take();
        let _storing = self.redo.storing();
        phases.wait = laps.lap();
        // Another call may have had the turns meanwhile, or the end.
        self.lifecycle.check_open()?;
        self.lifecycle.check_not_stopped()?;
        let left = Left { end, received: Some(self.log.received().ok_or_else(not_a_standby)?) };
        let setup = LogSetup {
            environment: &self.environment,
            options: &self.options,
            keys: self.keys.as_ref(),
            observer: Some(Arc::clone(&self.observer) as Arc<dyn LogObserver>),
        };
        let mut superblock = self.redo.superblock();
        let begun = timeline::begin_log(&setup, &superblock, left, new)?;
        phases.timeline = laps.lap();
        let log = timeline::go_on(&self.tree, &mut superblock, begun).map_err(|error| {
            match self.tree.failure() {
                // One copy of the superblock may name the new timeline.
                Some(failure) => self.lifecycle.stop(failure),
                None => error,
            }
        })?;
        phases.superblock = laps.lap();
        self.redo.stored(superblock);
        // Before the first commit: none has waited for standbys yet.
        self.members.begin_waiting(self.clock().monotonic());
        self.log.become_written(log);
        // Those who wait until the timeline is left.
        self.apply_control.applied.wake_all();
        Ok(())
    }

    /// What a database has that takes writes, and then the writers.
    fn take_up_writing(self: &Arc<Self>) -> Result<(), Error> {
        self.take_up_log_holds()?;
        self.begin_marking()?;
        self.prepare_archivers()?;
        if !self.is_manual() {
            self.start_writing()?;
        }
        self.log.let_writers_in();
        Ok(())
    }
}
