//! `ALTER TABLE`: columns are added, dropped, renamed, and get other defaults.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::dependents::Object;
use super::requests::{Behavior, Expression, NewColumn, NewConstraint};
use super::{Definer, column_number, expression_text, find_column, no_such_column, table};
use crate::schema::{Column, ConstraintKind, Definition, Index, IndexKey, IndexedValue, Table};
use crate::storage::engine_error::EngineResult;

impl Definer<'_> {
    pub(super) fn add_column(
        &mut self,
        table: &Arc<Table>,
        request: &NewColumn,
        constraints: &[NewConstraint],
        if_not_exists: bool,
    ) -> SqlResult<Arc<Table>> {
        if find_column(table, &request.name).is_some() {
            let message =
                format!("column \"{}\" of relation \"{}\" already exists", request.name, table.name);
            if if_not_exists {
                self.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                return Ok(Arc::clone(table));
            }
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        table::check_column(&request.name, request.of)?;
        table::check_generation(request)?;
        let live = table.columns.iter().filter(|column| !column.is_dropped).count();
        if live >= table::COLUMNS_MAX || table.columns.len() >= usize::from(u16::MAX) - 1 {
            let message = format!("tables can have at most {} columns", table::COLUMNS_MAX);
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let position = table.columns.len();
        let column = self.new_column(table, position, request)?;
        let has_default = column.default.is_some() || column.domain != 0;
        let computes = (has_default && request.missing.is_none())
            || column.identity.is_some()
            || column.generated.is_some();
        let must_not_be_null = column.is_not_null && column.missing.is_null() && !computes;
        let mut changed = Table::clone(table);
        changed.columns.push(column);
        let mut table = if computes {
            self.rewrite(table, changed, Some((position, None)))?
        } else {
            if must_not_be_null && self.has_rows(table)? {
                return Err(self.contains_nulls(&changed, position)?);
            }
            self.put_changed(changed, table)?
        };
        for constraint in constraints {
            table = self.add_constraint_to(&table, constraint)?;
        }
        Ok(table)
    }

    fn has_rows(&mut self, table: &Table) -> SqlResult<bool> {
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &table.storage, self.tables.as_of)?;
        let mut scan = self.scan_all(&handle)?;
        Ok(scan.next_row().sql()?.is_some())
    }

    pub(super) fn drop_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        behavior: Behavior,
    ) -> SqlResult<Arc<Table>> {
        let Some(position) = find_column(table, name) else {
            if table::SYSTEM_COLUMNS.contains(&name) {
                let message = format!("cannot drop system column \"{name}\"");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let error = no_such_column(name, table);
            if if_exists {
                self.skip(format!("{}, skipping", error.message));
                return Ok(Arc::clone(table));
            }
            return Err(error);
        };
        self.drop_objects(&[Object::Column(table.oid, column_number(position))], behavior)?;
        self.tables.table(table.oid)
    }

    pub(super) fn rename_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        to: &str,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| {
            let message = format!("column \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if find_column(table, to).is_some() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        table::check_column(to, table.columns[position].of)?;
        if self.view_of(table, Some(position))?.is_some() {
            return Err(SqlError::unsupported("RENAME of a column that a view uses"));
        }
        let mut changed = Table::clone(table);
        to.clone_into(&mut changed.columns[position].name);
        let renamed = |text: &str| expression_text::with_column_renamed(text, name, to);
        for column in &mut changed.columns {
            column.generated = column.generated.as_deref().map(renamed).transpose()?;
        }
        for constraint in &mut changed.constraints {
            if let ConstraintKind::Check(condition) = &mut constraint.kind {
                *condition = renamed(condition)?;
            }
        }
        let indexes: Vec<_> =
            changed.indexes.iter().map(|index| index_renamed(index, &renamed)).collect::<SqlResult<_>>()?;
        changed.indexes = indexes;
        self.put_changed(changed, table)
    }

    /// A view that uses a column of a table, or the table at all.
    pub(super) fn view_of(&mut self, table: &Table, position: Option<usize>) -> SqlResult<Option<String>> {
        let store = self.tables.store;
        let wanted = position.map(column_number);
        for dependent in store.dependents(self.tables.transaction, table.oid)? {
            if wanted.is_some_and(|wanted| wanted != dependent.on_column) {
                continue;
            }
            if let Some(Definition::View(view)) = store.definition(self.tables.transaction, dependent.oid)? {
                return Ok(Some(view.name.clone()));
            }
        }
        Ok(None)
    }

    pub(super) fn set_default(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        default: Option<&Expression>,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        let column = &table.columns[position];
        let relation = &table.name;
        let refuse = |kind: &str, hint: &str| {
            let message = format!("column \"{name}\" of relation \"{relation}\" is {kind} column");
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            Err(if default.is_none() { error.with_hint(hint) } else { error })
        };
        if column.identity.is_some() {
            return refuse("an identity", "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.");
        }
        if column.generated.is_some() {
            return refuse("a generated", "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.");
        }
        let number = column_number(position);
        self.tables.store.remove_dependencies(self.tables.transaction, table.oid, Some(number))?;
        if let Some(default) = default {
            self.note_default(table.oid, position, default)?;
        }
        let mut changed = Table::clone(table);
        changed.columns[position].default = default.map(|default| default.text.clone());
        self.put_changed(changed, table)
    }

    pub(super) fn set_not_null(&mut self, table: &Arc<Table>, name: &str) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        if table.columns[position].is_not_null {
            return Ok(Arc::clone(table));
        }
        self.require_not_null(table, &[position])?;
        self.change_column(table, position, |column| column.is_not_null = true)
    }

    pub(super) fn drop_not_null(&mut self, table: &Arc<Table>, name: &str) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        let column = &table.columns[position];
        if column.identity.is_some() {
            let message = format!("column \"{name}\" of relation \"{}\" is an identity column", table.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let is_it = |key: &IndexKey| matches!(key.what, IndexedValue::Column(column) if column == position);
        if table.indexes.iter().any(|index| index.is_primary && index.keys.iter().any(is_it)) {
            let message = format!("column \"{name}\" is in a primary key");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if !column.is_not_null {
            return Ok(Arc::clone(table));
        }
        self.change_column(table, position, |column| column.is_not_null = false)
    }

    pub(super) fn change_column(
        &mut self,
        table: &Arc<Table>,
        position: usize,
        change: impl FnOnce(&mut Column),
    ) -> SqlResult<Arc<Table>> {
        let mut changed = Table::clone(table);
        change(&mut changed.columns[position]);
        self.put_changed(changed, table)
    }

    pub(super) fn drop_expression(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        if table.columns[position].generated.is_none() {
            let message =
                format!("column \"{name}\" of relation \"{}\" is not a stored generated column", table.name);
            if if_exists {
                self.skip(format!("{message}, skipping"));
                return Ok(Arc::clone(table));
            }
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        self.change_column(table, position, |column| column.generated = None)
    }
}

fn index_renamed(index: &Arc<Index>, renamed: &impl Fn(&str) -> SqlResult<String>) -> SqlResult<Arc<Index>> {
    let mut changed = Index::clone(index);
    changed.predicate = changed.predicate.as_deref().map(renamed).transpose()?;
    for key in &mut changed.keys {
        if let IndexedValue::Expression(text) = &mut key.what {
            *text = renamed(text)?;
        }
    }
    Ok(Arc::new(changed))
}
