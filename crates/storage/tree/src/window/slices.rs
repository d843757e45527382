//! Slices: several runs become one, a part of their keys at a time, each part in a chunk of its own.
//!
//! ```text
//!   runs, the newest first   [        |  b f ]  [        | c h ]      what no slice has taken yet
//!   the target               [ a d e  |       ]                       rows of the slices before
//!                                     next
//! ```
//! A slice is grafted into the target in the chunk that cuts the same keys out of the runs. So of any key only the target has rows, or only
//! the runs have: it does not matter which of them counts as newer.
//!
//! **If the power goes** between two slices, target and runs are listed, and what they have together is what the runs had. Each long value
//! has one row. Nothing has to be finished: target and runs are runs like others, and become one run, with others or without, whenever the
//! engine chooses so again.

use std::sync::Arc;

use seawall_types::Lsn;

use super::in_order;
use super::merging::{Merging, Winner};
use super::sources::StoredRows;
use super::stored_run::StoredRun;
use crate::bulk_load::BulkLoader;
use crate::chunk::ChunkPlan;
use crate::error::TreeError;
use crate::merge::{Change, OldValues};
use crate::page::{LeafValue, OverflowReference};
use crate::sabotage::{Defect, sabotaged};
use crate::swap::Part;
use crate::tree::Tree;

/// A slice whose leaves are built, and that waits to be swapped in. Dropping it gives their pages back.
#[derive(Debug)]
pub struct LoadedSlice {
    load: Box<BulkLoader>,
    from: Vec<u8>,
    /// Where the next slice begins; `None` after the last one.
    pub next: Option<Vec<u8>>,
    /// Of each run, whether it had rows there.
    used: Vec<bool>,
    /// Long values of rows that lost.
    lost_values: Vec<OverflowReference>,
    /// Rows that it has, those that are deleted included.
    pub rows: u64,
    /// Of these, those that are deleted.
    pub deletions: u64,
    /// Bytes of its keys, without the number of the run, and values, the long ones included.
    pub row_bytes: u64,
    /// Leaves that it is built of.
    pub leaves: u64,
    /// Its first row key and its last one.
    pub ends: Option<(Vec<u8>, Vec<u8>)>,
    /// Rows that were read for that.
    pub rows_read: u64,
}

/// A slice that was merged.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct MergedSlice {
    /// The chunk to be applied.
    pub chunk: ChunkPlan,
    /// Where the next slice begins; `None` after the last one.
    pub next: Option<Vec<u8>>,
    /// Which of the runs have nothing left, by their index: the chunk strikes them off the list. After the last slice that is all of them
    /// that it was given.
    pub emptied: Vec<usize>,
    /// Segments of filters that the chunk takes away, of other runs: the index of the run, and the row keys at which they begin.
    pub segments: Vec<(usize, std::ops::Range<Vec<u8>>)>,
}

impl Tree {
    /// Merges the next slice of `runs`, the newest first, which are to become the run `target`: their rows from `from` on, the empty key for
    /// the first slice, until about `budget_bytes` of keys and short values were read. Deletions stay. Of rows with one key the newest wins;
    /// those whose key `skip` names are left out. `each` hears of each row key, in order, for a filter. The leaves are built and written
    /// beside the tree, and memory for the list of them is needed, and for one leaf of each run and those read ahead.
    ///
    /// `stamp` is as that of `swap_slice`. A leaf gets the stamp of its newest row.
    ///
    /// # Errors
    /// `Io`, a damaged page, or what `each` gives. The tree is unchanged.
    pub fn load_slice(
        self: &Arc<Tree>,
        (runs, target): (&[StoredRun], &StoredRun),
        from: &[u8],
        budget_bytes: u64,
        skip: &dyn Fn(&[u8]) -> bool,
        each: &mut dyn FnMut(&[u8]) -> Result<(), TreeError>,
        stamp: Lsn,
    ) -> Result<LoadedSlice, TreeError> {
        let mut sources = Vec::new();
        for run in runs {
            sources.push(StoredRows::of_rest_of_run(self, run.rows, from)?);
        }
        // Whether there are rows of this slice among them is seen below.
        let mut used = vec![false; runs.len()];
        // One row at least, or the next slice would begin where this one does.
        let budget_bytes = budget_bytes.max(1);
        let mut slice = LoadedSlice {
            load: Box::new(target.row_loader(self, from, stamp)),
            from: from.to_vec(),
            next: None,
            used: Vec::new(),
            lost_values: Vec::new(),
            rows: 0,
            deletions: 0,
            row_bytes: 0,
            leaves: 0,
            ends: None,
            rows_read: 0,
        };
        let mut merging = Merging::new(sources, None, &[], Lsn::ZERO);
        let mut key = Vec::new();
        loop {
            slice.next =
                merging.next_key().filter(|_| merging.bytes_read >= budget_bytes).map(<[u8]>::to_vec);
            if slice.next.is_some() || !merging.gather() {
                break;
            }
            merging.each_stored(&mut |source| used[source] = true);
            key.clear();
            key.extend_from_slice(&target.rows.to_be_bytes());
            key.extend_from_slice(merging.key());
            if skip(merging.key()) {
                if let Winner::Stored(LeafValue::Overflow(lost)) = merging.winner() {
                    merging.lost_values.push(lost);
                }
                merging.advance()?;
                continue;
            }
            slice.load.note_stamp(merging.stamp());
            slice.row_bytes += merging.key().len() as u64;
            match merging.winner() {
                Winner::Stored(LeafValue::Inline(value)) => {
                    slice.row_bytes += value.len() as u64;
                    slice.load.push(&key, value)?;
                }
                Winner::Stored(LeafValue::Overflow(value)) => {
                    slice.row_bytes += value.total_bytes;
                    slice.load.push_reference(&key, value)?;
                }
                Winner::Stored(LeafValue::Deleted) if sabotaged(Defect::DeletionDroppedInTier) => {
                    merging.advance()?;
                    continue;
                }
                Winner::Stored(LeafValue::Deleted) => {
                    slice.deletions += 1;
                    slice.load.push_change(&key, Change::Delete)?;
                }
                Winner::Changed(_) => unreachable!("no changes were given"),
            }
            each(merging.key())?;
            match &mut slice.ends {
                Some((_, last)) => {
                    last.clear();
                    last.extend_from_slice(merging.key());
                }
                none => *none = Some((merging.key().to_vec(), merging.key().to_vec())),
            }
            merging.advance()?;
        }
        (slice.lost_values, slice.rows_read) = (merging.lost_values, merging.rows_read);
        slice.load.finish()?;
        (slice.rows, slice.leaves) = (slice.load.row_count(), slice.load.leaf_count());
        slice.used = used;
        Ok(slice)
    }

