//! The table of windows: how many leaves of the main part, and of runs, each range of keys has.
//!
//! ```text
//!   windows by key   [ 2000 leaves | 40 of runs ][ 1900 | 700 ][ 2010 | 90, which delete the rows of 900 ] ...
//!                                                                  ^ the fullest
//! ```
//! It is read from interior pages, and kept up to date: a run adds its leaves, a window that was merged is looked at again, and where
//! runs have become one, the leaves of that count in the place of theirs. Nothing of it is on disk.
//!
//! Rows that runs delete take their space in the main part until they are merged, and scans step over them. So they count as well, about: of
//! each run one leaf in the window is read to see how many rows such a leaf deletes, and one leaf of the main part to see how large they are.

use std::ops::Range;
use std::sync::Arc;

use seawall_tree::{Tree, TreeError};

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::first_user_key;
use crate::row_key;
use crate::runs::fences::{Fences, MergedFences};
use crate::runs::run::{Run, RunNumber};

/// The prefix of the keys of a run.
type Prefix = [u8; row_key::TABLE_BYTES];

/// From a row key on, up to another one; `None`: to the end.
type KeyRange<'k> = (&'k [u8], Option<&'k [u8]>);

/// A range of keys, up to where the next window begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    lower: Vec<u8>,
    /// Leaves of the main part, at least one.
    pub(super) tree_leaves: u64,
    /// Leaves of runs that begin there.
    pub(super) run_leaves: u64,
    /// Rows that these leaves delete, by run.
    deletes: Vec<RunDeletes>,
    /// Bytes of a row of the main part, about; `None` while it was not looked at.
    row_bytes: Option<u64>,
}

/// Rows that the leaves of a run delete in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunDeletes {
    run: RunNumber,
    leaves: u64,
    /// Rows that each of them deletes, by one of them.
    rows_each: u64,
}

impl Window {
    fn new(lower: Vec<u8>) -> Window {
        Window { lower, tree_leaves: 1, run_leaves: 0, deletes: Vec::new(), row_bytes: None }
    }

    /// Counts leaves of a run, of which one may hold the row key.
    fn add(&mut self, tree: &Tree, run: &Run, leaves: u64, row_key: &[u8]) {
        self.run_leaves += leaves;
        if !run.deletes_many() {
            return;
        }
        if let Some(deletes) = self.deletes.iter_mut().find(|deletes| deletes.run == run.number) {
            deletes.leaves += leaves;
            return;
        }
        // A leaf that cannot be read tells nothing. Who needs its rows will say so.
        let Ok(of_run) = tree.leaf_fill(&run.key_of(row_key)) else { return };
        if of_run.deleted > 0 && self.row_bytes.is_none() {
            let of_tree = tree.leaf_fill(row_key).unwrap_or_default();
            self.row_bytes = of_tree.bytes.checked_div(of_tree.rows);
        }
        self.deletes.push(RunDeletes { run: run.number, leaves, rows_each: of_run.deleted });
    }

    /// Counts a leaf of a run no more.
    fn take(&mut self, run: RunNumber) {
        self.run_leaves = self.run_leaves.saturating_sub(1);
        if let Some(index) = self.deletes.iter().position(|deletes| deletes.run == run) {
            self.deletes[index].leaves -= 1;
            if self.deletes[index].leaves == 0 {
                self.deletes.swap_remove(index);
            }
        }
    }

