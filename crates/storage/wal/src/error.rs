//! Errors of the log.

use seawall_types::{DatabaseId, Lsn, Timeline, TimelineId, TimelineMark};

use crate::holds::error::HoldError;

/// Why the log could not be created, opened, written or cleaned up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An earlier write or sync failed: what is on disk is unknown, so nothing more is written until the log is
    /// opened again.
    #[error("the log takes no more writes: {cause}")]
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The log takes no records for now: see [`Log::park`](crate::Log::park).
    #[error("the log takes no records for now: its writer is about to be another server")]
    Parked,
    /// There is no room for the next segment. Nothing was written and nothing is lost; try again when there is room.
    #[error("no space left for log segment {path}")]
    NoSpace {
        /// The segment.
        path: String,
        /// The disk's answer.
        source: std::io::Error,
    },
    /// A disk call failed before any record was touched.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: String,
        /// The disk's answer.
        source: std::io::Error,
    },
    /// The record is longer than the limit.
    #[error("a log record of {bytes} bytes is over the limit of {limit} bytes")]
    RecordTooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The options make no sense.
    #[error("log options: {problem}")]
    Options {
        /// Which, and why.
        problem: String,
    },
    /// There already is a log of this timeline.
    #[error("{path} exists already: a log is created only once")]
    AlreadyExists {
        /// A segment of the log.
        path: String,
    },
    /// The history of a timeline cannot be read or written.
    #[error(transparent)]
    History {
        /// What is wrong.
        source: HistoryError,
    },
    /// There is no number left for a timeline.
    #[error("timeline {last} is the last one there can be")]
    LastTimeline {
        /// The highest number that is used.
        last: TimelineId,
    },
    /// Another server writes the timeline.
    #[error(
        "timeline {timeline} is received from another server, and what was written here would differ from what that writes: begin a \
         new timeline, or let this server receive"
    )]
    Received {
        /// The timeline.
        timeline: TimelineId,
    },
    /// The mark of a received log is not as it should be.
    #[error(transparent)]
    ReceivedMark {
        /// What is wrong.
        source: ReceivedMarkError,
    },
    /// The number that was asked for is taken, or not above that of the current timeline.
    #[error(
        "a new timeline cannot have number {wanted}: it is taken, or not above that of the current one; choose a number above \
         {last}, or none"
    )]
    TimelineNumber {
        /// What was asked for.
        wanted: TimelineId,
        /// The highest number that is used.
        last: TimelineId,
    },
    /// The file of those who hold the log is not as it should be, or cannot be written.
    #[error(transparent)]
    Holds {
        /// What is wrong.
        source: HoldError,
    },
    /// The segment that the log ends in is not as it should be.
    #[error("log segment {path}")]
    Header {
        /// The segment.
        path: String,
        /// What is wrong.
        source: SegmentHeaderError,
    },
}

impl LogError {
    pub(crate) fn io(action: &'static str, path: impl Into<String>, source: std::io::Error) -> LogError {
        LogError::Io { action, path: path.into(), source }
    }
}

/// Why a stream of the log does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogStreamError {
    /// What comes next was removed, or its segment is used again.
    #[error(
        "the log at {position} is not kept any more, it begins at {oldest}: fetch it from an archive, or copy the database again"
    )]
    NotRetained {
        /// What was to be streamed.
        position: Lsn,
        /// From where on the log is kept.
        oldest: Lsn,
    },
    /// The stream was to start after the end of the log.
    #[error(
        "the log ends at {end}, and was to be streamed from {position} on: the receiver has log that this server does not have"
    )]
    NotReached {
        /// Where the stream was to start.
        position: Lsn,
        /// The durable end of the log.
        end: Lsn,
    },
    /// A segment is not as it should be.
    #[error("log segment {path}")]
    Header {
        /// The segment.
        path: String,
        /// What is wrong.
        source: SegmentHeaderError,
    },
    /// The operating system reported an error.
    #[error("{action} {path}, offset {offset}")]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The segment.
        path: String,
        /// Where in it.
        offset: u64,
        /// The error.
        source: std::io::Error,
    },
    /// All was streamed, and the log does not grow any more.
    #[error("the log does not grow any more")]
    Stopped {
        /// Why.
        source: LogError,
    },
}

