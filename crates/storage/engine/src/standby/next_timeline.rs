//! A standby goes on from one timeline to the next: another standby was promoted, and this one follows it from now on.
//!
//! ```text
//!   all of the old timeline durable --> history, mark of the new one (`wal::received_log`) --> superblock, both copies
//!       --> the engine's log is that of the new timeline --> receive
//! ```
//! **If the power goes** before the superblock names the new timeline, this is a standby on the old one, which has all of it, and does
//! the same again. After it, this is a standby on the new timeline that has nothing of it yet.
//!
//! What is not applied yet is applied later, from both timelines, as after a restart: a pause and a delay go on.
//!
//! A failure leaves a standby that receives nothing of the old timeline, and may be given the history once more.

use std::sync::Arc;
use std::time::Duration;

use seawall_tree::Superblock;
use seawall_types::Lsn;
use seawall_wal::{LogError, LogObserver, TimelineHistory};

use crate::engine::Engine;
use crate::error::Error;
use crate::log::setup::LogSetup;
use crate::recovery::timeline::history_of;
use crate::standby::apply::not_a_standby;
use crate::standby::copied;
use crate::standby::phases::Laps;

impl Engine {
    /// Where the timeline that is received was left for one of `history`, if it was.
    pub(crate) fn left_for(&self, history: &TimelineHistory) -> Result<Option<Lsn>, Error> {
        let own = history_of(&self.environment.disk, &self.redo.superblock())?;
        let not_ours = || Error::OtherHistory { own: own.timeline, other: history.timeline };
        if own.timeline == history.timeline {
            let is_same = own.timeline(own.timeline) == history.timeline(own.timeline);
            return if is_same { Ok(None) } else { Err(not_ours()) };
        }
        let (before, after) = history.forks.split_at_checked(own.forks.len()).ok_or_else(not_ours)?;
        let are_ours = before.iter().zip(&own.forks).all(|(theirs, ours)| {
            (theirs.parent, theirs.fork, theirs.mark) == (ours.parent, ours.fork, ours.mark)
        });
        match after.first() {
            Some(fork) if are_ours && fork.parent == own.timeline => Ok(Some(fork.fork)),
            _ => Err(not_ours()),
        }
    }

    /// Follows the timeline of `history` from now on, which left the one that was received where this server's log ends.
    pub(crate) fn follow_timeline(&self, history: &TimelineHistory) -> Result<(), Error> {
        self.lifecycle.check_open()?;
        let _log_turn = self.log_turn.take_now().ok_or_else(is_being_promoted)?;
        let received = self.log.received().ok_or_else(not_a_standby)?;
        let own = self.timeline();
        let fork = self.left_for(history)?;
        // A timeline after the next one begins where the next one ends.
        let is_next = history.forks.last().is_some_and(|last| last.parent == own);
        let fork = fork.filter(|_| is_next).ok_or(Error::OtherHistory { own, other: history.timeline })?;
        match received.sync() {
            // By an attempt that failed later.
            Err(LogError::Closed) => {}
            synced => drop(synced?),
        }
        let end = received.flushed();
        if end > fork {
            return Err(Error::BeyondFork { end, fork, timeline: history.timeline });
        }
        // Its rows may be of commits that are not in the new timeline's history.
        let disk = &self.environment.disk;
        if self.apply_control.copied_until().is_some()
            && let Some(copied) = copied::read(&**disk)?
            && !copied.is_reached_by(history, disk)?
        {
            return Err(Error::CopyBeyondFork { end: copied.end, fork, timeline: history.timeline });
        }
        if end < fork {
            let message =
                format!("timeline {own} goes on to {fork}, and what was received of it ends at {end}");
            return Err(Error::Log { message });
        }
        received.end()?;
        let mut laps = Laps::begin(&**self.clock());
        let [wait, begin, superblock] = self.begin_receiving(history, &mut laps)?;
        tracing::info!(parent = %own, timeline = %history.timeline, %fork, ?wait, ?begin, ?superblock,
            "this standby follows a new timeline");
        Ok(())
    }

    /// The turns are those of a promotion, for the same reasons. How long was waited for them, and what the log and the superblock took.
    fn begin_receiving(
        &self,
        history: &TimelineHistory,
        laps: &mut Laps<'_>,
    ) -> Result<[Duration; 3], Error> {
        let mut apply_turn = self.apply_turn.take();
        let _storing = self.redo.storing();
        let wait = laps.lap();
        self.lifecycle.check_open()?;
        self.lifecycle.check_not_stopped()?;
        let received = self.log.received().ok_or_else(not_a_standby)?;
        let timeline = history.timeline(history.timeline);
        let next =
            Superblock { timeline: timeline.id, timeline_mark: timeline.mark, ..self.redo.superblock() };
        let setup = LogSetup {
            environment: &self.environment,
            options: &self.options,
            keys: self.keys.as_ref(),
            observer: Some(Arc::clone(&self.observer) as Arc<dyn LogObserver>),
        };
        let log = received.begin_next(&setup.log_options(&next, history.clone()));
        let log = log.map_err(|error| Error::log(&error))?;
        let begin = laps.lap();
        for _copy in 0..2 {
            let stored = self.tree.store_superblock(&next);
            stored.map_err(|error| match self.tree.failure() {
                Some(failure) => self.lifecycle.stop(failure),
                None => Error::tree(&error),
            })?;
        }
        let superblock = laps.lap();
        self.redo.stored(next);
        self.log.receive_next(log);
        // Those who wait until the timeline is left.
        self.apply_control.applied.wake_all();
        // Its reader knows the old history.
        apply_turn.reader = None;
        Ok([wait, begin, superblock])
    }
}

fn is_being_promoted() -> Error {
    Error::Log { message: "this server is being promoted, or goes on to another timeline".to_owned() }
}
