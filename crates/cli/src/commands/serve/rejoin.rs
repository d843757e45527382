//! A directory that is to follow an upstream: a former primary cuts its log where the upstream's timeline left it.
//!
//! ```text
//!   followed before ----------------> asked once ------------+-- answer --> its timeline came from here: refused
//!   a former primary, or promoted --> asked until it answers +              else: the log is cut, if need be --> follow
//!                                              no answer, followed before --> follow
//! ```
//! A server that followed before is never cut for an older timeline than its own: there the old primary runs again, or still, and what
//! the new one has acknowledged may be here alone. It opens as it is, and looks for another server.
//!
//! A former primary is not opened before that: its checkpoints would put into pages what may have to be cut off.

use std::path::Path;
use std::time::Duration;

use seawall::{DatabaseDirectory, Options};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{ClientError, RejoinError, UpstreamHistory, UpstreamSettings};
use seawall_server::UpstreamDial;

use super::marker;
use crate::failure::Failure;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines in the log about that.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Cuts the log, if the upstream's history asks for that.
pub(super) fn rejoin(
    directory: &Path,
    options: &Options,
    upstream: &UpstreamSettings,
) -> Result<(), Failure> {
    let place = DatabaseDirectory::at(directory);
    let dial =
        UpstreamDial::new(upstream.clone()).map_err(|error| Failure::Usage(format!("--follow: {error}")))?;
    let ask = || UpstreamHistory::ask(&place, upstream, &dial);
    let was_standby = marker::is_there(directory).map_err(Failure::io("cannot look at the directory"))?;
    if place.is_followed()? {
        return match ask() {
            Ok(history) if was_standby && history.is_known_here() => Ok(()),
            Ok(history) => cut(history, &place, options),
            Err(error @ RejoinError::Client(_)) => {
                tracing::warn!(%error, "this standby opens with the log that it has");
                Ok(())
            }
            Err(error) => Err(failure(error)),
        };
    }
    let history = ask_until_answered(ask)?;
    if was_standby && history.is_known_here() {
        let shown = directory.display();
        return Err(Failure::Usage(format!(
            "{shown} was a standby, and was promoted: serve it without --follow. The server to follow is on timeline {}, which this \
             one came from; if it is to go back there all the same, remove the file {shown}/{}",
            history.timeline(),
            marker::NAME
        )));
    }
    cut(history, &place, options)
}

fn cut(history: UpstreamHistory, place: &DatabaseDirectory, options: &Options) -> Result<(), Failure> {
    history.rejoin(place, options).map(drop).map_err(failure)
}

/// Asks again and again. A signal ends the process meanwhile: nothing is open.
fn ask_until_answered(
    ask: impl Fn() -> Result<UpstreamHistory, RejoinError>,
) -> Result<UpstreamHistory, Failure> {
    let mut reported: Option<Duration> = None;
    loop {
        let error = match ask() {
            Err(RejoinError::Client(error @ (ClientError::Io(_) | ClientError::Refused { .. }))) => error,
            answered => return answered.map_err(failure),
        };
        let now = SystemClock.monotonic();
        if reported.is_none_or(|before| now.saturating_sub(before) >= REPORT_INTERVAL) {
            reported = Some(now);
            tracing::warn!(%error, "this former primary waits for the server to follow, whose history says where its log is to be cut");
        }
        std::thread::park_timeout(PAUSE);
    }
}

fn failure(error: RejoinError) -> Failure {
    match error {
        RejoinError::Database(error) => error.into(),
        error => Failure::Broken(error.to_string()),
    }
}
