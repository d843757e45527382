//! A chunk: the atomic step from one valid tree to the next.
//!
//! ```text
//!   merge, swap --> ChunkPlan { fresh, protected, freed } --> Tree::apply_chunk (in `apply`)
//! ```
//! * **Fresh** pages were free in the last durable tree. Nothing refers to them until the chunk is committed, so they
//!   are written in place without protection.
//! * **Protected** images overwrite pages of the last durable tree (and space map pages): they go through the recovery
//!   file.
//! * **Freed** pages are in no image of the chunk, and are not written before the chunk is durable in place and nobody
//!   reads a long value of the tree before it.
//!
//! A page is in at most one of the three.
//!
//! Several threads may build one chunk, each with a `ChunkBuilder` of its own. They share the space map, under a latch
//! that is held for a few allocations, and the count of bytes that the budget is held against. Bulk loads take their pages
//! under the same latch, and wait for no chunk.

use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::{Lsn, PageId};

use crate::error::TreeError;
use crate::page::{
    Child, EXTENT_HEADER_BYTES, EXTENT_PAGES_MAX, ExtentHeader, LeafValue, LeafView, OverflowReference, Page,
    PageDamage, PageFormat, PageReference, SharedImage, encode_extent, extent_pages, seal, with_children,
};
use crate::page_file::PageFile;
use crate::read_ahead::MergeAhead;
use crate::recovery_file::EXCESS_PAGES_PER_THREAD;
use crate::space_map::{PageRun, SpaceMap};
use crate::tree::Tree;

/// Pages that one of several threads takes from the space map at a time, so that its leaves come to lie side by side.
const PAGES_TAKEN_AT_ONCE: usize = 16;
/// Pages after which one of several threads tells the others what it has used.
const PAGES_TOLD_AT_ONCE: usize = 8;
// What one of several threads may have beyond the budget: pages that it has not told of, the leaf at hand, the one that it is
// joined with, and the pages above them, of a tree of ten levels.
const _: () = assert!(PAGES_TOLD_AT_ONCE + 2 + 10 <= EXCESS_PAGES_PER_THREAD);

/// What a chunk changes, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkStatistics {
    /// Changes taken from the source.
    pub changes: u64,
    /// Leaves built.
    pub leaves: u64,
    /// Interior pages built.
    pub interiors: u64,
    /// Pages written without protection, those of overflow extents included.
    pub fresh_pages: u64,
    /// Pages that go through the recovery file, those of the space map included.
    pub protected_pages: u64,
    /// Pages that become free.
    pub freed_pages: u64,
}

/// A chunk that was planned and waits to be applied with `Tree::apply_chunk`. Dropping it gives it up: the next plan
/// takes its pages back.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct ChunkPlan {
    pub(crate) plan: u64,
    pub(crate) fresh: Vec<FreshImage>,
    pub(crate) protected: Vec<Page>,
    /// Those of the protected pages that the file has no blocks for yet.
    pub(crate) new_map_pages: Vec<PageId>,
    /// Fresh pages were already written, by a bulk load.
    pub(crate) wrote_ahead: bool,
    pub(crate) statistics: ChunkStatistics,
}

impl ChunkPlan {
    /// Whether applying it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.protected.is_empty()
    }

    /// What it changes.
    pub fn statistics(&self) -> ChunkStatistics {
        self.statistics
    }
}

/// Bytes for pages that were free in the last durable tree.
#[derive(Debug)]
pub(crate) enum FreshImage {
    Page(Page),
    Extent { first: PageId, image: Vec<u8> },
}

impl FreshImage {
    pub(crate) fn first(&self) -> PageId {
        match self {
            FreshImage::Page(page) => page.view().id(),
            FreshImage::Extent { first, .. } => *first,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            FreshImage::Page(page) => page.bytes(),
            FreshImage::Extent { image, .. } => image,
        }
    }
}

impl ChunkStatistics {
    fn add(&mut self, other: &ChunkStatistics) {
        let ChunkStatistics { changes, leaves, interiors, fresh_pages, protected_pages, freed_pages } = other;
        self.changes += changes;
        self.leaves += leaves;
        self.interiors += interiors;
        self.fresh_pages += fresh_pages;
        self.protected_pages += protected_pages;
        self.freed_pages += freed_pages;
    }
}

