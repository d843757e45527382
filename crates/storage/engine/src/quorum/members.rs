//! Whether there is a quorum, since when not, and whether this server goes on without one.

use std::time::Duration;

use seawall_sync::Mutex;
use seawall_types::Lsn;

use crate::options::QuorumOptions;
use crate::quorum::watermarks::QuorumPositions;

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

/// What the standbys' news mean for commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// They wait as before.
    AsBefore,
    /// This server does not go on alone any more.
    Together(Alone),
}

impl Members {
    /// No standby is connected yet.
    pub(crate) fn new(options: Option<QuorumOptions>, now: Duration) -> Members {
        let lost_since = options.map(|_| now);
        Members { options, state: Mutex::new(State { lost_since, ..State::default() }) }
    }

    /// Whether a quorum is asked for by the options.
    pub(crate) fn are_required(&self) -> bool {
        self.options.is_some()
    }

    /// The standbys are so far, and `visible` is what readers see.
    pub(crate) fn are_at(&self, positions: StandbyPositions, visible: Lsn, now: Duration) -> News {
        let mut state = self.state.lock();
        state.positions = positions;
        state.best_candidate = state.best_candidate.max(positions.candidate);
        state.has_given_up &= positions.candidate.is_none();
        let Some(quorum) = positions.quorum.filter(|_| self.options.is_some()) else {
            if self.options.is_some() {
                state.lost_since.get_or_insert(now);
            }
            return News::AsBefore;
        };
        if state.lost_since.take().is_some() && state.alone.is_none() {
            tracing::info!(flushed = %quorum.flushed, "a quorum of standbys is connected");
        }
        let lacks = visible.get().saturating_sub(quorum.flushed.get());
        match state.alone.take_if(|_| lacks <= CAUGHT_UP_BYTES) {
            Some(alone) => News::Together(alone),
            None => News::AsBefore,
        }
    }

    /// How long commits still wait before this server goes on alone; zero if it is to now. `None`: there is a quorum, or commits wait
    /// however long that takes, or do not wait any more.
    pub(crate) fn alone_in(&self, now: Duration) -> Option<Duration> {
        let after = self.options?.alone_after?;
        let state = self.state.lock();
        let lost_since = state.lost_since.filter(|_| state.alone.is_none())?;
        Some(after.saturating_sub(now.saturating_sub(lost_since)))
    }

    /// This server goes on alone from now on; `None` if that is not, or not any more, to be.
    pub(crate) fn go_alone(&self, visible: Lsn, now: Duration, now_micros: i64) -> Option<Alone> {
        if self.alone_in(now).is_none_or(|left| !left.is_zero()) {
            return None;
        }
        let mut state = self.state.lock();
        if state.lost_since.is_none() || state.alone.is_some() {
            return None;
        }
        let alone = Alone { since_micros: now_micros, from: visible };
        state.alone = Some(alone);
        state.times_alone += 1;
        Some(alone)
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

    #[test]
    fn a_server_goes_on_alone_only_after_the_time_that_it_was_given() {
        let members = members(Some(5 * SECOND));
        assert_eq!(members.alone_in(2 * SECOND), Some(3 * SECOND));
        assert_eq!(members.go_alone(Lsn::new(7), 2 * SECOND, 1), None);
        let alone = members.go_alone(Lsn::new(7), 5 * SECOND, 1);
        assert_eq!(alone, Some(Alone { since_micros: 1, from: Lsn::new(7) }));
        assert_eq!(members.go_alone(Lsn::new(8), 6 * SECOND, 2), None, "it does so once");
        assert_eq!(members.alone_in(6 * SECOND), None);
        let status = members.status(6 * SECOND);
        assert_eq!((status.alone, status.times_alone, status.lost_for), (alone, 1, Some(6 * SECOND)));
    }

    #[test]
    fn a_quorum_that_comes_back_is_waited_for_once_it_has_caught_up() {
        let members = members(Some(SECOND));
        let alone = members.go_alone(Lsn::new(7), SECOND, 1).unwrap();
        let visible = Lsn::new(10 << 20);
        assert_eq!(members.are_at(at(5 << 20), visible, SECOND), News::AsBefore);
        assert_eq!(members.status(SECOND).alone, Some(alone));
        assert_eq!(members.are_at(at(9 << 20), visible, SECOND), News::Together(alone));
        assert_eq!(members.status(SECOND).alone, None);
        // Lost once more: the time begins anew.
        members.are_at(StandbyPositions::default(), visible, 10 * SECOND);
        members.are_at(StandbyPositions::default(), visible, 10 * SECOND + SECOND / 2);
        assert_eq!(members.alone_in(10 * SECOND + SECOND / 2), Some(SECOND / 2));
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
        assert_eq!(members(None).alone_in(1000 * SECOND), None);
        assert_eq!(members(None).go_alone(Lsn::ZERO, 1000 * SECOND, 1), None);
        let asynchronous = Members::new(None, Duration::ZERO);
        assert_eq!(asynchronous.are_at(StandbyPositions::default(), Lsn::ZERO, SECOND), News::AsBefore);
        assert_eq!(asynchronous.status(SECOND).lost_for, None);
        assert_eq!(asynchronous.go_alone(Lsn::ZERO, 1000 * SECOND, 1), None);
    }
}
