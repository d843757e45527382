//! `ON CONFLICT`.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{ConflictTarget, DoUpdate, Ident, Insert, OnConflict, OnConflictAction};

use super::super::Binder;
use super::super::expression::{folded, qualified};
use super::super::same::is_same;
use super::super::scope::{Clause, Scope};
use super::{Target, live_columns, scope_column, scope_table};
use crate::algebra::walk::operands_mut;
use crate::algebra::{ColumnId, Conflict, ConflictUpdate, Expression, ExpressionKind};
use crate::schema::{ConstraintKind, Index, IndexedValue, Table};

/// What is set, by position, and `WHERE`.
type ValuesAndCondition = (Vec<(usize, Expression)>, Option<Expression>);

impl Binder<'_> {
    pub(super) fn conflict(
        &mut self,
        target: &Target,
        insert: &Insert,
        written: &OnConflict,
    ) -> SqlResult<Conflict> {
        let indexes = match &written.conflict_target {
            None => Vec::new(),
            Some(ConflictTarget::Columns(columns)) => self.inferred_indexes(target, columns)?,
            Some(ConflictTarget::OnConstraint(name)) => match crate::parse::inference(insert, name) {
                Some(inference) => self.inferred_by_expressions(target, &inference)?,
                None => {
                    let index = index_of_constraint(&target.table, &qualified(name).1)?;
                    // As if the statement had named what the index is over.
                    let keys = index.keys.iter().filter_map(|key| match key.what {
                        IndexedValue::Column(position) => Some(position),
                        IndexedValue::Expression(_) => None,
                    });
                    let keys: Vec<usize> = keys.collect();
                    self.need_selected(target.oid(), target.numbers(&keys));
                    vec![index]
                }
            },
        };
        let update = match &written.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(_) if written.conflict_target.is_none() => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                    .with_hint("For example, ON CONFLICT (column_name)."));
            }
            OnConflictAction::DoUpdate(update) => Some(self.conflict_update(target, update)?),
        };
        Ok(Conflict { indexes, update })
    }

    /// The unique indexes over exactly these columns.
    fn inferred_indexes(&mut self, target: &Target, columns: &[Ident]) -> SqlResult<Vec<Arc<Index>>> {
        let table = &target.table;
        let mut wanted = Vec::with_capacity(columns.len());
        for column in columns {
            let name = folded(column);
            let position = self.text.position(column.span.start);
            if !target.has_column(&name) {
                let message = format!("column \"{name}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(position));
            }
            let found = target.column_position(&name, position).map_err(|_| no_such_index())?;
            if !wanted.contains(&found) {
                wanted.push(found);
            }
        }
        self.need_selected(target.oid(), target.numbers(&wanted));
        let is_over = |index: &&Arc<Index>| {
            index.is_unique
                && index.predicate.is_none()
                && index.is_valid
                && index.keys.len() == wanted.len()
                && index
                    .keys
                    .iter()
                    .all(|key| matches!(key.what, IndexedValue::Column(at) if wanted.contains(&at)))
        };
        let found: Vec<Arc<Index>> = table.indexes.iter().filter(is_over).cloned().collect();
        if found.is_empty() {
            return Err(no_such_index());
        }
        Ok(found)
    }

    /// The unique indexes over exactly these expressions, whose condition holds where the given one does.
    fn inferred_by_expressions(
        &mut self,
        target: &Target,
        inference: &crate::parse::Inference<'_>,
    ) -> SqlResult<Vec<Arc<Index>>> {
        let table = &target.table;
        let mut row = Vec::new();
        let mut columns = Vec::new();
        for (position, column) in live_columns(table) {
            let id = self.new_column();
            row.push((position, id));
            columns.push(scope_column(table, position, column, id));
        }
        let shown = self.shown_columns(target.view.as_ref(), columns, Vec::new())?;
        let scope = Scope {
            columns: shown.columns.clone(),
            tables: vec![scope_table(target, shown.columns.clone(), Vec::new())],
            ..Scope::default()
        };
        self.scopes.push(scope);
        let bound = self.inference_values(inference);
        self.scopes.pop();
        let (mut wanted, mut conditions) = bound?;
        wanted.iter_mut().chain(&mut conditions).for_each(|value| shown.resolve(value));
        let mut found = Vec::new();
        for index in table.indexes.iter().filter(|index| index.is_unique && index.is_valid) {
            if self.is_inferred(table, index, &row, &wanted, &conditions)? {
                found.push(Arc::clone(index));
            }
        }
        if found.is_empty() { Err(no_such_index()) } else { Ok(found) }
    }

    fn inference_values(
        &mut self,
        inference: &crate::parse::Inference<'_>,
    ) -> SqlResult<(Vec<Expression>, Vec<Expression>)> {
        let mut keys: Vec<Expression> = Vec::with_capacity(inference.keys.len());
        for key in inference.keys {
            let value = self.in_clause(Clause::IndexExpression, |binder| binder.expression(key))?;
            if !keys.iter().any(|known| is_same(known, &value)) {
                keys.push(value);
            }
        }
        let mut conditions = Vec::new();
        if let Some(condition) = inference.condition {
            let value = self.in_clause(Clause::IndexPredicate, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHERE")
            })?;
            conditions = conjuncts(value);
        }
        Ok((keys, conditions))
    }

    fn is_inferred(
        &mut self,
        table: &Table,
        index: &Index,
        row: &[(usize, ColumnId)],
        wanted: &[Expression],
        conditions: &[Expression],
    ) -> SqlResult<bool> {
        let mut keys = Vec::with_capacity(index.keys.len());
        for key in &index.keys {
            keys.push(match &key.what {
                IndexedValue::Column(position) => {
                    let id = row.iter().find(|(known, _)| known == position).map(|(_, id)| *id);
                    let Some(id) = id else { return Ok(false) };
                    self.column_expression(id, table.columns[*position].of)
                }
                IndexedValue::Expression(text) => {
                    self.stored_expression(text, table, row, Clause::IndexExpression)?
                }
            });
        }
        let has = |all: &[Expression], one: &Expression| all.iter().any(|other| is_same(other, one));
        if !keys.iter().all(|key| has(wanted, key)) || !wanted.iter().all(|key| has(&keys, key)) {
            return Ok(false);
        }
        let Some(predicate) = &index.predicate else {
            return Ok(true);
        };
        let predicate = self.stored_expression(predicate, table, row, Clause::IndexPredicate)?;
        Ok(conjuncts(predicate).iter().all(|condition| has(conditions, condition)))
    }

    fn conflict_update(&mut self, target: &Target, written: &DoUpdate) -> SqlResult<ConflictUpdate> {
        let (mut existing, mut excluded) = (Vec::new(), Vec::new());
        let (mut old_columns, mut new_columns) = (Vec::new(), Vec::new());
        for (position, column) in live_columns(&target.table) {
            let (old, new) = (self.new_column(), self.new_column());
            existing.push((position, old));
            excluded.push((position, new));
            old_columns.push(scope_column(&target.table, position, column, old));
            new_columns.push(scope_column(&target.table, position, column, new));
        }
        let proposed = Target { name: "excluded".to_owned(), schema: None, ..target.clone() };
        let old = self.shown_columns(target.view.as_ref(), old_columns, Vec::new())?;
        let new = self.shown_columns(target.view.as_ref(), new_columns, Vec::new())?;
        let scope = Scope {
            columns: old.columns.iter().chain(&new.columns).cloned().collect(),
            target: existing.clone(),
            tables: vec![
                scope_table(target, old.columns.clone(), Vec::new()),
                scope_table(&proposed, new.columns.clone(), Vec::new()),
            ],
            ..Scope::default()
        };
        self.scopes.push(scope);
        let bound = self.conflict_values(target, written, &existing);
        self.scopes.pop();
        let (mut values, mut condition) = bound?;
        for value in values.iter_mut().map(|(_, value)| value).chain(&mut condition) {
            old.resolve(value);
            new.resolve(value);
        }
        Ok(ConflictUpdate { existing, excluded, values, condition })
    }

    fn conflict_values(
        &mut self,
        target: &Target,
        written: &DoUpdate,
        existing: &[(usize, ColumnId)],
    ) -> SqlResult<ValuesAndCondition> {
        let mut values = self.assignments(target, &written.assignments, None)?;
        let changed: Vec<usize> = values.iter().map(|(position, _)| *position).collect();
        self.need_update(target.oid(), target.numbers(&changed));
        self.add_generated(target, existing, &mut values)?;
        let condition = match &written.selection {
            None => None,
            Some(condition) => Some(self.in_clause(Clause::Where, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHERE")
            })?),
        };
        Ok((values, condition))
    }
}

