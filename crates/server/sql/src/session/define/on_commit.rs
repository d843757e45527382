//! `ON COMMIT DELETE ROWS` and `ON COMMIT DROP`: what a commit does to temporary tables of the session.

use std::sync::Arc;

use seawall_engine::Direction;
use seawall_values::{Oid, SqlResult};

use super::super::Session;
use crate::parse::statement::definition::OnCommit;
use crate::schema::define::requests::{Behavior, Truncate};
use crate::schema::{Definition, Table};
use crate::storage::engine_error::EngineResult;

/// The tables of a session that a commit empties or drops.
#[derive(Debug, Default)]
pub(in super::super) struct OnCommitTables {
    tables: Vec<(Oid, OnCommit)>,
}

impl OnCommitTables {
    /// Forgets tables that are gone, once that is committed.
    pub(in super::super) fn forget(&mut self, gone: &[Oid]) {
        self.tables.retain(|(table, _)| !gone.contains(table));
    }
}

impl Session {
    pub(super) fn note_on_commit(&mut self, table: Oid, action: OnCommit) {
        if action != OnCommit::Preserve {
            self.on_commit.tables.push((table, action));
        }
    }

    /// Empties and drops temporary tables before a commit; those that the commit leaves no trace of.
    pub(in super::super) fn run_on_commit(&mut self) -> SqlResult<Vec<Oid>> {
        let mut gone = Vec::new();
        if self.on_commit.tables.is_empty() || self.open.as_ref().is_none_or(|open| open.is_failed) {
            return Ok(gone);
        }
        let (mut emptied, mut dropped) = (Vec::new(), Vec::new());
        let database = Arc::clone(&self.database);
        for (oid, action) in self.on_commit.tables.clone() {
            match database.store.definition(self.engine_transaction()?, oid)? {
                Some(Definition::Table(table)) if action == OnCommit::Drop => {
                    gone.push(oid);
                    dropped.push(table);
                }
                Some(Definition::Table(table)) => {
                    if self.has_rows(&table)? {
                        emptied.push(table);
                    }
                }
                // The table was dropped, or its creation was rolled back.
                _ => gone.push(oid),
            }
        }
        if emptied.is_empty() && dropped.is_empty() {
            return Ok(gone);
        }
        self.open()?.changes_definitions = true;
        self.with_definer(|definer| {
            if let Some(first) = emptied.first() {
                definer.owner = first.owner;
                let tables = emptied.iter().map(|table| table.oid).collect();
                let behavior = Behavior::Restrict;
                definer.truncate(&Truncate { tables, restarts_identity: false, behavior })?;
            }
            definer.drop_at_commit(&dropped)
        })?;
        Ok(gone)
    }

    fn has_rows(&mut self, table: &Table) -> SqlResult<bool> {
        let as_of = self.begin_statement()?;
        let database = Arc::clone(&self.database);
        let transaction = self.engine_transaction()?;
        let handle = database.store.engine_table(transaction, &table.storage, as_of)?;
        let mut scan = transaction.open_scan::<&[u8]>(&handle, .., Direction::Forward).sql()?;
        Ok(scan.next_row().sql()?.is_some())
    }
}
