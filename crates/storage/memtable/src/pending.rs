//! Versions that are in the memtable before their commit has a place in the log.
//!
//! ```text
//!   version of row a --+
//!   version of row b --+--> status of the commit:  pending --publish--> its stamp
//!   version of row c --+                               \--drop-------> abandoned
//! ```
//! A large commit inserts its rows first, which takes its time, and gives all of them their stamp with one store. So
//! what other commits wait for does not grow with its rows.
//!
//! Invariants:
//! * A status is pending until it gets a stamp or is abandoned, and then never changes again.
//! * A version whose status is not a stamp is seen by no snapshot, no look at the newest version, and no cursor.
//! * Versions of one row are inserted under the row's lock, and the lock is released after the status is decided. So at
//!   most the newest version of a row is pending, and the next one takes the place of an abandoned one, and its memory.

use seawall_types::Lsn;

use crate::memtable::Memtable;
use crate::stamp::CommitStatus;

/// A commit whose versions nobody sees before it is published. Dropped without that, nobody ever does.
pub struct PendingCommit<'m> {
    memtable: &'m Memtable,
    status: &'m CommitStatus,
}

impl Memtable {
    /// A commit whose versions are inserted before it has a stamp: none of them is seen before it is published.
    pub fn begin_pending(&self) -> PendingCommit<'_> {
        PendingCommit { memtable: self, status: CommitStatus::create(self.shards().mine().arena()) }
    }
}

impl PendingCommit<'_> {
    /// Gives the row `key` a new version, as [`Memtable::insert`] does.
    pub fn insert(&self, key: &[u8], value: Option<&[u8]>, horizon: impl Fn() -> Lsn) {
        self.memtable.put(key, self.status.into(), value, horizon);
    }

    /// Stamps all versions at once. Every later stamp in the memtable must be higher.
    pub fn publish(&self, stamp: Lsn) {
        assert!(self.status.publish(stamp), "a commit is published once");
    }
}

impl Drop for PendingCommit<'_> {
    fn drop(&mut self) {
        // Does nothing after `publish`.
        self.status.abandon();
    }
}
