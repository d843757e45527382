//! Where uploads continue: the end of the archived log, found once after each open, before the first upload.
//!
//! ```text
//!   archive  |-- has it --|reach                                 what it lacks is on record as a gap, or goes up from here
//!   log                   |xx gone xx|-- kept by the hold --|
//!                                    position
//! ```
//! An archive may lack log that no hold has kept for it: it was no archive of the database for some time, and its hold was released.
//! The hold that it gets then begins where recovery starts, and says nothing of what was before. So the archive is asked how far it has the log.
//! What it lacks goes up if another hold has kept it here; else it is a gap, which is opened as every other one (`gap`), with the hold
//! that is there.
//!
//! **If the power goes** meanwhile: nothing has gone up from behind that place, so the next process finds the same.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{HoldError, HoldPosition};

use super::gap::OpeningGap;
use super::keeping::hold_name;
use super::{Archiver, RETRY_LAST};
use crate::engine::Engine;
use crate::error::Error;
use crate::log::hold::hold_error;

impl Archiver {
    pub(crate) fn is_joined(&self) -> bool {
        self.state.lock().is_joined
    }

    fn position_and_hold(&self) -> (Lsn, Option<Arc<HoldPosition>>) {
        let state = self.state.lock();
        (state.position, state.hold.clone())
    }

    /// What is before the position is in the archive up to `reach`, or up to the position.
    fn joined_at(&self, reach: Lsn, hold: Option<Arc<HoldPosition>>) {
        let mut state = self.state.lock();
        state.is_joined = true;
        state.hold = hold.or(state.hold.take());
        let reach = self.pieces.geometry.normalise(reach);
        if reach < state.position {
            (state.position, state.planned) = (reach, reach);
            state.waiting.clear();
            // No commit of this process was told anything of it yet.
            self.archived.store(reach.get(), Ordering::SeqCst);
        }
    }

    fn join_failed(&self, problem: &str, now: Duration) {
        tracing::warn!(
            archive = self.name,
            problem,
            "what the archive has of the log is not known, and nothing goes up before; this will be tried again"
        );
        let mut state = self.state.lock();
        state.counts.failures += 1;
        state.gap_failing = Some(problem.to_owned());
        state.not_before = now + state.retry;
        state.retry = (state.retry * 2).min(RETRY_LAST);
    }
}

impl Engine {
    /// Finds out whether what is to go up follows on what the archive has, here or on a thread; whether that is known. If log is missing,
    /// a gap is begun, or the one that is being opened becomes longer.
    ///
    /// # Errors
    /// `Archive` if the calling thread asks and the archive does not answer; those of a hold.
    pub(crate) fn join(
        &self,
        archiver: &Archiver,
        opening: &mut Option<OpeningGap>,
        now: Duration,
        is_here: bool,
    ) -> Result<bool, Error> {
        if archiver.is_joined() {
            return Ok(true);
        }
        let (position, hold) = archiver.position_and_hold();
        let Some(reach) = self.reached(archiver, position, now, is_here)? else { return Ok(false) };
        if archiver.pieces.segments_between(reach, position).is_empty() {
            archiver.joined_at(position, None);
            return Ok(true);
        }
        let kept = match opening {
            None => self.hold_from_reach(archiver, reach)?,
            Some(_) => None,
        };
        let is_kept = kept.is_some();
        archiver.joined_at(reach, kept);
        if !is_kept && let Some(hold) = opening.as_ref().map(|gap| Arc::clone(&gap.hold)).or(hold) {
            let why = format!(
                "the archive has the log up to {reach}, and what follows, up to {position}, is not here any more: no hold has kept it"
            );
            *opening = Some(archiver.begin_gap(hold, &why));
        }
        Ok(true)
    }

    /// How far the archive has the log before `position`, all of it if it has nothing; `None`: it has not said yet.
    fn reached(
        &self,
        archiver: &Archiver,
        position: Lsn,
        now: Duration,
        is_here: bool,
    ) -> Result<Option<Lsn>, Error> {
        let uploads = &archiver.uploads;
        let mut answer = uploads.take_reached();
        if answer.is_none()
            && archiver.is_due(now)
            && uploads.ask(&archiver.pieces.history, position, is_here)
        {
            answer = uploads.take_reached();
        }
        match answer {
            None => Ok(None),
            Some(Ok(reach)) => {
                archiver.state.lock().gap_failing = None;
                Ok(Some(reach.unwrap_or(position).min(position)))
            }
            Some(Err(error)) => {
                archiver.join_failed(&error.0, now);
                if is_here { Err(archiver.error(&error)) } else { Ok(None) }
            }
        }
    }

    /// The archive's hold, from `reach` on; `None` if the log is not kept from there on any more.
    fn hold_from_reach(&self, archiver: &Archiver, reach: Lsn) -> Result<Option<Arc<HoldPosition>>, Error> {
        let (name, created) = (hold_name(&archiver.name), self.clock().wall_micros());
        match self.log()?.replace_hold(&name, archiver.hold_options, reach, created) {
            Ok(hold) => {
                self.pacing.slow_writers_for(&archiver.hold_options, &hold);
                Ok(Some(hold))
            }
            Err(HoldError::NotRetained { .. }) => Ok(None),
            Err(error) => Err(hold_error(&error)),
        }
    }
}
