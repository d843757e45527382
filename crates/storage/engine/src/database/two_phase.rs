//! Two-phase commit, from the coordinator's side: transactions in doubt, and their decisions.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_types::Lsn;
use seawall_wal::Outcome;

use super::Database;
use crate::error::Error;
use crate::in_doubt::InDoubtTransaction;
use crate::in_doubt::decisions::AutomaticDecision;
use crate::in_doubt::policy::RulesApplied;
use crate::in_doubt::rules::InDoubtRule;
use crate::options::Durability;
use crate::transaction::commit::CommitHandle;

/// The second phase of two-phase commit: see [`Database::two_phase`]. The first is [`Transaction::prepare`](crate::Transaction::prepare).
#[derive(Clone, Copy, Debug)]
pub struct TwoPhase<'a> {
    database: &'a Database,
    durability: Durability,
}

impl<'a> TwoPhase<'a> {
    pub(super) fn new(database: &'a Database, durability: Durability) -> TwoPhase<'a> {
        TwoPhase { database, durability }
    }

    /// The same with another durability of decisions.
    #[must_use]
    pub fn with(self, durability: Durability) -> TwoPhase<'a> {
        TwoPhase { durability, ..self }
    }

    /// Commits the in-doubt transaction `gid`. When it returns, the decision is as durable as the database's options ask,
    /// or [`TwoPhase::with`], and every later transaction sees what was prepared. The stamp of the commit.
    ///
    /// # Errors
    /// `NotInDoubt` if no transaction of this name is in doubt, or not any more: an earlier decision is then as durable as
    /// this call asks; `BeingDecided`; `DiskFull`, after which
    /// it is in doubt as before; `DoneNotArchived`: it is decided; `Stopped`, which leaves it open: recovery decides.
    pub fn commit(&self, gid: &str) -> Result<Lsn, Error> {
        self.decide(gid, Outcome::Commit)
    }

    /// As [`TwoPhase::commit`], without waiting for the disk: to wait on the handle is to know when the decision is durable.
    ///
    /// # Errors
    /// As `commit`.
    pub fn commit_async(&self, gid: &str) -> Result<CommitHandle, Error> {
        self.decide_async(gid, Outcome::Commit)
    }

    /// Rolls the in-doubt transaction `gid` back: as if it had never been. The stamp of the decision.
    ///
    /// # Errors
    /// As `commit`.
    pub fn rollback(&self, gid: &str) -> Result<Lsn, Error> {
        self.decide(gid, Outcome::Rollback)
    }

    /// As [`TwoPhase::rollback`], without waiting for the disk.
    ///
    /// # Errors
    /// As `commit`.
    pub fn rollback_async(&self, gid: &str) -> Result<CommitHandle, Error> {
        self.decide_async(gid, Outcome::Rollback)
    }

    fn decide(&self, gid: &str, outcome: Outcome) -> Result<Lsn, Error> {
        let cancel: Option<&CancelToken> = Some(&self.database.session.waits.cancel);
        let decided = self.database.engine().decide(gid, outcome, self.durability, cancel);
        decided.map(|stamp| self.database.observed(stamp))
    }

    fn decide_async(&self, gid: &str, outcome: Outcome) -> Result<CommitHandle, Error> {
        let Database { engine, session } = self.database;
        let stamp = engine.0.decide_async(gid, outcome, self.durability, Some(&session.waits.cancel))?;
        Ok(CommitHandle::new(Arc::clone(&engine.0), Arc::clone(session), stamp, self.durability))
    }

    /// The transactions that are prepared and not decided, in the order of their prepares: all whose prepare has returned, in
    /// any session, and whose decision is not as durable yet as was asked. One that is not among them was decided, or never
    /// prepared. Waits for the flush of the commits that are ahead of them.
    ///
    /// When the database has stopped, those are among them that recovery may not find.
    ///
    /// # Errors
    /// Damage met when the names of their tables are read.
    pub fn in_doubt(&self) -> Result<Vec<InDoubtTransaction>, Error> {
        self.database.engine().in_doubt_transactions()
    }

    /// Applies `rules` to what is in doubt now; what became of that. The rules of the options are applied by a thread of the
    /// database, once a second.
    ///
    /// Rules without a hook come first. One transaction that cannot be decided does not keep the others from it, unless all
    /// would meet the same (`Stopped`, `DiskFull`, `ReadOnly`); when the database is closed meanwhile, that is the end.
    ///
    /// # Errors
    /// `Closed`.
    pub fn apply_rules(&self, rules: &[InDoubtRule]) -> Result<RulesApplied, Error> {
        self.database.engine().apply_in_doubt_rules(rules)
    }

    /// What rules have decided, in this process and before, oldest first: all that was not forgotten. If these are
    /// [`crate::DECISIONS_MAX`], rules only report.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn automatic_decisions(&self) -> Result<Vec<AutomaticDecision>, Error> {
        self.database.engine().lifecycle.check_open()?;
        self.database.engine().automatic_decisions()
    }

    /// What rules have decided about transactions of this name, in the order of their prepares.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn automatic_decisions_about(&self, gid: &str) -> Result<Vec<AutomaticDecision>, Error> {
        self.database.engine().lifecycle.check_open()?;
        self.database.engine().automatic_decisions_about(gid)
    }

    /// Removes the record of what rules have decided about `gid`: its coordinator knows. Whether there was one.
    ///
    /// # Errors
    /// The errors of a commit.
    pub fn forget_automatic_decision(&self, gid: &str) -> Result<bool, Error> {
        self.database.engine().forget_automatic_decision(gid)
    }

    /// Removes the record of what rules have decided at least so long ago; how many decisions it was. A coordinator that comes
    /// back after that finds nothing, and may take a transaction for decided as it had said.
    ///
    /// # Errors
    /// The errors of a commit.
    pub fn forget_old_automatic_decisions(&self, age: Duration) -> Result<usize, Error> {
        self.database.engine().forget_old_automatic_decisions(age)
    }
}
