//! Restoring a cluster: its files here, its log by PostgreSQL itself, which asks for it with `restore_command`.
//!
//! ```text
//!   choose a backup --> does the log reach the target? --> parts --> files, each synced --> settings --> global/pg_control
//! ```
//! What is on disk if the power goes is said in `directory`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::{Repository, System};
use seawall_engine::ArchiveMode;
use seawall_io::Clock;
use seawall_types::TimelineId;

use super::catalog::{StoredPostgreSqlBackup, postgresql_backups};
use super::choose::{Followed, LogCheck, PostgreSqlTarget, Stored};
use super::directory::{Kept, NewCluster, Unpacker, check_directory, sync_files};
use super::error::PostgreSqlBackupError;
use super::parts::{PartReader, StoredParts};
use super::recovery::{Recovery, RestoredRole, TargetAction};
use super::restore_points::Search;
use super::stream::{Contents, read_archive};
use crate::error::BackupError;
use crate::lineage::{PassedOver, Timelines};

/// Files that are synced at a time: a journal takes several at once.
const SYNCING_THREADS: usize = 8;
/// Files that wait to be synced, and are open meanwhile.
const SYNCING_QUEUE: usize = 64;

/// What to restore, and how it recovers then.
#[derive(Clone, Debug)]
pub struct PostgreSqlRestoreRequest {
    /// How far.
    pub target: PostgreSqlTarget,
    /// Along the history of this timeline. Default: the one that production is on, or was on at the time asked for, as far as the
    /// repository tells (`lineage`).
    pub timeline: Option<TimelineId>,
    /// From this backup. Default: the newest one that ends at or before the target; for a restore point, the log is read to find that.
    pub backup: Option<String>,
    /// What PostgreSQL fetches files of its log with.
    pub restore_command: String,
    /// What it does at the target.
    pub action: TargetAction,
    /// What it becomes.
    pub role: RestoredRole,
    /// Whether it archives. Default: not before somebody sets `archive_mode`.
    pub archive_mode: ArchiveMode,
    /// Parts that are fetched at a time. Default 4.
    pub threads: usize,
}

