//! Archive, backup and restore of a Seawall database, in repositories of `seawall_archive`; and what all backups of a repository have in
//! common, those of PostgreSQL clusters, too: manifests, retention, verification, and which timeline a restore follows.
//!
//! ```text
//!   Database --log----> RepositoryArchive --segments, tails--> repository: a directory, S3, GCS, Azure
//!            --ranges-> back_up ----------runs, manifest----->
//!   directory <-------- restore <------------------------------
//! ```
//! Invariants:
//! * A backup without a manifest does not exist, and the manifest is put last: when its runs are durable in the repository, and
//!   the log that it needs is.
//! * Nothing that a crash of the database could take back gets into a repository.
//! * What is restored is the state after some commit of the timeline that was asked for, exactly.
//! * A gap in the archived log is on record before anything behind it goes up, and a [`BackupScheduler`] takes a full backup behind it.
//!
//! Why rows that were read at different moments make a consistent database with the log is said in `engine::backup`, what is
//! on disk if a restore is cut short in `engine::recovery::restore`.
//!
//! Start at [`back_up`], [`restore`] and [`RepositoryArchive`]. Byte layouts are in `run` and `manifest`.

mod back_up;
mod catalog;
mod chain;
mod chain_member;
mod dependencies;
mod drill;
mod error;
mod history;
mod inventory;
mod lineage;
mod manifest;
pub mod object_names;
mod options;
mod progress;
mod reach;
mod removal_mark;
mod repository_archive;
mod repository_log;
mod required_object;
mod reservation;
mod restore;
mod resume;
mod retention;
mod run;
mod scheduler;
mod standby_copy;
mod stored_log;
pub mod timelines;
mod upload;
mod verify;

pub use back_up::{BackupProgress, BackupStep, back_up};
pub use catalog::{StoredBackup, StoredBackups, backups, databases};
pub use dependencies::BackupDependencies;
pub use drill::{DrillPhases, DrillReport, drill};
pub use error::BackupError;
pub use inventory::{Inventory, StoredLogFile, TimelineLog, UnfinishedBackup};
pub use lineage::{LogStretch, TimelineLineage};
pub use manifest::postgresql::{BadFile, PartInfo, PostgreSqlManifest};
pub use manifest::{CutShort, Manifest, RunInfo, RunKind};
pub use options::{BackupOptions, BackupStart};
pub use progress::Progress;
pub use removal_mark::put_unless_given_up;
pub use repository_archive::RepositoryArchive;
pub use repository_log::RepositoryLog;
pub use required_object::RequiredObject;
pub use restore::{RestoreProgress, RestoreReport, RestoreRequest, restore};
pub use retention::{
    ExpireError, ExpireProgress, ExpireReport, Expiry, KeepReason, KeptBackup, KeptLog, LogReason,
    RETENTION_REASON, RemovedBackup, RemovedLog, RetentionPlan, RetentionPolicy, plan,
};
pub use run::check_backup_run;
pub use scheduler::{BackupScheduler, SchedulerOptions, SchedulerReport, back_up_behind_gap};
pub use standby_copy::{StandbyCopy, copy_for_standby};
pub use stored_log::OnItsWay;
pub use timelines::PassedOver;
pub use verify::{
    Finding, FindingKind, Severity, VerifyDepth, VerifyOptions, VerifyProgress, VerifyReport, verify,
};
