//! Creating, opening and closing a database.
//!
//! Creating makes the log, then the tree, whose superblock is written last: a directory with a superblock is a
//! database. A marker file says that a creation is under way, so that one that a crash cut short is started over, and
//! a database that lost its superblock is never taken for one.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Disk, LockMode, OpenMode as FileMode};
use seawall_tree::{Encryption, PageProtection, SUPERBLOCK_PATH, Superblock, Tree, TreeAccess, TreeMarks};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};
use seawall_wal::{Log, LogEnd, LogObserver, OpenLog, ReceivedLog, TimelineHistory};

use crate::bulk_load::row_sorter::{RUN_DIRECTORY, RUN_PREFIX};
use crate::catalog::FIRST_USER_TABLE;
use crate::checkpoint::page_protection::{LogImages, LogSource};
use crate::directory::{LOCK_PATH, LOG_DIRECTORY, RESTORING_PATH};
use crate::encryption::{create_keys, keys_of_directory, read_master_key};
use crate::engine::{Engine, Parts};
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::statistics::published::forget_earlier;
use crate::log::engine_log::EngineLog;
use crate::log::observer::EngineObserver;
use crate::log::parking::Door;
use crate::log::setup::{LogSetup, tree_options};
use crate::options::{OpenMode, Options, RunOptions};
use crate::pacing::recovery_time::RedoLength;
use crate::quorum::mark::{Content, QuorumMark};
use crate::quorum::marking::shown_by;
use crate::recovery::Replay;
use crate::recovery::archive_mode::check_archiving;
use crate::recovery::rewind::REWINDING_PATH;
use crate::recovery::statistics::{Lap, OpenPhases, RecoveryProgress, RecoveryStatistics};
use crate::recovery::timeline::{self, Continuation, Left};
use crate::runs::run::FILTER_BITS_MAX;
use crate::standby::copied::{self, COPIED_PATH};

const CREATING_PATH: &str = "creating";

fn check_options(options: &Options) -> Result<(), Error> {
    let refuse = |name, problem: &str| Err(Error::Option { name, problem: problem.to_owned() });
    if !options.format.page_bytes.is_power_of_two() || !(4096..=65536).contains(&options.format.page_bytes) {
        return refuse("format.page_bytes", "must be a power of two from 4096 to 65536");
    }
    if !options.format.segment_bytes.is_power_of_two()
        || !(64 << 10..=1 << 30).contains(&options.format.segment_bytes)
    {
        return refuse("format.segment_bytes", "must be a power of two from 64 KiB to 1 GiB");
    }
    if !(1..=16).contains(&options.checkpoint.threads) {
        return refuse("checkpoint.threads", "must be from 1 to 16");
    }
    if options.memory.memtable_bytes < 64 << 10 {
        return refuse("memory.memtable_bytes", "must be at least 64 KiB");
    }
    if !(16 << 10..=64 << 20).contains(&options.checkpoint.chunk_bytes) {
        return refuse("checkpoint.chunk_bytes", "must be from 16 KiB to 64 MiB");
    }
    check_run_options(&options.checkpoint.runs)?;
    if options.recovery.target.is_some_and(|target| target < Duration::from_secs(1)) {
        return refuse("recovery.target", "must be at least 1 second; leave it out for none");
    }
    crate::archiver::check_archives(&options.archives)?;
    // What a transaction takes is at least twice its record, which is at most 1 GiB.
    if options.memory.transaction_bytes > 1920 << 20 {
        return refuse("memory.transaction_bytes", "must be at most 1920 MiB");
    }
    if options.memory.all_transactions_bytes < options.memory.transaction_bytes {
        return refuse("memory.all_transactions_bytes", "must be at least `memory.transaction_bytes`");
    }
    Ok(())
}

fn check_run_options(options: &RunOptions) -> Result<(), Error> {
    let refuse = |name, problem: &str| Err(Error::Option { name, problem: problem.to_owned() });
    if options.run_percent != 0 && !(5..=100).contains(&options.run_percent) {
        return refuse("checkpoint.runs.run_percent", "must be from 5 to 100, or 0 for no runs");
    }
    if !(1..=1 << 16).contains(&options.leaves_min) {
        return refuse("checkpoint.runs.leaves_min", "must be from 1 to 65536");
    }
    if !(2..=16).contains(&options.fan_in) {
        return refuse("checkpoint.runs.fan_in", "must be from 2 to 16");
    }
    if !(2..=64).contains(&options.run_count) {
        return refuse("checkpoint.runs.run_count", "must be from 2 to 64");
    }
    if options.filter_bits > FILTER_BITS_MAX {
        return refuse("checkpoint.runs.filter_bits", "must be at most 64, or 0 for no filters");
    }
    Ok(())
}

