//! The backups of clusters that a repository has, and the histories of their timelines.

use std::collections::BTreeMap;

use seawall_archive::{ArchiveError, LogFileName, Repository, System, postgresql_forks};
use seawall_types::{TimelineId, TimelineMark};
use seawall_wal::{TimelineFork, TimelineHistory};

use super::manifest::PostgreSqlManifest;
use crate::error::BackupError;
use crate::places::{self, BACKUPS};

/// A backup of a cluster in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPostgreSqlBackup {
    /// Its name.
    pub id: String,
    /// What it consists of.
    pub manifest: PostgreSqlManifest,
}

/// The clusters that a repository has something of, by their system identifiers.
///
/// # Errors
/// What the repository says.
pub fn clusters(repository: &Repository) -> Result<Vec<u64>, BackupError> {
    let cluster = |system| match system {
        System::PostgreSql(identifier) => Some(identifier),
        System::Seawall(_) => None,
    };
    Ok(repository.systems()?.into_iter().filter_map(cluster).collect())
}

/// The backups of a cluster that are complete, oldest first.
///
/// # Errors
/// What the repository says; `Damaged` for a manifest that is none.
pub fn postgresql_backups(
    repository: &Repository,
    identifier: u64,
) -> Result<Vec<StoredPostgreSqlBackup>, BackupError> {
    let system = System::PostgreSql(identifier);
    let mut found = Vec::new();
    for id in repository.list_directories(system, BACKUPS)? {
        // Somebody else's directory.
        let Some(name) = places::manifest(&id) else { continue };
        let mut content = Vec::new();
        match repository.fetch_object(system, &name, &mut content) {
            // Under way, or given up.
            Err(ArchiveError::NotFound { .. }) => continue,
            fetched => drop(fetched?),
        }
        let decoded = PostgreSqlManifest::decode(&content);
        let manifest = decoded.map_err(|problem| BackupError::damaged(&name, problem))?;
        if manifest.system != identifier {
            return Err(BackupError::damaged(&name, "it is of another cluster"));
        }
        found.push(StoredPostgreSqlBackup { id, manifest });
    }
    found.sort_by_key(|backup| (backup.manifest.end, backup.manifest.started_micros));
    Ok(found)
}

/// The timelines of a cluster, by their histories in a repository.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    histories: BTreeMap<TimelineId, TimelineHistory>,
    /// When each was begun, microseconds since 1970: about when its history was archived.
    begun: BTreeMap<TimelineId, i64>,
}

impl Timelines {
    /// Those whose histories or segments are archived.
    pub(super) fn load(repository: &Repository, system: System) -> Result<Timelines, BackupError> {
        let mut timelines = Timelines::default();
        for timeline in repository.timelines(system)? {
            timelines.add(TimelineHistory { timeline, forks: Vec::new() }, i64::MIN);
        }
        for (name, _) in repository.list_histories(system)? {
            let LogFileName::History(timeline) = name else { continue };
            let mut text = Vec::new();
            let header = repository.fetch(system, name, &mut text)?;
            let text = String::from_utf8(text).map_err(|_| BackupError::damaged(name, "it is no text"))?;
            let forks =
                postgresql_forks(&text, timeline).map_err(|problem| BackupError::damaged(name, problem))?;
            let fork = |(parent, fork)| TimelineFork {
                parent,
                fork,
                mark: TimelineMark::NONE,
                reason: String::new(),
            };
            let forks = forks.into_iter().map(fork).collect();
            timelines.add(TimelineHistory { timeline, forks }, header.created_micros);
        }
        Ok(timelines)
    }

    pub(super) fn add(&mut self, history: TimelineHistory, begun_micros: i64) {
        self.begun.insert(history.timeline, begun_micros);
        self.histories.insert(history.timeline, history);
    }

    /// The last one.
    pub(super) fn last(&self) -> TimelineId {
        self.last_at(i64::MAX)
    }

    /// The one that was the last at this time.
    pub(super) fn last_at(&self, micros: i64) -> TimelineId {
        let begun = self.begun.iter().rev().find(|(_, begun)| **begun <= micros);
        begun.map_or(TimelineId::FIRST, |(timeline, _)| *timeline)
    }

    /// The history of a timeline. One that was begun before the cluster was archived has none in the repository: then nothing is
    /// known of its ancestors, and nothing of them is there.
    pub(super) fn history(&self, timeline: TimelineId) -> TimelineHistory {
        let unknown = || TimelineHistory { timeline, forks: Vec::new() };
        self.histories.get(&timeline).cloned().unwrap_or_else(unknown)
    }
}
