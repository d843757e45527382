//! The memtables and runs that a reader searches before the main part of the tree.
//!
//! ```text
//!   active        commits since the last freeze
//!   frozen[0]     the newest frozen one: being merged into the tree, or merged and kept for an old snapshot
//!   frozen[1]     ...
//!   runs          the newest first: see `runs`
//!   tree          its main part
//! ```
//! Reads go from top to bottom and stop at the first that knows the row. A frozen memtable that is merged stays while
//! a snapshot older than its end is alive: behind the versions of each row it holds the value that the merge
//! replaced in the tree (its base, see `merge_source`), because the tree shows that snapshot too new a row.

use std::sync::Arc;

use seawall_memtable::{Lookup, Memtable};
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::in_doubt::epoch::PreparedEpoch;
use crate::runs::run::{Run, Runs};
use crate::sabotage::{Defect, sabotaged};

/// A memtable that takes no more commits.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) memtable: Arc<Memtable>,
    /// Every commit in it is stamped later than this.
    pub(crate) start: Lsn,
    /// The freeze point: every commit in it is stamped at most this.
    pub(crate) end: Lsn,
    /// Rows logged up to its end, by the count of `CommitQueue`.
    pub(crate) logged_rows: u64,
    /// Bytes of page images appended to the log up to its end, by the count of `Engine::image_log_bytes`.
    pub(crate) logged_images: u64,
    /// What changed among in-doubt transactions meanwhile; its rows are in the memtable.
    pub(crate) prepared: Arc<PreparedEpoch>,
    /// Bytes of what its merge has replaced in the tree and keeps in it, for old snapshots.
    pub(crate) replaced_bytes: Arc<AtomicU64>,
    /// The tree holds all of it.
    pub(crate) merged: bool,
}

impl Frozen {
    /// Bytes of it that are kept for old snapshots only.
    fn kept_bytes(&self) -> u64 {
        if self.merged {
            u64::try_from(self.memtable.memory_bytes()).unwrap_or(u64::MAX)
        } else {
            // Relaxed: a count, which orders nothing.
            self.replaced_bytes.load(Ordering::Relaxed)
        }
    }
}

/// See the module.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Every commit in the active memtable is stamped later than this.
    pub(crate) active_start: Lsn,
    /// Bytes of page images appended to the log before.
    pub(crate) images_before: u64,
    /// What changed among in-doubt transactions since then.
    pub(crate) prepared: Arc<PreparedEpoch>,
    /// The floor of snapshots when the active memtable was made: see `snapshots`.
    pub(crate) snapshot_floor: Lsn,
    /// Newest first.
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) runs: Runs,
}

impl std::fmt::Debug for View {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("View")
            .field("rows", &self.active.row_count())
            .field("frozen", &self.frozen.len())
            .field("runs", &self.runs.len())
            .finish()
    }
}

impl View {
    /// The memtables that a snapshot has to look through, newest first.
    pub(crate) fn memtables(&self, snapshot: Lsn) -> impl Iterator<Item = &Arc<Memtable>> {
        let needed = move |frozen: &&Frozen| !frozen.merged || snapshot < frozen.end;
        std::iter::once(&self.active).chain(self.frozen.iter().filter(needed).map(|frozen| &frozen.memtable))
    }

    /// The runs that a snapshot has to look through, newest first. Of the others it has the memtables.
    pub(crate) fn runs(&self, snapshot: Lsn) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.iter().filter(move |run| run.end() <= snapshot || sabotaged(Defect::RunReadByOlderSnapshot))
    }

    /// The newest version of the row that the snapshot sees in a memtable; `Missing` sends the reader to the runs and the tree.
    pub(crate) fn lookup(&self, row_key: &[u8], snapshot: Lsn) -> Lookup<'_> {
        for memtable in self.memtables(snapshot) {
            match memtable.get(row_key, snapshot) {
                Lookup::Missing => {}
                found => return found,
            }
        }
        Lookup::Missing
    }

    /// Stamp of the newest version of the row here, visible or not, if it is later than `since`. Memtables that end before
    /// are not asked.
    pub(crate) fn newest_stamp_after(&self, row_key: &[u8], since: Lsn) -> Option<Lsn> {
        let later = self.frozen.iter().filter(|frozen| frozen.end > since).map(|frozen| &frozen.memtable);
        let mut memtables = std::iter::once(&self.active).chain(later);
        memtables.find_map(|memtable| memtable.newest_stamp(row_key)).filter(|newest| *newest > since)
    }

    /// Whether nothing was changed since the last freeze.
    pub(crate) fn is_active_empty(&self) -> bool {
        self.active.is_empty() && self.prepared.is_empty()
    }

    /// The frozen memtable that is not merged yet.
    pub(crate) fn unmerged(&self) -> Option<&Frozen> {
        self.frozen.iter().find(|frozen| !frozen.merged)
    }

    /// Bytes that are kept for old snapshots only: memtables that were merged, and what the merge of another has replaced
    /// so far.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.frozen.iter().map(Frozen::kept_bytes).sum()
    }

    /// As `kept_bytes`, of the memtables that were merged and that snapshots below `horizon` need.
    pub(crate) fn needed_bytes(&self, horizon: Lsn) -> u64 {
        let needed = self.frozen.iter().filter(|frozen| frozen.merged && frozen.end > horizon);
        needed.map(Frozen::kept_bytes).sum()
    }

    /// The latest end of the memtables with what is kept: no snapshot from there on needs any of it.
    pub(crate) fn kept_end(&self) -> Option<Lsn> {
        self.frozen.iter().filter(|frozen| frozen.kept_bytes() > 0).map(|frozen| frozen.end).max()
    }

    /// Bytes of all memtables, and of what was prepared meanwhile.
    pub(crate) fn bytes(&self) -> u64 {
        let frozen: usize = self.frozen.iter().map(|frozen| frozen.memtable.bytes_used()).sum();
        let prepared: u64 = self.frozen.iter().map(|frozen| frozen.prepared.bytes()).sum();
        let rows = u64::try_from(self.active.bytes_used() + frozen).expect("memory is counted in 64 bits");
        rows + prepared + self.prepared.bytes()
    }
}
