//! Which ranges are windows: about as many bytes of leaves as asked for, whatever lies in the tree and what in runs.
//!
//! ```text
//!   the tree     |  a     b    c ||  d    e   |  ...      leaves; || is where a level-1 page ends
//!   a run        |     p      q         r  s  |  ...
//!   window       |---------------||  if that is at least half of it; else up to the next leaf of the tree, or of a run
//! ```
//! Where a window ends at a level-1 page, no leaf beside it is written again. Only interior pages are read here.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use seawall_types::Lsn;

use super::stored_run::StoredRun;
use super::{MergedWindow, in_order};
use crate::error::TreeError;
use crate::groups::{Group, Groups};
use crate::page::RUN_PREFIX_BYTES;
use crate::tree::Tree;

/// The bounds of a window, and how much lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowBounds {
    /// Its keys; not empty.
    pub range: Range<Vec<u8>>,
    /// Leaves of the tree that may have some of them.
    pub tree_leaves: u64,
    /// Of each run, the leaves that may have some of them: at least one, even where it has no row.
    pub run_leaves: Vec<u64>,
}

/// The lower fences of the leaves of the tree, or of a run in it, by row keys.
struct Fences<'t> {
    groups: Groups<'t>,
    group: Option<Group>,
    next: usize,
    /// The number of a run before each key; none in the tree.
    prefix: Option<[u8; RUN_PREFIX_BYTES]>,
    range: Range<Vec<u8>>,
}

/// Where a leaf begins.
struct Fence {
    key: Vec<u8>,
    is_first_of_group: bool,
}

impl Fences<'_> {
    fn next_fence(&mut self) -> Result<Option<Fence>, TreeError> {
        loop {
            if self.group.as_ref().is_none_or(|group| self.next >= group.leaves.len()) {
                let Some(group) = self.groups.next().transpose()? else { return Ok(None) };
                (self.group, self.next) = (Some(group), 0);
            }
            let Some(group) = &self.group else { return Ok(None) };
            let within = group.leaves_within(&self.range.start, &self.range.end);
            let index = self.next.max(within.start);
            self.next = index + 1;
            if index >= within.end {
                continue;
            }
            let key = &group.leaves[index].lower;
            let own = match &self.prefix {
                Some(prefix) => key.strip_prefix(&prefix[..]).unwrap_or_default(),
                None => key,
            };
            return Ok(Some(Fence { key: own.to_vec(), is_first_of_group: index == 0 }));
        }
    }
}

impl Iterator for Fences<'_> {
    type Item = Result<Fence, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_fence().transpose()
    }
}

/// Where a window may end, the best kind first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndKind {
    Group,
    Leaf,
    LeafOfRun,
}

/// An end that a window may have.
struct End {
    key: Vec<u8>,
    /// Leaves of each source before it.
    counts: Vec<u64>,
    /// Of all.
    leaves: u64,
}

