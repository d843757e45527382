//! Merging runs into the main part of the tree, a key range at a time.
//!
//! ```text
//!   runs up to the horizon   [  b  |   f    ]  [  c | ]      what they have in the window goes ...
//!   main part                [ a . | d . . g | ]
//!                                  window                    ... into its leaves, which are built anew: see `seawall_tree`, `window`
//! ```
//! Invariants:
//! * A window takes all that the oldest runs have there, up to the youngest one that no snapshot is older than. Those above stay.
//! * A run that has nothing left is struck off the list in the chunk that takes the last of it, and the superblock counts one less with
//!   that chunk. Readers lose it afterwards: who still has it finds nothing there, and the rows in the main part.
//!
//! What is on disk if the power goes: before the chunk is committed free pages, then the new state.

use std::ops::Range;
use std::sync::Arc;

use seawall_tree::{Group, LoadedWindow, MergedWindow, StoredRun, Superblock};
use seawall_types::Lsn;

use crate::catalog::first_local_key;
use crate::checkpoint::statistics::Totals;
use crate::engine::Engine;
use crate::error::Error;
use crate::runs::route::first_row;
use crate::runs::run::{Run, RunNumber};
use crate::sabotage::{Defect, sabotaged};

impl RunNumber {
    /// As the tree knows the run.
    pub(crate) fn stored(self) -> StoredRun {
        StoredRun {
            rows: self.rows_table().get(),
            filter: self.filter_table().get(),
            listed: self.list_key(),
        }
    }
}

impl Run {
    /// As the tree knows it.
    pub(crate) fn stored(&self) -> StoredRun {
        self.number.stored()
    }
}

impl Engine {
    /// Takes runs off the list that have nothing left, because the tables were dropped.
    pub(super) fn strike_off_emptied(&self, totals: &mut Totals) -> Result<(), Error> {
        self.swap_windows(Vec::new(), &self.runs_to_merge(), totals)
    }

    /// Merges the rows of a range of users' row keys with what the runs up to the horizon have there. For who has the turn to change
    /// the tree.
    ///
    /// # Errors
    /// `DiskFull` and others of a chunk; the window can be merged again then. `Tree` for a page that cannot be read.
    pub(crate) fn merge_window(&self, range: Range<Vec<u8>>, totals: &mut Totals) -> Result<(), Error> {
        let mut runs = self.runs_to_merge();
        if sabotaged(Defect::WindowSkipsRun) && runs.len() > 1 {
            runs.pop();
        }
        let before = self.clock().monotonic();
        let stored: Vec<StoredRun> = runs.iter().map(|run| run.stored()).collect();
        let window = self.tree.load_window(range, &stored, None, &|_| false, self.flushed());
        totals.durations.merge += self.clock().monotonic().saturating_sub(before);
        self.swap_windows(vec![window.map_err(|error| Error::tree(&error))?], &runs, totals)
    }

    /// Runs that may be merged into the main part, newest first: no snapshot is older.
    pub(crate) fn runs_to_merge(&self) -> Vec<Arc<Run>> {
        let horizon = if sabotaged(Defect::WindowUnderSnapshot) { Lsn::MAX } else { self.horizon() };
        self.view().runs.iter().filter(|run| run.end() <= horizon).cloned().collect()
    }