impl Tree {
    /// Plans a chunk of what `build` does to the tree; one that was planned before and not applied is given up.
    pub(crate) fn plan_chunk(
        &self,
        stamp: Lsn,
        build: impl FnOnce(&mut ChunkBuilder<'_>) -> Result<(), TreeError>,
    ) -> Result<ChunkPlan, TreeError> {
        let mut writer = self.lock_writer()?;
        self.space.lock().roll_back()?;
        let plan = writer.begin_plan();
        let used_bytes = AtomicU64::new(0);
        let mut chunk = ChunkBuilder::new(self, &used_bytes, stamp);
        build(&mut chunk)?;
        chunk.finish(plan)
    }
}

/// Collects the pages of one chunk while the tree is edited.
pub(crate) struct ChunkBuilder<'t> {
    pub(crate) tree: &'t Tree,
    /// Shared with the other builders of the chunk, and with bulk loads.
    pub(crate) space: &'t Mutex<SpaceMap>,
    /// Bytes of the images of all builders of the chunk, told from time to time: a count that threads write to with every
    /// page and read with every row would cost more than it is worth.
    used_bytes: &'t AtomicU64,
    /// What it was when last told.
    used_when_told: u64,
    /// Bytes of this one's images since.
    used_since: u64,
    pub(crate) format: PageFormat,
    pub(crate) stamp: Lsn,
    pub(crate) statistics: ChunkStatistics,
    pub(crate) wrote_ahead: bool,
    fresh: Vec<FreshImage>,
    protected: Vec<Page>,
    /// Pages that were taken and wait to be used, the next one last.
    taken: Vec<PageId>,
    taken_at_once: usize,
    /// Leaves that the thread has asked for.
    pub(crate) ahead: MergeAhead,
}