/// Whether the directory is opened to follow another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Following,
    Other,
}

/// What is in the directory.
enum Found {
    Database,
    Nothing,
    /// A creation that was cut short.
    Remains,
}

fn look(disk: &dyn Disk, purpose: Purpose) -> Result<Found, Error> {
    let list = |directory: &str| match disk.list(directory) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(&error)),
    };
    let entries = list("")?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if has(RESTORING_PATH) {
        return Err(Error::Restoring { directory: disk.location("") });
    }
    if has(REWINDING_PATH) {
        return Err(Error::Rewinding { directory: disk.location("") });
    }
    if has(COPIED_PATH) && purpose == Purpose::Other {
        let end = copied::read(disk)?.map_or(Lsn::ZERO, |copied| copied.end);
        return Err(Error::CopyNotWhole { directory: disk.location(""), end });
    }
    if has(SUPERBLOCK_PATH) {
        return Ok(Found::Database);
    }
    if has(CREATING_PATH) {
        return Ok(Found::Remains);
    }
    if has(seawall_tree::PAGE_FILE_PATH) || !list(LOG_DIRECTORY)?.is_empty() {
        return Err(Error::Tree {
            message: format!(
                "{} is missing, but the directory holds other files of a database: restore it from a backup",
                disk.location(SUPERBLOCK_PATH)
            ),
        });
    }
    match entries.iter().find(|entry| entry.name != LOCK_PATH) {
        Some(entry) => Err(Error::NotEmpty { directory: disk.location(""), found: entry.name.clone() }),
        None => Ok(Found::Nothing),
    }
}

