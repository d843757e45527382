//! Taking a backup.
//!
//! ```text
//!   Backup::read_range --> run --channel--> threads: compress, put
//!        one after another, each at a snapshot of its own
//! ```
//! What is in the repository if the process dies: runs, and no manifest. Nobody takes them for a backup.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::{ObjectKind, ObjectPlace, Packer, Packing, Repository, System};
use seawall_engine::{Backup, BackupBase, Database, Error};
use seawall_io::Clock;
use seawall_types::Lsn;

use crate::catalog::StoredBackup;
use crate::error::BackupError;
use crate::manifest::{Manifest, RunInfo};
use crate::places;
use crate::repository_archive::RepositoryArchive;
use crate::run::RunBuilder;

/// A range is read again at a new snapshot if the old one was cancelled; a shorter one each time.
const READS_MAX: u32 = 8;

/// How a backup is taken.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Rows of about so many bytes are read at one snapshot and make one object. Default 8 MiB.
    pub run_bytes: usize,
    /// Threads that compress and put. Default 2.
    pub threads: usize,
    /// Bytes of rows a second that are read at most, on average. Default: no limit.
    pub bytes_per_second: Option<u64>,
    /// How runs are compressed.
    pub packing: Packing,
}

impl Default for BackupOptions {
    fn default() -> BackupOptions {
        BackupOptions { run_bytes: 8 << 20, threads: 2, bytes_per_second: None, packing: Packing::default() }
    }
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Runs read.
    pub runs: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes in them, before compression.
    pub bytes: u64,
    /// Time since it began.
    pub elapsed: Duration,
}

/// Takes a full backup of a database that is in use, with the log that a restore needs, into `repository`. It is there when this
/// returns, and not before.
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
    let archive = RepositoryArchive::new(vec![Arc::clone(repository)], options.packing, Arc::clone(clock));
    backup.store_log(&archive)?;
    let manifest = Manifest { base: base.clone(), end, started_micros, runs };
    writer.put_manifest(&manifest)?;
    Ok(StoredBackup { id, manifest })
}

/// A run on its way.
struct Made {
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
        Ok(RunInfo { rows: run.rows, bytes: header.plain_bytes, checksum: header.plain_checksum })
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
    let mut system = RunBuilder::new(0);
    backup.system_rows().iter().for_each(|(key, value)| system.push(key, value));
    let made = Made { number: 0, rows: system.rows(), content: system.finish(backup.base().redo_point) };
    let mut next = if sender.send(made).is_ok() { Some(backup.first_key()) } else { None };
    let mut number = 0;
    while let Some(from) = next {
        number += 1;
        let (made, after) = read_run(backup, number, &from, options.run_bytes)?;
        done.runs += 1;
        done.rows += made.rows;
        done.bytes += made.content.len() as u64;
        next = if sender.send(made).is_ok() { after } else { None };
        done.elapsed = clock.monotonic().saturating_sub(begun);
        progress(done);
        if let Some(rate) = options.bytes_per_second.filter(|rate| *rate > 0) {
            let due = Duration::from_secs(1).mul_f64(ratio(done.bytes, rate));
            clock.sleep(due.saturating_sub(done.elapsed));
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
fn ratio(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}

/// Reads a range, and where the next one starts.
fn read_run(
    backup: &mut Backup,
    number: u32,
    from: &[u8],
    bytes: usize,
) -> Result<(Made, Option<Vec<u8>>), BackupError> {
    let mut reads = 0;
    loop {
        reads += 1;
        let mut run = RunBuilder::new(number);
        match backup.read_range(from, bytes >> (reads - 1), &mut |key, value| run.push(key, value)) {
            Err(Error::SnapshotCancelled { .. }) if reads < READS_MAX => {}
            Err(error) => return Err(error.into()),
            Ok(range) => {
                let made = Made { number, rows: range.rows, content: run.finish(range.snapshot) };
                return Ok((made, range.next));
            }
        }
    }
}
