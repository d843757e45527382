//! Interior pages: separators and children. Child `i` holds the keys from separator `i - 1` on and below separator `i`.
//!
//! | offset           | bytes     | field      | meaning                                                          |
//! |-----------------:|----------:|------------|------------------------------------------------------------------|
//! |                0 |        80 | header     | see `header`; `count` = n children, at least one                 |
//! |               80 |         p | prefix     | the bytes that all separators begin with                         |
//! |           80 + p | 4 x (n-1) | heads      | first four bytes of each separator after the prefix, as a number |
//! | 80 + p + 4 (n-1) | 2 x (n-1) | offsets    | where each separator starts; it ends where the next one starts   |
//! | 80 + p + 6 (n-1) |    12 x n | children   | bits 0..56 page, bits 56..64 flags, bits 64..96 mark of its image |
//! |                  |           | unused     | `lower..upper`                                                   |
//! |            upper |           | separators | after the prefix, in order, end to end, up to the page's end     |
//!
//! No separator is all prefix, so that each one starts within the page.
//!
//! Flags of a child: at level 1, bit 0 says that the leaf refers to overflow extents. The others are zero.

use std::cmp::Ordering;

use seawall_codec::bytes::{u16_at, u32_at, u64_at};
use seawall_types::{Lsn, PageId};

use super::header::{PAGE_HEADER_BYTES, PageHeader, PageKind, lsn_of, page_of};
use super::key::{RowKey, head_of, order_to_prefix, search_suffixes};
use super::{Page, PageDamage, PageFormat, PageMark, PageReference, SharedImage, common_prefix_bytes, seal};

const SLOT_BYTES: usize = 4 + 2;
const CHILD_BYTES: usize = 12;
const PAGE_BITS: u32 = 56;

/// Flag of a child at level 1: the leaf refers to overflow extents.
pub const CHILD_HAS_OVERFLOW: u8 = 1;

/// A child of an interior page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its page.
    pub page: PageId,
    /// `CHILD_HAS_OVERFLOW` or zero.
    pub flags: u8,
    /// Of its image.
    pub mark: PageMark,
}

impl Child {
    /// A child with no flags.
    pub const fn new(at: PageReference) -> Child {
        Child { page: at.page, flags: 0, mark: at.mark }
    }

    /// The leaf or interior page `page`.
    pub fn of(page: &Page) -> Child {
        let has_overflow = page.view().leaf().is_ok_and(|leaf| leaf.has_overflow());
        Child { flags: if has_overflow { CHILD_HAS_OVERFLOW } else { 0 }, ..Child::new(page.reference()) }
    }

    /// Its page and image.
    #[inline]
    pub const fn reference(&self) -> PageReference {
        PageReference { page: self.page, mark: self.mark }
    }

    fn encode(&self) -> [u8; CHILD_BYTES] {
        assert!(self.page.get() >> PAGE_BITS == 0, "page {} is past the largest file", self.page);
        let mut bytes = [0; CHILD_BYTES];
        bytes[..8].copy_from_slice(&(self.page.get() | u64::from(self.flags) << PAGE_BITS).to_le_bytes());
        bytes[8..].copy_from_slice(&self.mark.get().to_le_bytes());
        bytes
    }

    #[inline]
    fn decode(bytes: &[u8; CHILD_BYTES]) -> Child {
        let page = u64_at(bytes, 0) & ((1 << PAGE_BITS) - 1);
        Child { page: PageId::new(page), flags: bytes[7], mark: PageMark::new(u32_at(bytes, 8)) }
    }
}

/// A checked interior page.
#[derive(Clone, Copy)]
pub struct InteriorView<'a> {
    bytes: &'a [u8],
    heads: &'a [[u8; 4]],
    offsets: &'a [[u8; 2]],
    children: &'a [[u8; CHILD_BYTES]],
    prefix: &'a [u8],
}

impl<'a> InteriorView<'a> {
    /// A view over an interior page that `validate` passed.
    #[inline]
    pub(super) fn over(bytes: &'a [u8]) -> InteriorView<'a> {
        let count = usize::from(u16_at(bytes, 20));
        let separators = count - 1;
        let (prefix, rest) = bytes[PAGE_HEADER_BYTES..].split_at(usize::from(u16_at(bytes, 22)));
        let (heads, slots) = rest[..slot_bytes(count)].split_at(separators * 4);
        let (offsets, children) = slots.split_at(separators * 2);
        InteriorView {
            bytes,
            heads: heads.as_chunks().0,
            offsets: offsets.as_chunks().0,
            children: children.as_chunks().0,
            prefix,
        }
    }

    /// The page's number.
    #[inline]
    pub(crate) fn id(&self) -> PageId {
        page_of(self.bytes)
    }

    /// The stamp of the merge that last changed which children the page has.
    #[inline]
    pub(crate) fn lsn(&self) -> Lsn {
        lsn_of(self.bytes)
    }

    /// Children of the page, at least one.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an interior page has a child")]
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Height above the leaves, at least 1.
    pub fn level(&self) -> u8 {
        self.bytes[18]
    }

    /// Child `index`, below `len`.
    #[inline]
    pub fn child(&self, index: usize) -> Child {
        Child::decode(&self.children[index])
    }

    /// The separator between child `index` and the next: the smallest key that the next one may hold.
    #[inline]
    pub fn separator(&self, index: usize) -> RowKey<'a> {
        RowKey::new(self.prefix, self.suffix(index))
    }

