//! Serving a standby: made from its primary where there is nothing yet, and followed.
//!
//! ```text
//!   empty directory --copy of the primary--> rows --> follows until the copy is whole --> sessions, follows on
//! ```
//! A directory that was promoted is not followed with again by mistake: the file `standby` (`marker`) is there, its timeline is written
//! here, and the upstream is on a timeline that it came from (`rejoin`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall::{Database, DatabaseDirectory, Options};
use seawall_engine::{Environment, RecoveryProgress};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{Follower, Replication, UpstreamSettings, bootstrap, needs_copy};
use seawall_server::{Progress, UpstreamDial};
use seawall_sql::session::SqlDatabase;

use super::{marker, rejoin};
use crate::failure::Failure;

/// Between two reports of a copy that is under way.
const REPORT_BYTES: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);

/// Opens the standby in `directory`, which is made from the upstream first where there is none.
pub(super) fn open(
    directory: &Path,
    options: Options,
    upstream: &UpstreamSettings,
    progress: &Progress,
) -> Result<Database, Failure> {
    let environment = Environment::from(directory);
    if needs_copy(&environment)? {
        copy(&environment, &options, upstream)?;
    } else {
        rejoin::rejoin(directory, &options, upstream)?;
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

fn copy(environment: &Environment, options: &Options, upstream: &UpstreamSettings) -> Result<(), Failure> {
    tracing::info!(%upstream, "the directory is empty: a copy of the primary is made");
    let dial = dial(upstream)?;
    let mut reported = 0;
    let copied = bootstrap(upstream, &dial, environment, options, &mut |bytes| {
        if bytes >= reported + REPORT_BYTES {
            reported = bytes;
            tracing::info!(bytes, "the primary is being copied");
        }
    });
    copied.map_err(|error| match error {
        seawall_replication::BootstrapError::Database(error) => Failure::Database(error),
        error => Failure::Broken(error.to_string()),
    })?;
    tracing::info!("all rows of the primary are here");
    Ok(())
}

/// Follows until a copy is whole: before, no session may read.
fn complete(database: &Database, upstream: &UpstreamSettings, progress: &Progress) -> Result<(), Failure> {
    let Some(end) = database.standby().and_then(|standby| standby.copied_until()) else { return Ok(()) };
    let began = SystemClock.monotonic();
    let follower = start(&Replication::new(database.clone()), upstream)?;
    let mut redo_point = None;
    while let Some(standby) = database.standby().filter(|standby| standby.copied_until().is_some()) {
        let replayed = standby.applied();
        progress.tell(RecoveryProgress {
            redo_point: *redo_point.get_or_insert(replayed),
            replayed,
            end_at_most: end,
            elapsed: SystemClock.monotonic().saturating_sub(began),
            left_at_most: Duration::ZERO,
        });
        match standby.wait_applied(end, SECOND) {
            Ok(()) | Err(seawall_engine::Error::NotApplied { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    follower.end();
    Ok(())
}

/// Receives from the upstream; what comes is applied by the database itself.
pub(super) fn follow(sql: &SqlDatabase, upstream: &UpstreamSettings) -> Result<Follower, Failure> {
    start(&sql.replication, upstream)
}

fn start(replication: &Arc<Replication>, upstream: &UpstreamSettings) -> Result<Follower, Failure> {
    let dial = dial(upstream)?;
    let now_micros = || SystemClock.wall_micros();
    let promoted = || tracing::warn!("this server is a primary now: start it without --follow from now on");
    Follower::start(Arc::clone(replication), upstream.clone(), Box::new(dial), now_micros, Box::new(promoted))
        .map_err(Failure::io("cannot start the thread of the standby"))
}
