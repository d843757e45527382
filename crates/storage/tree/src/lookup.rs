//! Point reads: one descent from the root to the leaf whose range holds a key.
//!
//! A descent is optimistic (see `published`): it takes no lock, counts no reference on pages that are cached, and starts
//! over if a chunk was published meanwhile. What it has found is used without an epoch guard: no caller keeps others from
//! reclaiming memory. It ends: each page must be one level below its parent.

use crossbeam_epoch::{self as epoch, Guard};
use seawall_types::PageId;

use crate::cursor::{Direction, LeafPosition};
use crate::error::TreeError;
use crate::page::{
    DELETED_OUTSIDE_OF_RUNS, InteriorView, LeafValue, OverflowReference, Page, PageDamage, PageReference,
};
use crate::published::{HeldPage, PublishedPages, ROOT};
use crate::tree::Tree;

impl Tree {
    /// The pages that readers see, for scans with a `LeafCursor`.
    pub fn pages(&self) -> &PublishedPages {
        &self.pages
    }

    /// Changes with every chunk that is published.
    pub fn version(&self) -> u64 {
        self.pages.version()
    }

    /// Gives the value of `key` to `use_value`, or `None` if there is no such row. A long inline value is not copied.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        use_value: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, TreeError> {
        self.pages.get_with(key, use_value)
    }

    /// See [`PublishedPages::get_at`].
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    #[inline]
    pub fn get_at<R>(
        &self,
        version: u64,
        key: &[u8],
        use_value: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<Option<R>, TreeError> {
        self.pages.get_at(version, key, use_value)
    }

    /// The value of `key`, copied.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        self.pages.get_with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// See [`PublishedPages::read_overflow`].
    ///
    /// # Errors
    /// If an extent cannot be read or is damaged.
    pub fn read_overflow(
        &self,
        reference: OverflowReference,
        version: u64,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        self.pages.read_overflow(reference, version)
    }

    /// See [`PublishedPages::leaf_for`].
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn leaf_for(&self, key: &[u8], direction: Direction) -> Result<LeafPosition, TreeError> {
        self.pages.leaf_for(key, direction)
    }

    /// See [`PublishedPages::move_to`].
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn move_to(
        &self,
        position: &mut LeafPosition,
        key: &[u8],
        direction: Direction,
    ) -> Result<(), TreeError> {
        self.pages.move_to(position, key, direction)
    }

    /// See [`PublishedPages::move_on`].
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn move_on(&self, position: &mut LeafPosition, direction: Direction) -> Result<bool, TreeError> {
        self.pages.move_on(position, direction)
    }
}

impl PublishedPages {
    /// Gives the value of `key` to `use_value`, or `None` if there is no such row. An inline value is not copied.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn get_with<R>(
        &self,
        key: &[u8],
        use_value: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, TreeError> {
        let mut use_value = Some(use_value);
        loop {
            let version = self.version();
            let read = |value: Option<&[u8]>| use_value.take().expect("it is called once")(value);
            if let Some(result) = self.get_at(version, key, read)? {
                return Ok(result);
            }
        }
    }

    /// As `get_with`, of the tree at `version`; `None`, and no call of `use_value`, if it has changed since.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn get_at<R>(
        &self,
        version: u64,
        key: &[u8],
        use_value: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<Option<R>, TreeError> {
        let mut short = [0; SHORT_BYTES];
        let found = self.find(version, key, &mut short)?;
        if let Found::Deleted(page) = found {
            return Err(self.damaged(page, DELETED_OUTSIDE_OF_RUNS));
        }
        self.use_found(found, &short, version, |row| use_value(row.value()))
    }

    /// As `get_at`, of a key that may be one of a sorted run: rows can be deleted there.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn run_row_at<R>(
        &self,
        version: u64,
        key: &[u8],
        use_row: impl FnOnce(RunRow<'_>) -> R,
    ) -> Result<Option<R>, TreeError> {
        let mut short = [0; SHORT_BYTES];
        let found = self.find(version, key, &mut short)?;
        self.use_found(found, &short, version, use_row)
    }