    /// The smallest key that child `index` may hold as far as this page knows; `None` for the first.
    pub fn lower_fence(&self, index: usize) -> Option<RowKey<'a>> {
        index.checked_sub(1).map(|separator| self.separator(separator))
    }

    /// The key below which the keys of child `index` lie as far as this page knows; `None` for the last.
    pub fn upper_fence(&self, index: usize) -> Option<RowKey<'a>> {
        (index + 1 < self.len()).then(|| self.separator(index))
    }

    /// Bytes of the page that are in use: header, slots, separators and prefix.
    pub fn used_bytes(&self) -> usize {
        let separators = self.offsets.first().map_or(0, |_| self.bytes.len() - self.start(0));
        PAGE_HEADER_BYTES + self.prefix.len() + slot_bytes(self.len()) + separators
    }

    /// Index of the child whose range holds `key`.
    #[inline]
    pub fn child_for(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(equal) => equal + 1,
            Err(above) => above,
        }
    }

    /// Index of the child whose range holds the largest key below `key`.
    #[inline]
    pub fn child_below(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(above) | Err(above) => above,
        }
    }

    #[inline]
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        match order_to_prefix(key, self.prefix) {
            Ordering::Less => Err(0),
            Ordering::Greater => Err(self.heads.len()),
            Ordering::Equal => {
                search_suffixes(self.heads, &key[self.prefix.len()..], |index| self.suffix(index))
            }
        }
    }

    #[inline]
    fn suffix(&self, index: usize) -> &'a [u8] {
        let end =
            self.offsets.get(index + 1).map_or(self.bytes.len(), |end| usize::from(u16::from_le_bytes(*end)));
        &self.bytes[self.start(index)..end]
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        usize::from(u16::from_le_bytes(self.offsets[index]))
    }
}

/// Bytes of heads, offsets and children.
fn slot_bytes(children: usize) -> usize {
    (children - 1) * SLOT_BYTES + children * CHILD_BYTES
}

/// Checks the structure of an interior page with a right header.
pub(super) fn validate(format: &PageFormat, header: &PageHeader, image: &[u8]) -> Result<(), PageDamage> {
    if header.count == 0 {
        return Err(PageDamage::Structure("an interior page without a child"));
    }
    header.check_bounds(format, slot_bytes(usize::from(header.count)))?;
    let view = InteriorView::over(image);
    let mut start = header.upper as usize;
    for index in 0..view.offsets.len() {
        let end = view.offsets.get(index + 1).map_or(view.bytes.len(), |end| u16::from_le_bytes(*end).into());
        if view.start(index) != start || end < start || end > view.bytes.len() {
            return Err(PageDamage::Structure("the separators do not lie end to end"));
        }
        if start == end {
            return Err(PageDamage::Structure("a separator with no byte of its own"));
        }
        if view.separator(index).len() > format.max_key_bytes() {
            return Err(PageDamage::Structure("a separator is longer than a key can be"));
        }
        if u32::from_le_bytes(view.heads[index]) != head_of(view.suffix(index)) {
            return Err(PageDamage::Structure("a head is not that of its separator"));
        }
        if index > 0 && view.suffix(index - 1) >= view.suffix(index) {
            return Err(PageDamage::Structure("the separators do not ascend"));
        }
        start = end;
    }
    for child in (0..view.len()).map(|index| view.child(index)) {
        let flags_known =
            if header.level == 1 { child.flags <= CHILD_HAS_OVERFLOW } else { child.flags == 0 };
        if child.page.get() == 0 || child.page == header.page || !flags_known {
            return Err(PageDamage::Structure("a child that cannot be"));
        }
    }
    Ok(())
}

/// The page with other images of some children: `changed` are their indexes and what stands there now. Which children it
/// has, and where they part, stays as it is, and so does its stamp.
pub(crate) fn with_children(page: &Page, view: &InteriorView<'_>, changed: &[(usize, Child)]) -> Page {
    let mut image = SharedImage::copy_of(page.bytes());
    let bytes = image.unshared_mut();
    let children_at = PAGE_HEADER_BYTES + view.prefix.len() + (view.len() - 1) * SLOT_BYTES;
    for (index, child) in changed {
        let at = children_at + index * CHILD_BYTES;
        bytes[at..at + CHILD_BYTES].copy_from_slice(&child.encode());
    }
    seal(bytes);
    Page::from_sealed(image)
}

/// Collects children for one interior page after another; copies separators.
#[derive(Debug)]
pub struct InteriorBuilder {
    format: PageFormat,
    children: Vec<Child>,
    /// Where each separator ends in `bytes`; one less than children.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    prefix_bytes: usize,
}

impl InteriorBuilder {
    /// A builder with no children.
    pub fn new(format: PageFormat) -> InteriorBuilder {
        InteriorBuilder { format, children: Vec::new(), ends: Vec::new(), bytes: Vec::new(), prefix_bytes: 0 }
    }

