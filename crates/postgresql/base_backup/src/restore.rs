//! Restoring a cluster: its files here, its log by PostgreSQL itself, which asks for it with `restore_command`.
//!
//! ```text
//!   choose a backup --> does the log reach the target? --> parts --> files, each synced --> settings --> global/pg_control
//!                                                            |                |
//!                                                            +--- all but ----+-- what an attempt before has left, if it is whole
//! ```
//! What is on disk if the power goes is said in `directory`, what a restore that resumes keeps in `kept`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::{Repository, System};
use seawall_codec::checksum::crc32c;
use seawall_engine::ArchiveMode;
use seawall_io::{Clock, Disk, OsDisk};
use seawall_types::TimelineId;
use seawall_wal::TimelineHistory;

use super::attempt::{Attempt, Entry};
use super::catalog::{StoredPostgreSqlBackup, postgresql_backups};
use super::choose::{LogCheck, PostgreSqlTarget, Stored};
use super::directory::{NewCluster, look};
use super::error::PostgreSqlBackupError;
use super::kept::keep_whole;
use super::missing::Missing;
use super::parts::{PartReader, StoredParts};
use super::recovery::{Recovery, RestoredRole, TargetAction};
use super::restore_points::Search;
use super::stream::{Contents, read_rest};
use super::unpack::{Unpacked, Unpacker, sync_files};
use seawall_backup::BackupError;
use seawall_backup::object_names::utc;
use seawall_backup::timelines::{Followed, PassedOver, Timelines};

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
    /// repository tells (`timelines`).
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

    /// What is asked for, but for how the log is fetched: what resumes may fetch it in another way.
    fn words(&self, identifier: u64) -> String {
        let system = System::PostgreSql(identifier);
        let target = match &self.target {
            PostgreSqlTarget::Latest => "the end of the log".to_owned(),
            PostgreSqlTarget::Lsn(lsn) => lsn.to_string(),
            PostgreSqlTarget::Time(micros) => utc(*micros),
            PostgreSqlTarget::RestorePoint(name) => format!("the restore point {name:?}"),
        };
        let then = match (&self.target, self.action) {
            (PostgreSqlTarget::Latest, _) => "",
            (_, TargetAction::Pause) => ", to pause there",
            (_, TargetAction::Promote) => ", to promote there",
            (_, TargetAction::Shutdown) => ", to shut down there",
        };
        let timeline = self
            .timeline
            .map_or_else(|| "the timeline of production".to_owned(), |number| format!("timeline {number}"));
        let backup = self.backup.as_deref().unwrap_or("any backup");
        let role = match self.role {
            RestoredRole::Primary => "a primary",
            RestoredRole::Standby => "a standby",
        };
        let archives = match self.archive_mode {
            ArchiveMode::Off => "archives nothing",
            ArchiveMode::Preserve => "archives as the original",
        };
        format!("{system}, up to {target}{then}, along {timeline}, from {backup}, as {role} that {archives}")
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
    /// What an attempt before has left is being checked.
    Checking {
        /// Bytes so far.
        bytes: u64,
        /// All of them.
        total: u64,
    },
    /// Files are being written.
    Files {
        /// Bytes so far, with those that were kept.
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
    /// Files that an attempt before had written, and that were found whole.
    pub kept_files: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Bytes of the parts that were fetched, before compression.
    pub fetched_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Writes the files of a cluster into `directory`, which must be missing or empty, or have what a restore of the same that was cut short
/// has left: this resumes it. And how it is to recover. PostgreSQL can be started there when this returns, and not before.
///
/// # Errors
/// `NoBackup`, `WhichTimeline`, `LogTooShort`, `Damaged`; what the directory and the repository say.
pub fn restore_postgresql(
    repository: &Repository,
    identifier: u64,
    directory: &Path,
    clock: &dyn Clock,
    request: &PostgreSqlRestoreRequest,
    progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
) -> Result<PostgreSqlRestoreReport, PostgreSqlBackupError> {
    restore_on(repository, identifier, Arc::new(OsDisk::new(directory)), clock, request, progress)
}

/// As [`restore_postgresql`], on any disk.
fn restore_on(
    repository: &Repository,
    identifier: u64,
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    request: &PostgreSqlRestoreRequest,
    progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
) -> Result<PostgreSqlRestoreReport, PostgreSqlBackupError> {
    let started = clock.monotonic();
    let asked_for = request.words(identifier);
    let left = look(&*disk)?.map(|left| left.attempt);
    if let Some(left) = &left {
        left.check(&*disk, &asked_for)?;
    }
    let system = System::PostgreSql(identifier);
    let backups = postgresql_backups(repository, identifier)?.complete;
    let of_backups = backups.iter().map(|backup| backup.manifest.timeline);
    let timelines = Timelines::load(repository, system, of_backups)?;
    let stored = Stored { backups, timelines };
    let Followed { history, mut passed_over, archived_later } =
        stored.follow(repository, system, &request.target, request.timeline)?;
    // A newer backup is no reason to begin anew.
    let chosen = left.and_then(|left| stored.choose(&request.target, &history, Some(&left.backup)).ok());
    let backup = match chosen {
        Some(backup) => backup,
        None => choose(repository, system, &stored, &history, request, progress)?,
    };
    let log = LogCheck { repository, system, history: &history, timelines: &stored.timelines, backup };
    let reach = log.check(&request.target)?;
    if let PostgreSqlTarget::Time(micros) = request.target
        && !archived_later.is_empty()
        && !log.goes_beyond(micros, &reach)
    {
        passed_over.extend(archived_later);
    }
    let manifest = crc32c(backup.manifest.encode().as_bytes());
    let attempt = Attempt { asked_for, backup: backup.id.clone(), manifest };
    let recovery = recovery_of(&stored, &history, backup, request);
    let parts = StoredParts { repository, system, id: &backup.id, parts: &backup.manifest.parts };
    let elapsed = || clock.monotonic().saturating_sub(started);
    let plan = Plan { attempt, parts, recovery, threads: request.threads, elapsed: &elapsed };
    let Written { kept, fetched_bytes } = plan.carry_out(disk, progress)?;
    let (kept_files, kept_bytes) = (kept.files, kept.bytes);
    let (backup, timeline) = (backup.clone(), history.timeline);
    let elapsed = elapsed();
    Ok(PostgreSqlRestoreReport {
        backup,
        timeline,
        passed_over,
        kept_files,
        kept_bytes,
        fetched_bytes,
        elapsed,
    })
}

/// The backup that a restore begins with.
fn choose<'a>(
    repository: &Repository,
    system: System,
    stored: &'a Stored,
    history: &TimelineHistory,
    request: &PostgreSqlRestoreRequest,
    progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
) -> Result<&'a StoredPostgreSqlBackup, PostgreSqlBackupError> {
    let backup = stored.choose(&request.target, history, request.backup.as_deref())?;
    let (PostgreSqlTarget::RestorePoint(name), None) = (&request.target, &request.backup) else {
        return Ok(backup);
    };
    let search = Search { repository, system, history, name, threads: request.threads };
    let found = search.backup(&stored.on_the_way(history), &mut |segments| {
        progress(PostgreSqlRestoreProgress::Searching { segments });
    });
    found.map_err(|error| search.with_other_timelines(stored, error))
}

