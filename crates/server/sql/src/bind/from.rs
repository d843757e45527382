//! `FROM`: its list, subqueries and aliases. `relation`, `function`, `sample` and `join` are below.

mod function;
mod join;
mod relation;
mod sample;

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{SetExpr, TableAlias, TableFactor, TableSampleKind, TableWithJoins};

use super::expression::folded;
use super::row_locks::{Lockable, not_allowed};
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::{Binder, constant};
use crate::algebra::{Expression, JoinKind, Relation};
use crate::schema::Table;

pub(crate) use relation::missing_relation;

/// A part of `FROM` with what it makes visible.
#[derive(Debug)]
pub(super) struct FromItem {
    pub(super) relation: Relation,
    pub(super) tables: Vec<ScopeTable>,
    pub(super) columns: Vec<ScopeColumn>,
}

impl FromItem {
    pub(super) fn of_table(relation: Relation, table: ScopeTable) -> FromItem {
        FromItem { relation, columns: table.columns.clone(), tables: vec![table] }
    }
}

fn always() -> Expression {
    constant(seawall_values::Datum::Bool(true), oid::BOOL)
}

impl Binder<'_> {
    /// Binds the whole list into the innermost scope; the relation.
    pub(super) fn from(&mut self, list: &[TableWithJoins]) -> SqlResult<Relation> {
        let mut whole: Option<FromItem> = None;
        for item in list {
            let next = match whole.take() {
                None => self.table_with_joins(item)?,
                Some(left) => {
                    let right = self.beside(&left, |binder| binder.table_with_joins(item))?;
                    let joined = Relation::Join {
                        kind: JoinKind::Inner,
                        left: Box::new(left.relation),
                        right: Box::new(right.relation),
                        condition: always(),
                    };
                    let (mut tables, mut columns) = (left.tables, left.columns);
                    self.check_aliases(&tables, &right.tables)?;
                    tables.extend(right.tables);
                    columns.extend(right.columns);
                    FromItem { relation: joined, tables, columns }
                }
            };
            whole = Some(next);
        }
        let Some(whole) = whole else { return Ok(Relation::OneRow) };
        let scope = self.scope();
        scope.tables = whole.tables;
        scope.columns = whole.columns;
        Ok(whole.relation)
    }

    /// Runs `body` where what is left of it can be used laterally.
    fn beside<T>(&mut self, left: &FromItem, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let scope = self.scope();
        let before = (scope.tables.len(), scope.columns.len());
        scope.tables.extend(left.tables.iter().cloned());
        scope.columns.extend(left.columns.iter().cloned());
        let result = body(self);
        let scope = self.scope();
        scope.tables.truncate(before.0);
        scope.columns.truncate(before.1);
        result
    }

    /// Runs `body` where nothing of this query's `FROM` can be used.
    fn alone<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let scope = self.scope();
        let hidden = |table: &mut ScopeTable| std::mem::replace(&mut table.is_visible, false);
        let visible: Vec<bool> = scope.tables.iter_mut().map(hidden).collect();
        let columns = std::mem::take(&mut scope.columns);
        let result = body(self);
        let scope = self.scope();
        scope.columns = columns;
        for (table, is_visible) in scope.tables.iter_mut().zip(visible) {
            table.is_visible = is_visible;
        }
        result
    }

    fn check_aliases(&self, left: &[ScopeTable], right: &[ScopeTable]) -> SqlResult<()> {
        for table in right {
            let is_same = |other: &&ScopeTable| {
                other.name == table.name
                    && (other.schema.is_none() || table.schema.is_none() || other.schema == table.schema)
            };
            if !table.name.is_empty() && left.iter().any(|other| is_same(&other)) {
                let message = format!("table name \"{}\" specified more than once", table.name);
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        Ok(())
    }

    fn table_with_joins(&mut self, item: &TableWithJoins) -> SqlResult<FromItem> {
        self.deeper(|binder| {
            let mut left = binder.factor(&item.relation)?;
            for join in &item.joins {
                left = binder.join(left, join)?;
            }
            Ok(left)
        })
    }

    fn factor(&mut self, factor: &TableFactor) -> SqlResult<FromItem> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } => {
                self.named_relation(name, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. }
                if crate::parse::is_rows_from(name) =>
            {
                self.rows_from(&args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.table_function(name, &args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. }
                if crate::parse::is_rows_from(name) =>
            {
                self.rows_from(args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                self.unnest(array_exprs, *with_ordinality, alias.as_ref())
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let name = alias.as_ref().map_or_else(String::new, |alias| folded(&alias.name));
                let locks = self.locks_of(&name, Lockable::Rows)?;
                if let (SetExpr::SetOperation { .. }, Some(lock)) = (subquery.body.as_ref(), locks.first()) {
                    return Err(not_allowed(lock.mode, "UNION/INTERSECT/EXCEPT"));
                }
                let bound = self.with_pushed_locks(locks, |binder| match lateral {
                    true => binder.subquery(subquery),
                    false => binder.alone(|binder| binder.subquery(subquery)),
                });
                let (relation, output) = bound?;
                let columns: Vec<ScopeColumn> = output
                    .into_iter()
                    .map(|column| ScopeColumn {
                        name: column.name,
                        id: column.column,
                        of: column.of,
                        origin: column.origin,
                    })
                    .collect();
                if alias.is_none() {
                    let position = self.position(factor);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .with_hint("For example, FROM (SELECT ...) [AS] foo.")
                        .at(position));
                }
                self.aliased(relation, String::new(), None, columns, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let inner = self.table_with_joins(table_with_joins)?;
                match alias {
                    None => Ok(inner),
                    Some(alias) => {
                        self.locks_of(&folded(&alias.name), Lockable::Other("a join"))?;
                        let alias = Some(alias);
                        self.aliased(inner.relation, String::new(), None, inner.columns, alias, None)
                    }
                }
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_ordinality: false,
                sample: Some(TableSampleKind::AfterTableAlias(sample)),
                ..
            } => {
                let item = self.named_relation(name, alias.as_ref())?;
                let position = self.position(name);
                self.sampled(item, sample, position)
            }
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                Err(SqlError::unsupported("TABLESAMPLE"))
            }
            other => Err(SqlError::unsupported(format!("FROM {other}"))),
        }
    }

    /// With an alias for the table, and names for its first columns.
    pub(super) fn aliased(
        &mut self,
        relation: Relation,
        name: String,
        schema: Option<String>,
        mut columns: Vec<ScopeColumn>,
        alias: Option<&TableAlias>,
        table: Option<&Arc<Table>>,
    ) -> SqlResult<FromItem> {
        let (name, schema) = match alias {
            Some(alias) => (folded(&alias.name), None),
            None => (name, schema),
        };
        if let Some(alias) = alias {
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    alias.columns.len()
                );
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            for (column, written) in columns.iter_mut().zip(&alias.columns) {
                column.name = folded(&written.name);
            }
        }
        let table = ScopeTable {
            name,
            schema,
            columns,
            hidden: Vec::new(),
            row: None,
            table: table.cloned(),
            is_scalar: false,
            is_visible: true,
        };
        Ok(FromItem::of_table(relation, table))
    }

    /// Binds a part of a clause.
    pub(super) fn in_clause<T>(
        &mut self,
        clause: Clause,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.scope().clause.replace(clause);
        let result = body(self);
        self.scope().clause = before;
        result
    }
}
