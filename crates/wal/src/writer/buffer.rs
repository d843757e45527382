//! The pending buffer: records that are appended and not yet on their way to the disk.
//!
//! ```text
//!     stream  |..block..|..block..|..block..|
//!     buffer  [carry|rec|rec|rec|rec|        ]
//!             ^     ^batch start    ^next
//!             first block of the batch
//! ```
//! The buffer starts at a block border of the stream. What the last batch left of its last block is carried to the
//! front, so that a batch writes whole blocks and writes the carried bytes again, unchanged.

use seawall_io::{AlignedBuffer, BLOCK_BYTES};
use seawall_types::Lsn;

use crate::geometry::{LogGeometry, StreamPosition};
use crate::record::{LogKey, PreparedRecord, RecordSpan};

/// A block of the carried bytes, in front of what the options allow.
const CARRY_BYTES: usize = BLOCK_BYTES;

/// What the append mutex guards.
#[derive(Debug)]
pub(crate) struct Appender {
    geometry: LogGeometry,
    key: LogKey,
    buffer: AlignedBuffer,
    /// The length that a buffer ordinarily has.
    capacity: usize,
    /// Bytes of the buffer in use, the carried ones included.
    used: usize,
    /// Where the first byte of the buffer belongs; a block border.
    first: StreamPosition,
    batch_start: Lsn,
    next: Lsn,
    batch_number: u64,
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
    /// Nothing more is appended.
    pub(crate) closed: bool,
}

/// A batch on its way to the disk.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) buffer: AlignedBuffer,
    pub(crate) used: usize,
    pub(crate) first: StreamPosition,
    pub(crate) end: Lsn,
    pub(crate) number: u64,
}

/// Whether a record can be placed now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Here(RecordSpan),
    /// The buffer is full: let a flush take it.
    Full,
    /// The record is longer than a buffer: come back with one of at least so many bytes.
    Grow(usize),
}

pub(crate) fn buffer_capacity(buffer_bytes: usize) -> usize {
    buffer_bytes.next_multiple_of(BLOCK_BYTES) + CARRY_BYTES
}

impl Appender {
    /// Goes on at `next`, the end of the log; `carry` is what the log holds of the block that `next` lies in.
    pub(crate) fn new(
        geometry: LogGeometry,
        key: LogKey,
        next: Lsn,
        carry: &[u8],
        capacity: usize,
    ) -> Appender {
        let position = geometry.stream_position(next);
        let first = StreamPosition(position.0 - carry.len() as u64);
        assert_eq!(first.0 % BLOCK_BYTES as u64, 0, "the carried bytes start at a block border");
        let mut buffer = AlignedBuffer::zeroed(capacity);
        buffer[..carry.len()].copy_from_slice(carry);
        let used = carry.len();
        Appender {
            geometry,
            key,
            buffer,
            capacity,
            used,
            first,
            batch_start: next,
            next,
            batch_number: 1,
            records: 0,
            record_bytes: 0,
            closed: false,
        }
    }

    pub(crate) fn next(&self) -> Lsn {
        self.next
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.used
    }

    /// Where a record of `bytes` would lie.
    pub(crate) fn room_for(&self, bytes: usize) -> Room {
        if self.used + bytes <= self.buffer.len() {
            let end = self.geometry.advance(self.next, bytes as u64);
            return Room::Here(RecordSpan { start: self.next, end });
        }
        // Waiting for an empty buffer would let short records starve a long one; so a long one brings its own buffer.
        if bytes > self.capacity / 4 && self.used <= self.capacity {
            return Room::Grow((self.capacity + bytes).next_multiple_of(BLOCK_BYTES));
        }
        Room::Full
    }

    /// Goes on in a larger buffer; returns the old one.
    pub(crate) fn grow(&mut self, mut larger: AlignedBuffer) -> AlignedBuffer {
        assert!(larger.len() >= self.buffer.len(), "a larger buffer is not smaller");
        larger[..self.used].copy_from_slice(&self.buffer[..self.used]);
        std::mem::replace(&mut self.buffer, larger)
    }

    /// Copies the record to the place that `room_for` found and makes it part of the batch.
    pub(crate) fn place(&mut self, record: &PreparedRecord, span: RecordSpan) {
        let bytes = record.as_bytes();
        let copy = &mut self.buffer[self.used..self.used + bytes.len()];
        copy.copy_from_slice(bytes);
        record.stamp(copy, self.key, span.start, self.batch_start);
        self.used += bytes.len();
        self.next = span.end;
        self.records += 1;
        self.record_bytes += bytes.len() as u64;
    }

    /// Takes what is pending as a batch and goes on in `spare`, which is taken only then. `None` if nothing is pending.
    pub(crate) fn take_batch(&mut self, spare: &mut Option<AlignedBuffer>) -> Option<Batch> {
        if self.next == self.batch_start {
            return None;
        }
        let whole_blocks = self.used / BLOCK_BYTES * BLOCK_BYTES;
        let mut buffer = spare.take().expect("the flusher brings the buffer of the last batch");
        let carry = self.used - whole_blocks;
        buffer[..carry].copy_from_slice(&self.buffer[whole_blocks..self.used]);
        let batch = Batch {
            buffer: std::mem::replace(&mut self.buffer, buffer),
            used: self.used,
            first: self.first,
            end: self.next,
            number: self.batch_number,
        };
        self.first = StreamPosition(self.first.0 + whole_blocks as u64);
        self.used = carry;
        self.batch_start = self.next;
        self.batch_number += 1;
        Some(batch)
    }
}

impl Batch {
    /// Bytes to write: whole blocks.
    pub(crate) fn padded_bytes(&self) -> usize {
        self.used.next_multiple_of(BLOCK_BYTES)
    }

    /// The rest of the last block still holds bytes of an older batch: zero says "no record here".
    pub(crate) fn pad(&mut self) {
        let padded = self.padded_bytes();
        self.buffer[self.used..padded].fill(0);
    }
}
