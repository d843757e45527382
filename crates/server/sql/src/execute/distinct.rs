//! The first of equal rows.

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

use super::Counting;
use super::compare::are_same;
use super::context::Context;
use super::groups::Groups;
use super::memory::Share;
use super::node::{self, Node};
use super::plan::DistinctPlan;
use super::spill::{Part, Partitions, Source};

/// `DISTINCT`, by a hash table; or by comparison with the row before, if equal rows follow one another.
pub(crate) struct Distinct {
    plan: Arc<DistinctPlan>,
    input: Box<dyn Node>,
    /// The row before, if the input is sorted.
    last: Option<Vec<Datum>>,
    seen: Groups,
    share: Share,
    source: Source,
    level: u32,
    /// Rows that found no room.
    spilled: Option<Partitions>,
    pending: Vec<Part>,
    values: Vec<Datum>,
    rest: Vec<Datum>,
}

impl Distinct {
    pub(crate) fn new(plan: &Arc<DistinctPlan>, counting: Counting) -> Distinct {
        Distinct {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            last: None,
            seen: Groups::new(plan.padded.clone()),
            share: Share::default(),
            source: Source::Node,
            level: 0,
            spilled: None,
            pending: Vec::new(),
            values: Vec::new(),
            rest: Vec::new(),
        }
    }

    fn next_sorted(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        while self.input.next(context)? {
            self.values.clear();
            context.save(&self.plan.on, &mut self.values);
            let is_repeat =
                self.last.as_ref().is_some_and(|last| are_same(last, &self.values, &self.plan.padded));
            if !is_repeat {
                self.last = Some(std::mem::take(&mut self.values));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the row is new; one without room is put aside.
    fn is_new(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        self.values.clear();
        context.save(&self.plan.on, &mut self.values);
        let hash = self.seen.hash(&self.values);
        if self.seen.find(hash, &self.values).is_some() {
            return Ok(false);
        }
        let is_full = context.state.memory.is_to_spill(self.seen.bytes());
        if is_full && Partitions::can_split(self.level) {
            let mut row = Vec::with_capacity(self.plan.slots.len());
            context.save(&self.plan.slots, &mut row);
            let level = self.level;
            let spilled = self.spilled.get_or_insert_with(|| Partitions::new(level));
            spilled.push(hash, &row, context)?;
            return Ok(false);
        }
        self.seen.add(hash, &self.values)?;
        self.share.set(&mut context.state.memory, self.seen.bytes())?;
        Ok(true)
    }

    /// Turns to the rows that were put aside. `false`: there are none.
    fn next_part(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if let Some(spilled) = self.spilled.take() {
            self.pending.extend(spilled.into_parts()?);
        }
        self.seen.clear();
        self.share.clear(&mut context.state.memory);
        let part = self.pending.pop();
        let has_part = part.is_some();
        self.level = part.as_ref().map_or(0, |part| part.level);
        self.source = Source::part(part);
        Ok(has_part)
    }
}

impl Node for Distinct {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if self.plan.is_sorted {
            return self.next_sorted(context);
        }
        let plan = self.plan.clone();
        loop {
            if self.source.next(&mut self.input, &plan.slots, &mut self.rest, context)? {
                if self.is_new(context)? {
                    return Ok(true);
                }
            } else if !self.next_part(context)? {
                return Ok(false);
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.last = None;
        self.seen.clear();
        self.share.clear(&mut context.state.memory);
        self.spilled = None;
        self.pending.clear();
        self.level = 0;
        self.source = Source::Node;
        self.input.rewind(context)
    }
}
