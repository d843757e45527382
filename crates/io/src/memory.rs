//! Zeroed memory, large pieces of it straight from the kernel.
//!
//! An allocator keeps what is freed for later, piece by piece between what others have allocated: a process that had
//! frozen and dropped memtables for minutes held three times the memory that was in use. A mapping is gone when it is
//! dropped. Large pieces are aligned so that the kernel can back them with huge pages: random reads in a large memtable
//! otherwise pay more for address translation than for the data.
#![expect(unsafe_code, reason = "memory is taken from the kernel and given back by address")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Small pieces start on a cache line.
const LINE_BYTES: usize = 64;
/// Memory that is aligned to, and a multiple of, this many bytes can be backed by huge pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory of its owner alone, zeroed, given back when dropped. It takes room only where it is written.
#[derive(Debug)]
pub struct ZeroedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns plain memory, which is tied to no thread.
unsafe impl Send for ZeroedMemory {}
// SAFETY: it has no methods that touch the memory.
unsafe impl Sync for ZeroedMemory {}

impl ZeroedMemory {
    /// `bytes` bytes, aligned to a cache line, or to a huge page if they fill one.
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn new(bytes: usize) -> ZeroedMemory {
        assert!(bytes > 0, "no memory is asked for");
        let start = if is_mapped(bytes) { kernel::map(bytes) } else { allocate(bytes) };
        let Some(start) = start else { handle_alloc_error(layout(bytes)) };
        ZeroedMemory { start, bytes }
    }

    /// Where it starts.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        if is_mapped(self.bytes) {
            // SAFETY: `map` made it, of so many bytes, and its one owner is gone.
            unsafe { kernel::unmap(self.start, self.bytes) };
        } else {
            // SAFETY: allocated with this layout; its one owner is gone.
            unsafe { dealloc(self.start.as_ptr(), layout(self.bytes)) };
        }
    }
}

fn is_mapped(bytes: usize) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && bytes >= HUGE_PAGE_BYTES
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, LINE_BYTES).expect("memory is smaller than the address space")
}

fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc_zeroed(layout(bytes)) })
}

#[cfg(all(target_os = "linux", not(miri)))]
mod kernel {
    use std::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::HUGE_PAGE_BYTES;

    /// The mapping's whole length: the kernel maps whole pages, and whole huge pages are what it should use.
    fn mapped_bytes(bytes: usize) -> usize {
        bytes.next_multiple_of(4096)
    }

    /// Zeroed memory at the border of a huge page; `None` if there is none left.
    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let wanted = mapped_bytes(bytes);
        let all = wanted + HUGE_PAGE_BYTES;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), all, protection, MapFlags::PRIVATE) }.ok()?;
        let before = start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: less than a huge page further on, and `wanted` bytes follow.
        let aligned = unsafe { start.byte_add(before) };
        // SAFETY: the two ends around the aligned part, of this mapping, that nobody knows.
        unsafe {
            give_back(start, before);
            give_back(aligned.byte_add(wanted), all - wanted - before);
        }
        // SAFETY: the advice changes no content. Refused, the memory only is slower.
        if unsafe { madvise(aligned, wanted, Advice::LinuxHugepage) }.is_err() {
            // A kernel without huge pages.
        }
        NonNull::new(aligned.cast())
    }

    /// # Safety
    /// `start` comes from `map(bytes)`, and nobody uses the memory any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe { give_back(start.as_ptr().cast(), mapped_bytes(bytes)) };
    }

    /// # Safety
    /// Whole pages of a mapping that nobody uses.
    unsafe fn give_back(start: *mut std::ffi::c_void, bytes: usize) {
        // SAFETY: as the caller promises. It can fail only for want of memory for the kernel's own list of mappings.
        if bytes > 0 && unsafe { munmap(start, bytes) }.is_err() {
            // The pages stay mapped, unused: a leak, and no harm besides.
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod kernel {
    use std::ptr::NonNull;

    pub(super) fn map(_bytes: usize) -> Option<NonNull<u8>> {
        unreachable!("nothing is mapped on this system")
    }

    pub(super) unsafe fn unmap(_start: NonNull<u8>, _bytes: usize) {
        unreachable!("nothing is mapped on this system")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed_and_can_be_written() {
        let sizes = [1, 64, 4096, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES * 2 + 12_345];
        for bytes in sizes {
            let memory = ZeroedMemory::new(bytes);
            let alignment =
                if bytes >= HUGE_PAGE_BYTES && !cfg!(miri) { HUGE_PAGE_BYTES } else { LINE_BYTES };
            assert!(memory.start().addr().get().is_multiple_of(alignment), "{bytes}");
            // SAFETY: it has `bytes` bytes, and nobody else knows it.
            let slice = unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.bytes()) };
            assert!(slice.iter().all(|byte| *byte == 0), "{bytes}");
            slice.fill(0xA5);
        }
    }
}
