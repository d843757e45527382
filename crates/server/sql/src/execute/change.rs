//! `INSERT`, `UPDATE`, `DELETE`; `merge`: `MERGE`.
//!
//! The whole change is made when the first row is asked for; rows of `RETURNING` are kept and given out after it. Rows to update or delete
//! are collected first, so the change never meets its own rows.

pub(crate) mod constraint;
mod merge;

use std::sync::Arc;

use rustc_hash::FxHashSet;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::Counting;
use super::context::Context;
use super::lock::Recheck;
use super::memory::Share;
use super::node::{self, Node};
use super::plan::{ChangePlan, ChangePlanKind, ConflictPlan, ConflictUpdatePlan, PlanNode};
use super::spill::{Cursor, RowStore};
use super::storage::{Inserted, Locked, OnConflict};
use crate::algebra::RowLock;

/// The newest version of a row: its identity and all of its columns.
type Version = (Arc<[u8]>, Vec<Datum>);

pub(crate) struct Change {
    plan: Arc<ChangePlan>,
    input: Box<dyn Node>,
    recheck: Recheck,
    is_done: bool,
    count: u64,
    returned: RowStore,
    cursor: Cursor,
    /// Rows that this change has written, where a second time matters.
    touched: FxHashSet<Vec<u8>>,
    share: Share,
    /// Memory for the row that is inserted.
    row: Vec<Datum>,
}

impl Change {
    pub(crate) fn new(plan: &Arc<ChangePlan>, counting: Counting) -> Change {
        Change {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            recheck: Recheck::default(),
            is_done: false,
            count: 0,
            returned: RowStore::new(plan.returning.len()),
            cursor: Cursor::default(),
            touched: FxHashSet::default(),
            share: Share::default(),
            row: Vec::new(),
        }
    }

    fn run(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let plan = self.plan.clone();
        if plan.collects_input {
            let mut rows = RowStore::new(plan.input_slots.len());
            while self.input.next(context)? {
                rows.push_slots(&plan.input_slots, context)?;
            }
            let mut cursor = Cursor::default();
            while rows.next(&mut cursor, &plan.input_slots, context)? {
                self.change(&plan, context)?;
            }
            rows.clear(context);
        } else {
            while self.input.next(context)? {
                self.change(&plan, context)?;
            }
        }
        self.touched = FxHashSet::default();
        self.share.clear(&mut context.state.memory);
        context.state.rows_changed = self.count;
        Ok(())
    }

    /// Makes the change of the row in the context.
    fn change(&mut self, plan: &ChangePlan, context: &mut Context<'_>) -> SqlResult<()> {
        context.tick()?;
        match &plan.kind {
            ChangePlanKind::Insert { values, conflict } => {
                self.insert(plan, values, conflict.as_ref(), context)
            }
            ChangePlanKind::Update { identity, values, recheck, mode } => {
                let Some((identity, old)) = self.lock(plan, *identity, recheck, *mode, context)? else {
                    return Ok(());
                };
                let mut new = old.clone();
                for (position, slot) in values {
                    new[*position] = context.row[*slot].clone();
                }
                self.update(plan, &identity, &old, &new, context)
            }
            ChangePlanKind::Delete { identity, recheck } => {
                let Some((identity, old)) = self.lock(plan, *identity, recheck, RowLock::Update, context)?
                else {
                    return Ok(());
                };
                self.delete(plan, &identity, &old, context)
            }
            ChangePlanKind::Merge { identity, clauses, recheck, mode } => {
                self.merge(plan, *identity, clauses, recheck, *mode, context)
            }
        }
    }

    fn delete(
        &mut self,
        plan: &ChangePlan,
        identity: &[u8],
        old: &[Datum],
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        show(plan, old, context);
        context.storage.delete(&plan.table, identity, old)?;
        self.complete(plan, context)
    }

    /// Locks the row whose identity is in a slot; returns its newest version. `None`: it is gone, does not match any more, or was changed by
    /// this statement before.
    fn lock(
        &mut self,
        plan: &ChangePlan,
        slot: usize,
        recheck: &PlanNode,
        mode: RowLock,
        context: &mut Context<'_>,
    ) -> SqlResult<Option<Version>> {
        let Datum::Bytea(identity) = context.row[slot].clone() else { return Ok(None) };
        if plan.may_repeat && !self.touch(&identity, context)? {
            return Ok(None);
        }
        match context.storage.lock_to_change(&plan.table, &identity, mode)? {
            Locked::Unchanged => {}
            Locked::Gone | Locked::Skipped => return Ok(None),
            Locked::Changed if self.recheck.run(recheck, context)? => {}
            Locked::Changed => {
                // It may match another row that it is joined with.
                self.touched.remove(&*identity);
                return Ok(None);
            }
        }
        let mut row = vec![Datum::Null; plan.table.columns.len()];
        if !context.storage.fetch_newest(&plan.table, &identity, &plan.all_columns, &mut row)? {
            return Ok(None);
        }
        Ok(Some((identity, row)))
    }

