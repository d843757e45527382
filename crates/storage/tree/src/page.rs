//! Pages: the unit in which the tree is read, cached, protected and written.
//!
//! ```text
//!   image (bytes) --decode: checksum, identity, structure--> Page --view--> LeafView, InteriorView
//!   rows, children --encode_leaf, LeafBuilder, InteriorBuilder--> Page (sealed with its checksum)
//! ```
//! Invariants:
//! * A [`Page`] has passed every check: views over it index without asking again and cannot panic.
//! * A [`Page`] never changes. Sharing one is a reference count; a changed page is a new [`Page`].
//! * Whatever refers to a page has the mark of the image that the page must hold ([`PageReference`]), so an older image,
//!   which is valid in itself, is refused.
//!
//! Byte layouts are in `header`, `leaf`, `interior` and `overflow`; what encryption changes on disk is in `encrypted`.

mod encrypted;
mod header;
mod image;
mod interior;
mod key;
mod leaf;
mod overflow;
mod reference;

use std::fmt;

use seawall_types::{DatabaseId, Lsn, PageId};

pub(crate) use encrypted::{
    append_encrypted, decrypt_extent, decrypt_page, stored_mark, take_extent_envelope,
};
pub use header::{PAGE_HEADER_BYTES, PageDamage, PageKind};
pub(crate) use header::{PageHeader, UNUSED_FIELDS_END, seal, unused_range};
pub(crate) use image::{SharedImage, empty_magazines};
pub(crate) use interior::with_children;
pub use interior::{CHILD_HAS_OVERFLOW, Child, InteriorBuilder, InteriorView};
pub use key::{RowKey, common_prefix_bytes, shortest_separator};
pub(crate) use leaf::{DELETED_OUTSIDE_OF_RUNS, RowRun, encode_leaf_of_runs, size_of_runs};
pub use leaf::{LeafBuilder, LeafSize, LeafValue, LeafView, OverflowReference, Row, encode_leaf};
pub use overflow::{
    EXTENT_HEADER_BYTES, EXTENT_PAGES_MAX, Extent, ExtentHeader, encode_extent, extent_pages,
};
pub use reference::{PageMark, PageReference};

/// Bytes of what the rows of a sorted run have before their own row key: the id under which the run stands in the tree.
pub const RUN_PREFIX_BYTES: usize = 8;

/// The longest key in the tree: that of a row in a sorted run, whose own key is a table id and 4096 bytes. Small pages hold
/// less, see [`PageFormat::max_key_bytes`].
pub const ROW_KEY_BYTES_MAX: usize = RUN_PREFIX_BYTES + 8 + 4096;

/// Path of the page file in the database's directory.
pub const PAGE_FILE_PATH: &str = "pages";

/// What all pages of one database have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    page_bytes: usize,
    database_tag: u32,
}

impl PageFormat {
    /// Pages of `page_bytes` of `database`; `None` unless that is 4, 8, 16, 32 or 64 KiB.
    pub fn new(page_bytes: usize, database: &DatabaseId) -> Option<PageFormat> {
        let [a, b, c, d, ..] = *database.as_bytes();
        let known = page_bytes.is_power_of_two() && (4096..=65536).contains(&page_bytes);
        known.then_some(PageFormat { page_bytes, database_tag: u32::from_le_bytes([a, b, c, d]) })
    }

    /// Bytes of a page.
    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The first four bytes of the database id, which every page carries.
    pub const fn database_tag(&self) -> u32 {
        self.database_tag
    }

    /// Where `page` starts in the page file.
    pub const fn offset_of(&self, page: PageId) -> u64 {
        page.get().saturating_mul(self.page_bytes as u64)
    }

    /// The longest key that a page can hold: 4112 bytes, 2568 with 4 KiB pages. Of a row that may come to stand in a sorted
    /// run, the row key is shorter by [`RUN_PREFIX_BYTES`].
    pub const fn max_key_bytes(&self) -> usize {
        let most = self.page_bytes / 8 * 5 + RUN_PREFIX_BYTES;
        if most < ROW_KEY_BYTES_MAX { most } else { ROW_KEY_BYTES_MAX }
    }

