//! A drill of a cluster: its newest backup and the log behind it are restored into a scratch directory, a server of its release
//! recovers there and is asked, and how long that took is told.
//!
//! ```text
//!   begin --fetch--> files are here --replay--> the server takes connections --check--> everything was read, or a query answered
//!                                                       |
//!                                                       +-- until here is the time to recover
//! ```
//! The server recovers as one would that is to take over: up to the target, then on a new timeline, of which nobody hears.
//!
//! The directory is the caller's to remove. When this returns, or its process is killed, nothing runs there: see
//! [`super::scratch_guard`].

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_archive::Repository;
use seawall_io::Clock;
use seawall_types::Lsn;
use serde::Deserialize;

use super::catalog::postgresql_backups;
use super::error::PostgreSqlBackupError;
use super::programs::{Programs, ServerUser};
use super::recovery::{RestoredRole, TargetAction};
use super::restore::{
    PostgreSqlRestoreProgress, PostgreSqlRestoreReport, PostgreSqlRestoreRequest, restore_postgresql,
};
use super::scratch_check::{CheckQuery, ServerCheck};
use super::scratch_server::{ScratchServer, ServerFiles, ServerStart, data_directory};
use seawall_backup::BackupError;

/// How far it has come, which stays as it is when the recovery has ended.
const POSITION: &str = "select json_build_object('end', pg_last_wal_replay_lsn()::text,
 'last_commit_micros', (extract(epoch from pg_last_xact_replay_timestamp()) * 1000000)::bigint)";

/// What is tried out, and how.
#[derive(Clone, Debug)]
pub struct PostgreSqlDrillRequest {
    /// What is restored. It becomes a primary, whatever is said here.
    pub restore: PostgreSqlRestoreRequest,
    /// Where the programs of its release are. Default: they are looked for.
    pub programs: Option<PathBuf>,
    /// This program, which is to call [`super::drill_guard`] with the arguments that follow [`super::DRILL_GUARD_COMMAND`].
    pub guard: PathBuf,
    /// As whom they run, if not as the caller.
    pub user: Option<ServerUser>,
    /// Settings for the server, `NAME=VALUE`, before those of the cluster.
    pub settings: Vec<String>,
    /// Added to the environment of the server, and so of its `restore_command`.
    pub environment: Vec<(OsString, OsString)>,
    /// What is asked. Default: everything is read.
    pub query: Option<CheckQuery>,
    /// How long the server may take to recover, or to stop. Default a day.
    pub patience: Duration,
    /// How long the query, or reading all of a database, or all pages, may take. Default a day.
    pub check_patience: Duration,
}

const DAY: Duration = Duration::from_secs(86_400);

impl PostgreSqlDrillRequest {
    /// A drill of this restore, by this program.
    pub fn new(restore: PostgreSqlRestoreRequest, guard: PathBuf) -> PostgreSqlDrillRequest {
        PostgreSqlDrillRequest {
            restore,
            guard,
            programs: None,
            user: None,
            settings: Vec::new(),
            environment: Vec::new(),
            query: None,
            patience: DAY,
            check_patience: DAY,
        }
    }
}

/// How far a drill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgreSqlDrillProgress {
    /// Files are being restored.
    Restore(PostgreSqlRestoreProgress),
    /// The server recovers.
    Replay,
    /// It has, and is asked.
    Check,
}

/// How long each phase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostgreSqlDrillPhases {
    /// Choosing a backup, and fetching and writing its files.
    pub fetch: Duration,
    /// Fetching the log and replaying it, until the server takes connections.
    pub replay: Duration,
    /// Reading everything, or asking.
    pub check: Duration,
}

impl PostgreSqlDrillPhases {
    /// The time to recover: all but the check.
    pub fn recovery(&self) -> Duration {
        self.fetch + self.replay
    }
}

/// How a drill went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgreSqlDrillReport {
    /// What was restored.
    pub restored: PostgreSqlRestoreReport,
    /// Where the log ended that was replayed.
    pub end: Lsn,
    /// When the last commit in it was made, microseconds since 1970, if there was one.
    pub last_commit_micros: Option<i64>,
    /// How long it took.
    pub phases: PostgreSqlDrillPhases,
    /// What was looked at. A drill has succeeded if there is no damage in it.
    pub checked: ServerCheck,
}

