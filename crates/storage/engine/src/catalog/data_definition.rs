//! Creating, dropping, renaming and truncating tables: rows of the catalog, written inside a transaction like others.
//!
//! A drop or truncate does not wait for those who write to the table: whoever commits later finds the table changed
//! and is refused. Whoever reads at an older snapshot goes on reading the old rows.

use std::sync::Arc;
use std::time::Duration;

use seawall_types::{Lsn, TableId};

use crate::catalog::{self, NameRow, ObjectRow, OpenObject, ReclaimRow, Table};
use crate::error::Error;
use crate::transaction::lock_mode::LockMode;
use crate::transaction::{Transaction, no_such_table};

/// Memory for the rows of one definition, with their locks.
const DEFINITION_BYTES: u64 = 4 << 10;
/// Longer than a record takes to enter the log.
const LOG_APPEND: Duration = Duration::from_secs(5);

impl Transaction {
    /// Creates an empty table.
    ///
    /// # Errors
    /// `TableExists`, `TableName`, and those of `put`.
    pub fn create_table(&mut self, name: &str) -> Result<Table, Error> {
        let storage = TableId::new(self.engine.objects.draw_id());
        self.create_table_at(name, storage)
    }

    /// Creates a table whose rows are at `storage` already, or will be.
    pub(crate) fn create_table_at(&mut self, name: &str, storage: TableId) -> Result<Table, Error> {
        catalog::check_name(name)?;
        self.take_name(name)?;
        // Its first storage's number: tables made one after another lie side by side, and are cut out as one range.
        let id = storage.get();
        let row = ObjectRow { storage, created: self.engine.clock().wall_micros(), name: name.to_owned() };
        self.write_row(&catalog::name_key(name), Some(&NameRow::Table(id).encode()))?;
        self.write_row(&catalog::object_key(id), Some(&row.encode()))?;
        let object = self.engine.objects.open_uncommitted(id);
        self.touched.define(Arc::clone(&object), Some(storage), 0);
        // Nobody else alters it before this commits, and what is committed later is stamped later.
        Ok(Table { name: Arc::from(name), object, as_of: self.engine.visible() })
    }

