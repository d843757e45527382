//! `ALTER COLUMN .. ADD GENERATED`, `SET GENERATED`, `DROP IDENTITY`.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::dependents::Object;
use super::requests::{Behavior, SequenceOptions};
use super::{Definer, find_column, no_such_column};
use crate::schema::{Identity, Table};

fn refuse(name: &str, table: &Table, what: &str) -> Box<SqlError> {
    let message = format!("column \"{name}\" of relation \"{}\" {what}", table.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

impl Definer<'_> {
    pub(super) fn add_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        identity: Identity,
        options: &SequenceOptions,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        let column = &table.columns[position];
        super::table::check_counts(column.of.oid)?;
        if !column.is_not_null {
            return Err(refuse(name, table, "must be declared NOT NULL before identity can be added"));
        }
        if column.identity.is_some() {
            return Err(refuse(name, table, "is already an identity column"));
        }
        if column.default.is_some() {
            return Err(refuse(name, table, "already has a default value"));
        }
        let sequence = self.own_sequence(table, position, name, column.of.oid, options.clone())?;
        self.change_column(table, position, |column| {
            column.identity = Some(identity);
            column.sequence = sequence.oid;
        })
    }

    pub(super) fn set_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        identity: Option<Identity>,
        options: &SequenceOptions,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        let column = &table.columns[position];
        if column.identity.is_none() {
            return Err(refuse(name, table, "is not an identity column"));
        }
        if *options != SequenceOptions::default() {
            self.alter_sequence(column.sequence, options)?;
        }
        match identity {
            Some(identity) => self.change_column(table, position, |column| column.identity = Some(identity)),
            None => Ok(Arc::clone(table)),
        }
    }

    pub(super) fn drop_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
    ) -> SqlResult<Arc<Table>> {
        let position = find_column(table, name).ok_or_else(|| no_such_column(name, table))?;
        let column = &table.columns[position];
        if column.identity.is_none() {
            let error = refuse(name, table, "is not an identity column");
            if if_exists {
                self.skip(format!("{}, skipping", error.message));
                return Ok(Arc::clone(table));
            }
            return Err(error);
        }
        let sequence = column.sequence;
        let changed = self.change_column(table, position, |column| {
            column.identity = None;
            column.sequence = 0;
        })?;
        self.drop_objects(&[Object::Relation(sequence)], Behavior::Restrict)?;
        Ok(changed)
    }
}
