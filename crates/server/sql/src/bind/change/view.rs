//! Changes through views: a view over one table, or over another such view, stands for the rows of that table.
//!
//! The change is made of the table. Names mean the columns of the view: those that are columns of the table, and those that are computed of
//! them; only the former can be given values.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor};

use super::super::Binder;
use super::super::expression::folded;
use super::super::needed::Beneath;
use super::super::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use super::{live_columns, number_of, positions_of};
use crate::algebra::walk::operands_mut;
use crate::algebra::{ColumnId, Demand, Expression, ExpressionKind, Relation};
use crate::schema::{CheckOption, Definition, Table, View};

/// A view that is changed.
#[derive(Clone, Debug)]
pub(super) struct TargetView {
    /// The view, then the one that it selects from, and so on.
    levels: Vec<Level>,
    columns: Vec<ViewColumn>,
    is_insert: bool,
    /// What is changed in its place.
    beneath: Vec<Beneath>,
}

/// A column of the view: which column of the table it is, or else the view and the column that make it something else.
#[derive(Clone, Debug)]
struct ViewColumn {
    name: String,
    is_of_table: Result<usize, (String, String)>,
}

/// A view, taken apart.
#[derive(Clone, Debug)]
struct Level {
    view: Arc<View>,
    select: Box<Select>,
    /// What it selects from, as it names it, with the columns that it renames.
    from: String,
    renamed: Vec<String>,
}

/// The columns of a view over the columns of its table.
pub(super) struct ViewColumns {
    pub(super) columns: Vec<ScopeColumn>,
    /// Those that are computed, over columns of the table.
    pub(super) computed: Vec<(ColumnId, Expression)>,
    /// What rows of the view meet, each with the number of the view that says so, from the top.
    pub(super) conditions: Vec<(usize, Expression)>,
    /// The columns of each relation, from the table up.
    levels: Vec<Vec<ColumnId>>,
    /// The view and the column of each of `computed`.
    names: Vec<(String, String)>,
}

impl ViewColumns {
    fn of_table(columns: Vec<ScopeColumn>) -> ViewColumns {
        let levels = vec![columns.iter().map(|column| column.id).collect()];
        ViewColumns { columns, computed: Vec::new(), conditions: Vec::new(), levels, names: Vec::new() }
    }

    /// Puts what computes them in the place of columns.
    pub(super) fn resolve(&self, value: &mut Expression) {
        resolve(value, &self.computed);
    }

    /// Rows of the table as rows of the view.
    pub(super) fn around(&mut self, table: Relation) -> Relation {
        let mut rows = table;
        for (_, predicate) in std::mem::take(&mut self.conditions) {
            rows = Relation::Filter { input: Box::new(rows), predicate };
        }
        match self.computed.is_empty() {
            true => rows,
            false => Relation::Compute { input: Box::new(rows), values: self.computed.clone() },
        }
    }
}

fn resolve(value: &mut Expression, computed: &[(ColumnId, Expression)]) {
    if let ExpressionKind::Column(id) = value.kind {
        if let Some((_, meant)) = computed.iter().find(|(known, _)| *known == id) {
            *value = meant.clone();
        }
        return;
    }
    operands_mut(value, &mut |child| resolve(child, computed));
}

/// What a change of a view is called, in messages.
struct Verb {
    what: &'static str,
    enabling: &'static str,
    event: &'static str,
}

impl Verb {
    fn of(written: &str) -> Verb {
        match written {
            "insert into" => Verb { what: "insert into", enabling: "inserting into", event: "INSERT" },
            "update" => Verb { what: "update", enabling: "updating", event: "UPDATE" },
            _ => Verb { what: "delete from", enabling: "deleting from", event: "DELETE" },
        }
    }

    fn refused(&self, view: &View, why: &str) -> Box<SqlError> {
        let message = format!("cannot {} view \"{}\"", self.what, view.name);
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_detail(format!("Views {why} are not automatically updatable."))
            .with_hint(format!(
                "To enable {} the view, provide an INSTEAD OF {} trigger or an unconditional ON {} DO INSTEAD rule.",
                self.enabling, self.event, self.event
            ))
    }
}

