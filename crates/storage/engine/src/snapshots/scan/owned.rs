//! A scan that owns what it reads from: it borrows no transaction, can go to another thread and may be kept open.
//!
//! ```text
//!   transaction   writes a, c | opens a scan | writes d      begins a statement, writes again, ends
//!                                 |  copy of a, c
//!   scan                          +--> rows as of the opening --------------------------------> end
//! ```
//! It shows the snapshot that its transaction read at when it was opened, with the rows that the transaction had written
//! by then. Whatever the transaction writes later is no part of it, so a statement may change the rows that it scans.

use std::ops::Bound;
use std::sync::Arc;

use seawall_sync::atomic::AtomicBool;

use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::transaction::memory::MemoryShare;
use crate::transaction::write_set::WriteSet;

use super::merge::{Merge, Sources};
use super::{Direction, LentRow, note_lost_snapshot};

/// What a transaction had written in the range when its scan was opened, with the memory for that.
#[derive(Debug)]
pub(crate) struct OwnRows {
    rows: WriteSet,
    _memory: MemoryShare,
}

impl OwnRows {
    pub(crate) fn new(rows: WriteSet, memory: MemoryShare) -> OwnRows {
        OwnRows { rows, _memory: memory }
    }

    /// The row as the transaction had written it, `Some(None)` if it had deleted the row; `None` if it had done neither.
    pub(crate) fn get(&self, row_key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(row_key)
    }
}

/// Rows of a table, in key order, that belong to no borrow. Made by `Transaction::open_scan` and `Snapshot::open_scan`.
///
/// As an iterator it copies each row; [`Scan::next_row`] lends it instead. It may outlive its transaction, and shows the same
/// rows then. While it is open, old row versions are kept for it, as for a [`Snapshot`](crate::Snapshot).
pub struct Scan {
    merge: Merge,
    own: Option<OwnRows>,
    /// Where its transaction wants to know that the snapshot was cancelled.
    lost_snapshot: Option<Arc<AtomicBool>>,
    engine: Arc<Engine>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bounds = (&self.merge.from, &self.merge.to);
        formatter.debug_struct("Scan").field("bounds", &bounds).finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn new(
        engine: Arc<Engine>,
        snapshot: RegisteredSnapshot,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
    ) -> Scan {
        let merge = Merge::new(snapshot, bounds, direction);
        Scan { merge, own: None, lost_snapshot: None, engine }
    }

    /// Shows these rows of a transaction, too, and notes in `lost_snapshot` if the snapshot was cancelled.
    pub(crate) fn with(mut self, own: Option<OwnRows>, lost_snapshot: Arc<AtomicBool>) -> Scan {
        self.own = own;
        self.lost_snapshot = Some(lost_snapshot);
        self
    }

    /// The next row's key and value, lent until the next call; `None` at the end.
    ///
    /// # Errors
    /// `SnapshotCancelled`, `Closed`, or damage met on the way. The scan ends there.
    pub fn next_row(&mut self) -> Result<Option<LentRow<'_>>, Error> {
        let writes = self.own.as_ref().map(|own| &own.rows);
        let next = self.merge.next(Sources { engine: &self.engine, writes });
        if let (Err(error), Some(lost)) = (&next, &self.lost_snapshot) {
            note_lost_snapshot(lost, error);
        }
        Ok(next?.map(|(row_key, value)| (row_key::key_of(row_key), value)))
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_row() {
            Ok(row) => row.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => Some(Err(error)),
        }
    }
}