/// Why bytes of a log that is received were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Other bytes are to come next.
    #[error("the log was received from {found} on, but goes on at {expected}")]
    Place {
        /// Where the next byte belongs.
        expected: Lsn,
        /// Where the bytes belong that came.
        found: Lsn,
    },
    /// The bytes are no record of this timeline.
    #[error(
        "what was received for {lsn} is no record of this timeline: it was damaged on the way, or the sender is another database"
    )]
    Record {
        /// Where the record starts.
        lsn: Lsn,
    },
    /// The sender has loaded rows that are in no log. Nothing of this record is kept, and the log does not go on here.
    #[error(
        "the record at {lsn} says that rows were loaded past the log, so this server cannot have them: make it anew from a later copy, \
         and give the sender a hold of kind Standby before, so that it logs what it loads"
    )]
    LoadedPastLog {
        /// Where the record starts.
        lsn: Lsn,
    },
    /// The bytes are not the header page of a segment of this timeline.
    #[error("what was received for {lsn} is not the header page of a segment of this timeline")]
    Header {
        /// Where the bytes belong.
        lsn: Lsn,
    },
    /// They cannot be written.
    #[error(transparent)]
    Log {
        /// Why.
        #[from]
        source: LogError,
    },
}

/// Why a segment's header page was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentHeaderError {
    /// Not a segment at all, or its header was overwritten.
    #[error("offset 0: no log segment: it starts with {found:02x?}")]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// Written by another version.
    #[error("offset 8: segment format {found}, this build reads format {known}")]
    Version {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Damaged.
    #[error("offset 44: checksum of the segment header: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// In the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A reserved byte is not zero.
    #[error("offset {offset}: a reserved byte of the segment header is not zero")]
    Reserved {
        /// Where.
        offset: usize,
    },
    /// It says neither that the log came here nor that it did not.
    #[error("offset 512: the mark of a segment that was begun is damaged: {found:#018x}")]
    Begun {
        /// In the file.
        found: u64,
    },
    /// A segment of another database.
    #[error("offset 24: segment of database {found}, expected {expected}")]
    Database {
        /// The file's.
        found: DatabaseId,
        /// Ours.
        expected: DatabaseId,
    },
    /// The segment has another timeline than its name.
    #[error("offset 12: segment of timeline {found}, expected {expected}")]
    Timeline {
        /// The file's.
        found: u32,
        /// By its name.
        expected: TimelineId,
    },
    /// A segment of a timeline with the same number, begun by another copy of the database.
    #[error(
        "offset 48: segment of the timeline {} that began at {} with mark {}; that of this log began at {} with mark {}: another copy \
         of the database wrote it",
        found.id, found.began, found.mark, expected.began, expected.mark
    )]
    OtherTimeline {
        /// The file's.
        found: Timeline,
        /// By the history.
        expected: Timeline,
    },
    /// The segment has another position in the log than its name.
    #[error("offset 16: segment starts at {found}, expected {expected}")]
    FirstLsn {
        /// The file's.
        found: Lsn,
        /// By its name.
        expected: Lsn,
    },
    /// A segment of a log with another segment size.
    #[error("offset 40: segments of {found} bytes, expected {expected}")]
    SegmentBytes {
        /// The file's.
        found: u64,
        /// Ours.
        expected: u64,
    },
    /// The file was cut or never finished.
    #[error("segment file of {found} bytes, expected {expected}")]
    Length {
        /// The file's.
        found: u64,
        /// A whole segment.
        expected: u64,
    },
}

impl SegmentHeaderError {
    /// Whether it is a whole header, of another place in a log of this database: the file was on its way there when the power
    /// went, or it is now; or another copy of the database wrote it. A damaged one is none of these.
    pub(crate) fn is_of_other_place(&self) -> bool {
        match self {
            SegmentHeaderError::FirstLsn { .. }
            | SegmentHeaderError::Timeline { .. }
            | SegmentHeaderError::OtherTimeline { .. } => true,
            SegmentHeaderError::Magic { .. }
            | SegmentHeaderError::Version { .. }
            | SegmentHeaderError::Checksum { .. }
            | SegmentHeaderError::Reserved { .. }
            | SegmentHeaderError::Begun { .. }
            | SegmentHeaderError::Database { .. }
            | SegmentHeaderError::SegmentBytes { .. }
            | SegmentHeaderError::Length { .. } => false,
        }
    }
}

