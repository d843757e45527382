//! `MERGE`.

use seawall_values::{Datum, SqlError, SqlResult, SqlState};
use sqlparser::ast::{
    Expr, Merge, MergeAction as Action, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateKind,
    ObjectName, TableFactor, TableWithJoins,
};

use super::super::Binder;
use super::super::scope::Clause;
use super::{Target, live_columns, positions_of, scope_table};
use crate::algebra::{
    ChangeKind, ColumnId, Expression, ExpressionKind, JoinKind, MergeAction, MergeClause, OutputColumn,
    Relation,
};
use crate::schema::privilege::Privileges;

impl Binder<'_> {
    pub(super) fn merge(&mut self, merge: &Merge) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if merge.output.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"RETURNING\""));
        }
        check_order(merge)?;
        let target = self.merge_target(&merge.table)?;
        let source = TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
        let source = self.from(std::slice::from_ref(&source))?;
        if self.scope().tables.iter().any(|table| table.name == target.name) {
            let message = format!("name \"{}\" specified more than once", target.name);
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message)
                .with_detail("The name is used both as MERGE target table and data source."));
        }
        let (scan, columns, hidden, row) = self.scan(&target.table);
        let scope = self.scope();
        scope.target = positions_of(&target.table, &columns);
        scope.columns.splice(0..0, columns.iter().cloned());
        scope.tables.insert(0, scope_table(&target, columns, hidden));
        let condition = self.in_clause(Clause::JoinOn, |binder| {
            let value = binder.expression(&merge.on)?;
            binder.coerce_to_boolean(value, "JOIN/ON")
        })?;
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            let is_matched = clause.clause_kind == MergeClauseKind::Matched;
            clauses.push(match is_matched {
                true => self.merge_clause(&target, clause, true)?,
                false => self.without_target(|binder| binder.merge_clause(&target, clause, false))?,
            });
        }
        let inserts = clauses.iter().any(|clause| matches!(clause.action, MergeAction::Insert(_)));
        let kind = if inserts { JoinKind::Left } else { JoinKind::Inner };
        let input = Relation::Join { kind, left: Box::new(source), right: Box::new(scan), condition };
        self.changed(&target, input, ChangeKind::Merge { row, clauses }, None)
    }

    fn merge_target(&mut self, written: &TableFactor) -> SqlResult<Target> {
        let TableFactor::Table { name, alias, args: None, .. } = written else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: a table is expected"));
        };
        let target = self.target(name, alias.as_ref().map(|alias| &alias.name), "merge into")?;
        match &target.view {
            None => Ok(target),
            Some(view) => {
                let message = format!("cannot execute MERGE on relation \"{}\"", view.name());
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_detail("This operation is not supported for views."))
            }
        }
    }

    /// Runs `body` where the columns of the target cannot be named.
    fn without_target<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let scope = self.scope();
        let columns = scope.columns.clone();
        if let Some(first) = scope.tables.first_mut() {
            first.is_visible = false;
            let count = first.columns.len();
            scope.columns.drain(..count);
        }
        let result = body(self);
        let scope = self.scope();
        scope.columns = columns;
        if let Some(first) = scope.tables.first_mut() {
            first.is_visible = true;
        }
        result
    }

    fn merge_clause(
        &mut self,
        target: &Target,
        written: &sqlparser::ast::MergeClause,
        is_matched: bool,
    ) -> SqlResult<MergeClause> {
        let condition = match &written.predicate {
            None => None,
            Some(condition) => Some(self.in_clause(Clause::MergeWhen, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHEN")
            })?),
        };
        let action = match &written.action {
            Action::DoNothing { .. } => MergeAction::Nothing,
            Action::Delete { .. } => {
                self.need_besides(target.oid(), Privileges::DELETE);
                MergeAction::Delete
            }
            Action::Update(update) => {
                let MergeUpdateKind::Set(assignments) = &update.kind else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\""));
                };
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
                }
                let mut values = self.assignments(target, assignments, None)?;
                let changed: Vec<usize> = values.iter().map(|(position, _)| *position).collect();
                self.need_update(target.oid(), target.numbers(&changed));
                let before = self.target_columns();
                self.add_generated(target, &before, &mut values)?;
                MergeAction::Update(values)
            }
            Action::Insert(insert) => {
                self.need_besides(target.oid(), Privileges::INSERT);
                MergeAction::Insert(self.merged_row(target, insert)?)
            }
        };
        Ok(MergeClause { is_matched, condition, action })
    }

    /// The values of a row that is inserted, with defaults and generated columns.
    fn merged_row(
        &mut self,
        target: &Target,
        insert: &MergeInsertExpr,
    ) -> SqlResult<Vec<(usize, Expression)>> {
        let (overriding, columns) = crate::parse::merge_overriding(&insert.columns);
        let (names, row): (&[ObjectName], &[Expr]) = match &insert.kind {
            _ if insert.insert_predicate.is_some() => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
            }
            MergeInsertKind::Values(_) if crate::parse::is_defaults_mark(&insert.columns) => (&[], &[]),
            MergeInsertKind::Values(values) => match values.rows.as_slice() {
                [only] => (columns, &only.content),
                _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \",\"")),
            },
            MergeInsertKind::Row | MergeInsertKind::Wildcard => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in MERGE"));
            }
        };
        let listed = self.listed_columns(target, names, &[])?;
        let extra = row.get(listed.positions.len()).and_then(|value| self.position(value));
        let given = self.given_columns(&listed, row.len(), extra)?;
        self.need_insert(target.oid(), target.numbers(&given));
        let mut values = Vec::with_capacity(target.table.columns.len());
        for (position, written) in given.iter().zip(row) {
            let value = self.in_clause(Clause::Values, |binder| binder.expression(written))?;
            if !self.scope().sets.is_empty() {
                let message = "set-valued function called in context that cannot accept a set";
                let at = self.position(written);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(at));
            }
            values.push((*position, self.inserted_value(target, *position, value, overriding)?));
        }
        for (position, column) in live_columns(&target.table) {
            let is_given = values.iter().any(|(known, _)| *known == position);
            if !is_given && (column.default.is_some() || column.identity.is_some()) {
                values.push((position, self.default_value(&target.table, position)?));
            }
        }
        self.add_generated_of_new(target, &mut values)?;
        Ok(values)
    }

    fn add_generated_of_new(
        &mut self,
        target: &Target,
        values: &mut Vec<(usize, Expression)>,
    ) -> SqlResult<()> {
        if target.table.columns.iter().all(|column| column.generated.is_none()) {
            return Ok(());
        }
        let mut row: Vec<(usize, ColumnId)> = Vec::new();
        for (position, column) in live_columns(&target.table) {
            row.push((position, self.new_column()));
            if !values.iter().any(|(known, _)| *known == position) {
                let kind = ExpressionKind::Constant(Datum::Null);
                values.push((position, Expression { kind, of: column.of, position: None }));
            }
        }
        self.add_generated(target, &row, values)
    }
}

/// A clause after one of its kind without a condition is never reached.
fn check_order(merge: &Merge) -> SqlResult<()> {
    let (mut is_matched_done, mut is_other_done) = (false, false);
    for clause in &merge.clauses {
        let is_done = match clause.clause_kind {
            MergeClauseKind::Matched => &mut is_matched_done,
            MergeClauseKind::NotMatched => &mut is_other_done,
            MergeClauseKind::NotMatchedByTarget | MergeClauseKind::NotMatchedBySource => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"BY\""));
            }
        };
        if *is_done {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        *is_done = clause.predicate.is_none();
    }
    Ok(())
}
