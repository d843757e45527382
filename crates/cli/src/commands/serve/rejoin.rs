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
//! A former primary is not opened before that: its checkpoints would put into pages what may have to be cut off. Meanwhile
//! `/health/ready` and the metrics say what it waits for (`Attempts`).

use std::path::Path;
use std::time::Duration;

use seawall::{DatabaseDirectory, Options};
use seawall_engine::{Environment, Error, is_rewinding};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{
    ClientError, Outlook, RejoinError, RewindError, UpstreamHistory, UpstreamSettings, rewind,
};
use seawall_server::{Progress, UpstreamDial};

use super::marker;
use crate::failure::Failure;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two questions that are refused, at most: each may cost the primary a checkpoint.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two lines in the log about that.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Between two lines about rows that come.
const REPORT_BYTES: u64 = 1 << 30;

/// Cuts the log, if the upstream's history asks for that.
pub(super) fn rejoin(
    directory: &Path,
    options: &Options,
    upstream: &UpstreamSettings,
    progress: &Progress,
) -> Result<(), Failure> {
    let place = DatabaseDirectory::at(directory);
    let dial =
        UpstreamDial::new(upstream.clone()).map_err(|error| Failure::Usage(format!("--follow: {error}")))?;
    let comes_back = ComesBack { directory, options, upstream, dial: &dial, progress };
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
    let history = ask_until_answered(ask, progress)?;
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
    progress: &'a Progress,
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
        let mut attempts =
            Attempts::new(self.progress, "the rows that have changed are not all here: this is tried again");
        let environment = Environment::from(self.directory);
        loop {
            let mut told = 0;
            let mut progress = |bytes| {
                // What kept it is over: rows come.
                self.progress.goes_on();
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
                    self.progress.goes_on();
                    return Ok(());
                }
                Err(error) => match (error.outlook(), error) {
                    (Outlook::Never, error) => return Err(failure_to_rewind(error)),
                    (outlook @ (Outlook::Passes | Outlook::Refused), error) => {
                        attempts.failed(&error, outlook);
                    }
                },
            }
        }
    }
}

/// Attempts at what takes another server, until one succeeds.
struct Attempts<'a> {
    progress: &'a Progress,
    /// The state of this server meanwhile.
    state: &'static str,
    reports: Reports,
    /// How many in a row were refused.
    refused: u32,
}

impl<'a> Attempts<'a> {
    fn new(progress: &'a Progress, state: &'static str) -> Attempts<'a> {
        Attempts { progress, state, reports: Reports::default(), refused: 0 }
    }

    /// One has failed, and another one comes after a pause. The log is told of each refusal: an operator has to act.
    fn failed(&mut self, error: &RewindError, outlook: Outlook) {
        self.progress.held_up(&error.to_string());
        let state = self.state;
        let pause = match outlook {
            Outlook::Refused => {
                let pause = refused_pause(self.refused);
                self.refused += 1;
                let next_seconds = pause.as_secs();
                tracing::error!(%error, attempts = self.refused, next_seconds, "the server to follow refuses, until that is changed there; {state}");
                pause
            }
            Outlook::Passes | Outlook::Never => {
                self.refused = 0;
                if self.reports.is_due() {
                    tracing::warn!(%error, "{state}");
                }
                PAUSE
            }
        };
        std::thread::park_timeout(pause);
    }
}

/// The pause after a refusal, before which so many others have come.
fn refused_pause(before: u32) -> Duration {
    (PAUSE * (1 << before.min(6))).min(REFUSED_PAUSE_MAX)
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
    progress: &Progress,
) -> Result<UpstreamHistory, Failure> {
    const STATE: &str =
        "this former primary waits for the server to follow, whose history says where its log is to be cut";
    let mut attempts = Attempts::new(progress, STATE);
    loop {
        match ask() {
            Ok(history) => {
                progress.goes_on();
                return Ok(history);
            }
            // A server that is not promoted may never be: which one to follow is the operator's to say.
            Err(error @ RejoinError::Client(ClientError::NotPrimary)) => return Err(failure(error)),
            Err(RejoinError::Client(error)) if error.outlook() != Outlook::Never => {
                let outlook = error.outlook();
                attempts.failed(&RejoinError::Client(error).into(), outlook);
            }
            Err(error) => return Err(failure_to_rewind(error.into())),
        }
    }
}

fn failure_to_rewind(error: RewindError) -> Failure {
    match error {
        RewindError::Database(error) => error.into(),
        RewindError::Upstream(error) => failure(error),
        error => Failure::Broken(error.to_string()),
    }
}

fn failure(error: RejoinError) -> Failure {
    match error {
        RejoinError::Database(error) => error.into(),
        error => Failure::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_refusals_grow_to_a_minute() {
        let seconds: Vec<u64> = (0..8).map(|before| refused_pause(before).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(refused_pause(u32::MAX), REFUSED_PAUSE_MAX);
    }
}