    /// A longer value goes to overflow extents.
    pub const fn max_inline_value_bytes(&self) -> usize {
        self.page_bytes / 4
    }
}

/// An immutable, checked page image. Cloning one counts a reference.
#[derive(Clone)]
pub struct Page {
    image: SharedImage,
}

impl Page {
    /// Checks `image`, read as page `id`, wholly: checksum, identity, and the structure its kind asks for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(format: &PageFormat, id: PageId, image: &[u8]) -> Result<Page, PageDamage> {
        let (expected, found) = (format.page_bytes(), image.len());
        if found != expected {
            return Err(PageDamage::Length { expected, found });
        }
        Page::decode_shared(format, id, SharedImage::copy_of(image))
    }

    /// As `decode`, of an image that has the length of a page.
    pub(crate) fn decode_shared(
        format: &PageFormat,
        id: PageId,
        image: SharedImage,
    ) -> Result<Page, PageDamage> {
        let header = PageHeader::decode(format, id, &image)?;
        match header.kind {
            PageKind::Leaf => leaf::validate(format, &header, &image)?,
            PageKind::Interior => interior::validate(format, &header, &image)?,
            // The space map checks its own bits; an extent is checked whole, by `Extent::decode`.
            PageKind::SpaceMap => {}
            PageKind::Overflow => return Err(PageDamage::Structure("an overflow extent read as a page")),
        }
        Ok(Page { image })
    }

    /// A page that was just built and sealed here, and is therefore right.
    pub(crate) fn from_sealed(image: SharedImage) -> Page {
        Page { image }
    }

    /// The image's parts.
    pub fn view(&self) -> PageView<'_> {
        PageView { bytes: &self.image }
    }

    /// The whole image, checksum included, as it stands in the page file.
    pub fn bytes(&self) -> &[u8] {
        &self.image
    }

    /// The page and this image of it.
    pub fn reference(&self) -> PageReference {
        self.view().reference()
    }

    /// The shared image.
    pub(crate) fn into_image(self) -> SharedImage {
        self.image
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(formatter)
    }
}

/// A borrowed, checked page image.
#[derive(Clone, Copy)]
pub struct PageView<'a> {
    bytes: &'a [u8],
}

impl<'a> PageView<'a> {
    /// A view over bytes that are those of a [`Page`].
    pub(crate) fn over(bytes: &'a [u8]) -> PageView<'a> {
        PageView { bytes }
    }

    /// The page's number.
    pub fn id(&self) -> PageId {
        header::page_of(self.bytes)
    }

    /// The page and this image of it.
    #[inline]
    pub fn reference(&self) -> PageReference {
        PageReference { page: self.id(), mark: header::mark_of(self.bytes) }
    }

    /// What the page holds.
    pub fn kind(&self) -> PageKind {
        header::kind_of(self.bytes).expect("a checked page is of a known kind")
    }

    /// Height above the leaves, which are at 0.
    pub fn level(&self) -> u8 {
        header::level_of(self.bytes)
    }

    /// The stamp of the merge that last changed the page's rows, or which children it has: no change in it is newer.
    pub fn lsn(&self) -> Lsn {
        header::lsn_of(self.bytes)
    }

    /// The page as a leaf.
    ///
    /// # Errors
    /// `WrongKind` if it is none.
    pub fn leaf(&self) -> Result<LeafView<'a>, PageDamage> {
        header::expect_kind(self.bytes, PageKind::Leaf)?;
        Ok(LeafView::over(self.bytes))
    }

    /// The page as an interior page.
    ///
    /// # Errors
    /// `WrongKind` if it is none.
    pub fn interior(&self) -> Result<InteriorView<'a>, PageDamage> {
        header::expect_kind(self.bytes, PageKind::Interior)?;
        Ok(InteriorView::over(self.bytes))
    }

    /// The whole image.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Debug for PageView<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} page {} at level {}, {}", self.kind(), self.id(), self.level(), self.lsn())
    }
}

#[cfg(test)]
pub(crate) mod tests;
