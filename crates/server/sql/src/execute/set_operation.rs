//! `UNION ALL`, `INTERSECT`, `EXCEPT`. A `UNION` is a `UNION ALL` below a `Distinct`.

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

use super::Counting;
use super::context::Context;
use super::groups::{Entered, Groups};
use super::memory::Share;
use super::node::{self, Node};
use super::plan::SetOperationPlan;
use super::spill::{Part, Partitions, Source};
use crate::algebra::SetOperator;

pub(crate) fn open(plan: &Arc<SetOperationPlan>, counting: Counting) -> Box<dyn Node> {
    match plan.operator {
        SetOperator::Union => Box::new(Append::new(plan, counting)),
        SetOperator::Intersect | SetOperator::Except => Box::new(Counted::new(plan, counting)),
    }
}

/// Copies the columns of a side to those of the result.
fn copy(from: &[usize], to: &[usize], context: &mut Context<'_>) {
    for (&from, &to) in from.iter().zip(to) {
        context.row[to] = context.row[from].clone();
    }
}

/// The left rows, then the right ones.
struct Append {
    plan: Arc<SetOperationPlan>,
    left: Box<dyn Node>,
    right: Box<dyn Node>,
    is_left_done: bool,
}

impl Append {
    fn new(plan: &Arc<SetOperationPlan>, counting: Counting) -> Append {
        Append {
            plan: plan.clone(),
            left: node::open(&plan.left, counting),
            right: node::open(&plan.right, counting),
            is_left_done: false,
        }
    }
}

impl Node for Append {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.is_left_done {
            if self.left.next(context)? {
                copy(&self.plan.left_slots, &self.plan.slots, context);
                return Ok(true);
            }
            self.is_left_done = true;
        }
        let has_row = self.right.next(context)?;
        if has_row {
            copy(&self.plan.right_slots, &self.plan.slots, context);
        }
        Ok(has_row)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.left.prepare(context)?;
        self.right.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.is_left_done = false;
        self.left.rewind(context)?;
        self.right.rewind(context)
    }
}

/// A hash table of the right rows with their number; the left rows are looked up in it. Above the limit, both sides are dealt out.
struct Counted {
    plan: Arc<SetOperationPlan>,
    left: Box<dyn Node>,
    right: Box<dyn Node>,
    left_source: Source,
    right_source: Source,
    level: u32,
    is_built: bool,
    known: Groups,
    counts: Vec<i64>,
    share: Share,
    pending: Vec<(Option<Part>, Option<Part>)>,
    values: Vec<Datum>,
    rest: Vec<Datum>,
}

impl Counted {
    fn new(plan: &Arc<SetOperationPlan>, counting: Counting) -> Counted {
        Counted {
            plan: plan.clone(),
            left: node::open(&plan.left, counting),
            right: node::open(&plan.right, counting),
            left_source: Source::Node,
            right_source: Source::Node,
            level: 0,
            is_built: false,
            known: Groups::new(plan.padded.clone()),
            counts: Vec::new(),
            share: Share::default(),
            pending: Vec::new(),
            values: Vec::new(),
            rest: Vec::new(),
        }
    }

    /// Reads the right side. `false`: it has no room, and both sides were dealt out.
    fn build(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        while self.right_source.next(&mut self.right, &plan.right_slots, &mut self.rest, context)? {
            self.values.clear();
            context.save(&plan.right_slots, &mut self.values);
            // A part has the number of equal rows after the values.
            let count = match self.rest.first() {
                Some(Datum::Int8(count)) => *count,
                _ => 1,
            };
            match self.known.enter(&self.values)? {
                Entered::Known(number) => self.counts[number] += count,
                Entered::New(_) => self.counts.push(count),
            }
            self.share.set(&mut context.state.memory, self.known.bytes() + 8 * self.counts.len())?;
            let is_full = context.state.memory.is_to_spill(self.share.bytes());
            if is_full && Partitions::can_split(self.level) {
                self.deal_out(context)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn deal_out(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let plan = self.plan.clone();
        let mut right = Partitions::new(self.level);
        for number in 0..self.known.len() {
            let mut row = self.known.get(number).to_vec();
            let hash = self.known.hash(&row);
            row.push(Datum::Int8(self.counts[number]));
            right.push(hash, &row, context)?;
        }
        self.forget(context);
        while self.right_source.next(&mut self.right, &plan.right_slots, &mut self.rest, context)? {
            let mut row = Vec::with_capacity(plan.right_slots.len() + 1);
            context.save(&plan.right_slots, &mut row);
            let hash = self.known.hash(&row);
            row.push(self.rest.pop().unwrap_or(Datum::Int8(1)));
            right.push(hash, &row, context)?;
        }
        let mut left = Partitions::new(self.level);
        while self.left_source.next(&mut self.left, &plan.left_slots, &mut self.rest, context)? {
            let mut row = Vec::with_capacity(plan.left_slots.len());
            context.save(&plan.left_slots, &mut row);
            left.push(self.known.hash(&row), &row, context)?;
        }
        self.pending.extend(left.into_pairs(right)?);
        Ok(())
    }

    fn forget(&mut self, context: &mut Context<'_>) {
        self.known.clear();
        self.counts.clear();
        self.share.clear(&mut context.state.memory);
    }

    /// Whether the left row in the context belongs to the result.
    fn accepts(&mut self, context: &mut Context<'_>) -> bool {
        self.values.clear();
        context.save(&self.plan.left_slots, &mut self.values);
        let found = self.known.find(self.known.hash(&self.values), &self.values);
        let is_intersect = self.plan.operator == SetOperator::Intersect;
        let Some(number) = found else { return !is_intersect };
        let count = &mut self.counts[number];
        match (is_intersect, self.plan.is_all) {
            (true, true) => {
                *count -= 1;
                *count >= 0
            }
            (true, false) => std::mem::replace(count, 0) > 0,
            (false, true) => {
                *count -= 1;
                *count < 0
            }
            (false, false) => false,
        }
    }
}

impl Node for Counted {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        loop {
            if !self.is_built {
                if !self.build(context)? {
                    self.left_source = Source::Nothing;
                }
                self.is_built = true;
            }
            while self.left_source.next(&mut self.left, &plan.left_slots, &mut self.rest, context)? {
                if self.accepts(context) {
                    copy(&plan.left_slots, &plan.slots, context);
                    return Ok(true);
                }
            }
            self.forget(context);
            let Some((left, right)) = self.pending.pop() else { return Ok(false) };
            self.level = left.as_ref().or(right.as_ref()).map_or(0, |part| part.level);
            self.left_source = Source::part(left);
            self.right_source = Source::part(right);
            self.is_built = false;
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.left.prepare(context)?;
        self.right.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.forget(context);
        self.pending.clear();
        self.level = 0;
        self.left_source = Source::Node;
        self.right_source = Source::Node;
        self.is_built = false;
        self.left.rewind(context)?;
        self.right.rewind(context)
    }
}