fn recovery_of<'a>(
    stored: &Stored,
    history: &TimelineHistory,
    backup: &StoredPostgreSqlBackup,
    request: &'a PostgreSqlRestoreRequest,
) -> Recovery<'a> {
    let is_default = match request.role {
        RestoredRole::Primary => history.timeline_at(backup.manifest.start) == history.timeline,
        RestoredRole::Standby => history.timeline == stored.timelines.last(),
    };
    Recovery {
        restore_command: &request.restore_command,
        target: &request.target,
        action: request.action,
        role: request.role,
        archive_mode: request.archive_mode,
        timeline: (!is_default).then_some(history.timeline),
    }
}

/// A restore that nothing speaks against.
struct Plan<'a> {
    attempt: Attempt,
    parts: StoredParts<'a>,
    recovery: Recovery<'a>,
    threads: usize,
    elapsed: &'a dyn Fn() -> Duration,
}

/// What it took.
struct Written {
    kept: Kept,
    fetched_bytes: u64,
}

impl Plan<'_> {
    fn carry_out(
        &self,
        disk: Arc<dyn Disk>,
        progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
    ) -> Result<Written, PostgreSqlBackupError> {
        let (cluster, entries) = NewCluster::begin(disk, &self.attempt)?;
        let kept = Kept::check(&cluster, entries, self.threads, progress)?;
        let total = self.parts.parts.iter().map(|part| part.bytes).sum();
        let mut bytes = kept.bytes;
        let mut written = |count: u64| {
            bytes += count;
            progress(PostgreSqlRestoreProgress::Files { bytes, total, elapsed: (self.elapsed)() });
        };
        let missing = Missing::besides(&kept.entries, total);
        let (contents, unpacked) = unpack(&cluster, self.parts, &kept, &missing, self.threads, &mut written)?;
        self.finish(&cluster, &contents, &kept, unpacked)?;
        let fetched = missing.parts(self.parts.parts);
        let fetched_bytes = fetched.iter().map(|part| self.parts.parts[part.index].bytes).sum();
        Ok(Written { kept, fetched_bytes })
    }

    /// All files are there: holds them against PostgreSQL's list, says how the cluster recovers, and makes it one.
    fn finish(
        &self,
        cluster: &NewCluster,
        contents: &Contents,
        kept: &Kept,
        unpacked: Unpacked,
    ) -> Result<(), PostgreSqlBackupError> {
        let damaged =
            |problem: String| PostgreSqlBackupError::from(BackupError::damaged(self.parts.id, problem));
        contents.check().map_err(damaged)?;
        let control = unpacked.control.ok_or_else(|| damaged("it has no global/pg_control".to_owned()))?;
        cluster.change_settings(|of_backup| self.recovery.settings(of_backup))?;
        cluster
            .put(self.recovery.signal(), b"")
            .map_err(PostgreSqlBackupError::io("cannot write how the cluster recovers"))?;
        let directories: Vec<String> = kept.directories().chain(unpacked.directories).collect();
        cluster.finish(&directories, &unpacked.foreign_directories, &control)?;
        Ok(())
    }
}

