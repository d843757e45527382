//! Which pages of the page file are allocated.
//!
//! ```text
//!   page 0        1     2 ...            k        k + 1 ...           2k
//!   [space map 0] root  tree pages ...   [space map 1] tree pages ... [space map 2] ...
//! ```
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
//!
//! In memory a page of the map has two sets of bits: `allocated`, as in the last durable tree, and `busy`, which adds
//! the pages that the chunk under way and bulk loads have taken, and free blocks while they are punched out of the file.
//! Only pages that are not busy are handed out, and what a chunk frees stays busy until that chunk is durable in place and
//! nobody reads a long value of the tree before it.
//! Therefore:
//! * a page handed out is free in the last durable tree: it can be written in place without protection;
//! * a page freed by chunk `n` is never written before chunk `n` is durable and in place. Applying chunk `n` once more
//!   after a crash writes none of the pages it freed, so it cannot overwrite what chunk `n + 1` put there;
//! * what a bulk load has taken but not linked is free after a crash, because no chunk writes it as allocated.
//!
//! Map pages are read when the writer first needs them, never when the database is opened.

mod bits;

use std::collections::{BTreeSet, VecDeque};

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_types::{Lsn, PageId};

use crate::error::TreeError;
use crate::page::{
    PAGE_HEADER_BYTES, Page, PageDamage, PageFormat, PageHeader, PageKind, PageMark, PageReference, PageView,
    SharedImage, seal,
};
use crate::published::FIRST_MAP;
use crate::sabotage::{Defect, sabotaged};

const ALLOCATED_AT: usize = PAGE_HEADER_BYTES;
const NEXT_AT: usize = ALLOCATED_AT + 4;
const MARKS_AT: usize = NEXT_AT + 4;
const BITS_AT: usize = 128;
/// Map pages that one refers to.
const MAPS_BELOW: usize = 10;
const _: () = assert!(MARKS_AT + 4 * MAPS_BELOW == BITS_AT);

/// Of the map pages that one refers to.
type MapMarks = [PageMark; MAPS_BELOW];

