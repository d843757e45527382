//! Rows in key order at a snapshot: a merge of the transaction's own writes, the memtables, the runs and the main part of the tree.
//!
//! ```text
//!   writes       b . . . f . .      a row is taken from the topmost source that has it;
//!   active       . . d . . . .      "deleted" there hides it below
//!   frozen       a . d . . g .
//!   leaf of run  . b . . . . g |    one leaf of each run, and one of the main part, at a time:
//!   leaf of tree a b c d | e ...    the batch ends at the first of their fences
//! ```
//! The leaves are read at one version of the tree, which is noted before the memtables and runs are looked up, as in `read`. Within a
//! batch they are immutable images, so whatever is merged meanwhile does not show. A leaf that reaches beyond the batch serves the
//! next one, too, as long as the tree has not changed.

pub(crate) mod bounds;
mod held_leaf;
mod leaf_rows;
mod memtable_source;
mod merge;
mod owned;
mod run_source;

use std::ops::Bound;

use seawall_memtable::Cursor;
use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::view::View;
use crate::transaction::write_set::WriteSet;

use bounds::{is_after_start, is_before_end};
use merge::{Merge, Sources};

pub(crate) use bounds::{is_empty_range, row_bounds};
pub(crate) use owned::OwnRows;
pub use owned::Scan;
pub use seawall_tree::Direction;

/// Whether a memtable has, in the range, a version newer than `snapshot`.
pub(crate) fn any_newer_in(view: &View, from: Bound<&Vec<u8>>, to: Bound<&Vec<u8>>, snapshot: Lsn) -> bool {
    let frozen = view.frozen.iter().filter(|frozen| snapshot < frozen.end).map(|frozen| &frozen.memtable);
    std::iter::once(&view.active).chain(frozen).any(|memtable| {
        let mut cursor = Cursor::new();
        match from {
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(memtable, key),
            Bound::Unbounded => cursor.seek_to_first(memtable),
        }
        while let Some((key, versions)) = cursor.next(memtable) {
            if !is_before_end(key, to) {
                return false;
            }
            if is_after_start(key, from) && versions.newest_stamp() > snapshot {
                return true;
            }
        }
        false
    })
}

/// A row's key and value, lent by the range until its next call.
pub type LentRow<'r> = (&'r [u8], &'r [u8]);

/// Rows of a table, in key order. Made by `range` and `range_reverse`.
///
/// As an iterator it copies each row; [`Range::next_row`] lends it instead.
pub struct Range<'a> {
    engine: &'a Engine,
    writes: Option<&'a WriteSet>,
    /// Why there is none is in `failed`, until the caller has got that.
    merge: Option<Merge>,
    failed: Option<Error>,
    /// Where a transaction wants to know that the snapshot was cancelled.
    lost_snapshot: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for Range<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bounds = self.merge.as_ref().map(|merge| (&merge.from, &merge.to));
        formatter.debug_struct("Range").field("bounds", &bounds).finish_non_exhaustive()
    }
}

impl<'a> Range<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        snapshot: RegisteredSnapshot,
        writes: Option<&'a WriteSet>,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        direction: Direction,
    ) -> Range<'a> {
        let merge = Some(Merge::new(snapshot, (from, to), direction));
        Range { engine, writes, merge, failed: None, lost_snapshot: None }
    }

    /// Goes on when the engine is being closed.
    pub(crate) fn even_if_closed(mut self) -> Range<'a> {
        self.merge.iter_mut().for_each(|merge| merge.even_if_closed = true);
        self
    }

    /// Notes in `lost_snapshot` if the snapshot was cancelled, whatever the caller makes of the error.
    pub(crate) fn noting(mut self, lost_snapshot: &'a AtomicBool) -> Range<'a> {
        self.lost_snapshot = Some(lost_snapshot);
        self
    }

    /// A range that gives one error and ends.
    pub(crate) fn failed(engine: &'a Engine, error: Error) -> Range<'a> {
        Range { engine, writes: None, merge: None, failed: Some(error), lost_snapshot: None }
    }

    /// The next row's key and value, lent until the next call; `None` at the end.
    ///
    /// # Errors
    /// Damage met on the way. The range ends there.
    pub fn next_row(&mut self) -> Result<Option<LentRow<'_>>, Error> {
        Ok(self.next_entry()?.map(|(row_key, value)| (row_key::key_of(row_key), value)))
    }

    /// As `next_row`, with the whole key of the row in the tree.
    pub(crate) fn next_entry(&mut self) -> Result<Option<LentRow<'_>>, Error> {
        let Some(merge) = &mut self.merge else { return self.failed.take().map_or(Ok(None), Err) };
        let next = merge.next(Sources { engine: self.engine, writes: self.writes });
        if let (Err(error), Some(lost)) = (&next, self.lost_snapshot) {
            note_lost_snapshot(lost, error);
        }
        next
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_row() {
            Ok(row) => row.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Notes the error of a read if it says that the snapshot was cancelled.
pub(crate) fn note_lost_snapshot(lost: &AtomicBool, error: &Error) {
    if matches!(error, Error::SnapshotCancelled { .. }) {
        lost.store(true, Ordering::Relaxed);
    }
}
