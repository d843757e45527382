//! Giving records their places: what the append mutex guards. Nothing here takes time that grows with a record, makes a disk
//! call, or touches memory that others write. What others hold for a moment meanwhile is named in the crate's invariants.

use std::sync::Arc;

use seawall_io::{AppendBuffer, BLOCK_BYTES};
use seawall_types::Lsn;

use super::batch::{Batch, BatchBytes};
use crate::geometry::{LogGeometry, StreamPosition};
use crate::record::{LogKey, PreparedRecord, RecordSpan, STAMP_BYTES};
use crate::sabotage::{Defect, sabotaged};

/// A block of the carried bytes, in front of what the options allow.
const CARRY_BYTES: usize = BLOCK_BYTES;
/// A longer record is not copied into the buffer, but moved there with its memory.
const SHORT_RECORD_BYTES: usize = 64 << 10;

/// What the append mutex guards.
#[derive(Debug)]
pub(crate) struct Appender {
    geometry: LogGeometry,
    key: LogKey,
    /// The short records of the batch.
    buffer: AppendBuffer,
    batch: Arc<BatchBytes>,
    batch_start: Lsn,
    next: Lsn,
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
    /// Nothing more is appended.
    pub(crate) closed: bool,
    /// Nothing is appended for now.
    pub(crate) parked: bool,
}

/// Whether a record can be placed now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Here(RecordSpan),
    /// The batch is full: let a flush take it.
    Full,
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
        mut buffer: AppendBuffer,
    ) -> Appender {
        let position = geometry.stream_position(next);
        let first = StreamPosition(position.0 - carry.len() as u64);
        assert_eq!(first.0 % BLOCK_BYTES as u64, 0, "the carried bytes start at a block border");
        buffer.append(carry);
        let batch = Arc::new(BatchBytes::new(1, first, buffer.reader(), carry.len()));
        Appender {
            geometry,
            key,
            buffer,
            batch,
            batch_start: next,
            next,
            records: 0,
            record_bytes: 0,
            closed: false,
            parked: false,
        }
    }

    pub(crate) fn next(&self) -> Lsn {
        self.next
    }

    /// The batch that is being filled.
    pub(crate) fn batch(&self) -> &Arc<BatchBytes> {
        &self.batch
    }

    /// Bytes that wait for a flush.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.batch.total()
    }

    /// Where a record of `bytes` would lie.
    pub(crate) fn room_for(&self, bytes: usize) -> Room {
        if !self.has_room_for(bytes) {
            return Room::Full;
        }
        let end = self.geometry.advance(self.next, bytes as u64);
        Room::Here(RecordSpan { start: self.next, end })
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        let (capacity, pending) = (self.buffer.capacity(), self.batch.total());
        if pending > capacity {
            // Behind a record that is longer than a buffer. Short ones do not wait for it.
            return !self.is_long(bytes) && bytes <= capacity - self.buffer.length();
        }
        // Waiting for an empty batch would let short records starve a long one: it gets in where there is any room.
        bytes <= capacity - pending || bytes > capacity / 4
    }

    /// Whether a record of `bytes` is moved and not copied.
    fn is_long(&self, bytes: usize) -> bool {
        bytes > SHORT_RECORD_BYTES.min(self.buffer.capacity() / 4)
    }

    /// Puts the record at the place that `room_for` found and makes it part of the batch. A long one is moved.
    pub(crate) fn place(&mut self, record: &mut PreparedRecord, span: RecordSpan) {
        let bytes = record.record_bytes();
        let is_forgotten = sabotaged(Defect::BatchStartForgotten);
        let batch_start = if is_forgotten { span.start } else { self.batch_start };
        let stamp = record.stamp(self.key, span.start, batch_start);
        let start = self.batch.total();
        if self.is_long(bytes) {
            self.batch.place(start, record.take(stamp));
        } else {
            self.buffer.append(&stamp);
            self.buffer.append(&record.as_bytes()[STAMP_BYTES..]);
        }
        self.batch.grow_to(start + bytes);
        self.next = span.end;
        self.records += 1;
        self.record_bytes += bytes as u64;
    }

    /// Takes what is pending as a batch and goes on in `spare`, which is taken only then. `None` if nothing is pending.
    pub(crate) fn take_batch(&mut self, spare: &mut Option<AppendBuffer>) -> Option<Batch> {
        if self.next == self.batch_start {
            return None;
        }
        let total = self.batch.total();
        let whole_blocks = total / BLOCK_BYTES * BLOCK_BYTES;
        let mut buffer = spare.take().expect("the flusher brings the buffer of the last batch");
        let (carry, carried) = self.batch.carried(whole_blocks..total);
        buffer.append(&carry[..carried]);
        let first = StreamPosition(self.batch.first.0 + whole_blocks as u64);
        let next = Arc::new(BatchBytes::new(self.batch.number + 1, first, buffer.reader(), carried));
        let bytes = std::mem::replace(&mut self.batch, next);
        let batch = Batch::new(bytes, std::mem::replace(&mut self.buffer, buffer), self.next);
        self.batch_start = self.next;
        Some(batch)
    }
}
