//! Bulk loads under way, and the consumers that need their rows in the log.

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{Mutex, MutexGuard};
use seawall_types::{Lsn, TableId};

use rustc_hash::{FxHashMap, FxHashSet};

/// With the first snapshot at which each was scanned.
pub(crate) type PrivateStorages = FxHashMap<TableId, Option<Lsn>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// Storages that are being filled.
    loading: Mutex<FxHashSet<TableId>>,
    /// Storages that only one transaction knows, each with the first snapshot that scanned the rows.
    private: Mutex<PrivateStorages>,
    /// How many need the rows of loads in the log. Changed and read in the log's critical section.
    log_needed_by: AtomicU64,
}

impl Loads {
    /// The storages that are being filled. None begins or ends while this is held.
    pub(crate) fn storages(&self) -> MutexGuard<'_, FxHashSet<TableId>> {
        self.loading.lock()
    }

    pub(crate) fn is_loading(&self, storage: TableId) -> bool {
        self.loading.lock().contains(&storage)
    }

    /// A transaction fills a storage that nobody else knows of, and may have scanned it at a snapshot before.
    pub(crate) fn begun_in_private(&self, storage: TableId, scanned_at: Option<Lsn>) {
        self.loading.lock().insert(storage);
        self.private.lock().insert(storage, scanned_at);
    }

    /// The storage was filled by a transaction that is in doubt.
    pub(crate) fn filled_in_doubt(&self, storage: TableId) {
        self.loading.lock().insert(storage);
    }

    /// Its transaction scans the rows at a snapshot.
    pub(crate) fn scanned_at(&self, storage: TableId, snapshot: Lsn) {
        if let Some(first) = self.private.lock().get_mut(&storage) {
            first.get_or_insert(snapshot);
        }
    }

    /// Others will know the storage, or nobody: memtables keep what comes for snapshots, as of any other.
    pub(crate) fn ceases_to_be_private(&self, storage: TableId) {
        self.private.lock().remove(&storage);
    }

    /// The storages that one transaction alone knows. Earlier snapshots than its first scan never ask memtables for rows that
    /// are there by now.
    pub(crate) fn private(&self) -> PrivateStorages {
        self.private.lock().clone()
    }

    /// The load has ended, or was given up.
    pub(crate) fn ended(&self, storage: TableId) {
        self.private.lock().remove(&storage);
        self.loading.lock().remove(&storage);
    }

    /// Counts one more consumer of logged rows. Called in the log's critical section.
    pub(crate) fn need_log(&self) {
        self.log_needed_by.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one consumer of logged rows less.
    pub(crate) fn release_log(&self) {
        self.log_needed_by.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether anybody needs them. In the log's critical section.
    pub(crate) fn is_log_needed(&self) -> bool {
        self.log_needed_by.load(Ordering::SeqCst) > 0
    }
}
