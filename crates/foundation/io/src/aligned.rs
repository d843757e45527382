//! Heap bytes at addresses that direct I/O accepts.
#![expect(unsafe_code, reason = "the allocator is asked for an alignment, which no safe collection offers")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Direct I/O takes memory, file offsets and lengths in multiples of this; no device or file system asks for more.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes that start at a multiple of [`BLOCK_BYTES`] in memory. The length never changes.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

impl AlignedBuffer {
    /// `capacity` zero bytes.
    ///
    /// # Panics
    /// If `capacity` is larger than the address space; aborts when there is no memory.
    pub fn zeroed(capacity: usize) -> AlignedBuffer {
        let layout = AlignedBuffer::layout(capacity);
        // SAFETY: `layout` never has size zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => AlignedBuffer { start, length: capacity },
            None => handle_alloc_error(layout),
        }
    }

    /// Where the bytes start. What is written there must not be borrowed.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// As `len`, without borrowing the bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity.max(1), BLOCK_BYTES).expect("a buffer fits into the address space")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: `zeroed` allocated `start` with this very layout, and nobody else frees it.
        unsafe { dealloc(self.start.as_ptr(), AlignedBuffer::layout(self.length)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `zeroed` allocated and zeroed `length` bytes at `start`; only `drop` frees them, and `&self` rules
        // out `&mut`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` rules out any other access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AlignedBuffer").field("bytes", &self.length).finish()
    }
}

// SAFETY: the buffer owns its bytes, as a `Vec<u8>` does; nothing in it belongs to a thread.
unsafe impl Send for AlignedBuffer {}
// SAFETY: `&AlignedBuffer` only reads.
unsafe impl Sync for AlignedBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zero_and_as_long_as_asked() {
        for capacity in [0, 1, 100, BLOCK_BYTES, 3 * BLOCK_BYTES, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(capacity);
            assert_eq!(buffer.as_ptr().align_offset(BLOCK_BYTES), 0);
            assert_eq!(buffer.len(), capacity);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn a_buffer_moves_between_threads() {
        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
        buffer[17] = 42;
        let back = std::thread::spawn(move || buffer).join().unwrap();
        assert_eq!(back[17], 42);
    }
}
