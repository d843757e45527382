//! Cutting a key range out of the tree: a dropped table goes a whole subtree at a time.
//!
//! ```text
//!              from                to
//!   [ ... | left | gone | gone | right | ... ]      left and right: boundary pages, rebuilt and joined if small
//! ```
//! Of what lies wholly in the range only interior pages are read, and leaves that refer to overflow extents.

use seawall_types::Lsn;

use crate::chunk::{ChunkBuilder, ChunkPlan};
use crate::error::TreeError;
use crate::merge::{Bounds, ChildList, Edits, RowSet, edit_tree};
use crate::page::{InteriorView, LeafValue, Page, RowKey};
use crate::tree::Tree;

/// A planned cut.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct CutPlan {
    /// The chunk to be applied.
    pub chunk: ChunkPlan,
    /// Whether rows of the range are left: apply the chunk and cut again.
    pub has_more: bool,
}

impl Tree {
    /// Plans a chunk that removes the rows `from..to`, or the first of them: it stops once it has freed
    /// `freed_pages_max` pages.
    ///
    /// # Errors
    /// On a damaged page. The tree is unchanged.
    pub fn cut(
        &self,
        from: &[u8],
        to: &[u8],
        freed_pages_max: u64,
        stamp: Lsn,
    ) -> Result<CutPlan, TreeError> {
        let mut has_more = false;
        let chunk = self.plan_chunk(stamp, |chunk| {
            let mut edit = RangeEdit { from, to, insert: None, inserts: false, freed_pages_max };
            if from < to {
                edit_tree(chunk, &mut edit)?;
            }
            has_more = edit.is_stopped(chunk);
            Ok(())
        })?;
        Ok(CutPlan { chunk, has_more })
    }
}

/// Removes the rows `from..to`, and puts finished leaves in their place.
pub(crate) struct RangeEdit<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
    /// Leaves to link, with their separators. Taken when the place is reached.
    pub(crate) insert: Option<ChildList>,
    /// Leaves are, or were, to be linked: what is right of them starts at `to`.
    pub(crate) inserts: bool,
    pub(crate) freed_pages_max: u64,
}

impl RangeEdit<'_> {
    fn is_stopped(&self, chunk: &ChunkBuilder<'_>) -> bool {
        self.insert.is_none() && chunk.freed_count() >= self.freed_pages_max
    }

    /// Whether a page with these bounds can hold a key of the range.
    fn touches(&self, bounds: Bounds<'_>) -> bool {
        bounds.lower.compare(self.to).is_lt()
            && bounds.upper.is_none_or(|upper| upper.compare(self.from).is_gt())
    }
}

impl Edits for RangeEdit<'_> {
    fn next_child(
        &self,
        chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        next: usize,
    ) -> Option<usize> {
        let index = next.max(view.child_for(self.from));
        if self.is_stopped(chunk) || index >= view.len() {
            return None;
        }
        let lower = view.lower_fence(index).unwrap_or(bounds.lower);
        let upper = view.upper_fence(index).or(bounds.upper);
        self.touches(Bounds { lower, upper }).then_some(index)
    }

    fn reaches(&self, chunk: &ChunkBuilder<'_>, bounds: Bounds<'_>) -> bool {
        !self.is_stopped(chunk) && self.touches(bounds)
    }

    fn removes(&self, level: u8, bounds: Bounds<'_>) -> bool {
        // Higher up the walk goes on inside, so that it can stop between two level-1 pages.
        level <= 1
            && self.insert.is_none()
            && bounds.lower.compare(self.from).is_ge()
            && bounds.upper.is_some_and(|upper| upper.compare(self.to).is_le())
    }

    fn raised<'a>(&'a self, lower: RowKey<'a>) -> RowKey<'a> {
        // A separator inside the range, left over from rows long gone, would claim keys of the linked leaves.
        let is_right_of_leaves = self.inserts && self.insert.is_none();
        if is_right_of_leaves && lower.compare(self.to).is_lt() { RowKey::from(self.to) } else { lower }
    }

    fn packs(&self) -> bool {
        self.inserts
    }

    fn edit_leaf(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        _bounds: Bounds<'_>,
        rows: &mut RowSet,
        out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let view = page.view().leaf().map_err(|damage| chunk.damaged(page.view().id(), damage))?;
        let first = view.search(self.from).unwrap_or_else(|index| index);
        let end = view.search(self.to).unwrap_or_else(|index| index);
        rows.keep(&view, 0..first);
        for index in first..end {
            rows.note_removed();
            if let LeafValue::Overflow(reference) = view.value(index) {
                chunk.free_overflow(reference)?;
            }
        }
        if let Some(inserted) = self.insert.take() {
            rows.insert_children(chunk, &inserted, self.to, out)?;
        }
        rows.keep(&view, end..view.len());
        Ok(())
    }
}
