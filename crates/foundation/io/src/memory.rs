//! Memory, large pieces of it straight from the kernel: zeroed, or as an owner before has left it.
//!
//! An allocator keeps what is freed for later, piece by piece between what others have allocated: a process that had
//! frozen and dropped memtables for minutes held three times the memory that was in use. Whole pages of a mapping are
//! given back the moment they are dropped. Large pieces are aligned so that the kernel can back them with huge pages: random
//! reads in a large memtable otherwise pay more for address translation than for the data. They take memory in steps of
//! huge pages, so ask for multiples of them.
#![expect(unsafe_code, reason = "memory is taken from the kernel and given back by address")]

#[cfg(all(target_os = "linux", not(miri)))]
mod regions;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Elsewhere the allocator is asked for all.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod regions {
    use std::ptr::NonNull;

    use crate::memory::Content;

    pub(super) fn take(_bytes: usize, _content: Content) -> Option<NonNull<u8>> {
        unreachable!("nothing is mapped on this system")
    }

    pub(super) fn populate(_start: NonNull<u8>, _bytes: usize) {
        unreachable!("nothing is mapped on this system")
    }

    pub(super) unsafe fn give_back(_start: NonNull<u8>, _bytes: usize, _content: Content) {
        unreachable!("nothing is mapped on this system")
    }
}

/// Small pieces start on a cache line.
const LINE_BYTES: usize = 64;
/// Memory that is aligned to, and a multiple of, this many bytes can be backed by huge pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The content of memory when an owner gets the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Zeros,
    /// Bytes of an owner before, or zeros.
    Any,
}

/// Memory of its owner alone, zeroed, given back when dropped. It takes room only where it is written.
#[derive(Debug)]
pub struct ZeroedMemory(Piece);

/// Memory of its owner alone, given back when dropped, for those who write before they read: it holds anything. What one owner gives back the
/// next one gets as it is, and the kernel clears nothing. Meanwhile the kernel may take it when it needs memory.
#[derive(Debug)]
pub struct UnclearedMemory(Piece);

impl ZeroedMemory {
    /// `bytes` bytes, aligned to a cache line, or to a huge page if they fill one.
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn new(bytes: usize) -> ZeroedMemory {
        ZeroedMemory(Piece::new(bytes, Content::Zeros))
    }

    /// Where it starts.
    pub fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// Takes the room now, and not where it is written first: there the kernel clears a huge page while the writer waits. Memory from the
    /// allocator, and a kernel that does not know the call, take it later.
    pub fn populate(&self) {
        if is_mapped(self.0.bytes) {
            regions::populate(self.0.start, self.0.bytes);
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }
}

impl UnclearedMemory {
    /// As [`ZeroedMemory::new`].
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn new(bytes: usize) -> UnclearedMemory {
        UnclearedMemory(Piece::new(bytes, Content::Any))
    }

    /// Where it starts.
    pub fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }
}

#[derive(Debug)]
struct Piece {
    start: NonNull<u8>,
    bytes: usize,
    content: Content,
}

// SAFETY: it owns plain memory, which is tied to no thread.
unsafe impl Send for Piece {}
// SAFETY: it has no methods that touch the memory.
unsafe impl Sync for Piece {}

impl Piece {
    fn new(bytes: usize, content: Content) -> Piece {
        assert!(bytes > 0, "no memory is asked for");
        let start = if is_mapped(bytes) { regions::take(bytes, content) } else { allocate(bytes, content) };
        let Some(start) = start else { handle_alloc_error(layout(bytes)) };
        Piece { start, bytes, content }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if is_mapped(self.bytes) {
            // SAFETY: `take` gave it, of so many bytes, and its one owner is gone.
            unsafe { regions::give_back(self.start, self.bytes, self.content) };
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

fn allocate(bytes: usize, content: Content) -> Option<NonNull<u8>> {
    let layout = layout(bytes);
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe {
        match content {
            Content::Zeros => alloc_zeroed(layout),
            Content::Any => alloc(layout),
        }
    })
}

#[cfg(test)]
mod tests {
    #[cfg(all(target_os = "linux", not(miri)))]
    use seawall_testing::Need;

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

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_hundred_gibibytes_take_a_few_hundred_mappings() {
        let counts_all = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
        if counts_all.is_ok_and(|mode| mode.trim() == "2") {
            return Need::AddressSpace.skip("the kernel counts memory that nobody has written");
        }
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let before = mappings();
        let mut all: Vec<ZeroedMemory> = (0..70_000).map(|_| ZeroedMemory::new(HUGE_PAGE_BYTES)).collect();
        assert!(mappings() < before + 400, "{} mappings, {before} before", mappings());
        // Every other one goes: what is between them stays, and is dealt out again.
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        all.extend((0..35_000).map(|_| ZeroedMemory::new(HUGE_PAGE_BYTES)));
        assert!(mappings() < before + 400, "{} mappings, {before} before", mappings());
        drop(all);
        assert!(mappings() < before + 100, "{} mappings, {before} before", mappings());
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn populated_memory_is_written_without_the_kernel() {
        /// How often this thread has had to wait for a page so far.
        fn faults() -> u64 {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, behind_name) = stat.rsplit_once(')').unwrap();
            behind_name.split_ascii_whitespace().nth(7).unwrap().parse().unwrap()
        }
        let bytes = 4 * HUGE_PAGE_BYTES - 5000;
        let faults_of_writing = |memory: &ZeroedMemory| {
            let before = faults();
            for offset in (0..bytes).step_by(4096) {
                // SAFETY: it has `bytes` bytes, and nobody else knows it.
                unsafe { memory.start().add(offset).write_volatile(0xA5) };
            }
            faults() - before
        };
        let plain = ZeroedMemory::new(bytes);
        // The regions of the process have been used by other tests: what is free takes no memory.
        assert!(faults_of_writing(&plain) >= 4);
        let populated = ZeroedMemory::new(bytes);
        populated.populate();
        // SAFETY: as above.
        let slice = unsafe { std::slice::from_raw_parts(populated.start().as_ptr(), bytes) };
        assert!(slice.iter().all(|byte| *byte == 0));
        assert!(faults_of_writing(&populated) < 2);
        // Too little for a page: nothing to do.
        ZeroedMemory::new(4096).populate();
    }

    #[test]
    fn uncleared_memory_can_be_written_and_does_not_show_to_those_who_want_zeros() {
        for bytes in [4096, HUGE_PAGE_BYTES, 5 * HUGE_PAGE_BYTES] {
            for _ in 0..4 {
                let memory = UnclearedMemory::new(bytes);
                // SAFETY: it has `bytes` bytes, and nobody else knows it.
                unsafe { memory.start().as_ptr().write_bytes(0xA5, memory.bytes()) };
                drop(memory);
                let zeroed = ZeroedMemory::new(bytes);
                // SAFETY: as above, and all of it is initialised.
                let slice = unsafe { std::slice::from_raw_parts(zeroed.start().as_ptr(), zeroed.bytes()) };
                assert!(slice.iter().all(|byte| *byte == 0), "{bytes}");
            }
        }
    }

    #[test]
    fn memory_that_was_given_back_comes_again_as_zeros() {
        for bytes in [4096, HUGE_PAGE_BYTES, 3 * HUGE_PAGE_BYTES] {
            for _ in 0..3 {
                let memory = ZeroedMemory::new(bytes);
                // SAFETY: it has `bytes` bytes, and nobody else knows it.
                let slice =
                    unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.bytes()) };
                assert!(slice.iter().all(|byte| *byte == 0), "{bytes}");
                slice.fill(0xA5);
            }
        }
    }
}
