//! A chunk: the atomic step from one valid tree to the next.
//!
//! ```text
//!   merge, cut, graft --> ChunkPlan { fresh, protected, freed } --> Tree::apply_chunk (in `publish`)
//! ```
//! * **Fresh** pages were free in the last durable tree. Nothing refers to them until the chunk is committed, so they
//!   are written in place without protection.
//! * **Protected** images overwrite pages of the last durable tree (and space map pages): they go through the recovery
//!   file.
//! * **Freed** pages are in no image of the chunk and are not handed out before the chunk is in place.
//!
//! A page is in at most one of the three.

use parking_lot::MappedMutexGuard;
use seawall_types::{Lsn, PageId};

use crate::error::TreeError;
use crate::page::{
    EXTENT_HEADER_BYTES, EXTENT_PAGES_MAX, ExtentHeader, LeafValue, LeafView, OverflowReference, Page,
    PageDamage, PageFormat, SharedImage, encode_extent, extent_pages, seal,
};
use crate::space_map::PageRun;
use crate::tree::{Tree, WriterState};

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

/// Collects the pages of one chunk while the tree is edited.
pub(crate) struct ChunkBuilder<'t> {
    pub(crate) tree: &'t Tree,
    pub(crate) writer: MappedMutexGuard<'t, WriterState>,
    pub(crate) format: PageFormat,
    pub(crate) stamp: Lsn,
    pub(crate) statistics: ChunkStatistics,
    pub(crate) wrote_ahead: bool,
    plan: u64,
    fresh: Vec<FreshImage>,
    protected: Vec<Page>,
    used_bytes: u64,
}

