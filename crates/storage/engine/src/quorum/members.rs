//! Whether there is a quorum, since when not, and whether this server goes on without one.

use std::time::Duration;

use seawall_sync::{Mutex, MutexGuard};
use seawall_types::Lsn;

use crate::options::QuorumOptions;
use crate::quorum::watermarks::{QuorumPositions, Watermarks};

/// A server that goes on alone waits for standbys again when they lack no more than this.
const CAUGHT_UP_BYTES: u64 = 1 << 20;

/// How far the standbys are, as the caller counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandbyPositions {
    /// What a quorum of them has; `None` while too few are connected.
    pub quorum: Option<QuorumPositions>,
    /// What the most advanced one has on stable storage that could take this server's place; `None` while none is connected.
    pub candidate: Option<Lsn>,
}

/// A server that takes commits without its standbys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Since when: microseconds since 1970.
    pub since_micros: i64,
    /// What was visible then. A standby that is promoted may lack what came later.
    pub from: Lsn,
}

/// The quorum, as this server sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumStatus {
    /// Commits of `Durability::Replicated` wait for standbys, unless this server goes on alone.
    pub is_required: bool,
    /// What the standbys have said.
    pub positions: StandbyPositions,
    /// How long there has been no quorum.
    pub lost_for: Option<Duration>,
    /// This server goes on alone.
    pub alone: Option<Alone>,
    /// How often it has begun to, since it was opened.
    pub times_alone: u64,
    /// How often pages were given what standbys lacked, since it was opened.
    pub gate_opened: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Members {
    options: Option<QuorumOptions>,
    /// Held by who has this server go on alone, or together again, from the decision until it is on record.
    turn: Mutex<()>,
    /// A latch. Whether commits wait (`Watermarks::require`) changes under it, together with `alone`.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    positions: StandbyPositions,
    /// By the monotonic clock.
    lost_since: Option<Duration>,
    alone: Option<Alone>,
    times_alone: u64,
    /// The most that any standby has ever had that could take over.
    best_candidate: Option<Lsn>,
    /// All such standbys were lost, and not waited for any longer.
    has_given_up: bool,
    gate_opened: u64,
}

impl Members {
    /// No standby is connected yet.
    pub(crate) fn new(options: Option<QuorumOptions>, now: Duration) -> Members {
        let lost_since = options.map(|_| now);
        let state = Mutex::new(State { lost_since, ..State::default() });
        Members { options, turn: Mutex::new(()), state }
    }

    /// This server was alone when it ended, and still is: what it acknowledged then is not to be waited for now.
    pub(crate) fn still_alone(&self, alone: Alone, watermarks: &Watermarks) {
        let mut state = self.state.lock();
        state.alone = Some(alone);
        watermarks.require(false);
    }

    /// From now on this server writes: the time without a quorum begins.
    pub(crate) fn begin_waiting(&self, now: Duration) {
        let mut state = self.state.lock();
        state.lost_since = state.lost_since.map(|_| now);
    }

    /// Whether, and since when, this server goes on alone.
    pub(crate) fn alone(&self) -> Option<Alone> {
        self.state.lock().alone
    }

    /// Whether a quorum is asked for by the options.
    pub(crate) fn are_required(&self) -> bool {
        self.options.is_some()
    }

    /// The standbys are so far. Whether this server, if it goes on alone, may be together with them again.
    pub(crate) fn are_at(&self, positions: StandbyPositions, visible: Lsn, now: Duration) -> bool {
        let mut state = self.state.lock();
        state.positions = positions;
        state.best_candidate = state.best_candidate.max(positions.candidate);
        state.has_given_up &= positions.candidate.is_none();
        if self.options.is_none() {
            return false;
        }
        match positions.quorum {
            None => drop(state.lost_since.get_or_insert(now)),
            Some(quorum) => {
                if state.lost_since.take().is_some() && state.alone.is_none() {
                    tracing::info!(flushed = %quorum.flushed, "a quorum of standbys is connected");
                }
            }
        }
        state.has_caught_up(visible)
    }

    /// The turn to change whether this server goes on alone.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Commits wait for standbys again, if this server goes on alone and a quorum has caught up. In the turn.
    pub(crate) fn together(&self, visible: Lsn, watermarks: &Watermarks) -> Option<Alone> {
        let mut state = self.state.lock();
        if !state.has_caught_up(visible) {
            return None;
        }
        watermarks.require(true);
        state.alone.take()
    }

