//! Seawall: a transactional storage engine whose write-ahead log is never the bottleneck.
//!
//! ```
//! use seawall::{Database, Options};
//!
//! # fn main() -> Result<(), seawall::Error> {
//! # let scratch = tempfile::tempdir().expect("a scratch directory");
//! # let directory = scratch.path().join("bank");
//! let database = Database::open(directory, Options::default())?;
//! let accounts = database.create_table("accounts")?;
//!
//! let mut transaction = database.begin();
//! transaction.put(&accounts, "alice", "100")?;
//! transaction.put(&accounts, "bob", "50")?;
//! transaction.commit()?; // durable when it returns
//!
//! for row in database.snapshot().range(&accounts, "a".."n") {
//!     let (key, value) = row?;
//!     println!("{} has {}", key.escape_ascii(), value.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   Database --begin--> Transaction --commit--> durable, and visible to all who begin later
//!      |  \--snapshot--> Snapshot: everything committed at one moment
//!      |--table--> Table (bytes to bytes), TypedTable (your types, in their own order)
//!      |--with(durability, isolation, ..)--> Transactions: begin, transact, put, delete as asked
//!      \--tables, two_phase, log--> Tables, TwoPhase, DatabaseLog: the rest, by what it is about
//!   DatabaseDirectory: a database that is not open here
//! ```
//! Start at [`Database`]. No async runtime is needed or started: waiting calls block their thread, and
//! [`Transaction::commit_async`] lets one thread keep thousands of commits in flight.
//!
//! Feature `backup` adds module `backup`: repositories for the log, backups, restores. It costs HTTP, TLS and a runtime for them.

#[cfg(feature = "backup")]
pub mod backup;
mod typed;
pub mod xa;

pub use seawall_codec::{key, value};
pub use seawall_engine::{
    Alone, ArchiveGap, ArchiveOptions, ArchiveStatistics, ArchivedLog, AtLimit, AutomaticDecision,
    Background, BulkLoad, CacheStatistics, CancelToken, CheckSummary, CheckpointDurations, CheckpointOptions,
    CheckpointStatistics, CheckpointTotals, CircleMember, CommitHandle, CutLog, DECISIONS_MAX, Damage,
    DamageKind, Database, DatabaseDirectory, DatabaseInfo, DatabaseLog, DecisionReason, Direction,
    Durability, Effect, Environment, Error, FailedRule, FormatOptions, Handover, HandoverRecord, HoldInfo,
    HoldKind, HoldLifetime, HoldOptions, ImageCompression, InDoubtAction, InDoubtHook, InDoubtRule,
    InDoubtTransaction, Isolation, KEY_BYTES_MAX, KeyRange, LentRow, LockMode, LockModes, LockTag,
    LockTarget, LockWait, LockedObject, LockedRow, LogArchive, LogArchiveError, LogChange, LogContent,
    LogFile, LogGap, LogHold, LogOptions, LogOverview, LogRecordInfo, LogStatistics, MemoryOptions,
    MemtableStatistics, MetricSample, NewTimeline, OpenMode, Options, PageProtection, Promotion,
    PromotionPhases, PublishStatistics, PublishedStatistics, Quorum, QuorumOptions, QuorumPositions,
    QuorumStatus, Range, Reader, ReclaimStatistics, RecoveryOptions, RecoveryProgress, RecoveryStatistics,
    RecoveryTimeStatistics, Rejoined, ReplicationLevel, RestorePointInfo, RowLock, RulesApplied, RunInfo,
    RunOptions, RunStatistics, Savepoint, Scan, SegmentInfo, SegmentName, SegmentState, SegmentStatistics,
    ServerToFollow, SessionLocks, Snapshot, SnapshotStatistics, Standby, StandbyPositions, StandbyStatistics,
    Statistics, Table, TableChange, TableInfo, Tables, ThrottleReason, ThrottleStatistics, TimelineFork,
    TimelineHistory, Transaction, TransactionOptions, TransactionStatistics, Trigger, TwoPhase,
    TwoPhaseStatistics, VALUE_BYTES_MAX, Verdict, WaitingRequest,
};
pub use seawall_io::give_back_freed_memory;
pub use seawall_keys::{MasterKey, MasterKeyError, OtherMasterKeys, SecretKey};
pub use seawall_types::{DatabaseId, Lsn, TimelineId};
pub use typed::*;
