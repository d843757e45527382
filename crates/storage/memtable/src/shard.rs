//! Arenas and counters dealt out to threads, so that two writers rarely share a cache line.

use seawall_sync::atomic::{AtomicUsize, Ordering};

use crate::arena::Arena;

const SHARD_COUNT: usize = 8;

/// One arena and one set of counters for every eighth thread.
pub(crate) struct Shards {
    shards: [Shard; SHARD_COUNT],
}

/// What a thread uses when it inserts. Aligned so that neighbours are never on the same pair of cache lines.
#[repr(align(128))]
pub(crate) struct Shard {
    arena: Arena,
    row_count: AtomicUsize,
    extra_version_count: AtomicUsize,
}

impl Shards {
    pub(crate) fn new() -> Shards {
        let shard = || Shard {
            arena: Arena::new(),
            row_count: AtomicUsize::new(0),
            extra_version_count: AtomicUsize::new(0),
        };
        Shards { shards: std::array::from_fn(|_| shard()) }
    }

    /// The shard of the calling thread.
    pub(crate) fn mine(&self) -> &Shard {
        &self.shards[shard_index()]
    }

    /// Rows inserted.
    pub(crate) fn row_count(&self) -> usize {
        // Relaxed, as all counters here: a count orders nothing.
        self.shards.iter().map(|shard| shard.row_count.load(Ordering::Relaxed)).sum()
    }

    /// Versions beyond the first of each row.
    pub(crate) fn extra_version_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.extra_version_count.load(Ordering::Relaxed)).sum()
    }

    /// Bytes of all arenas.
    pub(crate) fn bytes_used(&self) -> usize {
        self.shards.iter().map(|shard| shard.arena.bytes_used()).sum()
    }
}

impl Shard {
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn count_rows(&self, rows: usize) {
        self.row_count.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn count_extra_version(&self) {
        self.extra_version_count.fetch_add(1, Ordering::Relaxed);
    }
}

fn shard_index() -> usize {
    seawall_sync::thread_number() % SHARD_COUNT
}
