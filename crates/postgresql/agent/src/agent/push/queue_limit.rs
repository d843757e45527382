//! The limit of the queue: while a required repository takes nothing, segments that PostgreSQL asks for are let go, one by one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seawall_archive::LogFileName;

use super::queue::Release;
use super::{Pusher, State};
use crate::protocol::Answer;
use crate::spool::GapNote;

/// What may wait to be archived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimit {
    pub(crate) bytes: u64,
    /// A store that fails gets this long to take a file again, and one that works to make a queue shorter that is over the limit.
    pub(crate) patience: Duration,
}

impl Pusher {
    /// Why PostgreSQL is not to wait for this segment any longer, if so.
    pub(super) fn reason_to_let_go(
        &self,
        state: &State,
        name: &str,
        path: &str,
        now: Duration,
    ) -> Option<String> {
        let QueueLimit { bytes: limit, patience } = self.queue_max?;
        if !matches!(LogFileName::parse(name), Some(LogFileName::Segment(_))) {
            return None;
        }
        let bytes = self.bytes_of(path).saturating_mul(state.queue.waiting_count() as u64);
        if bytes <= limit {
            return None;
        }
        let slow = state.over_limit.filter(|(since, count)| {
            now.saturating_sub(*since) >= patience && state.queue.waiting_count() >= *count
        });
        let trouble = state.queue.lasting_trouble(name, now, patience);
        // While one is down, another may do well: its own queue says whether it takes less than PostgreSQL writes.
        let lag_max = slow.map_or(usize::MAX, |(_, count)| count);
        if trouble.is_some() && state.queue.is_about_to_be_stored(name, self.identity_of(path), lag_max) {
            return None;
        }
        // A single failure is not worth a gap.
        let cause = match (trouble, slow) {
            (Some(trouble), _) => trouble.to_owned(),
            (None, Some(_)) => "the repository takes less than PostgreSQL writes".to_owned(),
            (None, None) => return None,
        };
        Some(format!("the queue of {bytes} bytes is over queue_max = {limit}; {cause}"))
    }

    /// Lets PostgreSQL remove a segment: copies of it are pending, or it is a gap. The note of that is synced without the mutex of the queue,
    /// and other commands are answered meanwhile.
    ///
    /// A power loss before PostgreSQL is told leaves the note, or none, and PostgreSQL asks for the segment again. With a note, the segment
    /// is archived all the same: its copies are no longer pending then, and a gap goes on record that is none to a recovery, since the
    /// segment is there.
    pub(super) fn let_go(
        self: &Arc<Pusher>,
        name: &str,
        path: &str,
        reason: &str,
        release: &Release,
    ) -> Answer {
        let noted = match release {
            Release::Copied(destinations) => self.note_pending_copy(name, destinations),
            Release::LeftOut(_) => self.note_left_out(name, path, reason),
        };
        self.take_on_changes();
        let (noted, settled) = {
            let mut state = self.state.lock();
            let noted = noted.and_then(|()| match state.queue.still_stands(name, release) {
                true => Ok(()),
                false => Err(format!("{name} was in a repository that was replaced meanwhile; {reason}")),
            });
            state.left_out += u64::from(noted.is_ok() && matches!(release, Release::LeftOut(_)));
            let settled = state.queue.end_release(name, release, noted.is_ok());
            self.start_workers(&mut state);
            (noted, settled)
        };
        self.changed.notify_all();
        settled.copied.into_iter().for_each(|destination| self.note_copied(name, destination));
        let answer = match noted {
            Ok(()) => Answer::Released(self.words_of(name, reason, release)),
            Err(problem) => Answer::Failed(problem),
        };
        for asker in settled.askers {
            // A command that has given up waiting.
            asker.send(answer.clone()).unwrap_or(());
        }
        answer
    }

    fn note_left_out(&self, name: &str, path: &str, reason: &str) -> Result<(), String> {
        let Some(LogFileName::Segment(place)) = LogFileName::parse(name) else {
            return Err(format!("{name} is not a segment"));
        };
        let note = GapNote {
            system: self.shared.system()?,
            place,
            segment_bytes: u32::try_from(self.bytes_of(path)).unwrap_or(0),
            noticed_micros: self.shared.clock.wall_micros(),
            recorded: BTreeSet::new(),
            reason: reason.to_owned(),
        };
        let noted = self.shared.gaps.note(&self.shared.spool, note);
        noted.map_err(|error| format!("{reason}; and that {name} is left out cannot be noted: {error}"))
    }

    /// For PostgreSQL's log.
    fn words_of(&self, name: &str, reason: &str, release: &Release) -> String {
        match release {
            Release::Copied(_) => format!(
                "{name} is not in every repository yet, and is copied there from one that has it: {reason}"
            ),
            Release::LeftOut(having) => {
                let location = |destination: &usize| self.shared.repositories[*destination].location();
                let only_there =
                    |destination| format!("; the optional repository {} has it", location(destination));
                let only_there: String = having.iter().map(only_there).collect();
                format!(
                    "GAP: {name} is NOT archived where that is required, and will be missing{only_there}: {reason}. No recovery goes beyond it: \
                     take a new base backup as soon as the repository answers again"
                )
            }
        }
    }

    pub(super) fn watch_limit(&self) {
        let Some(QueueLimit { bytes: limit, .. }) = self.queue_max else { return };
        let paths = self.state.lock().queue.waiting();
        let bytes: u64 = paths.iter().map(|path| self.bytes_of(path)).sum();
        let (count, now) = (paths.len(), self.shared.clock.monotonic());
        let mut state = self.state.lock();
        state.over_limit = match (bytes > limit, state.over_limit) {
            (false, _) => None,
            // It has become shorter: the store gets as long again.
            (true, Some((since, before))) if count >= before => Some((since, before)),
            (true, _) => Some((now, count)),
        };
    }

    fn bytes_of(&self, path: &str) -> u64 {
        std::fs::metadata(self.shared.data.full(path)).map_or(0, |metadata| metadata.len())
    }
}