    /// Notes that a row was written. `false`: it was before.
    fn touch(&mut self, identity: &[u8], context: &mut Context<'_>) -> SqlResult<bool> {
        if self.touched.contains(identity) {
            return Ok(false);
        }
        self.share.grow(&mut context.state.memory, identity.len() + 40)?;
        self.touched.insert(identity.to_vec());
        Ok(true)
    }

    fn update(
        &mut self,
        plan: &ChangePlan,
        identity: &[u8],
        old: &[Datum],
        new: &[Datum],
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        show(plan, new, context);
        constraint::check(&plan.table, new, &plan.checks, context)?;
        let moved = context.storage.update(&plan.table, identity, old, new)?;
        if plan.may_repeat && moved.as_slice() != identity {
            self.touch(&moved, context)?;
        }
        self.complete(plan, context)
    }

    fn insert(
        &mut self,
        plan: &ChangePlan,
        values: &[(usize, usize)],
        conflict: Option<&ConflictPlan>,
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        row.resize(plan.table.columns.len(), Datum::Null);
        for (position, slot) in values {
            row[*position] = context.row[*slot].clone();
        }
        let inserted = self.insert_row(plan, &row, conflict, context);
        self.row = row;
        inserted
    }

    fn insert_row(
        &mut self,
        plan: &ChangePlan,
        row: &[Datum],
        conflict: Option<&ConflictPlan>,
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        show(plan, row, context);
        constraint::check(&plan.table, row, &plan.checks, context)?;
        loop {
            let on_conflict =
                conflict.map_or(OnConflict::Fail, |conflict| OnConflict::Report(&conflict.indexes));
            let existing = match context.storage.insert(&plan.table, row, on_conflict)? {
                Inserted::Done(identity) => {
                    if conflict.is_some_and(|conflict| conflict.update.is_some()) {
                        self.touch(&identity, context)?;
                    }
                    return self.complete(plan, context);
                }
                Inserted::Conflict(identity) => identity,
            };
            let Some(update) = conflict.and_then(|conflict| conflict.update.as_ref()) else {
                return Ok(());
            };
            if self.update_existing(plan, update, &existing, row, context)? {
                return Ok(());
            }
            // The row that was there has gone meanwhile: the insert is tried again.
            context.check_cancelled()?;
        }
    }

    /// `ON CONFLICT DO UPDATE`. `false`: the row is gone.
    fn update_existing(
        &mut self,
        plan: &ChangePlan,
        update: &ConflictUpdatePlan,
        identity: &[u8],
        proposed: &[Datum],
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        if self.touched.contains(identity) {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .with_hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        let locked = context.storage.lock_to_change(&plan.table, identity, update.mode)?;
        let mut old = vec![Datum::Null; plan.table.columns.len()];
        if locked == Locked::Gone
            || !context.storage.fetch_newest(&plan.table, identity, &plan.all_columns, &mut old)?
        {
            return Ok(false);
        }
        for (position, slot) in &update.existing {
            context.row[*slot].clone_from(&old[*position]);
        }
        for (position, slot) in &update.excluded {
            context.row[*slot].clone_from(&proposed[*position]);
        }
        if let Some(condition) = &update.condition
            && !condition.is_true(context)?
        {
            return Ok(true);
        }
        let mut new = old.clone();
        for (position, value) in &update.values {
            new[*position] = value.evaluate(context)?;
        }
        self.touch(identity, context)?;
        show(plan, &new, context);
        constraint::check(&plan.table, &new, &plan.checks, context)?;
        let moved = context.storage.update(&plan.table, identity, &old, &new)?;
        self.touch(&moved, context)?;
        self.complete(plan, context)?;
        Ok(true)
    }

    /// After the row was written: `RETURNING`.
    fn complete(&mut self, plan: &ChangePlan, context: &mut Context<'_>) -> SqlResult<()> {
        self.count += 1;
        if plan.returning.is_empty() {
            return Ok(());
        }
        let mut row = Vec::with_capacity(plan.returning.len());
        for (_, value) in &plan.returning {
            row.push(value.evaluate(context)?);
        }
        self.returned.push(&row, context)
    }
}

/// Puts a row where the checks and `RETURNING` look for it.
fn show(plan: &ChangePlan, row: &[Datum], context: &mut Context<'_>) {
    for (position, slot) in &plan.new {
        context.row[*slot].clone_from(&row[*position]);
    }
}

impl Node for Change {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !std::mem::replace(&mut self.is_done, true) {
            self.run(context)?;
        }
        if self.plan.returning.is_empty() {
            return Ok(false);
        }
        self.returned.next(&mut self.cursor, &self.plan.returning_slots, context)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    /// A change is made once: its rows are given out again.
    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.cursor = Cursor::default();
        Ok(())
    }

    fn begin_anew(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.returned.clear(context);
        self.cursor = Cursor::default();
        (self.is_done, self.count) = (false, 0);
        self.input.begin_anew(context)
    }
}
