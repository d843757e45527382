//! Joins by equal keys: a hash table over the right side, probed with the rows of the left one.
//!
//! ```text
//!   build: right rows -> table          above work_memory: both sides -> 16 pairs of files by hash, each pair joined by itself
//!   probe: left row -> rows with equal keys -> condition
//!   rest:  right rows without a match (right and full joins)
//! ```

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::Counting;
use super::chains::{Chains, ENTRY_BYTES};
use super::compare::{compare, hash_values};
use super::context::Context;
use super::expression::Expression;
use super::memory::{Share, values_bytes};
use super::node::{self, Node};
use super::plan::HashJoinPlan;
use super::spill::{Part, Partitions, Source};
use crate::algebra::JoinKind;

pub(crate) struct HashJoin {
    plan: Arc<HashJoinPlan>,
    left: Box<dyn Node>,
    right: Box<dyn Node>,
    left_source: Source,
    right_source: Source,
    level: u32,
    pending: Vec<(Option<Part>, Option<Part>)>,
    phase: Phase,
    table: Table,
    /// The keys of the left row, and their hash.
    keys: Vec<Datum>,
    hash: u64,
    rest: Vec<Datum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Build,
    /// The next left row.
    Probe,
    /// The right rows for the left row, after this entry.
    Matches {
        entry: Option<usize>,
        is_matched: bool,
    },
    /// Right rows without a match, from this entry on.
    Rest(usize),
    Done,
}

/// The right rows: keys, then slots.
#[derive(Debug, Default)]
struct Table {
    chains: Chains,
    values: Vec<Datum>,
    keys: usize,
    width: usize,
    matched: Vec<bool>,
    share: Share,
}

impl Table {
    fn clear(&mut self, context: &mut Context<'_>) {
        self.chains.clear();
        self.values.clear();
        self.matched.clear();
        self.share.clear(&mut context.state.memory);
    }

    fn row(&self, entry: usize) -> &[Datum] {
        &self.values[entry * self.width..(entry + 1) * self.width]
    }

    /// The first entry after another one (or the first of all) with these keys.
    fn find(&self, hash: u64, after: Option<usize>, keys: &[Datum], padded: &[bool]) -> Option<usize> {
        let mut found = match after {
            Some(entry) => self.chains.find_after(hash, entry),
            None => self.chains.find(hash),
        };
        found.find(|entry| {
            let pairs = self.row(*entry).iter().zip(keys).zip(padded);
            pairs
                .take(self.keys)
                .all(|((left, right), padded)| !left.is_null() && compare(left, right, *padded).is_eq())
        })
    }
}

impl HashJoin {
    pub(crate) fn new(plan: &Arc<HashJoinPlan>, counting: Counting) -> HashJoin {
        let keys = plan.right_keys.len();
        HashJoin {
            plan: plan.clone(),
            left: node::open(&plan.left, counting),
            right: node::open(&plan.right, counting),
            left_source: Source::Node,
            right_source: Source::Node,
            level: 0,
            pending: Vec::new(),
            phase: Phase::Build,
            table: Table { keys, width: keys + plan.right_slots.len(), ..Table::default() },
            keys: Vec::with_capacity(keys),
            hash: 0,
            rest: Vec::new(),
        }
    }

    fn keeps_left(&self) -> bool {
        matches!(self.plan.kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti)
    }

    fn keeps_right(&self) -> bool {
        matches!(self.plan.kind, JoinKind::Right | JoinKind::Full)
    }

    /// Computes keys and their hash; `false`: one of them is null.
    fn compute(&mut self, keys: &[Expression], context: &mut Context<'_>) -> SqlResult<bool> {
        self.keys.clear();
        let mut has_null = false;
        for key in keys {
            let value = key.evaluate(context)?;
            has_null |= value.is_null();
            self.keys.push(value);
        }
        self.hash = hash_values(self.keys.iter().zip(self.plan.padded.iter().copied()));
        Ok(!has_null)
    }

