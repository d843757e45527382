//! A fixed table of cache lines that start as zeros: the memory under filter and directory.
#![expect(unsafe_code, reason = "lines over zeroed memory, so that a large table is made at once")]

use std::marker::PhantomData;
use std::ptr;

use crate::arena::LINE_BYTES;
use seawall_io::ZeroedMemory;

/// What fills one cache line.
///
/// # Safety
/// The type must be [`LINE_BYTES`] long and consist of atomics for which zeros are valid.
pub(crate) unsafe trait Line: Send + Sync {}

/// The table. A line is found by 32 bits of a hash.
pub(crate) struct Lines<T> {
    memory: ZeroedMemory,
    count: usize,
    lines: PhantomData<T>,
}

// SAFETY: it owns its lines, and `Line` asks that they can be sent and shared.
unsafe impl<T: Line> Send for Lines<T> {}
// SAFETY: as above.
unsafe impl<T: Line> Sync for Lines<T> {}

impl<T: Line> Lines<T> {
    const IS_A_LINE: () = assert!(size_of::<T>() == LINE_BYTES);

    /// So many lines of zeros; at least one. They take memory once they are written, a large table huge page by huge page.
    pub(crate) fn new(count: usize) -> Lines<T> {
        let () = Lines::<T>::IS_A_LINE;
        let count = count.clamp(1, u32::MAX as usize);
        let bytes = count * LINE_BYTES;
        Lines { memory: ZeroedMemory::new(bytes), count, lines: PhantomData }
    }

    /// Takes the memory of all lines now.
    pub(crate) fn populate(&self) {
        self.memory.populate();
    }

    /// Bytes of all lines.
    pub(crate) fn bytes(&self) -> usize {
        self.count * LINE_BYTES
    }

    /// The line chosen by the high half of `hash`.
    pub(crate) fn line(&self, hash: u64) -> &T {
        let index = ((hash >> 32) * self.count as u64) >> 32;
        let index = usize::try_from(index).expect("less than the number of lines");
        // SAFETY: `index < count`, as the high half of the hash is below 2^32; and zeros are valid lines.
        unsafe { self.memory.start().cast::<T>().add(index).as_ref() }
    }

    /// Starts loading the line of a hash into the cache.
    pub(crate) fn prefetch(&self, hash: u64) {
        let line = ptr::from_ref(self.line(hash));
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing and cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }
}
