//! Groups and their aggregates, by a hash table.
//!
//! Above `work_memory` no new groups are made: rows of groups that are not in the table are dealt out to files by the hash of their key,
//! and each file is aggregated by itself afterwards. Several grouping sets: the input is kept, and aggregated once for each set.

mod cell;

use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

pub(crate) use cell::Cell;

use super::Counting;
use super::context::Context;
use super::groups::Groups;
use super::memory::Share;
use super::node::{self, Node};
use super::plan::AggregatePlan;
use super::spill::{Cursor, Part, Partitions, RowStore, Source};

/// Bytes of a cell, beside what its accumulator says.
const CELL_BYTES: usize = size_of::<Cell>() + 64;

pub(crate) struct Aggregate {
    plan: Arc<AggregatePlan>,
    input: Box<dyn Node>,
    /// The grouping set under way.
    set: usize,
    /// The input, if it is needed again.
    kept: RowStore,
    cursor: Cursor,
    source: Source,
    level: u32,
    spilled: Option<Partitions>,
    pending: Vec<Part>,
    groups: Groups,
    /// The cells of group 0, of group 1, ..
    cells: Vec<Cell>,
    share: Share,
    phase: Phase,
    key: Vec<Datum>,
    values: Vec<Datum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fill,
    /// The next group to give.
    Give(usize),
    Done,
}

impl Aggregate {
    pub(crate) fn new(plan: &Arc<AggregatePlan>, counting: Counting) -> Aggregate {
        Aggregate {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            set: 0,
            kept: RowStore::new(plan.input_slots.len()),
            cursor: Cursor::default(),
            source: Source::Node,
            level: 0,
            spilled: None,
            pending: Vec::new(),
            groups: new_groups(plan, 0),
            cells: Vec::new(),
            share: Share::default(),
            phase: Phase::Fill,
            key: Vec::new(),
            values: Vec::new(),
        }
    }

    fn next_input(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        if self.level > 0 {
            return self.source.next(&mut self.input, &plan.input_slots, &mut self.values, context);
        }
        if self.set > 0 {
            context.tick()?;
            return self.kept.next(&mut self.cursor, &plan.input_slots, context);
        }
        let has_row = self.input.next(context)?;
        if has_row && plan.sets.len() > 1 {
            self.kept.push_slots(&plan.input_slots, context)?;
        }
        Ok(has_row)
    }

    fn fill(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let plan = self.plan.clone();
        while self.next_input(context)? {
            if let Some(group) = self.group(&plan, context)? {
                let first = group * plan.aggregates.len();
                for (cell, call) in self.cells[first..].iter_mut().zip(&plan.aggregates) {
                    cell.add(call, &mut self.values, &mut self.share, context)?;
                }
            }
        }
        // Without columns to group by there is one row, also of no input.
        if self.groups.is_empty() && self.level == 0 && plan.sets[self.set].is_empty() {
            self.add_group(&plan, 0, context)?;
        }
        Ok(())
    }

    /// The group of the row in the context; `None`: the row was put aside.
    fn group(&mut self, plan: &AggregatePlan, context: &mut Context<'_>) -> SqlResult<Option<usize>> {
        if plan.sets[self.set].is_empty() && !self.groups.is_empty() {
            return Ok(Some(0));
        }
        self.key.clear();
        self.key.extend(plan.sets[self.set].iter().map(|at| context.row[plan.groups[*at]].clone()));
        let hash = self.groups.hash(&self.key);
        if let Some(group) = self.groups.find(hash, &self.key) {
            return Ok(Some(group));
        }
        let used = self.share.bytes();
        if context.state.memory.is_to_spill(used)
            && Partitions::can_split(self.level)
            && !self.groups.is_empty()
        {
            let mut row = Vec::with_capacity(plan.input_slots.len());
            context.save(&plan.input_slots, &mut row);
            let level = self.level;
            let spilled = self.spilled.get_or_insert_with(|| Partitions::new(level));
            spilled.push(hash, &row, context)?;
            return Ok(None);
        }
        self.add_group(plan, hash, context).map(Some)
    }

    fn add_group(&mut self, plan: &AggregatePlan, hash: u64, context: &mut Context<'_>) -> SqlResult<usize> {
        let before = self.groups.bytes();
        let group = self.groups.add(hash, &self.key)?;
        self.cells.extend(plan.aggregates.iter().map(Cell::new));
        let bytes = self.groups.bytes() - before + plan.aggregates.len() * CELL_BYTES;
        self.share.grow(&mut context.state.memory, bytes)?;
        Ok(group)
    }

    /// Writes a group to the row.
    fn give(&mut self, group: usize, context: &mut Context<'_>) -> SqlResult<()> {
        let plan = self.plan.clone();
        let set = &plan.sets[self.set];
        context.clear(&plan.groups);
        for (at, value) in set.iter().zip(self.groups.get(group)) {
            context.row[plan.groups[*at]].clone_from(value);
        }
        for (slot, positions) in &plan.grouping {
            let bits = positions.iter().fold(0, |bits, at| (bits << 1) | i32::from(!set.contains(at)));
            context.row[*slot] = Datum::Int4(bits);
        }
        let first = group * plan.aggregates.len();
        for (cell, call) in self.cells[first..].iter_mut().zip(&plan.aggregates) {
            context.row[call.slot] = cell.finish(call, &mut self.share, context)?;
        }
        Ok(())
    }

    fn forget(&mut self, context: &mut Context<'_>) {
        self.groups.clear();
        for cell in &mut self.cells {
            cell.discard(context);
        }
        self.cells.clear();
        self.share.clear(&mut context.state.memory);
    }

    /// After all groups were given: rows that were put aside, then the next set.
    fn next_phase(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.forget(context);
        if let Some(spilled) = self.spilled.take() {
            self.pending.extend(spilled.into_parts()?);
        }
        if let Some(part) = self.pending.pop() {
            self.level = part.level;
            self.source = Source::part(Some(part));
            self.phase = Phase::Fill;
            return Ok(());
        }
        self.level = 0;
        self.set += 1;
        if self.set >= self.plan.sets.len() {
            self.kept.clear(context);
            self.phase = Phase::Done;
            return Ok(());
        }
        self.groups = new_groups(&self.plan, self.set);
        self.cursor = Cursor::default();
        self.phase = Phase::Fill;
        Ok(())
    }
}

fn new_groups(plan: &AggregatePlan, set: usize) -> Groups {
    let padded: Vec<bool> = plan.sets.get(set).into_iter().flatten().map(|at| plan.padded[*at]).collect();
    Groups::new(padded)
}

impl Node for Aggregate {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        loop {
            match self.phase {
                Phase::Fill => {
                    self.fill(context)?;
                    self.phase = Phase::Give(0);
                }
                Phase::Give(group) if group < self.groups.len() => {
                    context.tick()?;
                    self.give(group, context)?;
                    self.phase = Phase::Give(group + 1);
                    return Ok(true);
                }
                Phase::Give(_) => self.next_phase(context)?,
                Phase::Done => return Ok(false),
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.forget(context);
        self.kept.clear(context);
        self.spilled = None;
        self.pending.clear();
        self.set = 0;
        self.level = 0;
        self.source = Source::Node;
        self.groups = new_groups(&self.plan, 0);
        self.cursor = Cursor::default();
        self.phase = Phase::Fill;
        self.input.rewind(context)
    }
}

#[cfg(test)]
mod tests;
