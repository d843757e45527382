//! `REFRESH MATERIALIZED VIEW`.

use std::sync::Arc;

use seawall_values::{Oid, SqlResult};

use super::Definer;
use crate::schema::{Definition, MaterializedQuery, Table};

impl Definer<'_> {
    /// Takes the rows out of a materialized view, which has those of a new run of its query from now on, or (`is_populated`) none.
    ///
    /// # Errors
    /// What the engine says.
    pub fn begin_refresh(&mut self, view: &Arc<Table>, is_populated: bool) -> SqlResult<Arc<Table>> {
        let old = self.table_to_change(view.oid)?;
        self.truncate_storage(&old)?;
        let query = old.query.as_ref().map(|query| MaterializedQuery { is_populated, ..query.clone() });
        self.put_changed(Table { query, ..Table::clone(&old) }, &old)
    }

    /// `42501` unless the asker owns a relation.
    ///
    /// # Errors
    /// `42501`.
    pub fn require_owner_of(&mut self, definition: &Definition) -> SqlResult<()> {
        self.require_owner(definition)
    }

    /// Schema and name of a table.
    ///
    /// # Errors
    /// What the engine says.
    pub fn full_name(&mut self, table: &Table) -> SqlResult<String> {
        let schema = self.tables.store.namespace_name(self.tables.transaction, table.namespace)?;
        Ok(format!("{schema}.{}", table.name))
    }

    /// Notes what a view depends on: objects, or columns of them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn note_uses(&mut self, view: Oid, uses: &[(Oid, u16)]) -> SqlResult<()> {
        for (on, column) in uses.iter().copied() {
            self.hold_type(on)?;
            if crate::catalog::relation(on).is_none() {
                self.tables.store.put_dependency(self.tables.transaction, (view, 0), (on, column))?;
            }
        }
        Ok(())
    }
}
