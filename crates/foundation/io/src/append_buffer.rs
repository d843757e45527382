//! A buffer that one owner appends to while others read what was appended: without a lock, and without a copy.
//!
//! ```text
//!   [appended: never changes, anybody may read it|being written by the owner         ]
//!                                                ^ moved by the owner when bytes are complete
//! ```
#![expect(
    unsafe_code,
    reason = "one thread writes behind the bytes that others read, which no slice can say"
)]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::aligned::AlignedBuffer;

struct Memory {
    buffer: AlignedBuffer,
    /// Bytes before this are never written again while there is a reader.
    appended: AtomicUsize,
}

/// The owner's side. There is one for each memory.
pub struct AppendBuffer {
    memory: Arc<Memory>,
}

/// A reader's side.
#[derive(Clone)]
pub struct AppendedBytes {
    memory: Arc<Memory>,
}

impl AppendBuffer {
    /// An empty buffer for `capacity` bytes. Its pages are touched here, so that no `append` meets one for the first time.
    pub fn new(capacity: usize) -> AppendBuffer {
        let mut buffer = AlignedBuffer::zeroed(capacity);
        // Not zeros: the allocator's are there without a page being touched.
        buffer.fill(0xA5);
        AppendBuffer { memory: Arc::new(Memory { buffer, appended: AtomicUsize::new(0) }) }
    }

    /// How many bytes it has room for.
    pub fn capacity(&self) -> usize {
        self.memory.buffer.length()
    }

    /// Bytes appended so far.
    pub fn length(&self) -> usize {
        // Relaxed: only the owner changes it.
        self.memory.appended.load(Ordering::Relaxed)
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn append(&mut self, bytes: &[u8]) {
        let (length, capacity) = (self.length(), self.capacity());
        assert!(bytes.len() <= capacity - length, "{} bytes behind {length} of {capacity}", bytes.len());
        // SAFETY: the range was just checked. Readers look at bytes before `appended` only, and the whole buffer is lent
        // (`buffer`) only while the owner is borrowed, which `&mut self` rules out; for the same reason nobody else writes.
        // `bytes` cannot be a part of what is written here, which nobody can borrow.
        unsafe {
            let end = self.memory.buffer.start().as_ptr().add(length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
        }
        // Release: pairs with the acquire of `AppendedBytes::bytes`, whose caller sees the bytes.
        self.memory.appended.store(length + bytes.len(), Ordering::Release);
    }

    /// The whole memory, for a write to a file: what lies behind the appended bytes says nothing.
    pub fn buffer(&self) -> &AlignedBuffer {
        &self.memory.buffer
    }

    /// Another reader.
    pub fn reader(&self) -> AppendedBytes {
        AppendedBytes { memory: Arc::clone(&self.memory) }
    }

    /// The buffer without its bytes; `None` if there is still a reader.
    pub fn cleared(mut self) -> Option<AppendBuffer> {
        *Arc::get_mut(&mut self.memory)?.appended.get_mut() = 0;
        Some(self)
    }
}

impl AppendedBytes {
    /// Some of the appended bytes.
    ///
    /// # Panics
    /// If they were not all appended.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        // Acquire: pairs with the release of `AppendBuffer::append`.
        let appended = self.memory.appended.load(Ordering::Acquire);
        assert!(range.start <= range.end && range.end <= appended, "{range:?} of {appended} appended bytes");
        // SAFETY: inside the buffer, all bytes of which are initialised; nobody writes them while `self`, a reader, is there.
        unsafe {
            let start = self.memory.buffer.start().as_ptr().add(range.start);
            std::slice::from_raw_parts(start, range.end - range.start)
        }
    }
}

impl fmt::Debug for AppendBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AppendBuffer").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl fmt::Debug for AppendedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AppendedBytes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_was_appended_while_more_is_appended() {
        let mut buffer = AppendBuffer::new(10_000);
        let reader = buffer.reader();
        let watcher = std::thread::spawn(move || {
            let mut seen = 0;
            while seen < 10_000 {
                let appended = reader.memory.appended.load(Ordering::Acquire);
                let bytes = reader.bytes(seen..appended);
                assert!(
                    bytes.iter().enumerate().all(|(index, byte)| usize::from(*byte) == (seen + index) % 251)
                );
                seen = appended;
            }
        });
        let bytes: Vec<u8> = (0..251).collect();
        while buffer.length() < 10_000 {
            let start = buffer.length() % 251;
            let length = (7 + start % 13).min(10_000 - buffer.length()).min(251 - start);
            buffer.append(&bytes[start..start + length]);
        }
        watcher.join().unwrap();
        assert_eq!(buffer.buffer()[250..253], [250, 0, 1]);
    }

    #[test]
    fn memory_is_used_again_when_nobody_reads_it() {
        let mut buffer = AppendBuffer::new(100);
        buffer.append(&[1; 100]);
        let reader = buffer.reader();
        assert_eq!(reader.bytes(99..100), [1]);
        drop(reader);
        let buffer = buffer.cleared().unwrap();
        assert_eq!((buffer.length(), buffer.capacity()), (0, 100));
        let _reader = buffer.reader();
        assert!(buffer.cleared().is_none());
    }

    #[test]
    #[should_panic(expected = "0..1 of 0 appended bytes")]
    fn what_was_not_appended_is_not_read() {
        let buffer = AppendBuffer::new(100);
        let _ = buffer.reader().bytes(0..1);
    }

    #[test]
    #[should_panic(expected = "2 bytes behind 99 of 100")]
    fn nothing_is_appended_beyond_the_end() {
        let mut buffer = AppendBuffer::new(100);
        buffer.append(&[0; 99]);
        buffer.append(&[0; 2]);
    }
}