    /// Reads the right side into the table. `false`: both sides were dealt out instead.
    fn build(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        while self.right_source.next(&mut self.right, &plan.right_slots, &mut self.rest, context)? {
            context.tick()?;
            if !self.compute(&plan.right_keys, context)? && !self.keeps_right() {
                continue;
            }
            let table = &mut self.table;
            let start = table.values.len();
            table.values.append(&mut self.keys);
            context.save(&plan.right_slots, &mut table.values);
            if !table.chains.push(self.hash) {
                return Err(SqlError::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    "a hash join has more than 4,294,967,294 rows",
                ));
            }
            let bytes = values_bytes(&table.values[start..]) + ENTRY_BYTES + 1;
            table.share.grow(&mut context.state.memory, bytes)?;
            let is_full = context.state.memory.is_to_spill(table.share.bytes());
            if is_full && Partitions::can_split(self.level) {
                self.deal_out(context)?;
                return Ok(false);
            }
        }
        if self.keeps_right() {
            self.table.matched.resize(self.table.chains.len(), false);
        }
        Ok(true)
    }

    /// Deals both sides out to files by the hash of their keys.
    fn deal_out(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let plan = self.plan.clone();
        let mut right = Partitions::new(self.level);
        for entry in 0..self.table.chains.len() {
            let (keys, slots) = self.table.row(entry).split_at(plan.right_keys.len());
            let hash = hash_values(keys.iter().zip(plan.padded.iter().copied()));
            right.push(hash, slots, context)?;
        }
        self.table.clear(context);
        let mut row = Vec::new();
        while self.right_source.next(&mut self.right, &plan.right_slots, &mut self.rest, context)? {
            if self.compute(&plan.right_keys, context)? || self.keeps_right() {
                row.clear();
                context.save(&plan.right_slots, &mut row);
                right.push(self.hash, &row, context)?;
            }
        }
        let mut left = Partitions::new(self.level);
        while self.left_source.next(&mut self.left, &plan.left_slots, &mut self.rest, context)? {
            if self.compute(&plan.left_keys, context)? || self.keeps_left() {
                row.clear();
                context.save(&plan.left_slots, &mut row);
                left.push(self.hash, &row, context)?;
            }
        }
        self.pending.extend(left.into_pairs(right)?);
        self.left_source = Source::Nothing;
        Ok(())
    }

    /// Takes the next left row. `true`: it is in the result as it is, without a match.
    fn probe(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        if !self.left_source.next(&mut self.left, &plan.left_slots, &mut self.rest, context)? {
            self.phase = Phase::Rest(0);
            return Ok(false);
        }
        context.tick()?;
        if self.compute(&plan.left_keys, context)? {
            self.phase = Phase::Matches { entry: None, is_matched: false };
            return Ok(false);
        }
        let is_kept = self.keeps_left();
        if is_kept {
            context.clear(&plan.right_slots);
        }
        Ok(is_kept)
    }

    /// The next right row for the left one. `true`: the row is in the result.
    fn next_match(
        &mut self,
        entry: Option<usize>,
        is_matched: bool,
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        let plan = &*self.plan;
        let Some(entry) = self.table.find(self.hash, entry, &self.keys, &plan.padded) else {
            self.phase = Phase::Probe;
            let is_kept = !is_matched && self.keeps_left();
            if is_kept {
                context.clear(&self.plan.right_slots);
            }
            return Ok(is_kept);
        };
        context.tick()?;
        context.load(&plan.right_slots, &self.table.row(entry)[plan.right_keys.len()..]);
        let is_match = match &plan.condition {
            Some(condition) => condition.is_true(context)?,
            None => true,
        };
        self.phase = Phase::Matches { entry: Some(entry), is_matched: is_matched || is_match };
        if !is_match {
            return Ok(false);
        }
        if let Some(matched) = self.table.matched.get_mut(entry) {
            *matched = true;
        }
        match plan.kind {
            JoinKind::Semi => {
                self.phase = Phase::Probe;
                Ok(true)
            }
            JoinKind::Anti => {
                self.phase = Phase::Probe;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// The next right row without a match.
    fn next_rest(&mut self, from: usize, context: &mut Context<'_>) -> SqlResult<bool> {
        context.tick()?;
        let unmatched = self.table.matched.iter().skip(from).position(|matched| !matched);
        let Some(entry) = unmatched.map(|position| from + position) else {
            self.next_pair(context);
            return Ok(false);
        };
        context.clear(&self.plan.left_slots);
        context.load(&self.plan.right_slots, &self.table.row(entry)[self.plan.right_keys.len()..]);
        self.phase = Phase::Rest(entry + 1);
        Ok(true)
    }

    /// Turns to the next pair of parts.
    fn next_pair(&mut self, context: &mut Context<'_>) {
        let Some((left, right)) = self.pending.pop() else {
            self.phase = Phase::Done;
            return;
        };
        self.table.clear(context);
        self.level = left.as_ref().or(right.as_ref()).map_or(0, |part| part.level);
        self.left_source = Source::part(left);
        self.right_source = Source::part(right);
        self.phase = Phase::Build;
    }

    /// After the table is built: the left side is not read if no row of it can be in the result.
    fn start_probe(&mut self, is_built: bool) {
        let is_useless = is_built && self.table.chains.len() == 0 && !self.keeps_left();
        self.phase = if is_useless { Phase::Rest(0) } else { Phase::Probe };
    }
}

impl Node for HashJoin {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        loop {
            let has_row = match self.phase {
                Phase::Build => {
                    let is_built = self.build(context)?;
                    self.start_probe(is_built);
                    false
                }
                Phase::Probe => self.probe(context)?,
                Phase::Matches { entry, is_matched } => self.next_match(entry, is_matched, context)?,
                Phase::Rest(from) => self.next_rest(from, context)?,
                Phase::Done => return Ok(false),
            };
            if has_row {
                return Ok(true);
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.left.prepare(context)?;
        self.right.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let is_kept = !self.plan.right.is_correlated
            && self.level == 0
            && matches!(self.left_source, Source::Node)
            && self.phase != Phase::Build;
        self.left_source = Source::Node;
        if is_kept {
            self.table.matched.fill(false);
            self.phase = Phase::Probe;
            return self.left.rewind(context);
        }
        self.table.clear(context);
        self.pending.clear();
        self.level = 0;
        self.right_source = Source::Node;
        self.phase = Phase::Build;
        self.left.rewind(context)?;
        self.right.rewind(context)
    }
}
