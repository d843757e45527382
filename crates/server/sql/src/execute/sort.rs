//! Rows in order.

mod sorter;

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

pub(crate) use sorter::Sorter;

use super::Counting;
use super::compare::Key;
use super::context::Context;
use super::limit::Bounds;
use super::node::{self, Node};
use super::plan::SortPlan;

/// A sort. Only as many rows are kept as a limit above needs.
pub(crate) struct Sort {
    plan: Arc<SortPlan>,
    input: Box<dyn Node>,
    sorter: Sorter,
    is_filled: bool,
}

/// The keys with positions among `slots` in the place of slots.
pub(crate) fn positioned(keys: &[Key], slots: &[usize]) -> Vec<Key> {
    let position = |slot| slots.iter().position(|known| *known == slot).unwrap_or(0);
    keys.iter().map(|key| Key { at: position(key.at), ..*key }).collect()
}

impl Sort {
    pub(crate) fn new(plan: &Arc<SortPlan>, counting: Counting) -> Sort {
        let sorter = Sorter::new(positioned(&plan.keys, &plan.slots));
        Sort { plan: plan.clone(), input: node::open(&plan.input, counting), sorter, is_filled: false }
    }

    fn fill(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        if let Some(top) = &self.plan.top
            && let Some(wanted) = Bounds::evaluate(top, context)?.end()
        {
            self.sorter.limit(wanted);
        }
        while self.input.next(context)? {
            let mut row: Vec<Datum> = Vec::with_capacity(self.plan.slots.len());
            context.save(&self.plan.slots, &mut row);
            self.sorter.push(row, context)?;
        }
        self.is_filled = true;
        Ok(())
    }
}

impl Node for Sort {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.is_filled {
            self.fill(context)?;
        }
        context.tick()?;
        let Some(row) = self.sorter.next(context)? else { return Ok(false) };
        context.restore(&self.plan.slots, row);
        Ok(true)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.sorter.clear(context);
        self.is_filled = false;
        self.input.rewind(context)
    }
}
