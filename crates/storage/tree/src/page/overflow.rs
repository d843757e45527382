//! Overflow extents: a long value lies in a chain of runs of pages, each with one header and one checksum.
//!
//! | offset | bytes | field      | meaning                                                                   |
//! |-------:|------:|------------|---------------------------------------------------------------------------|
//! |      0 |    80 | header     | see `header`, of the first page; the checksum covers the whole extent     |
//! |     80 |     4 | pages      | pages of the extent, 1 to 128; at least one                               |
//! |     84 |     4 | data_bytes | bytes of the value that it holds; as many pages as they need, not more    |
//! |     88 |     8 | next       | first page of the next extent, or zero                                    |
//! |     96 |     8 | total      | length of the whole value                                                 |
//! |    104 |     8 | position   | where in the value this extent's bytes stand                              |
//! |    112 |     4 | next_mark  | mark of the next extent, or zero                                          |
//! |    116 |     4 | own_mark   | zero in memory, and on disk unless the database is encrypted: `encrypted` |
//! |    120 |       | data       | the bytes; zeros after them                                               |

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_types::{Lsn, PageId};

use super::header::{PAGE_HEADER_BYTES, PageHeader, PageKind, mark_of, verify_checksum};
use super::{PageDamage, PageFormat, PageMark, PageReference, seal};

/// Most pages of one extent.
pub const EXTENT_PAGES_MAX: usize = 128;
/// Bytes before the data.
pub const EXTENT_HEADER_BYTES: usize = PAGE_HEADER_BYTES + 40;
const PAGES_AT: usize = PAGE_HEADER_BYTES;
const DATA_BYTES_AT: usize = PAGES_AT + 4;
const NEXT_AT: usize = DATA_BYTES_AT + 4;
const TOTAL_AT: usize = NEXT_AT + 8;
const POSITION_AT: usize = TOTAL_AT + 8;
const NEXT_MARK_AT: usize = POSITION_AT + 8;
/// See `encrypted`.
pub(super) const OWN_MARK_AT: usize = NEXT_MARK_AT + 4;
const _: () = assert!(OWN_MARK_AT + 4 == EXTENT_HEADER_BYTES);

/// The decoded header of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentHeader {
    /// First page.
    pub first: PageId,
    /// Pages of the extent.
    pub pages: usize,
    /// Bytes of the value in it.
    pub data_bytes: usize,
    /// The next extent, if the value goes on.
    pub next: Option<PageReference>,
    /// Length of the whole value.
    pub total_bytes: u64,
    /// Where in the value this extent's bytes stand.
    pub position: u64,
}

impl ExtentHeader {
    /// Reads the header from the first page of an extent. Checks all but the checksum, which covers the whole extent:
    /// nothing here may be trusted until [`Extent::decode`] has seen all of it, except that `pages` is bounded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(format: &PageFormat, first: PageId, page: &[u8]) -> Result<ExtentHeader, PageDamage> {
        if page.len() < format.page_bytes() {
            return Err(PageDamage::Length { expected: format.page_bytes(), found: page.len() });
        }
        let header = PageHeader::decode_fields(format, first, page)?;
        if header.kind != PageKind::Overflow {
            return Err(PageDamage::WrongKind { expected: PageKind::Overflow, found: header.kind });
        }
        let (next, next_mark) =
            (PageId::new(u64_at(page, NEXT_AT)), PageMark::new(u32_at(page, NEXT_MARK_AT)));
        if u32_at(page, OWN_MARK_AT) != 0 || (next.get() == 0 && next_mark.get() != 0) {
            return Err(PageDamage::Structure("a mark in the header of an extent that has none"));
        }
        let extent = ExtentHeader {
            first,
            pages: u32_at(page, PAGES_AT) as usize,
            data_bytes: u32_at(page, DATA_BYTES_AT) as usize,
            next: (next.get() != 0).then_some(PageReference::new(next, next_mark)),
            total_bytes: u64_at(page, TOTAL_AT),
            position: u64_at(page, POSITION_AT),
        };
        extent.check(format)?;
        Ok(extent)
    }

    fn check(&self, format: &PageFormat) -> Result<(), PageDamage> {
        if self.pages == 0 || self.pages > EXTENT_PAGES_MAX {
            return Err(PageDamage::Structure("an extent of no pages or too many"));
        }
        if self.data_bytes == 0 || extent_pages(format, self.data_bytes) != self.pages {
            return Err(PageDamage::Structure("the data of an extent does not fit its pages"));
        }
        let end = self.position.checked_add(self.data_bytes as u64);
        let fits = match self.next {
            Some(next) => end.is_some_and(|end| end < self.total_bytes) && next.page != self.first,
            None => end == Some(self.total_bytes),
        };
        if fits {
            Ok(())
        } else {
            Err(PageDamage::Structure("an extent does not fit the length of its value"))
        }
    }
}

