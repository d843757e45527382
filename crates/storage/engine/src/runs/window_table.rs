//! The table of windows: how many leaves of the main part, and of runs, each range of keys has.
//!
//! ```text
//!   windows by key   [ 2000 leaves | 40 of runs ][ 1900 | 700 ][ 2010 | 90 ] ...
//!                                                     ^ the fullest
//! ```
//! It is read from interior pages alone, and kept up to date: a run adds its leaves, a window that was merged is looked at again, and where
//! runs have become one, the leaves of that count in the place of theirs.
//! Nothing of it is on disk.

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
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowTable {
    /// Ascending. The first one begins with the first key of users.
    pub(super) windows: Vec<Window>,
    window_leaves: u64,
    /// The runs whose leaves are counted.
    runs: Vec<RunNumber>,
}

impl WindowTable {
    /// Reads it: windows of at most `window_leaves` leaves of the main part, and the leaves of `runs` in them.
    pub(super) fn read(tree: &Tree, runs: &[Arc<Run>], window_leaves: u64) -> Result<WindowTable, TreeError> {
        let (from, to) = (first_user_key(), first_local_key().to_vec());
        let windows = windows_in(tree, &prefixes_of(runs), window_leaves, from, &to)?;
        Ok(WindowTable { windows, window_leaves, runs: runs.iter().map(|run| run.number).collect() })
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
        self.count(tree, run, range, |leaves| *leaves = leaves.saturating_sub(1))
    }

    /// A run has got rows in such a range: its leaves that begin there are counted.
    pub(super) fn put_in(&mut self, tree: &Tree, run: &Run, range: KeyRange<'_>) -> Result<(), TreeError> {
        if !self.runs.contains(&run.number) {
            self.runs.push(run.number);
        }
        self.count(tree, run, range, |leaves| *leaves += 1)
    }

    fn count(
        &mut self,
        tree: &Tree,
        run: &Run,
        (from, to): KeyRange<'_>,
        count: impl Fn(&mut u64),
    ) -> Result<(), TreeError> {
        let from = from.max(&first_user_key()[..]).to_vec();
        let mut fences = Fences::begin(tree, &run.prefix(), &from)?;
        while let Some(fence) = fences.take()?.filter(|fence| to.is_none_or(|to| &fence[..] < to)) {
            let above = self.windows.partition_point(|window| window.lower <= fence);
            count(&mut self.windows[above.saturating_sub(1)].run_leaves);
        }
        Ok(())
    }

    /// Leaves of the main part and of runs.
    pub(super) fn leaves(&self) -> (u64, u64) {
        let sum = |leaves: fn(&Window) -> u64| self.windows.iter().map(leaves).sum();
        (sum(|window| window.tree_leaves), sum(|window| window.run_leaves))
    }

    /// The window with the most leaves of runs for each of its own.
    pub(super) fn fullest(&self) -> Option<usize> {
        let with_runs = (0..self.windows.len()).filter(|index| self.windows[*index].run_leaves > 0);
        with_runs.max_by(|one, other| {
            let (one, other) = (&self.windows[*one], &self.windows[*other]);
            (one.run_leaves * other.tree_leaves).cmp(&(other.run_leaves * one.tree_leaves))
        })
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
        let mut left = 0;
        for run in runs {
            let mut fences = Fences::begin(tree, &run.prefix(), &lower)?;
            while fences.take()?.is_some_and(|fence| is_counted(&fence)) {
                left += 1;
            }
        }
        let mut windows = windows_in(tree, &[], self.window_leaves, lower, end)?;
        let rest = windows.len();
        if is_part {
            windows.extend(windows_in(tree, &prefixes_of(runs), self.window_leaves, end.to_vec(), &upper)?);
        }
        self.windows.splice(index..=index, windows);
        if let Some(next) = self.windows.get_mut(index + rest) {
            next.run_leaves += left;
        }
        Ok(())
    }
}

/// The windows of a range: each of at most `window_leaves` leaves of the main part, or where those are few about twice as many of runs.
fn windows_in(
    tree: &Tree,
    prefixes: &[Prefix],
    window_leaves: u64,
    from: Vec<u8>,
    to: &[u8],
) -> Result<Vec<Window>, TreeError> {
    let mut fences = MergedFences::begin(tree, prefixes, &from)?;
    let mut windows = vec![Window { lower: from, tree_leaves: 1, run_leaves: 0 }];
    while let Some((source, lower)) = fences.next_fence()? {
        if lower.as_slice() >= to {
            break;
        }
        let last = windows.last_mut().expect("there is one from the beginning");
        let (is_full, of_run) = match source {
            0 => (last.tree_leaves >= window_leaves, 0),
            _ => (last.run_leaves >= 2 * window_leaves, 1),
        };
        if is_full {
            // Of a leaf of the main part that began before, it has a part.
            windows.push(Window { lower, tree_leaves: 1, run_leaves: of_run });
        } else {
            last.tree_leaves += 1 - of_run;
            last.run_leaves += of_run;
        }
    }
    Ok(windows)
}

fn prefixes_of(runs: &[Arc<Run>]) -> Vec<Prefix> {
    runs.iter().map(|run| run.prefix()).collect()
}
