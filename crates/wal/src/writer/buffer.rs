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
//!
//! Buffers are mapped files (`pending`), so that a killed process leaves them to the next one. A record that is too long
//! for the rest of one brings a larger buffer, in the process's own memory: the bytes before it stay in the mapped one,
//! too, until the batch is durable.

use std::io;
use std::ops::Range;

use seawall_io::sabotage::{Defect, sabotaged};
use seawall_io::{AlignedBuffer, BLOCK_BYTES, DiskFile, SharedMapping};
use seawall_types::Lsn;

use crate::geometry::{LogGeometry, StreamPosition};
use crate::pending::{DATA_OFFSET, write_slot};
use crate::record::{LogKey, PreparedRecord, RecordSpan, STAMP_BYTES};

/// A block of the carried bytes, in front of what the options allow.
const CARRY_BYTES: usize = BLOCK_BYTES;

/// Bytes of the log that are on their way.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    mapping: Box<dyn SharedMapping>,
    /// Instead of the mapping, for one batch.
    larger: Option<AlignedBuffer>,
}

impl LogBuffer {
    pub(crate) fn new(mapping: Box<dyn SharedMapping>) -> LogBuffer {
        LogBuffer { mapping, larger: None }
    }

    fn bytes(&self) -> &[u8] {
        match &self.larger {
            Some(larger) => larger,
            None => &self.mapping.bytes()[DATA_OFFSET..],
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        match &mut self.larger {
            Some(larger) => larger[offset..offset + bytes.len()].copy_from_slice(bytes),
            None => self.mapping.write(DATA_OFFSET + offset, bytes),
        }
    }

    /// Starts over with bytes that belong at `first`. Before this, whatever it holds must be durable.
    fn begin(&mut self, key: LogKey, first: Lsn, carry: &[u8]) {
        self.larger = None;
        // The slot first: from here on, old bytes stand at a place where they do not verify.
        if !sabotaged(Defect::PendingSlotNotWritten) {
            write_slot(&mut *self.mapping, key, first);
        }
        self.write(0, carry);
    }

    /// Writes whole blocks of it to a segment, durably.
    pub(crate) fn write_durable(
        &self,
        file: &dyn DiskFile,
        range: Range<usize>,
        offset: u64,
    ) -> io::Result<()> {
        if sabotaged(Defect::FlushNotDurable) {
            return file.write_all_at(&self.bytes()[range], offset);
        }
        match &self.larger {
            Some(larger) => file.write_durable_at(larger, range, offset),
            None => {
                let range = range.start + DATA_OFFSET..range.end + DATA_OFFSET;
                file.write_mapped_durable_at(&*self.mapping, range, offset)
            }
        }
    }
}

/// What the append mutex guards.
#[derive(Debug)]
pub(crate) struct Appender {
    geometry: LogGeometry,
    key: LogKey,
    buffer: LogBuffer,
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
    pub(crate) buffer: LogBuffer,
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
        mut buffer: LogBuffer,
    ) -> Appender {
        let position = geometry.stream_position(next);
        let first = StreamPosition(position.0 - carry.len() as u64);
        assert_eq!(first.0 % BLOCK_BYTES as u64, 0, "the carried bytes start at a block border");
        let capacity = buffer.bytes().len();
        buffer.begin(key, geometry.lsn_at(first), carry);
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
        if self.used + bytes <= self.buffer.bytes().len() {
            let end = self.geometry.advance(self.next, bytes as u64);
            return Room::Here(RecordSpan { start: self.next, end });
        }
        // Waiting for an empty buffer would let short records starve a long one; so a long one brings its own buffer.
        if bytes > self.capacity / 4 && self.used <= self.capacity {
            return Room::Grow((self.capacity + bytes).next_multiple_of(BLOCK_BYTES));
        }
        Room::Full
    }

    /// Goes on in a larger buffer; returns the one that was larger so far.
    pub(crate) fn grow(&mut self, mut larger: AlignedBuffer) -> Option<AlignedBuffer> {
        let bytes = self.buffer.bytes();
        assert!(larger.len() >= bytes.len(), "a larger buffer is not smaller");
        larger[..self.used].copy_from_slice(&bytes[..self.used]);
        self.buffer.larger.replace(larger)
    }

    /// Whether what is placed now dies with the process.
    pub(crate) fn is_mortal(&self) -> bool {
        self.buffer.larger.is_some()
    }

    /// Copies the record to the place that `room_for` found and makes it part of the batch.
    pub(crate) fn place(&mut self, record: &PreparedRecord, span: RecordSpan) {
        let bytes = record.as_bytes();
        let is_forgotten = sabotaged(Defect::BatchStartForgotten);
        let batch_start = if is_forgotten { span.start } else { self.batch_start };
        // The stamp last: a process that is killed in between leaves no record.
        self.buffer.write(self.used + STAMP_BYTES, &bytes[STAMP_BYTES..]);
        self.buffer.write(self.used, &record.stamp(self.key, span.start, batch_start));
        self.used += bytes.len();
        self.next = span.end;
        self.records += 1;
        self.record_bytes += bytes.len() as u64;
    }

    /// Takes what is pending as a batch and goes on in `spare`, which is taken only then. `None` if nothing is pending.
    pub(crate) fn take_batch(&mut self, spare: &mut Option<LogBuffer>) -> Option<Batch> {
        if self.next == self.batch_start {
            return None;
        }
        let whole_blocks = self.used / BLOCK_BYTES * BLOCK_BYTES;
        let mut buffer = spare.take().expect("the flusher brings the buffer of the last batch");
        let carry = self.used - whole_blocks;
        let first = StreamPosition(self.first.0 + whole_blocks as u64);
        let carried = &self.buffer.bytes()[whole_blocks..self.used];
        buffer.begin(self.key, self.geometry.lsn_at(first), carried);
        let batch = Batch {
            buffer: std::mem::replace(&mut self.buffer, buffer),
            used: self.used,
            first: self.first,
            end: self.next,
            number: self.batch_number,
        };
        self.first = first;
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
        let padding = self.padded_bytes() - self.used;
        self.buffer.write(self.used, &[0; BLOCK_BYTES][..padding]);
    }
}