/// What an attempt before has left, and is whole.
struct Kept {
    entries: Vec<Entry>,
    files: u64,
    bytes: u64,
}

impl Kept {
    fn check(
        cluster: &NewCluster,
        entries: Vec<Entry>,
        threads: usize,
        progress: &mut dyn FnMut(PostgreSqlRestoreProgress),
    ) -> Result<Kept, PostgreSqlBackupError> {
        let bytes_of =
            |entries: &[Entry]| entries.iter().filter_map(|entry| entry.sum).map(|sum| sum.bytes).sum();
        let (mut bytes, total) = (0, bytes_of(&entries));
        let entries = keep_whole(cluster, entries, threads, &mut |checked| {
            bytes += checked;
            progress(PostgreSqlRestoreProgress::Checking { bytes, total });
        })?;
        let files = entries.iter().filter(|entry| entry.sum.is_some()).count() as u64;
        let bytes = bytes_of(&entries);
        Ok(Kept { entries, files, bytes })
    }

    /// As if they had just been read from the archive.
    fn contents(&self) -> Contents {
        let files = self.entries.iter().filter_map(|entry| Some((PathBuf::from(&entry.path), entry.sum?)));
        Contents::knowing(files.collect::<HashMap<_, _>>())
    }

    fn directories(&self) -> impl Iterator<Item = String> {
        self.entries.iter().filter(|entry| entry.sum.is_none()).map(|entry| entry.path.clone())
    }
}

/// Writes all files that are missing, durably but for their names.
fn unpack(
    cluster: &NewCluster,
    parts: StoredParts<'_>,
    kept: &Kept,
    missing: &Missing,
    threads: usize,
    written: &mut dyn FnMut(u64),
) -> Result<(Contents, Unpacked), PostgreSqlBackupError> {
    let (sender, queue) = sync_channel(SYNCING_QUEUE);
    let queue = Arc::new(Mutex::new(queue));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SYNCING_THREADS)
            .map(|_| {
                // When the last worker has gone, the unpacker finds nobody to give a file to.
                let queue = Arc::clone(&queue);
                scope.spawn(move || sync_files(&queue, cluster.list()))
            })
            .collect();
        drop(queue);
        let mut reader = PartReader::new(scope, parts, missing, threads);
        let mut unpacker = Unpacker::new(cluster, missing, sender, written);
        let read = read_rest(kept.contents(), &mut reader, &mut unpacker);
        let unpacked = unpacker.finish();
        let panicked =
            |_| PostgreSqlBackupError::io("cannot sync files")(io::Error::other("a thread panicked"));
        for worker in workers {
            worker.join().map_err(panicked)??;
        }
        let contents = read.map_err(|error| match (reader.take_failure(), error.kind()) {
            (Some(failure), _) => failure.into(),
            (None, io::ErrorKind::InvalidData) => BackupError::damaged(parts.id, error.to_string()).into(),
            (None, _) => PostgreSqlBackupError::io("the cluster is not restored")(error),
        })?;
        Ok((contents, unpacked))
    })
}

#[cfg(test)]
mod tests;
