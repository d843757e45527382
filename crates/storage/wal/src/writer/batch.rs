//! The bytes of one batch: what is appended while the batch before is on its way to the disk.
//!
//! ```text
//!     stream  |..block..|..block..|..block..|..block..|..block..|
//!     batch   [carry|rec|rec|     long record     |rec|rec|
//!     memory  [carry|rec|rec|rec|rec|   ]  short records, copied
//!                           [long record]          as its owner built it, not copied
//! ```
//! A batch starts at a block border of the stream. What the last batch left of its last block is carried to the front, so
//! that a batch writes whole blocks and writes the carried bytes again, unchanged.
//!
//! Short records are copied into one buffer. A long record is moved here with the memory that it was built in, so that the
//! time under the append mutex does not depend on its length. It is copied when the batch is written, a piece at a time.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use seawall_io::{AlignedBuffer, AppendBuffer, AppendedBytes, BLOCK_BYTES, DiskFile};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use seawall_types::Lsn;

use crate::geometry::StreamPosition;
use crate::options::BUFFER_BYTES_MAX;
use crate::record::LongRecord;
use crate::sabotage::{Defect, sabotaged};

/// A batch with long records is written in pieces of this size: large enough that a device is about as fast as it can be.
const PIECE_BYTES: usize = 4 << 20;
// Opening a log counts on it (`open`).
const _: () = assert!(PIECE_BYTES <= BUFFER_BYTES_MAX);

/// The bytes of a batch, for everybody who reads them. They are read while more is appended.
#[derive(Debug)]
pub(crate) struct BatchBytes {
    pub(crate) number: u64,
    /// Where the first byte belongs: a block border.
    pub(crate) first: StreamPosition,
    short: AppendedBytes,
    long: Mutex<Vec<PlacedRecord>>,
    has_long: AtomicBool,
    /// Bytes so far, the carried ones included; between two records. Changed only under the append mutex.
    total: AtomicUsize,
}

/// A long record and where in the batch it starts.
#[derive(Clone, Debug)]
struct PlacedRecord {
    start: usize,
    record: Arc<LongRecord>,
}

impl BatchBytes {
    /// A batch whose short records are appended to what `short` reads, which holds the carried bytes.
    pub(crate) fn new(
        number: u64,
        first: StreamPosition,
        short: AppendedBytes,
        carried: usize,
    ) -> BatchBytes {
        let (long, has_long) = (Mutex::default(), AtomicBool::new(false));
        BatchBytes { number, first, short, long, has_long, total: AtomicUsize::new(carried) }
    }

    /// Bytes of whole records, and the carried ones.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    /// All before `total` can be read now.
    pub(crate) fn grow_to(&self, total: usize) {
        // Release: whoever sees the bytes counted sees them. No more is needed, and this is under the append mutex.
        self.total.store(total, Ordering::Release);
    }

    /// Puts a long record at `start`, behind all that is there.
    pub(crate) fn place(&self, start: usize, record: LongRecord) {
        self.long.lock().push(PlacedRecord { start, record: Arc::new(record) });
        // Before the bytes are counted: see `grow_to`.
        self.has_long.store(true, Ordering::Release);
    }

    fn has_long_records(&self) -> bool {
        self.has_long.load(Ordering::SeqCst)
    }

    /// Hands the bytes of `range` to `visit`, one piece after the other.
    pub(crate) fn visit(&self, range: Range<usize>, mut visit: impl FnMut(&[u8])) {
        let long = if self.has_long_records() { self.long.lock().clone() } else { Vec::new() };
        let mut give = |start: usize, bytes: &[u8]| {
            let (from, to) = (range.start.max(start), range.end.min(start + bytes.len()));
            if from < to {
                visit(&bytes[from - start..to - start]);
            }
        };
        let (mut position, mut copied) = (0, 0);
        for placed in long.iter().take_while(|placed| placed.start < range.end) {
            let short = copied..copied + (placed.start - position);
            copied = short.end;
            give(position, self.short.bytes(short));
            give(placed.start, placed.record.as_bytes());
            position = placed.start + placed.record.as_bytes().len();
        }
        if position < range.end {
            give(position, self.short.bytes(copied..copied + (range.end - position)));
        }
    }

    /// The bytes of `range`, which is shorter than a block.
    pub(crate) fn carried(&self, range: Range<usize>) -> ([u8; BLOCK_BYTES], usize) {
        let (mut bytes, mut length) = ([0; BLOCK_BYTES], 0);
        self.visit(range, |piece| {
            bytes[length..length + piece.len()].copy_from_slice(piece);
            length += piece.len();
        });
        (bytes, length)
    }
}

/// A batch on its way to the disk: nothing is appended to it any more.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Arc<BatchBytes>,
    /// What the short records are in.
    short: AppendBuffer,
    /// What is written is put together here if there are long records.
    piece: Option<AlignedBuffer>,
    pub(crate) end: Lsn,
}

impl Batch {
    pub(crate) fn new(bytes: Arc<BatchBytes>, short: AppendBuffer, end: Lsn) -> Batch {
        Batch { bytes, short, piece: None, end }
    }

    /// Bytes to write: whole blocks.
    pub(crate) fn padded_bytes(&self) -> usize {
        self.bytes.total().next_multiple_of(BLOCK_BYTES)
    }

    /// Makes the batch ready to be written, whole blocks at a time. The rest of the last block still holds bytes of an older
    /// batch: zero says "no record here". Returns how many bytes can be written at once.
    pub(crate) fn prepare(&mut self) -> usize {
        let padded = self.padded_bytes();
        if self.bytes.has_long_records() {
            let piece_bytes = padded.min(PIECE_BYTES);
            self.piece = Some(AlignedBuffer::zeroed(piece_bytes));
            piece_bytes
        } else {
            self.short.append(&[0; BLOCK_BYTES][..padded - self.bytes.total()]);
            padded
        }
    }

    /// Writes some blocks of a batch that is prepared to a segment, durably.
    pub(crate) fn write_durable(
        &mut self,
        file: &dyn DiskFile,
        range: Range<usize>,
        offset: u64,
    ) -> io::Result<()> {
        let (buffer, range) = match &mut self.piece {
            None => (self.short.buffer(), range),
            Some(piece) => {
                let mut length = 0;
                self.bytes.visit(range.start..range.end.min(self.bytes.total()), |bytes| {
                    piece[length..length + bytes.len()].copy_from_slice(bytes);
                    length += bytes.len();
                });
                piece[length..range.len()].fill(0);
                (&*piece, 0..range.len())
            }
        };
        if sabotaged(Defect::FlushNotDurable) {
            return file.write_all_at(&buffer[range], offset);
        }
        file.write_durable_at(buffer, range, offset)
    }

    /// The memory of the short records, for another batch, and what is to be freed. If a thread still copies from the batch,
    /// which is rare, he frees it, and the next batch gets another buffer.
    pub(crate) fn into_parts(self) -> (AppendBuffer, Option<SpentMemory>) {
        let Batch { bytes, short, piece, .. } = self;
        let long = Arc::into_inner(bytes).map(|bytes| std::mem::take(&mut *bytes.long.lock()));
        let capacity = short.capacity();
        let buffer = short.cleared().unwrap_or_else(|| AppendBuffer::new(capacity));
        (buffer, piece.map(|piece| SpentMemory { _long: long.unwrap_or_default(), _piece: piece }))
    }
}

/// What a batch with long records leaves. To free it takes long: up to 1 GiB goes back to the kernel.
#[derive(Debug)]
pub(crate) struct SpentMemory {
    _long: Vec<PlacedRecord>,
    _piece: AlignedBuffer,
}
