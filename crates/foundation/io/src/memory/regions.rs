//! Address space from the kernel, in large regions that are dealt out in huge pages.
//!
//! ```text
//!   region, 1 GiB     | 2 MiB | 2 MiB | 2 MiB | ... | 2 MiB |     one mapping, however many owners it has
//!                      owner 1   free   owner 2 (two pages)
//! ```
//! The kernel limits how many mappings a process has (`vm.max_map_count`, 65,530 by default). With a mapping for each
//! 2 MiB a process came to its end at 128 GiB of memory. A region costs one mapping and no memory: a page takes memory
//! once it is written, and gives it back when its owner does. Not so where the system is told otherwise: a process that locks
//! the memory of future mappings (`mlockall`) takes a whole region at once, and with `vm.overcommit_memory` = 2 a whole region
//! counts. Where the kernel refuses that, the region is smaller.
//!
//! Pages of an owner who needs no zeros are given back *stale*: as they are. The kernel may take them when it needs memory, and the next
//! such owner gets them before any others, without the time that clearing takes.
//!
//! Invariants:
//! * A free page that is not stale holds zeros and takes no memory.
//! * Pages that are not stale get an owner only in exchange for as many stale ones, if there are: these give their memory back.
//!   So the memory of all owners and of what is stale is never more than owners have had at a time.
//! * At most one region of the usual size stays without an owner, so that a process at its border does not map and unmap.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{Content, HUGE_PAGE_BYTES};

/// Huge pages of a region.
const REGION_PAGES: usize = 512;

static REGIONS: Mutex<Regions> = Mutex::new(Regions::new());

/// Memory at the border of a huge page, at least `bytes` of it; `None` if there is none left.
pub(super) fn take(bytes: usize, content: Content) -> Option<NonNull<u8>> {
    let pages = bytes.div_ceil(HUGE_PAGE_BYTES);
    let Taken { start, is_to_be_cleared, exchanged } = lock().take(pages, content)?;
    // Outside of the latch, while nobody else can be given the pages.
    if is_to_be_cleared {
        // SAFETY: they were just taken.
        unsafe { clear(start, pages * HUGE_PAGE_BYTES) };
    }
    for page in exchanged {
        // SAFETY: as above.
        unsafe { clear(page, HUGE_PAGE_BYTES) };
        let unused = lock().give_back(page, 1, Content::Zeros);
        drop(unused);
    }
    Some(start)
}

/// Takes memory for all of what `take(bytes)` gave. Linux 5.14 and later; before that nothing happens.
pub(super) fn populate(start: NonNull<u8>, bytes: usize) {
    let whole = bytes.next_multiple_of(HUGE_PAGE_BYTES);
    // SAFETY: whatever the pages hold stays as it is.
    if unsafe { madvise(start.as_ptr().cast(), whole, Advice::LinuxPopulateWrite) }.is_err() {
        // The first writes take the memory then.
    }
}

/// # Safety
/// `start` comes from `take(bytes, content)`, and nobody uses the memory any more.
pub(super) unsafe fn give_back(start: NonNull<u8>, bytes: usize, content: Content) {
    let pages = bytes.div_ceil(HUGE_PAGE_BYTES);
    // Outside of the latch, while nobody else can be given the pages.
    // SAFETY: as the caller promises; the range is as long as `take` made it.
    unsafe {
        match content {
            Content::Zeros => clear(start, pages * HUGE_PAGE_BYTES),
            Content::Any => leave(start, pages * HUGE_PAGE_BYTES),
        }
    }
    let unused = lock().give_back(start, pages, content);
    drop(unused);
}

fn lock() -> std::sync::MutexGuard<'static, Regions> {
    // No code that can panic leaves the regions half changed.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the memory under whole pages back. They read as zeros then.
///
/// # Safety
/// The range is part of a region, and nobody uses it.
unsafe fn clear(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller promises.
    if unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) }.is_err() {
        // The process has locked its memory: it wants to keep it.
        // SAFETY: as the caller promises.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
    }
}

/// Lets the kernel take the memory under whole pages when it needs some. They read as they are, or as zeros, then.
///
/// # Safety
/// The range is part of a region, and nobody uses it.
unsafe fn leave(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller promises.
    if unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxFree) }.is_err() {
        // The process has locked its memory, or the kernel is older than 4.5: the pages stay.
    }
}

/// Pages that have an owner now.
struct Taken {
    start: NonNull<u8>,
    /// Some are stale, and their owner needs zeros.
    is_to_be_cleared: bool,
    /// Stale pages, now without a mark, that are to be cleared and given back.
    exchanged: Vec<NonNull<u8>>,
}

/// All regions of the process, by address.
struct Regions(BTreeMap<usize, Region>);

impl Regions {
    const fn new() -> Regions {
        Regions(BTreeMap::new())
    }