    /// Children pushed since the last page was finished.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Adds the first child of a page.
    pub fn push_first(&mut self, child: Child) {
        assert!(self.children.is_empty(), "the first child of a page is the one without a separator");
        self.children.push(child);
    }

    /// Adds a child that holds the keys from `separator` on; it fits.
    pub fn push(&mut self, separator: RowKey<'_>, child: Child) {
        assert!(!self.children.is_empty(), "the first child of a page has no separator");
        let length = separator.len();
        assert!((1..=self.format.max_key_bytes()).contains(&length), "a separator of {length} bytes");
        self.prefix_bytes = self.prefix_with(&separator);
        separator.append_to(&mut self.bytes);
        self.ends.push(self.bytes.len());
        self.children.push(child);
    }

    /// Whether one more child with `separator` fits into the page.
    pub fn fits(&self, separator: &RowKey<'_>) -> bool {
        self.encoded_bytes_with(separator) <= self.format.page_bytes()
    }

    /// Bytes of a page that the children take so far, header included; there is at least one.
    pub fn encoded_bytes(&self) -> usize {
        size_of_page(self.ends.len(), self.bytes.len(), self.prefix_bytes)
    }

    /// Bytes that they would take with one more.
    pub fn encoded_bytes_with(&self, separator: &RowKey<'_>) -> usize {
        let prefix_bytes = self.prefix_with(separator);
        size_of_page(self.ends.len() + 1, self.bytes.len() + separator.len(), prefix_bytes)
    }

    /// Builds the page at `level` and starts over with none.
    ///
    /// # Panics
    /// Without a child, or if they do not fit.
    pub fn finish(&mut self, level: u8, page: PageId, lsn: Lsn) -> Page {
        assert!(
            level > 0 && !self.children.is_empty(),
            "an interior page has a child and is above the leaves"
        );
        let mut image = SharedImage::zeroed(self.format.page_bytes());
        let header = self.fill(level, page, lsn, image.unshared_mut());
        header.encode(&self.format, image.unshared_mut());
        seal(image.unshared_mut());
        self.children.clear();
        self.ends.clear();
        self.bytes.clear();
        self.prefix_bytes = 0;
        Page::from_sealed(image)
    }

    /// Writes slots, separators and prefix; returns the header to go with them.
    fn fill(&self, level: u8, page: PageId, lsn: Lsn, image: &mut [u8]) -> PageHeader {
        assert!(self.encoded_bytes() <= image.len(), "{} children do not fit the page", self.children.len());
        let count = self.ends.len();
        let upper = image.len() - (self.bytes.len() - count * self.prefix_bytes);
        let heads_at = PAGE_HEADER_BYTES + self.prefix_bytes;
        image[PAGE_HEADER_BYTES..heads_at].copy_from_slice(&self.bytes[..self.prefix_bytes]);
        let (mut start, mut at) = (0, upper);
        for (index, end) in self.ends.iter().enumerate() {
            let suffix = &self.bytes[start + self.prefix_bytes..*end];
            let head_at = heads_at + index * 4;
            image[head_at..head_at + 4].copy_from_slice(&head_of(suffix).to_le_bytes());
            let offset_at = heads_at + count * 4 + index * 2;
            let offset = u16::try_from(at).expect("a separator starts within a page of at most 64 KiB");
            image[offset_at..offset_at + 2].copy_from_slice(&offset.to_le_bytes());
            image[at..at + suffix.len()].copy_from_slice(suffix);
            at += suffix.len();
            start = *end;
        }
        for (index, child) in self.children.iter().enumerate() {
            let child_at = heads_at + count * SLOT_BYTES + index * CHILD_BYTES;
            image[child_at..child_at + CHILD_BYTES].copy_from_slice(&child.encode());
        }
        let number = |value: usize| u32::try_from(value).expect("a page has at most 64 KiB");
        PageHeader {
            level,
            count: u16::try_from(self.children.len()).expect("a child takes 12 bytes of at most 64 KiB"),
            prefix_bytes: u16::try_from(self.prefix_bytes).expect("a key has at most 4112 bytes"),
            lower: number(heads_at + slot_bytes(self.children.len())),
            upper: number(upper),
            ..PageHeader::empty(page, PageKind::Interior, lsn)
        }
    }

    fn prefix_with(&self, separator: &RowKey<'_>) -> usize {
        match self.ends.first() {
            // Not all of it: the last separator of a page has a byte of its own, see the byte table.
            None => separator.len().saturating_sub(1),
            Some(end) => {
                let first = RowKey::from(&self.bytes[..*end]);
                let shared = match separator.prefix() {
                    [] => common_prefix_bytes(&self.bytes[..*end], separator.suffix()),
                    _ => first.common_prefix_bytes(separator),
                };
                shared.min(self.prefix_bytes)
            }
        }
    }
}

fn size_of_page(separators: usize, separator_bytes: usize, prefix_bytes: usize) -> usize {
    PAGE_HEADER_BYTES + prefix_bytes + slot_bytes(separators + 1) + separator_bytes
        - separators * prefix_bytes
}
