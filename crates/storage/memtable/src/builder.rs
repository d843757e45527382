//! A memtable from rows that come in key order.
#![expect(unsafe_code, reason = "the builder owns the memtable and points into its arenas meanwhile")]

use seawall_types::Lsn;

use crate::entry::{EntryPointer, EntryRef};
use crate::memtable::Memtable;
use crate::pack::Packer;

/// Takes rows in strictly rising key order and packs them into a memtable, without a search for any of them.
pub struct MemtableBuilder {
    memtable: Memtable,
    entries: Vec<EntryPointer>,
}

impl MemtableBuilder {
    /// A builder of a memtable whose filter and directory are sized for `expected_bytes`.
    pub fn new(expected_bytes: usize) -> MemtableBuilder {
        MemtableBuilder { memtable: Memtable::new(expected_bytes), entries: Vec::new() }
    }

    /// A builder of a memtable that is expected to get so many rows.
    pub(crate) fn with_expected_rows(expected_rows: usize) -> MemtableBuilder {
        MemtableBuilder { memtable: Memtable::with_expected_rows(expected_rows), entries: Vec::new() }
    }

    /// Adds a row with one version; a value of `None` is a deletion.
    ///
    /// # Panics
    /// If `key` is not above the last one.
    pub fn push(&mut self, key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
        if let Some(last) = self.entries.last() {
            // SAFETY: the entry is in an arena of `self.memtable`.
            let last: EntryRef<'_> = unsafe { last.upgrade() };
            assert!(last.key() < key, "rows out of order");
        }
        let entry = EntryRef::create(self.memtable.shards().mine().arena(), key, stamp, value);
        self.entries.push(entry.pointer());
    }

    /// Gives the row that was added last another version, behind those that it has.
    ///
    /// # Panics
    /// If there is no row; in debug builds if the stamp is above that of the version before.
    pub(crate) fn push_older(&mut self, stamp: Lsn, value: Option<&[u8]>) {
        let last = self.entries.last().expect("a version belongs to a row");
        let shard = self.memtable.shards().mine();
        // SAFETY: the entry is in an arena of `self.memtable`.
        let last: EntryRef<'_> = unsafe { last.upgrade() };
        last.push_oldest(shard.arena(), stamp, value);
        shard.count_extra_version();
    }

    /// The memtable, from now on like any other.
    pub fn finish(self) -> Memtable {
        let MemtableBuilder { memtable, entries } = self;
        let mut packer = Packer::new(memtable.index().arena());
        let mut batch = memtable.lookup_batch();
        for entry in &entries {
            // SAFETY: the entry is in an arena of `memtable`, which outlives packer and batch.
            let entry = unsafe { entry.upgrade() };
            packer.push(entry);
            batch.push(entry);
        }
        batch.flush();
        memtable.index().set_root(packer.finish());
        memtable.shards().mine().count_rows(entries.len());
        memtable
    }
}
