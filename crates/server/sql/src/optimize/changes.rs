//! Changes of tables as nodes.

use std::sync::Arc;

use seawall_values::SqlResult;

use super::lower::ROW_COST;
use super::planner::{Estimate, Planner};
use super::recheck::kept_for_recheck;
use super::walk::{Columns, made, used_here};
use crate::algebra::walk::{any, expressions, inputs};
use crate::algebra::{Change, ChangeKind, ColumnId, Conflict, MergeAction, MergeClause, Relation, RowLock};
use crate::execute::plan::{
    ChangePlan, ChangePlanKind, ConflictPlan, ConflictUpdatePlan, MergeActionPlan, MergeClausePlan, PlanKind,
    PlanNode,
};
use crate::schema::{IndexedValue, RowKey, Table};

/// Whether a relation, or a query inside of it, reads a table.
fn reads(relation: &Relation, table: &Table) -> bool {
    if let Relation::Scan(scan) = relation {
        return scan.table.oid == table.oid;
    }
    let mut found = false;
    inputs(relation, &mut |input| found = found || reads(input, table));
    expressions(relation, &mut |expression| {
        found = found
            || any(expression, &mut |expression| match &expression.kind {
                crate::algebra::ExpressionKind::Subquery(subquery) => reads(&subquery.relation, table),
                _ => false,
            });
    });
    found
}

/// The lock for an update of these columns: weaker, if no key that others refer to changes.
fn update_lock(table: &Table, mut changed: impl Iterator<Item = usize>) -> RowLock {
    let is_key = |column: usize| {
        let is_row_key = match &table.key {
            RowKey::Columns(columns) => columns.iter().any(|key| key.column == column),
            RowKey::Number => false,
        };
        is_row_key
            || table.indexes.iter().filter(|index| index.is_unique && index.predicate.is_none()).any(
                |index| {
                    index.keys.iter().any(|key| matches!(key.what, IndexedValue::Column(at) if at == column))
                },
            )
    };
    if changed.any(is_key) { RowLock::Update } else { RowLock::NoKeyUpdate }
}