/// A checked extent.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Its header.
    pub header: ExtentHeader,
    /// Its bytes of the value.
    pub data: &'a [u8],
    /// The mark of this image of it.
    pub mark: PageMark,
}

impl<'a> Extent<'a> {
    /// Checks all of an extent; `image` has all its pages and may have more bytes after them.
    ///
    /// # Errors
    /// What is wrong with it; `Length` if it has more pages than `image`.
    pub fn decode(format: &PageFormat, first: PageId, image: &'a [u8]) -> Result<Extent<'a>, PageDamage> {
        let header = ExtentHeader::decode(format, first, image)?;
        let expected = header.pages * format.page_bytes();
        let image = image.get(..expected).ok_or(PageDamage::Length { expected, found: image.len() })?;
        verify_checksum(image)?;
        let data = &image[EXTENT_HEADER_BYTES..EXTENT_HEADER_BYTES + header.data_bytes];
        Ok(Extent { header, data, mark: mark_of(image) })
    }
}

/// Pages that an extent with `data_bytes` bytes of data takes.
pub const fn extent_pages(format: &PageFormat, data_bytes: usize) -> usize {
    (EXTENT_HEADER_BYTES + data_bytes).div_ceil(format.page_bytes())
}

/// Builds the image of an extent: `header.pages` pages with `data`.
///
/// # Panics
/// If the header does not fit itself or the data.
pub fn encode_extent(format: &PageFormat, header: &ExtentHeader, lsn: Lsn, data: &[u8]) -> Vec<u8> {
    let fits = header.check(format).is_ok() && data.len() == header.data_bytes;
    assert!(fits, "{header:?} with {} bytes", data.len());
    let number = |value: usize| u32::try_from(value).expect("an extent has at most 8 MiB").to_le_bytes();
    let mut image = vec![0; header.pages * format.page_bytes()];
    PageHeader::empty(header.first, PageKind::Overflow, lsn).encode(format, &mut image);
    image[PAGES_AT..DATA_BYTES_AT].copy_from_slice(&number(header.pages));
    image[DATA_BYTES_AT..NEXT_AT].copy_from_slice(&number(header.data_bytes));
    let (next, next_mark) = header.next.map_or((0, 0), |next| (next.page.get(), next.mark.get()));
    image[NEXT_AT..TOTAL_AT].copy_from_slice(&next.to_le_bytes());
    image[TOTAL_AT..POSITION_AT].copy_from_slice(&header.total_bytes.to_le_bytes());
    image[POSITION_AT..NEXT_MARK_AT].copy_from_slice(&header.position.to_le_bytes());
    image[NEXT_MARK_AT..OWN_MARK_AT].copy_from_slice(&next_mark.to_le_bytes());
    image[EXTENT_HEADER_BYTES..EXTENT_HEADER_BYTES + data.len()].copy_from_slice(data);
    seal(&mut image);
    image
}