    /// Plans the chunk that grafts a slice into `target`, and takes its rows out of `runs`: those that it was built of, in the same order.
    /// Nothing may have changed the tree since. `listed` becomes the value of the row that lists the target: it is to be given with the first
    /// slice that has rows, and may be given again, to say how much there is by now. `filter` has the segments for the rows of the slice, of
    /// which the first one begins where the slice does (see [`StoredRun::filter_loader`]). A run that has nothing left is struck off the list,
    /// at the latest with the last slice; where a superblock counts the runs, it is to be stored with the chunk.
    ///
    /// Readers must look through the target, and through its new segments, before the chunk is published: rows are in the target from then
    /// on, and not in the runs any more.
    ///
    /// `stamp` goes into the pages around the slice and above, and is at least the stamp of every page there.
    ///
    /// # Errors
    /// `Io`, or a damaged page. The tree is unchanged, and the slice is given up.
    ///
    /// # Panics
    /// If the slice is the last one, and a run has rows before it; or if the target has rows behind the beginning of the slice, in whose place
    /// the slice would come.
    pub fn swap_slice(
        &self,
        slice: LoadedSlice,
        (runs, target): (&[StoredRun], &StoredRun),
        listed: Option<Vec<u8>>,
        filter: Option<BulkLoader>,
        stamp: Lsn,
    ) -> Result<MergedSlice, TreeError> {
        let (mut parts, mut emptied, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        assert!(
            slice.rows == 0 || target.first_key(&self.pages, &slice.from)?.is_none(),
            "a slice over rows of its target"
        );
        // Where the slice is the last one there is no key behind it: the runs are all emptied.
        let range = slice.next.as_ref().map(|next| slice.from.clone()..next.clone());
        let ranges: Vec<_> = range.as_ref().into_iter().collect();
        for (index, run) in runs.iter().enumerate() {
            let to = slice.next.is_none().then_some(&slice.from[..]);
            let has_others = run.has_others(&self.pages, (&[], to), &ranges)?;
            assert!(to.is_none() || !has_others, "a run with rows that no slice has taken");
            if !has_others {
                parts.extend(run.gone());
                emptied.push(index);
            } else if slice.used[index] {
                let without = run.without(&self.pages, &ranges)?;
                parts.extend(without.parts);
                segments.extend(without.segments.into_iter().map(|range| (index, range)));
            }
        }
        if let Some(value) = listed {
            parts.push(Part::Put { key: target.listed.clone(), value });
        }
        if slice.rows > 0 {
            parts.push(Part::Graft { load: slice.load, values: OldValues::Free });
        }
        if let Some(filter) = filter.filter(|filter| filter.row_count() > 0) {
            parts.push(Part::Graft { load: Box::new(filter), values: OldValues::Free });
        }
        let chunk = self.swap(in_order(parts), &slice.lost_values, stamp)?;
        Ok(MergedSlice { chunk, next: slice.next, emptied, segments })
    }
}
