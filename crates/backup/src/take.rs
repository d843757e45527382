//! Taking a backup.
//!
//! ```text
//!   Backup::read_range --rows--> run --channel--> threads: compress, put
//!        leaf by leaf    `-kept--> run of ranges that the parent has, of an increment
//! ```
//! What is in the repository if the process dies: runs, and no manifest. Nobody takes them for a backup.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::{ObjectKind, ObjectPlace, Packer, Packing, Repository, System};
use seawall_engine::{Backup, BackupBase, BackupItem, Database, Error};
use seawall_io::Clock;
use seawall_types::Lsn;

use crate::catalog::{StoredBackup, backups, chain_of};
use crate::error::BackupError;
use crate::manifest::{Manifest, RunInfo, RunKind};
use crate::places;
use crate::repository_archive::RepositoryArchive;
use crate::run::RunBuilder;

/// How a backup is taken.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Take what has changed since the newest backup of the database's timeline that the repository has; everything, if there is
    /// none. Default: everything.
    pub is_incremental: bool,
    /// An increment is a full backup instead if a restore would have to read more than so many backups. Default 32.
    pub chain_max: usize,
    /// Rows of about so many bytes make one object. Default 8 MiB.
    pub run_bytes: usize,
    /// Leaves of so many bytes are read between two looks at the rate and two reports. Default 1 MiB.
    pub range_bytes: u64,
    /// Threads that compress and put. Default 2.
    pub threads: usize,
    /// Bytes of leaves a second that are read at most, on average. Default: no limit.
    pub bytes_per_second: Option<u64>,
    /// How runs are compressed.
    pub packing: Packing,
}

impl Default for BackupOptions {
    fn default() -> BackupOptions {
        BackupOptions {
            is_incremental: false,
            chain_max: 32,
            run_bytes: 8 << 20,
            range_bytes: 1 << 20,
            threads: 2,
            bytes_per_second: None,
            packing: Packing::default(),
        }
    }
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
/// and not before.
///
/// # Errors
/// `RepositoryNotEncrypted`; what the database or the repository says. Nothing of it counts then.
pub fn back_up(
    database: &Database,
    repository: &Arc<Repository>,
    clock: &Arc<dyn Clock>,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<StoredBackup, BackupError> {
    let started_micros = clock.wall_micros();
    let hold = format!("backup {}", places::backup_id(started_micros, Lsn::ZERO));
    let mut backup = database.begin_backup(&hold)?;
    let base = backup.base().clone();
    if base.keys.is_some() && !repository.is_encrypted() {
        return Err(BackupError::RepositoryNotEncrypted { url: repository.url().to_owned() });
    }
    let parent =
        if options.is_incremental { parent_of(&backup, repository, options.chain_max)? } else { None };
    if let Some(parent) = &parent {
        backup.build_on(&parent.manifest.base)?;
    }
    let id = places::backup_id(started_micros, base.redo_point);
    let place = ObjectPlace {
        timeline: base.timeline,
        segment_bytes: u32::try_from(base.segment_bytes).unwrap_or(0),
        start: base.redo_point,
        end: base.redo_point,
        created_micros: started_micros,
    };
    let writer = RunWriter { repository, base: &base, id: &id, place, packing: options.packing };
    let runs = write_runs(&mut backup, &writer, &**clock, options, progress)?;
    let end = backup.finish()?;
    let archive = RepositoryArchive::new(Arc::clone(repository), options.packing, Arc::clone(clock));
    backup.store_log(&archive)?;
    let parent = parent.map(|parent| parent.id);
    let manifest = Manifest { base: base.clone(), end, started_micros, parent, runs };
    writer.put_manifest(&manifest)?;
    Ok(StoredBackup { id, manifest })
}

/// The newest backup that the database goes on from. One on an earlier timeline is none: what was restored has other leaves.
fn parent_of(
    backup: &Backup,
    repository: &Repository,
    chain_max: usize,
) -> Result<Option<StoredBackup>, BackupError> {
    let mut stored = backups(repository, backup.base().database)?.complete;
    let fits = |older: &StoredBackup| {
        let Manifest { base, end, .. } = &older.manifest;
        base.timeline == backup.base().timeline && end.end <= backup.end()
    };
    let Some(newest) = stored.iter().rposition(fits) else { return Ok(None) };
    // One that cannot be restored, since something that it builds on is gone, is no help.
    let is_whole = chain_of(&stored, &stored[newest]).is_ok_and(|chain| chain.len() < chain_max);
    Ok(is_whole.then(|| stored.swap_remove(newest)))
}

/// A run on its way.
struct Made {
    kind: RunKind,
    number: u32,
    rows: u64,
    content: Vec<u8>,
}

/// Puts objects of a backup.
struct RunWriter<'a> {
    repository: &'a Repository,
    base: &'a BackupBase,
    id: &'a str,
    place: ObjectPlace,
    packing: Packing,
}

impl RunWriter<'_> {
    fn put(&self, packer: &mut Packer, run: &Made) -> Result<RunInfo, BackupError> {
        let system = System::Seawall(self.base.database);
        let header = places::run(self.id, run.number).header(ObjectKind::BackupRun, system, self.place);
        let packed = packer.pack(header, &run.content);
        self.repository.push_object(&packed)?;
        let header = packed.header();
        Ok(RunInfo {
            kind: run.kind,
            rows: run.rows,
            bytes: header.plain_bytes,
            checksum: header.plain_checksum,
        })
    }

