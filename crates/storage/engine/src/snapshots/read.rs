//! Reading one row at a snapshot: memtables from the newest down, then the tree.
//!
//! The tree changes while readers read. A reader notes the tree's version before it looks through the memtables and
//! lets the tree answer only at that version; otherwise it starts over. So between the two looks no merge moved a
//! row from where the reader has not looked yet to where it has looked already.

use seawall_memtable::Lookup;
use seawall_types::Lsn;

use crate::catalog::Table;
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;

impl Engine {
    /// Lets `read` look at the row that a registered snapshot sees.
    pub(crate) fn read_row<R>(
        &self,
        row_key: &[u8],
        snapshot: Lsn,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let mut read = Some(read);
        let mut take = || read.take().expect("a row is read once");
        loop {
            let version = self.tree.version();
            let view = self.view();
            self.check_snapshot(snapshot)?;
            match view.lookup(row_key, snapshot) {
                Lookup::Value(value) => return Ok(take()(Some(value))),
                Lookup::Deleted => return Ok(take()(None)),
                Lookup::Missing => {}
            }
            let found = self.tree.get_at(version, row_key, |value| take()(value));
            if let Some(result) = found.map_err(|error| Error::tree(&error))? {
                return Ok(result);
            }
        }
    }

    /// Reads the row `key` of `table` at a registered snapshot.
    pub(crate) fn read_table_row<R>(
        &self,
        table: &Table,
        key: &[u8],
        lsn: Lsn,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let storage = self.storage_at(table, lsn)?;
        const STACK_BYTES: usize = 64;
        if key.len() <= STACK_BYTES - row_key::TABLE_BYTES {
            // Most keys are short: no allocation to look one up.
            let mut row_key = [0; STACK_BYTES];
            let length = row_key::TABLE_BYTES + key.len();
            row_key[..row_key::TABLE_BYTES].copy_from_slice(&storage.get().to_be_bytes());
            row_key[row_key::TABLE_BYTES..length].copy_from_slice(key);
            self.read_row(&row_key[..length], lsn, read)
        } else {
            self.read_row(&row_key::encode(storage, key), lsn, read)
        }
    }
}
