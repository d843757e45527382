//! `MERGE`: for each row of the source what its first clause says whose condition is true.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::super::context::Context;
use super::super::plan::{ChangePlan, MergeActionPlan, MergeClausePlan, PlanNode};
use super::super::storage::Locked;
use super::Change;
use crate::algebra::RowLock;

/// The first clause for rows with, or without, a match whose condition is true.
fn chosen<'c>(
    clauses: &'c [MergeClausePlan],
    is_matched: bool,
    context: &mut Context<'_>,
) -> SqlResult<Option<&'c MergeActionPlan>> {
    for clause in clauses.iter().filter(|clause| clause.is_matched == is_matched) {
        let is_met = match &clause.condition {
            Some(condition) => condition.is_true(context)?,
            None => true,
        };
        if is_met {
            return Ok(Some(&clause.action));
        }
    }
    Ok(None)
}

impl Change {
    pub(super) fn merge(
        &mut self,
        plan: &ChangePlan,
        slot: usize,
        clauses: &[MergeClausePlan],
        recheck: &PlanNode,
        mode: RowLock,
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        let Datum::Bytea(identity) = context.row[slot].clone() else {
            return self.merge_unmatched(plan, clauses, context);
        };
        if matches!(chosen(clauses, true, context)?, None | Some(MergeActionPlan::Nothing)) {
            return Ok(());
        }
        if !self.touch(&identity, context)? {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "MERGE command cannot affect row a second time",
            )
            .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        let Some(old) = self.lock_to_merge(plan, (&identity, slot), recheck, mode, context)? else {
            self.touched.remove(&*identity);
            return self.merge_unmatched(plan, clauses, context);
        };
        // The newest version of the row may meet another condition.
        match chosen(clauses, true, context)? {
            Some(MergeActionPlan::Update(values)) => {
                let mut new = old.clone();
                for (position, value) in values {
                    new[*position] = value.evaluate(context)?;
                }
                self.update(plan, &identity, &old, &new, context)
            }
            Some(MergeActionPlan::Delete) => self.delete(plan, &identity, &old, context),
            _ => Ok(()),
        }
    }

    /// A row of the source without one of the table, or not any more.
    fn merge_unmatched(
        &mut self,
        plan: &ChangePlan,
        clauses: &[MergeClausePlan],
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        let Some(MergeActionPlan::Insert(values)) = chosen(clauses, false, context)? else { return Ok(()) };
        let mut row = vec![Datum::Null; plan.table.columns.len()];
        for (position, value) in values {
            row[*position] = value.evaluate(context)?;
        }
        self.insert_row(plan, &row, None, context)
    }

    /// Locks a row; returns its newest version. `None`: it is gone, or matches no more.
    fn lock_to_merge(
        &mut self,
        plan: &ChangePlan,
        (identity, slot): (&Arc<[u8]>, usize),
        recheck: &PlanNode,
        mode: RowLock,
        context: &mut Context<'_>,
    ) -> SqlResult<Option<Vec<Datum>>> {
        match context.storage.lock_to_change(&plan.table, identity, mode)? {
            Locked::Unchanged => {}
            Locked::Gone | Locked::Skipped => return Ok(None),
            // An outer join has a row also without a match.
            Locked::Changed if self.recheck.run(recheck, context)? && !context.row[slot].is_null() => {}
            Locked::Changed => return Ok(None),
        }
        let mut row = vec![Datum::Null; plan.table.columns.len()];
        let is_there = context.storage.fetch_newest(&plan.table, identity, &plan.all_columns, &mut row)?;
        Ok(is_there.then_some(row))
    }
}
