//! The turn to apply received log: between two steps no record is half applied. The turn to end that log and go on with another one.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_sync::{Mutex, MutexGuard};
use seawall_types::Lsn;
use seawall_wal::LogReader;

use crate::in_doubt::PreparedTransaction;

/// What the one who applies knows.
#[derive(Debug, Default)]
pub(crate) struct ApplyState {
    /// Behind the last record that was applied; `None` before the first step, and where the next record was not due.
    pub(crate) reader: Option<LogReader>,
    /// Where the last step ended.
    pub(crate) applied: Option<Lsn>,
    /// Transactions in doubt, by the stamp of the prepare: decisions name them so.
    pub(crate) in_doubt: FxHashMap<Lsn, Arc<PreparedTransaction>>,
}

/// The turn to end the log that is received: a promotion, or a new timeline of the upstream, from its first look to the log that comes
/// next.
#[derive(Debug, Default)]
pub(crate) struct LogTurn(Mutex<()>);

impl LogTurn {
    /// Waits for the turn. Taken before all others.
    pub(crate) fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock()
    }

    /// The turn, if nobody has it: a promotion may have it for long.
    pub(crate) fn take_now(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.try_lock()
    }
}

/// The turn to apply.
#[derive(Debug, Default)]
pub(crate) struct ApplyTurn(Mutex<ApplyState>);

impl ApplyTurn {
    /// Waits for the turn. Taken after `CheckpointTurn`, never before.
    pub(crate) fn take(&self) -> MutexGuard<'_, ApplyState> {
        self.0.lock()
    }

    /// The turn, if nobody has it.
    pub(crate) fn take_now(&self) -> Option<MutexGuard<'_, ApplyState>> {
        self.0.try_lock()
    }
}
