//! The tables of a database: the list, and operations on whole tables.

use super::Database;
use crate::bulk_load::BulkLoad;
use crate::catalog::{self, ObjectRow};
use crate::error::Error;
use crate::snapshots::scan::{Direction, Range, row_bounds};

/// A table as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// Number, which no other table ever had or will have.
    pub id: u64,
    /// Number under which its rows lie now, in the log and in the tree; a truncate gives it a new one.
    pub storage: u64,
    /// When it was created, in microseconds since 1970.
    pub created_micros: i64,
}

/// The administration of tables: see [`Database::tables`]. A [`Transaction`](crate::Transaction) can do the same together with
/// other changes.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    database: &'a Database,
}

impl<'a> Tables<'a> {
    pub(super) fn new(database: &'a Database) -> Tables<'a> {
        Tables { database }
    }

    /// All tables, by name.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn list(&self) -> Result<Vec<TableInfo>, Error> {
        let Database { engine, session } = self.database;
        let engine = &engine.0;
        engine.lifecycle.check_open()?;
        let snapshot = engine.register_snapshot_for(session)?;
        let dropped = engine.dropped_lately(&snapshot)?;
        let (from, to) = row_bounds::<&[u8]>(catalog::OBJECTS, &..);
        let mut rows = Range::new(engine, snapshot, None, from, to, Direction::Forward);
        let mut tables = Vec::new();
        while let Some((key, value)) = rows.next_row()? {
            let id = key.try_into().map(u64::from_be_bytes).map_err(|_| Error::Catalog {
                place: format!("key {key:02x?}"),
                problem: "the key is not 8 bytes long",
            })?;
            if dropped.contains(&id) {
                continue;
            }
            let row = ObjectRow::decode(id, value)?;
            tables.push(TableInfo {
                name: row.name,
                id,
                storage: row.storage.get(),
                created_micros: row.created,
            });
        }
        tables.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(tables)
    }

    /// Drops a table, in a transaction of its own. Takes the same time whatever the size of the table.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of a commit.
    pub fn drop(&self, name: &str) -> Result<(), Error> {
        self.database.define(|transaction| transaction.drop_table(name))
    }

    /// Renames a table, in a transaction of its own.
    ///
    /// # Errors
    /// `NoSuchTable`, `TableExists`, `TableName`, and those of a commit.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.database.define(|transaction| transaction.rename_table(from, to))
    }

    /// Removes all rows of a table, in a transaction of its own. Takes the same time whatever the size of the table.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of a commit.
    pub fn truncate(&self, name: &str) -> Result<(), Error> {
        self.database.define(|transaction| transaction.truncate_table(name))
    }

    /// Loads many rows into a new table, past the log: see [`BulkLoad`].
    ///
    /// # Errors
    /// `TableExists`, `TableName`, and those of a commit.
    pub fn bulk_load(&self, name: &str) -> Result<BulkLoad, Error> {
        let engine = self.database.engine();
        engine.wait_for_session(&self.database.session)?;
        BulkLoad::begin(engine, name)
    }
}
