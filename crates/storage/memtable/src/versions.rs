//! The versions of one row, for readers that look at more than one of them.

use seawall_types::Lsn;

use crate::entry::{EntryRef, Lookup};

/// The versions of one row, at least one of which has a stamp.
#[derive(Clone, Copy)]
pub struct Versions<'m>(EntryRef<'m>);

impl<'m> Versions<'m> {
    /// `None` if the row is only in commits that are pending or abandoned. A row that has a version with a stamp keeps one.
    pub(crate) fn new(entry: EntryRef<'m>) -> Option<Versions<'m>> {
        entry.newest_stamp().map(|_| Versions(entry))
    }

    /// What `snapshot` sees: the newest version whose stamp is at most `snapshot`.
    pub fn visible(&self, snapshot: Lsn) -> Lookup<'m> {
        self.0.visible(snapshot)
    }

    /// Stamp and value of the newest version; the value is `None` if it is a deletion.
    ///
    /// While others insert, the caller must hold a snapshot for as long as it uses the value; see [`Memtable::get`](crate::Memtable::get).
    pub fn newest(&self) -> (Lsn, Option<&'m [u8]>) {
        self.0.newest_value().expect("a row that has a version with a stamp keeps one")
    }

    /// Stamp of the newest version.
    pub fn newest_stamp(&self) -> Lsn {
        self.0.newest_stamp().expect("a row that has a version with a stamp keeps one")
    }

    /// All of them, newest first, of a memtable that nobody writes to any more.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Lsn, Option<&'m [u8]>)> + use<'m> {
        self.0.versions()
    }
}
