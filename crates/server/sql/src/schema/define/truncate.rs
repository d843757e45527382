//! `TRUNCATE`.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::requests::{Behavior, Truncate};
use crate::catalog::numbers::PG_CLASS;
use crate::schema::privilege::{ObjectKind, Privileges};
use crate::schema::{Sequence, Table};
use crate::storage::engine_error::EngineResult;

impl Definer<'_> {
    /// `TRUNCATE`.
    ///
    /// # Errors
    /// `0A000`: another table refers to one of them; `55006`, `42501`.
    pub fn truncate(&mut self, request: &Truncate) -> SqlResult<()> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for oid in &request.tables {
            if !tables.iter().any(|table| table.oid == *oid) {
                tables.push(self.table_to_change(*oid)?);
            }
        }
        let mut next = 0;
        while let Some(table) = tables.get(next).cloned() {
            for other in self.referring_tables(&table)? {
                if tables.iter().any(|table| table.oid == other) {
                    continue;
                }
                let other = self.table_to_change(other)?;
                if request.behavior == Behavior::Restrict {
                    return Err(is_referred_to(&table, &other));
                }
                self.skip(format!("truncate cascades to table \"{}\"", other.name));
                tables.push(other);
            }
            next += 1;
        }
        for table in &tables {
            let (place, refused) = ((table.oid, PG_CLASS, 0), format!("table {}", table.name));
            let wanted = Privileges::TRUNCATE;
            self.require_privilege(ObjectKind::Table, place, table.owner, wanted, &refused)?;
            self.check_no_events(table, "TRUNCATE")?;
            self.truncate_storage(table)?;
            if request.restarts_identity {
                self.restart_sequences(table)?;
            }
        }
        Ok(())
    }

    /// Other tables with foreign keys to a table.
    fn referring_tables(&mut self, table: &Table) -> SqlResult<Vec<Oid>> {
        let store = self.tables.store;
        let mut found = Vec::new();
        for dependent in store.dependents(self.tables.transaction, table.oid)? {
            if let Some(other) = store.table_of_constraint(self.tables.transaction, dependent.oid)?
                && other != table.oid
                && !found.contains(&other)
            {
                found.push(other);
            }
        }
        Ok(found)
    }

    pub(super) fn truncate_storage(&mut self, table: &Table) -> SqlResult<()> {
        self.tables.transaction.truncate_table(&table.storage).sql()?;
        for storage in table.indexes.iter().filter_map(|index| index.storage.as_ref()) {
            self.tables.transaction.truncate_table(storage).sql()?;
        }
        Ok(())
    }

    fn restart_sequences(&mut self, table: &Table) -> SqlResult<()> {
        for column in table.columns.iter().filter(|column| column.sequence != 0) {
            let old = self.sequence_to_change(column.sequence)?;
            let mut sequence = Sequence::clone(&old);
            let start = sequence.start;
            self.restart(&mut sequence, start)?;
            self.tables.store.put_sequence(self.tables.transaction, sequence, Some(&old))?;
        }
        Ok(())
    }
}

fn is_referred_to(table: &Table, by: &Table) -> Box<SqlError> {
    let (name, by) = (&table.name, &by.name);
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "cannot truncate a table referenced in a foreign key constraint",
    )
    .with_detail(format!("Table \"{by}\" references \"{name}\"."))
    .with_hint(format!("Truncate table \"{by}\" at the same time, or use TRUNCATE ... CASCADE."))
}
