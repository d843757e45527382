//! The object that everything shares: the log, the memtables, the tree, and who is doing what with them.
//!
//! What it can do is in the files named for it: `transaction::commit`, `snapshots::read`, `checkpoint`, `recovery`, `open`.

use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use rustc_hash::FxHashSet;
use seawall_io::{Clock, DirectoryLock, Disk, OsRandom, Random, SystemClock};
use seawall_keys::DatabaseKeys;
use seawall_sync::arc_swap::{ArcSwap, Guard};
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_sync::{Mutex, RwLock, WaitWord};
use seawall_tree::{Superblock, Tree};
use seawall_types::{Lsn, TableId};
use seawall_wal::{Log, OpenLog};

use crate::archiver::Archivers;
use crate::background::BackgroundThreads;
use crate::bulk_load::load_log::LoadLog;
use crate::catalog::{self, NameRow, ObjectRow, OpenObject, OpenObjects, Table};
use crate::checkpoint::CheckpointState;
use crate::error::Error;
use crate::in_doubt::InDoubtTransactions;
use crate::in_doubt::decisions::DecisionCount;
use crate::inspect::statistics::Counters;
use crate::log::observer::EngineObserver;
use crate::moved::KnownPlace;
use crate::options::{Background, Options};
use crate::pacing::measurements::Measurements;
use crate::pacing::pace::{CheckpointProgress, MemtablePerLog, MergeSpeed};
use crate::pacing::recovery_time::RecoveryTime;
use crate::pacing::throttle::Throttle;
use crate::pacing::writer_pace::SlowingHolds;
use crate::row_key;
use crate::snapshots::view::View;
use crate::snapshots::{RegisteredSnapshot, SnapshotRegistry};
use crate::transaction::commit_queue::CommitQueue;
use crate::transaction::lock_table::{LockOwner, LockTable};
use crate::transaction::memory::MemoryBudget;
use crate::transaction::recent_commits::RecentCommits;

/// The world that a database lives in.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Its randomness, for the id of a new database, keys and nonces.
    pub random: Arc<dyn Random>,
}

impl Environment {
    /// Clock and randomness of the operating system.
    pub fn of_the_system(disk: Arc<dyn Disk>) -> Environment {
        Environment { disk, clock: Arc::new(SystemClock), random: Arc::new(OsRandom) }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) environment: Environment,
    pub(crate) options: Options,
    /// `None` when read-only.
    pub(crate) log: Option<Arc<OpenLog>>,
    /// Where the log ended when a read-only database was opened.
    pub(crate) end_of_log: Lsn,
    pub(crate) tree: Arc<Tree>,
    /// Of an encrypted database.
    pub(crate) keys: Option<DatabaseKeys>,
    /// Swapped in the log's critical section when the active memtable is frozen, under `checkpoint` otherwise.
    pub(crate) view: ArcSwap<View>,
    pub(crate) queue: Arc<CommitQueue>,
    /// For those who validate what they have read.
    pub(crate) recent_commits: RecentCommits,
    /// Shared by commits whose rows are in the active memtable before they have their place in the log; taken alone by a
    /// freeze, behind which new ones wait.
    pub(crate) applying_ahead: RwLock<()>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) transaction_memory: Arc<MemoryBudget>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) objects: OpenObjects,
    pub(crate) throttle: Throttle,
    pub(crate) counters: Counters,
    /// What the superblock on disk says.
    pub(crate) superblock: Mutex<Superblock>,
    /// The redo point in `superblock`, to read without the mutex.
    pub(crate) redo_point: AtomicU64,
    /// Bytes of page images appended to the log since it was opened.
    pub(crate) image_log_bytes: Arc<AtomicU64>,
    /// How many of them lie before the redo point.
    pub(crate) images_before_redo: AtomicU64,
    /// Held by whoever changes the tree: a checkpoint or a bulk load.
    pub(crate) checkpoint: Mutex<CheckpointState>,
    pub(crate) in_doubt: InDoubtTransactions,
    /// Transactions that were in doubt at the last freeze point.
    pub(crate) in_doubt_at_freeze: AtomicU64,
    /// Of what rules about in-doubt transactions have decided.
    pub(crate) decision_count: DecisionCount,
    /// Storages that a bulk load is filling.
    pub(crate) loading: Mutex<FxHashSet<TableId>>,
    /// Whoever adds a name to the list of the backups that were begun: it is read, changed and written anew.
    pub(crate) backups_begun: Mutex<()>,
    pub(crate) archivers: Arc<Archivers>,
    /// Who needs the rows of bulk loads in the log.
    pub(crate) load_log: LoadLog,
    next_owner: CachePadded<AtomicU64>,
    closed: AtomicBool,
    /// Why no more writes are taken: the tree could not be written.
    stopped: OnceLock<String>,
    /// Threads that wait for `checkpoint`.
    pub(crate) checkpoint_waiters: AtomicU64,
    /// How far the one under way is.
    pub(crate) progress: CheckpointProgress,
    pub(crate) merge_speed: Mutex<MergeSpeed>,
    pub(crate) recovery_time: RecoveryTime,
    pub(crate) measurements: Measurements,
    /// For whom writers are slowed.
    pub(crate) slowing_holds: Mutex<SlowingHolds>,
    /// Writers compute their rate anew when the log is this long.
    pub(crate) next_look: CachePadded<AtomicU64>,
    pub(crate) memtable_per_log: MemtablePerLog,
    /// Writers were slowed until the last checkpoint ended.
    pub(crate) saturated: AtomicBool,
    /// Bytes of commits that were let into the memtable and are not in it yet.
    pub(crate) reserved_room: CachePadded<AtomicU64>,
    /// Changes when a checkpoint has made room in memory, or failed.
    pub(crate) room: WaitWord,
    pub(crate) background: Arc<BackgroundThreads>,
    /// Kept until the engine goes; given up early by `close`.
    pub(crate) directory_lock: Mutex<Option<Box<dyn DirectoryLock>>>,
    /// Looked at after each checkpoint.
    pub(crate) known_place: KnownPlace,
}

