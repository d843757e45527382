//! Archives, backups and restores from a program, with feature `backup`.
//!
//! ```text
//!   Repository::create, Repository::open      a directory, S3, GCS or Azure
//!      |
//!      +-- RepositoryArchive --> Options::archives      the log goes into it while the database works
//!      +-- back_up, BackupScheduler                        backups; one as soon as a gap makes it needed
//!      +-- restore                                      a new directory, as of any commit
//!      +-- DatabaseDirectory::allow_archiving           for a restored one that takes the place of production
//!      +-- verify, plan                                 what is damaged; what need not be kept
//! ```
//! `examples/backup_and_restore.rs` has all of it in one program.
//!
//! The feature brings HTTP, TLS and an async runtime, which runs only inside of a [`Repository`]: all calls here block.

use std::path::PathBuf;
use std::sync::Arc;

pub use seawall_archive::{
    ArchiveError, Compression, NotRemoved, Packing, Repository, RepositoryOptions, RepositoryUrl,
    RepositoryUrlError, RequestCounts, RequestStatistics, RetryPolicy, StoreCause, StoreError, System,
};
pub use seawall_backup::{
    BackupError, BackupOptions, BackupProgress, BackupScheduler, BackupStart, BackupStep, DrillReport,
    ExpireError, ExpireProgress, ExpireReport, Expiry, Finding, FindingKind, Inventory, Manifest, PassedOver,
    RepositoryArchive, RestoreProgress, RestoreReport, RestoreRequest, RetentionPlan, RetentionPolicy,
    SchedulerOptions, SchedulerReport, Severity, StoredBackup, StoredBackups, VerifyDepth, VerifyOptions,
    VerifyReport, back_up, back_up_behind_gap, backups, databases, drill, plan, restore, verify,
};
pub use seawall_engine::{ArchiveMode, RestoreTarget};
pub use seawall_io::{Clock, OsRandom, Random, SystemClock};

use seawall_engine::Environment;
use seawall_io::OsDisk;

/// A directory of this machine, for [`restore`], which makes it.
pub fn directory(path: impl Into<PathBuf>) -> Environment {
    Environment::of_the_system(Arc::new(OsDisk::new(path)))
}