/// Why a query does not stand for rows of one table.
fn reason(query: &Query) -> Option<&'static str> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Some(match query.body.as_ref() {
            SetExpr::SetOperation { .. } => "containing UNION, INTERSECT, or EXCEPT",
            _ => "that do not select from a single table or view",
        });
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(list, modifiers) => !list.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    match () {
        () if select.distinct.is_some() => Some("containing DISTINCT"),
        () if is_grouped => Some("containing GROUP BY"),
        () if select.having.is_some() => Some("containing HAVING"),
        () if query.with.is_some() => Some("containing WITH"),
        () if query.limit_clause.is_some() || query.fetch.is_some() => Some("containing LIMIT or OFFSET"),
        () => None,
    }
}

impl TargetView {
    /// The position of a column in the table.
    pub(super) fn position(&self, name: &str, at: Option<u32>) -> SqlResult<usize> {
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) => self.of_table(column),
            None => {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name());
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(at))
            }
        }
    }

    pub(super) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// The name of the only column that is this one of the table.
    pub(super) fn column_name(&self, position: usize) -> Option<&str> {
        let mut named = self.columns.iter().filter(|column| column.is_of_table == Ok(position));
        named.next().filter(|_| named.next().is_none()).map(|column| column.name.as_str())
    }

    /// The positions of its columns in the table, in order.
    pub(super) fn positions(&self) -> Vec<SqlResult<usize>> {
        self.columns.iter().map(|column| self.of_table(column)).collect()
    }

    /// The numbers of the columns that are these of the table.
    pub(super) fn numbers(&self, positions: &[usize]) -> Vec<u16> {
        let is_one = |column: &ViewColumn| matches!(&column.is_of_table, Ok(at) if positions.contains(at));
        let columns = self.columns.iter().enumerate().filter(|(_, column)| is_one(column));
        columns.map(|(index, _)| number_of(index)).collect()
    }

    /// The view.
    pub(super) fn view(&self) -> Option<&Arc<View>> {
        self.levels.first().map(|level| &level.view)
    }

    /// What is changed in its place.
    pub(super) fn beneath(&self) -> &[Beneath] {
        &self.beneath
    }

    /// Of each view from the top: whether its conditions are looked at.
    fn checked_levels(&self) -> Vec<bool> {
        let mut is_cascaded = false;
        let is_checked = |level: &Level| {
            let option = level.view.check_option();
            is_cascaded |= option == Some(CheckOption::Cascaded);
            is_cascaded || option.is_some()
        };
        self.levels.iter().map(is_checked).collect()
    }

    fn of_table(&self, column: &ViewColumn) -> SqlResult<usize> {
        column.is_of_table.clone().map_err(|(view, name)| {
            let what = if self.is_insert { "insert into" } else { "update" };
            let message = format!("cannot {what} column \"{name}\" of view \"{view}\"");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_detail("View columns that are not columns of their base relation are not updatable.")
        })
    }

    pub(super) fn name(&self) -> &str {
        self.levels.first().map_or("", |level| &level.view.name)
    }
}

/// Views over views that a change goes through.
const LEVELS_MAX: usize = 100;

