//! `SELECT`: from the tables to the list of results.
//!
//! `select` binds the clauses in the order in which PostgreSQL does; a file for each clause is below.

mod aggregation;
mod distinct;
mod grouping_sets;
mod items;
mod limit;
mod order;
mod result_name;

use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{Expr, Fetch, LimitClause, LockClause, OrderByExpr, Query, Select, SetExpr};

use super::row_locks::{RowLocking, is_selection};
use super::scope::{Clause, Scope};
use super::{Binder, constant};
use crate::algebra::walk::visit;
use crate::algebra::{ColumnId, Expression, ExpressionKind, JoinKind, OutputColumn, Relation, SortKey};
use items::Item;
use order::order_list;

/// What a query adds around its body.
#[derive(Clone, Copy)]
pub(super) struct Around<'q> {
    pub(super) order: &'q [OrderByExpr],
    pub(super) limit: Option<&'q LimitClause>,
    pub(super) fetch: Option<&'q Fetch>,
    pub(super) locks: &'q [LockClause],
    /// Locks of the query around that are about its rows, too.
    pub(super) pushed: &'q [RowLocking],
    /// Whether the query is a selection of rows and no more.
    pub(super) is_selection: bool,
}

impl Binder<'_> {
    /// A whole statement: literals that nothing has given a type are text.
    pub(super) fn bind_top_query(&mut self, query: &Query) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        self.bind_query(query, false)
    }

    /// A query inside of another.
    pub(super) fn subquery(&mut self, query: &Query) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        self.deeper(|binder| binder.bind_query(query, false))
    }

    /// A subquery in an expression.
    pub(super) fn subquery_of_expression(
        &mut self,
        query: &Query,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if self.scopes.last().is_some_and(|scope| scope.clause == Some(Clause::CopyWhere)) {
            let message = "cannot use subquery in COPY FROM WHERE condition";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.subquery(query)
    }

    /// A query with its `WITH`. `keeps_unknown`: its literals get their types from where it is used.
    pub(super) fn bind_query(
        &mut self,
        query: &Query,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if query.for_clause.is_some() || query.settings.is_some() || !query.pipe_operators.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a query"));
        }
        let pushed = self.take_pushed_locks();
        let around = Around {
            order: order_list(query.order_by.as_ref())?,
            limit: query.limit_clause.as_ref(),
            fetch: query.fetch.as_ref(),
            locks: &query.locks,
            pushed: &pushed,
            is_selection: is_selection(query),
        };
        let Some(with) = &query.with else { return self.body(&query.body, around, keeps_unknown) };
        if with.recursive && matches!(*query.body, SetExpr::Merge(_)) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.with(with, |binder| binder.body(&query.body, around, keeps_unknown))
    }

    pub(super) fn body(
        &mut self,
        body: &SetExpr,
        around: Around<'_>,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        match body {
            SetExpr::Select(select) => self.in_scope(|binder| binder.select(select, around, keeps_unknown)),
            SetExpr::Query(inner) => {
                if !around.is_there() {
                    self.pushed_locks = around.pushed.to_vec();
                }
                let (relation, output) = self.deeper(|binder| binder.bind_query(inner, keeps_unknown))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Values(values) => {
                let (relation, output) = self.in_scope(|binder| binder.values(values, keeps_unknown))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::SetOperation { .. } => {
                let (relation, output) = self.deeper(|binder| binder.set_operation(body))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Table(table) => {
                let parts: Vec<sqlparser::ast::Ident> = table
                    .schema_name
                    .iter()
                    .chain(&table.table_name)
                    .map(|name| sqlparser::ast::Ident::with_quote('"', name))
                    .collect();
                let text = format!(
                    "SELECT * FROM {}",
                    parts
                        .iter()
                        .map(|part| part.value.to_lowercase())
                        .map(|part| super::types::quoted(&part))
                        .collect::<Vec<_>>()
                        .join(".")
                );
                let text = crate::parse::Text::new(&text);
                let query = crate::parse::query(&text)?;
                // Its places are none of the statement.
                let replaced = self.replaced.take();
                let bound = self.deeper(|binder| binder.bind_query(&query, false));
                self.replaced = replaced;
                let (relation, output) = bound?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => {
                if around.is_there() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error after a change"));
                }
                self.change_statement(statement)
            }
        }
    }

    /// Runs `body` in a query level of its own.
    pub(super) fn in_scope<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        self.scopes.push(Scope::default());
        let result = body(self);
        self.scopes.pop();
        result
    }

    fn select(
        &mut self,
        select: &Select,
        around: Around<'_>,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        check_clauses(select)?;
        self.begin_locks(around.locks, around.pushed);
        let relation = self.from(&select.from)?;
        self.check_locked_names()?;
        self.scope().named_windows = super::window::named_windows(&select.named_window)?;
        let relation = self.filtered(relation, select.selection.as_ref(), Clause::Where)?;
        let mut items = self.in_clause(Clause::Select, |binder| binder.items(&select.projection))?;
        if !keeps_unknown {
            for item in &mut items {
                let value = std::mem::replace(&mut item.value, constant(Datum::Null, oid::UNKNOWN));
                item.value = self.known(value)?;
            }
        }
        let groups = self.group_by(&select.group_by, &items)?;
        let mut having = match &select.having {
            Some(condition) => Some(self.condition(condition, Clause::Having)?),
            None => None,
        };
        let visible = items.len();
        let order = self.in_clause(Clause::OrderBy, |binder| binder.order_items(around.order, &mut items))?;
        let distinct = self.distinct_clause(select.distinct.as_ref(), &mut items)?;
        let is_grouped = groups.is_some() || having.is_some() || {
            let scope = self.scope();
            !scope.aggregates.is_empty() || !scope.groupings.is_empty()
        };
        self.check_locking(select, !around.locks.is_empty(), is_grouped)?;
        let relation = match is_grouped {
            true => {
                self.check_sets_of_groups()?;
                self.grouped(relation, groups.unwrap_or_default(), &mut items, &mut having)?
            }
            false => relation,
        };
        let relation = match having {
            Some(predicate) => Relation::Filter { input: Box::new(relation), predicate },
            None => relation,
        };
        let relation = self.windowed(relation);
        let relation = self.with_sets(relation);
        let (relation, mut columns) = self.results(relation, items);
        let keys: Vec<SortKey> = order
            .into_iter()
            .map(|(index, written)| {
                let column = &columns[index];
                self.sort_key(column.column, column.of, written, self.position(&written.expr))
            })
            .collect::<SqlResult<_>>()?;
        let relation = distinct.sorted(relation, &columns, visible, &keys)?;
        let relation = self.locked(relation, around.is_selection);
        let relation = self.limited(relation, around, keys)?;
        columns.truncate(visible);
        Ok((relation, columns))
    }

    fn filtered(&mut self, input: Relation, condition: Option<&Expr>, clause: Clause) -> SqlResult<Relation> {
        let Some(condition) = condition else { return Ok(input) };
        let predicate = self.condition(condition, clause)?;
        Ok(Relation::Filter { input: Box::new(input), predicate })
    }

    /// The condition of `WHERE` or `HAVING`.
    fn condition(&mut self, condition: &Expr, clause: Clause) -> SqlResult<Expression> {
        let name = if clause == Clause::Having { "HAVING" } else { "WHERE" };
        self.in_clause(clause, |binder| {
            let value = binder.expression(condition)?;
            binder.coerce_to_boolean(value, name)
        })
    }

    fn check_sets_of_groups(&mut self) -> SqlResult<()> {
        if self.scope().own_set.is_none() {
            return Ok(());
        }
        let at = self.scope().set_position.take();
        Err(SqlError::unsupported("a function of a user that returns a set, in a query with groups").at(at))
    }

    /// The columns of the result. Those that are no column of the input are computed.
    fn results(&mut self, input: Relation, items: Vec<Item>) -> (Relation, Vec<OutputColumn>) {
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(items.len());
        for item in items {
            let (column, of) = match item.value.kind {
                // Two literals that are alike are two columns. A column from outside becomes one of this query: its value is that of now.
                ExpressionKind::Column(id) if !self.is_from_outside(id) => {
                    self.as_column(item.value, &mut computed)
                }
                _ => {
                    let (id, of) = (self.new_column(), item.value.of);
                    computed.push((id, item.value));
                    (id, of)
                }
            };
            columns.push(OutputColumn { column, name: item.name, of, origin: item.origin });
        }
        match computed.is_empty() {
            true => (input, columns),
            false => (Relation::Compute { input: Box::new(input), values: computed }, columns),
        }
    }

    /// Set-returning functions of the list of results: those that others use as arguments first.
    pub(super) fn with_sets(&mut self, mut relation: Relation) -> Relation {
        if let Some((_, rows)) = self.scope().own_set.take() {
            relation = Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(relation),
                right: Box::new(rows),
                condition: constant(Datum::Bool(true), oid::BOOL),
            };
        }
        let mut pending = std::mem::take(&mut self.scope().sets);
        while !pending.is_empty() {
            let ids: Vec<ColumnId> = pending.iter().map(|(id, _)| *id).collect();
            let needs_others = |call: &crate::algebra::Call| {
                let mut found = false;
                for argument in &call.arguments {
                    visit(argument, &mut |inner| {
                        found |= matches!(inner.kind, ExpressionKind::Column(id) if ids.contains(&id));
                    });
                }
                found
            };
            let (later, now): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|(_, call)| needs_others(call));
            if now.is_empty() {
                return relation;
            }
            relation = Relation::ComputeSets { input: Box::new(relation), sets: now };
            pending = later;
        }
        relation
    }
}

impl Around<'_> {
    fn is_there(&self) -> bool {
        !self.order.is_empty() || self.limit.is_some() || self.fetch.is_some() || !self.locks.is_empty()
    }
}

/// Refuses clauses of other dialects.
fn check_clauses(select: &Select) -> SqlResult<()> {
    let message = match select {
        Select { into: Some(_), .. } => "SELECT ... INTO is not allowed here",
        _ if select.top.is_some()
            || select.qualify.is_some()
            || !select.lateral_views.is_empty()
            || !select.connect_by.is_empty() =>
        {
            "syntax error in SELECT"
        }
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}
