//! Merging sorted changes into the tree, one chunk at a time.
//!
//! ```text
//!   changes, ascending ---> leaf ---> rows kept and changed ---> 0..n leaves ---> parent ... ---> root
//! ```
//! A chunk takes changes until its images have used the budget, then finishes the pages above what it has changed; the
//! next chunk goes on from there. Each chunk ends with a valid tree, so a checkpoint may stop after any of them.
//!
//! Splits: what is added behind the last row of a leaf packs the leaves full (more will follow); otherwise two leaves
//! are made equal, and more than two 90% full. Joins: a leaf that comes out less than a third full is merged with the
//! next one under the same parent. The walk is in `edit`, the building of leaves in `rows`, of parents in `children`.
//! Several threads can do it, each with changes of its own: `parts`.

mod bounds;
mod children;
mod edit;
mod parts;
mod read;
mod rows;

pub(crate) use bounds::Bounds;
pub(crate) use children::ChildList;
pub use edit::OldValues;
pub(crate) use edit::{Edits, edit_tree};
pub use parts::{DivisibleSource, Merge};
pub(crate) use read::{expect_within, leaf_parent};
pub(crate) use rows::RowSet;

use std::cell::Cell;

use seawall_types::Lsn;

use crate::chunk::{ChunkBuilder, ChunkPlan};
use crate::error::TreeError;
use crate::page::{DELETED_OUTSIDE_OF_RUNS, InteriorView, LeafValue, LeafView, Page, PageFormat, RowKey};
use crate::tree::Tree;

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It has this value from now on.
    Put(&'a [u8]),
    /// It is gone.
    Delete,
}

impl Change<'_> {
    /// Bytes of the value that go into a leaf, about.
    fn bytes_in_leaf(&self, format: &PageFormat) -> usize {
        match self {
            Change::Put(value) if value.len() <= format.max_inline_value_bytes() => value.len(),
            Change::Put(_) | Change::Delete => 0,
        }
    }
}

/// Changes in strictly ascending key order.
pub trait MergeSource {
    /// The next change: row key and what to do. `None` at the end.
    fn peek(&self) -> Option<(&[u8], Change<'_>)>;

    /// Goes on to the next one; only called after `peek` returned a change.
    fn advance(&mut self);

    /// Gives the keys of the changes from the one at hand on to `visit`, in order, until it returns `false`. Takes none of
    /// them. It is asked before leaves are read that are not cached, so that they can be read ahead; a source that cannot
    /// tell gives none.
    fn look_ahead(&self, _visit: &mut dyn FnMut(&[u8]) -> bool) {}

    /// Whether the value that the tree holds for the change at hand must be kept for old snapshots. Asked once for each
    /// change, before `advance`.
    fn keep_replaced(&self) -> bool {
        false
    }

    /// The value that the tree holds before the change at hand; `None` if it has no such row. Called before `advance`,
    /// and before anyone can see the tree without it.
    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        let _: (&[u8], Option<&[u8]>) = (key, value);
    }
}

impl Tree {
    /// Plans a chunk with the next changes of `source`: as many as fit `budget_bytes` of page images, at least one. It
    /// has taken them all when `source.peek()` is `None` afterwards. `stamp` is at least the stamp of every change.
    ///
    /// The images of a chunk exceed the budget by no more than the pages above the last change and one long value.
    /// Changes that make no difference (a missing key deleted, the same value put) write nothing.
    ///
    /// # Errors
    /// On a damaged page, or a key longer than `max_key_bytes`. The tree is unchanged, but `source` has moved on: merge
    /// again from its beginning, which is harmless as changes are absolute.
    pub fn merge_chunk(
        &self,
        source: &mut dyn MergeSource,
        budget_bytes: u64,
        stamp: Lsn,
    ) -> Result<ChunkPlan, TreeError> {
        self.plan_chunk(stamp, |chunk| merge_into(chunk, source, budget_bytes))
    }
}

/// Merges the changes of one source, by one thread.
fn merge_into(
    chunk: &mut ChunkBuilder<'_>,
    source: &mut dyn MergeSource,
    budget_bytes: u64,
) -> Result<(), TreeError> {
    if source.peek().is_none() {
        return Ok(());
    }
    let mut changes = ChangedRows::new(source, budget_bytes, None);
    edit_tree(chunk, &mut changes)?;
    chunk.statistics.changes += changes.taken;
    Ok(())
}

/// The changes of a source on their way into leaves.
struct ChangedRows<'s> {
    source: &'s mut dyn MergeSource,
    budget_bytes: u64,
    /// No change at or behind it is taken, and no leaf that starts there is joined.
    limit: Option<&'s [u8]>,
    taken: u64,
    /// The budget was used up; it stays so, whatever the leaf at hand then turns out to need.
    is_stopped: Cell<bool>,
    key: Vec<u8>,
    old_value: Vec<u8>,
}

