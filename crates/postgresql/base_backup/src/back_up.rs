//! Taking a backup of a cluster.
//!
//! ```text
//!   pg_basebackup --tar--> read_archive: each file's checksum --> held against PostgreSQL's own list: is all of it there?
//!                    \---> Cutter --> parts --> repository
//!   archive_command ------> log from the backup's start to its end --> repository: waited for
//!                                                                 then the manifest --> repository
//! ```
//! What is in the repository if anything dies: parts, and no manifest. Nobody takes them for a backup. The log is put there by
//! the cluster's own `archive_command`: if it never comes, the backup would be worth nothing, and there is none.

use std::ffi::OsString;
use std::io::{self, BufReader, Read};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::{LogFileName, ObjectKind, ObjectPlace, Packer, Packing, Repository, System};
use seawall_io::Clock;
use seawall_types::TimelineId;

use super::catalog::StoredPostgreSqlBackup;
use super::error::PostgreSqlBackupError;
use super::file_list::FileList;
use super::parts::{Cutter, PartWriter};
use super::patience::Patience;
use super::segments::{SegmentSize, StoredSegments};
use super::server::{AskedServer, BaseBackup, PostgreSqlServer, ServerState};
use super::stream::{Contents, Nobody, read_archive};
use seawall_backup::BackupError;
use seawall_backup::object_names;
use seawall_backup::put_unless_given_up;
use seawall_backup::timelines::Timelines;
use seawall_backup::{PartInfo, PostgreSqlManifest};

/// The oldest release whose base backups have a list of their files.
const RELEASE_MIN: u32 = 130_000;
/// What `pg_basebackup` reads ahead.
const PIPE_BYTES: usize = 1 << 20;
/// If nothing comes for so long, the server is asked what it waits for.
const SILENCE: Duration = Duration::from_secs(5);
/// Pauses between two looks for a segment that is not there yet.
const PAUSES: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(1);

/// What the server does before it is read: writes everything out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupCheckpoint {
    /// At once.
    Fast,
    /// At the pace of an ordinary checkpoint, which may take minutes.
    #[default]
    Spread,
}

/// How a backup of a cluster is taken.
#[derive(Clone, Debug)]
pub struct PostgreSqlBackupOptions {
    /// What it is called. Default: its own name.
    pub label: Option<String>,
    /// Default: spread.
    pub checkpoint: BackupCheckpoint,
    /// Bytes of an object, before compression. Default 32 MiB.
    pub part_bytes: usize,
    /// Threads that compress and put. Default 4. Each has a part in memory, plain and compressed.
    pub threads: usize,
    /// Bytes a second that are read at most. Default: no limit.
    pub bytes_per_second: Option<u64>,
    /// How parts are compressed.
    pub packing: Packing,
    /// How long may nothing of the log that the backup needs come into the repository. Default 60 s.
    pub archive_timeout: Duration,
    /// How long may the server be silent: while it is asked something, and between two pieces of its files. The checkpoint before the first
    /// piece may take longer. Default 10 minutes.
    pub answer_timeout: Duration,
    /// Pages with wrong checksums do not end it: their files are listed in the manifest. Default: they do.
    pub accepts_bad_pages: bool,
}

impl Default for PostgreSqlBackupOptions {
    fn default() -> PostgreSqlBackupOptions {
        PostgreSqlBackupOptions {
            label: None,
            checkpoint: BackupCheckpoint::Spread,
            part_bytes: 32 << 20,
            threads: 4,
            bytes_per_second: None,
            packing: Packing::default(),
            archive_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(600),
            accepts_bad_pages: false,
        }
    }
}

/// How far a backup is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostgreSqlBackupProgress {
    /// Nothing has come for some seconds: the server makes the checkpoint that the backup begins with. Said once.
    WaitingForCheckpoint,
    /// The cluster is being read.
    Reading {
        /// Bytes so far.
        bytes: u64,
        /// About as many as there are, if that is known.
        total: Option<u64>,
    },
    /// All is read, and this file of the log is not in the repository yet.
    WaitingForLog {
        /// Its name.
        file: String,
    },
}

