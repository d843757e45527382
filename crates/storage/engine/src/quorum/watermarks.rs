//! Up to where a quorum of standbys has the log, for the commit queue.

use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::options::ReplicationLevel;

/// The positions that a quorum of standbys has come to. Each is at most the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumPositions {
    /// Handed to their operating systems up to here.
    pub written: Lsn,
    /// On their stable storage up to here.
    pub flushed: Lsn,
    /// Shown to their readers up to here.
    pub applied: Lsn,
}

/// The highest positions that a quorum has ever had. What a quorum once had counts for good: those who wait behind it were ahead then.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    written: AtomicU64,
    flushed: AtomicU64,
    applied: AtomicU64,
    /// Commits wait for standbys.
    are_required: AtomicBool,
}

impl Watermarks {
    /// Whether commits wait for standbys.
    pub(crate) fn are_required(&self) -> bool {
        self.are_required.load(Ordering::SeqCst)
    }

    /// From now on commits wait for standbys, or do not.
    pub(crate) fn require(&self, required: bool) {
        self.are_required.store(required, Ordering::SeqCst);
    }

    /// A quorum is so far.
    pub(crate) fn raise(&self, positions: QuorumPositions) {
        self.written.fetch_max(positions.written.get(), Ordering::SeqCst);
        self.flushed.fetch_max(positions.flushed.get(), Ordering::SeqCst);
        self.applied.fetch_max(positions.applied.get(), Ordering::SeqCst);
    }

    /// Up to where a quorum has the log; everything, where none is required.
    pub(crate) fn at(&self, level: ReplicationLevel) -> Lsn {
        let mark = match level {
            ReplicationLevel::Written => &self.written,
            ReplicationLevel::Flushed => &self.flushed,
            ReplicationLevel::Applied => &self.applied,
        };
        if self.are_required() { Lsn::new(mark.load(Ordering::SeqCst)) } else { Lsn::MAX }
    }
}
