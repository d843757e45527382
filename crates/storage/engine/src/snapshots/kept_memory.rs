//! Memory that only old snapshots keep, and its limit.
//!
//! ```text
//!   newest first:   memtable being merged     merged memtables
//!                   rows | replaced values    [ 3 ] [ 2 ] [   1   ] [        0        ]
//!                          +------------- at most `memory.snapshot_bytes` ------------+   or a snapshot is cancelled
//! ```
//! Invariants:
//! * A value that a merge replaces in the tree is counted before it is kept. Where it does not fit, the oldest snapshot is
//!   cancelled, and so on until it fits or no snapshot needs it.
//! * Small memtables are packed into one: every row with its newest version, and with those that a registered snapshot
//!   sees. A memtable that follows a smaller one is more than twice as large, so there are few of them, however long a
//!   snapshot lives, and each row is packed a few times. Rows that a transaction has logged in parts are left
//!   out, unless it scans them meanwhile (`transaction::parts`).
//! * Readers see no difference: they keep the memtables of their view, and a view with packed ones is a new view. A
//!   snapshot that was cancelled before the packing meets the floor there (`snapshots`).
//!
//! All of it happens under the turn to change the tree, but for the cancelling by threads of a merge.

use std::sync::Arc;

use seawall_memtable::Memtable;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::checkpoint::merge_source::KeepReplaced;
use crate::engine::Engine;
use crate::row_key;
use crate::runs::filter_memory::within_memory;
use crate::runs::run::Run;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::{Frozen, View};

/// The values that a merge replaces in the tree: the side of [`FrozenRows`](crate::checkpoint::merge_source::FrozenRows) that knows
/// who needs them.
pub(crate) struct ReplacedValues<'e> {
    engine: &'e Engine,
    frozen: &'e Frozen,
    /// All that was kept when the chunk began, less what this merge had kept.
    kept_besides: AtomicU64,
    /// No snapshot needs them: none that is older than the freeze point can come.
    is_over: AtomicBool,
}

impl<'e> ReplacedValues<'e> {
    pub(crate) fn of(engine: &'e Engine, frozen: &'e Frozen) -> ReplacedValues<'e> {
        ReplacedValues { engine, frozen, kept_besides: AtomicU64::new(0), is_over: AtomicBool::new(false) }
    }

    /// Before each chunk: drops what has become needless. Returns the floor of snapshots, and the memtables that were
    /// merged before and are still kept, newest first. They stay until the next look: the caller has the turn to change the tree.
    pub(crate) fn look(&self) -> (Lsn, Vec<Frozen>) {
        self.engine.limit_kept_memory();
        let view = self.engine.view();
        let replaced = self.frozen.replaced_bytes.load(Ordering::Relaxed);
        self.kept_besides.store(view.kept_bytes().saturating_sub(replaced), Ordering::Relaxed);
        self.is_over.store(!self.engine.is_needed(self.frozen), Ordering::Relaxed);
        let older = view.frozen.iter().filter(|other| !Arc::ptr_eq(&other.memtable, &self.frozen.memtable));
        (self.engine.snapshots.floor(), older.cloned().collect())
    }

    /// Cancels snapshots until `bytes` fit, or none needs them.
    #[cold]
    fn make_room(&self, bytes: u64) -> bool {
        let engine = self.engine;
        let limit = engine.options.memory.snapshot_bytes;
        while engine.is_needed(self.frozen) {
            // Memtables that no snapshot needs any more are dropped after the chunk.
            let besides = engine.view().needed_bytes(engine.horizon());
            self.kept_besides.store(besides, Ordering::Relaxed);
            let replaced = self.frozen.replaced_bytes.load(Ordering::Relaxed);
            if besides.saturating_add(replaced).saturating_add(bytes) <= limit {
                return true;
            }
            engine.cancel_oldest_snapshot(self.frozen.end);
        }
        self.is_over.store(true, Ordering::Relaxed);
        false
    }
}

impl KeepReplaced for ReplacedValues<'_> {
    fn is_needed(&self) -> bool {
        // Relaxed: who reads an old value keeps what nobody needs.
        !self.is_over.load(Ordering::Relaxed)
    }

    fn admits(&self, bytes: u64) -> bool {
        let replaced = self.frozen.replaced_bytes.load(Ordering::Relaxed);
        let kept = self.kept_besides.load(Ordering::Relaxed).saturating_add(replaced);
        let fits = kept.saturating_add(bytes) <= self.engine.options.memory.snapshot_bytes;
        let admitted = self.is_needed() && (fits || self.make_room(bytes));
        if admitted {
            self.frozen.replaced_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        admitted
    }
}

/// Whether the memtable has rows that the tree lacks, or that a snapshot from `horizon` on may need.
fn is_needed_at(frozen: &Frozen, horizon: Lsn) -> bool {
    !frozen.merged || (frozen.end > horizon && !frozen.memtable.is_empty())
}

impl Engine {
    /// Whether a snapshot older than the freeze point is alive. One taken after the merge began is not older.
    pub(crate) fn is_needed(&self, frozen: &Frozen) -> bool {
        self.snapshots.oldest().is_some_and(|oldest| oldest < frozen.end)
    }

