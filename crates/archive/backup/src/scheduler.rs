//! The backup scheduler: takes a full backup by itself after the archive of a repository has had to open a gap. Log after a gap cannot
//! be restored before there is a backup after it.
//!
//! ```text
//!   archiver: gap on record --wakes--> thread --> is there a backup behind the last gap? --no--> back_up, full
//!   opened                  --wakes-->                                             `---- tries again, later and later
//! ```
//! Whether one is needed follows from what the repository has, so nothing is on disk of this here: if the power goes before the
//! backup is there, the next process finds the gap without a backup, and takes one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall_archive::{Gap, Repository, System};
use seawall_engine::{ArchiveWatch, Database, Error};
use seawall_io::Clock;
use seawall_types::{DatabaseId, Lsn};
use seawall_wal::TimelineHistory;

use crate::back_up::back_up;
use crate::catalog::{StoredBackup, backups};
use crate::error::BackupError;
use crate::options::BackupOptions;
use crate::timelines::Timelines;

/// How a scheduler takes backups.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The name of the archive that puts the log into the repository. Default: no name.
    pub archive: String,
    /// How a backup is taken; it is a full one, whatever this says.
    pub backup: BackupOptions,
    /// How long it waits before it tries again what failed, at first; it doubles each time. Default 1 s.
    pub retry_first: Duration,
    /// And at most. Default 5 minutes.
    pub retry_last: Duration,
}

impl Default for SchedulerOptions {
    fn default() -> SchedulerOptions {
        SchedulerOptions {
            archive: String::new(),
            backup: BackupOptions::default(),
            retry_first: Duration::from_secs(1),
            retry_last: Duration::from_secs(300),
        }
    }
}

/// What a scheduler has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerReport {
    /// Backups that it has taken.
    pub backups: u64,
    /// The last one.
    pub last: Option<StoredBackup>,
    /// Attempts that failed.
    pub failures: u64,
    /// Why the last one failed, if none has succeeded since.
    pub failing: Option<String>,
    /// It does nothing any more: the database is being closed.
    pub has_ended: bool,
}

/// Takes a full backup when one is needed, as long as it is kept and the database is open. Keep it beside the database: it
/// has a handle of it, so drop it, or close the database, to end both.
#[derive(Debug)]
pub struct BackupScheduler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    id: DatabaseId,
    repository: Arc<Repository>,
    clock: Arc<dyn Clock>,
    options: SchedulerOptions,
    watch: ArchiveWatch,
    report: Mutex<SchedulerReport>,
    /// The report has changed.
    changed: Condvar,
}

impl BackupScheduler {
    /// Starts the thread.
    ///
    /// # Errors
    /// `NoArchive` if the database has no archive of that name; what the system says about a thread.
    pub fn start(
        database: &Database,
        repository: &Arc<Repository>,
        clock: &Arc<dyn Clock>,
        options: SchedulerOptions,
    ) -> Result<BackupScheduler, Error> {
        let shared = Arc::new(Shared {
            id: database.info()?.database,
            watch: database.log().watch_archive(&options.archive)?,
            database: database.clone(),
            repository: Arc::clone(repository),
            clock: Arc::clone(clock),
            options,
            report: Mutex::default(),
            changed: Condvar::new(),
        });
        let scheduler = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("seawall-backup".to_owned());
        let thread = builder.spawn(move || scheduler.run());
        let thread = thread.map_err(|error| Error::Io { message: format!("starting a thread: {error}") })?;
        Ok(BackupScheduler { shared, thread: Some(thread) })
    }

    /// What it has done so far.
    pub fn report(&self) -> SchedulerReport {
        self.shared.report().clone()
    }

    /// Waits until it has done something, or has ended because the database was closed; what it has done then.
    pub fn wait(&self, is_done: impl Fn(&SchedulerReport) -> bool) -> SchedulerReport {
        let mut report = self.shared.report();
        while !report.has_ended && !is_done(&report) {
            report = self.shared.changed.wait(report).unwrap_or_else(PoisonError::into_inner);
        }
        report.clone()
    }
}

