//! Counts for statistics.

use std::sync::atomic::AtomicU64;

use crate::catalog::reclaim_counters::ReclaimCounters;
use crate::checkpoint::statistics::CheckpointHistory;
use crate::error::Error;
use crate::inspect::commit_stages::CommitStageCounters;
use crate::inspect::logged_rows::LoggedByStorage;
use crate::recovery::statistics::RecoveryStatistics;
use crate::runs::merge_counters::MergeCounters;
use crate::standby::phases::Promotion;

/// Counted while the database is open.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
    pub(crate) checkpoint_history: seawall_sync::Mutex<CheckpointHistory>,
    pub(crate) last_checkpoint_error: seawall_sync::Mutex<Option<Error>>,
    /// Why a standby's last attempt to apply failed, if it did.
    pub(crate) last_apply_error: seawall_sync::Mutex<Option<Error>>,
    pub(crate) reclaim: ReclaimCounters,
    pub(crate) run_merges: MergeCounters,
    pub(crate) commit_stages: CommitStageCounters,
    pub(crate) logged_by_storage: LoggedByStorage,
    pub(crate) recovery: seawall_sync::Mutex<RecoveryStatistics>,
    /// Of this process, if it was a standby and was promoted.
    pub(crate) promotion: seawall_sync::Mutex<Option<Promotion>>,
}
