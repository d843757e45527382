//! Scans: leaf by leaf, each leaf found by a descent of its own.
//!
//! ```text
//!   leaf_for(key) --> leaf with the range lower..upper --> its rows, without any check --> leaf_for(upper) --> ...
//! ```
//! There are no links between leaves: a scan that has used up a leaf descends again to the leaf that begins at its upper
//! fence. A descent costs a small part of what the rows of a leaf do, and a chunk may be published at any moment
//! between two leaves without a scan noticing.

use crossbeam_epoch as epoch;
use seawall_types::{Lsn, PageId};

use crate::error::TreeError;
use crate::page::{InteriorView, LeafView, Page, Row, RowKey};
use crate::published::{HeldPage, PublishedPages};

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To greater keys.
    Forward,
    /// To smaller keys.
    Reverse,
}

/// One end of a leaf's range. Keeps its buffer from leaf to leaf.
#[derive(Clone, Debug, Default)]
struct Fence {
    key: Vec<u8>,
    is_set: bool,
}

impl Fence {
    fn narrow(&mut self, key: Option<RowKey<'_>>) {
        if let Some(key) = key {
            self.key.clear();
            key.append_to(&mut self.key);
            self.is_set = true;
        }
    }

    fn get(&self) -> Option<&[u8]> {
        self.is_set.then_some(&self.key)
    }
}

#[derive(Clone, Debug, Default)]
struct Fences {
    lower: Fence,
    upper: Fence,
    parent: Option<ParentPage>,
}

/// The interior page above a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentPage {
    /// Its number.
    pub id: PageId,
    /// The stamp of the merge that last changed which leaves are below it, or where they part.
    pub lsn: Lsn,
}

/// A leaf, the range of keys it stands for, and the version of the tree in which it does.
#[derive(Clone, Debug)]
pub struct LeafPosition {
    page: Page,
    version: u64,
    fences: Fences,
    /// Buffers for the next leaf's fences, and for the key that leads to it.
    next_fences: Fences,
    next_key: Vec<u8>,
}

impl LeafPosition {
    /// The leaf.
    #[inline]
    pub fn leaf(&self) -> LeafView<'_> {
        self.page.view().leaf().expect("a position is made only of a leaf")
    }

    /// Its page.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// The smallest key of its range; `None` at the left end of the tree.
    pub fn lower(&self) -> Option<&[u8]> {
        self.fences.lower.get()
    }

    /// The key after its range; `None` at the right end of the tree.
    pub fn upper(&self) -> Option<&[u8]> {
        self.fences.upper.get()
    }

    /// The page above the leaf; `None` if there is none.
    pub fn parent(&self) -> Option<ParentPage> {
        self.fences.parent
    }

    /// The version of the tree in which the leaf was found, which reading an overflow value asks for.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl PublishedPages {
    /// The leaf whose range holds `key`; in reverse, the one whose range holds the greatest key below `key`. It need
    /// not have a row there: a scan goes on at its fence.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn leaf_for(&self, key: &[u8], direction: Direction) -> Result<LeafPosition, TreeError> {
        let mut fences = Fences::default();
        let (page, version) = self.locate(key, direction, &mut fences)?;
        Ok(LeafPosition { page, version, fences, next_fences: Fences::default(), next_key: Vec::new() })
    }

    /// As `leaf_for`; moves `position` there, reusing its buffers. On an error it stays where it is.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn move_to(
        &self,
        position: &mut LeafPosition,
        key: &[u8],
        direction: Direction,
    ) -> Result<(), TreeError> {
        let (page, version) = self.locate(key, direction, &mut position.next_fences)?;
        std::mem::swap(&mut position.fences, &mut position.next_fences);
        position.page = page;
        position.version = version;
        Ok(())
    }

    /// Moves `position` to the next leaf in `direction`; `false`, and no move, if it is the last one.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn move_on(&self, position: &mut LeafPosition, direction: Direction) -> Result<bool, TreeError> {
        let fence = match direction {
            Direction::Forward => position.fences.upper.get(),
            Direction::Reverse => position.fences.lower.get(),
        };
        let Some(fence) = fence else { return Ok(false) };
        let mut key = std::mem::take(&mut position.next_key);
        key.clear();
        key.extend_from_slice(fence);
        let moved = self.move_to(position, &key, direction);
        position.next_key = key;
        moved.map(|()| true)
    }

    /// The leaf for `key` and the version in which it is; writes its fences.
    fn locate(
        &self,
        key: &[u8],
        direction: Direction,
        fences: &mut Fences,
    ) -> Result<(Page, u64), TreeError> {
        loop {
            let guard = epoch::pin();
            let version = self.version();
            fences.lower.is_set = false;
            fences.upper.is_set = false;
            fences.parent = None;
            let mut choose = |view: &InteriorView<'_>| {
                let index = match direction {
                    Direction::Forward => view.child_for(key),
                    Direction::Reverse => view.child_below(key),
                };
                fences.lower.narrow(view.lower_fence(index));
                fences.upper.narrow(view.upper_fence(index));
                fences.parent = Some(ParentPage { id: view.id(), lsn: view.lsn() });
                index
            };
            let found = self.descend(version, &guard, &mut choose).and_then(|held| match held {
                HeldPage::Owned(page) => Ok(page),
                HeldPage::Cached(view) => self.shared_page(view.reference(), version),
            });
            if self.is_current(version) {
                let page = found?;
                page.view().leaf().map_err(|damage| self.damaged(page.view().id(), damage))?;
                return Ok((page, version));
            }
        }
    }
}

