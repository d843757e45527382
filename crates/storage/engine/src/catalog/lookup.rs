//! Tables and their names, found in the rows of the catalog at a snapshot.

use std::sync::Arc;

use seawall_sync::CancelToken;
use seawall_types::{Lsn, TableId};

use crate::catalog::{self, NameRow, ObjectRow, OpenObject, Table};
use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// The object with this id, told where its rows are now.
    pub(crate) fn open_object(
        &self,
        id: u64,
        cancel: Option<&CancelToken>,
    ) -> Result<Arc<OpenObject>, Error> {
        let object = self.objects.open(id);
        if object.is_known() {
            return Ok(object);
        }
        // Whatever was logged of the object before it was entered has to be visible in the rows that are read now. Not more:
        // to wait for all that was logged would be to wait for others' flushes.
        self.queue.wait_applied();
        self.wait_row_visible(&catalog::object_key(id), cancel)?;
        let row = self.with_current_snapshot(|lsn| self.undecided_object_row(id, lsn))?;
        if let Some(row) = row {
            self.wait_row_visible(&catalog::name_key(&row.name), cancel)?;
        }
        let storage = self.with_current_snapshot(|lsn| {
            let storage = self.object_row(id, lsn)?.map(|row| row.storage);
            object.learn(storage, lsn);
            Ok::<_, Error>(storage)
        });
        storage.map(|_| object)
    }

    /// As `open_object`, by one who holds the locks of the object's rows and has read there that its rows are at `storage`.
    pub(crate) fn open_locked_object(&self, id: u64, storage: TableId) -> Arc<OpenObject> {
        let object = self.objects.open(id);
        if !object.is_known() {
            object.learn(Some(storage), self.visible());
        }
        object
    }

    fn wait_row_visible(&self, row_key: &[u8], cancel: Option<&CancelToken>) -> Result<(), Error> {
        let Some(stamp) = self.newest_stamp_after(row_key, self.visible()) else { return Ok(()) };
        match self.require_visible(stamp, cancel) {
            // What is visible can be read for as long as the process lives.
            Err(Error::Stopped { .. }) => Ok(()),
            waited => waited,
        }
    }

    /// The row of an object that may have been dropped.
    fn undecided_object_row(&self, id: u64, snapshot: Lsn) -> Result<Option<ObjectRow>, Error> {
        let row = self.read_row(&catalog::object_key(id), snapshot, |row| row.map(<[u8]>::to_vec))?;
        row.map(|row| ObjectRow::decode(id, &row)).transpose()
    }

    fn object_row(&self, id: u64, snapshot: Lsn) -> Result<Option<ObjectRow>, Error> {
        let Some(row) = self.undecided_object_row(id, snapshot)? else { return Ok(None) };
        // Of a table that was dropped lately the name tells, and the row is still there: see `dropped_tables`.
        let named = self.object_named(&row.name, snapshot)?;
        Ok((named == Some(id)).then_some(row))
    }

    /// The object that has a name, for a snapshot.
    pub(crate) fn object_named(&self, name: &str, snapshot: Lsn) -> Result<Option<u64>, Error> {
        let decode = |row: &[u8]| NameRow::decode(name, row);
        let row = self.read_row(&catalog::name_key(name), snapshot, |row| row.map(decode).transpose())??;
        Ok(match row {
            Some(NameRow::Table(object)) => Some(object),
            Some(NameRow::Dropped { .. }) | None => None,
        })
    }

    /// The name of an object now; `None` if it is dropped.
    pub(crate) fn name_of_object(&self, id: u64) -> Result<Option<String>, Error> {
        self.with_current_snapshot(|lsn| Ok(self.object_row(id, lsn)?.map(|row| row.name)))
    }

    /// Where a snapshot finds the rows of a table, by the catalog.
    pub(crate) fn storage_in_catalog(&self, table: &Table, snapshot: Lsn) -> Result<Option<TableId>, Error> {
        Ok(self.object_row(table.object.id, snapshot)?.map(|row| row.storage))
    }
}
