//! Cutting key ranges out of the tree: a dropped table goes a whole subtree at a time, and many go in one chunk.
//!
//! ```text
//!              start              end    start   end
//!   [ ... | left | gone | gone | right | ... | both | ... ]    left, right, both: boundary pages, rebuilt and joined if small
//! ```
//! What it takes is a [swap](crate::swap) that puts nothing in their place, and can stop on the way.

use std::ops::Range;

use seawall_types::Lsn;

use crate::chunk::ChunkPlan;
use crate::error::TreeError;
use crate::merge::OldValues;
use crate::swap::{Limits, Piece, Swap};
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
        let pieces = joined(ranges).into_iter().map(|range| Piece::cut(range, OldValues::Free));
        let mut cuts = Swap::new(pieces.collect(), Limits { freed_pages_max, budget_bytes });
        let mut is_stopped = false;
        let chunk = self.plan_chunk(stamp, |chunk| {
            cuts.edit(chunk)?;
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