impl PostgreSqlRestoreRequest {
    /// Up to the end of the log, along the timeline of production; the restored cluster archives nothing.
    pub fn new(restore_command: String) -> PostgreSqlRestoreRequest {
        PostgreSqlRestoreRequest {
            target: PostgreSqlTarget::Latest,
            timeline: None,
            backup: None,
            restore_command,
            action: TargetAction::Pause,
            role: RestoredRole::Primary,
            archive_mode: ArchiveMode::Off,
            threads: 4,
        }
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgreSqlRestoreProgress {
    /// The restore point is looked for in the log.
    Searching {
        /// Segments so far.
        segments: u64,
    },
    /// Files are being written.
    Files {
        /// Bytes so far.
        bytes: u64,
        /// All of them, and a little more.
        total: u64,
        /// Time since the restore began.
        elapsed: Duration,
    },
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgreSqlRestoreReport {
    /// The backup.
    pub backup: StoredPostgreSqlBackup,
    /// The timeline that its recovery follows.
    pub timeline: TimelineId,
    /// Timelines with data that a restore to the latest has left out.
    pub passed_over: Vec<PassedOver>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Writes the files of a cluster into `directory`, which must be missing or empty, or have what a restore that was cut short has
/// left; and how it is to recover. PostgreSQL can be started there when this returns, and not before.
///
/// # Errors
/// `NoBackup`, `WhichTimeline`, `LogTooShort`, `Damaged`, `PostgreSql`; what the repository says.
pub fn restore_postgresql(
    repository: &Repository,
    identifier: u64,
    directory: &Path,
    clock: &dyn Clock,
    request: &PostgreSqlRestoreRequest,
    progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
) -> Result<PostgreSqlRestoreReport, BackupError> {
    let started = clock.monotonic();
    check_directory(directory)?;
    let system = System::PostgreSql(identifier);
    let backups = postgresql_backups(repository, identifier)?.complete;
    let of_backups = backups.iter().map(|backup| backup.manifest.timeline);
    let timelines = Timelines::load(repository, system, of_backups)?;
    let stored = Stored { backups, timelines };
    let Followed { history, passed_over } =
        stored.follow(repository, system, &request.target, request.timeline)?;
    let mut backup = stored.choose(&request.target, &history, request.backup.as_deref())?;
    if let (PostgreSqlTarget::RestorePoint(name), None) = (&request.target, &request.backup) {
        let search = Search { repository, system, history: &history, name, threads: request.threads };
        let found = search.backup(&stored.on_the_way(&history), &mut |segments| {
            progress(PostgreSqlRestoreProgress::Searching { segments });
        });
        backup = found.map_err(|error| search.with_other_timelines(&stored, error))?;
    }
    LogCheck { repository, system, history: &history, backup }.check(&request.target)?;
    let manifest = &backup.manifest;
    let is_default = match request.role {
        RestoredRole::Primary => history.timeline_at(manifest.start) == history.timeline,
        RestoredRole::Standby => history.timeline == stored.timelines.last(),
    };
    let recovery = Recovery {
        restore_command: &request.restore_command,
        target: &request.target,
        action: request.action,
        role: request.role,
        archive_mode: request.archive_mode,
        timeline: (!is_default).then_some(history.timeline),
    };
    let cluster = NewCluster::begin(directory)?;
    let (mut bytes, total) = (0, manifest.bytes());
    let mut written = |count: u64| {
        bytes += count;
        let elapsed = clock.monotonic().saturating_sub(started);
        progress(PostgreSqlRestoreProgress::Files { bytes, total, elapsed });
    };
    let parts = StoredParts { repository, system, id: &backup.id, parts: &manifest.parts };
    let (contents, kept) = unpack(&cluster, parts, request.threads, &mut written)?;
    let damaged = |problem: String| BackupError::damaged(&backup.id, problem);
    contents.check().map_err(damaged)?;
    let control = kept.control.ok_or_else(|| damaged("it has no global/pg_control".to_owned()))?;
    cluster.put("postgresql.auto.conf", &recovery.settings(&kept.settings))?;
    cluster.put(recovery.signal(), b"")?;
    for name in kept.directories.iter().map(PathBuf::as_path).chain([Path::new("")]) {
        cluster.sync_directory(name)?;
    }
    cluster.finish(&control)?;
    let elapsed = clock.monotonic().saturating_sub(started);
    let timeline = history.timeline;
    Ok(PostgreSqlRestoreReport { backup: backup.clone(), timeline, passed_over, elapsed })
}

/// Writes all files, durably but for their names.
fn unpack(
    cluster: &NewCluster,
    parts: StoredParts<'_>,
    threads: usize,
    written: &mut dyn FnMut(u64),
) -> Result<(Contents, Kept), BackupError> {
    let (sender, queue) = sync_channel(SYNCING_QUEUE);
    let queue = Arc::new(Mutex::new(queue));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SYNCING_THREADS)
            .map(|_| {
                // When the last worker has gone, the unpacker finds nobody to give a file to.
                let queue = Arc::clone(&queue);
                scope.spawn(move || sync_files(&queue))
            })
            .collect();
        drop(queue);
        let mut reader = PartReader::new(scope, parts, threads);
        let mut unpacker = Unpacker::new(cluster, sender, written);
        let read = read_archive(&mut reader, &mut unpacker);
        let kept = unpacker.finish();
        let panicked =
            |_| PostgreSqlBackupError::io("cannot sync files")(io::Error::other("a thread panicked"));
        for worker in workers {
            worker.join().map_err(panicked)??;
        }
        let contents = read.map_err(|error| match (reader.take_failure(), error.kind()) {
            (Some(failure), _) => failure,
            (None, io::ErrorKind::InvalidData) => BackupError::damaged(parts.id, error.to_string()),
            (None, _) => PostgreSqlBackupError::io("the cluster is not restored")(error).into(),
        })?;
        Ok((contents, kept))
    })
}

#[cfg(test)]
mod tests;
