//! What the engine asks of an archive of its log. It knows no repository: the program that opens a database gives it an archive.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{AtLimit, SegmentName, TimelineHistory};

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

    /// Puts on record that segments were left out: durable there when this returns. The same ones again are fine, also with
    /// another time and reason.
    ///
    /// # Errors
    /// What went wrong; it will be tried again, and nothing is stored before.
    fn note_gap(&self, log: &ArchivedLog, gap: &LogGap) -> Result<(), LogArchiveError>;

    /// Whether it has all of a file, or has it on record as left out.
    ///
    /// # Errors
    /// What went wrong; it will be asked again.
    fn has(&self, log: &ArchivedLog, file: LogFile) -> Result<bool, LogArchiveError>;

    /// How far it has the log that leads to `before` along `history`: up to there nothing is missing that an archiver has not passed
    /// over on its way. Segments that are on record as left out count as had. `None` if it has nothing of that log.
    ///
    /// # Errors
    /// What went wrong; it will be tried again, and nothing is stored before.
    fn reach(
        &self,
        log: &ArchivedLog,
        history: &TimelineHistory,
        before: Lsn,
    ) -> Result<Option<Lsn>, LogArchiveError>;
}

/// Segments that an archive does not get, because it was too far behind. Some of them may be there all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogGap {
    /// The first one.
    pub first: SegmentName,
    /// The last one, of the same timeline.
    pub last: SegmentName,
    /// When that was noticed, microseconds since 1970.
    pub noticed_micros: i64,
    /// Why, in words.
    pub reason: String,
}

/// Why a file was not stored, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogArchiveError(pub String);

/// An archive of the log of a database.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// What it is called, to people and to the next process, which goes on where this one ended: the log is kept by the hold
    /// `archiver NAME`, or `archiver` without a name. At most 40 letters, digits, `-`, `.` and `_`. Default: no name.
    pub name: String,
    /// Whether `Durability::Archived` and `DatabaseLog::archive_now` wait for it. One that is not required may be down for
    /// ever. Default: yes.
    pub is_required: bool,
    /// Where to.
    pub archive: Arc<dyn LogArchive>,
    /// Uploads at a time, at most. Each takes the memory of two segments. Default 16.
    pub uploads_max: usize,
    /// What is durable of the segment that is being written goes up at latest after this, if there is anything new: what the
    /// loss of the machine can take. `None`: segments go up when they are full. Default 1 s.
    pub tail_interval: Option<Duration>,
    /// Closing the database waits about so long for uploads that are under way, then puts up what is left, the end of the log first,
    /// and begins no upload after this time but the first. Zero, or an archive that is not required: it waits for none. What is not
    /// up goes up after the next open. Default 10 s.
    pub close_patience: Duration,
    /// Bytes of log that may wait for the archive. `None`: all of it waits, until the disk is full. Default `None`.
    pub limit_bytes: Option<u64>,
    /// What happens then. `LoseHold`: what waits is left out, loudly, and on record in the archive: see `ArchiveGap`.
    /// `SlowWriters`: writers are slowed before that, and it comes to a gap at twice the limit. Default `LoseHold`.
    pub at_limit: AtLimit,
}

impl ArchiveOptions {
    /// The defaults.
    pub fn new(archive: Arc<dyn LogArchive>) -> ArchiveOptions {
        ArchiveOptions {
            name: String::new(),
            is_required: true,
            archive,
            uploads_max: 16,
            tail_interval: Some(Duration::from_secs(1)),
            close_patience: Duration::from_secs(10),
            limit_bytes: None,
            at_limit: AtLimit::LoseHold,
        }
    }
}
