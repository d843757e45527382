//! Joins: conditions, `USING`, `NATURAL`.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::{Expr, Join, JoinConstraint, JoinOperator};

use super::super::expression::qualified;
use super::super::scope::{Clause, ScopeColumn, ScopeTable};
use super::super::{Binder, boolean};
use super::{FromItem, always};
use crate::algebra::{Expression, ExpressionKind, JoinKind, Relation};

impl Binder<'_> {
    pub(super) fn join(&mut self, left: FromItem, join: &Join) -> SqlResult<FromItem> {
        use JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) => (JoinKind::Inner, constraint),
            J::CrossJoin(constraint) => (JoinKind::Inner, constraint),
            J::Left(constraint) | J::LeftOuter(constraint) => (JoinKind::Left, constraint),
            J::Right(constraint) | J::RightOuter(constraint) => (JoinKind::Right, constraint),
            J::FullOuter(constraint) => (JoinKind::Full, constraint),
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"JOIN\""));
            }
        };
        // Rows of the right side that have no match are in the result, too: they cannot depend on those of the left one.
        let right = match kind {
            JoinKind::Right | JoinKind::Full => {
                let tables = left.tables.iter().cloned();
                let hidden = tables.map(|table| ScopeTable { is_visible: false, ..table }).collect();
                let hidden = FromItem { relation: Relation::OneRow, tables: hidden, columns: Vec::new() };
                self.beside(&hidden, |binder| binder.factor(&join.relation))?
            }
            _ => self.beside(&left, |binder| binder.factor(&join.relation))?,
        };
        self.check_aliases(&left.tables, &right.tables)?;
        match constraint {
            JoinConstraint::None => Ok(joined(kind, left, right, always())),
            JoinConstraint::On(condition) => {
                let condition = self.join_condition(&left, &right, condition)?;
                Ok(joined(kind, left, right, condition))
            }
            JoinConstraint::Using(names) => {
                let (names, alias) = crate::parse::using_names(names);
                let names: Vec<String> = names.iter().map(|name| qualified(name).1).collect();
                let mut item = self.join_using(kind, left, right, &names, true)?;
                if let Some(alias) = alias {
                    let columns = item.columns[..names.len()].to_vec();
                    let merged = [ScopeTable::of_columns(qualified(alias).1, columns)];
                    self.check_aliases(&item.tables, &merged)?;
                    item.tables.extend(merged);
                }
                Ok(item)
            }
            JoinConstraint::Natural => {
                let is_shared = |name: &String| right.columns.iter().any(|column| column.name == *name);
                let names: Vec<String> =
                    left.columns.iter().map(|column| column.name.clone()).filter(is_shared).collect();
                self.join_using(kind, left, right, &names, false)
            }
        }
    }

    fn join_condition(
        &mut self,
        left: &FromItem,
        right: &FromItem,
        condition: &Expr,
    ) -> SqlResult<Expression> {
        let bound = self.in_clause(Clause::JoinOn, |binder| {
            binder.only_with(left, right, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "JOIN/ON")
            })
        })?;
        Ok(bound)
    }

    /// Runs `body` where only the two sides of a join can be used, and what encloses the query.
    fn only_with<T>(
        &mut self,
        left: &FromItem,
        right: &FromItem,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let scope = self.scope();
        let mut tables: Vec<ScopeTable> = left.tables.iter().chain(&right.tables).cloned().collect();
        // Those further left are named in messages only.
        let hidden = scope.tables.iter().cloned().map(|table| ScopeTable { is_visible: false, ..table });
        tables.extend(hidden);
        let columns = left.columns.iter().chain(&right.columns).cloned().collect();
        let tables = std::mem::replace(&mut scope.tables, tables);
        let columns = std::mem::replace(&mut scope.columns, columns);
        let result = body(self);
        let scope = self.scope();
        scope.tables = tables;
        scope.columns = columns;
        result
    }

    fn join_using(
        &mut self,
        kind: JoinKind,
        left: FromItem,
        right: FromItem,
        names: &[String],
        is_written: bool,
    ) -> SqlResult<FromItem> {
        let mut tests = Vec::with_capacity(names.len());
        let mut merged = Vec::with_capacity(names.len());
        let mut computed = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if is_written && names[..index].contains(name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            let from_left = one_column(&left.columns, name, "left")?;
            let from_right = one_column(&right.columns, name, "right")?;
            self.note_named(&from_left);
            self.note_named(&from_right);
            let side = |column: &ScopeColumn| self.column_expression(column.id, column.of);
            let (l, r) = (side(&from_left), side(&from_right));
            tests.push(self.operator(None, "=", Some(l.clone()), r.clone(), None)?);
            let common = self.common_type_of(&[&l, &r], "JOIN/USING")?;
            let (plain, other) = if kind == JoinKind::Right { (r, l) } else { (l, r) };
            let origin = if kind == JoinKind::Right { from_right.origin } else { from_left.origin };
            let plain = self.coerce_common(plain, common, "JOIN/USING")?;
            let value = if kind == JoinKind::Full {
                let of = TypeReference::of(common);
                let other = self.coerce_common(other, common, "JOIN/USING")?;
                Expression { kind: ExpressionKind::Coalesce(vec![plain, other]), of, position: None }
            } else {
                plain
            };
            let (id, of) = self.as_column(value, &mut computed);
            let origin = if kind == JoinKind::Full { (0, 0) } else { origin };
            merged.push(ScopeColumn { name: name.clone(), id, of, origin });
        }
        let rest = |columns: &[ScopeColumn]| -> Vec<ScopeColumn> {
            columns.iter().filter(|column| !names.contains(&column.name)).cloned().collect()
        };
        let columns: Vec<ScopeColumn> =
            merged.into_iter().chain(rest(&left.columns)).chain(rest(&right.columns)).collect();
        let condition = match tests.len() {
            0 => always(),
            1 => tests.remove(0),
            _ => boolean(ExpressionKind::And(tests), None),
        };
        let mut item = joined(kind, left, right, condition);
        item.columns = columns;
        if !computed.is_empty() {
            item.relation = Relation::Compute { input: Box::new(item.relation), values: computed };
        }
        Ok(item)
    }
}

fn one_column(columns: &[ScopeColumn], name: &str, side: &str) -> SqlResult<ScopeColumn> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column.clone()),
        (Some(_), Some(_)) => {
            let message = format!("common column name \"{name}\" appears more than once in {side} table");
            Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
        (None, _) => {
            let message =
                format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
    }
}

fn joined(kind: JoinKind, left: FromItem, right: FromItem, condition: Expression) -> FromItem {
    let (mut tables, mut columns) = (left.tables, left.columns);
    tables.extend(right.tables);
    columns.extend(right.columns);
    let relation =
        Relation::Join { kind, left: Box::new(left.relation), right: Box::new(right.relation), condition };
    FromItem { relation, tables, columns }
}
