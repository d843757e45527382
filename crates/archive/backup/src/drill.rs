//! A drill: restoring a database into a scratch directory and checking all of it, to know that it can be done, and how long it takes.
//!
//! ```text
//!   begin --fetch--> the log is here --rows--> so are the rows --replay--> a database --check--> every page and record was read
//!                                                                   |
//!                                                                   +-- until here is the time to recover
//! ```
//! What the phases have in them: *fetch* the choice of the backup, and the log; *rows* the search for the target in the log, and the
//! rows, fetched, written and linked into a tree; *replay* the log's replay, the new timeline and the first checkpoint.
//!
//! The directory is the caller's to remove. What is there if the process dies: what a restore leaves, or a database that nobody uses.

use std::time::Duration;

use seawall_archive::Repository;
use seawall_engine::{Background, CheckSummary, Damage, Database, Environment, OpenMode, Options};

use crate::error::BackupError;
use crate::restore::{RestoreProgress, RestoreReport, RestoreRequest, restore};

/// How long each phase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrillPhases {
    /// Choosing a backup, and fetching the log.
    pub fetch: Duration,
    /// Finding the target, and fetching and writing the rows.
    pub rows: Duration,
    /// Replaying the log, and making an ordinary database of it.
    pub replay: Duration,
    /// Reading and checking everything.
    pub check: Duration,
}

impl DrillPhases {
    /// The time to recover: all but the check.
    pub fn recovery(&self) -> Duration {
        self.fetch + self.rows + self.replay
    }
}

/// How a drill went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrillReport {
    /// What was restored.
    pub restored: RestoreReport,
    /// How long it took.
    pub phases: DrillPhases,
    /// What was read. A drill has succeeded if there is no damage in it.
    pub checked: CheckSummary,
}

/// Restores what `request` asks for into the environment's directory, as [`restore`] does, opens it and checks all of it. Each
/// damage goes to `damage`.
///
/// # Errors
/// As `restore`; what kept the database from being opened or checked.
pub fn drill(
    repository: &Repository,
    environment: &Environment,
    options: &Options,
    request: &RestoreRequest,
    damage: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(RestoreProgress),
) -> Result<DrillReport, BackupError> {
    let clock = &environment.clock;
    let begun = clock.monotonic();
    let (mut log_ended, mut rows_ended) = (begun, begun);
    // Nobody outside is to notice it.
    let request = RestoreRequest { reserves_timeline: false, ..request.clone() };
    let restored = restore(repository, environment, options, &request, &mut |step| {
        let now = clock.monotonic();
        match step {
            // Of several backups, the last one tried counts.
            RestoreProgress::Log { .. } => (log_ended, rows_ended) = (now, now),
            RestoreProgress::Rows { .. } => rows_ended = now,
            RestoreProgress::Replay { .. } => {}
        }
        progress(step);
    })?;
    let recovered = clock.monotonic();
    let options = Options {
        mode: OpenMode::Existing,
        background: Background::Manual,
        archives: Vec::new(),
        in_doubt_rules: Vec::new(),
        ..options.clone()
    };
    let database = Database::open(environment.clone(), options)?;
    let checked = database.check(damage)?;
    database.close()?;
    let phases = DrillPhases {
        fetch: log_ended.saturating_sub(begun),
        rows: rows_ended.saturating_sub(log_ended),
        replay: recovered.saturating_sub(rows_ended),
        check: clock.monotonic().saturating_sub(recovered),
    };
    Ok(DrillReport { restored, phases, checked })
}
