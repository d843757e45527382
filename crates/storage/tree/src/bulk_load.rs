//! Bulk load: sorted rows become packed leaves on fresh pages, written once and in sequence, and one chunk links them.
//!
//! ```text
//!   rows, ascending --> leaf, leaf, leaf ...  written as they fill, 2 MiB at a time, in stretches of 256 KiB and more
//!                         |     |     |
//!                       (separator, page) list --graft--> one chunk: level-1 pages and the spine
//! ```
//! Until that chunk is committed no durable page refers to the leaves and no space map page calls them allocated: a load
//! that is dropped, or cut short by a crash, leaves free pages behind and nothing else.
//!
//! Rows may also come from elsewhere in the tree, to stand here from now on: a long value is not written again then, its
//! extents change hands (`push_reference`), and a leaf can keep the stamp of its newest row (`note_stamp`).

use std::ops::Range;
use std::sync::Arc;

use seawall_types::{Lsn, PageId};

use crate::chunk::{ChunkBuilder, ChunkPlan, FreshImage, encode_value};
use crate::error::TreeError;
use crate::merge::{Change, ChildList, OldValues};
use crate::page::{
    Child, LeafBuilder, LeafValue, OverflowReference, PAGE_HEADER_BYTES, Page, PageFormat, Row, RowKey,
    shortest_separator,
};
use crate::page_file::PageImage;
use crate::run_keys::is_run_key;
use crate::space_map::PageRun;
use crate::swap::Part;
use crate::tree::Tree;

/// Pages are taken in runs of at most so many bytes, and written when about so many wait.
const RUN_BYTES: usize = 2 << 20;
/// Shorter stretches of free pages are left to merges: a load is to be read in sequence.
const RUN_BYTES_MIN: usize = 256 << 10;

/// Builds leaves of sorted rows beside the tree. Dropping it gives its pages back.
#[derive(Debug)]
pub struct BulkLoader {
    tree: Arc<Tree>,
    format: PageFormat,
    stamp: Lsn,
    /// Of the rows of the leaf that is being built, if they have stamps of their own.
    leaf_stamp: Option<Lsn>,
    /// Of the row that comes next.
    row_stamp: Option<Lsn>,
    /// Bytes of a page that are used.
    fill_bytes: usize,
    from: Vec<u8>,
    to: Vec<u8>,
    builder: LeafBuilder,
    /// The separator before the leaf that is being built.
    separator: Vec<u8>,
    leaves: ChildList,
    /// All pages taken.
    taken: Vec<PageRun>,
    /// Those of the last run that are not yet used.
    open_run: Option<PageRun>,
    /// Leaves that wait to be written.
    waiting: Vec<Page>,
    row_count: u64,
}

impl Tree {
    /// Starts a bulk load of rows in `from..to`. The tree must hold no row in that range when the load is grafted; rows
    /// that it does hold are replaced. `stamp` goes into the leaves.
    ///
    /// # Panics
    /// If `from` is not below `to`, or one of them is longer than `max_key_bytes`.
    pub fn bulk_loader(self: &Arc<Tree>, from: &[u8], to: &[u8], stamp: Lsn) -> BulkLoader {
        assert!(from < to && from.len().max(to.len()) <= self.max_key_bytes(), "the range of a bulk load");
        BulkLoader {
            tree: Arc::clone(self),
            format: *self.format(),
            stamp,
            leaf_stamp: None,
            row_stamp: None,
            fill_bytes: self.format().page_bytes(),
            from: from.to_vec(),
            to: to.to_vec(),
            builder: LeafBuilder::new(*self.format()),
            separator: from.to_vec(),
            leaves: ChildList::default(),
            taken: Vec::new(),
            open_run: None,
            waiting: Vec::new(),
            row_count: 0,
        }
    }
}

