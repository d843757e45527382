//! Takes snapshots of an open database, and computes the versions that live snapshots need.

use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::view::View;

impl Engine {
    /// Registers a snapshot of everything visible now.
    pub(crate) fn register_snapshot(&self) -> RegisteredSnapshot {
        self.snapshots.register(|| self.visible())
    }

    /// Another registration of a snapshot that is alive, and stays so for as long as this one.
    pub(crate) fn register_snapshot_at(&self, lsn: Lsn) -> RegisteredSnapshot {
        self.snapshots.register(|| lsn)
    }

    pub(crate) fn with_current_snapshot<R>(&self, read: impl FnOnce(Lsn) -> R) -> R {
        self.snapshots.with_current(|| self.visible(), read)
    }

    /// Stamp of the newest version of a row that is not in the tree yet, or that an old snapshot has kept here, if it is
    /// later than `since`.
    pub(crate) fn newest_stamp_after(&self, row_key: &[u8], since: Lsn) -> Option<Lsn> {
        self.view().newest_stamp_after(row_key, since)
    }

    /// The horizon for versions in the active memtable of `view`: see `snapshots`.
    pub(crate) fn horizon_in(&self, view: &View) -> Lsn {
        self.snapshots.horizon_above(view.snapshot_floor, || self.queue.visible())
    }

    /// Whether the snapshot was cancelled. To be asked after the view of the memtables was taken: see `snapshots`.
    pub(crate) fn is_cancelled(&self, snapshot: Lsn) -> bool {
        snapshot <= self.snapshots.floor()
    }

    /// As `is_cancelled`, as an error.
    pub(crate) fn check_snapshot(&self, snapshot: Lsn) -> Result<(), Error> {
        if self.is_cancelled(snapshot) { Err(self.snapshot_cancelled(snapshot)) } else { Ok(()) }
    }

    #[cold]
    pub(crate) fn snapshot_cancelled(&self, lsn: Lsn) -> Error {
        Error::SnapshotCancelled { lsn, limit: self.options.memory.snapshot_bytes }
    }

    /// See `SnapshotRegistry::horizon`.
    pub(crate) fn horizon(&self) -> Lsn {
        self.snapshots.horizon(|| self.queue.visible())
    }
}
