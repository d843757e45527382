//! Stored backups of clusters, as `backup list` and `repo info` show them.

use seawall_archive::System;
use seawall_backup::BadFile;
use seawall_base_backup::StoredPostgreSqlBackup;
use serde_json::{Value, json};

use crate::files::utc;
use crate::output::{grouped, size};

/// What was damaged in the cluster already.
pub(super) fn bad_files_text(backup: &StoredPostgreSqlBackup) -> String {
    let files = &backup.manifest.bad_files;
    if !backup.manifest.has_bad_pages {
        return String::new();
    }
    if files.is_empty() {
        return ", with BAD PAGES, in files that the server has not named in English".to_owned();
    }
    let shown: Vec<String> = files.iter().map(|file| format!("{} of {}", file.pages, file.path)).collect();
    format!(", with BAD PAGES: {}", shown.join(", "))
}

fn bad_files_json(backup: &StoredPostgreSqlBackup) -> Value {
    let file = |file: &BadFile| json!({ "file": file.path, "pages": file.pages });
    backup.manifest.bad_files.iter().map(file).collect()
}

pub(in crate::commands) fn backup_json(backup: &StoredPostgreSqlBackup) -> Value {
    let manifest = &backup.manifest;
    json!({
        "backup": backup.id, "system": System::PostgreSql(manifest.system).to_string(), "label": manifest.label,
        "release": manifest.release, "timeline": manifest.timeline.get(), "start": manifest.start.to_string(),
        "end": manifest.end.to_string(), "started_micros": manifest.started_micros,
        "ended_micros": manifest.ended_micros, "files": manifest.files, "bytes": manifest.bytes(),
        "parts": manifest.parts.len(), "bad_pages": manifest.has_bad_pages, "bad_files": bad_files_json(backup),
    })
}

pub(in crate::commands) fn backup_text(backup: &StoredPostgreSqlBackup) -> String {
    let manifest = &backup.manifest;
    format!(
        "{}  {}, timeline {}, {} to {}, ended {}: {} files, {}, {:?}{}",
        backup.id,
        System::PostgreSql(manifest.system),
        manifest.timeline,
        manifest.start,
        manifest.end,
        utc(manifest.ended_micros),
        grouped(manifest.files),
        size(manifest.bytes()),
        manifest.label,
        bad_files_text(backup)
    )
}
