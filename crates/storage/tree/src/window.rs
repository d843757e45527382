//! Windows: ranges of the tree that are merged with what sorted runs have there, and built anew.
//!
//! ```text
//!   runs, the newest first   [   b      f    ]  [  c ]     what is there in the window
//!   the tree                 [ a . . d . . g ]             its leaves
//!                                  |
//!                            [ a b c d f g ]               packed leaves on fresh pages, written once and in order
//!                                  |
//!                            one chunk: they take the place of the old ones, and what was merged goes out of the runs
//! ```
//! Of rows with one key the newest wins. In the tree a deletion that wins leaves nothing behind; where runs become one run, it
//! stays, as there may be older rows. A long value is not written again: the row that wins takes its extents along.
//!
//! Invariants:
//! * A window takes what the oldest runs have, up to some run, and leaves nothing of it there. So no row in the tree is ever newer
//!   than one with the same key in a run.
//! * After a crash a row is in the run or in the tree, not in both and not in neither: the chunk is applied whole or not at all.
//! * What changed or went between the first and the last row of a leaf is not newer than the leaf's stamp. So who looks for changes since a
//!   time misses none, and finds few more than there are.
//!
//! Start at [`Tree::load_window`]; which ranges are windows is in `bounds`, how runs become one run in `slices`.

use std::ops::Range;
use std::sync::Arc;

use seawall_types::Lsn;

use crate::bulk_load::BulkLoader;
use crate::chunk::ChunkPlan;
use crate::error::TreeError;
use crate::merge::{Change, MergeSource, OldValues};
use crate::page::{LeafValue, OverflowReference};
use crate::swap::Part;
use crate::tree::Tree;

mod bounds;
mod merging;
mod slices;
mod sources;
mod stored_run;

pub use bounds::WindowBounds;
pub use slices::{LoadedSlice, MergedSlice};
pub use stored_run::StoredRun;

use merging::{Merging, Winner};
use sources::StoredRows;

/// How full leaves of a window are: the next window builds them anew anyway, and rows that are merged in place before it comes
/// find a little room.
const FILL_PERMILLE: u16 = 970;

/// A window whose leaves are built, and that waits to be swapped in. Dropping it gives their pages back.
#[derive(Debug)]
pub struct LoadedWindow {
    range: Range<Vec<u8>>,
    load: Box<BulkLoader>,
    /// Of each run, whether it had rows there.
    used: Vec<bool>,
    /// Long values of rows that lost.
    lost_values: Vec<OverflowReference>,
    rows_read: u64,
}

/// Windows that were merged.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct MergedWindow {
    /// The chunk to be applied.
    pub chunk: ChunkPlan,
    /// Which of the runs have nothing left, by their index: the chunk strikes them off the list.
    pub emptied: Vec<usize>,
    /// Segments of filters that the chunk takes away, of other runs: the index of the run, and the row keys at which they begin.
    pub segments: Vec<(usize, Range<Vec<u8>>)>,
    /// Rows that the windows have then.
    pub rows: u64,
    /// Rows that were read for that.
    pub rows_read: u64,
    /// Leaves that the windows are built of, which were written before the chunk.
    pub leaves: u64,
}

