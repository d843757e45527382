//! The log that a backup of a database was taken with: is it the one in the repository? Where two copies of a database have put theirs
//! into one repository, each object may be good, and the log of a backup still be another's.

use std::ops::ControlFlow;

use seawall_archive::{Repository, System};
use seawall_engine::LogChecksum;
use seawall_wal::{LogGeometry, TimelineHistory};

use super::{Finding, FindingKind, SystemFacts};
use crate::dependencies::BackupDependencies;
use crate::error::BackupError;
use crate::stored_log::StoredLog;

/// Reads the log of each backup. What is missing or damaged is found elsewhere.
pub(super) fn check(
    repository: &Repository,
    system: System,
    facts: &SystemFacts,
    threads: usize,
    tell: &mut dyn FnMut(Finding),
) -> Result<(), BackupError> {
    for backup in &facts.backups {
        let Some(expected) = backup.log_checksum else { continue };
        match checksum(repository, facts, backup, threads) {
            Ok(found) if found.is_none_or(|found| found == expected) => {}
            Ok(_) => tell(Finding {
                kind: FindingKind::BackupWithoutLog,
                object: format!("backup {} of {system}", backup.id),
                problem: format!(
                    "the log from {} to {} is not the log that it was taken with: another copy of the database has put its own there",
                    backup.first, backup.end
                ),
            }),
            Err(error) if error.is_of_content() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `None` if not all of that log is there.
fn checksum(
    repository: &Repository,
    facts: &SystemFacts,
    backup: &BackupDependencies,
    threads: usize,
) -> Result<Option<u64>, BackupError> {
    let System::Seawall(database) = backup.system else { return Ok(None) };
    let geometry = LogGeometry::new(backup.segment_bytes)
        .map_err(|error| BackupError::damaged(&backup.id, error.to_string()))?;
    let unknown = || TimelineHistory { timeline: backup.timeline, forks: Vec::new() };
    let history = facts.histories.get(&backup.timeline).cloned().unwrap_or_else(unknown);
    let log = StoredLog::new(repository, None, database, geometry, history);
    let mut checksum = LogChecksum::new(backup.segment_bytes, backup.first, backup.end);
    log.fetch(backup.first, backup.end, threads, &mut |fetched, arrived| {
        checksum.add(fetched.name.number, &fetched.content, arrived);
        Ok(match checksum.complete() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
    })?;
    Ok(checksum.complete())
}
