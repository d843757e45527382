//! `FOR UPDATE` and the other row locks.

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

use super::Counting;
use super::context::Context;
use super::node::{self, Node};
use super::plan::{LockPlan, LockedRow};
use super::storage::Locked;

/// Locks rows on their way. A row that was changed after the statement's snapshot is looked at again in its newest version: the input is
/// run once more with that version in the place of the scan, as PostgreSQL's EvalPlanQual does.
pub(crate) struct Lock {
    plan: Arc<LockPlan>,
    input: Box<dyn Node>,
    rechecks: Vec<Recheck>,
    /// What the input had in its slots before a recheck.
    saved: Option<Vec<Datum>>,
}

/// A plan that looks at a row again; opened when it is first needed.
#[derive(Default)]
pub(crate) struct Recheck {
    node: Option<Box<dyn Node>>,
}

impl Recheck {
    /// Writes the newest version of the row to the slots. `false`: it does not match any more.
    pub(crate) fn run(&mut self, plan: &super::plan::PlanNode, context: &mut Context<'_>) -> SqlResult<bool> {
        let node = match &mut self.node {
            Some(node) => {
                node.rewind(context)?;
                node
            }
            None => self.node.insert(node::open(plan, Counting::Off)),
        };
        node.next(context)
    }
}

impl Lock {
    pub(crate) fn new(plan: &Arc<LockPlan>, counting: Counting) -> Lock {
        let rechecks = plan.rows.iter().map(|_| Recheck::default()).collect();
        Lock { plan: plan.clone(), input: node::open(&plan.input, counting), rechecks, saved: None }
    }

    /// Locks one row of the context. `false`: the row is left out.
    fn lock(&mut self, number: usize, row: &LockedRow, context: &mut Context<'_>) -> SqlResult<bool> {
        let Datum::Bytea(identity) = context.row[row.identity].clone() else {
            // The row of an outer join that has no match.
            return Ok(true);
        };
        match context.storage.lock(&row.table, &identity, row.mode, row.wait)? {
            Locked::Unchanged => Ok(true),
            Locked::Gone | Locked::Skipped => Ok(false),
            Locked::Changed => {
                if self.saved.is_none() {
                    let mut saved = Vec::with_capacity(self.plan.slots.len());
                    context.save(&self.plan.slots, &mut saved);
                    self.saved = Some(saved);
                }
                self.rechecks[number].run(&row.recheck, context)
            }
        }
    }
}

impl Node for Lock {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        'rows: loop {
            if let Some(saved) = self.saved.take() {
                context.restore(&plan.slots, saved);
            }
            if !self.input.next(context)? {
                return Ok(false);
            }
            for (number, row) in plan.rows.iter().enumerate() {
                if !self.lock(number, row, context)? {
                    continue 'rows;
                }
            }
            return Ok(true);
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.saved = None;
        self.input.rewind(context)
    }
}