impl<'t> ChunkBuilder<'t> {
    fn new(tree: &'t Tree, used_bytes: &'t AtomicU64, stamp: Lsn) -> ChunkBuilder<'t> {
        ChunkBuilder {
            tree,
            space: &tree.space,
            used_bytes,
            used_when_told: 0,
            used_since: 0,
            format: *tree.format(),
            stamp,
            statistics: ChunkStatistics::default(),
            wrote_ahead: false,
            fresh: Vec::new(),
            protected: Vec::new(),
            taken: Vec::new(),
            taken_at_once: 1,
            ahead: MergeAhead::default(),
        }
    }

    /// A builder of the same chunk for another thread; `absorb` takes in what it has built.
    pub(crate) fn beside(&self) -> ChunkBuilder<'t> {
        let chunk = ChunkBuilder::new(self.tree, self.used_bytes, self.stamp);
        ChunkBuilder { taken_at_once: PAGES_TAKEN_AT_ONCE, ..chunk }
    }

    /// Takes in what a builder of the same chunk has built.
    pub(crate) fn absorb(&mut self, mut other: ChunkBuilder<'_>) -> Result<(), TreeError> {
        other.give_back_taken()?;
        self.statistics.add(&other.statistics);
        self.wrote_ahead |= other.wrote_ahead;
        self.fresh.append(&mut other.fresh);
        self.protected.append(&mut other.protected);
        Ok(())
    }

    /// The plan with the space map as it is afterwards.
    fn finish(mut self, plan: u64) -> Result<ChunkPlan, TreeError> {
        self.give_back_taken()?;
        let mut space = self.space.lock();
        self.protected.extend(space.seal(self.stamp)?);
        let new_map_pages = space.unwritten_pages();
        self.statistics.freed_pages = space.freed_count();
        drop(space);
        // A page's number is in its image, which another thread may have built: looked at once each.
        self.protected.sort_by_cached_key(|page| page.view().id());
        self.fresh.sort_by_cached_key(FreshImage::first);
        let page_bytes = self.format.page_bytes() as u64;
        self.statistics.fresh_pages =
            self.fresh.iter().map(|image| image.bytes().len() as u64 / page_bytes).sum();
        self.statistics.protected_pages = self.protected.len() as u64;
        Ok(ChunkPlan {
            plan,
            fresh: self.fresh,
            protected: self.protected,
            new_map_pages,
            wrote_ahead: self.wrote_ahead,
            statistics: self.statistics,
        })
    }

    /// Bytes of all images so far; of those of the other builders of the chunk, what they have told.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_when_told + self.used_since
    }

    /// Tells the other builders of the chunk that there is no point in going on.
    pub(crate) fn use_up_budget(&self) {
        self.used_bytes.store(u64::MAX / 2, Ordering::Relaxed);
    }

    /// Counts pages above the leaves whose children change: they are built when all leaves are.
    pub(crate) fn expect_interiors(&mut self, count: usize) {
        self.count_used(count * self.format.page_bytes());
    }

    fn count_used(&mut self, bytes: usize) {
        self.used_since += bytes as u64;
        if self.used_since >= (PAGES_TOLD_AT_ONCE * self.format.page_bytes()) as u64 {
            // Relaxed: a count that orders nothing.
            let before = self.used_bytes.fetch_add(self.used_since, Ordering::Relaxed);
            self.used_when_told = before + self.used_since;
            self.used_since = 0;
        }
    }

    /// How many pages the chunk frees so far.
    pub(crate) fn freed_count(&self) -> u64 {
        self.space.lock().freed_count()
    }

    /// A page of the last durable tree.
    pub(crate) fn read(&self, at: PageReference) -> Result<Page, TreeError> {
        self.tree.pages.writer_page(at)
    }

    /// Reads a page whose number becomes free: the cache must not keep it under that number.
    fn read_past_cache(&self, at: PageReference) -> Result<Page, TreeError> {
        self.tree.pages.stored_page(at)
    }

    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> TreeError {
        self.tree.pages.file().damaged(page, damage)
    }

    pub(crate) fn allocate_page(&mut self) -> Result<PageId, TreeError> {
        if self.taken.is_empty() {
            let mut space = self.space.lock();
            for _ in 0..self.taken_at_once {
                self.taken.push(space.allocate(1)?);
            }
            self.taken.reverse();
        }
        Ok(self.taken.pop().expect("at least one page was just taken"))
    }

    fn give_back_taken(&mut self) -> Result<(), TreeError> {
        let mut space = self.space.lock();
        self.taken.drain(..).try_for_each(|page| space.unallocate(page).map(|_| ()))
    }

    pub(crate) fn free_page(&mut self, page: PageId) {
        self.space.lock().free(PageRun { first: page, count: 1 });
    }

    /// Adds a page that was allocated for this chunk.
    pub(crate) fn put_fresh(&mut self, page: Page) {
        self.count_used(page.bytes().len());
        self.fresh.push(FreshImage::Page(page));
    }

    /// Adds a page that overwrites one of the last durable tree.
    pub(crate) fn put_protected(&mut self, page: Page) {
        self.count_used(page.bytes().len());
        self.protected.push(page);
    }

    /// Adds an interior page that has the same children as in the last durable tree, some of them with other images.
    pub(crate) fn put_rewritten(
        &mut self,
        page: &Page,
        children: &[(usize, Child)],
    ) -> Result<Child, TreeError> {
        let id = page.view().id();
        let view = page.view().interior().map_err(|damage| self.damaged(id, damage))?;
        let page = with_children(page, &view, children);
        self.statistics.interiors += 1;
        let child = Child::of(&page);
        self.put_protected(page);
        Ok(child)
    }

    /// Takes a page out of the tree as it is after this chunk, wherever it is, and frees its number.
    pub(crate) fn take_page(&mut self, at: PageReference) -> Result<Page, TreeError> {
        let page = at.page;
        if let Some(index) = self.protected.iter().position(|image| image.view().id() == page) {
            self.free_page(page);
            return Ok(self.protected.swap_remove(index));
        }
        let built =
            |image: &FreshImage| matches!(image, FreshImage::Page(built) if built.view().id() == page);
        let image = match self.fresh.iter().position(built) {
            Some(index) => match self.fresh.swap_remove(index) {
                FreshImage::Page(image) => image,
                FreshImage::Extent { .. } => self.read_past_cache(at)?,
            },
            None => self.read_past_cache(at)?,
        };
        let was_fresh = self.space.lock().unallocate(page)?;
        if !was_fresh {
            self.free_page(page);
        }
        Ok(image)
    }

    /// Writes a long value to fresh extents.
    pub(crate) fn write_overflow(&mut self, value: &[u8]) -> Result<OverflowReference, TreeError> {
        let mut images = Vec::new();
        let space = self.space;
        let allocate = |count| space.lock().allocate(count);
        let reference = encode_value(self.tree.pages.file(), self.stamp, value, allocate, &mut images)?;
        self.count_used(images.iter().map(|image| image.bytes().len()).sum());
        self.fresh.append(&mut images);
        Ok(reference)
    }

    /// Frees the extents of a value.
    pub(crate) fn free_overflow(&mut self, reference: OverflowReference) -> Result<(), TreeError> {
        let (mut next, mut position) = (Some(reference.first), 0);
        while let Some(at) = next {
            let header = self.tree.pages.file().read_extent_header(at)?;
            // Only the header is read. It is trusted if it continues the chain exactly: `position` grows with every
            // step up to `total_bytes`, so a damaged chain ends, and the space map refuses pages that are not in use.
            if header.total_bytes != reference.total_bytes || header.position != position {
                let damage = PageDamage::Structure("an extent does not continue its value");
                return Err(self.damaged(at.page, damage));
            }
            position += header.data_bytes as u64;
            let count = u32::try_from(header.pages).expect("an extent has at most 128 pages");
            self.space.lock().free(PageRun { first: at.page, count });
            next = header.next;
        }
        Ok(())
    }

    /// Frees the extents of all values of a leaf.
    pub(crate) fn free_values(&mut self, leaf: &LeafView<'_>) -> Result<(), TreeError> {
        if !leaf.has_overflow() {
            return Ok(());
        }
        for row in leaf.rows() {
            if let LeafValue::Overflow(reference) = row.value {
                self.free_overflow(reference)?;
            }
        }
        Ok(())
    }
}

