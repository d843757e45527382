//! Reads of single rows that borrow nothing. A scan of an index gives keys, and a [`Reader`] beside it reads their rows.

use std::sync::Arc;

use seawall_sync::atomic::AtomicBool;
use seawall_types::TableId;

use crate::catalog::Table;
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::scan::{OwnRows, note_lost_snapshot};
use crate::transaction::Transaction;

/// Reads rows of a table by their keys, as they were when the reader was opened. Made by [`Transaction::open_reader`].
pub struct Reader {
    engine: Arc<Engine>,
    snapshot: RegisteredSnapshot,
    storage: TableId,
    own: Option<OwnRows>,
    lost_snapshot: Arc<AtomicBool>,
    row_key: Vec<u8>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lsn = self.snapshot.lsn();
        formatter
            .debug_struct("Reader")
            .field("storage", &self.storage)
            .field("lsn", &lsn)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// Opens a reader of single rows of `table` that borrows nothing: the reader can go to another thread while the transaction
    /// continues. It shows what `get` would show now, and nothing that this transaction writes later.
    ///
    /// What the transaction has written is shared with the reader, and copied only if the transaction writes while the reader is
    /// there; it counts once more as memory of open transactions until then. Under `Serializable` all of the table counts as read.
    ///
    /// # Errors
    /// As `open_scan`.
    pub fn open_reader(&mut self, table: &Table) -> Result<Reader, Error> {
        let (snapshot, from, to) = self.begin_scan::<&[u8]>(table, ..)?;
        let storage = self.storage_for_read(table, snapshot.lsn())?;
        let own = self.share_own_rows(&from, &to)?;
        let lost_snapshot = Arc::clone(self.scan_lost_snapshot.get_or_insert_default());
        let engine = Arc::clone(&self.engine);
        Ok(Reader { engine, snapshot, storage, own, lost_snapshot, row_key: Vec::new() })
    }
}

impl Reader {
    /// The rows with these keys are soon read: what has to be read from disk for them is read together. A hint; of more than 64 keys the
    /// first are meant.
    pub fn will_read<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        if self.engine.lifecycle.check_open().is_err() {
            return;
        }
        let is_own = |key: &[u8]| {
            let own = self.own.as_ref();
            own.is_some_and(|own| own.get(&row_key::encode(self.storage, key)).is_some())
        };
        let keys = keys.into_iter().filter(|key| !is_own(key));
        self.engine.will_read(self.storage, keys, self.snapshot.lsn());
    }

    /// Calls `read` with the value of the row `key`; `None`: there is no such row.
    ///
    /// # Errors
    /// `SnapshotCancelled`, `Closed`, or damage met on the way.
    pub fn get_with<R>(
        &mut self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        row_key::encode_into(&mut self.row_key, self.storage, key.as_ref());
        if let Some(written) = self.own.as_ref().and_then(|own| own.get(&self.row_key)) {
            return Ok(read(written));
        }
        self.engine.lifecycle.check_open()?;
        let found = self.engine.read_row(&self.row_key, self.snapshot.lsn(), read);
        found.inspect_err(|error| note_lost_snapshot(&self.lost_snapshot, error))
    }
}
