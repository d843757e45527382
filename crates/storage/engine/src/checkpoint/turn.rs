//! The turn to change the tree: a checkpoint has it, or a bulk load, or a thread that must keep both from it.

use std::time::Duration;

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{Mutex, MutexGuard};
use seawall_types::{Lsn, TableId};

use crate::catalog::ListedStorage;
use crate::runs::run::RunNumber;
use crate::runs::slice::Slice;
use crate::runs::window_table::WindowTable;

/// What checkpoints remember from one to the next.
#[derive(Debug)]
pub(crate) struct CheckpointState {
    /// Monotonic time of the last one's end.
    pub(crate) last_end: Duration,
    /// Storages waiting to be cut out. `None` until they are read from the catalog.
    pub(crate) reclaim: Option<Vec<ListedStorage>>,
    /// On a standby: storages that the last chunk of a checkpoint strikes off the list. They stay here until that chunk is applied, so
    /// that the next attempt, after an error, still knows them.
    pub(crate) struck_off: Vec<(TableId, Lsn)>,
    /// Nothing is left in the system table `prepared` that an earlier process has not merged to its end, or it is being
    /// deleted.
    pub(crate) strays_are_gone: bool,
    /// No run is in the tree that the list lacks. See `runs::unlisted`.
    pub(crate) unlisted_runs_are_gone: bool,
    /// The number of the next run: the superblock says that it is used, and no page has it yet.
    pub(crate) drawn_run: Option<RunNumber>,
    /// As that, of the run to be made of others.
    pub(crate) drawn_target: Option<RunNumber>,
    /// The last merge: windows and slices of runs take turns where both are due, unless there are too many runs.
    pub(crate) last_slice: Slice,
    /// There are too many runs rather than too many leaves in them: then merges of runs go first.
    pub(crate) are_too_many_runs: bool,
    /// Which windows have how much of runs; `None` until it is asked for.
    pub(crate) windows: Option<WindowTable>,
    /// Leaves of the main part; leaves of runs, and as many as the rows fill that these delete. By the last table of windows; zeros
    /// before the first, and where there are no runs.
    pub(crate) counted_leaves: (u64, u64),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CheckpointTurn {
    state: Mutex<CheckpointState>,
    /// Threads that wait for it.
    waiters: AtomicU64,
}

impl CheckpointTurn {
    pub(crate) fn new(now: Duration) -> CheckpointTurn {
        let state = CheckpointState {
            last_end: now,
            reclaim: None,
            struck_off: Vec::new(),
            strays_are_gone: false,
            unlisted_runs_are_gone: false,
            drawn_run: None,
            drawn_target: None,
            last_slice: Slice::Nothing,
            are_too_many_runs: false,
            windows: None,
            counted_leaves: (0, 0),
        };
        CheckpointTurn { state: Mutex::new(state), waiters: AtomicU64::new(0) }
    }

    /// Waits for the turn. A holder that rests between chunks, or checks the tree, looks whether a thread waits.
    pub(crate) fn take(&self) -> MutexGuard<'_, CheckpointState> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let state = self.state.lock();
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// As `take`, without hurrying the holder.
    pub(crate) fn take_patiently(&self) -> MutexGuard<'_, CheckpointState> {
        self.state.lock()
    }

    /// The turn, if it is free.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, CheckpointState>> {
        self.state.try_lock()
    }

    /// Whether a thread in a hurry waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }
}