    /// How long commits still wait before this server goes on alone; zero if it is to now. `None`: there is a quorum, or commits wait
    /// however long that takes, or do not wait any more.
    pub(crate) fn alone_in(&self, now: Duration) -> Option<Duration> {
        self.left(&self.state.lock(), now)
    }

    fn left(&self, state: &State, now: Duration) -> Option<Duration> {
        let after = self.options?.alone_after?;
        let lost_since = state.lost_since.filter(|_| state.alone.is_none())?;
        Some(after.saturating_sub(now.saturating_sub(lost_since)))
    }

    /// This server goes on alone from now on; `false` if that is not, or not any more, to be. In the turn.
    pub(crate) fn go_alone(&self, alone: Alone, now: Duration, watermarks: &Watermarks) -> bool {
        let mut state = self.state.lock();
        if !self.left(&state, now).is_some_and(|left| left.is_zero()) {
            return false;
        }
        state.alone = Some(alone);
        state.times_alone += 1;
        watermarks.require(false);
        true
    }

    /// Whether a standby that could take over has the log up to `lsn`; there may be none to ask.
    pub(crate) fn has_candidate_with(&self, lsn: Lsn) -> bool {
        let state = self.state.lock();
        state.has_given_up || state.best_candidate.is_none_or(|best| best >= lsn)
    }

    /// Pages get what standbys lack. Once there is none at all, the next pages do not wait for one.
    pub(crate) fn opened_gate(&self) {
        let mut state = self.state.lock();
        state.gate_opened += 1;
        state.has_given_up = state.positions.candidate.is_none();
    }

    /// How it stands.
    pub(crate) fn status(&self, now: Duration) -> QuorumStatus {
        let state = self.state.lock();
        QuorumStatus {
            is_required: self.options.is_some(),
            positions: state.positions,
            lost_for: state.lost_since.map(|since| now.saturating_sub(since)),
            alone: state.alone,
            times_alone: state.times_alone,
            gate_opened: state.gate_opened,
        }
    }
}