    /// Takes the merged memtable out of the view, or marks it as kept for old snapshots. Its run comes in its place, in the same step: a
    /// reader has the one or the other.
    pub(crate) fn release(&self, frozen: &Frozen, run: Option<Arc<Run>>) {
        let horizon = self.horizon();
        self.change_view(|view| {
            let all = &mut view.frozen;
            for other in all.iter_mut().filter(|other| Arc::ptr_eq(&other.memtable, &frozen.memtable)) {
                other.merged = true;
            }
            // In one step: a memtable that no snapshot needs is never counted as kept.
            all.retain(|frozen| is_needed_at(frozen, horizon));
            let Some(run) = run else { return };
            let mut runs = view.runs.to_vec();
            let place = if sabotaged(Defect::RunsReadOldestFirst) { runs.len() } else { 0 };
            runs.insert(place, run);
            view.runs = within_memory(runs, self.filter_bytes_max()).into();
        });
        self.share_cache_with_filters();
        self.pack_kept_memtables();
        self.limit_kept_memory();
    }

    /// Drops merged memtables that no snapshot needs any more.
    pub(crate) fn drop_unneeded_memtables(&self) {
        if self.view().frozen.is_empty() {
            return;
        }
        if let Some(_turn) = self.checkpoint_turn.try_take() {
            self.drop_unneeded_memtables_locked();
        }
    }

    fn drop_unneeded_memtables_locked(&self) {
        let horizon = self.horizon();
        if !self.view().frozen.iter().all(|frozen| is_needed_at(frozen, horizon)) {
            self.change_frozen(|all| all.retain(|frozen| is_needed_at(frozen, horizon)));
        }
    }

    /// Cancels snapshots, the oldest first, until what is kept for them takes no more memory than it may.
    fn limit_kept_memory(&self) {
        loop {
            // Each time by the snapshots there are now: one that has just ended must not cost a younger one, which holds
            // nothing back, its life.
            self.drop_unneeded_memtables_locked();
            let view = self.view();
            if view.kept_bytes() <= self.options.memory.snapshot_bytes {
                return;
            }
            let Some(end) = view.kept_end() else { return };
            if !self.cancel_oldest_snapshot(end) {
                return;
            }
        }
    }

    /// Cancels the oldest snapshot if it is older than `end`.
    fn cancel_oldest_snapshot(&self, end: Lsn) -> bool {
        let cancelled = self.snapshots.cancel_oldest_before(end);
        if let Some(lsn) = cancelled {
            let limit = self.options.memory.snapshot_bytes;
            tracing::warn!(%lsn, limit, "a snapshot was cancelled: old snapshots held too much memory");
        }
        cancelled.is_some()
    }

    /// Packs the newest of the kept memtables into one, where that is worth it.
    fn pack_kept_memtables(&self) {
        // Before the view: of storages that are published meanwhile, memtables to come have rows that snapshots see.
        let private = self.loads.private();
        let view = self.view.load_full();
        let Some(first) = view.frozen.iter().position(|frozen| frozen.merged) else { return };
        // While they are packed there are two of each.
        let worth = worth_packing(&view.frozen[first..], self.options.memory.snapshot_bytes / 4);
        let count = if private.is_empty() { worth } else { worth.max(1) };
        let packed = &view.frozen[first..first + count];
        let (Some(newest), Some(oldest)) = (packed.first(), packed.last()) else { return };
        let snapshots = self.snapshots.alive_before(newest.end);
        let sources: Vec<&Memtable> = packed.iter().map(|frozen| &*frozen.memtable).collect();
        let latest = snapshots.last().copied().unwrap_or_default();
        let is_kept = |key: &[u8]| match row_key::table_of(key).and_then(|storage| private.get(&storage)) {
            Some(first_scan) => first_scan.is_some_and(|first| first <= latest),
            None => true,
        };
        let memtable = Arc::new(Memtable::packed_where(&sources, &snapshots, is_kept));
        let together = Frozen { memtable, start: oldest.start, ..newest.clone() };
        self.change_frozen(|all| {
            all.splice(first..first + count, [together.clone()]);
        });
    }

    /// Changes the list of frozen memtables. The caller has the turn to change the tree, so only the freeze, which it makes
    /// itself, could interfere.
    fn change_frozen(&self, change: impl FnOnce(&mut Vec<Frozen>)) {
        self.change_view(|view| change(&mut view.frozen));
    }

    /// As `change_frozen`, with runs.
    pub(crate) fn change_view(&self, change: impl FnOnce(&mut View)) {
        let mut view: View = (*self.view.load_full()).clone();
        change(&mut view);
        self.view.store(Arc::new(view));
    }
}

/// How many of the merged memtables, newest first, are to be packed into one: those that are not more than twice as large
/// as all before them, up to `limit` bytes; a single one if most of it are tables for rows that did not come.
fn worth_packing(kept: &[Frozen], limit: u64) -> usize {
    let Some(first) = kept.first() else { return 0 };
    let memory = |frozen: &Frozen| u64::try_from(frozen.memtable.memory_bytes()).unwrap_or(u64::MAX);
    let mut bytes = memory(first);
    let mut count = 1;
    while let Some(next) = kept.get(count).map(memory)
        && next / 2 <= bytes
        && bytes.saturating_add(next) <= limit
    {
        bytes += next;
        count += 1;
    }
    let is_mostly_tables = first.memtable.table_bytes() > first.memtable.bytes_used() / 2;
    if count > 1 || is_mostly_tables { count } else { 0 }
}
