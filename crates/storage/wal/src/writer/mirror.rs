//! Copies of appended records in memory that outlives the process: the pending files (`pending`).
//!
//! ```text
//!   batch 7, on its way to the disk  [rec|rec|rec]        --copy-->  log/pending.1
//!   batch 8, being filled            [rec|rec|            --copy-->  log/pending.2
//!                                         ^ copied up to here: records before it survive a kill
//! ```
//! A record is appended to memory of the process alone, under the append mutex. Its owner copies it here, without that mutex,
//! before an `Async` commit is acknowledged or seen: a store to a mapped file can wait for the file system, for seconds if
//! the disk is busy. A thread that copies does it for all that were appended before, in the order of the log, so what
//! survives a kill is a prefix.
//!
//! A batch goes to the file of its parity. The batch that was there before is durable then: flushes are serial, and a batch
//! begins when the one before is taken, after the one before that.
//!
//! Segments are written from the process's memory and never from here, where a failed write of the operating system's own may
//! have left old bytes.

use std::sync::Arc;

use seawall_io::SharedMapping;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use super::batch::BatchBytes;
use crate::geometry::{LogGeometry, StreamPosition};
use crate::pending::{DATA_OFFSET, write_slot};
use crate::record::LogKey;
use crate::sabotage::{Defect, sabotaged};

/// Both pending files, and what is to be copied there.
#[derive(Debug)]
pub(super) struct Mirror {
    geometry: LogGeometry,
    key: LogKey,
    /// Held while bytes are copied, which may take long.
    files: Mutex<[PendingFile; 2]>,
    batches: Mutex<Batches>,
    /// Everything before survives a kill.
    mirrored: AtomicU64,
}

/// Batches that are not durable.
#[derive(Debug, Default)]
struct Batches {
    /// On its way to the disk.
    leaving: Option<Arc<BatchBytes>>,
    /// Being filled.
    filling: Option<Arc<BatchBytes>>,
}

/// How far the log survives a kill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirrored {
    pub(super) until: Lsn,
    /// Behind `until` are records that the pending files have no room for, up to here: they are to be flushed.
    pub(super) gap_end: Option<Lsn>,
}

#[derive(Debug)]
struct PendingFile {
    mapping: Box<dyn SharedMapping>,
    /// The batch that it holds; zero if none.
    batch: u64,
    /// How many bytes of it.
    copied: usize,
}

impl Mirror {
    pub(super) fn new(geometry: LogGeometry, key: LogKey, mappings: [Box<dyn SharedMapping>; 2]) -> Mirror {
        let files = mappings.map(|mapping| PendingFile { mapping, batch: 0, copied: 0 });
        Mirror {
            geometry,
            key,
            files: Mutex::new(files),
            batches: Mutex::default(),
            mirrored: AtomicU64::new(0),
        }
    }

    /// A batch is filled from now on. Under the append mutex.
    pub(super) fn begin(&self, batch: &Arc<BatchBytes>) {
        let mut batches = self.batches.lock();
        batches.leaving = batches.filling.replace(Arc::clone(batch));
    }

    /// A batch is durable, and published as such.
    pub(super) fn forget(&self, batch: &BatchBytes) {
        self.batches.lock().leaving.take_if(|leaving| leaving.number == batch.number);
    }

    /// Everything before survives a kill.
    pub(super) fn mirrored(&self) -> Lsn {
        Lsn::new(self.mirrored.load(Ordering::SeqCst))
    }

    /// Copies all that was appended before the call, unless what comes before `end` was copied meanwhile. The log is
    /// durable up to `flushed`.
    pub(super) fn copy(&self, flushed: Lsn, end: Lsn) -> Mirrored {
        let mut files = self.files.lock();
        let until = self.mirrored();
        if until >= end {
            return Mirrored { until, gap_end: None };
        }
        let mut mirrored = Mirrored { until: until.max(flushed), gap_end: None };
        for batch in self.uncopied(&files).into_iter().flatten() {
            let total = batch.total();
            let end = self.lsn_at(&batch, total);
            if end <= flushed {
                // Not forgotten yet. If it had no room here, nobody need wait for that.
                continue;
            }
            let copied = files[file_of(&batch)].copy(&batch, total, || self.lsn_at(&batch, 0), self.key);
            mirrored.until = mirrored.until.max(self.lsn_at(&batch, copied));
            if copied < total && !sabotaged(Defect::LongAsyncNotFlushed) {
                mirrored.gap_end = Some(end);
                break;
            }
        }
        // No read-modify-write: the lock of the files keeps others out.
        self.mirrored.store(mirrored.until.get(), Ordering::SeqCst);
        mirrored
    }

    /// Batches of which something is to be copied, oldest first. Listed under the lock of the files: nobody puts an older
    /// batch where a newer one is. One that is copied is left alone: its memory is to be used again as soon as it is durable.
    fn uncopied(&self, files: &[PendingFile; 2]) -> [Option<Arc<BatchBytes>>; 2] {
        let batches = self.batches.lock();
        [&batches.leaving, &batches.filling]
            .map(|batch| batch.as_ref().filter(|batch| !files[file_of(batch)].holds_all_of(batch)).cloned())
    }

    fn lsn_at(&self, batch: &BatchBytes, bytes: usize) -> Lsn {
        self.geometry.lsn_at(StreamPosition(batch.first.0 + bytes as u64))
    }
}

/// Which file a batch goes to.
fn file_of(batch: &BatchBytes) -> usize {
    usize::from(batch.number.is_multiple_of(2))
}

impl PendingFile {
    fn holds_all_of(&self, batch: &BatchBytes) -> bool {
        self.batch == batch.number && self.copied == batch.total()
    }

    /// Copies what is missing of the first `total` bytes of `batch`, as far as there is room; returns how many it has.
    fn copy(&mut self, batch: &BatchBytes, total: usize, first: impl FnOnce() -> Lsn, key: LogKey) -> usize {
        if self.batch != batch.number {
            // The slot first: from here on, old bytes stand at a place where they do not verify.
            if !sabotaged(Defect::PendingSlotNotWritten) {
                write_slot(&mut *self.mapping, key, first());
            }
            (self.batch, self.copied) = (batch.number, 0);
        }
        let until = total.min(self.mapping.bytes().len() - DATA_OFFSET);
        batch.visit(self.copied..until, |bytes| {
            self.mapping.write(DATA_OFFSET + self.copied, bytes);
            self.copied += bytes.len();
        });
        self.copied
    }
}
