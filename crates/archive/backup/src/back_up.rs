//! Taking a backup.
//!
//! ```text
//!   Backup::read_range --rows--> run --channel--> threads: compress, put (`upload`)
//!        leaf by leaf    `-kept--> run of ranges that the parent has, of an increment
//! ```
//! What is in the repository if the process dies: runs, how far they go (`progress`), and no manifest. Nobody takes them for a backup;
//! the next one goes on with them (`resume`).

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use seawall_archive::{ObjectName, ObjectPlace, Repository, System};
use seawall_engine::{Backup, BackupItem, BackupReach, Database};
use seawall_io::Clock;
use seawall_types::Lsn;

use crate::catalog::StoredBackup;
use crate::chain_member::ChainMember;
use crate::error::BackupError;
use crate::manifest::{Manifest, RunKind};
use crate::object_names;
use crate::options::{BackupOptions, BackupStart};
use crate::removal_mark::put_unless_given_up;
use crate::repository_archive::RepositoryArchive;
use crate::resume::Foundation;
use crate::run::RunBuilder;
use crate::upload::{Made, Mark, Uploader};

/// What a backup does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// It begins.
    Begins(BackupStart),
    /// It reads.
    Reads(BackupProgress),
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Runs made.
    pub runs: u64,
    /// Bytes of leaves read.
    pub read_bytes: u64,
    /// Time since it began.
    pub elapsed: Duration,
}

/// Takes a backup of a database that is in use, with the log that a restore needs, into `repository`. It is there when this returns,
/// and not before. The next one resumes one that failed or was killed.
///
/// # Errors
/// `RepositoryNotEncrypted`, `PartGone`; what the database or the repository says. Nothing of it counts then.
pub fn back_up(
    database: &Database,
    repository: &Arc<Repository>,
    clock: &Arc<dyn Clock>,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupStep),
) -> Result<StoredBackup, BackupError> {
    let started_micros = clock.wall_micros();
    let hold = format!("backup {}", object_names::backup_id(started_micros, Lsn::ZERO));
    let mut backup = Backup::begin(database, &hold)?;
    let base = backup.base().clone();
    if base.keys.is_some() && !repository.is_encrypted() {
        return Err(BackupError::RepositoryNotEncrypted { url: repository.url().to_owned() });
    }
    let foundation = Foundation::find(&backup, repository, options, started_micros)?;
    backup.build_on(foundation.parents())?;
    progress(BackupStep::Begins(foundation.start()));
    let id = object_names::backup_id(started_micros, base.redo_point);
    let notes = backup.notes();
    notes.note(&id, BackupReach::Begun)?;
    let note = |number| notes.note(&id, BackupReach::Progress(number));
    let place = ObjectPlace {
        timeline: base.timeline,
        segment_bytes: u32::try_from(base.segment_bytes).unwrap_or(0),
        start: base.redo_point,
        end: base.redo_point,
        created_micros: started_micros,
    };
    let uploader = Uploader::new(repository, &base, &id, place, options.packing, &foundation, &note);
    if foundation.goes_on_with.is_some() {
        // From now on, retention sees what this one builds on.
        uploader.put_first_progress(&backup.first_key())?;
    }
    let runs = uploader.put_all(options.threads, |sender| {
        read_all(&mut backup, &uploader, sender, &**clock, options, progress)
    })?;
    let end = backup.finish()?;
    let archive = RepositoryArchive::new(Arc::clone(repository), options.packing, Arc::clone(clock));
    let log_checksum = Some(backup.store_log(&archive)?);
    foundation.check_parts(repository)?;
    let Foundation { parent, goes_on_with, .. } = foundation.clone();
    let base = base.clone();
    let manifest = Manifest { base, end, log_checksum, started_micros, parent, goes_on_with, runs };
    let member = ChainMember::of(&id, &manifest);
    let runs: Vec<ObjectName> = member.objects().map(|run| run.name).collect();
    let system = System::Seawall(manifest.base.database);
    notes.note(&id, BackupReach::Ended)?;
    put_unless_given_up(repository, system, &id, &runs, || uploader.put_manifest(&manifest))?;
    Ok(StoredBackup { id, manifest })
}

