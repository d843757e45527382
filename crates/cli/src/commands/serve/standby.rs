//! Serving a standby: made from its primary where there is nothing yet, and followed.
//!
//! ```text
//!   empty directory --copy of the primary, or a backup--> rows --> follows until the copy is whole --> sessions, follows on
//! ```
//! A directory that was promoted is not followed with again by mistake: the file `standby` (`marker`) is there, its timeline is written
//! here, and the upstream is on a timeline that it came from (`rejoin`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall::{Database, DatabaseDirectory, Options};
use seawall_backup::{BackupError, StandbyCopy, copy_for_standby};
use seawall_engine::{Environment, RecoveryProgress};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{
    BootstrapError, Follower, ReceiverStatus, Replication, UpstreamSettings, bootstrap, needs_copy,
};
use seawall_server::{Progress, UpstreamDial};
use seawall_settings::Settings;
use seawall_sql::session::SqlDatabase;

use super::repositories::StandbyArchive;
use super::{marker, rejoin};
use crate::failure::Failure;

/// Between two reports of a copy that is under way.
const REPORT_BYTES: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);

/// The upstream of a standby, and the archive for log that the upstream no longer has.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pub(super) settings: UpstreamSettings,
    pub(super) archive: StandbyArchive,
    pub(super) source: CopySource,
}

/// The source of a new standby's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopySource {
    /// The primary; from a backup if that fails.
    Primary,
    /// A backup.
    Archive,
}

impl CopySource {
    pub(super) fn of(settings: &Settings) -> CopySource {
        match settings.text("server.make_standby_from") {
            Some("archive") => CopySource::Archive,
            Some(_) | None => CopySource::Primary,
        }
    }
}

/// Opens the standby in `directory`, which is made from the upstream first where there is none.
pub(super) fn open(
    directory: &Path,
    options: Options,
    upstream: &Upstream,
    progress: &Progress,
) -> Result<Database, Failure> {
    let environment = Environment::from(directory);
    if needs_copy(&environment)? {
        make(&environment, &options, upstream)?;
    } else {
        rejoin::rejoin(directory, &options, &upstream.settings, progress)?;
    }
    let database = DatabaseDirectory::at(directory).follow(options)?;
    marker::put(directory).map_err(Failure::io("cannot mark the directory as a standby's"))?;
    complete(&database, upstream, progress)?;
    Ok(database)
}

/// Opens a database whose log another server goes on with where it ends here: it is not asked where that is, and may have to wait for this
/// server's answer itself.
pub(super) fn open_replaced(directory: &Path, options: Options) -> Result<Database, Failure> {
    let database = DatabaseDirectory::at(directory).follow(options)?;
    marker::put(directory).map_err(Failure::io("cannot mark the directory as a standby's"))?;
    Ok(database)
}

/// How the upstream is reached.
fn dial(upstream: &UpstreamSettings) -> Result<UpstreamDial, Failure> {
    UpstreamDial::new(upstream.clone()).map_err(|error| Failure::Usage(format!("--follow: {error}")))
}

/// Makes the directory.
fn make(environment: &Environment, options: &Options, upstream: &Upstream) -> Result<(), Failure> {
    let has_archive = !upstream.archive.repositories.is_empty();
    match upstream.source {
        CopySource::Archive if has_archive => make_from_archive(environment, options, &upstream.archive),
        CopySource::Archive => {
            Err(Failure::Usage("--make-standby-from archive: give --archive, too".to_owned()))
        }
        CopySource::Primary => match copy(environment, options, &upstream.settings)? {
            Ok(()) => Ok(()),
            Err(error) if has_archive => {
                tracing::warn!(%error, "the primary cannot be copied: the directory is made from a backup");
                make_from_archive(environment, options, &upstream.archive).map_err(|backup| {
                    Failure::Broken(format!("{error}; and no backup could be used: {backup}"))
                })
            }
            Err(error) => Err(Failure::Broken(error.to_string())),
        },
    }
}

