//! Keeps the mark of what is visible, and takes up after a restart what was not.

use std::time::Duration;

use seawall_types::Lsn;

use crate::background::IDLE;
use crate::engine::Engine;
use crate::error::Error;
use crate::options::{Durability, Options, ReplicationLevel};
use crate::quorum::mark::{Content, QuorumMark};
use crate::quorum::members::Alone;
use crate::standby::apply::Unshown;

/// Between two stores of the mark.
const INTERVAL: Duration = Duration::from_millis(200);

/// Whether the options allow a server to go on alone.
fn goes_on_alone(options: &Options) -> bool {
    options.quorum.is_some_and(|quorum| quorum.alone_after.is_some())
}

/// Up to where the log is shown by a database that is opened with this mark: `None` for all of it.
pub(crate) fn shown_by(mark: &Content, options: &Options) -> Option<Lsn> {
    (mark.alone.is_none() || !goes_on_alone(options)).then_some(mark.visible)
}

impl Engine {
    /// Applies the log from `shown` to `end`, which nobody sees before a quorum has it: for a database that was just opened.
    pub(crate) fn apply_unshown(&self, shown: Lsn, end: Lsn) -> Result<(), Error> {
        if shown >= end {
            return Ok(());
        }
        let applied = Unshown { from: shown, end }.apply(self)?;
        if applied.commits == 0 {
            // The record of a checkpoint, perhaps: later commits need not wait behind it.
            return Ok(());
        }
        self.queue.count_rows(applied.rows);
        let ticket = self
            .queue
            .enter(end)
            .expect("no commit has entered the queue of a database that is being opened");
        self.queue.applied(ticket, Durability::Replicated(ReplicationLevel::Flushed));
        tracing::warn!(%shown, %end, "what the log holds from here on is shown when a quorum of standbys has it");
        Ok(())
    }

    /// Goes on alone as before, if this server was alone when it ended.
    pub(crate) fn take_up_alone(&self, recorded: Option<Alone>) {
        let Some(alone) = recorded else { return };
        if goes_on_alone(&self.options) {
            self.members.still_alone(alone, self.queue.watermarks());
            tracing::error!(
                from = %alone.from,
                "this server went on alone before it ended, and still does: a standby that is promoted now lacks what it acknowledges"
            );
        } else {
            tracing::warn!(
                from = %alone.from,
                "this server went on alone before it ended: what it acknowledged then is shown when a quorum of standbys has it"
            );
        }
    }

    /// What is visible and on stable storage: `Async` commits may be lost with the power.
    fn visible_for_good(&self) -> Lsn {
        self.visible().min(self.flushed())
    }

    /// Makes the mark, where standbys are waited for; removes it where they are not.
    pub(crate) fn begin_marking(&self) -> Result<(), Error> {
        let disk = &*self.environment.disk;
        if !self.members.are_required() {
            return QuorumMark::remove(disk);
        }
        let content = Content { visible: self.visible_for_good(), alone: self.members.alone() };
        let mark = QuorumMark::create(disk, self.redo.superblock().database, content)?;
        *self.quorum_mark.lock() = Some(mark);
        Ok(())
    }

    /// Moves the mark to what is visible now.
    pub(crate) fn keep_mark(&self) {
        if let Some(mark) = &mut *self.quorum_mark.lock() {
            let visible = self.visible_for_good();
            let stored = mark.store(Content { visible, ..mark.content() });
            if let Err(error) = stored {
                tracing::warn!(%error, "the mark of what is visible stays behind: a restart shows less until a quorum is connected");
            }
        }
    }

    /// Puts on record that this server goes on alone, or that it does not any more.
    pub(crate) fn record_alone(&self, alone: Option<Alone>) -> Result<(), Error> {
        match &mut *self.quorum_mark.lock() {
            Some(mark) => mark.store(Content { visible: self.visible_for_good(), alone }),
            None => Ok(()),
        }
    }

    /// The thread that keeps the mark.
    pub(crate) fn keep_marking(&self) {
        loop {
            let seen = self.queue.seen_visible();
            if self.background.stopping() {
                return;
            }
            let before = self.quorum_mark.lock().as_ref().map(|mark| mark.content().visible);
            if before == Some(self.visible_for_good()) {
                self.queue.wait_news(seen, IDLE);
            } else {
                self.keep_mark();
                self.background.rest(INTERVAL);
            }
        }
    }
}