impl Tree {
    /// Merges the rows of `range` with those that `runs` have there, the newest run first, and with `changes` of that range, which
    /// are newer than all; `changes` is asked for those below the end of the range only. Rows whose key `skip` names are left out.
    /// The leaves are built and written beside the tree. `stamp` is at least the stamp of every change, and of every page of the tree that
    /// its leaves take the place of.
    ///
    /// The runs must be the oldest ones: what older runs than one of them have in the range would hide newer rows. Several threads
    /// may build windows side by side, for who has the turn to change the tree, and then swap them in.
    ///
    /// # Errors
    /// `Io`, or a damaged page. The tree is unchanged, but `changes` has moved on.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn load_window(
        self: &Arc<Tree>,
        range: Range<Vec<u8>>,
        runs: &[StoredRun],
        changes: Option<&mut dyn MergeSource>,
        skip: &dyn Fn(&[u8]) -> bool,
        stamp: Lsn,
    ) -> Result<LoadedWindow, TreeError> {
        let mut load = self.bulk_loader(&range.start, &range.end, stamp).filled_to(FILL_PERMILLE);
        let mut sources = Vec::new();
        for run in runs {
            sources.push(StoredRows::of_run(self, run.rows, &range)?);
        }
        let used = sources.iter().map(StoredRows::has_rows).collect();
        sources.push(StoredRows::of_tree(self, &range)?);
        let mut merging = Merging::new(sources, changes, &range.end, stamp);
        while merging.gather() {
            merging.give_replaced(self)?;
            let key = merging.key();
            let is_lost = skip(key);
            // What is left out goes now, whenever it was changed.
            load.note_stamp(if is_lost { stamp } else { merging.stamp() });
            match merging.winner() {
                Winner::Stored(LeafValue::Overflow(lost)) if is_lost => merging.lost_values.push(lost),
                _ if is_lost => {}
                Winner::Stored(LeafValue::Inline(value)) => load.push(key, value)?,
                Winner::Stored(LeafValue::Overflow(value)) => load.push_reference(key, value)?,
                Winner::Changed(Change::Put(value)) => load.push(key, value)?,
                Winner::Stored(LeafValue::Deleted) | Winner::Changed(Change::Delete) => {}
            }
            merging.advance()?;
        }
        let (lost_values, rows_read) = (merging.lost_values, merging.rows_read);
        Ok(LoadedWindow { range, load: Box::new(load), used, lost_values, rows_read })
    }

    /// Plans the chunk that swaps windows in, which ascend, and takes what was merged out of `runs`: those that the windows were
    /// built of, in the same order. Nothing may have changed the tree since. Where a superblock counts the runs, the one that is stored
    /// with the chunk has those fewer that are `emptied`.
    ///
    /// `stamp` goes into the pages around the windows and above: no page of the tree there may have a newer one, or who looks for changes
    /// since a time misses some. The end of the durable log will do.
    ///
    /// # Errors
    /// `Io`, or a damaged page. The tree is unchanged, and the windows are given up.
    ///
    /// # Panics
    /// If the windows do not ascend.
    pub fn swap_windows(
        &self,
        windows: Vec<LoadedWindow>,
        runs: &[StoredRun],
        stamp: Lsn,
    ) -> Result<MergedWindow, TreeError> {
        let ranges: Vec<&Range<Vec<u8>>> = windows.iter().map(|window| &window.range).collect();
        let (mut parts, mut emptied, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for (index, run) in runs.iter().enumerate() {
            if !run.has_others(&self.pages, (&[], None), &ranges)? {
                parts.extend(run.gone());
                emptied.push(index);
                continue;
            }
            let used: Vec<&Range<Vec<u8>>> =
                windows.iter().filter(|window| window.used[index]).map(|window| &window.range).collect();
            let without = run.without(&self.pages, &used)?;
            parts.extend(without.parts);
            segments.extend(without.segments.into_iter().map(|range| (index, range)));
        }
        let (mut rows, mut rows_read, mut leaves, mut lost_values) = (0, 0, 0, Vec::new());
        for mut window in windows {
            rows += window.load.row_count();
            leaves += window.load.leaf_count();
            rows_read += window.rows_read;
            lost_values.append(&mut window.lost_values);
            parts.push(Part::Graft { load: window.load, values: OldValues::Keep });
        }
        let chunk = self.swap(in_order(parts), &lost_values, stamp)?;
        Ok(MergedWindow { chunk, emptied, segments, rows, rows_read, leaves })
    }

    /// Builds one window, as `load_window`, and plans the chunk that swaps it in.
    ///
    /// # Errors
    /// As those.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn merge_window(
        self: &Arc<Tree>,
        range: Range<Vec<u8>>,
        runs: &[StoredRun],
        changes: Option<&mut dyn MergeSource>,
        skip: &dyn Fn(&[u8]) -> bool,
        stamp: Lsn,
    ) -> Result<MergedWindow, TreeError> {
        let window = self.load_window(range, runs, changes, skip, stamp)?;
        self.swap_windows(vec![window], runs, stamp)
    }
}

/// Parts in the order of their keys.
fn in_order(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|one, other| one.start().cmp(other.start()));
    parts
}
