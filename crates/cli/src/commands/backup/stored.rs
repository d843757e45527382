//! Stored backups, as `backup list` and `repo info` show them.

use seawall_archive::{Repository, System};
use seawall_backup::{BackupError, StoredBackup, StoredBackups, backups};
use seawall_base_backup::{StoredPostgreSqlBackups, postgresql_backups};
use serde_json::{Value, json};

use super::super::postgresql_backup::stored as clusters;
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{grouped, size};

/// The backups of a database or cluster, as JSON and as text, oldest first.
pub(in crate::commands) fn shown(
    repository: &Repository,
    system: System,
) -> Result<Vec<(Value, String)>, Failure> {
    Ok(match system {
        System::Seawall(database) => {
            let StoredBackups { complete, damaged, .. } = backups(repository, database)?;
            let complete = complete.iter().map(|backup| (backup_json(backup), backup_text(backup)));
            complete.chain(damaged.iter().map(damaged_backup)).collect()
        }
        System::PostgreSql(cluster) => {
            use clusters::{backup_json, backup_text};
            let StoredPostgreSqlBackups { complete, damaged } = postgresql_backups(repository, cluster)?;
            let complete = complete.iter().map(|backup| (backup_json(backup), backup_text(backup)));
            complete.chain(damaged.iter().map(damaged_backup)).collect()
        }
    })
}

fn damaged_backup(error: &BackupError) -> (Value, String) {
    (json!({ "damaged": error.to_string() }), error.to_string())
}

/// What it builds on, if it does.
pub(super) fn origin(backup: &StoredBackup) -> String {
    let parent = backup.manifest.parent.iter().map(|parent| format!(", an increment of {parent}"));
    let part = backup.manifest.goes_on_with.iter().map(|part| format!(", resumed from {}", part.id));
    parent.chain(part).collect()
}

pub(super) fn backup_json(backup: &StoredBackup) -> Value {
    let (manifest, base) = (&backup.manifest, &backup.manifest.base);
    json!({
        "backup": backup.id, "database": base.database.to_string(), "timeline": base.timeline.get(),
        "redo_point": base.redo_point.to_string(), "end": manifest.end.end.to_string(),
        "started_micros": manifest.started_micros, "ended_micros": manifest.end.time_micros,
        "parent": manifest.parent, "goes_on_with": manifest.goes_on_with.as_ref().map(|part| &part.id), "rows": manifest.user_rows(), "bytes": manifest.bytes(),
        "log_bytes": manifest.log_bytes(), "runs": manifest.runs.len(),
        "encrypted": base.keys.is_some(),
    })
}

fn backup_text(backup: &StoredBackup) -> String {
    let (manifest, base) = (&backup.manifest, &backup.manifest.base);
    format!(
        "{}{}  database {}, timeline {}, {} to {}, ended {}: {} rows, {}, and {} of log",
        backup.id,
        origin(backup),
        base.database,
        base.timeline,
        base.redo_point,
        manifest.end.end,
        utc(manifest.end.time_micros),
        grouped(manifest.user_rows()),
        size(manifest.bytes()),
        size(manifest.log_bytes())
    )
}
