//! Counters of the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Records appended.
    pub records: u64,
    /// Bytes of records appended, headers of records included.
    pub record_bytes: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Durable writes: more than batches, as a batch that crosses into the next segment takes one for each.
    pub flushes: u64,
    /// Bytes written, whole blocks.
    pub flushed_bytes: u64,
    /// Time that flushes took, if the log has a clock.
    pub flush_time: Duration,
    /// The longest that one batch took to become durable, if the log has a clock.
    pub batch_time_longest: Duration,
    /// How often `append` waited for room in the buffer.
    pub buffer_waits: u64,
    /// How often `append` had to prepare a segment itself.
    pub segment_waits: u64,
    /// Segments made from nothing, zero-filled.
    pub segments_prepared: u64,
    /// Segments found beyond the end when the log was opened and made ready again.
    pub segments_cleaned: u64,
    /// Segments given a new name and used again.
    pub segments_recycled: u64,
    /// Segments removed.
    pub segments_removed: u64,
    /// Batches in which segments were removed or recycled.
    pub clean_up_batches: u64,
    /// Files that could not be removed or renamed, each time that it was tried.
    pub clean_up_failures: u64,
    /// Syncs of the log directory: one for each of these batches, the others for segments made from nothing.
    pub directory_syncs: u64,
    /// Holds that were lost because they held more than their limit.
    pub holds_lost: u64,
}

/// The counters behind [`LogStatistics`]. They order nothing and so are all `Relaxed`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) flush_nanos: Counter,
    pub(crate) batch_nanos_longest: Counter,
    pub(crate) buffer_waits: Counter,
    pub(crate) segment_waits: Counter,
    pub(crate) segments_prepared: Counter,
    pub(crate) segments_cleaned: Counter,
    pub(crate) segments_recycled: Counter,
    pub(crate) segments_removed: Counter,
    pub(crate) clean_up_batches: Counter,
    pub(crate) clean_up_failures: Counter,
    pub(crate) directory_syncs: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, least: u64) {
        self.0.fetch_max(least, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// The snapshot; records are counted under the append mutex, by its owner, and lost holds by theirs.
    pub(crate) fn snapshot(&self, records: u64, record_bytes: u64, holds_lost: u64) -> LogStatistics {
        LogStatistics {
            records,
            record_bytes,
            batches: self.batches.get(),
            flushes: self.flushes.get(),
            flushed_bytes: self.flushed_bytes.get(),
            flush_time: Duration::from_nanos(self.flush_nanos.get()),
            batch_time_longest: Duration::from_nanos(self.batch_nanos_longest.get()),
            buffer_waits: self.buffer_waits.get(),
            segment_waits: self.segment_waits.get(),
            segments_prepared: self.segments_prepared.get(),
            segments_cleaned: self.segments_cleaned.get(),
            segments_recycled: self.segments_recycled.get(),
            segments_removed: self.segments_removed.get(),
            clean_up_batches: self.clean_up_batches.get(),
            clean_up_failures: self.clean_up_failures.get(),
            directory_syncs: self.directory_syncs.get(),
            holds_lost,
        }
    }
}
