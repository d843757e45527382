//! The storage engine: transactions, row locks, catalog, checkpoint and recovery over the log, the memtable and the tree.
//!
//! ```text
//!        put / delete / drop                                     get / range
//!                 |                                                   |
//!           Transaction  (private write set, row locks)               |  snapshot = an LSN
//!                 | commit                                            v
//!                 v                                      +--------------------------+
//!   +-----------------------------+   apply              |  active memtable         |
//!   |  log: one record per commit | ------------------>  |  frozen memtables        |   view
//!   +-----------------------------+                      +--------------------------+
//!                                                        |  B+tree, state at the    |
//!              checkpoint: freeze, merge, advance  --->  |  redo point              |
//!                                                        +--------------------------+
//! ```
//! Invariants:
//! * A commit is visible only when every commit before it is, and when it is as durable as it asked (`commit_queue`).
//! * A snapshot sees the same rows for as long as it is kept (`view`, `read`, `scan`).
//! * Recovery ends with what a crash left: a prefix of the commit order that holds everything acknowledged.
//! * Only a checkpoint or a bulk load changes the tree, one at a time, under the turn to change it (`checkpoint::turn`).
//!
//! Lock order: the turn to change the tree, then a row lock, then the log's critical section, then latches that guard one
//! structure (a shard of the lock table, the map of open objects, an object's state). No latch is held across a call
//! to the disk but for the tree writer's own.
//!
//! The parts, each with a folder:
//! * `transaction`: writes in private, row locks, the way of a commit into the log, the memtable and the readers' sight.
//! * `snapshots`: reads of one row and scans, at a moment.
//! * `in_doubt`: two-phase commit, from the prepare to the decision.
//! * `catalog`: tables and their names, and what becomes of dropped ones. `bulk_load`: new tables past the log.
//! * `runs`: changes that lie beside the main part of the tree. `checkpoint`: the memtable goes into the tree. `pacing`: writers and checkpoints kept in step.
//! * `recovery`: the log is replayed; new timelines and restores.
//! * `quorum`: commits that standbys must have.
//! * `standby`: a log that is received is applied while others read; promotion.
//! * `log`: holds and upkeep of the log. `archiver`: copies of it elsewhere. `backup`: copies of the rows.
//! * `inspect`: statistics, checks, and the log to look at.
//!
//! Start at `Database`, then `transaction::commit` and `checkpoint`.

mod archiver;
mod background;
mod backup;
mod bulk_load;
mod catalog;
mod checkpoint;
mod database;
mod directory;
mod encryption;
mod engine;
mod environment;
mod error;
mod handover;
mod in_doubt;
mod inspect;
mod lifecycle;
mod log;
mod moved;
mod open;
mod options;
mod pacing;
mod quorum;
mod recovery;
mod row_key;
mod runs;
#[doc(hidden)]
pub mod sabotage;
mod snapshots;
mod standby;
mod transaction;

pub use archiver::log_archive::{ArchiveOptions, ArchivedLog, LogArchive, LogArchiveError, LogFile, LogGap};
pub use archiver::{ArchiveGap, ArchiveStatistics, ArchiveWatch, UPLOADS_AHEAD_MAX};
pub use backup::log_checksum::LogChecksum;
pub use backup::row_sum::RowSum;
pub use backup::{
    Backup, BackupBase, BackupEnd, BackupItem, BackupNotes, BackupParent, BackupRange, BackupReach,
    BegunBackup,
};
pub use bulk_load::BulkLoad;
pub use catalog::Table;
pub use catalog::reclaim_counters::ReclaimStatistics;
pub use checkpoint::statistics::{CheckpointDurations, CheckpointStatistics, Trigger};
pub use database::{
    Database, DatabaseDirectory, DatabaseLog, Handover, Quorum, SessionLocks, Snapshot, Standby, TableInfo,
    Tables, TransactionSetting, Transactions, TwoPhase,
};
pub use environment::Environment;
pub use error::{Effect, Error, TableChange};
pub use handover::HandoverRecord;
pub use in_doubt::InDoubtTransaction;
pub use in_doubt::decisions::{AutomaticDecision, DECISIONS_MAX, DecisionReason};
pub use in_doubt::policy::{FailedRule, RulesApplied};
pub use in_doubt::rules::{InDoubtAction, InDoubtHook, InDoubtRule, Verdict};
pub use inspect::check::{CheckSummary, Damage, DamageKind, KeyRange};
pub use inspect::commit_stages::CommitStages;
pub use inspect::durations::{DurationCounter, DurationHistogram};
pub use inspect::log_overview::{LogOverview, RestorePointInfo};
pub use inspect::log_records::{LogChange, LogContent, LogRecordInfo};
pub use inspect::logged_rows::LoggedRows;
pub use inspect::runs::RunInfo;
pub use inspect::statistics::open_metrics::MetricSample;
pub use inspect::statistics::published::PublishedStatistics;
pub use inspect::statistics::{
    CacheStatistics, CheckpointTotals, DatabaseInfo, LogStatistics, MemtableStatistics, RunStatistics,
    SegmentInfo, SegmentStatistics, SnapshotStatistics, Statistics, TransactionStatistics,
    TwoPhaseStatistics,
};
pub use log::hold::LogHold;
pub use options::{
    Background, CheckpointOptions, Durability, FormatOptions, Isolation, LogOptions, MemoryOptions, OpenMode,
    Options, PublishStatistics, QuorumOptions, RecoveryOptions, ReplicationLevel, RunOptions,
    TransactionOptions,
};
pub use pacing::recovery_time::RecoveryTimeStatistics;
pub use pacing::throttle::{ThrottleReason, ThrottleStatistics};
pub use quorum::members::{Alone, QuorumStatus, StandbyPositions};
pub use quorum::watermarks::QuorumPositions;
pub use recovery::archive_mode::ArchiveMode;
pub use recovery::record_kinds::{ReplayedKind, ReplayedRecords};
pub use recovery::rejoin::{CutLog, Rejoined, ServerToFollow};
pub use recovery::restore::{
    EndSearch, NewNumber, Restore, RestoreEnd, RestoreMarker, RestoreOptions, RestoreTarget, RowsThere,
    check_restore_directory, restored_log_file,
};
pub use recovery::rewind::{Rewind, Rewound, RowsFromPrimary, is_rewinding};
pub use recovery::statistics::{OpenPhases, RecoveryProgress, RecoveryStatistics};
pub use recovery::timeline::NewTimeline;
pub use row_key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use seawall_sync::CancelToken;
pub use seawall_tree::{ImageCompression, PageProtection};
pub use seawall_wal::{
    AtLimit, HoldInfo, HoldKind, HoldLifetime, HoldOptions, LogBell, LogStream, LogStreamError, SegmentName,
    SegmentState, StreamPiece, TimelineFork, TimelineHistory,
};
pub use snapshots::scan::{Direction, LentRow, Range, Scan};
pub use standby::control::{AppliedRecords, StandbyStatistics};
pub use standby::phases::{Promotion, PromotionPhases};
pub use transaction::Transaction;
pub use transaction::commit::CommitHandle;
pub use transaction::lock_mode::{LockMode, LockModes, RowLock};
pub use transaction::lock_view::{CircleMember, LockTag, LockTarget, LockedObject, WaitingRequest};
pub use transaction::lock_wait::LockWait;
pub use transaction::reader::Reader;
pub use transaction::row_locks::LockedRow;
pub use transaction::savepoint::Savepoint;