/// Takes a backup of a running cluster into `repository`. It is there when this returns, and not before.
///
/// # Errors
/// What the cluster and the repository say. Nothing of it counts then.
pub fn back_up_postgresql(
    server: &PostgreSqlServer,
    repository: &Repository,
    clock: &dyn Clock,
    options: &PostgreSqlBackupOptions,
    progress: &mut dyn FnMut(PostgreSqlBackupProgress),
) -> Result<StoredPostgreSqlBackup, PostgreSqlBackupError> {
    let patience = Patience { clock, limit: options.answer_timeout };
    let server = AskedServer { server, patience };
    let state = server.look()?;
    let (identifier, size) = check_server(&state)?;
    let system = System::PostgreSql(identifier);
    check_archive(&state, repository, system)?;
    let id = object_names::backup_id(state.micros, state.position());
    let label = options.label.clone().unwrap_or_else(|| format!("seawall {id}"));
    let place = ObjectPlace {
        timeline: TimelineId::new(state.timeline).unwrap_or(TimelineId::FIRST),
        segment_bytes: state.segment_bytes,
        start: state.position(),
        end: state.position(),
        created_micros: clock.wall_micros(),
    };
    let writer = PartWriter { repository, system, id: &id, place, packing: options.packing };
    let source = server.base_backup(&arguments(options, &label), state.is_superuser)?;
    let mut reader = ClusterReader {
        source,
        server,
        clock,
        archive_timeout: options.archive_timeout,
        waits_since: None,
        silent_since: None,
        has_told_of_checkpoint: false,
        bytes: 0,
        total: state.bytes,
        is_over: false,
        failure: None,
        progress,
    };
    let written = write_parts(&mut reader, &writer, options);
    let ClusterReader { source, is_over, .. } = reader;
    // If it has ended too early, the program knows why.
    let bad = match is_over.then(|| source.finish()) {
        Some(Err(PostgreSqlBackupError::BadPages { files })) if options.accepts_bad_pages => Some(files),
        Some(finished) => finished.map(|()| None)?,
        None => None,
    };
    let (contents, parts) = written?;
    let stream = |problem| PostgreSqlBackupError::Stream { problem };
    let list = contents.check().map_err(stream)?;
    // Later than whatever was committed before its end.
    let ended_micros = server.clock_micros()?;
    let log = NeededLog { repository, system, size, list: &list, timeout: options.archive_timeout };
    log.wait(server, clock, progress)?;
    let manifest = PostgreSqlManifest {
        system: identifier,
        release: state.release,
        timeline: list.end_timeline(),
        segment_bytes: state.segment_bytes,
        start: list.start(),
        end: list.end(),
        started_micros: state.micros,
        ended_micros,
        label: label.replace(char::is_control, " "),
        files: contents.files(),
        has_bad_pages: bad.is_some(),
        bad_files: bad.unwrap_or_default(),
        parts,
    };
    let parts: Vec<_> =
        (0..).zip(&manifest.parts).map(|(number, _)| object_names::part(&id, number)).collect();
    put_unless_given_up(repository, system, &id, &parts, || put_manifest(&writer, &manifest))?;
    Ok(StoredPostgreSqlBackup { id, manifest })
}

/// Whether it can be backed up at all: its system identifier, and how long its segments are.
fn check_server(state: &ServerState) -> Result<(u64, SegmentSize), PostgreSqlBackupError> {
    let refuse = |problem: String| Err(PostgreSqlBackupError::Refused { problem });
    if state.release < RELEASE_MIN {
        return refuse(
            "it runs a release before 13, whose base backups have no list of their files".to_owned(),
        );
    }
    if !state.tablespaces.is_empty() {
        return refuse(format!(
            "it has tablespaces ({}), and pg_basebackup writes only one directory to a pipe. Take a base backup into a directory \
             with pg_basebackup itself, or move the tables of these into the default tablespace",
            state.tablespaces.join(", ")
        ));
    }
    if state.archive_mode == "off" && !state.is_standby {
        return refuse(
            "archive_mode is off, so the log that a backup needs would not be in the repository. Set archive_mode = on and \
             archive_command = 'seawall archive-push %p', and restart it"
                .to_owned(),
        );
    }
    match (state.system.parse(), SegmentSize::new(state.segment_bytes)) {
        (Ok(identifier), Some(size)) => Ok((identifier, size)),
        _ => refuse(format!(
            "it says that it is {} with segments of {} bytes",
            state.system, state.segment_bytes
        )),
    }
}

