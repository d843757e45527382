//! A directory that is to follow an upstream: a former primary cuts its log where the upstream's timeline left it.
//!
//! ```text
//!   followed before ----------------> asked once ------------+-- answer --> its timeline came from here: refused
//!   a former primary, or promoted --> asked until it answers +              else: the log is cut, if need be --> follow
//!                                              no answer, followed before --> follow
//!   the log is cut <-- the pages end before the fork
//!   rows that have changed are fetched <-- they do, or that was begun and cut short
//! ```
//! A server that followed before is never cut for an older timeline than its own: there the old primary runs again, or still, and what
//! the new one has acknowledged may be here alone. It opens as it is, and looks for another server.
//!
//! A former primary is not opened before that: its checkpoints would put into pages what may have to be cut off.

use std::path::Path;
use std::time::Duration;

use seawall::{DatabaseDirectory, Options};
use seawall_engine::{Environment, Error, is_rewinding};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{ClientError, RejoinError, RewindError, UpstreamHistory, UpstreamSettings, rewind};
use seawall_server::UpstreamDial;

use super::marker;
use crate::failure::Failure;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines in the log about that.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Between two lines about rows that come.
const REPORT_BYTES: u64 = 1 << 30;

/// Cuts the log, if the upstream's history asks for that.
pub(super) fn rejoin(
    directory: &Path,
    options: &Options,
    upstream: &UpstreamSettings,
) -> Result<(), Failure> {
    let place = DatabaseDirectory::at(directory);
    let dial =
        UpstreamDial::new(upstream.clone()).map_err(|error| Failure::Usage(format!("--follow: {error}")))?;
    let comes_back = ComesBack { directory, options, upstream, dial: &dial };
    if is_rewinding(&*Environment::from(directory).disk)? {
        return comes_back.rewind();
    }
    let ask = || UpstreamHistory::ask(&place, upstream, &dial);
    let was_standby = marker::is_there(directory).map_err(Failure::io("cannot look at the directory"))?;
    if place.is_followed()? {
        return match ask() {
            Ok(history) if was_standby && history.is_known_here() => Ok(()),
            Ok(history) => comes_back.cut(&history),
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
    comes_back.cut(&history)
}

/// A server that comes back, and whom it follows.
struct ComesBack<'a> {
    directory: &'a Path,
    options: &'a Options,
    upstream: &'a UpstreamSettings,
    dial: &'a UpstreamDial,
}

impl ComesBack<'_> {
    /// Cuts the log; where that is not enough, the rows are made those of the upstream.
    fn cut(&self, history: &UpstreamHistory) -> Result<(), Failure> {
        match history.rejoin(&DatabaseDirectory::at(self.directory), self.options) {
            Err(RejoinError::Database(Error::PagesBeyondFork { .. })) => self.rewind(),
            cut => cut.map(drop).map_err(failure),
        }
    }

    /// Fetches what has changed here or there, again and again until that is done.
    fn rewind(&self) -> Result<(), Failure> {
        let began = SystemClock.monotonic();
        let mut reports = Reports::default();
        let environment = Environment::from(self.directory);
        loop {
            let mut told = 0;
            let mut progress = |bytes| {
                if bytes >= told + REPORT_BYTES {
                    told = bytes;
                    tracing::info!(bytes, "rows that have changed are fetched");
                }
            };
            match rewind(self.upstream, self.dial, &environment, self.options, &mut progress) {
                Ok(rewound) => {
                    let took = SystemClock.monotonic().saturating_sub(began);
                    if let Some(rewound) = rewound {
                        let (rows, bytes, ranges) = (rewound.rows, rewound.bytes, rewound.ranges);
                        tracing::warn!(
                            rows,
                            bytes,
                            ranges,
                            kept_rows = rewound.kept_rows,
                            milliseconds = took.as_millis(),
                            "rewound: the rows that had changed were fetched, and this server follows"
                        );
                    }
                    return Ok(());
                }
                Err(error) if error.may_pass() => {
                    if reports.is_due() {
                        tracing::warn!(%error, "the rows that have changed are not all here: this is tried again");
                    }
                }
                Err(RewindError::Database(error)) => return Err(error.into()),
                Err(RewindError::Upstream(error)) => return Err(failure(error)),
                Err(error) => return Err(Failure::Broken(error.to_string())),
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

/// When the log was told last.
#[derive(Default)]
struct Reports(Option<Duration>);

impl Reports {
    /// Whether it is to be told again.
    fn is_due(&mut self) -> bool {
        let now = SystemClock.monotonic();
        let is_due = self.0.is_none_or(|before| now.saturating_sub(before) >= REPORT_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Asks again and again. A signal ends the process meanwhile: nothing is open.
fn ask_until_answered(
    ask: impl Fn() -> Result<UpstreamHistory, RejoinError>,
) -> Result<UpstreamHistory, Failure> {
    let mut reports = Reports::default();
    loop {
        let error = match ask() {
            Err(RejoinError::Client(error @ (ClientError::Io(_) | ClientError::Refused { .. }))) => error,
            answered => return answered.map_err(failure),
        };
        if reports.is_due() {
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
