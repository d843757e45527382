//! Which pages of the page file are allocated.
//!
//! ```text
//!   page 0        1     2 ...            k        k + 1 ...           2k
//!   [space map 0] root  tree pages ...   [space map 1] tree pages ... [space map 2] ...
//! ```
//! Page `i * k` is a page of the map (`map_page`) and tells of the `k` pages from itself on.
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
mod map_page;

use std::collections::BTreeSet;

use seawall_types::{Lsn, PageId};

use crate::error::TreeError;
use crate::page::{Page, PageFormat, PageReference};
use crate::published::FIRST_MAP;
use crate::sabotage::{Defect, sabotaged};

pub(crate) use map_page::MapReferences;
use map_page::{MapMarks, MapPage, above};
pub use map_page::{SpaceMapView, map_page_of, pages_per_map};

/// Pages side by side in the page file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRun {
    /// The first page.
    pub first: PageId,
    /// How many; at least one.
    pub count: u32,
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
mod tests;