/// Why a segment file, looked at alone, is not one that a log has written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentCheckError {
    /// Its header, or its length.
    #[error(transparent)]
    Header(#[from] SegmentHeaderError),
    /// The log has not come to it yet.
    #[error("the log has not begun this segment yet: there are no records in it")]
    NotBegun,
    /// A record does not verify, and later ones do.
    #[error("offset {offset}: the record at {lsn} does not verify, and later ones do, at {later} the next")]
    Damaged {
        /// In the file.
        offset: usize,
        /// The LSN of the record.
        lsn: Lsn,
        /// The next record that does.
        later: Lsn,
    },
}

/// Why a pending file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PendingFileError {
    /// Not a pending file at all, or its header was overwritten.
    #[error("offset 0: no pending file of a log: it starts with {found:02x?}")]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// Written by another version.
    #[error("offset 8: pending file of format {found}, this build reads format {known}")]
    Version {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Damaged.
    #[error("offset 12: checksum of the header: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// In the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A pending file of another database.
    #[error("offset 16: pending file of database {found}, expected {expected}")]
    Database {
        /// The file's.
        found: DatabaseId,
        /// Ours.
        expected: DatabaseId,
    },
    /// The file is longer or shorter than its header says, or the header says what none can.
    #[error("offset 32: file of {found} bytes with a header for a buffer of {data_bytes}")]
    Length {
        /// The file's.
        found: u64,
        /// The size of the buffer, by the header; 0 without a header.
        data_bytes: u64,
    },
    /// A reserved byte is not zero.
    #[error("offset {offset}: a reserved byte of the header is not zero")]
    Reserved {
        /// Where.
        offset: usize,
    },
}

impl PendingFileError {
    /// The header is not what was ever written: other than of another file, it says nothing.
    pub(crate) fn is_flipped_bit(&self) -> bool {
        match self {
            PendingFileError::Magic { .. } | PendingFileError::Checksum { .. } => true,
            PendingFileError::Version { .. }
            | PendingFileError::Database { .. }
            | PendingFileError::Length { .. }
            | PendingFileError::Reserved { .. } => false,
        }
    }
}

/// Why a stretch of the log could not be read. The end of the log is not an error: `next` returns `Ok(None)`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogReadError {
    /// A disk call failed.
    #[error("{action} {path} at offset {offset}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: String,
        /// Where in it.
        offset: u64,
        /// The disk's answer.
        source: std::io::Error,
    },
    /// The mark of a received log is not as it should be.
    #[error(transparent)]
    ReceivedMark {
        /// What is wrong.
        source: ReceivedMarkError,
    },
    /// A segment's header page was refused.
    #[error("log segment {path}")]
    Header {
        /// The segment.
        path: String,
        /// What is wrong.
        source: SegmentHeaderError,
    },
    /// A segment does not exist, or is being recycled and has the header of another place already: the one that reading starts
    /// in, or one that a record goes on in.
    #[error("log segment {path} is missing: the record at {lsn} needs it")]
    Missing {
        /// The segment.
        path: String,
        /// Where reading was to start or go on.
        lsn: Lsn,
    },
    /// A pending file was refused.
    #[error(
        "{path}: {source}; it may hold Async commits of a process that was killed. Put it back from a copy of the \
         directory, or remove it to go on without commits that only it holds"
    )]
    Pending {
        /// The file.
        path: String,
        /// What is wrong.
        source: PendingFileError,
    },
    /// A record that was durable does not verify.
    #[error(
        "log is damaged at {lsn} ({path}, offset {offset}): no valid record there, \
         although the log goes on at {evidence}, written when {lsn} was already durable"
    )]
    Damaged {
        /// The segment.
        path: String,
        /// Where in it.
        offset: u64,
        /// The record that does not verify.
        lsn: Lsn,
        /// What says that it was durable: a valid record further on, or the position up to which the caller knows
        /// that the log is durable.
        evidence: Lsn,
    },
    /// A timeline does not begin with its switch record, which was durable before the timeline counted.
    #[error(
        "timeline {timeline} does not begin at {lsn} ({path}), where its history says that it left its parent: its first \
         record is damaged or lost"
    )]
    NoSwitch {
        /// The segment.
        path: String,
        /// The timeline.
        timeline: TimelineId,
        /// Where it begins.
        lsn: Lsn,
    },
    /// A record verifies but its body is not what its kind says: written by another version, or a bug.
    #[error("record at {lsn}")]
    Record {
        /// The record.
        lsn: Lsn,
        /// What is wrong.
        source: RecordError,
    },
    /// A record verifies but cannot be decrypted, or is encrypted where it should not be.
    #[error("record at {lsn} ({path}, offset {offset}): {problem}")]
    Encryption {
        /// The segment.
        path: String,
        /// Where in it.
        offset: u64,
        /// The record.
        lsn: Lsn,
        /// Why not.
        problem: EncryptionProblem,
    },
    /// The reader was asked for something impossible.
    #[error("cannot read the log from {lsn}: {problem}")]
    Position {
        /// Where reading was to start.
        lsn: Lsn,
        /// Why not.
        problem: String,
    },
}

