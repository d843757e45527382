//! A page of the space map: on disk, and as the one writer has it in memory.
//!
//! Page `i * k` is a space map page; its bit `b` tells about page `i * k + b`, and `k` is how many bits fit. After the
//! common header, integers little-endian:
//!
//! | offset | bytes     | field      | meaning                                                           |
//! |-------:|----------:|------------|-------------------------------------------------------------------|
//! |     80 |         4 | allocated  | how many bits are set                                             |
//! |     84 |         4 | next       | 1 if the next space map page exists, else 0                       |
//! |     88 |        40 | marks      | of the map pages `10 * i + 1` to `10 * i + 10`, 4 bytes each; zero |
//! |        |           |            | where there is none                                               |
//! |    128 | to the end | bits      | 64-bit words, lowest bit first; set: allocated. Bit 0 is set      |
//!
//! So the map pages refer to one another as a tree does, ten below each, and the superblock to the first: a map page that
//! was lost, by which pages in use would be handed out, is refused. A chunk that changes a map page also writes those
//! above it, three at most in a file of 500 GB with pages of 8 KiB.

use std::collections::VecDeque;

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_types::{Lsn, PageId};

use super::bits;
use crate::page::{
    PAGE_HEADER_BYTES, Page, PageDamage, PageFormat, PageHeader, PageKind, PageMark, PageReference, PageView,
    SharedImage, seal,
};

const ALLOCATED_AT: usize = PAGE_HEADER_BYTES;
const NEXT_AT: usize = ALLOCATED_AT + 4;
const MARKS_AT: usize = NEXT_AT + 4;
const BITS_AT: usize = 128;
/// Map pages that one refers to.
const MAPS_BELOW: usize = 10;
const _: () = assert!(MARKS_AT + 4 * MAPS_BELOW == BITS_AT);

/// Of the map pages that one refers to.
pub(super) type MapMarks = [PageMark; MAPS_BELOW];

/// How many pages one map page covers, itself included.
pub fn pages_per_map(format: &PageFormat) -> u64 {
    (format.page_bytes() - BITS_AT) as u64 * 8
}

/// The map page that covers `page`.
pub fn map_page_of(format: &PageFormat, page: PageId) -> PageId {
    PageId::new(page.get() - page.get() % pages_per_map(format))
}

/// A checked space map page.
#[derive(Clone, Copy, Debug)]
pub struct SpaceMapView<'a> {
    bytes: &'a [u8],
}

impl<'a> SpaceMapView<'a> {
    /// The page as a space map page, its bits checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(page: PageView<'a>) -> Result<SpaceMapView<'a>, PageDamage> {
        if page.kind() != PageKind::SpaceMap {
            return Err(PageDamage::WrongKind { expected: PageKind::SpaceMap, found: page.kind() });
        }
        let bytes = page.bytes();
        if u32_at(bytes, NEXT_AT) > 1 {
            return Err(PageDamage::Structure("the space map's link is neither 0 nor 1"));
        }
        let counted: u32 = bytes[BITS_AT..].iter().map(|byte| byte.count_ones()).sum();
        if counted != u32_at(bytes, ALLOCATED_AT) || bytes[BITS_AT] & 1 == 0 {
            return Err(PageDamage::Structure("the space map's bits do not fit its count"));
        }
        Ok(SpaceMapView { bytes })
    }

    /// Whether the next map page exists; behind the last one every page is free.
    pub fn has_next(&self) -> bool {
        u32_at(self.bytes, NEXT_AT) == 1
    }

    /// The marks of the map pages that it refers to.
    pub(super) fn marks(&self) -> MapMarks {
        std::array::from_fn(|below| PageMark::new(u32_at(self.bytes, MARKS_AT + 4 * below)))
    }

    /// How many pages are allocated, the map page included.
    pub fn allocated_count(&self) -> u32 {
        u32_at(self.bytes, ALLOCATED_AT)
    }

    /// Whether page `index` of those covered is allocated.
    ///
    /// # Panics
    /// If the map page does not cover so many.
    pub fn is_allocated(&self, index: usize) -> bool {
        self.bytes[BITS_AT + index / 8] >> (index % 8) & 1 == 1
    }

    pub(super) fn words(&self) -> Vec<u64> {
        (BITS_AT..self.bytes.len()).step_by(8).map(|offset| u64_at(self.bytes, offset)).collect()
    }
}