/// A place between or at rows of the tree, for scans that look at the tree alone.
#[derive(Clone, Debug)]
pub struct LeafCursor {
    position: LeafPosition,
    /// Of the row it stands at; the number of rows if it stands after the last one of the leaf.
    index: usize,
}

impl LeafCursor {
    /// A cursor at the first row with `key` or a greater one.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn seek(pages: &PublishedPages, key: &[u8]) -> Result<LeafCursor, TreeError> {
        let position = pages.leaf_for(key, Direction::Forward)?;
        let index = position.leaf().search(key).unwrap_or_else(|above| above);
        let mut cursor = LeafCursor { position, index };
        cursor.skip_used_up_leaves(pages)?;
        Ok(cursor)
    }

    /// A cursor at the last row with a key below `key`, and whether there is one; if not, it stands at the first row.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn seek_below(pages: &PublishedPages, key: &[u8]) -> Result<(LeafCursor, bool), TreeError> {
        let position = pages.leaf_for(key, Direction::Reverse)?;
        let index = position.leaf().search(key).unwrap_or_else(|above| above);
        let mut cursor = LeafCursor { position, index };
        let found = cursor.retreat(pages)?;
        Ok((cursor, found))
    }

    /// The row the cursor stands at; `None` after the last one.
    #[inline]
    pub fn row(&self) -> Option<Row<'_>> {
        let leaf = self.position.leaf();
        (self.index < leaf.len()).then(|| leaf.row(self.index))
    }

    /// The leaf it stands in.
    pub fn position(&self) -> &LeafPosition {
        &self.position
    }

    /// Index in that leaf.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Moves to the next row, or after the last one.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    #[inline]
    pub fn advance(&mut self, pages: &PublishedPages) -> Result<(), TreeError> {
        self.index += 1;
        if self.index < self.position.leaf().len() { Ok(()) } else { self.skip_used_up_leaves(pages) }
    }

    /// Moves to the row before; `false`, and no move, if there is none.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn retreat(&mut self, pages: &PublishedPages) -> Result<bool, TreeError> {
        while self.index == 0 {
            if !pages.move_on(&mut self.position, Direction::Reverse)? {
                return Ok(false);
            }
            // A chunk published in between may have moved rows: what counts is the fence that led here.
            self.index = self.position.leaf().search(&self.position.next_key).unwrap_or_else(|above| above);
        }
        self.index -= 1;
        Ok(true)
    }

    fn skip_used_up_leaves(&mut self, pages: &PublishedPages) -> Result<(), TreeError> {
        while self.index >= self.position.leaf().len() {
            if !pages.move_on(&mut self.position, Direction::Forward)? {
                self.index = self.position.leaf().len();
                return Ok(());
            }
            self.index = self.position.leaf().search(&self.position.next_key).unwrap_or_else(|above| above);
        }
        Ok(())
    }
}