/// Why a record that verifies is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionProblem {
    /// It was encrypted with another key, or changed on purpose.
    #[error("it does not authenticate: it was encrypted with another key, or changed on purpose")]
    NotAuthentic,
    /// It has no room for a nonce and a tag.
    #[error("it is too short for what is encrypted")]
    Short,
    /// The reader has no key.
    #[error("it is encrypted, and the database is not")]
    Encrypted,
    /// Anybody could have written it.
    #[error("it is not encrypted, as all records of this database are")]
    NotEncrypted,
}

/// Why the body of a record was refused, although its checksum is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The body ends early.
    #[error("body ends at byte {offset}, in the middle of {field}")]
    Short {
        /// Which field is cut.
        field: &'static str,
        /// Where in the body.
        offset: usize,
    },
    /// Bytes are left over.
    #[error("{bytes} bytes too many at byte {offset} of the body")]
    Trailing {
        /// How many.
        bytes: usize,
        /// From where in the body.
        offset: usize,
    },
    /// A field has a value that is never written.
    #[error("{field} at byte {offset} of the body has a value that is never written")]
    Value {
        /// Which field.
        field: &'static str,
        /// Where in the body.
        offset: usize,
    },
    /// A flag that this version does not know.
    #[error("flags {flags:#04x} are not known to this version")]
    Flags {
        /// The flags.
        flags: u8,
    },
}

/// Why a timeline's history file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A disk call failed.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: String,
        /// The disk's answer.
        source: std::io::Error,
    },
    /// The text is not a history.
    #[error("timeline history {path}, line {line}: {problem}")]
    Malformed {
        /// Which file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The history of a timeline with the same number, begun by another copy of the database.
    #[error(
        "timeline history {path} is of a timeline with mark {found}, and the superblock names the one with mark {expected}: another \
         copy of the database wrote it; put back the history of this one"
    )]
    OtherTimeline {
        /// Which file.
        path: String,
        /// The mark that it ends with.
        found: TimelineMark,
        /// The mark that the superblock has.
        expected: TimelineMark,
    },
    /// Longer than any history is.
    #[error("timeline history {path} has {bytes} bytes, the limit is {limit}")]
    TooLong {
        /// Which file.
        path: String,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// Why the mark of a received log could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceivedMarkError {
    /// A disk call failed.
    #[error("read {path}")]
    Io {
        /// Which file.
        path: String,
        /// The disk's answer.
        source: std::io::Error,
    },
    /// Neither copy is one.
    #[error(
        "both copies in {path} are damaged: at offset 0, {first}; at offset 4096, {second}. It says up to where the log is durable that \
         this server has received: make the server anew from a backup or from its primary"
    )]
    Damaged {
        /// Which file.
        path: String,
        /// What is wrong with the first copy.
        first: &'static str,
        /// What is wrong with the second copy.
        second: &'static str,
    },
    /// A file of another database.
    #[error("{path} is of database {found}, expected {expected}")]
    Database {
        /// Which file.
        path: String,
        /// The file's.
        found: DatabaseId,
        /// Ours.
        expected: DatabaseId,
    },
}
