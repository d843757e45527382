//! The write-ahead log: a commit is flushed here before a reader sees it or the tree holds it.
//!
//! ```text
//!   append --copy, or move if long--> batch --taken, written--> segment files --durable--> wake the batch
//!                                       `--copy--> pending file, for `Async` (outlives the process)
//!     |                                                                 |
//!   appended LSN                        >=                         flushed LSN --> commits up to here return
//!
//!   log/0000000100000000000000A1 ... A2 ... A3 ... A4            segments, first 4 KiB is a header
//!        [H|rec|rec|re] [H|c|rec|rec] [H|000000000] [H|000000000]
//!                                    ^ end of log   ^ spares, ready before an LSN in them is given out
//! ```
//!
//! Invariants:
//! * `flushed <= appended`; neither runs backwards. Flushes are serial: when a batch is written, the log is durable up
//!   to the batch's start, and every record says how far that is (invariant 10: damage is distinguished from a torn tail).
//! * A record's LSN lies in a segment that is complete on disk: zero-filled or recycled, header and name durable.
//! * Under the append mutex there is no disk call, nothing that grows with a record, and no store to a mapped file, which
//!   could wait for the file system. Two latches are taken there, of the batches that are not durable and of the long records
//!   in one of them: a thread that copies to the pending files holds each while it copies a list of pointers. An appender
//!   waits only if that thread is preempted just then.
//! * A record verifies at its own LSN, timeline and database only: a recycled segment's old bytes are not records, and neither is
//!   what another copy of the database writes on a timeline of the same number.
//! * A segment is marked as begun before its first record is written. The contents of unmarked segments are ignored.
//! * Beyond the end at which the log was opened, no byte that could be taken for a record is left in a segment when
//!   that segment is written again.
//! * What [`Log::survive_kill`] has returned for is there after the end of the process, whatever ended it, with all that
//!   was appended before. Only power can take it.
//! * A failed write or sync is never retried; the log takes no more writes until it is reopened.
//!
//! [`OpenLog`] owns a [`Log`] and the thread that flushes it. A [`LogObserver`] hears of flushes, of missing spares, and of the end
//! of all writing.
//!
//! A [`LogStream`] is what a standby is sent: the bytes of the files, up to the durable end. A [`ReceivedLog`] is what it makes of
//! them.
//!
//! Start at [`Log::append`] and [`LogReader::next`]. Byte layouts are in `segment`, `record`, `commit`, `prepared`, `control`,
//! `page_images`, `pending`, `received` and `holds::file`.

mod body;
mod commit;
mod control;
mod decoded;
mod error;
mod geometry;
mod holds;
mod metrics;
mod observer;
mod open;
mod options;
mod page_images;
mod pending;
mod prepared;
mod reader;
mod received;
mod received_log;
mod recent;
mod record;
mod record_walk;
mod recycle;
mod retention;
#[doc(hidden)]
pub mod sabotage;
mod segment;
mod segment_check;
mod segment_set;
mod stream;
mod switch;
mod timeline;
mod write_again;
mod writer;

pub use body::{BodyReader, put_varint};
pub use commit::{
    Change, Changes, Commit, CommitBuilder, ROW_KEY_BYTES_MAX, TABLE_ID_BYTES, VALUE_BYTES_MAX,
};
pub use control::{BulkLoad, Checkpoint, RESTORE_POINT_NAME_BYTES_MAX, RestorePoint, TimelineSwitch};
pub use decoded::Record;
pub use error::{
    EncryptionProblem, HistoryError, LogError, LogReadError, LogStreamError, PendingFileError, ReceiveError,
    ReceivedMarkError, RecordError, SegmentCheckError, SegmentHeaderError,
};
pub use geometry::{HEADER_BYTES, LogGeometry, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use holds::{
    AtLimit, HOLD_NAME_BYTES_MAX, HOLDS_MAX, HoldError, HoldInfo, HoldKind, HoldLifetime, HoldOptions,
    HoldPosition, HoldsFileError, read_holds,
};
pub use metrics::LogStatistics;
pub use observer::LogObserver;
pub use options::{FlushBy, LogOptions};
pub use page_images::{PageImageEntry, PageImages};
pub use prepared::{Decision, GID_BYTES_MAX, OWNER_BYTES_MAX, Outcome, Prepare};
pub use reader::{EndReason, LogEnd, LogReader, LogRecord, PendingUse};
pub use received::{ReceivedMark, received_stretches};
pub use received_log::ReceivedLog;
pub use recent::LogBell;
pub use record::{PreparedRecord, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordKind, RecordSpan};
pub use retention::RetentionReport;
pub use segment::{FORMAT_VERSION, SEGMENT_MAGIC, SegmentName};
pub use segment_check::{SegmentContent, check_segment};
pub use segment_set::{LogFiles, SegmentInfo, SegmentState};
pub use stream::{LogStream, StreamPiece};
pub use switch::{begin_timeline, next_timeline};
pub use timeline::{Parting, TimelineFork, TimelineHistory};
pub use writer::{Log, OpenLog};
