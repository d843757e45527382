//! Grafting: leaves that a bulk load has built take the place of all rows in their range.
//!
//! ```text
//!              from                                to
//!   [ ... | left | (rows that go)               | right | ... ]
//!                 ^ finished leaves are linked here
//! ```

use crate::chunk::ChunkBuilder;
use crate::error::TreeError;
use crate::merge::{Bounds, ChildList, Edits, RowSet};
use crate::page::{InteriorView, LeafValue, Page, RowKey};

/// Removes the rows `from..to`, and puts finished leaves in their place.
pub(crate) struct Graft<'a> {
    from: &'a [u8],
    to: &'a [u8],
    /// Leaves to link, with their separators. Taken when the place is reached: what is right of them starts at `to`.
    leaves: Option<ChildList>,
}

impl<'a> Graft<'a> {
    pub(crate) fn new(from: &'a [u8], to: &'a [u8], leaves: ChildList) -> Graft<'a> {
        Graft { from, to, leaves: Some(leaves) }
    }

    /// Whether a page with these bounds can hold a key of the range.
    fn touches(&self, bounds: Bounds<'_>) -> bool {
        bounds.lower.compare(self.to).is_lt()
            && bounds.upper.is_none_or(|upper| upper.compare(self.from).is_gt())
    }
}

impl Edits for Graft<'_> {
    fn next_child(
        &self,
        _chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        next: usize,
    ) -> Option<usize> {
        let index = next.max(view.child_for(self.from));
        if index >= view.len() {
            return None;
        }
        let lower = view.lower_fence(index).unwrap_or(bounds.lower);
        let upper = view.upper_fence(index).or(bounds.upper);
        self.touches(Bounds { lower, upper }).then_some(index)
    }

    fn reaches(&self, _chunk: &ChunkBuilder<'_>, bounds: Bounds<'_>) -> bool {
        self.touches(bounds)
    }

    fn removes(&mut self, level: u8, bounds: Bounds<'_>) -> bool {
        // The leaves are linked first, in the page where the range starts.
        level <= 1
            && self.leaves.is_none()
            && bounds.lower.compare(self.from).is_ge()
            && bounds.upper.is_some_and(|upper| upper.compare(self.to).is_le())
    }

    fn raised<'a>(&'a self, lower: RowKey<'a>) -> RowKey<'a> {
        // A separator inside the range, left over from rows long gone, would claim keys of the linked leaves.
        if self.leaves.is_none() && lower.compare(self.to).is_lt() { RowKey::from(self.to) } else { lower }
    }

    fn packs(&self) -> bool {
        true
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
        if let Some(leaves) = self.leaves.take() {
            rows.insert_children(chunk, &leaves, self.to, out)?;
        }
        rows.keep(&view, end..view.len());
        Ok(())
    }
}
