//! Counts of merges of runs, for statistics.

use seawall_sync::atomic::{AtomicU64, Ordering};

/// Counted while the database is open. `Relaxed`: each is right on its own, and nothing is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct MergeCounters {
    tier_slices: AtomicU64,
    tier_bytes: AtomicU64,
    windows: AtomicU64,
    window_bytes: AtomicU64,
}

/// Merges of runs since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeCounts {
    pub(crate) tier_slices: u64,
    pub(crate) tier_bytes: u64,
    pub(crate) windows: u64,
    pub(crate) window_bytes: u64,
}

impl MergeCounters {
    /// A slice of a merge of runs with each other was applied, for which so many bytes were written.
    pub(crate) fn count_slice(&self, bytes: u64) {
        self.tier_slices.fetch_add(1, Ordering::Relaxed);
        self.tier_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A window was applied.
    pub(crate) fn count_window(&self, bytes: u64) {
        self.windows.fetch_add(1, Ordering::Relaxed);
        self.window_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> MergeCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MergeCounts {
            tier_slices: load(&self.tier_slices),
            tier_bytes: load(&self.tier_bytes),
            windows: load(&self.windows),
            window_bytes: load(&self.window_bytes),
        }
    }
}