impl Binder<'_> {
    /// The table that a view stands for in a change.
    pub(super) fn target_view(
        &mut self,
        view: &Arc<View>,
        verb: &str,
    ) -> SqlResult<(Arc<Table>, TargetView)> {
        let verb = Verb::of(verb);
        let mut levels: Vec<Level> = Vec::new();
        let mut view = Arc::clone(view);
        let table = loop {
            if levels.iter().any(|level| level.view.oid == view.oid) {
                let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
                return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
            }
            if levels.len() >= LEVELS_MAX {
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
            }
            let (level, base) = self.level(&view, &verb)?;
            levels.push(level);
            match base {
                Definition::Table(table) if table.query.is_none() => break table,
                Definition::View(inner) => view = inner,
                Definition::System(system) => {
                    let message = format!("permission denied: \"{}\" is a system catalog", system.name);
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                _ => return Err(verb.refused(&view, "that do not select from a single table or view")),
            }
        };
        let is_insert = verb.event == "INSERT";
        let mut target = TargetView { levels, columns: Vec::new(), is_insert, beneath: Vec::new() };
        let (_, columns, hidden, _) = self.scan(&table);
        let positions_of_table: Vec<usize> = live_columns(&table).map(|(position, _)| position).collect();
        let positions = positions_of(&table, &columns);
        let bound = self.view_columns(&target, columns, hidden, Some(&verb))?;
        for column in &bound.columns {
            let position = positions.iter().find(|(_, id)| *id == column.id).map(|(position, _)| *position);
            let made_by = bound.computed.iter().position(|(id, _)| *id == column.id);
            let name = made_by.and_then(|index| bound.names.get(index)).cloned();
            let is_of_table = position.ok_or_else(|| name.unwrap_or_default());
            target.columns.push(ViewColumn { name: column.name.clone(), is_of_table });
        }
        if verb.event != "DELETE"
            && target.columns.iter().all(|column| column.is_of_table.is_err())
            && let Some(level) = target.levels.first()
        {
            return Err(verb.refused(&level.view, "that have no updatable columns"));
        }
        target.beneath = self.beneath(&target, &bound, &table, &positions_of_table);
        Ok((table, target))
    }

    /// A view, and what it selects from.
    fn level(&mut self, view: &Arc<View>, verb: &Verb) -> SqlResult<(Level, Definition)> {
        let text = crate::parse::Text::new(&view.query);
        let query = crate::parse::query(&text)
            .map_err(|error| SqlError::internal(format!("the text of view \"{}\": {error}", view.name)))?;
        if let Some(reason) = reason(&query) {
            return Err(verb.refused(view, reason));
        }
        let no_table = || verb.refused(view, "that do not select from a single table or view");
        let SetExpr::Select(select) = *query.body else { return Err(no_table()) };
        let [only] = select.from.as_slice() else { return Err(no_table()) };
        let TableFactor::Table { name, alias, args: None, with_ordinality: false, .. } = &only.relation
        else {
            return Err(no_table());
        };
        if !only.joins.is_empty() {
            return Err(no_table());
        }
        let path = self.search_path.replace(view.search_path.clone());
        let named = self.named(name);
        self.search_path = path;
        let (_, plain, found) = named?;
        let base = found.ok_or_else(no_table)?;
        let from = alias.as_ref().map_or(plain, |alias| folded(&alias.name));
        let renamed =
            alias.iter().flat_map(|alias| &alias.columns).map(|column| folded(&column.name)).collect();
        Ok((Level { view: Arc::clone(view), select, from, renamed }, base))
    }

    /// The columns of a view over these of its table. `verb`: it is the first time, and the view is checked.
    fn view_columns(
        &mut self,
        target: &TargetView,
        table: Vec<ScopeColumn>,
        hidden: Vec<ScopeColumn>,
        verb: Option<&Verb>,
    ) -> SqlResult<ViewColumns> {
        let mut bound = ViewColumns::of_table(table);
        let mut hidden = hidden;
        for (number, level) in target.levels.iter().enumerate().rev() {
            let scopes = std::mem::take(&mut self.scopes);
            let tables = std::mem::take(&mut self.common_tables);
            let path = self.search_path.replace(level.view.search_path.clone());
            let owner = std::mem::replace(&mut self.view_owner, level.view.checked_as());
            let outcome = self.level_columns((number, level), &mut bound, std::mem::take(&mut hidden), verb);
            self.scopes = scopes;
            self.common_tables = tables;
            self.search_path = path;
            self.view_owner = owner;
            bound.levels.push(bound.columns.iter().map(|column| column.id).collect());
            outcome.map_err(|mut error| {
                error.position = None;
                error
            })?;
        }
        Ok(bound)
    }

    fn level_columns(
        &mut self,
        (number, level): (usize, &Level),
        bound: &mut ViewColumns,
        hidden: Vec<ScopeColumn>,
        verb: Option<&Verb>,
    ) -> SqlResult<()> {
        let mut columns = std::mem::take(&mut bound.columns);
        for (column, name) in columns.iter_mut().zip(&level.renamed) {
            column.name.clone_from(name);
        }
        let shown = ScopeTable {
            name: level.from.clone(),
            schema: None,
            columns: columns.clone(),
            hidden,
            row: None,
            table: None,
            is_scalar: false,
            is_visible: true,
        };
        self.scopes.push(Scope { columns, tables: vec![shown], ..Scope::default() });
        if let Some(condition) = &level.select.selection {
            let mut condition = self.in_clause(Clause::Where, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHERE")
            })?;
            bound.resolve(&mut condition);
            bound.conditions.push((number, condition));
        }
        let items = self.view_items(&level.select.projection)?;
        if let Some(verb) = verb {
            let scope = self.scope();
            let reason = match () {
                () if !scope.aggregates.is_empty() => Some("that return aggregate functions"),
                () if !scope.windows.is_empty() => Some("that return window functions"),
                () if !scope.sets.is_empty() => Some("that return set-returning functions"),
                () => None,
            };
            if let Some(reason) = reason {
                return Err(verb.refused(&level.view, reason));
            }
        }
        for (index, (mut value, (name, of))) in items.into_iter().zip(&level.view.columns).enumerate() {
            let id = match value.kind {
                ExpressionKind::Column(id) => id,
                _ => {
                    let id = self.new_column();
                    bound.resolve(&mut value);
                    bound.computed.push((id, value));
                    bound.names.push((level.view.name.clone(), name.clone()));
                    id
                }
            };
            let origin = (level.view.oid, i16::try_from(index + 1).unwrap_or(i16::MAX));
            bound.columns.push(ScopeColumn { name: name.clone(), id, of: *of, origin });
        }
        Ok(())
    }

    fn view_items(&mut self, projection: &[SelectItem]) -> SqlResult<Vec<Expression>> {
        let returned = self.in_clause(Clause::Select, |binder| binder.values_of_items(projection))?;
        returned.into_iter().map(|value| self.known(value)).collect()
    }

    /// The relations beneath a view that a change of it changes, with the privileges that this takes.
    fn beneath(
        &self,
        target: &TargetView,
        bound: &ViewColumns,
        table: &Arc<Table>,
        positions: &[usize],
    ) -> Vec<Beneath> {
        let top = bound.levels.last().map(Vec::as_slice).unwrap_or_default();
        let lower = target.levels[1..].iter().map(|level| Definition::View(Arc::clone(&level.view)));
        let relations = lower.chain(std::iter::once(Definition::Table(Arc::clone(table))));
        let columns = bound.levels.iter().rev().skip(1);
        let mut beneath = Vec::with_capacity(target.levels.len());
        for ((relation, columns), above) in relations.zip(columns).zip(&target.levels) {
            let number = |id: &ColumnId| {
                let index = columns.iter().position(|known| known == id)?;
                let is_table = matches!(relation, Definition::Table(_));
                Some(number_of(if is_table { positions[index] } else { index }))
            };
            let numbers = top.iter().enumerate();
            let numbers = numbers.filter_map(|(index, id)| Some((number_of(index), number(id)?))).collect();
            let checked_as = above.view.checked_as();
            let selected = self.named_for(checked_as, crate::catalog::oid_of(&relation));
            beneath.push(Beneath { relation: relation.clone(), checked_as, numbers, selected });
        }
        beneath
    }

    /// What `WITH CHECK OPTION` of a view and of those beneath it demands of rows with these columns, the lowest first.
    pub(super) fn view_checks(
        &mut self,
        target: &TargetView,
        columns: Vec<ScopeColumn>,
    ) -> SqlResult<Vec<(Demand, Expression)>> {
        let is_checked = target.checked_levels();
        if !is_checked.contains(&true) {
            return Ok(Vec::new());
        }
        let bound = self.view_columns(target, columns, Vec::new(), None)?;
        let wanted = bound.conditions.into_iter().filter(|(level, _)| is_checked[*level]);
        let named = |(level, condition): (usize, Expression)| {
            (Demand::View(target.levels[level].view.name.clone()), condition)
        };
        Ok(wanted.map(named).collect())
    }

    /// Why a view over this query cannot be changed; `None`: it can.
    pub(crate) fn not_updatable(&mut self, view: &Arc<View>) -> SqlResult<Option<String>> {
        let found = self.target_view(view, "update");
        match found {
            Ok(_) => Ok(None),
            Err(error) if error.detail.as_deref().is_some_and(|detail| detail.starts_with("Views ")) => {
                Ok(error.detail)
            }
            Err(error) => Err(error),
        }
    }

    /// The columns of the target as its names mean them, over these of its table.
    pub(super) fn shown_columns(
        &mut self,
        view: Option<&TargetView>,
        table: Vec<ScopeColumn>,
        hidden: Vec<ScopeColumn>,
    ) -> SqlResult<ViewColumns> {
        match view {
            Some(view) => self.view_columns(view, table, hidden, None),
            None => Ok(ViewColumns::of_table(table)),
        }
    }
}