/// Pages side by side in the page file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRun {
    /// The first page.
    pub first: PageId,
    /// How many; at least one.
    pub count: u32,
}

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
    fn marks(&self) -> MapMarks {
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

    fn words(&self) -> Vec<u64> {
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
struct MapPage {
    /// As in the last durable tree.
    allocated: Vec<u64>,
    /// Allocated, or taken by the chunk under way, a bulk load or who gives free blocks back to the file system.
    busy: Vec<u64>,
    has_next: bool,
    /// Of the map pages below it, as in the last durable tree.
    marks: MapMarks,
    /// As in the chunk under way, once that is sealed.
    marks_after: Option<MapMarks>,
    /// Must be written with the next chunk even if no bit changes: it is new, or its link is.
    is_new: bool,
    /// The file has no such page yet.
    is_unwritten: bool,
    /// It was new when the chunk under way was sealed.
    was_new: bool,
    /// All words before this one are full.
    first_open_word: usize,
    /// No run of free pages is longer.
    longest_run: usize,
}

impl MapPage {
    fn new(words: Vec<u64>, has_next: bool, marks: MapMarks, is_new: bool) -> MapPage {
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
    fn take(&mut self, count: usize, at_least: usize) -> Option<(usize, usize)> {
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

    fn release(&mut self, index: usize, count: usize) {
        bits::clear(&mut self.busy, index, count);
        self.first_open_word = self.first_open_word.min(index / 64);
        self.longest_run = self.busy.len() * 64;
    }

    fn image(&self, format: &PageFormat, page: PageId, stamp: Lsn, allocated: &[u64]) -> Page {
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

type ReadMapPage = Box<dyn Fn(PageReference) -> Result<Page, TreeError> + Send>;

/// The map of free pages, as the one writer sees it.
pub(crate) struct SpaceMap {
    format: PageFormat,
    read: ReadMapPage,
    maps: Vec<Option<MapPage>>,
    /// Maps before this one have no free page.
    first_open_map: usize,
    fresh: Vec<PageRun>,
    freed: Vec<PageRun>,
    /// Pages of `freed`.
    freed_count: u64,
}

impl std::fmt::Debug for SpaceMap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SpaceMap").field("fresh", &self.fresh).field("freed", &self.freed).finish()
    }
}

impl SpaceMap {
    /// A map of which nothing is read yet.
    pub(crate) fn new(format: PageFormat, read: ReadMapPage) -> SpaceMap {
        let (fresh, freed) = (Vec::new(), Vec::new());
        SpaceMap { format, read, maps: Vec::new(), first_open_map: 0, fresh, freed, freed_count: 0 }
    }

    /// The first map page of a new tree: itself and the root are allocated.
    pub(crate) fn first_image(format: &PageFormat, stamp: Lsn) -> Page {
        let words = bits::empty_words(format);
        let map = MapPage::new(words, false, MapMarks::default(), true);
        let mut allocated = map.allocated.clone();
        bits::set(&mut allocated, 0, 2);
        map.image(format, PageId::new(0), stamp, &allocated)
    }

    /// Takes `count` pages side by side, the lowest there are, for the chunk under way.
    pub(crate) fn allocate(&mut self, count: u32) -> Result<PageId, TreeError> {
        let first = self.reserve(count)?;
        self.adopt(PageRun { first, count });
        Ok(first)
    }

    /// As `allocate`, for a bulk load: no chunk writes the pages as allocated until it adopts them.
    pub(crate) fn reserve(&mut self, count: u32) -> Result<PageId, TreeError> {
        Ok(self.reserve_up_to(count, count)?.first)
    }

    /// As `reserve`, of the first stretch of free pages that has at least `at_least`: all that it has, up to `count`.
    pub(crate) fn reserve_up_to(&mut self, count: u32, at_least: u32) -> Result<PageRun, TreeError> {
        let per_map = pages_per_map(&self.format);
        assert!(
            0 < at_least && at_least <= count && u64::from(count) < per_map,
            "a run of {at_least} to {count} pages"
        );
        let mut index = self.first_open_map;
        loop {
            let map = self.map(index)?;
            let found = map.take(count as usize, at_least as usize);
            let (is_full, has_next) = (map.longest_run == 0, map.has_next);
            if let Some((bit, taken)) = found {
                let count = u32::try_from(taken).expect("no more than was asked for");
                return Ok(PageRun { first: PageId::new(index as u64 * per_map + bit as u64), count });
            }
            if is_full && index == self.first_open_map {
                self.first_open_map = index + 1;
            }
            if !has_next {
                self.append_map(index);
            }
            index += 1;
        }
    }

    /// Makes reserved pages part of the chunk under way.
    pub(crate) fn adopt(&mut self, run: PageRun) {
        push_run(&mut self.fresh, run);
    }

    /// Gives pages back: reserved ones that no chunk has adopted, or freed ones that wait for nothing more.
    pub(crate) fn release(&mut self, run: PageRun) -> Result<(), TreeError> {
        let (index, bit) = self.place(run.first);
        self.map(index)?.release(bit, run.count as usize);
        self.first_open_map = self.first_open_map.min(index);
        Ok(())
    }

    /// As `release`, of runs in page order; but blocks of `block_pages` that are free now as a whole are taken again, and returned: for who
    /// gives their space back to the file system before others may have them.
    pub(crate) fn release_but_blocks(
        &mut self,
        runs: &[PageRun],
        block_pages: u32,
    ) -> Result<Vec<PageRun>, TreeError> {
        for run in runs {
            self.release(*run)?;
        }
        let (mut blocks, size) = (Vec::new(), block_pages as usize);
        for run in runs {
            let (index, bit) = self.place(run.first);
            let map_page = self.page_of(index).get();
            let map = self.map(index)?;
            for block in bit / size..=(bit + run.count as usize - 1) / size {
                let start = block * size;
                if bits::are_clear(&map.busy, start, size) {
                    bits::set(&mut map.busy, start, size);
                    let first = PageId::new(map_page + start as u64);
                    push_run(&mut blocks, PageRun { first, count: block_pages });
                }
            }
        }
        Ok(blocks)
    }

    /// Frees pages of the last durable tree: they can be taken again once the chunk under way is durable.
    pub(crate) fn free(&mut self, run: PageRun) {
        self.freed_count += u64::from(run.count);
        push_run(&mut self.freed, run);
        if sabotaged(Defect::FreedPagesUsedAtOnce) {
            self.release(run).unwrap_or(());
        }
    }

    /// Takes a page back that the chunk under way had allocated; `false` if it had not.
    pub(crate) fn unallocate(&mut self, page: PageId) -> Result<bool, TreeError> {
        let within = |run: &PageRun| page >= run.first && page.get() - run.first.get() < u64::from(run.count);
        let Some(index) = self.fresh.iter().position(within) else { return Ok(false) };
        let run = self.fresh.swap_remove(index);
        let before = page.get() - run.first.get();
        let after = u64::from(run.count) - before - 1;
        for (first, count) in [(run.first.get(), before), (page.get() + 1, after)] {
            if let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) {
                self.fresh.push(PageRun { first: PageId::new(first), count });
            }
        }
        self.release(PageRun { first: page, count: 1 })?;
        Ok(true)
    }

    /// What the chunk under way frees, in page order, neighbours joined.
    pub(crate) fn freed_runs(&self) -> Vec<PageRun> {
        let mut sorted = self.freed.clone();
        sorted.sort_unstable();
        let mut joined: Vec<PageRun> = Vec::new();
        sorted.into_iter().for_each(|run| push_run(&mut joined, run));
        joined
    }

    /// How many pages the chunk under way frees so far.
    pub(crate) fn freed_count(&self) -> u64 {
        self.freed_count
    }

    /// The map pages as they are after the chunk under way.
    ///
    /// # Errors
    /// If a page is freed that is not allocated: the tree or the map is damaged.
    pub(crate) fn seal(&mut self, stamp: Lsn) -> Result<Vec<Page>, TreeError> {
        let (mut fresh, mut freed) = (self.fresh.clone(), self.freed.clone());
        fresh.sort_unstable();
        freed.sort_unstable();
        let of_runs = fresh.iter().chain(&freed).map(|run| self.place(run.first).0);
        let is_new = |map: &Option<MapPage>| map.as_ref().is_some_and(|map| map.is_new);
        let of_links = (0..self.maps.len()).filter(|index| is_new(&self.maps[*index]));
        let mut changed: BTreeSet<usize> = of_runs.chain(of_links).collect();
        let mut images = Vec::with_capacity(changed.len());
        // Those below before those above, which refer to them.
        while let Some(index) = changed.pop_last() {
            let allocated =
                self.words_after(index, self.runs_of(&fresh, index), self.runs_of(&freed, index))?;
            let (format, page) = (self.format, self.page_of(index));
            let map = self.map(index)?;
            map.was_new |= std::mem::take(&mut map.is_new);
            let image = map.image(&format, page, stamp, &allocated);
            if let Some((above, below)) = above(index) {
                let map = self.map(above)?;
                map.marks_after.get_or_insert(map.marks)[below] = image.reference().mark;
                changed.insert(above);
            }
            images.push(image);
        }
        Ok(images)
    }

    /// Those of `runs`, sorted, that are in a map page. Runs never cross one.
    fn runs_of<'r>(&self, runs: &'r [PageRun], index: usize) -> &'r [PageRun] {
        let start = runs.partition_point(|run| self.place(run.first).0 < index);
        let count = runs[start..].partition_point(|run| self.place(run.first).0 == index);
        &runs[start..start + count]
    }

    fn page_of(&self, index: usize) -> PageId {
        PageId::new(index as u64 * pages_per_map(&self.format))
    }

    /// Pages of the map that are not in the file yet.
    pub(crate) fn unwritten_pages(&self) -> Vec<PageId> {
        let is_unwritten = |index: &usize| self.maps[*index].as_ref().is_some_and(|map| map.is_unwritten);
        (0..self.maps.len()).filter(is_unwritten).map(|index| self.page_of(index)).collect()
    }

    /// The chunk under way is durable. What it freed is free in the file, and can be taken again once it is released.
    pub(crate) fn commit(&mut self) -> Result<(), TreeError> {
        for run in std::mem::take(&mut self.fresh) {
            let (index, bit) = self.place(run.first);
            bits::set(&mut self.map(index)?.allocated, bit, run.count as usize);
        }
        self.freed_count = 0;
        for run in std::mem::take(&mut self.freed) {
            let (index, bit) = self.place(run.first);
            bits::clear(&mut self.map(index)?.allocated, bit, run.count as usize);
        }
        for map in self.maps.iter_mut().flatten() {
            // One that a bulk load has added since the chunk was sealed is in no chunk yet.
            map.is_unwritten &= !std::mem::take(&mut map.was_new);
            map.marks = map.marks_after.take().unwrap_or(map.marks);
        }
        Ok(())
    }

    /// The chunk under way is given up: its pages are free again, and what it freed is not.
    pub(crate) fn roll_back(&mut self) -> Result<(), TreeError> {
        self.freed.clear();
        self.freed_count = 0;
        for map in self.maps.iter_mut().flatten() {
            map.is_new |= std::mem::take(&mut map.was_new);
            map.marks_after = None;
        }
        for run in std::mem::take(&mut self.fresh) {
            self.release(run)?;
        }
        Ok(())
    }

    fn words_after(
        &mut self,
        index: usize,
        fresh: &[PageRun],
        freed: &[PageRun],
    ) -> Result<Vec<u64>, TreeError> {
        let mut words = self.map(index)?.allocated.clone();
        let lost = usize::from(sabotaged(Defect::SpaceMapBitsLost));
        for run in fresh.iter().skip(lost) {
            bits::set(&mut words, self.place(run.first).1, run.count as usize);
        }
        for run in freed {
            let (_, bit) = self.place(run.first);
            let end = bit + run.count as usize;
            if end > words.len() * 64
                || bits::first_clear(&words[..end.div_ceil(64)], bit).is_some_and(|clear| clear < end)
            {
                let page = run.first;
                return Err(TreeError::not_allocated(&self.format, page));
            }
            bits::clear(&mut words, bit, run.count as usize);
        }
        Ok(words)
    }

    fn place(&self, page: PageId) -> (usize, usize) {
        let per_map = pages_per_map(&self.format);
        let index =
            usize::try_from(page.get() / per_map).expect("the page file has fewer map pages than memory");
        let bit = usize::try_from(page.get() % per_map).expect("a map page has fewer than 2^32 bits");
        (index, bit)
    }

    fn map(&mut self, index: usize) -> Result<&mut MapPage, TreeError> {
        if self.maps.get(index).is_none_or(Option::is_none) {
            let id = self.page_of(index);
            let mark = match above(index) {
                Some((above, below)) => self.map(above)?.marks[below],
                None => FIRST_MAP.mark,
            };
            // Read before there is room for it: the index may come from a damaged page.
            let page = (self.read)(PageReference::new(id, mark))?;
            let view = SpaceMapView::new(page.view())
                .map_err(|damage| TreeError::damaged(&self.format, id, damage))?;
            if self.maps.len() <= index {
                self.maps.resize_with(index + 1, || None);
            }
            self.maps[index] = Some(MapPage::new(view.words(), view.has_next(), view.marks(), false));
        }
        Ok(self.maps[index].as_mut().expect("the map page was just loaded"))
    }

    fn append_map(&mut self, last: usize) {
        let mut words = bits::empty_words(&self.format);
        bits::set(&mut words, 0, 1);
        if let Some(map) = self.maps[last].as_mut() {
            map.has_next = true;
            map.is_new = !sabotaged(Defect::NewMapPageNotLinked);
        }
        self.maps.resize_with(last + 1, || None);
        self.maps.push(Some(MapPage::new(words, false, MapMarks::default(), true)));
    }
}

/// The map page that refers to map page `index`, and the place of the mark there; `None` for the first one.
fn above(index: usize) -> Option<(usize, usize)> {
    let before = index.checked_sub(1)?;
    Some((before / MAPS_BELOW, before % MAPS_BELOW))
}

/// Adds `run`, joined with the last one if they are neighbours in one map page.
fn push_run(runs: &mut Vec<PageRun>, run: PageRun) {
    if let Some(last) = runs.last_mut()
        && last.first.get() + u64::from(last.count) == run.first.get()
        && let Some(count) = last.count.checked_add(run.count)
    {
        // Runs never cross a map page, since a map page is never in a run.
        last.count = count;
        return;
    }
    runs.push(run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SeededRandom;
    use seawall_types::DatabaseId;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex};

    type Images = Arc<Mutex<BTreeMap<u64, Page>>>;

    fn map_over(images: &Images) -> SpaceMap {
        let images = Arc::clone(images);
        let read = move |at: PageReference| {
            let page = images.lock().unwrap()[&at.page.get()].clone();
            assert!(at.page == FIRST_MAP.page || page.reference() == at, "{at:?} is referred to");
            Ok(page)
        };
        SpaceMap::new(format(), Box::new(read))
    }

    fn format() -> PageFormat {
        PageFormat::new(4096, &DatabaseId::from_bytes([1; 16])).unwrap()
    }

    fn store(map: &mut SpaceMap, images: &Images) -> Vec<PageRun> {
        for page in map.seal(Lsn::new(5)).unwrap() {
            let id = page.view().id();
            let page = Page::decode(&format(), id, page.bytes()).unwrap();
            SpaceMapView::new(page.view()).unwrap();
            images.lock().unwrap().insert(id.get(), page);
        }
        let runs = map.freed_runs();
        map.commit().unwrap();
        runs.iter().for_each(|run| map.release(*run).unwrap());
        runs
    }

    #[test]
    fn random_allocations_agree_with_a_set_of_pages() {
        let images: Images = Arc::default();
        images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
        let per_map = pages_per_map(&format());
        let (mut durable, mut freed) = (BTreeSet::from([0, 1]), Vec::new());
        let mut map = map_over(&images);
        let mut random = seawall_simulation::SeededRandom::new(7);
        for round in 0..400 {
            let mut busy = durable.clone();
            for _ in 0..random.below(30) {
                let count = if random.below(4) == 0 { 1 + random.below(1500) } else { 1 };
                let first = map.allocate(u32::try_from(count).unwrap()).unwrap().get();
                for page in first..first + count {
                    assert!(busy.insert(page), "page {page} was handed out twice, round {round}");
                    assert_ne!(page % per_map, 0, "a map page was handed out");
                }
            }
            if random.below(5) == 0 {
                map.roll_back().unwrap();
                continue;
            }
            let candidates: Vec<u64> = durable.iter().copied().filter(|page| page % per_map > 1).collect();
            for page in candidates {
                if random.below(3) == 0 {
                    map.free(PageRun { first: PageId::new(page), count: 1 });
                    freed.push(page);
                }
            }
            let runs = store(&mut map, &images);
            assert_eq!(runs.iter().map(|run| u64::from(run.count)).sum::<u64>(), freed.len() as u64);
            freed.drain(..).for_each(|page| assert!(busy.remove(&page)));
            durable = busy;
            if random.below(3) == 0 {
                map = map_over(&images);
            }
            let counted: u32 = images
                .lock()
                .unwrap()
                .values()
                .map(|page| SpaceMapView::new(page.view()).unwrap().allocated_count())
                .sum();
            let maps = images.lock().unwrap().len() as u64;
            // Page 0 is in the set from the start.
            assert_eq!(u64::from(counted), durable.len() as u64 + maps - 1, "round {round}");
        }
        assert!(images.lock().unwrap().len() > 1, "the test never needed a second map page");
    }

    /// Against a list of all pages: the lowest stretch that is long enough, and as much of it as was asked for.
    #[test]
    fn reserve_up_to_takes_what_there_is() {
        let images: Images = Arc::default();
        images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
        let per_map = usize::try_from(pages_per_map(&format())).unwrap();
        let mut map = map_over(&images);
        let mut random = seawall_simulation::SeededRandom::new(11);
        let mut below = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
        let mut is_busy: Vec<bool> = (0..3 * per_map).map(|page| page % per_map == 0).collect();
        // Nearly the whole first map page, so that some runs come to lie under the second.
        map.reserve(u32::try_from(per_map - 1_000).unwrap()).unwrap();
        is_busy[..per_map - 998].fill(true);
        let (mut short_runs, mut last_end) = (0, per_map - 998);
        for round in 0..600 {
            let at_least = 1 + below(60);
            let count = at_least + below(200);
            let narrow = |count: usize| u32::try_from(count).unwrap();
            let run = map.reserve_up_to(narrow(count), narrow(at_least)).unwrap();
            let (first, taken) = (usize::try_from(run.first.get()).unwrap(), run.count as usize);
            let end = first + taken;
            assert!(at_least <= taken && taken <= count, "round {round}");
            assert!(!is_busy[first..end].contains(&true), "{run:?} is taken, round {round}");
            assert!(taken == count || is_busy[end], "more was free behind {run:?}, round {round}");
            let longest = is_busy[..first].split(|busy| *busy).map(<[bool]>::len).max().unwrap();
            assert!(longest < at_least, "{longest} pages are free before {run:?}, round {round}");
            short_runs += u32::from(taken < count);
            is_busy[first..end].fill(true);
            last_end = last_end.max(end);
            // A hole, of any length.
            let from = 2 + below(last_end - 2);
            for page in (from..from + below(120)).filter(|page| page % per_map > 0) {
                if std::mem::take(&mut is_busy[page]) {
                    map.release(PageRun { first: PageId::new(page as u64), count: 1 }).unwrap();
                }
            }
        }
        assert!(short_runs > 50, "{short_runs} runs were shorter than asked for");
        assert!(last_end > per_map, "the test never needed a second map page");
    }

    #[test]
    fn a_page_freed_twice_is_refused() {
        let images: Images = Arc::default();
        images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
        let mut map = map_over(&images);
        map.free(PageRun { first: PageId::new(9), count: 1 });
        assert!(map.seal(Lsn::ZERO).is_err());
    }

    #[test]
    fn what_a_bulk_load_took_is_not_written_as_allocated() {
        let images: Images = Arc::default();
        images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
        let mut map = map_over(&images);
        let first = map.reserve(10).unwrap();
        let other = map.allocate(1).unwrap();
        assert_eq!(other.get(), first.get() + 10);
        store(&mut map, &images);
        let page = images.lock().unwrap()[&0].clone();
        assert_eq!(SpaceMapView::new(page.view()).unwrap().allocated_count(), 3);
        map.adopt(PageRun { first, count: 10 });
        assert!(map.unallocate(PageId::new(first.get() + 3)).unwrap());
        assert!(!map.unallocate(PageId::new(first.get() + 3)).unwrap());
        store(&mut map, &images);
        let page = images.lock().unwrap()[&0].clone();
        assert_eq!(SpaceMapView::new(page.view()).unwrap().allocated_count(), 12);
    }

    /// Beyond the first ten, a page of the map is referred to by one that another one refers to.
    #[test]
    fn pages_of_the_map_at_every_level_are_found_again_by_their_marks() {
        const MAPS: u64 = 125;
        let images: Images = Arc::default();
        images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
        let per_map = pages_per_map(&format());
        let mut map = map_over(&images);
        map.allocate(u32::try_from(per_map - 2).unwrap()).unwrap();
        for _ in 1..MAPS {
            map.allocate(u32::try_from(per_map - 1).unwrap()).unwrap();
        }
        store(&mut map, &images);
        // Each opens the map anew, and changes one page of it only.
        for index in [124, 111, 110, 101, 100, 12, 11, 10, 1] {
            let mut map = map_over(&images);
            let page = PageId::new(index * per_map + 9);
            map.free(PageRun { first: page, count: 1 });
            assert_eq!(store(&mut map, &images), [PageRun { first: page, count: 1 }]);
            assert_eq!(map_over(&images).allocate(1).unwrap(), page, "page {index} of the map");
        }
        let images = images.lock().unwrap();
        assert_eq!(images.len() as u64, MAPS);
        let mut references = MapReferences::default();
        for (id, page) in images.iter() {
            let at = references.next(PageId::new(*id));
            assert!(at == FIRST_MAP || at == page.reference(), "{at:?} is referred to, not {page:?}");
            references.add(&SpaceMapView::new(page.view()).unwrap());
        }
    }

    /// Whatever is taken and given back: the blocks that come back are those that became free as a whole, and nobody is handed a page of
    /// them before they are released.
    #[test]
    fn blocks_that_are_free_as_a_whole_are_taken_once() {
        const BLOCK: u64 = 16;
        let images = Images::default();
        let first = SpaceMap::first_image(&format(), Lsn::new(1));
        images.lock().unwrap().insert(0, first);
        let mut map = map_over(&images);
        let mut random = SeededRandom::new(5);
        let mut held: BTreeSet<u64> = BTreeSet::new();
        let mut blocks_seen = 0;
        for _ in 0..2_000 {
            let taken = map.reserve_up_to(u32::try_from(random.range(1..40)).unwrap(), 1).unwrap();
            held.extend((0..u64::from(taken.count)).map(|page| taken.first.get() + page));
            let gone: Vec<u64> = held.iter().copied().filter(|_| random.chance(1, 6)).collect();
            let mut runs: Vec<PageRun> = Vec::new();
            gone.iter().for_each(|page| push_run(&mut runs, PageRun { first: PageId::new(*page), count: 1 }));
            gone.iter().for_each(|page| assert!(held.remove(page)));
            let blocks = map.release_but_blocks(&runs, 16).unwrap();
            let of_blocks: BTreeSet<u64> = blocks
                .iter()
                .flat_map(|run| run.first.get()..run.first.get() + u64::from(run.count))
                .collect();
            let is_free = |block: u64| (block * BLOCK..(block + 1) * BLOCK).all(|page| !held.contains(&page));
            // Page 0 is that of the map, page 1 the root.
            let touched: BTreeSet<u64> = gone.iter().map(|page| page / BLOCK).collect();
            let expected: BTreeSet<u64> = touched
                .into_iter()
                .filter(|block| *block > 0 && is_free(*block))
                .flat_map(|block| block * BLOCK..(block + 1) * BLOCK)
                .collect();
            assert_eq!(of_blocks, expected);
            let other = map.reserve(1).unwrap().get();
            assert!(!of_blocks.contains(&other) && !held.contains(&other));
            map.release(PageRun { first: PageId::new(other), count: 1 }).unwrap();
            blocks_seen += blocks.len();
            blocks.into_iter().try_for_each(|run| map.release(run)).unwrap();
        }
        assert!(blocks_seen > 20, "{blocks_seen}");
    }
}
