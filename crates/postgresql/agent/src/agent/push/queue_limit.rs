//! The limit of the queue: while a required repository takes nothing, segments that PostgreSQL asks for are let go, one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use seawall_archive::LogFileName;

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
        // A single failure is not worth a gap.
        let cause = match (state.queue.lasting_trouble(name, now, patience), slow) {
            (Some(trouble), _) => trouble.to_owned(),
            (None, Some(_)) => "the repository takes less than PostgreSQL writes".to_owned(),
            (None, None) => return None,
        };
        Some(format!("the queue of {bytes} bytes is over queue_max = {limit}; {cause}"))
    }

    /// PostgreSQL may remove the segment. One that a required repository has is copied to the others later; else it is a gap.
    pub(super) fn let_go(&self, state: &mut State, name: &str, path: &str, reason: String) -> Answer {
        let identity = self.identity_of(path);
        if let Some(owed) = state.queue.owe(name, identity) {
            if let Err(problem) = self.note_owed(name, &owed) {
                return Answer::Failed(problem);
            }
            return Answer::Released(format!(
                "{name} is not in every repository yet, and is copied there from one that has it: {reason}"
            ));
        }
        let Some(LogFileName::Segment(place)) = LogFileName::parse(name) else {
            return Answer::Failed(format!("{name} is no segment"));
        };
        let system = match self.shared.system() {
            Ok(system) => system,
            Err(problem) => return Answer::Failed(problem),
        };
        let note = GapNote {
            system,
            place,
            segment_bytes: u32::try_from(self.bytes_of(path)).unwrap_or(0),
            noticed_micros: self.shared.clock.wall_micros(),
            recorded: BTreeSet::new(),
            reason: reason.clone(),
        };
        if let Err(error) = self.shared.gaps.note(&self.shared.spool, note) {
            return Answer::Failed(format!("{reason}; and that {name} is left out cannot be noted: {error}"));
        }
        state.left_out += 1;
        let only_there: Vec<String> = (0..self.shared.places.len())
            .filter(|lane| state.queue.is_in(name, *lane, identity))
            .map(|lane| format!("; the optional repository {} has it", self.shared.places[lane].location()))
            .collect();
        state.queue.give_up(name);
        Answer::Released(format!(
            "GAP: {name} is NOT archived where that is required, and will be missing{}: {reason}. No recovery goes beyond it: take a \
             new base backup as soon as the repository answers again",
            only_there.concat()
        ))
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