impl<'t> ChunkBuilder<'t> {
    /// Starts a chunk; one that was planned before and not applied is given up.
    pub(crate) fn begin(tree: &'t Tree, stamp: Lsn) -> Result<ChunkBuilder<'t>, TreeError> {
        let mut writer = tree.lock_writer()?;
        writer.space.roll_back()?;
        let plan = writer.begin_plan();
        Ok(ChunkBuilder {
            tree,
            writer,
            format: *tree.format(),
            stamp,
            statistics: ChunkStatistics::default(),
            wrote_ahead: false,
            plan,
            fresh: Vec::new(),
            protected: Vec::new(),
            used_bytes: 0,
        })
    }

    /// The plan with the space map as it is afterwards.
    pub(crate) fn finish(mut self) -> Result<ChunkPlan, TreeError> {
        let maps = self.writer.space.seal(self.stamp)?;
        self.protected.extend(maps);
        self.protected.sort_unstable_by_key(|page| page.view().id());
        self.fresh.sort_unstable_by_key(FreshImage::first);
        let page_bytes = self.format.page_bytes() as u64;
        self.statistics.fresh_pages =
            self.fresh.iter().map(|image| image.bytes().len() as u64 / page_bytes).sum();
        self.statistics.protected_pages = self.protected.len() as u64;
        self.statistics.freed_pages = self.writer.space.freed_count();
        Ok(ChunkPlan {
            plan: self.plan,
            fresh: std::mem::take(&mut self.fresh),
            protected: std::mem::take(&mut self.protected),
            wrote_ahead: self.wrote_ahead,
            statistics: self.statistics,
        })
    }

    /// Bytes of all images so far.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// A page of the last durable tree.
    pub(crate) fn read(&self, page: PageId) -> Result<Page, TreeError> {
        self.tree.pages.writer_page(page)
    }

    /// Reads a page whose number becomes free: the cache must not keep it under that number.
    fn read_past_cache(&self, page: PageId) -> Result<Page, TreeError> {
        self.tree.pages.file().read_page(page)
    }

    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> TreeError {
        self.tree.pages.file().damaged(page, damage)
    }

    pub(crate) fn allocate_page(&mut self) -> Result<PageId, TreeError> {
        self.writer.space.allocate(1)
    }

    pub(crate) fn free_page(&mut self, page: PageId) {
        self.writer.space.free(PageRun { first: page, count: 1 });
    }

    /// Adds a page that was allocated for this chunk.
    pub(crate) fn put_fresh(&mut self, page: Page) {
        self.used_bytes += page.bytes().len() as u64;
        self.fresh.push(FreshImage::Page(page));
    }

    /// Adds a page that overwrites one of the last durable tree.
    pub(crate) fn put_protected(&mut self, page: Page) {
        self.used_bytes += page.bytes().len() as u64;
        self.protected.push(page);
    }

    /// Takes a page out of the tree as it is after this chunk, wherever it is, and frees its number.
    pub(crate) fn take_page(&mut self, page: PageId) -> Result<Page, TreeError> {
        if let Some(index) = self.protected.iter().position(|image| image.view().id() == page) {
            self.free_page(page);
            return Ok(self.protected.swap_remove(index));
        }
        let built =
            |image: &FreshImage| matches!(image, FreshImage::Page(built) if built.view().id() == page);
        let image = match self.fresh.iter().position(built) {
            Some(index) => match self.fresh.swap_remove(index) {
                FreshImage::Page(image) => image,
                FreshImage::Extent { .. } => self.read_past_cache(page)?,
            },
            None => self.read_past_cache(page)?,
        };
        if !self.writer.space.unallocate(page)? {
            self.free_page(page);
        }
        Ok(image)
    }

    /// Writes a long value to fresh extents.
    pub(crate) fn write_overflow(&mut self, value: &[u8]) -> Result<OverflowReference, TreeError> {
        let mut images = Vec::new();
        let space = &mut self.writer.space;
        let reference =
            encode_value(&self.format, self.stamp, value, |count| space.allocate(count), &mut images)?;
        self.used_bytes += images.iter().map(|image| image.bytes().len() as u64).sum::<u64>();
        self.fresh.append(&mut images);
        Ok(reference)
    }

    /// Frees the extents of a value.
    pub(crate) fn free_overflow(&mut self, reference: OverflowReference) -> Result<(), TreeError> {
        let (mut next, mut position) = (Some(reference.first), 0);
        while let Some(first) = next {
            let header = self.tree.pages.file().read_extent_header(first)?;
            // Only the header is read. It is trusted if it continues the chain exactly: `position` grows with every
            // step up to `total_bytes`, so a damaged chain ends, and the space map refuses pages that are not in use.
            if header.total_bytes != reference.total_bytes || header.position != position {
                let damage = PageDamage::Structure("an extent does not continue its value");
                return Err(self.damaged(first, damage));
            }
            position += header.data_bytes as u64;
            let count = u32::try_from(header.pages).expect("an extent has at most 128 pages");
            self.writer.space.free(PageRun { first, count });
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
    format: &PageFormat,
    stamp: Lsn,
    value: &[u8],
    mut allocate: impl FnMut(u32) -> Result<PageId, TreeError>,
    images: &mut Vec<FreshImage>,
) -> Result<OverflowReference, TreeError> {
    let extent_data = EXTENT_PAGES_MAX * format.page_bytes() - EXTENT_HEADER_BYTES;
    let mut headers: Vec<ExtentHeader> = Vec::new();
    for (index, data) in value.chunks(extent_data).enumerate() {
        let pages = extent_pages(format, data.len());
        let first = allocate(u32::try_from(pages).expect("an extent has at most 128 pages"))?;
        if let Some(previous) = headers.last_mut() {
            previous.next = Some(first);
        }
        headers.push(ExtentHeader {
            first,
            pages,
            data_bytes: data.len(),
            next: None,
            total_bytes: value.len() as u64,
            position: (index * extent_data) as u64,
        });
    }
    for (header, data) in headers.iter().zip(value.chunks(extent_data)) {
        let image = encode_extent(format, header, stamp, data);
        images.push(FreshImage::Extent { first: header.first, image });
    }
    let first = headers.first().expect("a value in overflow extents is not empty").first;
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
