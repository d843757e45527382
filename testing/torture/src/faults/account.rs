//! What is in a database, and what of it may be missing after a failure.

use seawall::Database;
use seawall_crash_harness::comparison::Difference;
use seawall_crash_harness::state::State;

/// Which of `candidates` is there.
pub(super) fn find<'s>(
    database: &Database,
    candidates: impl Iterator<Item = &'s State>,
) -> Result<&'s State, Difference> {
    let mut reasons = Vec::new();
    for state in candidates {
        match state.compare_content(database) {
            Ok(()) => return Ok(state),
            Err(Difference::Rows(rows)) => reasons.push(rows),
            Err(error) => return Err(error),
        }
    }
    Err(Difference::Rows(format!(
        "none of the {} states that may be there is: {}",
        reasons.len(),
        reasons.join("; ")
    )))
}

/// The states that may be in the database, now and after a failure.
///
/// ```text
///   acknowledged, in order:   s1  s2 | s3  s4  s5 | s6  s7     in doubt: s8
///             before the last flush ^              ^ the last flush: s5 is durable
///   after a power loss:  s5, s6, s7, and s8 if the database has stopped at it
///   with damage of the log's end as well:  s2 to s4, too: nothing says that the records of the last flush ever were whole
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// States since the last that is durable for sure, oldest first; the last is what readers see. Never empty.
    since_durable: Vec<State>,
    /// Those older ones that are left without the records of the last flush, or a part of them, oldest first.
    without_last_flush: Vec<State>,
    /// What a step that failed with the database stopped would have made.
    in_doubt: Option<State>,
}

impl Account {
    pub(super) fn new(state: State) -> Account {
        Account { since_durable: vec![state], ..Account::default() }
    }

    pub(super) fn current(&self) -> &State {
        self.since_durable.last().expect("there is always one")
    }

    pub(super) fn committed(&mut self, next: State, is_durable: bool) {
        self.since_durable.push(next);
        if is_durable {
            self.all_durable();
        }
    }

    pub(super) fn all_durable(&mut self) {
        let newest = self.since_durable.len() - 1;
        // Otherwise nothing may have been written, and the last flush is the one before.
        if newest > 0 {
            self.without_last_flush = self.since_durable.drain(..newest).collect();
        }
    }

    /// A kill takes nothing; but what was not flushed is in the log's buffers only.
    pub(super) fn all_survive(&mut self) {
        let newest = self.since_durable.len() - 1;
        self.without_last_flush.extend(self.since_durable.drain(..newest));
    }

    /// Everything is in the tree: the log is not needed for it.
    pub(super) fn all_in_the_tree(&mut self) {
        self.all_durable();
        self.without_last_flush.clear();
    }

    /// No more is written; nobody knows what became of the last step.
    pub(super) fn stop(&mut self, attempted: Option<State>) {
        self.in_doubt = attempted;
    }

    /// One of the candidates was found by an open. What its records may be lost with has not changed.
    pub(super) fn opened(&mut self, found: State) {
        let mut older = std::mem::take(&mut self.without_last_flush);
        older.append(&mut self.since_durable);
        // Not there: it is the one in doubt.
        older.truncate(older.iter().rposition(|state| *state == found).unwrap_or(older.len()));
        *self = Account { since_durable: vec![found], without_last_flush: older, in_doubt: None };
    }

    /// What may be there at the next open, newest first.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &State> {
        self.in_doubt.iter().chain(self.since_durable.iter().rev())
    }

    /// What may be there, besides, if the end of the log is damaged.
    pub(super) fn without_last_flush(&self) -> impl Iterator<Item = &State> {
        self.without_last_flush.iter().rev()
    }

    /// What a database that has stopped shows: no acknowledged commit is missing.
    pub(super) fn shown_once_stopped(&self) -> impl Iterator<Item = &State> {
        self.in_doubt.iter().chain(self.since_durable.last())
    }
}
