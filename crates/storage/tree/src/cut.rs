//! Cutting key ranges out of the tree: a dropped table goes a whole subtree at a time, and many go in one chunk.
//!
//! ```text
//!              start              end    start   end
//!   [ ... | left | gone | gone | right | ... | both | ... ]    left, right, both: boundary pages, rebuilt and joined if small
//! ```
//! Of what lies wholly in a range only interior pages are read, and leaves that refer to overflow extents.

use std::ops::Range;

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
    /// What may still hold rows: apply the chunk and cut this.
    pub rest: Vec<Range<Vec<u8>>>,
}

impl Tree {
    /// Plans a chunk that removes the rows of `ranges`, which ascend and do not overlap, or the first of them: it stops
    /// once it has freed `freed_pages_max` pages, or its images have used `budget_bytes`.
    ///
    /// # Errors
    /// On a damaged page. The tree is unchanged.
    ///
    /// # Panics
    /// If the ranges do not ascend.
    pub fn cut(
        &self,
        ranges: &[Range<Vec<u8>>],
        freed_pages_max: u64,
        budget_bytes: u64,
        stamp: Lsn,
    ) -> Result<CutPlan, TreeError> {
        let mut cuts =
            Cuts { ranges: joined(ranges), freed_pages_max, budget_bytes, reached: Some(Vec::new()) };
        let mut is_stopped = false;
        let chunk = self.plan_chunk(stamp, |chunk| {
            if !cuts.ranges.is_empty() {
                edit_tree(chunk, &mut cuts)?;
            }
            is_stopped = cuts.is_stopped(chunk);
            Ok(())
        })?;
        let rest = if is_stopped { cuts.into_rest() } else { Vec::new() };
        Ok(CutPlan { chunk, rest })
    }
}

/// The ranges that hold keys, neighbours made one: a page with rows of two dropped tables and no other goes whole.
fn joined(ranges: &[Range<Vec<u8>>]) -> Vec<Range<Vec<u8>>> {
    let mut joined: Vec<Range<Vec<u8>>> = Vec::new();
    for range in ranges.iter().filter(|range| range.start < range.end) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end.clone_from(&range.end),
            last => {
                assert!(last.is_none_or(|last| last.end < range.start), "ranges to be cut must ascend");
                joined.push(range.clone());
            }
        }
    }
    joined
}

/// Removes the rows of ranges.
struct Cuts {
    ranges: Vec<Range<Vec<u8>>>,
    freed_pages_max: u64,
    budget_bytes: u64,
    /// All below it is done; `None` if everything is.
    reached: Option<Vec<u8>>,
}

impl Cuts {
    fn is_stopped(&self, chunk: &ChunkBuilder<'_>) -> bool {
        chunk.freed_count() >= self.freed_pages_max || chunk.used_bytes() >= self.budget_bytes
    }

    fn into_rest(self) -> Vec<Range<Vec<u8>>> {
        let Some(reached) = self.reached else { return Vec::new() };
        let left = self.ranges.into_iter().filter(|range| range.end > reached);
        left.map(|range| range.start.max(reached.clone())..range.end).collect()
    }

    /// The ranges that end above `lower`.
    fn ranges_above(&self, lower: RowKey<'_>) -> &[Range<Vec<u8>>] {
        &self.ranges[self.ranges.partition_point(|range| lower.compare(&range.end).is_ge())..]
    }

    /// Whether a page with these bounds can hold a key of a range.
    fn touches(&self, bounds: Bounds<'_>) -> bool {
        let first = self.ranges_above(bounds.lower).first();
        first.is_some_and(|range| bounds.upper.is_none_or(|upper| upper.compare(&range.start).is_gt()))
    }

    /// Notes that a page is done. When the walk has stopped inside a page that is then joined with the next one, the next
    /// one may be done and what is before it not.
    fn note_done(&mut self, bounds: Bounds<'_>) {
        let Some(reached) = &self.reached else { return };
        let next = self.ranges_above(RowKey::from(&reached[..])).first();
        let was_left = next.is_some_and(|range| bounds.lower.compare(reached.max(&range.start)).is_gt());
        if !was_left {
            self.reached = bounds.upper.map(|upper| upper.to_vec());
        }
    }
}

impl Edits for Cuts {
    fn next_child(
        &self,
        chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        next: usize,
    ) -> Option<usize> {
        if self.is_stopped(chunk) {
            return None;
        }
        let range = self.ranges_above(view.lower_fence(next).unwrap_or(bounds.lower)).first()?;
        let index = next.max(view.child_for(&range.start));
        let lower = view.lower_fence(index).unwrap_or(bounds.lower);
        let upper = view.upper_fence(index).or(bounds.upper);
        self.touches(Bounds { lower, upper }).then_some(index)
    }

    fn reaches(&self, chunk: &ChunkBuilder<'_>, bounds: Bounds<'_>) -> bool {
        !self.is_stopped(chunk) && self.touches(bounds)
    }

    fn removes(&mut self, level: u8, bounds: Bounds<'_>) -> bool {
        // Higher up the walk goes on inside, so that it can stop between two level-1 pages.
        let within = |range: &Range<Vec<u8>>| {
            bounds.lower.compare(&range.start).is_ge()
                && bounds.upper.is_some_and(|upper| upper.compare(&range.end).is_le())
        };
        let removes = level <= 1 && self.ranges_above(bounds.lower).first().is_some_and(within);
        if removes {
            self.note_done(bounds);
        }
        removes
    }

    fn edit_leaf(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        bounds: Bounds<'_>,
        rows: &mut RowSet,
        _out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let view = page.view().leaf().map_err(|damage| chunk.damaged(page.view().id(), damage))?;
        let mut kept = 0;
        for range in self.ranges_above(bounds.lower) {
            let first = view.search(&range.start).unwrap_or_else(|index| index);
            if first == view.len() {
                break;
            }
            let end = view.search(&range.end).unwrap_or_else(|index| index);
            rows.keep(&view, kept..first);
            for index in first..end {
                rows.note_removed();
                if let LeafValue::Overflow(reference) = view.value(index) {
                    chunk.free_overflow(reference)?;
                }
            }
            kept = end;
        }
        rows.keep(&view, kept..view.len());
        self.note_done(bounds);
        Ok(())
    }
}