    #[inline]
    fn use_found<R>(
        &self,
        found: Found,
        short: &[u8; SHORT_BYTES],
        version: u64,
        use_row: impl FnOnce(RunRow<'_>) -> R,
    ) -> Result<Option<R>, TreeError> {
        match found {
            Found::Changed => Ok(None),
            Found::Nothing => Ok(Some(use_row(RunRow::Absent))),
            Found::Short(length) => Ok(Some(use_row(RunRow::Value(&short[..length])))),
            Found::Inline { page, index } => match page.view().leaf().map(|leaf| leaf.value(index)) {
                Ok(LeafValue::Inline(value)) => Ok(Some(use_row(RunRow::Value(value)))),
                _ => unreachable!("the value was found there"),
            },
            Found::Overflow(reference) => {
                let value = self.read_overflow(reference, version)?;
                Ok(value.map(|value| use_row(RunRow::Value(&value))))
            }
            Found::Deleted(_) => Ok(Some(use_row(RunRow::Deleted))),
        }
    }

    /// The value of `key` as of `version`, held without an epoch guard: whoever uses it may take their time, and what the
    /// cache evicts meanwhile is freed. A short one is put into `short`.
    #[inline]
    fn find(&self, version: u64, key: &[u8], short: &mut [u8; SHORT_BYTES]) -> Result<Found, TreeError> {
        let guard = epoch::pin();
        let lacks_row = |leaf| self.lacks_row(leaf, key);
        let descended = self.descend_unless(version, &guard, |view| view.child_for(key), lacks_row);
        if !self.is_current(version) {
            return Ok(Found::Changed);
        }
        let Some(held) = descended? else { return Ok(Found::Nothing) };
        let leaf = held.view().leaf().map_err(|damage| self.damaged(held.view().id(), damage))?;
        let Ok(index) = leaf.search(key) else {
            if let HeldPage::Owned(page) = held {
                // It may read: without the guard.
                drop(guard);
                self.take_up_keys(&page, key, version);
            }
            return Ok(Found::Nothing);
        };
        match leaf.value(index) {
            LeafValue::Inline(value) if value.len() <= SHORT_BYTES => {
                short[..value.len()].copy_from_slice(value);
                Ok(Found::Short(value.len()))
            }
            LeafValue::Inline(_) => {
                let at = held.view().reference();
                let page = match held {
                    HeldPage::Owned(page) => page,
                    HeldPage::Cached(_) => match self.shared_page(at, version) {
                        // Evicted, and then replaced by another chunk.
                        _ if !self.is_current(version) => return Ok(Found::Changed),
                        page => page?,
                    },
                };
                Ok(Found::Inline { page, index })
            }
            LeafValue::Overflow(reference) => Ok(Found::Overflow(reference)),
            LeafValue::Deleted => Ok(Found::Deleted(held.view().id())),
        }
    }

    /// The value that `reference`, found in a leaf as of `version`, stands for. `None` if the tree has changed before the
    /// call: the extents may hold something else by now, so look the row up again. What changes during the call does not
    /// matter, so a value that takes long to read is read once.
    ///
    /// # Errors
    /// If an extent cannot be read or is damaged.
    pub fn read_overflow(
        &self,
        reference: OverflowReference,
        version: u64,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let Some(_reading) = self.begin_reading(version) else { return Ok(None) };
        self.assemble(reference).map(Some)
    }

    /// As `read_overflow`, for the one writer, under whom nothing changes, and for readers who have begun to read.
    pub(crate) fn assemble(&self, reference: OverflowReference) -> Result<Vec<u8>, TreeError> {
        let mut value = Vec::new();
        let mut buffer = Vec::new();
        let mut next = Some(reference.first);
        // Ends: each extent holds at least a byte and stands where the last one ended, and the sum is at most the
        // total. Memory grows only by what was read and checked.
        while let Some(at) = next {
            let position = value.len() as u64;
            let left = reference.total_bytes - position;
            next = self
                .file()
                .read_extent(at, left, &mut buffer, |extent| {
                    let header = extent.header;
                    if header.total_bytes != reference.total_bytes || header.position != position {
                        return Err(PageDamage::Structure("an extent does not continue its value"));
                    }
                    value.extend_from_slice(extent.data);
                    Ok(header.next)
                })?
                .map_err(|damage| self.damaged(at.page, damage))?;
        }
        Ok(value)
    }

    /// Walks from the root to a leaf; `choose` picks a child of each interior page.
    #[inline]
    pub(crate) fn descend<'g>(
        &'g self,
        version: u64,
        guard: &'g Guard,
        choose: impl FnMut(&InteriorView<'_>) -> usize,
    ) -> Result<HeldPage<'g>, TreeError> {
        let descended = self.descend_unless(version, guard, choose, |_| false)?;
        Ok(descended.expect("each leaf is of use"))
    }

    /// As `descend`; `None` where the leaf would have to be read from the file, and `is_useless` says that this is for nothing.
    #[inline]
    pub(crate) fn descend_unless<'g>(
        &'g self,
        version: u64,
        guard: &'g Guard,
        mut choose: impl FnMut(&InteriorView<'_>) -> usize,
        is_useless: impl Fn(PageReference) -> bool,
    ) -> Result<Option<HeldPage<'g>>, TreeError> {
        let mut held = self.page(ROOT, version, guard)?;
        loop {
            let view = held.view();
            let level = view.level();
            let Some(child_level) = level.checked_sub(1) else { return Ok(Some(held)) };
            let interior = view.interior().map_err(|damage| self.damaged(view.id(), damage))?;
            let child = interior.child(choose(&interior));
            let next = match self.held_page(child.page, version, guard) {
                Some(next) => next,
                None if child_level == 0 && is_useless(child.reference()) => return Ok(None),
                None => HeldPage::Owned(self.fetch(child.reference(), version)?),
            };
            if next.view().level() != child_level {
                let damage = PageDamage::WrongLevel { expected: child_level, found: next.view().level() };
                return Err(self.damaged(child.page, damage));
            }
            held = next;
        }
    }
}

/// A row of a sorted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRow<'a> {
    /// The run does not say anything about the key.
    Absent,
    /// There is no row with the key, whatever stands in older runs and tables.
    Deleted,
    /// Its value.
    Value(&'a [u8]),
}

impl<'a> RunRow<'a> {
    #[inline]
    fn value(self) -> Option<&'a [u8]> {
        match self {
            RunRow::Absent | RunRow::Deleted => None,
            RunRow::Value(value) => Some(value),
        }
    }
}

/// Inline values up to so many bytes are copied. For longer ones their page is shared, which all threads that read the same
/// page would notice if it were done for every value.
const SHORT_BYTES: usize = 128;

/// What a lookup came to.
enum Found {
    /// Another tree was published meanwhile.
    Changed,
    /// There is no such row.
    Nothing,
    /// A short value, copied into the caller's buffer: its length.
    Short(usize),
    Inline {
        page: Page,
        index: usize,
    },
    Overflow(OverflowReference),
    /// The row is deleted; the page where it stands.
    Deleted(PageId),
}

#[cfg(test)]
mod tests;
