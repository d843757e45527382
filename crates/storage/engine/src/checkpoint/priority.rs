//! Who goes first on a processor that a checkpoint and others want.

/// The priority of the long parts of a checkpoint: those that merge and write pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The caller's, who waits for the checkpoint.
    Own,
    /// Writers go first: a checkpoint has time until the memtable is full, and the throttle sees to it that it ends before that.
    GivesWay,
}

impl Priority {
    pub(crate) fn run<R: Send>(self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Priority::Own => work(),
            Priority::GivesWay => seawall_sync::giving_way(work),
        }
    }
}
