//! A leaf that a scan has read, of the main part of the tree or of a run, and the range of row keys that it stands for.

use std::ops::{Bound, Range};

use seawall_tree::page::{LeafView, Page};
use seawall_tree::{Direction, LeafPosition};

use crate::row_key::TABLE_BYTES;

/// See the module. Its image never changes, and is that of one version of the tree.
pub(super) struct HeldLeaf {
    position: LeafPosition,
    /// What its keys in the tree have before the row key: nothing, or the table of a run.
    prefix: Vec<u8>,
}

impl HeldLeaf {
    /// The leaf at `position`, where a descent to a row key behind `prefix` ended.
    pub(super) fn new(position: LeafPosition, prefix: &[u8]) -> HeldLeaf {
        HeldLeaf { position, prefix: prefix.to_vec() }
    }

    pub(super) fn page(&self) -> &Page {
        self.position.page()
    }

    pub(super) fn leaf(&self) -> LeafView<'_> {
        self.position.leaf()
    }

    /// The version of the tree in which it was found.
    pub(super) fn version(&self) -> u64 {
        self.position.version()
    }

    /// The first row key of its range; `None` at the left end of the main part or of the run.
    fn lower(&self) -> Option<&[u8]> {
        self.row_key_of(self.position.lower())
    }

    /// The row key after its range; `None` at the right end.
    fn upper(&self) -> Option<&[u8]> {
        self.row_key_of(self.position.upper())
    }

    /// A fence without the prefix lies outside of the run, since the key that led here lies between both fences.
    fn row_key_of<'f>(&self, fence: Option<&'f [u8]>) -> Option<&'f [u8]> {
        fence?.strip_prefix(&self.prefix[..])
    }

    /// The row key where its range ends in `direction`; `None` if nothing comes behind it.
    pub(super) fn far_fence(&self, direction: Direction) -> Option<&[u8]> {
        match direction {
            Direction::Forward => self.upper(),
            Direction::Reverse => self.lower(),
        }
    }

    /// Whether a scan in `direction` whose range begins at `near` finds its first row here, if there is one before the far fence.
    pub(super) fn covers(&self, near: &Bound<Vec<u8>>, direction: Direction) -> bool {
        let (lower, upper) = (self.lower(), self.upper());
        match (direction, near) {
            (Direction::Forward, Bound::Unbounded) => lower.is_none(),
            (Direction::Reverse, Bound::Unbounded) => upper.is_none(),
            // Backwards from an excluded key, the rows below it count.
            (Direction::Reverse, Bound::Excluded(key)) => {
                lower.is_none_or(|lower| lower < &key[..]) && upper.is_none_or(|upper| &key[..] <= upper)
            }
            (_, Bound::Included(key) | Bound::Excluded(key)) => {
                lower.is_none_or(|lower| lower <= &key[..]) && upper.is_none_or(|upper| &key[..] < upper)
            }
        }
    }

    /// Its rows in `from..to`, up to the end of the batch in `direction`.
    pub(super) fn rows_in(
        &self,
        from: &Bound<Vec<u8>>,
        to: &Bound<Vec<u8>>,
        batch_end: Option<&[u8]>,
        direction: Direction,
    ) -> Range<usize> {
        let mut start = match from {
            Bound::Included(key) => self.rows_below(key),
            Bound::Excluded(key) => self.rows_up_to(key),
            Bound::Unbounded => self.rows_below(&[]),
        };
        let mut end = match to {
            Bound::Included(key) => self.rows_up_to(key),
            Bound::Excluded(key) => self.rows_below(key),
            Bound::Unbounded => self.all_rows(),
        };
        match (direction, batch_end) {
            // All rows of the leaf lie before its own fence.
            (_, Some(fence)) if self.far_fence(direction) == Some(fence) => {}
            (Direction::Forward, Some(fence)) => end = end.min(self.rows_below(fence)),
            (Direction::Reverse, Some(fence)) => start = start.max(self.rows_below(fence)),
            (_, None) => {}
        }
        start..end.max(start)
    }

    fn search(&self, row_key: &[u8]) -> Result<usize, usize> {
        if self.prefix.is_empty() {
            return self.leaf().search(row_key);
        }
        self.leaf().search(&[&self.prefix, row_key].concat())
    }

    /// How many rows, from the first one of the page on, have smaller keys.
    fn rows_below(&self, row_key: &[u8]) -> usize {
        self.search(row_key).unwrap_or_else(|above| above)
    }

    /// How many have this key or a smaller one.
    fn rows_up_to(&self, row_key: &[u8]) -> usize {
        self.search(row_key).map_or_else(|above| above, |index| index + 1)
    }

    /// How many lie before the end of the main part, or of the run.
    fn all_rows(&self) -> usize {
        match self.prefix.first_chunk::<TABLE_BYTES>() {
            None => self.leaf().len(),
            Some(table) => {
                let next = u64::from_be_bytes(*table) + 1;
                self.leaf().search(&next.to_be_bytes()).unwrap_or_else(|above| above)
            }
        }
    }
}