/// What it has archived last must be in this repository: whoever archives elsewhere should hear of it before hours of reading.
fn check_archive(
    state: &ServerState,
    repository: &Repository,
    system: System,
) -> Result<(), PostgreSqlBackupError> {
    let Some(name) = state.last_archived.as_deref().and_then(LogFileName::parse) else { return Ok(()) };
    if repository.stat(system, name)?.is_some() {
        return Ok(());
    }
    let problem = format!(
        "PostgreSQL has archived {name} last, and that is not in {}: let archive_command archive to this repository. If it does so \
         only now, `select pg_switch_wal()` makes it archive a segment",
        repository.url()
    );
    Err(PostgreSqlBackupError::Refused { problem })
}

fn arguments(options: &PostgreSqlBackupOptions, label: &str) -> Vec<OsString> {
    let checkpoint = match options.checkpoint {
        BackupCheckpoint::Fast => "fast",
        BackupCheckpoint::Spread => "spread",
    };
    let mut arguments = vec![format!("--checkpoint={checkpoint}"), format!("--label={label}")];
    if let Some(rate) = options.bytes_per_second {
        // In kibibytes a second, within the limits of pg_basebackup.
        arguments.push(format!("--max-rate={}", (rate >> 10).clamp(32, 1 << 20)));
    }
    arguments.into_iter().map(OsString::from).collect()
}

/// What comes out of `pg_basebackup`; in silence, an eye is kept on what it waits for.
struct ClusterReader<'a> {
    source: BaseBackup,
    server: AskedServer<'a>,
    clock: &'a dyn Clock,
    archive_timeout: Duration,
    /// When it was seen first that the server waits for its archiver.
    waits_since: Option<Duration>,
    /// When it was seen first that nothing comes, and that the server waits for nothing.
    silent_since: Option<Duration>,
    has_told_of_checkpoint: bool,
    bytes: u64,
    total: Option<u64>,
    /// Nothing more will come.
    is_over: bool,
    failure: Option<PostgreSqlBackupError>,
    progress: &'a mut dyn FnMut(PostgreSqlBackupProgress),
}

impl ClusterReader<'_> {
    /// The server waits, and would wait for ever, until its log is archived; or it hangs.
    fn look_after_silence(&mut self) -> Result<(), PostgreSqlBackupError> {
        let archiver = self.server.archiver()?;
        let now = self.clock.monotonic();
        if !archiver.waits {
            self.waits_since = None;
            return self.look_for_checkpoint(now);
        }
        self.silent_since = None;
        let waited = now.saturating_sub(*self.waits_since.get_or_insert(now));
        let waits_for = "the log of the backup".to_owned();
        if waited >= self.archive_timeout {
            let (seconds, cause) = (waited.as_secs(), archiver.words());
            return Err(PostgreSqlBackupError::NotArchived { waits_for, seconds, cause });
        }
        (self.progress)(PostgreSqlBackupProgress::WaitingForLog { file: waits_for });
        Ok(())
    }

    /// Nothing comes, and it is not the log that is waited for: before the first bytes it is the checkpoint, and later nothing.
    fn look_for_checkpoint(&mut self, now: Duration) -> Result<(), PostgreSqlBackupError> {
        if self.bytes == 0 {
            if !std::mem::replace(&mut self.has_told_of_checkpoint, true) {
                (self.progress)(PostgreSqlBackupProgress::WaitingForCheckpoint);
            }
            return Ok(());
        }
        let silent = now.saturating_sub(*self.silent_since.get_or_insert(now));
        if silent >= self.server.patience.limit {
            let program = "pg_basebackup".to_owned();
            let message = self.server.silence("has sent nothing more");
            return Err(PostgreSqlBackupError::Failed { program, message });
        }
        Ok(())
    }
}

impl Read for ClusterReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let patience = SILENCE.min(self.archive_timeout).min(self.server.patience.limit);
            if let Some(count) = self.source.read(buffer, patience)? {
                self.silent_since = None;
                self.bytes += count as u64;
                self.is_over = count == 0;
                (self.progress)(PostgreSqlBackupProgress::Reading { bytes: self.bytes, total: self.total });
                return Ok(count);
            }
            if let Err(error) = self.look_after_silence() {
                let words = io::Error::other(error.to_string());
                self.failure = Some(error);
                return Err(words);
            }
        }
    }
}