impl Tree {
    /// The window of about `window_bytes` of leaves, those of `runs` included, that begins where `range` does, and ends there at the latest.
    /// With a leaf of each run and of the tree around its ends it has no more. It ends at a border of leaves of the tree if it is at least
    /// half of that then, else at one of a run. Only interior pages are read, about as many as lie above these leaves.
    ///
    /// # Errors
    /// `Io`, or a damaged page.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn window_at(
        &self,
        range: Range<Vec<u8>>,
        runs: &[StoredRun],
        window_bytes: u64,
    ) -> Result<WindowBounds, TreeError> {
        assert!(range.start < range.end, "a window without keys");
        let fences = |prefix: Option<u64>, range: Range<Vec<u8>>| {
            let groups = self.groups(&range.start, &range.end);
            Fences { groups, group: None, next: 0, prefix: prefix.map(u64::to_be_bytes), range }.peekable()
        };
        let mut sources = vec![fences(None, range.clone())];
        for run in runs {
            sources.push(fences(Some(run.rows), run.key(&range.start)..run.key(&range.end)));
        }
        let page_bytes = self.format().page_bytes() as u64;
        let (mut counts, mut leaves) = (vec![0_u64; sources.len()], 0);
        // The last one of each kind.
        let mut ends: [Option<End>; 3] = [const { None }; 3];
        let end = loop {
            let Some((source, fence)) = first_fence(&mut sources)? else { break None };
            if fence.key > range.start {
                let kind = match (source, fence.is_first_of_group) {
                    (0, true) => EndKind::Group,
                    (0, false) => EndKind::Leaf,
                    _ => EndKind::LeafOfRun,
                };
                ends[kind as usize] = Some(End { key: fence.key, counts: counts.clone(), leaves });
                if leaves * page_bytes >= window_bytes {
                    let is_large = |end: &End| end.leaves * page_bytes * 2 >= window_bytes;
                    break ends.into_iter().flatten().find(is_large);
                }
            }
            counts[source] += 1;
            leaves += 1;
        };
        let (end, mut counts) = match end {
            Some(end) => (end.key, end.counts),
            None => (range.end, counts),
        };
        let run_leaves = counts.split_off(1);
        Ok(WindowBounds { range: range.start..end, tree_leaves: counts[0], run_leaves })
    }

    /// Merges all that `runs`, the newest first, have in `range` into the tree, window by window of about `window_bytes` of leaves,
    /// and strikes the runs off the list. They must be all runs that there are, with no row outside of the range. `stamp` is as that of
    /// `swap_windows`. `apply` applies the chunk of each window, and stores a superblock with it that counts the runs; the indexes of
    /// emptied runs are those of the list without the ones that were emptied before.
    ///
    /// **If the power goes** between two windows, the rows of those before are in the tree and out of the runs. The next call does the rest.
    ///
    /// # Errors
    /// `Io`, or a damaged page, and what `apply` gives. What was merged before stays merged: the next call goes on from there.
    pub fn settle_runs(
        self: &Arc<Tree>,
        range: &Range<Vec<u8>>,
        runs: &[StoredRun],
        window_bytes: u64,
        stamp: Lsn,
        apply: &mut dyn FnMut(MergedWindow) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let mut runs = runs.to_vec();
        let mut from = range.start.clone();
        while let Some(first) = self.first_of_runs(&runs, &from)? {
            // From the level-1 page on, unless the window before ended below it.
            let start = match self.groups(&first, &range.end).next().transpose()? {
                Some(group) => from.max(group.lower),
                None => from,
            };
            let bounds = self.window_at(start..range.end.clone(), &runs, window_bytes)?;
            from = bounds.range.end.clone();
            let merged = self.merge_window(bounds.range, &runs, None, &|_| false, stamp)?;
            let emptied = merged.emptied.clone();
            apply(merged)?;
            for index in emptied.into_iter().rev() {
                runs.remove(index);
            }
            if from >= range.end {
                break;
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        // Those that had nothing left, too.
        let parts = runs.iter().flat_map(StoredRun::gone).collect();
        let chunk = self.swap(in_order(parts), &[], stamp)?;
        let emptied = (0..runs.len()).collect();
        apply(MergedWindow { chunk, emptied, segments: Vec::new(), rows: 0, rows_read: 0, leaves: 0 })
    }

    /// The smallest key at or after `from` that a run has.
    fn first_of_runs(&self, runs: &[StoredRun], from: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let mut first: Option<Vec<u8>> = None;
        for run in runs {
            let key = run.first_key(&self.pages, from)?;
            first = first.into_iter().chain(key).min();
        }
        Ok(first)
    }
}

/// The source with the least fence, and the fence.
fn first_fence(sources: &mut [Peekable<Fences<'_>>]) -> Result<Option<(usize, Fence)>, TreeError> {
    let mut first: Option<(usize, Vec<u8>)> = None;
    for (index, source) in sources.iter_mut().enumerate() {
        match source.peek() {
            Some(Ok(fence)) if first.as_ref().is_none_or(|(_, least)| fence.key < *least) => {
                first = Some((index, fence.key.clone()));
            }
            Some(Ok(_)) | None => {}
            Some(Err(_)) => {
                first = Some((index, Vec::new()));
                break;
            }
        }
    }
    let Some((index, _)) = first else { return Ok(None) };
    Ok(sources[index].next().transpose()?.map(|fence| (index, fence)))
}
