//! The states that a crash may leave of a database at work.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::State;

/// The states that may be in a database after a crash: after each commit from the last one that is known to be durable,
/// and after the one that is being tried.
#[derive(Clone, Debug)]
pub struct Progress {
    states: Vec<Arc<State>>,
    attempted: Option<Arc<State>>,
}

/// Shared by the session, which moves it on, and the disk, which looks at it in the middle of a call.
pub type SharedProgress = Arc<Mutex<Progress>>;

impl Progress {
    /// The progress of a database that durably holds `state`.
    pub fn new(state: Arc<State>) -> Progress {
        Progress { states: vec![state], attempted: None }
    }

    /// The progress of a database that holds one of the candidates, newest first. No open has shown which.
    pub fn unknown(candidates: &[Arc<State>]) -> Progress {
        Progress { states: candidates.iter().rev().cloned().collect(), attempted: None }
    }

    /// A new progress, to be shared.
    pub fn shared(state: Arc<State>) -> SharedProgress {
        Arc::new(Mutex::new(Progress::new(state)))
    }

    /// The state if nothing was lost.
    pub fn current(&self) -> &Arc<State> {
        self.states.last().expect("there is always one state")
    }

    /// The states that a power loss may leave, newest first.
    pub fn candidates(&self) -> Vec<Arc<State>> {
        self.attempted.iter().chain(self.states.iter().rev()).cloned().collect()
    }

    /// The states that a kill of the process may leave: everything acknowledged, with or without the attempt.
    pub fn survivors(&self) -> Vec<Arc<State>> {
        self.attempted.iter().chain(self.states.last()).cloned().collect()
    }

    /// A commit begins that makes this state.
    pub(crate) fn attempt(&mut self, state: State) {
        self.attempted = Some(Arc::new(state));
    }

    /// The attempt was acknowledged.
    pub(crate) fn committed(&mut self) {
        let state = self.attempted.take().expect("a commit was attempted before it succeeded");
        self.states.push(state);
    }

    /// The attempt was refused, so that it cannot be there later.
    pub fn refused(&mut self) {
        self.attempted = None;
    }

    /// Everything acknowledged is durable.
    pub(crate) fn all_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }
}
