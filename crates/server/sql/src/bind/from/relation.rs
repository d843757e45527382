//! Relations with a name: tables, views, system relations, sequences.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{ObjectName, TableAlias};

use super::super::expression::{folded, qualified};
use super::super::row_locks::{Lockable, RowLocking};
use super::super::scope::ScopeColumn;
use super::super::{Binder, constant};
use super::FromItem;
use crate::algebra::{Relation, Scan};
use crate::schema::{Definition, SystemRelation, Table, View};

impl Binder<'_> {
    /// The relation with a name: a common table expression, a table, a view, a system relation.
    pub(super) fn named_relation(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let position = self.position(name);
        let (schema, plain) = qualified(name);
        if schema.is_none()
            && let Some((relation, columns)) = self.common_table(&plain, position)?
        {
            let shown = alias.map_or_else(|| plain.clone(), |alias| folded(&alias.name));
            self.locks_of(&shown, Lockable::Other("a WITH query"))?;
            return self.aliased(relation, plain, None, columns, alias, None);
        }
        let (schema, plain, found) = self.named(name)?;
        let shown = alias.map_or_else(|| plain.clone(), |alias| folded(&alias.name));
        let Some(found) = found else {
            return Err(missing_relation(schema.as_deref(), &plain).at(position));
        };
        self.keep_relation(name, &found, alias.is_some());
        let locks = self.locks_of(&shown, Lockable::Rows)?;
        let mut item = match &found {
            Definition::Table(table) => {
                self.check_materialized(table, &locks)?;
                self.table(table, schema, alias)?
            }
            Definition::View(view) => {
                let locks = locks.clone();
                self.with_pushed_locks(locks, |binder| binder.view(view, alias, position))?
            }
            Definition::System(system) => self.system_relation(system, schema, alias)?,
            Definition::Sequence(sequence) => self.sequence(sequence, alias, &locks)?,
            Definition::Index(..) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot open relation \"{plain}\""),
                )
                .with_detail("This operation is not supported for indexes.")
                .at(position));
            }
        };
        if alias.is_none()
            && let Some(first) = item.tables.first_mut()
        {
            // A kept text knows it by the name that it had.
            first.name = plain;
        }
        self.need_select(found);
        self.note_locked(item.tables.first().and_then(|table| table.row), &locks);
        Ok(item)
    }

    /// A materialized view gives its rows once they are there, and nobody locks them.
    fn check_materialized(&self, table: &Table, locks: &[RowLocking]) -> SqlResult<()> {
        let Some(query) = &table.query else { return Ok(()) };
        if !locks.is_empty() {
            let message = format!("cannot lock rows in materialized view \"{}\"", table.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        // A definition may name it before.
        if query.is_populated || self.replaced.is_some() {
            return Ok(());
        }
        let message = format!("materialized view \"{}\" has not been populated", table.name);
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_hint("Use the REFRESH MATERIALIZED VIEW command."))
    }

    /// A relation by its name, where the text that is bound is read with a search path of its own.
    pub(crate) fn find_relation(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> SqlResult<Option<Definition>> {
        if schema.is_none()
            && let Some(path) = self.search_path.clone()
        {
            for schema in &path {
                if let Some(found) = self.definitions.relation(Some(schema), name)? {
                    return Ok(Some(found));
                }
            }
        }
        if let Some(schema) = schema
            && self.search_path.is_none()
        {
            self.definitions.check_may_use(schema)?;
        }
        self.definitions.relation(schema, name)
    }

    pub(super) fn table(
        &mut self,
        table: &Arc<Table>,
        schema: Option<String>,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        self.used.push((table.oid, table.version));
        let (scan, columns, hidden, row) = self.scan(table);
        let mut item = self.aliased(scan, table.name.clone(), schema, columns, alias, Some(table))?;
        if let Some(first) = item.tables.first_mut() {
            first.hidden = hidden;
            first.row = Some(row);
        }
        Ok(item)
    }

    /// A scan of all columns of a table; what is not used is left out later.
    pub(in crate::bind) fn scan(
        &mut self,
        table: &Arc<Table>,
    ) -> (Relation, Vec<ScopeColumn>, Vec<ScopeColumn>, crate::algebra::ColumnId) {
        let mut scanned = Vec::new();
        let mut columns = Vec::new();
        for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
            let id = self.new_column();
            scanned.push((position, id));
            let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
            columns.push(ScopeColumn {
                name: column.name.clone(),
                id,
                of: column.of,
                origin: (table.oid, number),
            });
        }
        let (row, table_oid) = (self.new_column(), self.new_column());
        let hidden = vec![ScopeColumn {
            name: "tableoid".to_owned(),
            id: table_oid,
            of: TypeReference::of(oid::OID),
            origin: (table.oid, -6),
        }];
        let scan =
            Scan { table: Arc::clone(table), columns: scanned, row: Some(row), table_oid: Some(table_oid) };
        (Relation::Scan(scan), columns, hidden, row)
    }

    fn view(
        &mut self,
        view: &Arc<View>,
        alias: Option<&TableAlias>,
        position: Option<u32>,
    ) -> SqlResult<FromItem> {
        let text = crate::parse::Text::new(&view.query);
        let query = crate::parse::query(&text)
            .map_err(|error| SqlError::internal(format!("the text of view \"{}\": {error}", view.name)))?;
        // Its text sees nothing of the query that it is used in.
        let scopes = std::mem::take(&mut self.scopes);
        let tables = std::mem::take(&mut self.common_tables);
        let path = self.search_path.replace(view.search_path.clone());
        let owner = std::mem::replace(&mut self.view_owner, view.checked_as());
        let bound = self.deeper(|binder| binder.subquery(&query));
        self.scopes = scopes;
        self.common_tables = tables;
        self.search_path = path;
        self.view_owner = owner;
        let (relation, output) = bound.map_err(|mut error| {
            // What is wrong with its text as a whole has no place in it, and none here.
            error.position = error.position.and(position);
            error
        })?;
        let columns = output
            .into_iter()
            .zip(&view.columns)
            .enumerate()
            .map(|(index, (column, (name, _)))| ScopeColumn {
                name: name.clone(),
                id: column.column,
                of: column.of,
                origin: (view.oid, i16::try_from(index + 1).unwrap_or(i16::MAX)),
            })
            .collect();
        self.aliased(relation, view.name.clone(), None, columns, alias, None)
    }

    fn system_relation(
        &mut self,
        system: &Arc<SystemRelation>,
        schema: Option<String>,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let mut scanned = Vec::with_capacity(system.columns.len());
        let mut columns = Vec::with_capacity(system.columns.len());
        for (position, (name, of)) in system.columns.iter().enumerate() {
            let id = self.new_column();
            scanned.push((position, id));
            let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
            columns.push(ScopeColumn { name: (*name).to_owned(), id, of: *of, origin: (system.oid, number) });
        }
        let table_oid = self.new_column();
        let relation = Relation::Compute {
            input: Box::new(Relation::System { relation: system.oid, columns: scanned }),
            values: vec![(table_oid, constant(seawall_values::Datum::Oid(system.oid), oid::OID))],
        };
        let mut item = self.aliased(relation, system.name.to_owned(), schema, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.hidden.push(ScopeColumn {
                name: "tableoid".to_owned(),
                id: table_oid,
                of: TypeReference::of(oid::OID),
                origin: (system.oid, -6),
            });
        }
        Ok(item)
    }

    /// A sequence is a relation of one row.
    fn sequence(
        &mut self,
        sequence: &Arc<crate::schema::Sequence>,
        alias: Option<&TableAlias>,
        locks: &[RowLocking],
    ) -> SqlResult<FromItem> {
        let shown = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
        let mut columns = Vec::new();
        let mut scanned = Vec::new();
        for (position, (name, of)) in shown.into_iter().enumerate() {
            let id = self.new_column();
            scanned.push((position, id));
            columns.push(ScopeColumn {
                name: name.to_owned(),
                id,
                of: TypeReference::of(of),
                origin: (sequence.oid, i16::try_from(position + 1).unwrap_or(i16::MAX)),
            });
        }
        if !locks.is_empty() {
            let message = format!("cannot lock rows in sequence \"{}\"", sequence.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let relation = Relation::System { relation: sequence.oid, columns: scanned };
        self.aliased(relation, sequence.name.clone(), None, columns, alias, None)
    }
}

/// `42P01`.
pub(crate) fn missing_relation(schema: Option<&str>, name: &str) -> Box<SqlError> {
    let written = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{written}\" does not exist"))
}
