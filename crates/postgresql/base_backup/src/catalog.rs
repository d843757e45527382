//! The backups of clusters that a repository has.

use seawall_archive::{ArchiveError, Repository, System};
use seawall_wal::TimelineHistory;

use seawall_backup::BackupError;
use seawall_backup::PostgreSqlManifest;
use seawall_backup::object_names::{self, BACKUPS};
use seawall_backup::timelines;

/// A backup of a cluster in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPostgreSqlBackup {
    /// Its name.
    pub id: String,
    /// What it consists of.
    pub manifest: PostgreSqlManifest,
}

impl StoredPostgreSqlBackup {
    /// Whether a timeline with this history has all of it, and of the log up to its end.
    pub(super) fn is_on(&self, history: &TimelineHistory) -> bool {
        timelines::is_on(history, self.manifest.timeline, self.manifest.end)
    }
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

/// The backups of a cluster in a repository.
#[derive(Debug, Default)]
pub struct StoredPostgreSqlBackups {
    /// Those that are complete, oldest first.
    pub complete: Vec<StoredPostgreSqlBackup>,
    /// What is wrong with manifests that cannot be read: others are none the worse for it.
    pub damaged: Vec<BackupError>,
}

/// The backups of a cluster.
///
/// # Errors
/// What the repository says.
pub fn postgresql_backups(
    repository: &Repository,
    identifier: u64,
) -> Result<StoredPostgreSqlBackups, BackupError> {
    let system = System::PostgreSql(identifier);
    let mut found = StoredPostgreSqlBackups::default();
    for id in repository.list_directories(system, BACKUPS)? {
        // Somebody else's directory.
        let Some(name) = object_names::manifest(&id) else { continue };
        let mut content = Vec::new();
        match repository.fetch_object(system, &name, &mut content) {
            // Under way, or given up.
            Err(ArchiveError::NotFound { .. }) => continue,
            Err(error @ ArchiveError::Damaged { .. }) => {
                found.damaged.push(error.into());
                continue;
            }
            fetched => drop(fetched?),
        }
        match PostgreSqlManifest::decode(&content) {
            Ok(manifest) if manifest.system == identifier => {
                found.complete.push(StoredPostgreSqlBackup { id, manifest });
            }
            Ok(_) => found.damaged.push(BackupError::damaged(&name, "it is of another cluster")),
            Err(problem) => found.damaged.push(BackupError::damaged(&name, problem)),
        }
    }
    found.complete.sort_by_key(|backup| (backup.manifest.end, backup.manifest.started_micros));
    Ok(found)
}
