//! What names of columns can mean in a query.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference};

use super::Binder;
use super::row_locks::{LockedRows, RowLocking};
use crate::algebra::{Aggregation, Call, ColumnId, Expression, Relation, WindowCall};
use crate::schema::Table;

/// A column that can be named.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) id: ColumnId,
    pub(crate) of: TypeReference,
    /// The table's number and the column's, from 1; zeros: it is none of a table.
    pub(crate) origin: (Oid, i16),
}

/// A table, subquery or function of `FROM`, by its alias.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    pub(crate) name: String,
    /// The schema of a table that has no alias.
    pub(crate) schema: Option<String>,
    pub(crate) columns: Vec<ScopeColumn>,
    /// `ctid`-like columns, which only their name gives.
    pub(crate) hidden: Vec<ScopeColumn>,
    /// The identity of its rows, if they can be locked or changed.
    pub(crate) row: Option<ColumnId>,
    pub(crate) table: Option<Arc<Table>>,
    /// Whether it stands for one value, as a function does that returns one: its name is that value.
    pub(crate) is_scalar: bool,
    /// Whether its name can be used, as before `ON`, or only in messages.
    pub(crate) is_visible: bool,
}

impl ScopeTable {
    /// Columns under a name that is no table's.
    pub(crate) fn of_columns(name: String, columns: Vec<ScopeColumn>) -> ScopeTable {
        ScopeTable {
            name,
            schema: None,
            columns,
            hidden: Vec::new(),
            row: None,
            table: None,
            is_scalar: false,
            is_visible: true,
        }
    }
}

/// What an expression is a part of, for messages and for what is allowed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Select,
    Where,
    Having,
    GroupBy,
    OrderBy,
    DistinctOn,
    JoinOn,
    Limit,
    Offset,
    From,
    Values,
    UpdateSet,
    Returning,
    Check,
    Default,
    IndexExpression,
    IndexPredicate,
    Generated,
    Window,
    ExecuteParameter,
    CopyWhere,
    MergeWhen,
}

impl Clause {
    /// Its name in messages about aggregates and window functions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clause::Select => "SELECT",
            Clause::Where => "WHERE",
            Clause::Having => "HAVING",
            Clause::GroupBy => "GROUP BY",
            Clause::OrderBy => "ORDER BY",
            Clause::DistinctOn => "DISTINCT ON",
            Clause::JoinOn => "JOIN conditions",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::From => "functions in FROM",
            Clause::Values => "VALUES",
            Clause::UpdateSet => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::Check => "check constraints",
            Clause::Default => "DEFAULT expressions",
            Clause::IndexExpression => "index expressions",
            Clause::IndexPredicate => "index predicates",
            Clause::Generated => "column generation expressions",
            Clause::Window => "window definitions",
            Clause::ExecuteParameter => "EXECUTE parameters",
            Clause::CopyWhere => "COPY FROM WHERE conditions",
            Clause::MergeWhen => "MERGE WHEN conditions",
        }
    }

    pub(crate) fn allows_aggregates(self) -> bool {
        matches!(
            self,
            Clause::Select | Clause::Having | Clause::OrderBy | Clause::DistinctOn | Clause::Window
        )
    }

    pub(crate) fn allows_windows(self) -> bool {
        matches!(self, Clause::Select | Clause::OrderBy | Clause::DistinctOn)
    }

    pub(crate) fn allows_sets(self) -> bool {
        matches!(
            self,
            Clause::Select
                | Clause::OrderBy
                | Clause::GroupBy
                | Clause::DistinctOn
                | Clause::From
                | Clause::Values
        )
    }
}

/// One query level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Columns that can be named without a table, in order.
    pub(crate) columns: Vec<ScopeColumn>,
    /// Tables that can be named.
    pub(crate) tables: Vec<ScopeTable>,
    /// What its locking clauses say, of which tables; and the rows that they are about.
    pub(crate) locks: Vec<(RowLocking, Vec<String>)>,
    pub(crate) locked: Vec<LockedRows>,
    /// The columns of the table that the statement changes, by position.
    pub(crate) target: Vec<(usize, ColumnId)>,
    /// What is being bound.
    pub(crate) clause: Option<Clause>,
    /// Aggregates of this query so far.
    pub(crate) aggregates: Vec<(ColumnId, Aggregation)>,
    /// Values that aggregates sort by, computed below them.
    pub(crate) aggregate_inputs: Vec<(ColumnId, Expression)>,
    /// `GROUPING(..)` of this query: the column and its arguments.
    pub(crate) groupings: Vec<(ColumnId, Vec<Expression>)>,
    /// Window functions of this query so far.
    pub(crate) windows: Vec<(ColumnId, WindowCall)>,
    /// Values that windows partition and sort by.
    pub(crate) window_inputs: Vec<(ColumnId, Expression)>,
    /// `WINDOW name AS (..)`.
    pub(crate) named_windows: Vec<(String, sqlparser::ast::WindowSpec)>,
    /// Set-returning functions of this query so far: level of nesting, column and call.
    pub(crate) sets: Vec<(ColumnId, Call)>,
    /// A function of a user among them: the column, and the rows that it is of.
    pub(crate) own_set: Option<(ColumnId, Relation)>,
    /// Where the last of them is.
    pub(crate) set_position: Option<u32>,
    /// Whether its columns are the parameters of a function: they are as constants.
    pub(crate) is_of_parameters: bool,
    /// Whether an aggregate's arguments are being bound.
    pub(crate) is_in_aggregate: bool,
    /// Whether the arguments of a window function are being bound.
    pub(crate) is_in_window: bool,
    /// The innermost level that has been named since it was last cleared: from 0, the outermost.
    pub(crate) is_used: bool,
}

