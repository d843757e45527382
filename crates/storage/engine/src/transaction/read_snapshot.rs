//! The moment that one read of a transaction sees.

use seawall_types::Lsn;

use crate::snapshots::RegisteredSnapshot;

/// The snapshot of one read.
#[derive(Debug)]
pub(crate) enum ReadSnapshot {
    /// The transaction keeps it registered: its own snapshot, or that of its statement.
    Kept(Lsn),
    /// The read has a snapshot of its own, under `ReadCommitted` outside of a statement.
    Own(RegisteredSnapshot),
}

impl ReadSnapshot {
    pub(crate) fn lsn(&self) -> Lsn {
        match self {
            ReadSnapshot::Kept(lsn) => *lsn,
            ReadSnapshot::Own(snapshot) => snapshot.lsn(),
        }
    }
}
