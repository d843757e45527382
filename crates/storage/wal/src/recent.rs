//! The newest durable bytes of the log, in memory: a stream that keeps up reads no file.
//!
//! ```text
//!   record bytes   ...|  page 7  |  page 8  |  page 9  |  page 10 |     a page is 64 KiB of the stream
//!                        slot 3     slot 0     slot 1     slot 2        slot = page number modulo the number of slots
//!                                |<------- held ---------->|
//!                     a later page takes the slot           end of the last batch
//! ```
//! The flusher copies each batch here after the batch is durable and before the log says so. It does that only while a stream is
//! open; the memory is taken with the first batch and given back with the last stream. Each page says what it holds, so a page that
//! was overwritten is a miss, never other bytes, and the stream reads the segment file instead.
//!
//! A page has its own latch. The flusher waits for a stream only where both are at the same page, for a copy of at most 64 KiB.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use seawall_sync::atomic::{AtomicUsize, Ordering};
use seawall_sync::{Mutex, RwLock, WaitWord};

use crate::geometry::StreamPosition;

/// Record bytes that lie in one slot.
const PAGE_BYTES: usize = 64 << 10;

/// Is rung when a log has grown, or has stopped: see [`LogStream::set_bell`](crate::LogStream::set_bell).
pub trait LogBell: Send + Sync + fmt::Debug {
    /// Called by the thread that flushes, before it tells those who wait for the flush: not to wait in here.
    fn ring(&self);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RecentLog {
    slots: Box<[RwLock<Page>]>,
    /// Streams that are open.
    streams: AtomicUsize,
    changed: WaitWord,
    /// A latch. Those of streams that sleep on something else as well.
    bells: Mutex<Vec<Weak<dyn LogBell>>>,
}

/// A page of the stream, or a part of it.
#[derive(Debug, Default)]
struct Page {
    number: u64,
    /// The bytes that are there.
    held: Range<usize>,
    /// Empty while no stream is open.
    bytes: Vec<u8>,
}

impl Page {
    /// Takes `bytes` at `offset` of page `number`, in addition to what the page holds just before.
    fn put(&mut self, number: u64, offset: usize, bytes: &[u8]) {
        if self.number != number || self.held.end != offset {
            self.number = number;
            self.held = offset..offset;
        }
        self.bytes.resize(PAGE_BYTES, 0);
        self.held.end = offset + bytes.len();
        self.bytes[offset..self.held.end].copy_from_slice(bytes);
    }

    /// Copies what it holds of page `number` from `offset` on; how many bytes.
    fn get(&self, number: u64, offset: usize, buffer: &mut [u8]) -> usize {
        if self.number != number || !self.held.contains(&offset) {
            return 0;
        }
        let bytes = (self.held.end - offset).min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.bytes[offset..offset + bytes]);
        bytes
    }
}

impl RecentLog {
    /// Room for `bytes` bytes, rounded up to whole pages.
    pub(crate) fn new(bytes: usize) -> RecentLog {
        let slots = bytes.div_ceil(PAGE_BYTES).max(1);
        RecentLog {
            slots: (0..slots).map(|_| RwLock::default()).collect(),
            streams: AtomicUsize::new(0),
            changed: WaitWord::new(),
            bells: Mutex::default(),
        }
    }

    /// A stream is open from now on: batches are kept, and sleepers are woken.
    pub(crate) fn open_stream(&self) {
        self.streams.fetch_add(1, Ordering::SeqCst);
    }

    /// A stream is closed; with the last one the memory goes back.
    pub(crate) fn close_stream(&self) {
        if self.streams.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        // A stream that was opened meanwhile misses these pages, and finds their bytes in the files.
        for slot in &self.slots {
            *slot.write() = Page::default();
        }
    }

    /// Whether a stream is open.
    pub(crate) fn is_streamed(&self) -> bool {
        self.streams.load(Ordering::SeqCst) > 0
    }

    /// Keeps `bytes`, which are durable and belong at `start`: as many of the last ones as there is room for.
    pub(crate) fn keep(&self, start: StreamPosition, bytes: &[u8]) {
        let without_room = bytes.len().saturating_sub(self.slots.len() * PAGE_BYTES);
        let mut position = start.0 + without_room as u64;
        let mut bytes = &bytes[without_room..];
        while !bytes.is_empty() {
            let (number, offset) = page_of(position);
            let (piece, rest) = bytes.split_at(bytes.len().min(PAGE_BYTES - offset));
            self.slot(number).write().put(number, offset, piece);
            position += piece.len() as u64;
            bytes = rest;
        }
    }

    /// Copies record bytes from `from` on, as many as are here one after the other. The caller asks for durable bytes only.
    pub(crate) fn read(&self, from: StreamPosition, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let (number, offset) = page_of(from.0 + done as u64);
            match self.slot(number).read().get(number, offset, &mut buffer[done..]) {
                0 => break,
                bytes => done += bytes,
            }
        }
        done
    }

    /// More of the log is durable, or nothing will be any more. The log says so before this is called.
    pub(crate) fn has_changed(&self) {
        if self.is_streamed() {
            self.changed.wake_all();
            self.bells.lock().retain(|bell| bell.upgrade().inspect(|bell| bell.ring()).is_some());
        }
    }

    /// `bell` is rung from now on, as long as it is there.
    pub(crate) fn hang(&self, bell: &Arc<dyn LogBell>) {
        let mut bells = self.bells.lock();
        // Of streams that have ended while the log did not grow.
        bells.retain(|bell| bell.strong_count() > 0);
        bells.push(Arc::downgrade(bell));
    }

    /// What streams sleep on until there is more to read.
    pub(crate) fn changed(&self) -> &WaitWord {
        &self.changed
    }

    fn slot(&self, number: u64) -> &RwLock<Page> {
        let slots = self.slots.len() as u64;
        &self.slots[usize::try_from(number % slots).expect("less than the number of slots")]
    }
}

/// Number of the page that `position` lies in, and the offset there.
fn page_of(position: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    (position / page_bytes, usize::try_from(position % page_bytes).expect("less than a page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_one_run_of_bytes_and_says_which() {
        let mut page = Page::default();
        let mut buffer = [0; 8];
        assert_eq!(page.get(0, 0, &mut buffer), 0, "an empty page is a miss, also for page 0");
        page.put(7, 100, b"abcd");
        page.put(7, 104, b"efgh");
        assert_eq!((page.get(7, 102, &mut buffer), &buffer[..6]), (6, &b"cdefgh"[..]));
        assert_eq!(page.get(7, 99, &mut buffer), 0, "before what it holds");
        assert_eq!(page.get(7, 108, &mut buffer), 0, "after what it holds");
        assert_eq!(page.get(3, 102, &mut buffer), 0, "another page of the same slot");
        page.put(7, 200, b"xyz");
        assert_eq!(page.get(7, 102, &mut buffer), 0, "a gap starts a new run");
        assert_eq!(page.get(7, 200, &mut buffer[..2]), 2);
    }
}