    /// Puts windows in their places, and takes runs off the list that have nothing left then.
    fn swap_windows(
        &self,
        windows: Vec<LoadedWindow>,
        runs: &[Arc<Run>],
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let cut: &[Arc<Run>] = if sabotaged(Defect::WindowNotCut) { &[] } else { runs };
        let stored: Vec<StoredRun> = cut.iter().map(|run| run.stored()).collect();
        // The log is flushed past all that is in runs, and a backup that began since the last checkpoint takes what has changed since
        // then by the stamps of pages.
        let merged = self.tree.swap_windows(windows, &stored, self.flushed());
        let MergedWindow { chunk, emptied, segments, leaves, .. } =
            merged.map_err(|error| Error::tree(&error))?;
        if chunk.is_empty() {
            return Ok(());
        }
        let written_before = totals.written_bytes();
        totals.add_leaves(leaves, leaves * self.tree.format().page_bytes() as u64);
        let emptied: Vec<RunNumber> = emptied.iter().map(|index| runs[*index].number).collect();
        if emptied.is_empty() {
            self.apply_chunk(chunk, None, totals)?;
        } else {
            let _storing = self.redo.storing();
            let current = self.redo.superblock();
            let count = u32::try_from(emptied.len()).expect("the superblock counts all runs in 32 bits");
            let superblock = Superblock { run_count: current.run_count - count, ..current };
            self.apply_chunk(chunk, Some(&superblock), totals)?;
            self.redo.stored(superblock);
        }
        if leaves > 0 {
            self.counters.run_merges.count_window(totals.written_bytes() - written_before);
        }
        // Not before: who misses a row that is gone from a run asks the main part then, at a version of the tree that has passed.
        let segments = segments.into_iter().map(|(index, range)| (runs[index].number, range));
        self.forget(&emptied, &segments.collect::<Vec<_>>());
        Ok(())
    }

    /// Takes from readers runs that are not in the tree any more, and segments of filters.
    pub(crate) fn forget(&self, emptied: &[RunNumber], segments: &[(RunNumber, Range<Vec<u8>>)]) {
        if emptied.is_empty() && segments.is_empty() {
            return;
        }
        self.change_view(|view| {
            let left = view.runs.iter().filter(|run| !emptied.contains(&run.number));
            let without = |run: &Arc<Run>| {
                let of_run = segments.iter().filter(|(number, _)| *number == run.number);
                let gone: Vec<Range<Vec<u8>>> = of_run.map(|(_, range)| range.clone()).collect();
                if gone.is_empty() || run.lacks_filter() {
                    Arc::clone(run)
                } else {
                    Arc::new(run.without_segments(&gone))
                }
            };
            view.runs = left.map(without).collect();
        });
        self.share_cache_with_filters();
    }

    /// The next window at or after `from` where runs that may be merged have rows: about `checkpoint.chunk_bytes` of leaves, of the main
    /// part and of runs together.
    pub(super) fn window_from(&self, from: &[u8]) -> Result<Option<Range<Vec<u8>>>, Error> {
        let runs = self.runs_to_merge();
        let mut first: Option<(Vec<u8>, RunNumber)> = None;
        for run in &runs {
            let next = first_row(&self.tree, run.prefix(), from)?.map(|key| (key, run.number));
            first = first.into_iter().chain(next).min();
        }
        let (Some((first, run)), end) = (first, first_local_key().to_vec()) else { return Ok(None) };
        if first >= end {
            let place = format!("run {run}, row key {first:02x?}");
            return Err(Error::Catalog { place, problem: "no run has rows of such a table" });
        }
        let failed = |error| Error::tree(&error);
        let window_bytes = self.options.checkpoint.chunk_bytes;
        let group = self.tree.groups(&first, &end).next().transpose().map_err(failed)?;
        let start =
            group.map_or_else(|| first.clone(), |group| self.window_start(group, &first, window_bytes));
        let stored: Vec<StoredRun> = runs.iter().map(|run| run.stored()).collect();
        // The window before may have ended below it.
        let mut start = start.max(from.to_vec());
        loop {
            let window =
                self.tree.window_at(start..end.clone(), &stored, window_bytes).map_err(failed)?.range;
            // Where small windows end with the leaf of a run, that may be before the row.
            if window.end > first {
                return Ok(Some(window));
            }
            start = window.end;
        }
    }

    /// Where a window for `first` begins: with its level-1 page, or with its leaf where that has more than a window.
    fn window_start(&self, mut group: Group, first: &[u8], window_bytes: u64) -> Vec<u8> {
        let bytes = (group.leaves.len() * self.tree.format().page_bytes()) as u64;
        if bytes <= window_bytes {
            return group.lower;
        }
        let index = group.leaves.partition_point(|leaf| leaf.lower.as_slice() <= first);
        group.leaves.swap_remove(index.saturating_sub(1)).lower
    }
}