/// The references from map page to map page, as they are read one after another.
#[derive(Debug, Default)]
pub(crate) struct MapReferences {
    read: usize,
    /// Of the map pages after the first.
    marks: VecDeque<PageMark>,
}

impl MapReferences {
    /// The next map page, which is page `page`.
    pub(crate) fn next(&mut self, page: PageId) -> PageReference {
        let mark = if self.read == 0 { None } else { self.marks.pop_front() };
        self.read += 1;
        PageReference::new(page, mark.unwrap_or_default())
    }

    /// Notes what the one that was read refers to.
    pub(crate) fn add(&mut self, map: &SpaceMapView<'_>) {
        self.marks.extend(map.marks());
    }
}

/// One map page in memory.
#[derive(Debug)]
pub(super) struct MapPage {
    /// As in the last durable tree.
    pub(super) allocated: Vec<u64>,
    /// Allocated, or taken by the chunk under way, a bulk load or who gives free blocks back to the file system.
    pub(super) busy: Vec<u64>,
    pub(super) has_next: bool,
    /// Of the map pages below it, as in the last durable tree.
    pub(super) marks: MapMarks,
    /// As in the chunk under way, once that is sealed.
    pub(super) marks_after: Option<MapMarks>,
    /// Must be written with the next chunk even if no bit changes: it is new, or its link is.
    pub(super) is_new: bool,
    /// The file has no such page yet.
    pub(super) is_unwritten: bool,
    /// It was new when the chunk under way was sealed.
    pub(super) was_new: bool,
    /// All words before this one are full.
    pub(super) first_open_word: usize,
    /// No run of free pages is longer.
    pub(super) longest_run: usize,
}

impl MapPage {
    pub(super) fn new(words: Vec<u64>, has_next: bool, marks: MapMarks, is_new: bool) -> MapPage {
        let longest_run = words.len() * 64;
        MapPage {
            allocated: words.clone(),
            busy: words,
            has_next,
            marks,
            marks_after: None,
            is_new,
            is_unwritten: is_new,
            was_new: false,
            first_open_word: 0,
            longest_run,
        }
    }

    /// Takes at most `count` pages of the first free stretch that has at least `at_least`: the first of them and how many.
    pub(super) fn take(&mut self, count: usize, at_least: usize) -> Option<(usize, usize)> {
        if at_least > self.longest_run {
            return None;
        }
        let from = bits::first_clear(&self.busy, self.first_open_word * 64).unwrap_or(self.busy.len() * 64);
        self.first_open_word = from / 64;
        let Some(index) = bits::clear_run(&self.busy, from, at_least) else {
            self.longest_run = at_least - 1;
            return None;
        };
        let taken = bits::clear_count(&self.busy, index, count);
        bits::set(&mut self.busy, index, taken);
        Some((index, taken))
    }

    pub(super) fn release(&mut self, index: usize, count: usize) {
        bits::clear(&mut self.busy, index, count);
        self.first_open_word = self.first_open_word.min(index / 64);
        self.longest_run = self.busy.len() * 64;
    }

    pub(super) fn image(&self, format: &PageFormat, page: PageId, stamp: Lsn, allocated: &[u64]) -> Page {
        let mut image = SharedImage::zeroed(format.page_bytes());
        let bytes = image.unshared_mut();
        PageHeader::empty(page, PageKind::SpaceMap, stamp).encode(format, bytes);
        let count: u32 = allocated.iter().map(|word| word.count_ones()).sum();
        bytes[ALLOCATED_AT..NEXT_AT].copy_from_slice(&count.to_le_bytes());
        bytes[NEXT_AT..MARKS_AT].copy_from_slice(&u32::from(self.has_next).to_le_bytes());
        let marks = self.marks_after.unwrap_or(self.marks);
        for (mark, to) in marks.iter().zip(bytes[MARKS_AT..BITS_AT].chunks_exact_mut(4)) {
            to.copy_from_slice(&mark.get().to_le_bytes());
        }
        for (word, to) in allocated.iter().zip(bytes[BITS_AT..].chunks_exact_mut(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        seal(bytes);
        Page::from_sealed(image)
    }
}

/// The map page that refers to map page `index`, and the place of the mark there; `None` for the first one.
pub(super) fn above(index: usize) -> Option<(usize, usize)> {
    let before = index.checked_sub(1)?;
    Some((before / MAPS_BELOW, before % MAPS_BELOW))
}
