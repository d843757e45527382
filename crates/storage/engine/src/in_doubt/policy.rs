//! Rules that decide transactions that stay in doubt.
//!
//! A coordinator that never returns leaves rows locked. A rule says, for an owner or for gids that start the same,
//! how old a transaction may get, and what happens then: it is reported, rolled back, or a hook is asked that knows what the
//! coordinator has decided. Rules are tried in their order; the first one that fits a transaction is the one.
//!
//! Every decision made by a rule is recorded (`decisions`). Once the record is full, rules only report.
//!
//! A rule decides the transaction that it looked at, and no other that has its gid by then. Hooks may be slow: what needs no
//! answer is done first, and again every second while hooks are asked; no hook is asked any more once the database closes.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::Outcome;

use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::PreparedTransaction;
use crate::in_doubt::decisions::{AutomaticDecision, DecisionReason};
use crate::in_doubt::rules::{InDoubtAction, InDoubtHook, InDoubtRule, Verdict};
use crate::options::Durability;

/// While hooks are asked, rules without a hook are applied again after this long.
const ASKING_BETWEEN: Duration = Duration::from_secs(1);

/// What became of rules that were applied.
#[derive(Clone, Debug, Default)]
pub struct RulesApplied {
    /// What they decided, in the order in which they did.
    pub decided: Vec<AutomaticDecision>,
    /// What they could not decide.
    pub failed: Vec<FailedRule>,
}

/// A transaction that a rule could not decide.
#[derive(Clone, Debug)]
pub struct FailedRule {
    /// The transaction, which stays in doubt.
    pub gid: String,
    /// Why.
    pub error: Error,
}

/// What the rule that fits a transaction says about it.
enum Due<'r> {
    Report,
    RollBack,
    Ask(&'r InDoubtHook),
}

/// Rules on their way through all that is in doubt.
struct Pass<'e> {
    engine: &'e Engine,
    rules: &'e [InDoubtRule],
    applied: RulesApplied,
}

impl Engine {
    /// Applies rules to what is in doubt now. One that another call decides meanwhile is left to it.
    pub(crate) fn apply_in_doubt_rules(&self, rules: &[InDoubtRule]) -> Result<RulesApplied, Error> {
        self.lifecycle.check_open()?;
        let mut pass = Pass { engine: self, rules, applied: RulesApplied::default() };
        // Nothing is left to do if it breaks off: what was decided until then counts.
        let (ControlFlow::Continue(()) | ControlFlow::Break(())) = pass.run();
        Ok(pass.applied)
    }

    fn report(&self, prepared: &PreparedTransaction) {
        if !prepared.reported.swap(true, Ordering::SeqCst) {
            self.in_doubt.counts.reported.fetch_add(1, Ordering::Relaxed);
            let age = prepared.age.now(&**self.clock());
            tracing::warn!(gid = %prepared.gid, owner = %prepared.owner, ?age, "a transaction stays in doubt");
        }
    }
}

impl<'e> Pass<'e> {
    fn run(&mut self) -> ControlFlow<()> {
        self.without_asking()?;
        let mut since = self.engine.clock().monotonic();
        for (stamp, prepared) in self.engine.in_doubt.all_in_order() {
            self.check_time()?;
            let Some(Due::Ask(hook)) = self.due(stamp, &prepared) else { continue };
            if self.engine.clock().monotonic().saturating_sub(since) >= ASKING_BETWEEN {
                self.without_asking()?;
                since = self.engine.clock().monotonic();
            }
            self.ask(hook, stamp, &prepared)?;
        }
        ControlFlow::Continue(())
    }