    /// Leaves of runs, and as many as the rows fill that these delete. No more are deleted than there are: a row may be deleted by several
    /// runs, or was never there.
    fn weight(&self, page_bytes: u64) -> u64 {
        let rows: u64 = self.deletes.iter().map(|deletes| deletes.leaves * deletes.rows_each).sum();
        let deleted_leaves = rows.saturating_mul(self.row_bytes.unwrap_or_default()) / page_bytes;
        self.run_leaves + deleted_leaves.min(self.tree_leaves)
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowTable {
    /// Ascending. The first one begins with the first key of users.
    pub(super) windows: Vec<Window>,
    pub(super) window_leaves: u64,
    page_bytes: u64,
    /// The runs whose leaves are counted.
    runs: Vec<RunNumber>,
}

impl WindowTable {
    /// Reads it: windows of at most `window_leaves` leaves of the main part, and the leaves of `runs` in them.
    pub(super) fn read(tree: &Tree, runs: &[Arc<Run>], window_leaves: u64) -> Result<WindowTable, TreeError> {
        let (from, to) = (first_user_key(), first_local_key().to_vec());
        let windows = windows_in(tree, runs, window_leaves, from, &to)?;
        let page_bytes = tree.format().page_bytes() as u64;
        Ok(WindowTable {
            windows,
            window_leaves,
            page_bytes,
            runs: runs.iter().map(|run| run.number).collect(),
        })
    }

    /// Makes `runs` those whose leaves are counted. Those that it had are counted already.
    pub(super) fn keep_up(&mut self, tree: &Tree, runs: &[Arc<Run>]) -> Result<(), TreeError> {
        self.runs.retain(|known| runs.iter().any(|run| run.number == *known));
        for run in runs {
            if !self.runs.contains(&run.number) {
                self.add(tree, run)?;
            }
        }
        Ok(())
    }

    /// Counts the leaves of one more run.
    pub(super) fn add(&mut self, tree: &Tree, run: &Run) -> Result<(), TreeError> {
        self.put_in(tree, run, (&[], None))
    }

    /// The rows of a known run from one key on, up to another one or its end, are about to be taken out of it: its leaves that begin there
    /// count no more.
    pub(super) fn take_out(&mut self, tree: &Tree, run: &Run, range: KeyRange<'_>) -> Result<(), TreeError> {
        self.count(tree, run, range, |window, _| window.take(run.number))
    }

    /// A run has got rows in such a range: its leaves that begin there are counted.
    pub(super) fn put_in(&mut self, tree: &Tree, run: &Run, range: KeyRange<'_>) -> Result<(), TreeError> {
        if !self.runs.contains(&run.number) {
            self.runs.push(run.number);
        }
        self.count(tree, run, range, |window, fence| window.add(tree, run, 1, fence))
    }

    fn count(
        &mut self,
        tree: &Tree,
        run: &Run,
        (from, to): KeyRange<'_>,
        count: impl Fn(&mut Window, &[u8]),
    ) -> Result<(), TreeError> {
        let from = from.max(&first_user_key()[..]).to_vec();
        let mut fences = Fences::begin(tree, &run.prefix(), &from)?;
        while let Some(fence) = fences.take()?.filter(|fence| to.is_none_or(|to| &fence[..] < to)) {
            let above = self.windows.partition_point(|window| window.lower <= fence);
            count(&mut self.windows[above.saturating_sub(1)], &fence);
        }
        Ok(())
    }

    /// Leaves of the main part and of runs.
    pub(super) fn leaves(&self) -> (u64, u64) {
        let sum = |leaves: fn(&Window) -> u64| self.windows.iter().map(leaves).sum();
        (sum(|window| window.tree_leaves), sum(|window| window.run_leaves))
    }

    /// Leaves of the main part; leaves of runs, and as many as the rows fill that these delete.
    pub(super) fn weights(&self) -> (u64, u64) {
        let weight = |window: &Window| window.weight(self.page_bytes);
        (self.leaves().0, self.windows.iter().map(weight).sum())
    }

    /// The window with the most weight of runs for each leaf of its own.
    pub(super) fn fullest(&self) -> Option<usize> {
        let with_runs = (0..self.windows.len()).filter(|index| self.windows[*index].run_leaves > 0);
        with_runs.max_by(|one, other| {
            let (one, other) = (&self.windows[*one], &self.windows[*other]);
            let weight = |window: &Window| window.weight(self.page_bytes);
            (weight(one) * other.tree_leaves).cmp(&(weight(other) * one.tree_leaves))
        })
    }

    /// Whether so many leaves are gone that a table read anew would have far fewer windows.
    pub(super) fn is_worn(&self) -> bool {
        let (tree_leaves, run_leaves) = self.leaves();
        self.windows.len() > 8
            && (tree_leaves + run_leaves) * 4 < self.windows.len() as u64 * self.window_leaves
    }

    /// Whether a window has more leaves than any has when the table is read, because runs have come to it since.
    pub(super) fn has_far_too_many_leaves(&self, index: usize) -> bool {
        let Window { tree_leaves, run_leaves, .. } = self.windows[index];
        tree_leaves + run_leaves > 4 * self.window_leaves
    }

    /// The keys of a window.
    pub(super) fn range_of(&self, index: usize) -> Range<Vec<u8>> {
        self.windows[index].lower.clone()..self.upper_of(index)
    }

    fn upper_of(&self, index: usize) -> Vec<u8> {
        self.windows.get(index + 1).map_or_else(|| first_local_key().to_vec(), |next| next.lower.clone())
    }

    /// A window was merged with what all of `runs` have there, up to `end`, and may have become several. A leaf of a run that begins there
    /// has what is left of it behind the end.
    pub(super) fn merged(
        &mut self,
        tree: &Tree,
        runs: &[Arc<Run>],
        index: usize,
        end: &[u8],
    ) -> Result<(), TreeError> {
        let Range { start: lower, end: upper } = self.range_of(index);
        // A leaf that begins at the end of a part is counted with what is behind the part.
        let is_part = *end < upper[..];
        let is_counted = |fence: &[u8]| fence < end || (is_part && fence == end);
        let mut left = Vec::new();
        for run in runs {
            let mut fences = Fences::begin(tree, &run.prefix(), &lower)?;
            let mut leaves = 0;
            while fences.take()?.is_some_and(|fence| is_counted(&fence)) {
                leaves += 1;
            }
            left.push((run, leaves));
        }
        let mut windows = windows_in(tree, &[], self.window_leaves, lower, end)?;
        let rest = windows.len();
        if is_part {
            windows.extend(windows_in(tree, runs, self.window_leaves, end.to_vec(), &upper)?);
        }
        self.windows.splice(index..=index, windows);
        if let Some(next) = self.windows.get_mut(index + rest) {
            left.into_iter()
                .filter(|(_, leaves)| *leaves > 0)
                .for_each(|(run, leaves)| next.add(tree, run, leaves, end));
        }
        Ok(())
    }
}

/// The windows of a range: each of at most `window_leaves` leaves of the main part, or where those are few about twice as many of runs.
fn windows_in(
    tree: &Tree,
    runs: &[Arc<Run>],
    window_leaves: u64,
    from: Vec<u8>,
    to: &[u8],
) -> Result<Vec<Window>, TreeError> {
    let prefixes: Vec<Prefix> = runs.iter().map(|run| run.prefix()).collect();
    let mut fences = MergedFences::begin(tree, &prefixes, &from)?;
    let mut windows = vec![Window::new(from)];
    while let Some((source, lower)) = fences.next_fence()? {
        if lower.as_slice() >= to {
            break;
        }
        let run = source.checked_sub(1).map(|index| &runs[index]);
        let last = windows.last_mut().expect("there is one from the beginning");
        let is_full = match run {
            None => last.tree_leaves >= window_leaves,
            Some(_) => last.run_leaves >= 2 * window_leaves,
        };
        let window = if is_full {
            // Of a leaf of the main part that began before, it has a part.
            windows.push(Window::new(lower.clone()));
            windows.last_mut().expect("it was pushed")
        } else {
            last.tree_leaves += u64::from(run.is_none());
            last
        };
        if let Some(run) = run {
            window.add(tree, run, 1, &lower);
        }
    }
    Ok(windows)
}