/// Copies the primary. The inner error is one of the upstream.
fn copy(
    environment: &Environment,
    options: &Options,
    upstream: &UpstreamSettings,
) -> Result<Result<(), BootstrapError>, Failure> {
    tracing::info!(%upstream, "the directory is empty: a copy of the primary is made");
    let dial = dial(upstream)?;
    let mut reported = 0;
    let copied = bootstrap(upstream, &dial, environment, options, &mut |bytes| {
        if bytes >= reported + REPORT_BYTES {
            reported = bytes;
            tracing::info!(bytes, "the primary is being copied");
        }
    });
    match copied {
        Ok(()) => tracing::info!("all rows of the primary are here"),
        Err(BootstrapError::Database(error)) => return Err(Failure::Database(error)),
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(()))
}

/// Makes the directory from the newest backup of the first repository that has one.
fn make_from_archive(
    environment: &Environment,
    options: &Options,
    archive: &StandbyArchive,
) -> Result<(), Failure> {
    let mut refused = None;
    for repository in &archive.repositories {
        let url = repository.url();
        tracing::info!(url, "the directory is made from a backup");
        let mut reported = 0;
        let made = copy_for_standby(repository, environment, options, None, &mut |bytes| {
            if bytes >= reported + REPORT_BYTES {
                reported = bytes;
                tracing::info!(bytes, "the backup is being copied");
            }
        });
        match made {
            Ok(StandbyCopy { backup, end, rows }) => {
                tracing::info!(backup, %end, rows, "all rows of the backup are here");
                return Ok(());
            }
            Err(BackupError::Database(error)) => return Err(Failure::Database(error)),
            Err(error) => {
                tracing::warn!(url, %error, "no backup of this repository can be used");
                refused.get_or_insert(error);
            }
        }
    }
    Err(refused.map_or_else(|| Failure::Usage("give --archive".to_owned()), Failure::from))
}

/// Follows until a copy is whole: before, no session may read.
fn complete(database: &Database, upstream: &Upstream, progress: &Progress) -> Result<(), Failure> {
    let Some(end) = database.standby().and_then(|standby| standby.copied_until()) else { return Ok(()) };
    let began = SystemClock.monotonic();
    let replication = Replication::new(database.clone());
    let follower = start(&replication, upstream)?;
    let (mut redo_point, mut obstacle) = (None, Obstacle::default());
    while let Some(standby) = database.standby().filter(|standby| standby.copied_until().is_some()) {
        let replayed = standby.applied();
        let redo_point = *redo_point.get_or_insert(replayed);
        if !replication.receiver().is_some_and(|receiver| obstacle.is_there(&receiver, progress)) {
            progress.tell(RecoveryProgress {
                redo_point,
                replayed,
                end_at_most: end,
                elapsed: SystemClock.monotonic().saturating_sub(began),
                left_at_most: Duration::ZERO,
            });
        }
        match standby.wait_applied(end, SECOND) {
            Ok(()) | Err(seawall_engine::Error::NotApplied { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    follower.end();
    progress.goes_on();
    Ok(())
}

/// What keeps a copy from the log that it needs.
#[derive(Default)]
struct Obstacle {
    /// Attempts that have failed, as far as `Progress` was told.
    told: u64,
    is_there: bool,
}

impl Obstacle {
    /// Tells what is new; whether no log comes.
    fn is_there(&mut self, receiver: &ReceiverStatus, progress: &Progress) -> bool {
        if matches!(receiver.state, "streaming" | "archive") {
            self.told = receiver.failures;
            if std::mem::take(&mut self.is_there) {
                progress.goes_on();
            }
            return false;
        }
        let why = receiver.last_error.as_deref().unwrap_or_default();
        for _failure in self.told..receiver.failures {
            progress.held_up(&format!("the copy of the primary needs log that does not come: {why}"));
            self.is_there = true;
        }
        self.told = receiver.failures;
        self.is_there
    }
}

/// Receives from the upstream; what comes is applied by the database itself.
pub(super) fn follow(sql: &SqlDatabase, upstream: &Upstream) -> Result<Follower, Failure> {
    start(&sql.replication, upstream)
}

fn start(replication: &Arc<Replication>, upstream: &Upstream) -> Result<Follower, Failure> {
    let dial = dial(&upstream.settings)?;
    let archive = upstream.archive.log();
    let now_micros = || SystemClock.wall_micros();
    let promoted = || tracing::warn!("this server is a primary now: start it without --follow from now on");
    let settings = upstream.settings.clone();
    Follower::start(
        Arc::clone(replication),
        settings,
        Box::new(dial),
        archive,
        now_micros,
        Box::new(promoted),
    )
    .map_err(Failure::io("cannot start the thread of the standby"))
}
