//! Keys that may be there twice for a while: those of deferrable constraints.
//!
//! Whoever enters such a key locks it, so others with the same key come after the end of the transaction. A key that is there already is
//! looked at again at the end of the statement, or of the transaction.

use std::ops::Bound;
use std::sync::Arc;

use seawall_engine::{Direction, RowLock, Table as EngineTable};
use seawall_values::{Oid, SqlError, SqlResult};

use crate::schema::Table;
use crate::storage::engine_error::EngineResult;
use crate::storage::foreign_key::{Event, What};
use crate::storage::scan::before_end_of;
use crate::storage::table_storage::TableStorage;

impl TableStorage<'_> {
    /// A row gets a key that no other row must have in the end.
    pub(super) fn enter_later(
        &mut self,
        table: &Arc<Table>,
        handle: &EngineTable,
        constraint: Oid,
        key: &[u8],
    ) -> SqlResult<()> {
        self.transaction.lock_row(handle, key, self.lock_wait).sql()?;
        if self.holders(handle, key)?.is_empty() {
            return Ok(());
        }
        let known = table.constraints.iter().find(|known| known.oid == constraint);
        self.session.foreign_keys.push(Event {
            table: table.oid,
            constraint,
            is_deferrable: true,
            is_deferred: known.is_some_and(|known| known.is_deferred),
            what: What::Key { key: key.to_vec() },
        });
        Ok(())
    }

    /// Up to two entries that begin with a key.
    fn holders(&mut self, handle: &EngineTable, key: &[u8]) -> SqlResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let bounds = (Bound::Included(key.to_vec()), before_end_of(key.to_vec()));
        let mut scan = self.transaction.open_scan(handle, bounds, Direction::Forward).sql()?;
        let mut found = Vec::new();
        while found.len() < 2
            && let Some((key, value)) = scan.next_row().sql()?
        {
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(found)
    }

    /// `23505` if two rows have the key now.
    pub(super) fn look_at_key(&mut self, table: &Arc<Table>, constraint: Oid, key: &[u8]) -> SqlResult<()> {
        let layout = self.layout(table)?;
        let position = layout.shape.indexes.iter().position(|index| index.deferrable() == Some(constraint));
        let position = position.ok_or_else(|| SqlError::internal("a deferrable key without an index"))?;
        let index = &layout.shape.indexes[position];
        let holders = self.holders(&layout.index_handles[position], key)?;
        let [_, (key, value)] = &holders[..] else { return Ok(()) };
        let identity = index.row_key(key, value)?.to_vec();
        match self.newest(&layout, &identity, RowLock::KeyShare)? {
            Some(row) => Err(self.duplicate(index, table, &row)),
            None => Ok(()),
        }
    }
}