impl Binder<'_> {
    /// Adds generated columns to what is set, of a row that has these columns before.
    pub(super) fn add_generated(
        &mut self,
        target: &Target,
        before: &[(usize, ColumnId)],
        values: &mut Vec<(usize, Expression)>,
    ) -> SqlResult<()> {
        for (position, mut value) in self.generated_values(&target.table, before)? {
            with_values(&mut value, before, values);
            values.retain(|(known, _)| *known != position);
            values.push((position, value));
        }
        Ok(())
    }
}

/// The terms of a conjunction.
fn conjuncts(condition: Expression) -> Vec<Expression> {
    match condition.kind {
        ExpressionKind::And(terms) => terms.into_iter().flat_map(conjuncts).collect(),
        _ => vec![condition],
    }
}

/// Puts what columns are set to in the place of what they were.
fn with_values(expression: &mut Expression, existing: &[(usize, ColumnId)], values: &[(usize, Expression)]) {
    if let ExpressionKind::Column(id) = &expression.kind {
        let position = existing.iter().find(|(_, known)| known == id).map(|(position, _)| *position);
        if let Some((_, value)) = values.iter().find(|(known, _)| Some(*known) == position) {
            *expression = value.clone();
        }
        return;
    }
    operands_mut(expression, &mut |child| with_values(child, existing, values));
}

fn no_such_index() -> Box<SqlError> {
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
}

fn index_of_constraint(table: &Table, name: &str) -> SqlResult<Arc<Index>> {
    let constraint = table.constraints.iter().find(|constraint| constraint.name == name);
    let Some(constraint) = constraint else {
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    let index = match &constraint.kind {
        ConstraintKind::Unique(index) => table.indexes.iter().find(|known| known.oid == *index),
        _ => None,
    };
    match index {
        Some(_) if constraint.is_deferrable => Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
        )),
        Some(index) => Ok(Arc::clone(index)),
        None => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            "constraint in ON CONFLICT clause has no associated index",
        )),
    }
}