impl State {
    /// Whether this server goes on alone, and a quorum lacks little enough to be waited for again.
    fn has_caught_up(&self, visible: Lsn) -> bool {
        let lacks = |quorum: QuorumPositions| visible.get().saturating_sub(quorum.flushed.get());
        self.alone.is_some() && self.positions.quorum.is_some_and(|quorum| lacks(quorum) <= CAUGHT_UP_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(lsn: u64) -> StandbyPositions {
        let lsn = Lsn::new(lsn);
        let quorum = Some(QuorumPositions { written: lsn, flushed: lsn, applied: lsn });
        StandbyPositions { quorum, candidate: Some(lsn) }
    }

    fn members(alone_after: Option<Duration>) -> Members {
        Members::new(Some(QuorumOptions { alone_after }), Duration::ZERO)
    }

    /// Watermarks of a server whose commits wait.
    fn required() -> Watermarks {
        let watermarks = Watermarks::default();
        watermarks.require(true);
        watermarks
    }

    const ALONE: Alone = Alone { since_micros: 1, from: Lsn::new(7) };

    #[test]
    fn a_server_goes_on_alone_only_after_the_time_that_it_was_given() {
        let (members, watermarks) = (members(Some(5 * SECOND)), required());
        assert_eq!(members.alone_in(2 * SECOND), Some(3 * SECOND));
        assert!(!members.go_alone(ALONE, 2 * SECOND, &watermarks) && watermarks.are_required());
        assert!(members.go_alone(ALONE, 5 * SECOND, &watermarks) && !watermarks.are_required());
        assert!(!members.go_alone(ALONE, 6 * SECOND, &watermarks), "it does so once");
        assert_eq!(members.alone_in(6 * SECOND), None);
        let status = members.status(6 * SECOND);
        assert_eq!((status.alone, status.times_alone, status.lost_for), (Some(ALONE), 1, Some(6 * SECOND)));
    }

    #[test]
    fn the_time_of_a_standby_that_is_promoted_begins_with_the_promotion() {
        let members = members(Some(5 * SECOND));
        members.begin_waiting(100 * SECOND);
        assert_eq!(members.alone_in(102 * SECOND), Some(3 * SECOND));
        let asynchronous = Members::new(None, Duration::ZERO);
        asynchronous.begin_waiting(SECOND);
        assert_eq!(asynchronous.status(2 * SECOND).lost_for, None);
    }

    #[test]
    fn a_quorum_that_comes_back_is_waited_for_once_it_has_caught_up() {
        let (members, watermarks) = (members(Some(SECOND)), required());
        assert!(members.go_alone(ALONE, SECOND, &watermarks));
        let visible = Lsn::new(10 << 20);
        assert!(!members.are_at(at(5 << 20), visible, SECOND));
        assert_eq!(members.together(visible, &watermarks), None);
        assert_eq!(members.status(SECOND).alone, Some(ALONE));
        assert!(members.are_at(at(9 << 20), visible, SECOND));
        assert_eq!(members.together(visible, &watermarks), Some(ALONE));
        assert_eq!((members.status(SECOND).alone, watermarks.are_required()), (None, true));
        // Lost once more: the time begins anew.
        members.are_at(StandbyPositions::default(), visible, 10 * SECOND);
        members.are_at(StandbyPositions::default(), visible, 10 * SECOND + SECOND / 2);
        assert_eq!(members.alone_in(10 * SECOND + SECOND / 2), Some(SECOND / 2));
    }

    #[test]
    fn a_quorum_that_is_lost_before_the_turn_is_not_waited_for() {
        let (members, watermarks) = (members(Some(SECOND)), required());
        assert!(members.go_alone(ALONE, SECOND, &watermarks));
        assert!(members.are_at(at(50), Lsn::new(50), SECOND));
        members.are_at(StandbyPositions::default(), Lsn::new(50), SECOND);
        assert_eq!(members.together(Lsn::new(50), &watermarks), None);
        assert_eq!((members.status(SECOND).alone, watermarks.are_required()), (Some(ALONE), false));
    }

    #[test]
    fn a_server_that_ended_alone_begins_alone_until_a_quorum_has_caught_up() {
        let (members, watermarks) = (members(Some(SECOND)), required());
        members.still_alone(ALONE, &watermarks);
        assert!(!watermarks.are_required());
        assert_eq!(members.alone_in(10 * SECOND), None);
        assert!(members.are_at(at(50), Lsn::new(50), SECOND));
        assert_eq!(members.together(Lsn::new(50), &watermarks), Some(ALONE));
        assert!(watermarks.are_required());
    }

    #[test]
    fn pages_wait_for_a_standby_that_could_take_over_until_all_are_given_up() {
        let members = Members::new(None, Duration::ZERO);
        let lsn = Lsn::new;
        assert!(members.has_candidate_with(lsn(100)), "there never was one");
        members.are_at(at(50), lsn(100), SECOND);
        assert!(members.has_candidate_with(lsn(50)) && !members.has_candidate_with(lsn(51)));
        members.opened_gate();
        assert!(!members.has_candidate_with(lsn(51)), "it is connected: the next pages wait once more");
        members.are_at(StandbyPositions::default(), lsn(100), SECOND);
        assert!(members.has_candidate_with(lsn(50)), "what it had it has");
        assert!(!members.has_candidate_with(lsn(51)));
        members.opened_gate();
        assert!(members.has_candidate_with(lsn(1000)));
        members.are_at(at(60), lsn(100), SECOND);
        assert!(!members.has_candidate_with(lsn(61)), "it is back");
        assert_eq!(members.status(SECOND).gate_opened, 2);
    }

    #[test]
    fn without_a_time_or_without_a_quorum_in_the_options_no_server_goes_on_alone() {
        let watermarks = Watermarks::default();
        assert_eq!(members(None).alone_in(1000 * SECOND), None);
        assert!(!members(None).go_alone(ALONE, 1000 * SECOND, &watermarks));
        let asynchronous = Members::new(None, Duration::ZERO);
        assert!(!asynchronous.are_at(StandbyPositions::default(), Lsn::ZERO, SECOND));
        assert_eq!(asynchronous.status(SECOND).lost_for, None);
        assert!(!asynchronous.go_alone(ALONE, 1000 * SECOND, &watermarks));
    }
}