    fn without_asking(&mut self) -> ControlFlow<()> {
        for (stamp, prepared) in self.engine.in_doubt.all_in_order() {
            self.check_time()?;
            match self.due(stamp, &prepared) {
                Some(Due::Report) => self.engine.report(&prepared),
                Some(Due::RollBack) => {
                    self.decide(stamp, &prepared, Outcome::Rollback, DecisionReason::Rule)?;
                }
                Some(Due::Ask(_)) | None => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Breaks off once the database is to be closed.
    fn check_time(&self) -> ControlFlow<()> {
        let ends = self.engine.background.stopping() || self.engine.lifecycle.check_open().is_err();
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn due(&self, stamp: Lsn, prepared: &PreparedTransaction) -> Option<Due<'e>> {
        let rule = self.rules.iter().find(|rule| rule.fits(prepared))?;
        let engine = self.engine;
        // One that is not as durable as it asks yet is nobody's business but its own.
        let is_visible = stamp <= engine.visible();
        if !is_visible || prepared.age.now(&**engine.clock()) < rule.age {
            return None;
        }
        Some(match &rule.action {
            InDoubtAction::Report => Due::Report,
            InDoubtAction::RollBack => Due::RollBack,
            InDoubtAction::Ask(hook) => Due::Ask(hook),
        })
    }

    fn ask(&mut self, hook: &InDoubtHook, stamp: Lsn, prepared: &PreparedTransaction) -> ControlFlow<()> {
        if !self.engine.in_doubt.is_in_doubt(prepared) {
            return ControlFlow::Continue(());
        }
        let described = match self.engine.describe(prepared) {
            Ok(described) => described,
            Err(error) => return self.failed(prepared, error),
        };
        let verdict = catch_unwind(AssertUnwindSafe(|| hook.0(&described))).unwrap_or_else(|_| {
            tracing::error!(gid = %prepared.gid, "the hook for transactions in doubt panicked; it is asked again");
            Verdict::Wait
        });
        match verdict {
            Verdict::Commit => self.decide(stamp, prepared, Outcome::Commit, DecisionReason::Asked),
            Verdict::RollBack => self.decide(stamp, prepared, Outcome::Rollback, DecisionReason::Asked),
            Verdict::Wait => ControlFlow::Continue(()),
        }
    }

    fn decide(
        &mut self,
        stamp: Lsn,
        prepared: &PreparedTransaction,
        outcome: Outcome,
        reason: DecisionReason,
    ) -> ControlFlow<()> {
        match self.engine.decide_automatically(stamp, prepared, outcome, reason) {
            Ok(Some(decision)) => self.applied.decided.push(decision),
            Ok(None) => self.engine.report(prepared),
            Err(Error::NotInDoubt { .. } | Error::BeingDecided { .. }) => {}
            Err(error) => return self.failed(prepared, error),
        }
        ControlFlow::Continue(())
    }

    /// Goes on, but for errors that the next transaction would meet, too.
    fn failed(&mut self, prepared: &PreparedTransaction, error: Error) -> ControlFlow<()> {
        let is_of_all = matches!(
            error,
            Error::Closed
                | Error::Stopped { .. }
                | Error::ReadOnly
                | Error::HandedOver
                | Error::DiskFull { .. }
                | Error::CheckpointFailing { .. }
        );
        self.applied.failed.push(FailedRule { gid: prepared.gid.to_string(), error });
        if is_of_all { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Engine {
    /// Decides the transaction and records that; `None` if the record is full.
    fn decide_automatically(
        &self,
        stamp: Lsn,
        prepared: &PreparedTransaction,
        outcome: Outcome,
        reason: DecisionReason,
    ) -> Result<Option<AutomaticDecision>, Error> {
        if !self.reserve_decision()? {
            return Ok(None);
        }
        let decision = AutomaticDecision {
            gid: prepared.gid.to_string(),
            owner: prepared.owner.to_string(),
            lsn: stamp,
            committed: outcome == Outcome::Commit,
            reason,
            prepared_micros: prepared.time_micros,
            decided_micros: self.clock().wall_micros(),
        };
        let row = [(decision.key(), Some(decision.encode()))];
        let logged = self.log_decision(prepared, outcome, Durability::Sync, &row, None);
        let logged = logged.inspect_err(|_| self.in_doubt.decision_count.forget(1))?;
        self.finish_commit(logged, Durability::Sync, None)?;
        tracing::warn!(gid = %decision.gid, owner = %decision.owner, committed = decision.committed, ?reason,
            "an in-doubt transaction was decided without its coordinator");
        Ok(Some(decision))
    }
}
