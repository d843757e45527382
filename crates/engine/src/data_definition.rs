//! Creating, dropping, renaming and truncating tables: rows of the catalog, written inside a transaction like others.
//!
//! A drop or truncate does not wait for those who write to the table: whoever commits later finds the table changed
//! and is refused. Whoever reads at an older snapshot goes on reading the old rows.

use std::sync::Arc;

use seawall_types::TableId;

use crate::catalog::{self, ObjectRow, OpenObject, Table};
use crate::error::Error;
use crate::transaction::Transaction;

impl Transaction {
    /// Creates an empty table.
    ///
    /// # Errors
    /// `TableExists`, `TableName`, and those of `put`.
    pub fn create_table(&mut self, name: &str) -> Result<Table, Error> {
        let storage = TableId::new(self.engine.objects().draw_id());
        self.create_table_at(name, storage)
    }

    /// Creates a table whose rows are at `storage` already, or will be.
    pub(crate) fn create_table_at(&mut self, name: &str, storage: TableId) -> Result<Table, Error> {
        catalog::check_name(name)?;
        if self.lock_and_read(&catalog::name_key(name))?.is_some() {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        // Its first storage's number: tables made one after another lie side by side, and are cut out as one range.
        let id = storage.get();
        let row = ObjectRow { storage, created: self.engine.clock().wall_micros(), name: name.to_owned() };
        self.write_row(&catalog::name_key(name), Some(&id.to_le_bytes()))?;
        self.write_row(&catalog::object_key(id), Some(&row.encode()))?;
        let object = self.engine.objects().open_uncommitted(id);
        self.touched.define(Arc::clone(&object), Some(storage), 0);
        Ok(Table { name: Arc::from(name), object })
    }

    /// The table of this name, as this transaction sees it.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn table(&mut self, name: &str) -> Result<Table, Error> {
        self.check_usable()?;
        let lsn = self.statement_snapshot()?;
        let row = self.read_row(&catalog::name_key(name), lsn.lsn())?;
        let row = row.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })?;
        let id = catalog::decode_name_row(name, &row)?;
        let object = self.object(id)?;
        Ok(Table { name: Arc::from(name), object })
    }

    /// Drops a table: its rows are gone for everyone who begins after this commits.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of `put`.
    pub fn drop_table(&mut self, name: &str) -> Result<(), Error> {
        let (object, row) = self.lock_object(name)?;
        self.write_row(&catalog::name_key(name), None)?;
        self.write_row(&catalog::object_key(object.id), None)?;
        let given_up = self.give_up(&object, row.storage)?;
        self.touched.define(object, None, given_up);
        Ok(())
    }

    /// Gives a table a new name. Handles to it stay good.
    ///
    /// # Errors
    /// `NoSuchTable`, `TableExists`, `TableName`, and those of `put`.
    pub fn rename_table(&mut self, from: &str, to: &str) -> Result<(), Error> {
        catalog::check_name(to)?;
        let (object, row) = self.lock_object(from)?;
        if self.lock_and_read(&catalog::name_key(to))?.is_some() {
            return Err(Error::TableExists { name: to.to_owned() });
        }
        let renamed = ObjectRow { name: to.to_owned(), ..row };
        self.write_row(&catalog::name_key(from), None)?;
        self.write_row(&catalog::name_key(to), Some(&object.id.to_le_bytes()))?;
        self.write_row(&catalog::object_key(object.id), Some(&renamed.encode()))
    }

    /// Removes all rows of a table, at the cost of a few rows of the catalog.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of `put`.
    pub fn truncate_table(&mut self, name: &str) -> Result<(), Error> {
        let (object, row) = self.lock_object(name)?;
        let storage = TableId::new(self.engine.objects().draw_id());
        let given_up = self.give_up(&object, row.storage)?;
        let truncated = ObjectRow { storage, ..row };
        self.write_row(&catalog::object_key(object.id), Some(&truncated.encode()))?;
        self.touched.define(object, Some(storage), given_up);
        Ok(())
    }

    /// Gives up the object's rows at `storage`, and what this transaction wrote where the object was before; how many
    /// storages that are.
    fn give_up(&mut self, object: &OpenObject, storage: TableId) -> Result<u64, Error> {
        // Another transaction may have truncated the table since this one wrote to it. What was given up before stays so,
        // and with it what is still further back.
        let given_up =
            |place: &TableId| matches!(self.writes.get(&catalog::reclaim_key(*place)), Some(Some(_)));
        let places = self.touched.storages_of(object.id).take_while(|place| !given_up(place));
        let places: Vec<TableId> = places.filter(|place| *place != storage).chain([storage]).collect();
        for place in &places {
            self.write_row(&catalog::reclaim_key(*place), Some(b""))?;
        }
        Ok(u64::try_from(places.len()).expect("a count fits into 64 bits"))
    }

    /// The object, as this transaction has made it or as it is opened.
    fn object(&self, id: u64) -> Result<Arc<OpenObject>, Error> {
        match self.touched.definition_of(id) {
            Some(own) => Ok(Arc::clone(&own.object)),
            None => self.engine.open_object(id),
        }
    }

    fn lock_object(&mut self, name: &str) -> Result<(Arc<OpenObject>, ObjectRow), Error> {
        let no_such_table = || Error::NoSuchTable { name: name.to_owned() };
        let row = self.lock_and_read(&catalog::name_key(name))?.ok_or_else(no_such_table)?;
        let id = catalog::decode_name_row(name, &row)?;
        let row = self.lock_and_read(&catalog::object_key(id))?.ok_or_else(no_such_table)?;
        let row = ObjectRow::decode(id, &row)?;
        let object = self.object(id)?;
        Ok((object, row))
    }

    fn lock_and_read(&mut self, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_usable()?;
        self.engine.check_writable()?;
        self.lock_row_key(row_key)?;
        self.read_newest(row_key)
    }

    fn write_row(&mut self, row_key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.lock_row_key(row_key)?;
        self.writes.write(row_key, value);
        Ok(())
    }
}
