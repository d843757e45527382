//! Rules for transactions that stay in doubt, as an embedding program states them. `policy` applies the rules.

use std::sync::Arc;
use std::time::Duration;

use crate::in_doubt::{InDoubtTransaction, PreparedTransaction};

/// What the coordinator says about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was committed.
    Commit,
    /// It was rolled back, or the coordinator does not know it.
    RollBack,
    /// It is not decided, or the coordinator cannot be reached: ask again later.
    Wait,
}

/// Asks who knows what became of a transaction. Called from the thread of the database that applies rules, about one
/// transaction after the other: let it give up after a while (`Verdict::Wait`), or others are not asked about, and `close`
/// waits for its answer. It may use the database, but not close it. One that panics has not decided: it is asked again.
#[derive(Clone)]
pub struct InDoubtHook(pub(super) Arc<dyn Fn(&InDoubtTransaction) -> Verdict + Send + Sync>);

impl InDoubtHook {
    /// A hook that calls `ask`.
    pub fn new(ask: impl Fn(&InDoubtTransaction) -> Verdict + Send + Sync + 'static) -> InDoubtHook {
        InDoubtHook(Arc::new(ask))
    }
}

impl std::fmt::Debug for InDoubtHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("InDoubtHook")
    }
}

/// What is done about a transaction that is too old.
#[derive(Clone, Debug)]
pub enum InDoubtAction {
    /// One line in the events of `tracing`, and a count in the statistics.
    Report,
    /// It is rolled back. If the coordinator has decided to commit, the databases disagree from then on.
    RollBack,
    /// A hook is asked, again and again until there is an answer.
    Ask(InDoubtHook),
}

/// What to do about some transactions in doubt.
#[derive(Clone, Debug)]
pub struct InDoubtRule {
    /// Only those of this owner; `None`: of any.
    pub owner: Option<String>,
    /// Only those whose gid starts like this.
    pub gid_prefix: String,
    /// Once they are so old.
    pub age: Duration,
    /// What to do then.
    pub action: InDoubtAction,
}

impl InDoubtRule {
    /// A rule about all transactions in doubt.
    pub fn new(age: Duration, action: InDoubtAction) -> InDoubtRule {
        InDoubtRule { owner: None, gid_prefix: String::new(), age, action }
    }

    pub(super) fn fits(&self, prepared: &PreparedTransaction) -> bool {
        prepared.gid.starts_with(&self.gid_prefix)
            && self.owner.as_ref().is_none_or(|owner| **owner == *prepared.owner)
    }
}