/// Reads the cluster and puts its parts, by number.
fn write_parts(
    reader: &mut ClusterReader<'_>,
    writer: &PartWriter<'_>,
    options: &PostgreSqlBackupOptions,
) -> Result<(Contents, Vec<PartInfo>), PostgreSqlBackupError> {
    let put = Mutex::new(Vec::new());
    let (sender, receiver) = sync_channel(1);
    let receiver = Arc::new(Mutex::new(receiver));
    let contents: Contents = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads.max(1))
            .map(|_| {
                // When the last worker has gone, the cutter finds nobody to give a part to.
                let receiver = Arc::clone(&receiver);
                let put = &put;
                scope.spawn(move || writer.work(&receiver, put))
            })
            .collect();
        drop(receiver);
        let mut cutter = Cutter::new(options.part_bytes, sender);
        let tee = Tee { source: BufReader::with_capacity(PIPE_BYTES, &mut *reader), cutter: &mut cutter };
        let read = read_archive(tee, &mut Nobody).and_then(|contents| cutter.finish().map(|()| contents));
        for worker in workers {
            let ended = worker.join();
            ended.map_err(|_| io_error("the backup is put", io::Error::other("a thread panicked")))??;
        }
        read.map_err(|error| match reader.failure.take() {
            Some(failure) => failure,
            None => PostgreSqlBackupError::Stream { problem: error.to_string() },
        })
    })?;
    let mut parts = put.into_inner().expect("its threads have ended");
    parts.sort_unstable_by_key(|(number, _)| *number);
    Ok((contents, parts.into_iter().map(|(_, info)| info).collect()))
}

fn io_error(what: &str, source: io::Error) -> PostgreSqlBackupError {
    PostgreSqlBackupError::Io { what: what.to_owned(), source }
}

/// Gives what is read to a cutter, too.
struct Tee<'a, R> {
    source: R,
    cutter: &'a mut Cutter,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.cutter.take(&buffer[..count])?;
        Ok(count)
    }
}

/// The log from the start of a backup to its end.
struct NeededLog<'a> {
    repository: &'a Repository,
    system: System,
    size: SegmentSize,
    list: &'a FileList,
    timeout: Duration,
}

impl NeededLog<'_> {
    /// Waits until all of it is in the repository.
    fn wait(
        &self,
        server: AskedServer<'_>,
        clock: &dyn Clock,
        progress: &mut dyn FnMut(PostgreSqlBackupProgress),
    ) -> Result<(), PostgreSqlBackupError> {
        let timeline = self.list.end_timeline();
        let end = self.size.last_number(self.list.end());
        let mut first = self.size.number(self.list.start());
        if timeline != TimelineId::FIRST {
            // Without it no restore can tell what the timeline has of others. It comes before the segments.
            self.wait_for(LogFileName::History(timeline), server, clock, progress)?;
        }
        loop {
            let history = Timelines::load(self.repository, self.system, std::iter::once(timeline))?
                .history(timeline)?;
            let segments = StoredSegments::list(self.repository, self.system, &history, self.size)?;
            let reach = segments.reach(&history, first);
            first = self.size.number(reach.end);
            if first > end {
                return Ok(());
            }
            self.wait_for(LogFileName::Segment(reach.missing), server, clock, progress)?;
            first += 1;
            if first > end {
                return Ok(());
            }
        }
    }

    fn wait_for(
        &self,
        name: LogFileName,
        server: AskedServer<'_>,
        clock: &dyn Clock,
        progress: &mut dyn FnMut(PostgreSqlBackupProgress),
    ) -> Result<(), PostgreSqlBackupError> {
        let begun = clock.monotonic();
        let mut pause = *PAUSES.start();
        while self.repository.stat(self.system, name)?.is_none() {
            let waited = clock.monotonic().saturating_sub(begun);
            if waited >= self.timeout {
                let cause = server.archiver()?.words();
                let (waits_for, seconds) = (name.to_string(), waited.as_secs());
                return Err(PostgreSqlBackupError::NotArchived { waits_for, seconds, cause });
            }
            progress(PostgreSqlBackupProgress::WaitingForLog { file: name.to_string() });
            // A repository has no way to tell that something has come.
            clock.sleep(pause.min(self.timeout));
            pause = (pause * 2).min(*PAUSES.end());
        }
        Ok(())
    }
}

fn put_manifest(writer: &PartWriter<'_>, manifest: &PostgreSqlManifest) -> Result<(), BackupError> {
    let name = object_names::manifest(writer.id).expect("a backup's name has the form of names");
    let place =
        ObjectPlace { timeline: manifest.timeline, start: manifest.start, end: manifest.end, ..writer.place };
    let header = name.header(ObjectKind::BackupManifest, writer.system, place);
    let packed = Packer::new(writer.packing).pack(header, manifest.encode().as_bytes());
    writer.repository.push_object(&packed)?;
    Ok(())
}