/// Gives all rows to `sender`, run by run. If nobody takes them, somebody has failed, and says why.
fn read_all(
    backup: &mut Backup,
    uploader: &Uploader<'_>,
    sender: &SyncSender<Made>,
    clock: &dyn Clock,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupStep),
) -> Result<(), BackupError> {
    let begun = clock.monotonic();
    let mut done = BackupProgress::default();
    let mut runs = Runs { sender, options, next: 0, stamp: backup.base().redo_point, bytes: 0, marked: 0 };
    let mut system = RunBuilder::new();
    let mut goes_on = true;
    for (key, value) in backup.system_rows() {
        system.push(key, value);
        goes_on &= runs.send_full(RunKind::Rows, &mut system);
    }
    goes_on &= runs.send(RunKind::Rows, system, None);
    let (mut rows, mut kept) = (RunBuilder::new(), RunBuilder::new());
    let mut next = Some(backup.first_key());
    while let Some(from) = next.filter(|_| goes_on && !uploader.has_failed()) {
        let range = backup.read_range(&from, options.range_bytes, &mut |item| match item {
            BackupItem::Row { key, value } => rows.push(key, value),
            BackupItem::Kept { first, last, .. } => kept.push(first, last),
        })?;
        runs.stamp = runs.stamp.max(range.stamp);
        next = range.next;
        goes_on = runs.send_due(&mut rows, &mut kept, next.as_deref());
        done.runs = u64::from(runs.next);
        done.read_bytes += range.read_bytes;
        done.elapsed = clock.monotonic().saturating_sub(begun);
        progress(BackupStep::Reads(done));
        if let Some(rate) = options.bytes_per_second.filter(|rate| *rate > 0) {
            let due = Duration::from_secs(1).mul_f64(ratio(done.read_bytes, rate));
            clock.sleep(due.saturating_sub(done.elapsed));
        }
    }
    Ok(())
}

/// Numbers runs and hands them out.
struct Runs<'a> {
    sender: &'a SyncSender<Made>,
    options: &'a BackupOptions,
    next: u32,
    /// No change in what was read is newer.
    stamp: Lsn,
    /// Bytes of all runs so far.
    bytes: u64,
    /// Of those, the bytes that the last mark covers.
    marked: u64,
}

impl Runs<'_> {
    /// Sends what is long enough, or all there is if the repository is to hear how far this is, or there is no `next` key to go on
    /// from; `false` if nobody takes it.
    fn send_due(&mut self, rows: &mut RunBuilder, kept: &mut RunBuilder, next: Option<&[u8]>) -> bool {
        let bytes = self.bytes + (rows.bytes() + kept.bytes()) as u64;
        let due = self.options.progress_bytes.max(bytes / 64);
        // At the end, the manifest follows: but for the log, which may take long.
        let is_marked = bytes - self.marked >= due || (next.is_none() && bytes >= due);
        if !is_marked && next.is_some() {
            return self.send_full(RunKind::Rows, rows) && self.send_full(RunKind::Kept, kept);
        }
        let mut full = [(RunKind::Kept, kept), (RunKind::Rows, rows)].map(|(kind, run)| {
            let run = std::mem::replace(run, RunBuilder::new());
            (run.rows() > 0).then_some((kind, run))
        });
        let last = full.iter().rposition(Option::is_some);
        let mark = || Mark { reached: next.map(<[u8]>::to_vec), stamp: self.stamp };
        let mut mark = last.filter(|_| is_marked).map(|_| mark());
        if mark.is_some() {
            self.marked = bytes;
        }
        let mut goes_on = true;
        for (index, run) in full.iter_mut().enumerate() {
            if let Some((kind, run)) = run.take() {
                let mark = if last == Some(index) { mark.take() } else { None };
                goes_on &= self.send(kind, run, mark);
            }
        }
        goes_on
    }

    /// Sends a run if it is long enough; `false` if nobody takes it.
    fn send_full(&mut self, kind: RunKind, run: &mut RunBuilder) -> bool {
        if run.bytes() < self.options.run_bytes || run.rows() == 0 {
            return true;
        }
        self.send(kind, std::mem::replace(run, RunBuilder::new()), None)
    }

    fn send(&mut self, kind: RunKind, run: RunBuilder, mark: Option<Mark>) -> bool {
        let (number, rows) = (self.next, run.rows());
        self.next += 1;
        self.bytes += run.bytes() as u64;
        let content = run.finish(number, self.stamp);
        self.sender.send(Made { kind, number, rows, content, mark }).is_ok()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
fn ratio(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}
