//! `CREATE MATERIALIZED VIEW` and `REFRESH MATERIALIZED VIEW`: a table that keeps the rows of its query.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::super::Session;
use super::super::privileges::uses;
use crate::parse::statement::definition::{CreateMaterializedView, RefreshMaterializedView};
use crate::parse::{Dml, Text};
use crate::schema::define::requests::{NewColumn, NewTable};
use crate::schema::{Definition, MaterializedQuery, Table};
use crate::storage::table_lock::TableLockMode;

impl Session {
    pub(super) fn create_materialized_view(&mut self, create: &CreateMaterializedView) -> SqlResult<String> {
        let Dml::Query(query) = &create.query else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a view is made of a query"));
        };
        self.begin_statement()?;
        let (bound, needed, replaced, used) = self.bind_with(&create.text, &[], |binder| {
            binder.has_parameters = false;
            binder.replaced = Some(Vec::new());
            let bound = binder.query(query)?;
            let mut used = std::mem::take(&mut binder.used_types);
            used.extend(binder.take_called());
            Ok((bound, binder.take_needed(), binder.replaced.take().unwrap_or_default(), used))
        })?;
        self.check_privileges(&needed)?;
        if create.columns.len() > bound.output.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let named = |(index, column): (usize, &crate::algebra::OutputColumn)| {
            let of = if column.of.oid == oid::UNKNOWN { TypeReference::of(oid::TEXT) } else { column.of };
            NewColumn::plain(create.columns.get(index).unwrap_or(&column.name).clone(), of)
        };
        let columns = bound.output.iter().enumerate().map(named).collect();
        let namespace = self.namespace_of_new(&create.name, false)?;
        let query = MaterializedQuery {
            // Columns that tables get later are not the view's, nor are other objects that get the names of its own.
            text: create.text.with_replaced(replaced),
            search_path: self.names_of_path()?,
            is_populated: create.with_data,
        };
        let request = NewTable {
            name: create.name.name.clone(),
            namespace,
            is_temporary: false,
            if_not_exists: create.if_not_exists,
            columns,
            constraints: Vec::new(),
            options: create.options.clone(),
            query: Some(query),
        };
        let mut on = uses(&needed);
        on.extend(used.into_iter().map(|of| (of, 0)));
        let made = self.with_definer(|definer| {
            let Some(table) = definer.create_table(request)? else { return Ok(None) };
            definer.note_uses(table.oid, &on)?;
            Ok(Some(table))
        })?;
        match made {
            Some(table) if create.with_data => {
                Ok(format!("SELECT {}", self.fill(&table, bound, Vec::new())?))
            }
            _ => Ok("CREATE MATERIALIZED VIEW".to_owned()),
        }
    }

    /// The schemas where names are looked up, by their names.
    pub(super) fn names_of_path(&mut self) -> SqlResult<Vec<String>> {
        let path = self.search_path()?;
        let database = Arc::clone(&self.database);
        let mut names = Vec::with_capacity(path.namespaces.len());
        for namespace in path.namespaces {
            names.push(database.store.namespace_name(self.engine_transaction()?, namespace)?);
        }
        Ok(names)
    }

    pub(super) fn refresh_materialized_view(&mut self, refresh: &RefreshMaterializedView) -> SqlResult<()> {
        let view = self.view_to_refresh(refresh)?;
        if refresh.is_concurrent {
            check_concurrent(&view, &self.with_definer(|definer| definer.full_name(&view))?)?;
            self.lock_to_refresh(&view)?;
            self.empty(&view)?;
            return self.refill(&view);
        }
        let view = self.with_definer(|definer| definer.begin_refresh(&view, refresh.with_data))?;
        match refresh.with_data {
            true => self.refill(&view),
            false => Ok(()),
        }
    }

    fn view_to_refresh(&mut self, refresh: &RefreshMaterializedView) -> SqlResult<Arc<Table>> {
        let name = &refresh.name.name;
        let definition = self.named_relation(&refresh.name)?;
        let Definition::Table(table) = &definition else {
            let message = format!("\"{name}\" is not a table or materialized view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        self.with_definer(|definer| definer.require_owner_of(&definition))?;
        let Some(query) = &table.query else {
            let message = format!("\"{name}\" is not a materialized view");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        if refresh.is_concurrent && !query.is_populated {
            let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if refresh.is_concurrent && !refresh.with_data {
            let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(Arc::clone(table))
    }

    /// Runs the query of a view, as its owner, and puts the rows into it.
    fn refill(&mut self, view: &Arc<Table>) -> SqlResult<()> {
        let (query, needed) = self.bind_with(&Text::new(""), &[], |binder| {
            let query = binder.materialized(view)?;
            Ok((query, binder.take_needed()))
        })?;
        self.check_privileges(&needed)?;
        self.fill(view, query, Vec::<Datum>::new()).map(drop)
    }

    /// One refresh at a time; those who read go on.
    fn lock_to_refresh(&mut self, view: &Arc<Table>) -> SqlResult<()> {
        let lock_wait = self.lock_wait();
        let as_of = self.begin_statement()?;
        self.with_tables(as_of, |tables| tables.lock_table(view, TableLockMode::Exclusive, lock_wait))
    }

    /// Deletes all rows: those who read at the same time see them until the commit.
    fn empty(&mut self, view: &Arc<Table>) -> SqlResult<()> {
        let query = self.bind_with(&Text::new(""), &[], |binder| Ok(binder.emptied(view)))?;
        self.run_change(&query, Vec::new()).map(drop)
    }
}

/// `55000` unless a unique index tells the rows of a view apart.
fn check_concurrent(view: &Table, shown: &str) -> SqlResult<()> {
    let tells_apart = |index: &Arc<crate::schema::Index>| {
        let is_column =
            |key: &crate::schema::IndexKey| matches!(key.what, crate::schema::IndexedValue::Column(_));
        index.is_unique && index.predicate.is_none() && index.keys.iter().all(is_column)
    };
    if view.indexes.iter().any(tells_apart) {
        return Ok(());
    }
    let message = format!("cannot refresh materialized view \"{shown}\" concurrently");
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(
        "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
    ))
}