impl Drop for BackupScheduler {
    /// Waits for a backup that is under way.
    fn drop(&mut self) {
        self.shared.watch.end();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that takes backups panicked");
        }
    }
}

impl Shared {
    fn report(&self) -> std::sync::MutexGuard<'_, SchedulerReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut SchedulerReport)) {
        change(&mut self.report());
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut retry = self.options.retry_first;
        loop {
            let seen = self.watch.gaps();
            let goes_on = match self.back_up_if_needed() {
                Ok(()) => {
                    retry = self.options.retry_first;
                    self.watch.wait(seen, None)
                }
                Err(error) => {
                    tracing::error!(%error, "no new full backup after the gap in the archive yet; it will be retried");
                    self.tell(|report| {
                        report.failures += 1;
                        report.failing = Some(error.to_string());
                    });
                    let pause = retry;
                    retry = (retry * 2).min(self.options.retry_last);
                    self.watch.wait(u64::MAX, Some(pause))
                }
            };
            if !goes_on {
                return self.tell(|report| report.has_ended = true);
            }
        }
    }

    fn back_up_if_needed(&self) -> Result<(), BackupError> {
        let taken =
            back_up_behind_gap(&self.database, self.id, &self.repository, &self.clock, &self.options.backup)?;
        if let Some(backup) = &taken {
            tracing::info!(backup = backup.id, "there is a full backup after the gap in the archive");
        }
        self.tell(|report| {
            report.failing = None;
            report.backups += u64::from(taken.is_some());
            report.last = taken.or(report.last.take());
        });
        Ok(())
    }
}

/// Takes a full backup if the repository has a gap in the log of the database on record, and no backup behind it.
///
/// # Errors
/// As `back_up`.
pub fn back_up_behind_gap(
    database: &Database,
    id: DatabaseId,
    repository: &Arc<Repository>,
    clock: &Arc<dyn Clock>,
    options: &BackupOptions,
) -> Result<Option<StoredBackup>, BackupError> {
    if last_open_gap(database, id, repository)?.is_none() {
        return Ok(None);
    }
    let options = BackupOptions { is_incremental: false, ..options.clone() };
    back_up(database, repository, clock, &options, &mut |_| ()).map(Some)
}

/// The last gap in the log that led to what is written now, if no backup is behind it.
fn last_open_gap(
    database: &Database,
    id: DatabaseId,
    repository: &Repository,
) -> Result<Option<Gap>, BackupError> {
    let gaps = repository.gaps(System::Seawall(id))?;
    if gaps.is_empty() {
        return Ok(None);
    }
    let (timeline, segment_bytes) = (database.log().timeline(), database.info()?.segment_bytes);
    let history =
        match Timelines::load(repository, System::Seawall(id), std::iter::empty())?.history(timeline) {
            // It has not gone up yet: then the log before its fork is not known to be there either.
            Err(BackupError::NoBackup { .. }) => TimelineHistory { timeline, ..TimelineHistory::first() },
            history => history?,
        };
    let is_before_fork = |gap: &Gap| {
        let begin = Lsn::new(gap.first.digits.saturating_mul(segment_bytes));
        history.forks.iter().any(|fork| fork.parent == gap.first.timeline && begin < fork.fork)
    };
    let of_it = gaps.into_iter().filter(|gap| gap.first.timeline == timeline || is_before_fork(gap));
    let Some(gap) = of_it.max_by_key(|gap| gap.last.digits) else { return Ok(None) };
    // An increment behind it builds on what was there before, and needs none of the log in between.
    let is_behind = |backup: &StoredBackup| {
        backup.is_on(&history) && backup.manifest.base.redo_point.get() / segment_bytes > gap.last.digits
    };
    Ok((!backups(repository, id)?.complete.iter().any(is_behind)).then_some(gap))
}