#[derive(Deserialize)]
struct Position {
    end: Option<String>,
    last_commit_micros: Option<i64>,
}

/// Restores a cluster into `data` below `scratch`, a directory that is empty and nobody else's, and lets a server recover and be
/// asked there.
///
/// # Errors
/// As [`restore_postgresql`]; `Drill` if there is no server of that release, or if it does not recover: with the end of its log.
pub fn drill_postgresql(
    repository: &Repository,
    identifier: u64,
    scratch: &Path,
    clock: &dyn Clock,
    request: &PostgreSqlDrillRequest,
    progress: &mut dyn FnMut(PostgreSqlDrillProgress),
) -> Result<PostgreSqlDrillReport, PostgreSqlBackupError> {
    let begun = clock.monotonic();
    let programs = programs_for(repository, identifier, request)?;
    let restore = PostgreSqlRestoreRequest {
        action: TargetAction::Promote,
        role: RestoredRole::Primary,
        ..request.restore.clone()
    };
    let data = data_directory(scratch);
    let restored = restore_postgresql(repository, identifier, &data, clock, &restore, &mut |step| {
        progress(PostgreSqlDrillProgress::Restore(step));
    })?;
    let start = ServerStart {
        programs: &programs,
        guard: &request.guard,
        user: request.user,
        scratch,
        settings: &request.settings,
        environment: &request.environment,
    };
    let files = ServerFiles::write(&start)?;
    if let Some(user) = request.user {
        let given = give(scratch, user);
        given.map_err(PostgreSqlBackupError::io(format!("cannot give {} away", scratch.display())))?;
    }
    let fetched = clock.monotonic();
    progress(PostgreSqlDrillProgress::Replay);
    let mut server = ScratchServer::start(&start, files, clock)?;
    server.wait_until_recovered(request.patience).map_err(|error| with_timelines(error, &restored))?;
    let recovered = clock.monotonic();
    progress(PostgreSqlDrillProgress::Check);
    let position: Position = server.ask(POSITION)?;
    let checked = match &request.query {
        Some(query) => ServerCheck::ask(&mut server, query, request.check_patience)?,
        None => ServerCheck::everything(server, &start, request.check_patience, request.patience)?,
    };
    let end = position.end.and_then(|end| end.parse().ok()).unwrap_or(restored.backup.manifest.end);
    let phases = PostgreSqlDrillPhases {
        fetch: fetched.saturating_sub(begun),
        replay: recovered.saturating_sub(fetched),
        check: clock.monotonic().saturating_sub(recovered),
    };
    Ok(PostgreSqlDrillReport {
        restored,
        end,
        last_commit_micros: position.last_commit_micros,
        phases,
        checked,
    })
}

/// A recovery along the wrong timeline does not reach its time.
fn with_timelines(error: PostgreSqlBackupError, restored: &PostgreSqlRestoreReport) -> PostgreSqlBackupError {
    let PostgreSqlBackupError::Drill { problem } = error else { return error };
    let meant = restored.passed_over.iter().filter(|other| other.may_be_meant);
    let hints = meant.map(|other| {
        format!(
            "\nThis went along timeline {}; production may have been on another one at the time asked for, {}: --timeline {}",
            restored.timeline, other.what, other.timeline
        )
    });
    PostgreSqlBackupError::Drill { problem: hints.fold(problem, |all, hint| all + &hint) }
}

/// All backups of a cluster are of one major release: an upgrade makes another cluster.
fn programs_for(
    repository: &Repository,
    identifier: u64,
    request: &PostgreSqlDrillRequest,
) -> Result<Programs, PostgreSqlBackupError> {
    let backups = postgresql_backups(repository, identifier)?.complete;
    let Some(backup) = backups.first() else {
        let problem = "the repository has none of this cluster that is complete".to_owned();
        return Err(BackupError::NoBackup { problem }.into());
    };
    Programs::find(backup.manifest.release / 10_000, request.programs.as_deref())
}

/// Makes everything below `path`, and itself, a user's.
fn give(path: &Path, user: ServerUser) -> io::Result<()> {
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    lchown(path, Some(user.user), Some(user.group))
}
