//! The engine's part in what happens to its log: commits become visible, archives get what is durable, segments are made, and
//! no thread waits for a lock any more when the log has failed.
//!
//! The log calls this, so it is made before the log is opened. It holds parts of the engine and never the engine: the log is one
//! of those parts, and the log's own thread must not be the last to let go of them.

use std::sync::Arc;

use seawall_io::Clock;
use seawall_types::Lsn;
use seawall_wal::LogObserver;

use crate::archiver::Archivers;
use crate::background::BackgroundThreads;
use crate::in_doubt::protected::Protected;
use crate::transaction::commit_queue::CommitQueue;
use crate::transaction::lock_table::LockTable;

/// The parts of the engine that hear of the log. See the module.
#[derive(Debug)]
pub(crate) struct EngineObserver {
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) archivers: Arc<Archivers>,
    pub(crate) background: Arc<BackgroundThreads>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) protected: Arc<Protected>,
}

impl EngineObserver {
    /// For a log that ends at `end_of_log`: everything before is visible.
    pub(crate) fn new(clock: &Arc<dyn Clock>, end_of_log: Lsn) -> EngineObserver {
        EngineObserver {
            queue: Arc::new(CommitQueue::new(end_of_log)),
            archivers: Arc::default(),
            background: Arc::default(),
            locks: Arc::new(LockTable::new(Arc::clone(clock))),
            protected: Arc::default(),
        }
    }
}

impl LogObserver for EngineObserver {
    fn flushed(&self, flushed: Lsn) {
        self.queue.flushed_until(flushed);
        self.archivers.all().iter().for_each(|archiver| archiver.flushed(flushed));
    }

    fn spares_low(&self) {
        self.background.want_segments();
    }

    /// What a transaction in doubt holds now is held until the next open, so no thread waits for it.
    fn poisoned(&self) {
        self.queue.wake_waiting();
        self.locks.stop();
        self.protected.wake_waiting();
    }
}
