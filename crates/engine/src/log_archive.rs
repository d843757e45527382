//! What the engine asks of an archive of its log. It knows no repository: whoever opens a database gives it one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use seawall_types::{DatabaseId, TimelineId};
use seawall_wal::SegmentName;

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedLog {
    /// The database.
    pub database: DatabaseId,
    /// The size of its segments.
    pub segment_bytes: u64,
}

/// A file of the log, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogFile {
    /// The history of a timeline.
    History(TimelineId),
    /// A segment that is full.
    Segment(SegmentName),
    /// Bytes of a segment file: what is durable of one that is not full, or was left for another timeline before it was.
    Tail {
        /// The segment.
        segment: SegmentName,
        /// Offset in its file of the first byte.
        from: u64,
        /// Offset behind the last one.
        to: u64,
    },
}

/// Keeps files of a log. Called by several threads at a time.
pub trait LogArchive: Send + Sync + fmt::Debug {
    /// Stores a file. It is durable there when this returns. The same content again is fine, other content is not.
    ///
    /// # Errors
    /// What went wrong; it will be tried again.
    fn store(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<(), LogArchiveError>;

    /// Removes the tails of a segment that is stored as a whole.
    ///
    /// # Errors
    /// What went wrong; they stay, and do no harm.
    fn remove_tails(&self, log: &ArchivedLog, segment: SegmentName) -> Result<(), LogArchiveError>;
}

/// Why a file was not stored, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogArchiveError(pub String);

/// How the log of a database is archived.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Where to.
    pub archive: Arc<dyn LogArchive>,
    /// Uploads at a time, at most. Each takes the memory of two segments. Default 16.
    pub uploads_max: usize,
    /// What is durable of the segment that is being written goes up at latest after this, if there is anything new: what the
    /// loss of the machine can take. `None`: segments go up when they are full. Default 1 s.
    pub tail_interval: Option<Duration>,
    /// Closing the database waits about so long for uploads that are under way, then puts the end of the log up. Zero: it waits for
    /// none. What is not up goes up after the next open. Default 10 s.
    pub close_patience: Duration,
}

impl ArchiveOptions {
    /// The defaults.
    pub fn new(archive: Arc<dyn LogArchive>) -> ArchiveOptions {
        ArchiveOptions {
            archive,
            uploads_max: 16,
            tail_interval: Some(Duration::from_secs(1)),
            close_patience: Duration::from_secs(10),
        }
    }
}