    fn take(&mut self, pages: usize, content: Content) -> Option<Taken> {
        let stale = match content {
            Content::Any => self.0.values_mut().find_map(|region| region.take(pages, Page::Stale)),
            Content::Zeros => None,
        };
        let (start, stale_pages) = match stale {
            Some(taken) => taken,
            None => self.take_free(pages)?,
        };
        let exchanged = self.take_stale_pages(pages - stale_pages);
        Some(Taken { start, is_to_be_cleared: content == Content::Zeros && stale_pages > 0, exchanged })
    }

    /// Neighbours that are free, stale or not, and how many are stale.
    fn take_free(&mut self, pages: usize) -> Option<(NonNull<u8>, usize)> {
        if let Some(taken) = self.0.values_mut().find_map(|region| region.take(pages, Page::Free)) {
            return Some(taken);
        }
        let mut region = Region::map_at_least(pages)?;
        let taken = region.take(pages, Page::Free);
        self.0.insert(region.start.addr().get(), region);
        taken
    }

    /// Up to so many stale pages, each by itself.
    fn take_stale_pages(&mut self, limit: usize) -> Vec<NonNull<u8>> {
        let mut found = Vec::new();
        for region in self.0.values_mut() {
            while found.len() < limit
                && let Some((page, _)) = region.take(1, Page::Stale)
            {
                found.push(page);
            }
        }
        found
    }

    /// Returns the region of the pages if it is not needed any more.
    fn give_back(&mut self, start: NonNull<u8>, pages: usize, content: Content) -> Option<Region> {
        let (address, region) =
            self.0.range_mut(..=start.addr().get()).next_back().expect("what was taken lies in a region");
        region.give_back(start, pages, content);
        if !region.is_free() {
            return None;
        }
        let (address, is_usual) = (*address, region.pages == REGION_PAGES);
        let is_only = self.0.values().filter(|region| region.is_free()).count() == 1;
        if is_usual && is_only { None } else { self.0.remove(&address) }
    }
}

/// A mapping; unmapped when dropped.
struct Region {
    start: NonNull<u8>,
    pages: usize,
    free_pages: usize,
    /// A bit for each page that has an owner.
    taken: Vec<u64>,
    /// A bit for each page that has none, and is stale.
    stale: Vec<u64>,
    stale_pages: usize,
}

/// A page that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Without an owner.
    Free,
    /// And stale.
    Stale,
}

// SAFETY: it owns a mapping, which is tied to no thread.
unsafe impl Send for Region {}

impl Region {
    /// A region of the usual size, or of `pages` if they are more; smaller where the kernel refuses that: the address
    /// space may be limited, or memory that is not written may count.
    fn map_at_least(pages: usize) -> Option<Region> {
        let mut wanted = REGION_PAGES.max(pages);
        loop {
            if let Some(start) = map(wanted * HUGE_PAGE_BYTES) {
                let (taken, stale) = (vec![0; wanted.div_ceil(64)], vec![0; wanted.div_ceil(64)]);
                return Some(Region {
                    start,
                    pages: wanted,
                    free_pages: wanted,
                    taken,
                    stale,
                    stale_pages: 0,
                });
            }
            if wanted == pages {
                return None;
            }
            wanted = (wanted / 2).max(pages);
        }
    }

    fn is_free(&self) -> bool {
        self.free_pages == self.pages
    }

    fn is_taken(&self, page: usize) -> bool {
        is_set(&self.taken, page)
    }

    /// The first `pages` neighbours of a kind, and how many of them are stale.
    fn take(&mut self, pages: usize, kind: Page) -> Option<(NonNull<u8>, usize)> {
        let there_are = if kind == Page::Stale { self.stale_pages } else { self.free_pages };
        if there_are < pages {
            return None;
        }
        let mut run = 0;
        let last = (0..self.pages).find(|page| {
            let is_one = match kind {
                Page::Free => !self.is_taken(*page),
                Page::Stale => is_set(&self.stale, *page),
            };
            run = if is_one { run + 1 } else { 0 };
            run == pages
        })?;
        let (first, mut stale) = (last + 1 - pages, 0);
        for page in first..=last {
            self.taken[page / 64] |= 1 << (page % 64);
            stale += usize::from(is_set(&self.stale, page));
            self.stale[page / 64] &= !(1 << (page % 64));
        }
        self.free_pages -= pages;
        self.stale_pages -= stale;
        // SAFETY: `first` is a page of the region.
        Some((unsafe { self.start.add(first * HUGE_PAGE_BYTES) }, stale))
    }

    fn give_back(&mut self, start: NonNull<u8>, pages: usize, content: Content) {
        let first = (start.addr().get() - self.start.addr().get()) / HUGE_PAGE_BYTES;
        for page in first..first + pages {
            assert!(self.is_taken(page), "memory is given back twice");
            self.taken[page / 64] &= !(1 << (page % 64));
            if content == Content::Any {
                self.stale[page / 64] |= 1 << (page % 64);
                self.stale_pages += 1;
            }
        }
        self.free_pages += pages;
    }
}

fn is_set(bits: &[u64], page: usize) -> bool {
    bits[page / 64] >> (page % 64) & 1 == 1
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region's own mapping, and nobody has a part of it.
        unsafe { unmap(self.start.as_ptr().cast(), self.pages * HUGE_PAGE_BYTES) };
    }
}

