//! The backups that a repository has.

use seawall_archive::{ArchiveError, Repository, System};
use seawall_types::DatabaseId;
use seawall_wal::TimelineHistory;

use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::object_names::{self, BACKUPS};
use crate::timelines;

/// A backup in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBackup {
    /// Its name.
    pub id: String,
    /// What it consists of.
    pub manifest: Manifest,
}

impl StoredBackup {
    /// Whether a timeline with this history has all of it, and of the log up to its end.
    pub(crate) fn is_on(&self, history: &TimelineHistory) -> bool {
        timelines::is_on(history, self.manifest.base.timeline, self.manifest.end.end)
    }

    /// The log in the repository is not the one that it was taken with.
    pub(crate) fn other_log(&self) -> BackupError {
        BackupError::OtherLog {
            timeline: self.manifest.base.timeline.get(),
            from: self.manifest.base.redo_point,
            to: self.manifest.end.end,
            backup: self.id.clone(),
        }
    }
}

/// The backups of a database in a repository.
#[derive(Debug, Default)]
pub struct StoredBackups {
    /// Those that are complete, oldest first.
    pub complete: Vec<StoredBackup>,
    /// Names of those without a manifest, oldest first: under way, cut short, or given up.
    pub unfinished: Vec<String>,
    /// What is wrong with manifests that cannot be read: others are none the worse for it.
    pub damaged: Vec<BackupError>,
}

/// The backups of a database.
///
/// # Errors
/// What the repository says.
pub fn backups(repository: &Repository, database: DatabaseId) -> Result<StoredBackups, BackupError> {
    let system = System::Seawall(database);
    let mut found = StoredBackups::default();
    for id in repository.list_directories(system, BACKUPS)? {
        // Somebody else's directory.
        let Some(name) = object_names::manifest(&id) else { continue };
        let mut content = Vec::new();
        match repository.fetch_object(system, &name, &mut content) {
            Err(ArchiveError::NotFound { .. }) => {
                found.unfinished.push(id);
                continue;
            }
            Err(error @ ArchiveError::Damaged { .. }) => {
                found.damaged.push(error.into());
                continue;
            }
            fetched => drop(fetched?),
        }
        match Manifest::decode(&content) {
            Ok(manifest) if manifest.base.database == database => {
                found.complete.push(StoredBackup { id, manifest });
            }
            Ok(_) => found.damaged.push(BackupError::damaged(&name, "it is of another database")),
            Err(problem) => found.damaged.push(BackupError::damaged(&name, problem)),
        }
    }
    found.unfinished.sort_unstable();
    found.complete.sort_by_key(|backup| (backup.manifest.end.end, backup.manifest.started_micros));
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
