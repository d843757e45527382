//! Bulk loads under way, and those who need their rows in the log.

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{Mutex, MutexGuard};
use seawall_types::TableId;

use rustc_hash::FxHashSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// Storages that are being filled.
    loading: Mutex<FxHashSet<TableId>>,
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

    /// The load has ended, or was given up.
    pub(crate) fn ended(&self, storage: TableId) {
        self.loading.lock().remove(&storage);
    }

    /// One more needs the rows in the log. In the log's critical section.
    pub(crate) fn need_log(&self) {
        self.log_needed_by.fetch_add(1, Ordering::SeqCst);
    }

    /// One who needed them does no longer.
    pub(crate) fn release_log(&self) {
        self.log_needed_by.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether anybody needs them. In the log's critical section.
    pub(crate) fn is_log_needed(&self) -> bool {
        self.log_needed_by.load(Ordering::SeqCst) > 0
    }
}
