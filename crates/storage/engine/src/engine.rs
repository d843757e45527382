//! The object that all parts share: the log, the memtables, the tree, and the state of those who use them.
//!
//! It holds the parts and has no logic. What it can do is in the files named for it: `transaction::commit`, `snapshots::read`,
//! `checkpoint`, `recovery`, `open`.

use std::sync::Arc;

use seawall_io::{Clock, DirectoryLock};
use seawall_keys::DatabaseKeys;
use seawall_sync::arc_swap::{ArcSwap, Guard};
use seawall_sync::atomic::AtomicU64;
use seawall_sync::{Mutex, RwLock};
use seawall_tree::page::RUN_PREFIX_BYTES;
use seawall_tree::{Superblock, Tree};
use seawall_types::Lsn;
use seawall_wal::Log;

use crate::archiver::Archivers;
use crate::background::BackgroundThreads;
use crate::bulk_load::loads::Loads;
use crate::catalog::OpenObjects;
use crate::checkpoint::redo::Redo;
use crate::checkpoint::turn::CheckpointTurn;
use crate::environment::Environment;
use crate::error::Error;
use crate::in_doubt::InDoubtTransactions;
use crate::inspect::counters::Counters;
use crate::lifecycle::Lifecycle;
use crate::log::engine_log::EngineLog;
use crate::log::observer::EngineObserver;
use crate::options::{Background, Options};
use crate::pacing::Pacing;
use crate::pacing::measurements::Measurements;
use crate::pacing::recovery_time::RecoveryTime;
use crate::quorum::mark::QuorumMark;
use crate::quorum::members::Members;
use crate::row_key;
use crate::snapshots::SnapshotRegistry;
use crate::snapshots::view::View;
use crate::standby::control::ApplyControl;
use crate::standby::turn::{ApplyTurn, LogTurn};
use crate::transaction::commit_queue::CommitQueue;
use crate::transaction::lock_table::LockTable;
use crate::transaction::memory::MemoryBudget;
use crate::transaction::recent_commits::RecentCommits;

/// See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) environment: Environment,
    pub(crate) options: Options,
    pub(crate) log: Arc<EngineLog>,
    /// For the log of a standby that is promoted.
    pub(crate) observer: Arc<EngineObserver>,
    pub(crate) tree: Arc<Tree>,
    /// The keys of an encrypted database.
    pub(crate) keys: Option<DatabaseKeys>,
    /// Swapped in the log's critical section when the active memtable is frozen, under `checkpoint_turn` otherwise.
    pub(crate) view: ArcSwap<View>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) queue: Arc<CommitQueue>,
    /// The standbys that commits wait for.
    pub(crate) members: Members,
    /// What was visible, on disk, where commits wait for standbys.
    pub(crate) quorum_mark: Mutex<Option<QuorumMark>>,
    /// For those who validate what they have read.
    pub(crate) recent_commits: RecentCommits,
    /// Shared by commits whose rows are in the active memtable before they have their place in the log; taken alone by a
    /// freeze, behind which new ones wait.
    pub(crate) applying_ahead: RwLock<()>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) transaction_memory: Arc<MemoryBudget>,
    pub(crate) in_doubt: InDoubtTransactions,
    pub(crate) objects: OpenObjects,
    pub(crate) loads: Loads,
    pub(crate) checkpoint_turn: CheckpointTurn,
    pub(crate) log_turn: LogTurn,
    pub(crate) apply_turn: ApplyTurn,
    pub(crate) apply_control: ApplyControl,
    pub(crate) redo: Redo,
    pub(crate) pacing: Pacing,
    pub(crate) background: Arc<BackgroundThreads>,
    pub(crate) archivers: Arc<Archivers>,
    /// Serializes changes of the list of begun backups, which is read, changed and rewritten.
    pub(crate) backups_begun: Mutex<()>,
    pub(crate) counters: Counters,
    /// Last, since fields go in this order: the lock on the directory stays until the log's thread has ended.
    pub(crate) lifecycle: Lifecycle,
}

/// What `open` puts together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) environment: Environment,
    pub(crate) options: Options,
    pub(crate) log: Arc<EngineLog>,
    pub(crate) observer: Arc<EngineObserver>,
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
        let Environment { disk, clock, .. } = &parts.environment;
        let EngineObserver { queue, archivers, background, locks, protected } = &*parts.observer;
        // Where replay starts, no row was logged; those that it replayed are behind it.
        queue.count_rows(parts.view.unmerged().map_or(0, |frozen| frozen.logged_rows));
        let recovery_time =
            RecoveryTime::new(parts.options.recovery.target, parts.options.memory.for_replay());
        let measurements = Measurements::new(Arc::clone(disk), parts.superblock.database);
        let lifecycle = Lifecycle::new(
            &**disk,
            parts.directory_lock,
            Arc::clone(&parts.log),
            Arc::clone(locks),
            Arc::clone(protected),
        );
        Engine {
            lifecycle,
            view: ArcSwap::from_pointee(parts.view),
            snapshots: SnapshotRegistry::new(),
            queue: Arc::clone(queue),
            members: Members::new(parts.options.quorum, clock.monotonic()),
            quorum_mark: Mutex::default(),
            recent_commits: RecentCommits::default(),
            applying_ahead: RwLock::new(()),
            locks: Arc::clone(locks),
            transaction_memory: MemoryBudget::new(parts.options.memory.all_transactions_bytes),
            in_doubt: InDoubtTransactions::new(Arc::clone(protected), parts.superblock.in_doubt),
            objects: OpenObjects::new(parts.next_table),
            loads: Loads::default(),
            checkpoint_turn: CheckpointTurn::new(clock.monotonic()),
            log_turn: LogTurn::default(),
            apply_turn: ApplyTurn::default(),
            apply_control: ApplyControl::default(),
            redo: Redo::new(parts.superblock, parts.image_log_bytes),
            pacing: Pacing::new(parts.options.background, clock, recovery_time, measurements),
            background: Arc::clone(background),
            archivers: Arc::clone(archivers),
            backups_begun: Mutex::default(),
            counters: Counters::default(),
            environment: parts.environment,
            options: parts.options,
            log: parts.log,
            observer: Arc::clone(&parts.observer),
            tree: parts.tree,
            keys: parts.keys,
        }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.environment.clock
    }

    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The log, of a database that takes writes.
    pub(crate) fn log(&self) -> Result<&Log, Error> {
        self.log.written().ok_or(Error::ReadOnly)
    }

    /// End of what is logged.
    pub(crate) fn appended(&self) -> Lsn {
        self.log.appended()
    }

    /// End of what is durable.
    pub(crate) fn flushed(&self) -> Lsn {
        self.log.flushed()
    }

    /// Everything stamped at most this is visible.
    pub(crate) fn visible(&self) -> Lsn {
        self.queue.visible()
    }

    /// Longest key of a user: a page must hold a row of it, in a sorted run, too.
    pub(crate) fn key_bytes_max(&self) -> usize {
        row_key::KEY_BYTES_MAX.min(self.tree.max_key_bytes() - RUN_PREFIX_BYTES - row_key::TABLE_BYTES)
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.options.background == Background::Manual
    }
}