impl BulkLoader {
    /// Adds a row.
    ///
    /// # Errors
    /// `KeyOrder` if the key is not greater than the one before or not in the range, `KeyTooLong`, `Io`.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        self.push_change(key, Change::Put(value))
    }

    /// As `push`, of a row of a sorted run, where a deletion is a row as well: it hides older ones.
    ///
    /// # Errors
    /// As `push`.
    ///
    /// # Panics
    /// If a row is deleted whose key is none of a sorted run.
    pub fn push_change(&mut self, key: &[u8], change: Change<'_>) -> Result<(), TreeError> {
        self.check_key(key)?;
        let value = match change {
            Change::Put(value) if value.len() <= self.format.max_inline_value_bytes() => {
                LeafValue::Inline(value)
            }
            Change::Put(value) => self.write_overflow(value)?,
            Change::Delete => {
                assert!(is_run_key(RowKey::from(key)), "only sorted runs have deleted rows");
                LeafValue::Deleted
            }
        };
        self.push_row(key, value)
    }

    /// As `push`, of a long value that is in the tree already: from the graft on it belongs to this row. The chunk that grafts the
    /// load must take it away from the row that had it, see [`OldValues::Keep`](crate::OldValues).
    ///
    /// # Errors
    /// As `push`.
    pub fn push_reference(&mut self, key: &[u8], value: OverflowReference) -> Result<(), TreeError> {
        self.check_key(key)?;
        self.push_row(key, LeafValue::Overflow(value))
    }

    /// Notes that the row which is pushed next, or one that was lost between the last one and that, was changed at `stamp`. A leaf
    /// of rows that have stamps gets the greatest of them instead of the load's; who notes one notes those of all rows.
    ///
    /// Of rows that are lost between two leaves the one after gets the stamp, and of those behind the last row the last leaf. A leaf tells what
    /// changed between its first and its last row; for what is between leaves there is the page above, which the graft makes anew.
    pub fn note_stamp(&mut self, stamp: Lsn) {
        self.row_stamp = self.row_stamp.max(Some(stamp));
    }

    /// Fills leaves up to `permille` of a page: 1000 if nothing else is said.
    ///
    /// # Panics
    /// If it is above 1000.
    #[must_use]
    pub fn filled_to(mut self, permille: u16) -> BulkLoader {
        assert!(permille <= 1000, "{permille} permille of a page");
        let room = self.format.page_bytes() - PAGE_HEADER_BYTES;
        self.fill_bytes = PAGE_HEADER_BYTES + room * usize::from(permille) / 1000;
        self
    }

    fn push_row(&mut self, key: &[u8], value: LeafValue<'_>) -> Result<(), TreeError> {
        let row = Row { key: RowKey::from(key), value };
        if !self.builder.push_within(&row, self.fill_bytes) {
            let separator = self.separator_before(key);
            self.finish_leaf()?;
            self.separator = separator;
            self.builder.push(&row);
        }
        self.leaf_stamp = self.leaf_stamp.max(self.row_stamp.take());
        self.row_count += 1;
        Ok(())
    }

    /// The smallest key whose row the load replaces.
    pub(crate) fn start(&self) -> &[u8] {
        &self.from
    }

    /// The keys whose rows it replaces.
    pub(crate) fn range(&self) -> Range<Vec<u8>> {
        self.from.clone()..self.to.clone()
    }

    /// Rows added so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Leaves that these rows take.
    pub fn leaf_count(&self) -> u64 {
        self.leaves.len() as u64 + u64::from(!self.builder.is_empty())
    }

    /// Memory for the list of leaves that are built, in bytes: about 40 for each, and the key that parts it from the one before.
    pub fn list_bytes(&self) -> usize {
        self.leaves.memory_bytes()
    }

    /// Ends the load: plans the chunk that links its leaves. What it wrote becomes durable when that is applied. `stamp` goes into
    /// the pages around the leaves, which may have changed since the load began: no change in them is newer.
    ///
    /// # Errors
    /// `Io`, or a damaged page. The load is then given up.
    pub fn graft(self, stamp: Lsn) -> Result<ChunkPlan, TreeError> {
        let tree = Arc::clone(&self.tree);
        // A load of nothing replaces nothing.
        let parts = if self.row_count == 0 {
            Vec::new()
        } else {
            vec![Part::Graft { load: Box::new(self), values: OldValues::Free }]
        };
        tree.swap(parts, &[], stamp)
    }

    /// Whether it builds leaves for this tree.
    pub(crate) fn is_of(&self, tree: &Tree) -> bool {
        std::ptr::eq(&raw const *self.tree, tree)
    }

    /// Writes what is not written yet.
    pub(crate) fn finish(&mut self) -> Result<(), TreeError> {
        if !self.builder.is_empty() {
            self.leaf_stamp = self.leaf_stamp.max(self.row_stamp.take());
            self.finish_leaf()?;
        }
        self.write_waiting()
    }

    /// Hands its leaves over to a chunk, with their pages.
    pub(crate) fn hand_over(&mut self, chunk: &mut ChunkBuilder<'_>) -> Result<ChildList, TreeError> {
        if let Some(rest) = self.open_run.take() {
            chunk.space.lock().release(rest)?;
            let run = self.taken.last_mut().expect("the open run is the last one taken that leaves are on");
            run.count -= rest.count;
        }
        for run in self.taken.drain(..).filter(|run| run.count > 0) {
            chunk.space.lock().adopt(run);
            chunk.wrote_ahead = true;
        }
        chunk.statistics.changes += self.row_count;
        Ok(std::mem::take(&mut self.leaves))
    }

    fn check_key(&self, key: &[u8]) -> Result<(), TreeError> {
        let max_bytes = self.format.max_key_bytes();
        if key.len() > max_bytes {
            return Err(TreeError::KeyTooLong { bytes: key.len(), max_bytes });
        }
        let ascends = match self.builder.last_key() {
            Some(last) => last < key,
            None => self.from.as_slice() <= key,
        };
        if ascends && key < self.to.as_slice() { Ok(()) } else { Err(TreeError::KeyOrder) }
    }

    fn separator_before(&self, key: &[u8]) -> Vec<u8> {
        let last = self.builder.last_key().expect("only a first row is always taken");
        shortest_separator(&RowKey::from(last), &RowKey::from(key))
    }

    fn finish_leaf(&mut self) -> Result<(), TreeError> {
        let id = self.next_page()?;
        let stamp = self.leaf_stamp.take().unwrap_or(self.stamp);
        let page = self.builder.finish(id, stamp);
        self.leaves.push(RowKey::from(&self.separator[..]), Child::of(&page));
        self.waiting.push(page);
        Ok(())
    }

    /// The number of the next leaf; writes those that wait if they are many when a new run begins.
    fn next_page(&mut self) -> Result<PageId, TreeError> {
        let run = match self.open_run.take() {
            Some(run) => run,
            None => {
                let pages = |bytes: usize| {
                    u32::try_from(bytes / self.format.page_bytes()).expect("2 MiB hold few pages")
                };
                let (count, at_least) = (pages(RUN_BYTES), pages(RUN_BYTES_MIN));
                if self.waiting.len() >= count as usize {
                    self.write_waiting()?;
                }
                // A short load does not need a long run: what it does not use is given back when it ends.
                let run = self.tree.space.lock().reserve_up_to(count, at_least)?;
                self.taken.push(run);
                run
            }
        };
        let rest = PageRun { first: PageId::new(run.first.get() + 1), count: run.count - 1 };
        self.open_run = (rest.count > 0).then_some(rest);
        Ok(run.first)
    }

    fn write_waiting(&mut self) -> Result<(), TreeError> {
        // A run may lie before the last one, where pages have become free since.
        self.waiting.sort_unstable_by_key(|page| page.view().id());
        let images: Vec<PageImage<'_>> = self.waiting.iter().map(PageImage::from).collect();
        self.tree.pages.file().write(&images)?;
        self.waiting.clear();
        Ok(())
    }

    fn write_overflow(&mut self, value: &[u8]) -> Result<LeafValue<'static>, TreeError> {
        let mut images: Vec<FreshImage> = Vec::new();
        let (tree, taken) = (&self.tree, &mut self.taken);
        let allocate = |count| {
            let first = tree.space.lock().reserve(count)?;
            // Before the open run, which stays the last one.
            taken.insert(taken.len().saturating_sub(1), PageRun { first, count });
            Ok(first)
        };
        let reference = encode_value(tree.pages.file(), self.stamp, value, allocate, &mut images)?;
        images.sort_unstable_by_key(FreshImage::first);
        for image in &images {
            self.tree.pages.file().write(&[PageImage { first: image.first(), bytes: image.bytes() }])?;
        }
        Ok(LeafValue::Overflow(reference))
    }
}

impl Drop for BulkLoader {
    fn drop(&mut self) {
        if !self.taken.is_empty()
            && let Err(error) = self.tree.release_runs(&self.taken)
        {
            // Only memory knows of these pages: the next open finds them free.
            tracing::warn!(%error, "pages of a bulk load that was given up stay reserved until the next open");
        }
    }
}