impl Engine {
    /// Opens, or creates, the database in the environment's directory.
    pub(crate) fn open(
        environment: Environment,
        options: Options,
        continuation: Continuation<'_>,
        mut progress: impl FnMut(RecoveryProgress),
    ) -> Result<Arc<Engine>, Error> {
        check_options(&options)?;
        let disk = Arc::clone(&environment.disk);
        let purpose = match continuation {
            Continuation::Followed => Purpose::Following,
            Continuation::Same | Continuation::New(_) | Continuation::Restored { .. } => Purpose::Other,
        };
        let creates = matches!(options.mode, OpenMode::CreateIfMissing | OpenMode::New);
        if creates {
            disk.create_directory("").map_err(|error| Error::io(&error))?;
        }
        let lock_mode = match options.mode {
            OpenMode::ReadOnly => LockMode::Shared,
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => LockMode::Exclusive,
        };
        if !creates {
            match look_or_missing(&*disk, purpose) {
                Ok(Found::Database) => {}
                Ok(Found::Nothing | Found::Remains) | Err(Error::NotEmpty { .. }) => {
                    return Err(Error::NoDatabase { directory: disk.location("") });
                }
                Err(error) => return Err(error),
            }
        }
        let lock = disk.lock(LOCK_PATH, lock_mode).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::InUse { directory: disk.location("") },
            ErrorKind::NotFound => Error::NoDatabase { directory: disk.location("") },
            _ => Error::io(&error),
        })?;
        match (look(&*disk, purpose)?, options.mode) {
            (Found::Database, OpenMode::New) => {
                return Err(Error::NotEmpty {
                    directory: disk.location(""),
                    found: SUPERBLOCK_PATH.to_owned(),
                });
            }
            (Found::Database, OpenMode::ReadOnly) => {}
            (Found::Database, OpenMode::CreateIfMissing | OpenMode::Existing) => {
                finish_creation(&*disk)?;
                forget_earlier(&*disk);
            }
            (Found::Nothing | Found::Remains, OpenMode::CreateIfMissing | OpenMode::New) => {
                create(&environment, &options)?;
            }
            (Found::Nothing | Found::Remains, OpenMode::Existing | OpenMode::ReadOnly) => {
                return Err(Error::NoDatabase { directory: disk.location("") });
            }
        }
        if !options.archives.is_empty() && options.mode != OpenMode::ReadOnly {
            check_archiving(&*disk)?;
        }
        let clock = Arc::clone(&environment.clock);
        let begun = clock.monotonic();
        let engine = Arc::new(open_existing(environment, options, lock, continuation, &mut progress)?);
        let mut lap = Lap::new(&*clock);
        engine.apply_control.set_delay(engine.options.apply_delay);
        if engine.log.received().is_some()
            && let Some(copied) = copied::read(&*engine.environment.disk)?
        {
            engine.apply_control.need_until(copied.end);
            engine.complete_copy()?;
        }
        if matches!(continuation, Continuation::Same) {
            engine.take_up_handover()?;
        }
        engine.hold_for_archives()?;
        engine.take_up_log_holds()?;
        engine.prepare_archivers()?;
        if engine.log.received().is_some() && !engine.is_manual() {
            engine.start_standby().inspect_err(|_| engine.stop_background())?;
        }
        if engine.log.written().is_some() && !engine.is_manual() {
            engine.start_background().inspect_err(|_| engine.stop_background())?;
            if engine.view().unmerged().is_some() {
                engine.background.want_checkpoint();
            }
        }
        engine.begin_reading_filters().inspect_err(|_| engine.stop_background())?;
        let mut recovery = engine.counters.recovery.lock();
        recovery.phases.services = lap.next();
        recovery.phases.total = clock.monotonic().saturating_sub(begun);
        recovery.log_line();
        drop(recovery);
        Ok(engine)
    }

    /// Merges and flushes everything, and lets go of the directory. A second call does nothing.
    pub(crate) fn close(&self) -> Result<(), Error> {
        if !self.lifecycle.mark_closed() {
            return Ok(());
        }
        self.queue.wake_waiting();
        self.log.parking.end();
        self.stop_background();
        let merged = match self.lifecycle.check_not_stopped() {
            // A checkpoint may have something to say in the log, and it would be for the standby that this server becomes.
            Ok(()) if self.log.parking.door() != Door::Open => Ok(()),
            Ok(()) if self.log.written().is_some() && self.has_changes() && self.may_merge_at_close() => {
                match self.checkpoint(crate::checkpoint::statistics::Trigger::Close) {
                    // Rows that a checkpoint itself has written, perhaps: they are in the log.
                    Err(Error::StandbysLack { .. }) => Ok(()),
                    closed => closed.map(drop),
                }
            }
            not_stopped => not_stopped,
        };
        self.keep_mark();
        if merged.is_ok() {
            self.clean_log_at_close();
            self.archive_at_close();
        }
        // Commits that passed the mark before it was set are in the log now, or refused: the directory is let go only
        // when nobody here can write to it any more.
        let closed = match self.log.written() {
            Some(log) => log.close().map_err(Error::from),
            None => self.log.received().map_or(Ok(()), |log| log.close().map(drop).map_err(Error::from)),
        };
        {
            let _turn = self.checkpoint_turn.take();
            self.tree.close();
        }
        self.lifecycle.release_directory();
        merged.and(closed)
    }

    /// A replay that merged on the way does not show how fast replaying is.
    fn learn_from_recovery(&self, replay: &RecoveryStatistics) {
        let length =
            RedoLength { rows: replay.rows, bytes: replay.end_of_log.bytes_since(replay.redo_point) };
        let took = (replay.merges == 0).then_some(replay.duration);
        *self.counters.checkpoint_history.lock() = self.pacing.learn_from_replay(length, took);
    }

    /// What standbys lack is left to the log: no other call waits for them while the database is being closed.
    fn may_merge_at_close(&self) -> bool {
        let flushed = self.log().and_then(|log| Ok(log.flush_until(log.appended())?));
        self.queue.advance();
        flushed.is_err() || self.is_safe_for_pages(self.queue.last_entered())
    }

    fn has_changes(&self) -> bool {
        let view = self.view();
        !view.is_active_empty() || view.unmerged().is_some()
    }
}

fn look_or_missing(disk: &dyn Disk, purpose: Purpose) -> Result<Found, Error> {
    match disk.list("") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(Error::io(&error)),
        Ok(_) => look(disk, purpose),
    }
}