/// A new mapping at the border of a huge page.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let all = bytes.checked_add(HUGE_PAGE_BYTES)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping where the kernel likes.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), all, protection, flags) }.ok()?;
    let before = start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
    // SAFETY: less than a huge page further on, and `bytes` follow.
    let aligned = unsafe { start.byte_add(before) };
    // SAFETY: the two ends around the aligned part, of this mapping, that nobody knows.
    unsafe {
        unmap(start, before);
        unmap(aligned.byte_add(bytes), all - bytes - before);
    }
    // SAFETY: the advice changes no content. Refused, the memory only is slower.
    if unsafe { madvise(aligned, bytes, Advice::LinuxHugepage) }.is_err() {
        // A kernel without huge pages.
    }
    NonNull::new(aligned.cast())
}

/// # Safety
/// Whole pages of a mapping that nobody uses.
unsafe fn unmap(start: *mut c_void, bytes: usize) {
    // SAFETY: as the caller promises. It can fail only for want of memory for the kernel's own list of mappings.
    if bytes > 0 && unsafe { munmap(start, bytes) }.is_err() {
        // The pages stay mapped, unused: a leak, and no harm besides.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(regions: &mut Regions, pages: usize) -> NonNull<u8> {
        regions.take(pages, Content::Zeros).unwrap().start
    }

    fn give_back(regions: &mut Regions, start: NonNull<u8>, pages: usize) -> Option<Region> {
        regions.give_back(start, pages, Content::Zeros)
    }

    fn address(start: NonNull<u8>) -> usize {
        start.addr().get()
    }

    #[test]
    fn pages_are_dealt_out_once_and_a_region_without_an_owner_goes() {
        // Regions of its own: those of the process serve other tests.
        let mut regions = Regions::new();
        let half = REGION_PAGES / 2 + 1;
        let first = take(&mut regions, half);
        let second = take(&mut regions, half);
        assert_eq!(regions.0.len(), 2, "two such pieces do not fit into one region");
        let between = take(&mut regions, 1);
        let lowest = address(first).min(address(second));
        assert_eq!(address(between), lowest + half * HUGE_PAGE_BYTES, "the lowest free page is the next");
        assert!(give_back(&mut regions, between, 1).is_none());
        assert!(give_back(&mut regions, first, half).is_none(), "one is kept");
        assert!(give_back(&mut regions, second, half).is_some());
        assert_eq!(regions.0.len(), 1);
        let large = take(&mut regions, REGION_PAGES + 1);
        assert_eq!(regions.0.len(), 2);
        assert!(give_back(&mut regions, large, REGION_PAGES + 1).is_some(), "an unusual one never is");
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn what_is_given_back_twice_is_noticed() {
        let mut regions = Regions::new();
        let (start, other) = (take(&mut regions, 1), take(&mut regions, 1));
        assert!(give_back(&mut regions, start, 1).is_none());
        assert_ne!(start, other);
        give_back(&mut regions, start, 1);
    }

    #[test]
    fn stale_pages_come_first_and_never_add_to_what_owners_have_had() {
        let mut regions = Regions::new();
        let low = take(&mut regions, 1);
        let taken = regions.take(4, Content::Any).unwrap();
        assert!(!taken.is_to_be_cleared && taken.exchanged.is_empty(), "nothing is stale yet");
        let high = take(&mut regions, 1);
        assert!(give_back(&mut regions, low, 1).is_none());
        assert!(regions.give_back(taken.start, 4, Content::Any).is_none());
        // The lowest free page is not stale, and so not the first.
        let again = regions.take(2, Content::Any).unwrap();
        assert_eq!((again.start, again.exchanged.len()), (taken.start, 0));
        // Three neighbours are not stale any more: the two that are go for them.
        let three = regions.take(3, Content::Any).unwrap();
        assert!(address(three.start) > address(high));
        assert_eq!(three.exchanged.len(), 2);
        for page in three.exchanged {
            assert!(give_back(&mut regions, page, 1).is_none());
        }
        // Who needs zeros is told where they have to be made.
        assert!(regions.give_back(again.start, 2, Content::Any).is_none());
        let zeroed = regions.take(5, Content::Zeros).unwrap();
        assert_eq!((zeroed.start, zeroed.is_to_be_cleared, zeroed.exchanged.len()), (low, true, 0));
        // An owner of zeros gives stale pages back, too, where the gap is too small.
        let behind = take(&mut regions, 1);
        assert_eq!(address(behind), address(three.start) + 3 * HUGE_PAGE_BYTES);
        assert!(regions.give_back(three.start, 3, Content::Any).is_none());
        let four = regions.take(4, Content::Zeros).unwrap();
        assert!(address(four.start) > address(behind));
        assert_eq!((four.is_to_be_cleared, four.exchanged.len()), (false, 3));
        assert!(regions.0.values().all(|region| region.stale_pages == 0));
    }
}
