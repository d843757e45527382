//! A standby's directory, made from the newest backup of a repository.
//!
//! ```text
//!   backup --rows--> tree          log of the backup: there, and the one that it was taken with
//!   directory: redo point of the backup, whole with the log up to the backup's end (`engine::standby`'s `copied`)
//!       --> followed: that log and what comes after it are received, from the repository or the upstream
//! ```
//! It stays on the timeline of the backup, begins none, and may archive when it is promoted: it is a standby of the database that was
//! backed up, and no copy to try something out.
//!
//! **If the power goes**, the directory has what a restore leaves that was cut short: the next call goes on with it if it chooses the same
//! backup, and begins anew otherwise.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_archive::{Repository, System};
use seawall_engine::{
    ArchiveMode, BackupEnd, Environment, LogChecksum, Options, Restore, RestoreMarker, RestoreOptions,
    RowsThere,
};
use seawall_types::{DatabaseId, Lsn};
use seawall_wal::{LogGeometry, SegmentName, TimelineHistory};

use crate::catalog::StoredBackup;
use crate::chain::ChainReader;
use crate::chain_member::{ChainMember, chain_of};
use crate::error::BackupError;
use crate::restore::{RestoreRequest, Stored, fetch_run, which_database};
use crate::stored_log::StoredLog;

/// Rows of so many bytes become durable at a time.
const GRAFT_BYTES: usize = 64 << 20;
/// Objects that are fetched at a time.
const THREADS: usize = 4;

/// A directory that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyCopy {
    /// The backup.
    pub backup: String,
    /// The directory needs the log up to here.
    pub end: Lsn,
    /// Rows that were written now.
    pub rows: u64,
}

/// Makes the directory of a standby in the environment's directory, which must be empty, or have what a copy for a standby has left that
/// was cut short: of the newest backup along the timeline of production. `database` says which one if the repository has several.
/// `progress` is told the bytes of rows so far, before compression.
///
/// # Errors
/// `NoBackup`, `WhichDatabase`, `WhichTimeline`; `LogTooShort`, `Gap`, `LeftOut`, `OtherLog` if the log of the backup is not there;
/// `Damaged`; what the repository or the database says.
pub fn copy_for_standby(
    repository: &Repository,
    environment: &Environment,
    options: &Options,
    database: Option<DatabaseId>,
    progress: &mut dyn FnMut(u64),
) -> Result<StandbyCopy, BackupError> {
    let database = which_database(repository, database)?;
    let stored = Stored::load(repository, database)?;
    let production =
        stored.follow(repository, System::Seawall(database), &RestoreRequest::default())?.history;
    let (backup, history) = newest(&stored.backups, &production)?;
    let manifest = &backup.manifest;
    let chain = chain_of(repository, &stored.backups, ChainMember::of(&backup.id, manifest))?;
    let log = BackupLog { repository, backup, history: &history };
    let head = log.check()?;
    let marker = RestoreMarker::of_standby(database, backup.id.clone(), history.timeline);
    let restore_options = RestoreOptions {
        database: options.clone(),
        graft_bytes: GRAFT_BYTES,
        archive_mode: ArchiveMode::Preserve,
    };
    let (base, next_table) = (manifest.base.clone(), manifest.end.next_table);
    let mut restore =
        Restore::begin(environment.clone(), restore_options, base, &history, next_table, &marker)?;
    // Those of its ancestors: servers that follow this one may ask for them.
    let known = stored.timelines.histories().filter(|known| !known.forks.is_empty());
    for known in known.filter(|known| history.descends_from(known)) {
        let path = TimelineHistory::path(known.timeline);
        restore.put_log_file(path.rsplit('/').next().unwrap_or(&path), known.encode().as_bytes())?;
    }
    restore.begin_log(&history, &head)?;
    // Rows are of moments up to the end of the backup: no leaf may pass for older.
    restore.note_stamp(manifest.end.end)?;
    let rows = write_rows(repository, &chain, &mut restore, progress)?;
    let end: BackupEnd = manifest.end;
    restore.finish_copy(end, &history)?;
    Ok(StandbyCopy { backup: backup.id.clone(), end: end.end, rows })
}

