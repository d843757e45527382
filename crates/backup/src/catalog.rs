//! The backups that a repository has.

use std::collections::BTreeMap;

use seawall_archive::{ArchiveError, LogFileName, Repository, System};
use seawall_types::{DatabaseId, TimelineId};
use seawall_wal::TimelineHistory;

use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::places::{self, BACKUPS};

/// A backup in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBackup {
    /// Its name.
    pub id: String,
    /// What it consists of.
    pub manifest: Manifest,
}

/// The backups of a database that are complete, oldest first.
///
/// # Errors
/// What the repository says; `Damaged` for a manifest that is none.
pub fn backups(repository: &Repository, database: DatabaseId) -> Result<Vec<StoredBackup>, BackupError> {
    let system = System::Seawall(database);
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
        let manifest = Manifest::decode(&content).map_err(|problem| BackupError::damaged(&name, problem))?;
        if manifest.base.database != database {
            return Err(BackupError::damaged(&name, "it is of another database"));
        }
        found.push(StoredBackup { id, manifest });
    }
    found.sort_by_key(|backup| (backup.manifest.end.end, backup.manifest.started_micros));
    Ok(found)
}

/// The databases of Seawall that a repository has something of.
///
/// # Errors
/// What the repository says.
pub fn databases(repository: &Repository) -> Result<Vec<DatabaseId>, BackupError> {
    let systems = repository.systems()?;
    let database = |system| match system {
        System::Seawall(database) => Some(database),
        System::PostgreSql(_) => None,
    };
    Ok(systems.into_iter().filter_map(database).collect())
}

/// The histories of all timelines of a database, but for the first, which has none.
pub(crate) fn histories(
    repository: &Repository,
    database: DatabaseId,
) -> Result<BTreeMap<TimelineId, TimelineHistory>, BackupError> {
    let system = System::Seawall(database);
    let mut found = BTreeMap::new();
    for (name, _) in repository.list_histories(system)? {
        let LogFileName::History(timeline) = name else { continue };
        let mut text = Vec::new();
        repository.fetch(system, name, &mut text)?;
        let text = String::from_utf8(text).map_err(|_| BackupError::damaged(name, "it is no text"))?;
        let history = TimelineHistory::parse(&text, timeline, &name.to_string());
        let history = history.map_err(|error| BackupError::damaged(name, error.to_string()))?;
        found.insert(timeline, history);
    }
    Ok(found)
}
