//! Base backups of PostgreSQL clusters: backup, restore and drill. The log of the cluster is archived into the same repository.
//!
//! ```text
//!   cluster --pg_basebackup--> tar, cut into parts --> repository <--archive_command-- log of the cluster
//!   directory <----------------------------------------- parts         log --restore_command--> PostgreSQL recovers
//! ```
//! Invariants, beyond those of `seawall_backup`, which reads the manifests, too: retention and verification are there, for all kinds of backups.
//! * A manifest is put when all parts are durable, every file in them is as PostgreSQL's own list says, and all of the log that it
//!   takes to make them consistent is in the repository.
//! * PostgreSQL cannot start in a directory that is not whole. A restore that was cut short resumes: see `attempt`.
//!
//! Start at [`back_up_postgresql`] and [`restore_postgresql`].

mod attempt;
mod back_up;
mod bad_pages;
mod catalog;
mod choose;
mod directory;
mod drill;
mod error;
mod file_list;
mod foreign;
mod kept;
mod missing;
mod parts;
mod patience;
mod programs;
mod recovery;
mod restore;
mod restore_points;
#[doc(hidden)]
pub mod sabotage;
mod scratch_check;
mod scratch_guard;
mod scratch_server;
mod segments;
mod server;
mod stream;
mod unpack;

pub use back_up::{BackupCheckpoint, PostgreSqlBackupOptions, PostgreSqlBackupProgress, back_up_postgresql};
pub use catalog::{StoredPostgreSqlBackup, StoredPostgreSqlBackups, clusters, postgresql_backups};
pub use choose::PostgreSqlTarget;
pub use drill::{
    PostgreSqlDrillPhases, PostgreSqlDrillProgress, PostgreSqlDrillReport, PostgreSqlDrillRequest,
    drill_postgresql,
};
pub use error::PostgreSqlBackupError;
pub use programs::ServerUser;
pub use recovery::{RestoredRole, TargetAction};
pub use restore::{
    PostgreSqlRestoreProgress, PostgreSqlRestoreReport, PostgreSqlRestoreRequest, restore_postgresql,
};
pub use scratch_check::{CheckQuery, ServerCheck};
pub use scratch_guard::{DRILL_GUARD_COMMAND, drill_guard};
pub use server::PostgreSqlServer;
pub use stream::check_base_backup;