fn create(environment: &Environment, options: &Options) -> Result<(), Error> {
    let disk = &*environment.disk;
    let io = |error: std::io::Error| Error::io(&error);
    // First: without it nothing is made.
    let master_key = read_master_key(options)?;
    if disk.list("").map_err(io)?.iter().all(|entry| entry.name != CREATING_PATH) {
        disk.open(CREATING_PATH, FileMode::Create).map_err(io)?;
    }
    disk.create_directory(LOG_DIRECTORY).map_err(io)?;
    // The marker is durable before anything that it explains.
    disk.sync_directory("").map_err(io)?;
    for entry in disk.list(LOG_DIRECTORY).map_err(io)? {
        disk.remove(&format!("{LOG_DIRECTORY}/{}", entry.name)).map_err(io)?;
    }
    disk.sync_directory(LOG_DIRECTORY).map_err(io)?;
    let mut superblock = new_superblock(environment, options);
    let keys = create_keys(environment, superblock.database, master_key.as_ref())?;
    let setup = LogSetup { environment, options, keys: keys.as_ref(), observer: None };
    let log_options = setup.log_options(&superblock, TimelineHistory::first());
    let log = Log::create(Arc::clone(&environment.disk), log_options);
    let log = log.map_err(|error| Error::log(&error))?;
    superblock.redo_point = log.appended();
    superblock.log_end = superblock.redo_point;
    drop(log);
    Tree::create(disk, &superblock, tree_options(environment, options, keys))
        .map_err(|error| Error::tree(&error))?;
    disk.remove(CREATING_PATH).map_err(io)?;
    disk.sync_directory("").map_err(io)
}

/// Ends a creation that was cut short after the superblock had got its name: that name must be durable before a commit
/// is, and a marker that stayed would let a database that lost its superblock later be taken for an unfinished one.
fn finish_creation(disk: &dyn Disk) -> Result<(), Error> {
    let io = |error: std::io::Error| Error::io(&error);
    if disk.list("").map_err(io)?.iter().all(|entry| entry.name != CREATING_PATH) {
        return Ok(());
    }
    disk.sync_directory("").map_err(io)?;
    disk.remove(CREATING_PATH).map_err(io)?;
    disk.sync_directory("").map_err(io)
}

fn new_superblock(environment: &Environment, options: &Options) -> Superblock {
    let mut database = [0; 16];
    environment.random.fill(&mut database);
    Superblock {
        sequence: 0,
        database: DatabaseId::from_bytes(database),
        page_bytes: options.format.page_bytes,
        timeline: TimelineId::FIRST,
        timeline_mark: TimelineMark::NONE,
        segment_bytes: options.format.segment_bytes,
        redo_point: Lsn::ZERO,
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table: TableId::new(FIRST_USER_TABLE),
        in_doubt: 0,
        log_end: Lsn::ZERO,
        page_count: 0,
        created_micros: environment.clock.wall_micros(),
        // Set by the tree with each store.
        marks: TreeMarks::default(),
        protection: PageProtection::RecoveryFile,
        encryption: match options.master_key {
            None => Encryption::None,
            Some(_) => Encryption::Xaes256Gcm,
        },
        next_run: 0,
        run_count: 0,
    }
}