    /// The table of this name, as this transaction sees it.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn table(&mut self, name: &str) -> Result<Table, Error> {
        self.check_usable()?;
        let snapshot = self.read_snapshot()?;
        let row = self.read_row(&catalog::name_key(name), snapshot.lsn())?;
        let row = row.map(|row| NameRow::decode(name, &row)).transpose()?;
        let Some(NameRow::Table(id)) = row else {
            return Err(Error::NoSuchTable { name: name.to_owned() });
        };
        let object = match self.touched.definition_of(id) {
            Some(own) => Arc::clone(&own.object),
            None => self.noted(self.engine.open_object(id, Some(&self.session.waits.cancel)))?,
        };
        Ok(Table { name: Arc::from(name), object, as_of: snapshot.lsn() })
    }

    /// Declares that this transaction changes what others must know to write to the table: its columns, constraints or
    /// indexes, which the program keeps in rows of its own. From its commit on, a transaction that has written or locked rows
    /// of the table with what was known before is refused when it commits or prepares (`TableChanged`): what it knew is the
    /// snapshot that its handle is of ([`Table::as_of`]). That goes for this handle, too.
    ///
    /// It does not wait for those who write to the table. Two that alter one table come one after the other.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of `put`. The commit answers `TableInDoubt` if a transaction in doubt uses the table, and
    /// `TableChanged` if another one has altered it since the snapshot of the handle.
    pub fn alter_table(&mut self, table: &Table) -> Result<(), Error> {
        let object_key = catalog::object_key(table.id());
        let row = self.lock_and_read(&object_key)?.ok_or_else(|| no_such_table(table))?;
        // A table that was dropped lately has its row still.
        let storage = self.storage_for_write(table)?;
        // The same row once more: the commit has a record, and whoever has read where the table is validates that.
        self.write_row(&object_key, Some(&row))?;
        self.touched.use_table(table, storage);
        self.touched.alter(&table.object);
        Ok(())
    }

    /// Drops a table: its rows are gone for everyone who begins after this commits.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of `put`.
    pub fn drop_table(&mut self, name: &str) -> Result<(), Error> {
        let (object, row) = self.lock_object(name)?;
        let given_up = self.give_up_elsewhere(&object, row.storage)? + 1;
        let object_key = catalog::object_key(object.id);
        if self.writes.get(&object_key).is_some() {
            // What this transaction made of it would be as new as the drop.
            self.write_row(&object_key, None)?;
        }
        // One row says the rest: see `dropped_tables`.
        let dropped = NameRow::Dropped { object: object.id, storage: row.storage };
        self.write_row(&catalog::name_key(name), Some(&dropped.encode()))?;
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
        self.take_name(to)?;
        let renamed = ObjectRow { name: to.to_owned(), ..row };
        self.write_row(&catalog::name_key(from), None)?;
        self.write_row(&catalog::name_key(to), Some(&NameRow::Table(object.id).encode()))?;
        self.write_row(&catalog::object_key(object.id), Some(&renamed.encode()))
    }

    /// Removes all rows of a table, at the cost of a few rows of the catalog.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of `put`.
    pub fn truncate_table(&mut self, name: &str) -> Result<(), Error> {
        let (object, row) = self.lock_object(name)?;
        let storage = TableId::new(self.engine.objects.draw_id());
        let given_up = self.give_up_elsewhere(&object, row.storage)? + 1;
        self.list_for_reclaim(row.storage, ReclaimRow::Storage)?;
        let truncated = ObjectRow { storage, ..row };
        self.write_row(&catalog::object_key(object.id), Some(&truncated.encode()))?;
        self.touched.define(object, Some(storage), given_up);
        Ok(())
    }

    /// Gives up what this transaction wrote where the object was before it was at `storage`; how many storages that are.
    fn give_up_elsewhere(&mut self, object: &OpenObject, storage: TableId) -> Result<u64, Error> {
        // Another transaction may have truncated the table since this one wrote to it. What was given up before stays so,
        // and with it what is still further back.
        let given_up =
            |place: &TableId| matches!(self.writes.get(&catalog::reclaim_key(*place)), Some(Some(_)));
        let places = self.touched.storages_of(object.id).take_while(|place| !given_up(place));
        let places: Vec<TableId> = places.filter(|place| *place != storage).collect();
        for place in &places {
            self.list_for_reclaim(*place, ReclaimRow::Storage)?;
        }
        Ok(u64::try_from(places.len()).expect("a count fits into 64 bits"))
    }

    fn lock_object(&mut self, name: &str) -> Result<(Arc<OpenObject>, ObjectRow), Error> {
        let no_such_table = || Error::NoSuchTable { name: name.to_owned() };
        let Some(NameRow::Table(id)) = self.lock_name(name)? else { return Err(no_such_table()) };
        let row = self.lock_and_read(&catalog::object_key(id))?.ok_or_else(no_such_table)?;
        let row = ObjectRow::decode(id, &row)?;
        let object = match self.touched.definition_of(id) {
            Some(own) => Arc::clone(&own.object),
            None => self.engine.open_locked_object(id, row.storage),
        };
        Ok((object, row))
    }

    fn lock_name(&mut self, name: &str) -> Result<Option<NameRow>, Error> {
        let row = self.lock_and_read(&catalog::name_key(name))?;
        row.map(|row| NameRow::decode(name, &row)).transpose()
    }

    /// Makes sure that no table has the name, and that one that had it is not forgotten when its row is written over.
    fn take_name(&mut self, name: &str) -> Result<(), Error> {
        match self.lock_name(name)? {
            None => Ok(()),
            Some(NameRow::Table(_)) => Err(Error::TableExists { name: name.to_owned() }),
            Some(NameRow::Dropped { object, storage }) => self.keep_drop(name, object, storage),
        }
    }

    /// Writes down what the name's row says of a dropped table, as that is about to be written over.
    fn keep_drop(&mut self, name: &str, object: u64, storage: TableId) -> Result<(), Error> {
        let name_key = catalog::name_key(name);
        if self.writes.get(&name_key).is_some() {
            // By this transaction, whose stamp the rows get.
            self.write_row(&catalog::object_key(object), None)?;
            return self.list_for_reclaim(storage, ReclaimRow::Storage);
        }
        // Its newest version, as the row is locked. If there is none any more, a checkpoint has written the drop out.
        let Some(dropped) = self.engine.newest_stamp_after(&name_key, Lsn::ZERO) else { return Ok(()) };
        self.list_for_reclaim(storage, ReclaimRow::Object { object, dropped })
    }

    fn list_for_reclaim(&mut self, storage: TableId, row: ReclaimRow) -> Result<(), Error> {
        let key = catalog::reclaim_key(storage);
        // The checkpoint may have listed the storage, or be done with it: that is no conflict. It holds the lock while a
        // record enters the log, which no user has to know of.
        let wait = self.options.lock_wait.at_least(LOG_APPEND);
        self.lock_within(&key, LockMode::AccessExclusive, wait)?;
        self.writes.write(&key, Some(&row.encode()));
        Ok(())
    }

    pub(crate) fn lock_and_read(&mut self, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_usable()?;
        self.engine.lifecycle.check_writable()?;
        // Before the first row is written: a definition is written whole, or not at all.
        self.check_room_for(DEFINITION_BYTES)?;
        self.lock_row_key(row_key)?;
        self.read_newest(row_key)
    }

    fn write_row(&mut self, row_key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.lock_row_key(row_key)?;
        self.writes.write(row_key, value);
        Ok(())
    }
}
