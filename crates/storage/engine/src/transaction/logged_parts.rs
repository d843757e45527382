//! What a transaction has logged in parts, before it commits; see `parts` and `taken_over`.

use rustc_hash::FxHashMap;
use seawall_types::{Lsn, TableId};

use crate::row_key;

/// What a transaction has logged in parts.
#[derive(Debug, Default)]
pub(crate) struct LoggedParts {
    /// The stamp of the last part of each storage.
    pub(super) storages: FxHashMap<TableId, Lsn>,
    /// Storages with rows of tables that others know, by where they are now.
    pub(super) taken_over: FxHashMap<TableId, TakenOver>,
    /// The snapshot of the first scan of each storage that was scanned before any of it was logged: what is logged later must
    /// not come into its sight.
    pub(super) scanned: FxHashMap<TableId, Lsn>,
    /// The greatest row key that was written to each storage that was empty when a row was first inserted into it.
    pub(super) greatest: FxHashMap<TableId, Vec<u8>>,
    /// Memory of the rows in the write set that a next part may take, about.
    pub(super) unlogged_bytes: u64,
}

impl LoggedParts {
    /// A row is written to the storage that its key names.
    pub(super) fn note_written(&mut self, row_key: &[u8]) {
        if !self.greatest.is_empty()
            && let Some(storage) = row_key::table_of(row_key)
            && let Some(greatest) = self.greatest.get_mut(&storage)
            && row_key > greatest.as_slice()
        {
            greatest.clear();
            greatest.extend_from_slice(row_key);
        }
    }

    /// Whether rows of the storage are in the log.
    pub(crate) fn has(&self, storage: TableId) -> bool {
        !self.storages.is_empty() && self.storages.contains_key(&storage)
    }
}

/// Where the rows of a table were that others know, and the newest commit that was copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenOver {
    pub(super) from: TableId,
    /// Where this transaction had them last.
    pub(super) left: TableId,
    pub(super) copied: Lsn,
}