    fn put_manifest(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let system = System::Seawall(self.base.database);
        let name = places::manifest(self.id).expect("a backup's name has the form of names");
        let place = ObjectPlace { end: manifest.end.end, ..self.place };
        let header = name.header(ObjectKind::BackupManifest, system, place);
        let packed = Packer::new(self.packing).pack(header, manifest.encode().as_bytes());
        self.repository.push_object(&packed)?;
        Ok(())
    }

    /// Puts what comes, until there is nothing more or something fails.
    fn work(
        &self,
        runs: &Mutex<Receiver<Made>>,
        put: &Mutex<Vec<(u32, RunInfo)>>,
    ) -> Result<(), BackupError> {
        let mut packer = Packer::new(self.packing);
        loop {
            let next = runs.lock().expect("no thread panics while it waits for a run").recv();
            let Ok(run) = next else { return Ok(()) };
            let info = self.put(&mut packer, &run)?;
            put.lock().expect("no thread panics while it adds to a list").push((run.number, info));
        }
    }
}

/// Reads the database and puts its rows; the runs, by number.
fn write_runs(
    backup: &mut Backup,
    writer: &RunWriter<'_>,
    clock: &dyn Clock,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Vec<RunInfo>, BackupError> {
    let threads = options.threads.max(1);
    let put = Mutex::new(Vec::new());
    let (sender, receiver) = sync_channel(threads);
    let receiver = Arc::new(Mutex::new(receiver));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                // When the last worker has gone, the reader finds nobody to give a run to.
                let receiver = Arc::clone(&receiver);
                let put = &put;
                scope.spawn(move || writer.work(&receiver, put))
            })
            .collect();
        drop(receiver);
        let read = read_all(backup, &sender, clock, options, progress);
        drop(sender);
        for worker in workers {
            worker
                .join()
                .map_err(|_| Error::Io { message: "a thread of the backup panicked".to_owned() })??;
        }
        read
    })?;
    let mut runs = put.into_inner().expect("its threads have ended");
    runs.sort_unstable_by_key(|(number, _)| *number);
    Ok(runs.into_iter().map(|(_, info)| info).collect())
}

/// Gives all rows to `sender`, run by run. If nobody takes them, somebody has failed, and says why.
fn read_all(
    backup: &mut Backup,
    sender: &SyncSender<Made>,
    clock: &dyn Clock,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<(), BackupError> {
    let begun = clock.monotonic();
    let mut done = BackupProgress::default();
    let mut runs = Runs { sender, run_bytes: options.run_bytes, next: 0, stamp: backup.base().redo_point };
    let mut system = RunBuilder::new();
    let mut goes_on = true;
    for (key, value) in backup.system_rows() {
        system.push(key, value);
        goes_on &= runs.send_full(RunKind::Rows, &mut system, false);
    }
    goes_on &= runs.send(RunKind::Rows, system);
    let (mut rows, mut kept) = (RunBuilder::new(), RunBuilder::new());
    let mut next = Some(backup.first_key());
    while let Some(from) = next.filter(|_| goes_on) {
        let range = backup.read_range(&from, options.range_bytes, &mut |item| match item {
            BackupItem::Row { key, value } => rows.push(key, value),
            BackupItem::Kept { first, last } => kept.push(first, last),
        })?;
        runs.stamp = runs.stamp.max(range.stamp);
        let is_last = range.next.is_none();
        goes_on = runs.send_full(RunKind::Rows, &mut rows, is_last)
            && runs.send_full(RunKind::Kept, &mut kept, is_last);
        next = range.next;
        done.runs = u64::from(runs.next);
        done.read_bytes += range.read_bytes;
        done.elapsed = clock.monotonic().saturating_sub(begun);
        progress(done);
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
    run_bytes: usize,
    next: u32,
    /// No change in what was read is newer.
    stamp: Lsn,
}

impl Runs<'_> {
    /// Sends a run if it is long enough, or is the last one and not empty; `false` if nobody takes it.
    fn send_full(&mut self, kind: RunKind, run: &mut RunBuilder, is_last: bool) -> bool {
        let is_due = run.bytes() >= self.run_bytes || is_last;
        if !is_due || run.rows() == 0 {
            return true;
        }
        self.send(kind, std::mem::replace(run, RunBuilder::new()))
    }

    fn send(&mut self, kind: RunKind, run: RunBuilder) -> bool {
        let (number, rows) = (self.next, run.rows());
        self.next += 1;
        self.sender.send(Made { kind, number, rows, content: run.finish(number, self.stamp) }).is_ok()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
fn ratio(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}
