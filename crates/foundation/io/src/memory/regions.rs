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
//! Invariants:
//! * A free page holds zeros and takes no memory.
//! * At most one region of the usual size stays without an owner, so that a process at its border does not map and unmap.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::HUGE_PAGE_BYTES;

/// Huge pages of a region.
const REGION_PAGES: usize = 512;

static REGIONS: Mutex<Regions> = Mutex::new(Regions::new());

/// Zeroed memory at the border of a huge page, at least `bytes` of it; `None` if there is none left.
pub(super) fn take(bytes: usize) -> Option<NonNull<u8>> {
    lock().take(bytes.div_ceil(HUGE_PAGE_BYTES))
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
/// `start` comes from `take(bytes)`, and nobody uses the memory any more.
pub(super) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    let pages = bytes.div_ceil(HUGE_PAGE_BYTES);
    // Outside of the latch, while nobody else can be given the pages.
    // SAFETY: as the caller promises; the range is as long as `take` made it.
    unsafe { clear(start, pages * HUGE_PAGE_BYTES) };
    let unused = lock().give_back(start, pages);
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

/// All regions of the process, by address.
struct Regions(BTreeMap<usize, Region>);

impl Regions {
    const fn new() -> Regions {
        Regions(BTreeMap::new())
    }

    fn take(&mut self, pages: usize) -> Option<NonNull<u8>> {
        if let Some(start) = self.0.values_mut().find_map(|region| region.take(pages)) {
            return Some(start);
        }
        let mut region = Region::map_at_least(pages)?;
        let start = region.take(pages);
        self.0.insert(region.start.addr().get(), region);
        start
    }

    /// Returns the region of the pages if it is not needed any more.
    fn give_back(&mut self, start: NonNull<u8>, pages: usize) -> Option<Region> {
        let (address, region) =
            self.0.range_mut(..=start.addr().get()).next_back().expect("what was taken lies in a region");
        region.give_back(start, pages);
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
                let taken = vec![0; wanted.div_ceil(64)];
                return Some(Region { start, pages: wanted, free_pages: wanted, taken });
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
        self.taken[page / 64] >> (page % 64) & 1 == 1
    }

    /// The first `pages` neighbours that are free.
    fn take(&mut self, pages: usize) -> Option<NonNull<u8>> {
        if self.free_pages < pages {
            return None;
        }
        let mut run = 0;
        let last = (0..self.pages).find(|page| {
            run = if self.is_taken(*page) { 0 } else { run + 1 };
            run == pages
        })?;
        let first = last + 1 - pages;
        for page in first..=last {
            self.taken[page / 64] |= 1 << (page % 64);
        }
        self.free_pages -= pages;
        // SAFETY: `first` is a page of the region.
        Some(unsafe { self.start.add(first * HUGE_PAGE_BYTES) })
    }

    fn give_back(&mut self, start: NonNull<u8>, pages: usize) {
        let first = (start.addr().get() - self.start.addr().get()) / HUGE_PAGE_BYTES;
        for page in first..first + pages {
            assert!(self.is_taken(page), "memory is given back twice");
            self.taken[page / 64] &= !(1 << (page % 64));
        }
        self.free_pages += pages;
    }
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

    #[test]
    fn pages_are_dealt_out_once_and_a_region_without_an_owner_goes() {
        // Regions of its own: those of the process serve other tests.
        let mut regions = Regions::new();
        let half = REGION_PAGES / 2 + 1;
        let first = regions.take(half).unwrap();
        let second = regions.take(half).unwrap();
        assert_eq!(regions.0.len(), 2, "two such pieces do not fit into one region");
        let between = regions.take(1).unwrap();
        let address = |start: NonNull<u8>| start.addr().get();
        let lowest = address(first).min(address(second));
        assert_eq!(address(between), lowest + half * HUGE_PAGE_BYTES, "the lowest free page is the next");
        assert!(regions.give_back(between, 1).is_none());
        assert!(regions.give_back(first, half).is_none(), "one is kept");
        assert!(regions.give_back(second, half).is_some());
        assert_eq!(regions.0.len(), 1);
        let large = regions.take(REGION_PAGES + 1).unwrap();
        assert_eq!(regions.0.len(), 2);
        assert!(regions.give_back(large, REGION_PAGES + 1).is_some(), "an unusual one never is");
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn what_is_given_back_twice_is_noticed() {
        let mut regions = Regions::new();
        let (start, other) = (regions.take(1).unwrap(), regions.take(1).unwrap());
        assert!(regions.give_back(start, 1).is_none());
        assert_ne!(start, other);
        regions.give_back(start, 1);
    }
}