/// What `open` puts together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) environment: Environment,
    pub(crate) options: Options,
    pub(crate) log: Option<Arc<OpenLog>>,
    pub(crate) observer: Arc<EngineObserver>,
    pub(crate) end_of_log: Lsn,
    pub(crate) image_log_bytes: Arc<AtomicU64>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) keys: Option<DatabaseKeys>,
    pub(crate) view: View,
    pub(crate) next_table: u64,
    pub(crate) superblock: Superblock,
    pub(crate) directory_lock: Box<dyn DirectoryLock>,
}

impl Engine {
    pub(crate) fn assemble(parts: Parts) -> Engine {
        let clock = &parts.environment.clock;
        let EngineObserver { queue, archivers, background, locks, protected } = &*parts.observer;
        // Where replay starts, no row was logged; those that it replayed are behind it.
        let measurements = Measurements::new(Arc::clone(&parts.environment.disk), parts.superblock.database);
        queue.count_rows(parts.view.unmerged().map_or(0, |frozen| frozen.logged_rows));
        Engine {
            locks: Arc::clone(locks),
            transaction_memory: MemoryBudget::new(parts.options.transaction_memory_bytes),
            throttle: Throttle::new(Arc::clone(clock)),
            counters: Counters::default(),
            queue: Arc::clone(queue),
            recent_commits: RecentCommits::default(),
            applying_ahead: RwLock::new(()),
            snapshots: SnapshotRegistry::new(),
            objects: OpenObjects::new(parts.next_table),
            in_doubt: InDoubtTransactions::new(Arc::clone(protected)),
            decision_count: DecisionCount::default(),
            in_doubt_at_freeze: AtomicU64::new(parts.superblock.in_doubt),
            redo_point: AtomicU64::new(parts.superblock.redo_point.get()),
            image_log_bytes: parts.image_log_bytes,
            images_before_redo: AtomicU64::new(0),
            checkpoint: Mutex::new(CheckpointState::new(clock.monotonic())),
            superblock: Mutex::new(parts.superblock),
            view: ArcSwap::from_pointee(parts.view),
            loading: Mutex::default(),
            backups_begun: Mutex::default(),
            archivers: Arc::clone(archivers),
            load_log: LoadLog::default(),
            next_owner: CachePadded::default(),
            closed: AtomicBool::new(false),
            stopped: OnceLock::new(),
            checkpoint_waiters: AtomicU64::new(0),
            progress: CheckpointProgress::default(),
            merge_speed: Mutex::new(MergeSpeed::unknown()),
            recovery_time: RecoveryTime::new(parts.options.recovery_target, parts.options.replay_memory()),
            measurements,
            slowing_holds: Mutex::default(),
            next_look: CachePadded::default(),
            memtable_per_log: MemtablePerLog::default(),
            saturated: AtomicBool::new(false),
            reserved_room: CachePadded::default(),
            room: WaitWord::new(),
            background: Arc::clone(background),
            directory_lock: Mutex::new(Some(parts.directory_lock)),
            known_place: KnownPlace::new(&*parts.environment.disk),
            environment: parts.environment,
            options: parts.options,
            log: parts.log,
            end_of_log: parts.end_of_log,
            tree: parts.tree,
            keys: parts.keys,
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.environment.clock
    }

    pub(crate) fn locks(&self) -> &LockTable {
        &self.locks
    }

    pub(crate) fn queue(&self) -> &CommitQueue {
        &self.queue
    }

    pub(crate) fn objects(&self) -> &OpenObjects {
        &self.objects
    }

    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub(crate) fn new_lock_owner(&self) -> LockOwner {
        LockOwner(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    /// Longest key of a user: a page must hold a row of it.
    pub(crate) fn key_bytes_max(&self) -> usize {
        row_key::KEY_BYTES_MAX.min(self.tree.max_key_bytes() - row_key::TABLE_BYTES)
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.options.background == Background::Manual
    }
}

/// Open, closed, stopped.
impl Engine {
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        self.check_open()?;
        self.check_not_stopped()?;
        self.log().map(|_| ())
    }

    /// `Stopped` after a failed write.
    pub(crate) fn check_not_stopped(&self) -> Result<(), Error> {
        let is_poisoned = || self.log.as_ref().is_some_and(|log| log.poison_cause().is_some());
        match self.stopped.get() {
            Some(cause) => Err(Error::Stopped { cause: cause.clone() }),
            None if is_poisoned() => Err(self.stopped_error()),
            None => Ok(()),
        }
    }

    pub(crate) fn log(&self) -> Result<&Log, Error> {
        self.log.as_deref().map(|log| &**log).ok_or(Error::ReadOnly)
    }

    /// Marks the engine closed; `false` if it was already.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// The error of a database that takes no more writes.
    pub(crate) fn stopped_error(&self) -> Error {
        let of_log = || self.log.as_ref().and_then(|log| log.poison_cause());
        let cause = self.stopped.get().map(String::as_str).or_else(of_log);
        Error::Stopped { cause: cause.unwrap_or("the log takes no more writes").to_owned() }
    }

    /// Takes no more writes from now on.
    pub(crate) fn stop(&self, cause: String) -> Error {
        tracing::error!(cause, "the database takes no more writes until it is opened again");
        let error = Error::Stopped { cause: self.stopped.get_or_init(|| cause).clone() };
        self.locks.stop();
        self.in_doubt.protected.wake_waiting();
        error
    }
}

/// How far the log is.
impl Engine {
    /// End of what is logged.
    pub(crate) fn appended(&self) -> Lsn {
        self.log.as_ref().map_or(self.end_of_log, |log| log.appended())
    }

    /// End of what is durable.
    pub(crate) fn flushed(&self) -> Lsn {
        self.log.as_ref().map_or(self.end_of_log, |log| log.flushed())
    }

    /// Everything stamped at most this is visible.
    pub(crate) fn visible(&self) -> Lsn {
        self.queue.visible()
    }

    pub(crate) fn flush(&self) -> Result<Lsn, Error> {
        self.check_writable()?;
        let (log, end) = (self.log()?, self.appended());
        log.flush_until(end)?;
        Ok(end)
    }

    /// Waits until `stamp` is visible; returns early if the log is poisoned, because then it may never be.
    pub(crate) fn wait_visible(&self, stamp: Lsn) {
        if self.visible() >= stamp {
            return;
        }
        // A commit ahead may be `Sync` and nobody be waiting for its flush: its handle may be held unwaited.
        if let Some(log) = &self.log {
            log.request_flush(log.appended());
        }
        let give_up = || self.log.as_ref().is_none_or(|log| log.poison_cause().is_some());
        self.queue.wait_visible(stamp, give_up);
    }

    /// As `wait_visible`; `Stopped` if that may never be.
    pub(crate) fn require_visible(&self, stamp: Lsn) -> Result<(), Error> {
        self.wait_visible(stamp);
        if self.visible() < stamp { Err(self.stopped_error()) } else { Ok(()) }
    }

    /// Waits until all that is logged now is durable and visible.
    pub(crate) fn wait_for_all_logged(&self) -> Result<(), Error> {
        let logged = self.queue.last_entered();
        self.log()?.flush_until(self.appended())?;
        self.require_visible(logged)
    }

    /// The horizon for versions in the active memtable of `view`: see `snapshots`.
    pub(crate) fn horizon_in(&self, view: &View) -> Lsn {
        self.snapshots.horizon_above(view.snapshot_floor, || self.queue.visible())
    }

    /// Whether the snapshot was cancelled. To be asked after the view of the memtables was taken: see `snapshots`.
    pub(crate) fn is_cancelled(&self, snapshot: Lsn) -> bool {
        snapshot <= self.snapshots.floor()
    }

    /// As `is_cancelled`, as an error.
    pub(crate) fn check_snapshot(&self, snapshot: Lsn) -> Result<(), Error> {
        if self.is_cancelled(snapshot) { Err(self.snapshot_cancelled(snapshot)) } else { Ok(()) }
    }

    #[cold]
    pub(crate) fn snapshot_cancelled(&self, lsn: Lsn) -> Error {
        Error::SnapshotCancelled { lsn, limit: self.options.snapshot_memory_bytes }
    }

    /// See `SnapshotRegistry::horizon`.
    pub(crate) fn horizon(&self) -> Lsn {
        self.snapshots.horizon(|| self.queue.visible())
    }
}

/// Snapshots and single rows.
impl Engine {
    /// Of everything visible now.
    pub(crate) fn register_snapshot(&self) -> RegisteredSnapshot {
        self.snapshots.register(|| self.visible())
    }

    /// Another registration of a snapshot that is alive, and stays so for as long as this one.
    pub(crate) fn register_snapshot_at(&self, lsn: Lsn) -> RegisteredSnapshot {
        self.snapshots.register(|| lsn)
    }

    pub(crate) fn with_current_snapshot<R>(&self, read: impl FnOnce(Lsn) -> R) -> R {
        self.snapshots.with_current(|| self.visible(), read)
    }

    /// Stamp of the newest version of a row that is not in the tree yet, or that an old snapshot has kept here, if it is
    /// later than `since`.
    pub(crate) fn newest_stamp_after(&self, row_key: &[u8], since: Lsn) -> Option<Lsn> {
        self.view().newest_stamp_after(row_key, since)
    }

    /// The object with this id, told where its rows are now.
    pub(crate) fn open_object(&self, id: u64) -> Result<Arc<OpenObject>, Error> {
        let object = self.objects.open(id);
        if object.is_known() {
            return Ok(object);
        }
        // Whatever was logged of the object before it was entered has to be visible in the rows that are read now. Not more:
        // to wait for all that was logged would be to wait for others' flushes.
        self.queue.wait_applied();
        self.wait_row_visible(&catalog::object_key(id));
        let row = self.with_current_snapshot(|lsn| self.undecided_object_row(id, lsn))?;
        if let Some(row) = row {
            self.wait_row_visible(&catalog::name_key(&row.name));
        }
        let storage = self.with_current_snapshot(|lsn| {
            let storage = self.object_row(id, lsn)?.map(|row| row.storage);
            object.learn(storage, lsn);
            Ok::<_, Error>(storage)
        });
        storage.map(|_| object)
    }

    /// As `open_object`, by one who holds the locks of the object's rows and has read there that its rows are at `storage`.
    pub(crate) fn open_locked_object(&self, id: u64, storage: TableId) -> Arc<OpenObject> {
        let object = self.objects.open(id);
        if !object.is_known() {
            object.learn(Some(storage), self.visible());
        }
        object
    }

    fn wait_row_visible(&self, row_key: &[u8]) {
        if let Some(stamp) = self.newest_stamp_after(row_key, self.visible()) {
            self.wait_visible(stamp);
        }
    }

    /// The row of an object that may have been dropped.
    fn undecided_object_row(&self, id: u64, snapshot: Lsn) -> Result<Option<ObjectRow>, Error> {
        let row = self.read_row(&catalog::object_key(id), snapshot, |row| row.map(<[u8]>::to_vec))?;
        row.map(|row| ObjectRow::decode(id, &row)).transpose()
    }

    fn object_row(&self, id: u64, snapshot: Lsn) -> Result<Option<ObjectRow>, Error> {
        let Some(row) = self.undecided_object_row(id, snapshot)? else { return Ok(None) };
        // Of a table that was dropped lately the name tells, and the row is still there: see `dropped_tables`.
        let named = self.object_named(&row.name, snapshot)?;
        Ok((named == Some(id)).then_some(row))
    }

    /// The object that has a name, for a snapshot.
    pub(crate) fn object_named(&self, name: &str, snapshot: Lsn) -> Result<Option<u64>, Error> {
        let decode = |row: &[u8]| NameRow::decode(name, row);
        let row = self.read_row(&catalog::name_key(name), snapshot, |row| row.map(decode).transpose())??;
        Ok(match row {
            Some(NameRow::Table(object)) => Some(object),
            Some(NameRow::Dropped { .. }) | None => None,
        })
    }

    /// The name of an object now; `None` if it is dropped.
    pub(crate) fn name_of_object(&self, id: u64) -> Result<Option<String>, Error> {
        self.with_current_snapshot(|lsn| Ok(self.object_row(id, lsn)?.map(|row| row.name)))
    }

    /// Where a snapshot finds the rows of a table, by the catalog.
    pub(crate) fn storage_in_catalog(&self, table: &Table, snapshot: Lsn) -> Result<Option<TableId>, Error> {
        Ok(self.object_row(table.object.id, snapshot)?.map(|row| row.storage))
    }
}