impl Scope {
    pub(crate) fn clause(&self) -> Clause {
        self.clause.unwrap_or(Clause::Select)
    }

    /// Whether a column is one of this query's tables, or is computed in it.
    fn makes(&self, id: ColumnId) -> bool {
        let tables = self.tables.iter().flat_map(|table| table.columns.iter().chain(&table.hidden));
        self.columns.iter().chain(tables).any(|column| column.id == id)
            || self.aggregates.iter().any(|(made, _)| *made == id)
            || self.groupings.iter().any(|(made, _)| *made == id)
            || self.windows.iter().any(|(made, _)| *made == id)
            || self.sets.iter().any(|(made, _)| *made == id)
            || self.own_set.as_ref().is_some_and(|(made, _)| *made == id)
    }
}

impl Binder<'_> {
    pub(super) fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// The column with this name, in the innermost query that has one.
    pub(super) fn named_column(
        &mut self,
        name: &str,
        position: Option<u32>,
    ) -> SqlResult<Option<ScopeColumn>> {
        for level in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[level];
            let mut found = scope.columns.iter().filter(|column| column.name == name);
            if let Some(first) = found.next() {
                if found.any(|other| other.id != first.id) {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position));
                }
                let first = first.clone();
                self.scopes[level].is_used = true;
                self.note_named(&first);
                return Ok(Some(first));
            }
            let mut hidden =
                scope.tables.iter().flat_map(|table| &table.hidden).filter(|column| column.name == name);
            if let Some(first) = hidden.next() {
                if hidden.next().is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position));
                }
                let first = first.clone();
                self.scopes[level].is_used = true;
                self.note_named(&first);
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// Whether a column belongs to an enclosing query.
    pub(super) fn is_from_outside(&self, id: ColumnId) -> bool {
        let Some((_, outer)) = self.scopes.split_last() else { return false };
        outer.iter().any(|scope| scope.makes(id))
    }

    /// The table with this name, in the innermost query that has one, and the level of that.
    pub(super) fn named_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        position: Option<u32>,
    ) -> SqlResult<Option<ScopeTable>> {
        for level in (0..self.scopes.len()).rev() {
            let is_meant = |table: &&ScopeTable| {
                table.is_visible
                    && table.name == name
                    && (schema.is_none() || table.schema.as_deref() == schema)
            };
            let mut found = self.scopes[level].tables.iter().filter(is_meant);
            if let Some(first) = found.next() {
                if found.next().is_some() {
                    let message = format!("table reference \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_ALIAS, message).at(position));
                }
                let first = first.clone();
                self.scopes[level].is_used = true;
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// `42P01` for a table that is not in `FROM`.
    pub(super) fn missing_table(&self, name: &str, position: Option<u32>) -> Box<SqlError> {
        let tables = || self.scopes.iter().flat_map(|scope| &scope.tables);
        let hidden = tables().find(|table| table.name == name && !table.is_visible);
        if let Some(hidden) = hidden {
            let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
            return SqlError::new(SqlState::UNDEFINED_TABLE, message)
                .with_hint(format!(
                    "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                    hidden.name
                ))
                .at(position);
        }
        let aliased = tables().find(|table| table.table.as_ref().is_some_and(|real| real.name == name));
        match aliased {
            Some(aliased) => SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("invalid reference to FROM-clause entry for table \"{name}\""),
            )
            .with_hint(format!("Perhaps you meant to reference the table alias \"{}\".", aliased.name)),
            None => SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("missing FROM-clause entry for table \"{name}\""),
            ),
        }
        .at(position)
    }

    /// `42703`, with the nearest names, as PostgreSQL hints at them.
    pub(super) fn missing_column(
        &self,
        table: Option<&str>,
        name: &str,
        position: Option<u32>,
    ) -> Box<SqlError> {
        let message = match table {
            Some(table) => format!("column {table}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        let mut nearest: Vec<(usize, String)> = Vec::new();
        for scope in self.scopes.iter().rev() {
            for known in scope.tables.iter().filter(|known| table.is_none_or(|table| known.name == table)) {
                for column in &known.columns {
                    let distance = distance(&column.name, name);
                    // PostgreSQL takes names that differ in at most three places, and in at most half of them.
                    if distance <= 3 && distance * 2 <= name.len().max(1) {
                        nearest.push((distance, format!("{}.{}", known.name, column.name)));
                    }
                }
            }
        }
        nearest.sort();
        let least = nearest.first().map(|(distance, _)| *distance);
        let best: Vec<&String> =
            nearest.iter().filter(|(distance, _)| Some(*distance) == least).map(|(_, name)| name).collect();
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(position);
        match best.as_slice() {
            [one] => error.with_hint(format!("Perhaps you meant to reference the column \"{one}\".")),
            [one, other] => error.with_hint(format!(
                "Perhaps you meant to reference the column \"{one}\" or the column \"{other}\"."
            )),
            _ => error,
        }
    }
}

/// Levenshtein's distance, of the bytes.
fn distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, byte) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(byte != *other);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