/// The newest backup that a standby can be made of, and the history of the timeline that its redo point is on: all of it lies on that
/// one, for a standby receives one timeline after another.
fn newest<'b>(
    backups: &'b [StoredBackup],
    production: &TimelineHistory,
) -> Result<(&'b StoredBackup, TimelineHistory), BackupError> {
    let on_it = backups.iter().rev().filter(|backup| backup.is_on(production));
    let whole = on_it.filter_map(|backup| {
        let timeline = production.timeline_at(backup.manifest.base.redo_point);
        let left = production.forks.iter().find(|fork| fork.parent == timeline);
        let is_whole = left.is_none_or(|left| left.fork >= backup.manifest.end.end);
        is_whole.then(|| (backup, production.up_to(timeline)))
    });
    whole.into_iter().next().ok_or_else(|| BackupError::NoBackup {
        problem: format!(
            "a standby needs one that lies on one timeline, and leads to timeline {}",
            production.timeline
        ),
    })
}

/// The log that a backup needs.
struct BackupLog<'a> {
    repository: &'a Repository,
    backup: &'a StoredBackup,
    history: &'a TimelineHistory,
}

impl BackupLog<'_> {
    /// Looks whether it is there, and whether it is the one that the backup was taken with; the bytes of its first segment that lie before
    /// the redo point.
    fn check(&self) -> Result<Vec<u8>, BackupError> {
        let manifest = &self.backup.manifest;
        let (base, end) = (&manifest.base, manifest.end.end);
        let geometry = LogGeometry::new(base.segment_bytes)
            .map_err(|error| BackupError::damaged(&self.backup.id, error.to_string()))?;
        let log = StoredLog::new(self.repository, None, base.database, geometry, self.history.clone());
        let mut checksum = LogChecksum::new(base.segment_bytes, base.redo_point, end);
        let first =
            SegmentName { number: geometry.segment_of(base.redo_point), timeline: self.history.timeline };
        let before = usize::try_from(geometry.offset_of(base.redo_point)).unwrap_or(usize::MAX);
        let (mut head, mut log_end) = (Vec::new(), base.redo_point);
        let fetched = log.fetch(base.redo_point, end, THREADS, &mut |fetched, arrived| {
            if fetched.name == first && fetched.bytes >= before as u64 {
                head = fetched.content.get(..before).unwrap_or_default().to_vec();
            }
            checksum.add(fetched.name.number, &fetched.content, arrived);
            log_end = arrived;
            Ok(if arrived >= end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if log_end < end {
            return Err(fetched.gap.unwrap_or(BackupError::LogTooShort { log_end, needed: end }));
        }
        let expected = manifest.log_checksum.or(checksum.complete());
        if checksum.complete() != expected {
            return Err(self.backup.other_log());
        }
        Ok(head)
    }
}

/// Writes the rows of a backup chain that are not there yet; how many.
fn write_rows(
    repository: &Repository,
    chain: &[ChainMember],
    restore: &mut Restore,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, BackupError> {
    let after = match restore.rows_there().clone() {
        RowsThere::None => None,
        RowsThere::UpTo(last) => Some(last),
        RowsThere::All => return Ok(0),
    };
    let bytes = AtomicU64::new(0);
    let fetch = |backup: &ChainMember, number| {
        let run = fetch_run(repository, backup, number)?;
        bytes.fetch_add(run.bytes(), Ordering::Relaxed);
        Ok(run)
    };
    let reader = ChainReader { chain, fetch: &fetch, threads: THREADS, after: after.as_deref() };
    let skipped = |skipped| {
        bytes.fetch_add(skipped, Ordering::Relaxed);
    };
    let (mut rows, mut shown) = (0, 0);
    reader.read(&skipped, &mut |key, value| {
        restore.push(key, value)?;
        rows += 1;
        let bytes = bytes.load(Ordering::Relaxed);
        if bytes != shown {
            shown = bytes;
            progress(bytes);
        }
        Ok(())
    })?;
    restore.finish_rows()?;
    Ok(rows)
}