impl<'s> ChangedRows<'s> {
    fn new(source: &'s mut dyn MergeSource, budget_bytes: u64, limit: Option<&'s [u8]>) -> ChangedRows<'s> {
        ChangedRows {
            source,
            budget_bytes,
            limit,
            taken: 0,
            is_stopped: Cell::new(false),
            key: Vec::new(),
            old_value: Vec::new(),
        }
    }

    fn next_key(&self, used_bytes: u64, bounds: Bounds<'_>) -> Option<(&[u8], Change<'_>)> {
        if self.is_stopped.get() || (self.taken > 0 && used_bytes >= self.budget_bytes) {
            self.is_stopped.set(true);
            return None;
        }
        let (key, change) = self.source.peek()?;
        let within = bounds.upper.is_none_or(|upper| upper.compare(key).is_gt())
            && self.limit.is_none_or(|limit| key < limit);
        within.then_some((key, change))
    }

    /// Hands the value before the change at hand to the source.
    fn hand_over(&mut self, chunk: &ChunkBuilder<'_>, old: Option<LeafValue<'_>>) -> Result<(), TreeError> {
        self.key.clear();
        if let Some((key, _)) = self.source.peek() {
            self.key.extend_from_slice(key);
        }
        match old {
            None | Some(LeafValue::Deleted) => self.source.replaced(&self.key, None),
            Some(LeafValue::Inline(value)) => self.source.replaced(&self.key, Some(value)),
            Some(LeafValue::Overflow(reference)) => {
                self.old_value = chunk.tree.pages.assemble(reference)?;
                self.source.replaced(&self.key, Some(&self.old_value));
            }
        }
        Ok(())
    }

    /// Applies the change at hand, which concerns row `at` of the leaf or a row that would stand there.
    fn apply(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        view: &LeafView<'_>,
        found: Result<usize, usize>,
        rows: &mut RowSet,
    ) -> Result<(), TreeError> {
        let old = found.ok().map(|index| view.value(index));
        if self.source.keep_replaced() {
            self.hand_over(chunk, old)?;
        }
        let Some((key, change)) = self.source.peek() else { return Ok(()) };
        match (change, old, found) {
            (Change::Put(new), Some(LeafValue::Inline(value)), Ok(index)) if new == value => {
                rows.keep(view, index..index + 1);
                return Ok(());
            }
            (Change::Put(_), ..) | (Change::Delete, Some(_), _) => {}
            (Change::Delete, None, _) => return Ok(()),
        }
        if let Some(LeafValue::Overflow(reference)) = old {
            chunk.free_overflow(reference)?;
        }
        match change {
            Change::Delete => rows.note_removed(),
            Change::Put(value) if value.len() <= chunk.format.max_inline_value_bytes() => {
                rows.put(key, LeafValue::Inline(value), old.is_some());
            }
            Change::Put(value) => {
                let reference = chunk.write_overflow(value)?;
                rows.put(key, LeafValue::Overflow(reference), old.is_some());
            }
        }
        Ok(())
    }
}

impl Edits for ChangedRows<'_> {
    fn next_child(
        &self,
        chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        _next: usize,
    ) -> Option<usize> {
        let (key, _) = self.next_key(chunk.used_bytes(), bounds)?;
        Some(view.child_for(key))
    }

    fn each_ahead(&self, view: &InteriorView<'_>, bounds: Bounds<'_>, visit: &mut dyn FnMut(usize) -> bool) {
        let mut last = None;
        self.source.look_ahead(&mut |key| {
            let is_before = |end: RowKey<'_>| end.compare(key).is_gt();
            if !bounds.upper.is_none_or(is_before) || self.limit.is_some_and(|limit| key >= limit) {
                return false;
            }
            let is_in_last = last.is_some_and(|last| view.upper_fence(last).is_none_or(is_before));
            if is_in_last {
                return true;
            }
            let index = view.child_for(key);
            last = Some(index);
            visit(index)
        });
    }

    fn may_join(&self, lower: RowKey<'_>) -> bool {
        self.limit.is_none_or(|limit| lower.compare(limit).is_lt())
    }

    fn edit_leaf(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        bounds: Bounds<'_>,
        rows: &mut RowSet,
        out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let view = read::leaf_of(chunk.tree, page)?;
        let mut kept = 0;
        loop {
            let used_bytes = chunk.used_bytes() + rows.waiting_bytes() as u64;
            let Some((key, _)) = self.next_key(used_bytes, bounds) else { break };
            if key.len() > chunk.format.max_key_bytes() {
                return Err(TreeError::key_too_long(key.len(), chunk.format.max_key_bytes()));
            }
            let found = view.search(key);
            let at = found.unwrap_or_else(|index| index);
            assert!(at >= kept, "changes must come in ascending key order");
            if view.has_deleted() && found.is_ok_and(|index| view.value(index) == LeafValue::Deleted) {
                return Err(chunk.damaged(page.view().id(), DELETED_OUTSIDE_OF_RUNS));
            }
            rows.keep(&view, kept..at);
            self.apply(chunk, &view, found, rows)?;
            kept = at + usize::from(found.is_ok());
            self.source.advance();
            self.taken += 1;
            rows.build_some(chunk, out)?;
        }
        rows.keep(&view, kept..view.len());
        Ok(())
    }
}
