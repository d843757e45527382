//! Options of a log.

use std::sync::Arc;

use seawall_io::Clock;
use seawall_keys::Cipher;
use seawall_types::{DatabaseId, TimelineId};

use crate::error::LogError;
use crate::geometry::LogGeometry;
use crate::observer::LogObserver;
use crate::record::{LogKey, RECORD_BYTES_MAX, RECORD_HEADER_BYTES};
use crate::segment::LogIdentity;
use crate::timeline::{TimelineFork, TimelineHistory};

/// No buffer is longer.
pub(crate) const BUFFER_BYTES_MAX: usize = 16 << 20;

/// Who flushes when several threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlushBy {
    /// The threads that wait, one for all of them; no thread is started, so one seed gives one order of disk calls.
    #[default]
    Caller,
    /// The first thread that waits; while others wait, a thread that the log starts and ends itself.
    Thread,
}

/// How a log is written. Start from [`LogOptions::new`] and change what should differ.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The database: its id is part of every checksum.
    pub database: DatabaseId,
    /// The timeline to write on.
    pub timeline: TimelineId,
    /// The ancestors of the timeline, oldest first, as its history has them. Where the timeline began and its mark come from the
    /// last of them, so only the first timeline does without. Default: none.
    pub ancestors: Vec<TimelineFork>,
    /// Bytes of a segment file: a power of two, 64 KiB to 1 GiB. Fixed for the life of the database. Default 16 MiB.
    pub segment_bytes: u64,
    /// How many bytes may wait for a flush before `append` waits, 64 KiB to 16 MiB; the log has two such buffers.
    /// Default 4 MiB.
    pub buffer_bytes: usize,
    /// A longer record is refused. Default and limit 1 GiB.
    pub record_bytes_max: u64,
    /// How many empty segments to keep ready beyond the one being written. Default 2.
    pub spare_segments: u64,
    /// How many bytes of log to expect from one checkpoint to the next, until the first has ended since the log was opened: so many bytes
    /// of old segments are recycled, up to 1 GiB, and the others removed. Default 0.
    pub expected_cycle_bytes: u64,
    /// How many bytes of log to keep at least, whether needed or not. Default 0.
    pub keep_bytes: u64,
    /// Memory for the newest log while a stream of it is open, so that the stream reads no files. Default 16 MiB.
    pub recent_bytes: usize,
    /// Who flushes. Default `Caller`.
    pub flush_by: FlushBy,
    /// Measures flushes; without one their time is not measured.
    pub clock: Option<Arc<dyn Clock>>,
    /// Encrypts the bodies of all records, if there is one.
    pub cipher: Option<Cipher>,
    /// Hears of flushes, missing spares and the log's end. Default: none.
    pub observer: Option<Arc<dyn LogObserver>>,
}

impl LogOptions {
    /// The defaults for a log of `database` on `timeline`.
    pub fn new(database: DatabaseId, timeline: TimelineId) -> LogOptions {
        LogOptions {
            database,
            timeline,
            ancestors: Vec::new(),
            segment_bytes: 16 << 20,
            buffer_bytes: 4 << 20,
            record_bytes_max: RECORD_BYTES_MAX,
            spare_segments: 2,
            expected_cycle_bytes: 0,
            keep_bytes: 0,
            recent_bytes: 16 << 20,
            flush_by: FlushBy::default(),
            clock: None,
            cipher: None,
            observer: None,
        }
    }

    pub(crate) fn history(&self) -> TimelineHistory {
        TimelineHistory { timeline: self.timeline, forks: self.ancestors.clone() }
    }

    pub(crate) fn check(&self) -> Result<LogIdentity, LogError> {
        let refuse = |problem: String| Err(LogError::Options { problem });
        if !(64 << 10..=BUFFER_BYTES_MAX).contains(&self.buffer_bytes) {
            return refuse(format!("a buffer of {} bytes: not between 64 KiB and 16 MiB", self.buffer_bytes));
        }
        if !(RECORD_HEADER_BYTES as u64..=RECORD_BYTES_MAX).contains(&self.record_bytes_max) {
            return refuse(format!("records up to {} bytes: the limit is 1 GiB", self.record_bytes_max));
        }
        let geometry = LogGeometry::new(self.segment_bytes)?;
        let timeline = self.history().timeline(self.timeline);
        Ok(LogIdentity { database: self.database, timeline, geometry })
    }
}

impl LogIdentity {
    pub(crate) fn key(&self) -> LogKey {
        LogKey::new(self.database, self.timeline)
    }
}