pub(crate) fn open_existing(
    environment: Environment,
    options: Options,
    directory_lock: Box<dyn seawall_io::DirectoryLock>,
    continuation: Continuation<'_>,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Engine, Error> {
    let clock = Arc::clone(&environment.clock);
    let mut lap = Lap::new(&*clock);
    let read_only = options.mode == OpenMode::ReadOnly;
    let access = if read_only { TreeAccess::Read } else { TreeAccess::Write };
    let keys = keys_of_directory(&environment, &options)?;
    let source = LogSource::new(&environment.disk, keys.as_ref());
    let tree_options = tree_options(&environment, &options, keys.clone());
    let opened = Tree::open_with_log(&*environment.disk, access, tree_options, &source);
    let opened = opened.map_err(|error| Error::tree(&error))?;
    let mut phases = OpenPhases { tree: lap.next(), ..OpenPhases::default() };
    if let Some(copy) = &opened.damaged_copy {
        tracing::warn!(offset = copy.offset, what = copy.what, "a copy of the superblock is damaged");
    }
    if !read_only {
        remove_scratch(&*environment.disk)?;
    }
    let tree = Arc::new(opened.tree);
    let onto_backup = match continuation {
        Continuation::Same | Continuation::New(_) | Continuation::Followed => None,
        Continuation::Restored { onto_backup, .. } => Some(onto_backup),
    };
    let superblock_database = opened.superblock.database;
    let replay = Replay::new(&environment, &tree, opened.superblock, &options, keys.as_ref(), onto_backup)?;
    let replay = if matches!(continuation, Continuation::Followed) { replay.of_standby() } else { replay };
    let content = quorum_content(&environment, &options, superblock_database, continuation)?;
    let replay = match content.and_then(|content| shown_by(&content, &options)) {
        Some(shown) => replay.shown_until(shown),
        None => replay,
    };
    let mut replayed = replay.run(progress)?;
    replayed.statistics.superblock_copy_damaged = opened.damaged_copy.is_some();
    replayed.statistics.chunk_reapplied = opened.reapplied_chunk.is_some();
    tracing::info!(redo_point = %replayed.statistics.redo_point, end_of_log = %replayed.end.lsn,
        records = replayed.statistics.records, rows = replayed.statistics.rows,
        milliseconds = replayed.statistics.duration.as_millis(), "database recovered");
    phases.replay = lap.next();
    let end_of_log = replayed.end.lsn;
    let shown = replayed.shown;
    let observer = Arc::new(EngineObserver::new(&environment.clock, shown));
    observer.queue.watermarks().require(options.quorum.is_some());
    let (superblock, end) = (&mut replayed.superblock, replayed.end);
    let setup = LogSetup {
        environment: &environment,
        options: &options,
        keys: keys.as_ref(),
        observer: Some(Arc::clone(&observer) as Arc<dyn LogObserver>),
    };
    let log = match continuation {
        _ if read_only => EngineLog::only_read(end_of_log),
        Continuation::Same => EngineLog::written_to(open_log(&setup, superblock, end)?),
        Continuation::Followed => EngineLog::received_by(open_received_log(&setup, superblock, end)?),
        Continuation::New(new) | Continuation::Restored { new, .. } => EngineLog::written_to(
            timeline::begin(&setup, &tree, superblock, Left { end, received: None }, new)?,
        ),
    };
    let log = Arc::new(log);
    phases.log = lap.next();
    let image_log_bytes = Arc::default();
    if log.written().is_some() && options.checkpoint.page_protection == PageProtection::LogImages {
        let images = LogImages::new(Arc::clone(&log), Arc::clone(&image_log_bytes));
        tree.protect_in_log(Arc::new(images)).map_err(|error| Error::tree(&error))?;
    }
    let engine = Engine::assemble(Parts {
        view: replayed.view,
        next_table: replayed.next_table,
        superblock: replayed.superblock,
        environment,
        options,
        log,
        observer,
        image_log_bytes,
        tree,
        keys,
        directory_lock,
    });
    engine.adopt_in_doubt(replayed.in_doubt)?;
    engine.learn_from_recovery(&replayed.statistics);
    phases.in_doubt = lap.next();
    replayed.statistics.phases = phases;
    *engine.counters.recovery.lock() = replayed.statistics;
    if engine.log.received().is_some() {
        // Of a life as a primary: a promotion makes its own.
        QuorumMark::remove(&*engine.environment.disk)?;
    }
    if engine.log.written().is_some() {
        engine.queue.flushed_until(end_of_log);
        engine.take_up_alone(content.and_then(|content| content.alone));
        engine.apply_unshown(shown, end_of_log)?;
        engine.begin_marking()?;
    }
    Ok(engine)
}

/// What was visible, where standbys are waited for and have not confirmed all of the log. Without a quorum all of it is shown.
fn quorum_content(
    environment: &Environment,
    options: &Options,
    database: DatabaseId,
    continuation: Continuation<'_>,
) -> Result<Option<Content>, Error> {
    let is_continued = matches!(continuation, Continuation::Same | Continuation::New(_));
    if !is_continued || options.mode == OpenMode::ReadOnly || options.quorum.is_none() {
        return Ok(None);
    }
    QuorumMark::read(&*environment.disk, database)
}

/// Opens the log where recovery found its end.
fn open_log(setup: &LogSetup<'_>, superblock: &Superblock, end: LogEnd) -> Result<OpenLog, Error> {
    let disk = &setup.environment.disk;
    let options = setup.log_options(superblock, timeline::history_of(disk, superblock)?);
    Log::open(Arc::clone(disk), options, end).map_err(|error| Error::log(&error))
}

/// Opens the log of a standby where recovery found its end.
fn open_received_log(
    setup: &LogSetup<'_>,
    superblock: &Superblock,
    end: LogEnd,
) -> Result<ReceivedLog, Error> {
    let disk = &setup.environment.disk;
    let options = setup.log_options(superblock, timeline::history_of(disk, superblock)?);
    ReceivedLog::open(Arc::clone(disk), &options, end).map_err(|error| Error::log(&error))
}

/// Removes what a bulk load left behind when the process ended.
fn remove_scratch(disk: &dyn Disk) -> Result<(), Error> {
    for entry in disk.list(RUN_DIRECTORY).map_err(|error| Error::io(&error))? {
        if entry.name.starts_with(RUN_PREFIX) {
            disk.remove(&format!("{RUN_DIRECTORY}/{}", entry.name)).map_err(|error| Error::io(&error))?;
        }
    }
    Ok(())
}
