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
//! * Only a checkpoint or a bulk load changes the tree, one at a time, under `Engine::checkpoint`.
//!
//! Lock order: `Engine::checkpoint`, then a row lock, then the log's critical section, then latches that guard one
//! structure (a shard of the lock table, the map of open objects, an object's state). No latch is held across a call
//! to the disk but for the tree writer's own.
//!
//! Start at `Database`, then `commit` and `checkpoint`.

mod admission;
mod archiver;
mod background;
mod backup;
mod bulk_load;
mod catalog;
mod catalog_merge;
mod check;
mod checkpoint;
mod checkpoint_statistics;
mod commit;
mod commit_queue;
mod data_definition;
mod database;
mod decide;
mod dropped_tables;
mod encryption;
mod engine;
mod error;
mod in_doubt;
mod kept_memory;
mod load_log;
mod loaded_rows;
mod lock_table;
mod log_archive;
mod log_checksum;
mod log_cleaner;
mod log_hold;
mod log_keeper;
mod log_overview;
mod log_records;
mod measurements;
mod merge_source;
mod moved;
mod open;
mod options;
mod pace;
mod page_protection;
mod prepare;
mod read;
mod read_set;
mod recent_commits;
mod reclaim;
mod reclaim_statistics;
mod recovery;
mod recovery_time;
mod restore;
mod row_key;
mod row_sorter;
mod scan;
mod session;
mod snapshots;
mod statistics;
mod throttle;
mod timeline;
mod touched_tables;
mod transaction;
mod transaction_memory;
mod update;
mod view;
mod write_set;
mod writer_pace;

pub use archiver::{ArchiveGap, ArchiveStatistics, ArchiveWatch, UPLOADS_AHEAD_MAX};
pub use backup::{
    Backup, BackupBase, BackupEnd, BackupItem, BackupNotes, BackupParent, BackupRange, BackupReach,
    BegunBackup,
};
pub use bulk_load::BulkLoad;
pub use catalog::Table;
pub use check::{CheckSummary, Damage, DamageKind, KeyRange};
pub use checkpoint_statistics::{CheckpointDurations, CheckpointStatistics, Trigger};
pub use commit::CommitHandle;
pub use database::{Database, Snapshot, TableInfo};
pub use decide::InDoubtTransaction;
pub use engine::Environment;
pub use error::{Effect, Error, TableChange};
pub use in_doubt::decisions::{AutomaticDecision, DECISIONS_MAX, DecisionReason};
pub use in_doubt::policy::{FailedRule, InDoubtAction, InDoubtHook, InDoubtRule, RulesApplied, Verdict};
pub use lock_table::LockWait;
pub use log_archive::{ArchiveOptions, ArchivedLog, LogArchive, LogArchiveError, LogFile, LogGap};
pub use log_checksum::LogChecksum;
pub use log_hold::LogHold;
pub use log_overview::{LogOverview, RestorePointInfo, log_overview, log_overview_in, restore_points};
pub use log_records::{LogChange, LogContent, LogRecordInfo, log_records};
pub use options::{Background, Durability, Isolation, OpenMode, Options, TransactionOptions};
pub use reclaim_statistics::ReclaimStatistics;
pub use recovery::{RecoveryProgress, RecoveryStatistics};
pub use recovery_time::RecoveryTimeStatistics;
pub use restore::{
    ArchiveMode, EndSearch, NewNumber, Restore, RestoreEnd, RestoreMarker, RestoreOptions, RestoreTarget,
    RowsThere, allow_archiving, check_restore_directory, forbid_archiving, is_archiving_off,
    restored_log_file,
};
pub use row_key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use scan::{LentRow, Range};
pub use seawall_tree::{ImageCompression, PageProtection};
pub use seawall_wal::{
    AtLimit, HoldInfo, HoldKind, HoldLifetime, HoldOptions, SegmentName, SegmentState, TimelineFork,
    TimelineHistory,
};
pub use statistics::{DatabaseInfo, SegmentInfo, Statistics};
pub use throttle::{ThrottleReason, ThrottleStatistics};
pub use timeline::NewTimeline;
pub use transaction::{Savepoint, Transaction};
