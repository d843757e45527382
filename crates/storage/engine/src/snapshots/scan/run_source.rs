//! A run as a source of a scan's rows.

use std::ops::{Bound, Range};
use std::sync::Arc;

use seawall_tree::Direction;
use seawall_tree::page::LeafValue;
use seawall_types::TableId;

use super::held_leaf::HeldLeaf;
use crate::row_key;
use crate::runs::run::Run;

/// A leaf of a run, and which of its rows are left in the batch. The leaf is kept when they are used up: it may reach into the batches
/// that follow, as leaves of a run stand for far wider ranges of keys than those of the main part.
pub(super) struct RunSource {
    pub(super) run: Arc<Run>,
    pub(super) held: HeldLeaf,
    /// Taken from the end when going backwards.
    rows: Range<usize>,
    /// The row key of the row it stands at.
    key: Vec<u8>,
}

impl RunSource {
    /// A source without rows, until there is a batch.
    pub(super) fn new(run: Arc<Run>, held: HeldLeaf) -> RunSource {
        RunSource { run, held, rows: 0..0, key: Vec::new() }
    }

    /// Sets it to the rows of a batch.
    pub(super) fn begin_batch(
        &mut self,
        (from, to): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
        batch_end: Option<&[u8]>,
        direction: Direction,
    ) {
        self.rows = self.held.rows_in(from, to, batch_end, direction);
        self.load_key(direction);
    }

    /// The row key of the row it stands at; `None` at the end of the batch.
    pub(super) fn current(&self) -> Option<&[u8]> {
        (!self.rows.is_empty()).then_some(&self.key[..])
    }

    /// What the run says about that row.
    pub(super) fn value(&self, direction: Direction) -> LeafValue<'_> {
        self.held.leaf().row(self.index(direction)).value
    }

    pub(super) fn advance(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.rows.start += 1,
            Direction::Reverse => self.rows.end -= 1,
        }
        self.load_key(direction);
    }

    fn index(&self, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.rows.start,
            Direction::Reverse => self.rows.end - 1,
        }
    }

    fn load_key(&mut self, direction: Direction) {
        if self.rows.is_empty() {
            return;
        }
        self.key.clear();
        let row = self.held.leaf().row(self.index(direction));
        row.key.skip(row_key::TABLE_BYTES).append_to(&mut self.key);
    }
}

/// Whether the run can have rows in the range.
pub(super) fn may_have_rows_in(run: &Run, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let first = match from {
        Bound::Included(key) | Bound::Excluded(key) => row_key::table_of(key),
        Bound::Unbounded => None,
    };
    let last = match to {
        // Where a table begins, the one before ends.
        Bound::Excluded(key) if key.len() == row_key::TABLE_BYTES => {
            row_key::table_of(key).and_then(|table| table.get().checked_sub(1)).map(TableId::new)
        }
        Bound::Included(key) | Bound::Excluded(key) => row_key::table_of(key),
        Bound::Unbounded => None,
    };
    // A bound too short to name a table excludes none.
    first.is_none_or(|first| first <= run.descriptor.last_storage)
        && last.is_none_or(|last| run.descriptor.first_storage <= last)
}
