//! The repositories of a served database: the log goes into them, and a standby gets log from them that its upstream does not give.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use seawall::ArchiveOptions;
use seawall_archive::{Packing, Repository, RepositoryOptions, RetryPolicy};
use seawall_backup::{BackupError, RepositoryArchive, RepositoryLog};
use seawall_engine::TimelineHistory;
use seawall_io::SystemClock;
use seawall_replication::archived::{Archive, LogSource, LogSourceError, TargetTimeline, WantedLog};
use seawall_types::{DatabaseId, Lsn, TimelineId};

use super::repository;
use crate::arguments::Shared;
use crate::failure::Failure;

/// A standby that is to end, or to try its upstream again, waits no longer for a request that fails in passing.
const RETRY: Duration = Duration::from_secs(5);

/// Those that are given.
fn open(shared: &Shared, options: &RepositoryOptions) -> Result<Vec<Arc<Repository>>, Failure> {
    let open = |url: &String| {
        let url = repository::url_of(shared, &Some(url.clone()))?;
        Ok(Arc::new(Repository::open(&url, options.clone())?))
    };
    shared.settings.texts("server.archive").iter().map(open).collect()
}

/// The repositories that the log goes into. The first one has no name, as where there is only one.
pub(super) fn archives(shared: &Shared) -> Result<Vec<ArchiveOptions>, Failure> {
    let archive = |(index, repository): (usize, Arc<Repository>)| {
        let archive = RepositoryArchive::new(repository, Packing::default(), Arc::new(SystemClock));
        let name = if index == 0 { String::new() } else { (index + 1).to_string() };
        ArchiveOptions { name, ..ArchiveOptions::new(Arc::new(archive)) }
    };
    Ok(open(shared, &repository::options(shared))?.into_iter().enumerate().map(archive).collect())
}

/// The repositories, as a standby reads them.
#[derive(Clone, Debug)]
pub(super) struct StandbyArchive {
    pub(super) repositories: Vec<Arc<Repository>>,
    target: TargetTimeline,
}

impl StandbyArchive {
    /// No repositories: of a server that reads no archive.
    pub(super) fn none() -> StandbyArchive {
        StandbyArchive { repositories: Vec::new(), target: TargetTimeline::default() }
    }

    pub(super) fn open(shared: &Shared) -> Result<StandbyArchive, Failure> {
        let options = repository::options(shared);
        let retry = RetryPolicy { give_up_after: RETRY, ..options.retry };
        let repositories = open(shared, &RepositoryOptions { retry, ..options })?;
        let target = match shared.settings.text("server.recovery_target_timeline") {
            Some("current") => TargetTimeline::Current,
            Some(_) | None => TargetTimeline::Latest,
        };
        Ok(StandbyArchive { repositories, target })
    }

    /// Where the standby gets log that its upstream does not give; `None` without a repository.
    pub(super) fn log(&self) -> Option<Archive> {
        let source = |repository: &Arc<Repository>| {
            Arc::new(OfRepository(Arc::clone(repository))) as Arc<dyn LogSource>
        };
        let sources: Vec<_> = self.repositories.iter().map(source).collect();
        (!sources.is_empty()).then(|| Archive::new(sources, self.target))
    }
}

/// The log of a repository.
struct OfRepository(Arc<Repository>);

impl LogSource for OfRepository {
    fn name(&self) -> String {
        self.0.url().to_string()
    }

    fn histories_after(
        &self,
        database: DatabaseId,
        timeline: TimelineId,
    ) -> Result<Vec<TimelineHistory>, LogSourceError> {
        RepositoryLog::new(Arc::clone(&self.0), database).histories_after(timeline).map_err(told)
    }

    fn fetch(
        &self,
        wanted: &WantedLog,
        put: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogSourceError> {
        let WantedLog { database, segment_bytes, history, from, until } = wanted;
        let log = RepositoryLog::new(Arc::clone(&self.0), *database);
        log.fetch(history, *segment_bytes, *from, *until, put).map(drop).map_err(told)
    }
}

/// In the words of a standby, which waits, instead of those of a restore, which does not.
fn told(error: BackupError) -> LogSourceError {
    LogSourceError(match error {
        BackupError::Gap { timeline, from } => {
            format!("it lacks the log of timeline {timeline} from {from} on, and has later log")
        }
        BackupError::LeftOut { timeline, from, gap, reason } => format!(
            "the log of timeline {timeline} from {from} on was left out of it on purpose (gap {gap}): {reason}. Empty the standby's directory, and \
             the next start makes it anew"
        ),
        error => error.to_string(),
    })
}