impl Planner<'_> {
    pub(super) fn lower_change(&mut self, change: &Change, is_correlated: bool) -> SqlResult<PlanNode> {
        let input_made = made(&change.input);
        let used = used_here(&Relation::Change(Box::new(without_input(change))));
        let mut needed: Columns = used.intersection(&input_made).copied().collect();
        if let ChangeKind::Update { row, .. } | ChangeKind::Delete { row } | ChangeKind::Merge { row, .. } =
            &change.kind
        {
            needed.extend(kept_for_recheck(&change.input, *row));
        }
        let input = self.lower(&change.input, &needed)?;
        for (position, column) in &change.new {
            self.types.insert(*column, change.table.columns[*position].of);
        }
        let mut checks = Vec::with_capacity(change.checks.len());
        for (name, check) in &change.checks {
            checks.push((name.clone(), self.expression(check)?));
        }
        let mut returning = Vec::with_capacity(change.returning.len());
        for (column, value) in &change.returning {
            self.types.insert(*column, value.of);
            let value = self.expression(value)?;
            returning.push((self.slot(*column), value));
        }
        let kind = self.change_kind(change, &needed)?;
        let estimate = Estimate {
            rows: if returning.is_empty() { 0.0 } else { input.rows },
            startup: input.cost,
            cost: input.cost + input.rows * ROW_COST,
        };
        let width = input.width;
        let is_insert = matches!(change.kind, ChangeKind::Insert { .. });
        let is_single = matches!(input.kind, PlanKind::Lookup(_));
        let plan = ChangePlan {
            collects_input: if is_insert { reads(&change.input, &change.table) } else { !is_single },
            may_repeat: !is_insert && !is_single && has_join(&change.input),
            table: change.table.clone(),
            input,
            input_slots: self.slots_of(&needed),
            kind,
            new: change.new.iter().map(|(position, column)| (*position, self.slot(*column))).collect(),
            checks,
            returning_slots: returning.iter().map(|(slot, _)| *slot).collect(),
            returning,
            all_columns: (0..change.table.columns.len()).collect(),
        };
        Ok(self.node(PlanKind::Change(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn change_kind(&mut self, change: &Change, needed: &Columns) -> SqlResult<ChangePlanKind> {
        Ok(match &change.kind {
            ChangeKind::Insert { values, conflict } => ChangePlanKind::Insert {
                values: values.iter().map(|(position, column)| (*position, self.slot(*column))).collect(),
                conflict: conflict.as_ref().map(|conflict| self.conflict(change, conflict)).transpose()?,
            },
            ChangeKind::Update { row, values } => ChangePlanKind::Update {
                identity: self.slot(*row),
                values: values.iter().map(|(position, column)| (*position, self.slot(*column))).collect(),
                recheck: self.recheck(&change.input, needed, *row)?,
                mode: update_lock(&change.table, values.iter().map(|(position, _)| *position)),
            },
            ChangeKind::Delete { row } => ChangePlanKind::Delete {
                identity: self.slot(*row),
                recheck: self.recheck(&change.input, needed, *row)?,
            },
            ChangeKind::Merge { row, clauses } => self.merge(change, needed, *row, clauses)?,
        })
    }

    fn merge(
        &mut self,
        change: &Change,
        needed: &Columns,
        row: ColumnId,
        clauses: &[MergeClause],
    ) -> SqlResult<ChangePlanKind> {
        let mut plans = Vec::with_capacity(clauses.len());
        let mut mode = RowLock::NoKeyUpdate;
        for clause in clauses {
            let action = match &clause.action {
                MergeAction::Nothing => MergeActionPlan::Nothing,
                MergeAction::Insert(values) => MergeActionPlan::Insert(self.merged_values(values)?),
                MergeAction::Update(values) => {
                    mode = mode.max(update_lock(&change.table, values.iter().map(|(position, _)| *position)));
                    MergeActionPlan::Update(self.merged_values(values)?)
                }
                MergeAction::Delete => {
                    mode = RowLock::Update;
                    MergeActionPlan::Delete
                }
            };
            let condition =
                clause.condition.as_ref().map(|condition| self.expression(condition)).transpose()?;
            plans.push(MergeClausePlan { is_matched: clause.is_matched, condition, action });
        }
        let recheck = self.recheck(&change.input, needed, row)?;
        Ok(ChangePlanKind::Merge { identity: self.slot(row), clauses: plans, recheck, mode })
    }

    fn merged_values(
        &mut self,
        values: &[(usize, crate::algebra::Expression)],
    ) -> SqlResult<Vec<(usize, crate::execute::expression::Expression)>> {
        values.iter().map(|(position, value)| Ok((*position, self.expression(value)?))).collect()
    }

    fn conflict(&mut self, change: &Change, conflict: &Conflict) -> SqlResult<ConflictPlan> {
        let update = match &conflict.update {
            None => None,
            Some(update) => {
                for (position, column) in update.existing.iter().chain(&update.excluded) {
                    self.types.insert(*column, change.table.columns[*position].of);
                }
                let mut values = Vec::with_capacity(update.values.len());
                for (position, value) in &update.values {
                    values.push((*position, self.expression(value)?));
                }
                Some(ConflictUpdatePlan {
                    existing: update.existing.iter().map(|(at, column)| (*at, self.slot(*column))).collect(),
                    excluded: update.excluded.iter().map(|(at, column)| (*at, self.slot(*column))).collect(),
                    mode: update_lock(&change.table, values.iter().map(|(position, _)| *position)),
                    values,
                    condition: update
                        .condition
                        .as_ref()
                        .map(|condition| self.expression(condition))
                        .transpose()?,
                })
            }
        };
        Ok(ConflictPlan { indexes: conflict.indexes.clone(), update })
    }
}

/// Whether a relation may have a row of a table more than once.
fn has_join(relation: &Relation) -> bool {
    match relation {
        Relation::Join { kind, left, .. } => {
            !matches!(kind, crate::algebra::JoinKind::Semi | crate::algebra::JoinKind::Anti) || has_join(left)
        }
        Relation::Scan(_) | Relation::OneRow => false,
        Relation::Filter { input, .. } | Relation::Compute { input, .. } | Relation::Sort { input, .. } => {
            has_join(input)
        }
        _ => true,
    }
}

fn without_input(change: &Change) -> Change {
    Change { input: Relation::OneRow, ..change.clone() }
}