/// Encodes `value` as a chain of extents on pages that `allocate` hands out; appends their images.
pub(crate) fn encode_value(
    file: &PageFile,
    stamp: Lsn,
    value: &[u8],
    mut allocate: impl FnMut(u32) -> Result<PageId, TreeError>,
    images: &mut Vec<FreshImage>,
) -> Result<OverflowReference, TreeError> {
    let format = file.format();
    let extent_data = EXTENT_PAGES_MAX * format.page_bytes() - EXTENT_HEADER_BYTES;
    let mut headers: Vec<ExtentHeader> = Vec::new();
    for (index, data) in value.chunks(extent_data).enumerate() {
        let pages = extent_pages(format, data.len());
        let first = allocate(u32::try_from(pages).expect("an extent has at most 128 pages"))?;
        headers.push(ExtentHeader {
            first,
            pages,
            data_bytes: data.len(),
            next: None,
            total_bytes: value.len() as u64,
            position: (index * extent_data) as u64,
        });
    }
    // The last one first: each refers to the next one's image.
    let mut next = None;
    for (header, data) in headers.into_iter().zip(value.chunks(extent_data)).rev() {
        let first = header.first;
        let image = encode_extent(format, &ExtentHeader { next, ..header }, stamp, data);
        next = Some(PageReference::new(first, file.stored_mark(&image)));
        images.push(FreshImage::Extent { first, image });
    }
    let first = next.expect("a value in overflow extents is not empty");
    Ok(OverflowReference { total_bytes: value.len() as u64, first })
}

/// The same page under another number.
pub(crate) fn renumbered(page: &Page, id: PageId) -> Page {
    let mut image: SharedImage = SharedImage::copy_of(page.bytes());
    let bytes = image.unshared_mut();
    bytes[8..16].copy_from_slice(&id.get().to_le_bytes());
    seal(bytes);
    Page::from_sealed(image)
}
