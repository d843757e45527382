//! The memtable as the engine sees it.

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::arena::Arena;
use crate::directory::{Directory, Known, LookupBatch, hash_key};
use crate::entry::{EntryRef, Lookup};
use crate::filter::Filter;
use crate::index::{Index, Inserted};
use crate::sabotage::{Defect, sabotaged};
use crate::shard::{Shard, Shards};
use crate::stamp::Stamp;
use crate::versions::Versions;

/// The versions of the rows changed since a checkpoint. Readers and writers use it at the same time through `&self`.
pub struct Memtable {
    number: MemtableNumber,
    index: Index,
    filter: Filter,
    directory: Directory,
    /// The highest horizon that a caller has told.
    horizon: AtomicU64,
    shards: Shards,
    /// Arenas that recovery filled; never allocated from again.
    adopted: Vec<Arena>,
}

/// What a row of 100 bytes takes with its key, header and share of the index.
const EXPECTED_ROW_BYTES: usize = 200;

/// Names a memtable; never used again in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemtableNumber(u64);

impl Memtable {
    /// An empty memtable whose [`Memtable::bytes_used`] is expected to grow to `expected_bytes`. This sizes its filter
    /// and its directory (one byte in 11), and limits nothing.
    pub fn new(expected_bytes: usize) -> Memtable {
        Memtable::with_expected_rows(expected_bytes / EXPECTED_ROW_BYTES)
    }

    /// An empty memtable that is expected to get so many rows.
    pub(crate) fn with_expected_rows(expected_rows: usize) -> Memtable {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Memtable {
            // Relaxed: numbers need to differ, nothing else.
            number: MemtableNumber(NEXT.fetch_add(1, Ordering::Relaxed)),
            index: Index::new(),
            filter: Filter::new(expected_rows),
            directory: Directory::new(expected_rows),
            horizon: AtomicU64::new(0),
            shards: Shards::new(),
            adopted: Vec::new(),
        }
    }

    /// Takes the memory of filter and directory now. The first rows of all threads take it otherwise, each of them waiting until the kernel
    /// has cleared a huge page.
    pub fn populate(&self) {
        self.filter.populate();
        self.directory.populate();
    }

    /// Gives the row `key` a new version; a value of `None` deletes it.
    ///
    /// The versions of one key must come in the order of their stamps, as row locks see to. `horizon` tells an LSN
    /// that every snapshot alive now or later is at or above; it is asked only if the row has two versions or more
    /// and what it told before does not suffice. A version that no such snapshot can see is written over, so a row
    /// that is updated again and again keeps its size. `horizon` must not use this memtable.
    ///
    /// # Panics
    /// If the key or the value is longer than [`crate::KEY_BYTES_MAX`] or [`crate::VALUE_BYTES_MAX`]; in debug builds
    /// if the stamp is below the row's newest one.
    pub fn insert(&self, key: &[u8], stamp: Lsn, value: Option<&[u8]>, horizon: impl Fn() -> Lsn) {
        self.put(key, stamp.into(), value, horizon);
    }

    pub(crate) fn put(&self, key: &[u8], stamp: Stamp, value: Option<&[u8]>, horizon: impl Fn() -> Lsn) {
        let shard = self.shards.mine();
        let hash = hash_key(key);
        if !self.filter.may_contain(hash) {
            // Not needed before the row is in the index: by then it is in the cache.
            self.directory.prefetch(hash);
        } else if let Known::Entry(entry) = self.directory.find(hash, key) {
            return self.push(entry, shard, stamp, value, horizon);
        }
        match self.index.find_or_insert(key, || EntryRef::create(shard.arena(), key, stamp, value)) {
            Inserted::Existing(entry) => self.push(entry, shard, stamp, value, horizon),
            Inserted::New(entry) => {
                // Only now: should two threads insert the same row, the index decides which entry is the row's.
                if hash.is_multiple_of(64) && sabotaged(Defect::FilterForgets) {
                    return;
                }
                self.filter.insert(hash);
                self.directory.insert(hash, entry);
                shard.count_rows(1);
            }
        }
    }

    /// What `snapshot` sees of the row `key` here: its newest version whose stamp is at most `snapshot`.
    ///
    /// The value may be used while the snapshot is alive, that is, while it holds back the horizon told to
    /// [`Memtable::insert`]; after that it may be written over.
    pub fn get(&self, key: &[u8], snapshot: Lsn) -> Lookup<'_> {
        self.find(key).map_or(Lookup::Missing, |entry| entry.visible(snapshot))
    }

    /// Stamp of the newest version of the row `key`, whoever sees it.
    pub fn newest_stamp(&self, key: &[u8]) -> Option<Lsn> {
        self.find(key).and_then(EntryRef::newest_stamp)
    }

    /// All versions of the row `key`, if one has a stamp.
    pub fn versions(&self, key: &[u8]) -> Option<Versions<'_>> {
        self.find(key).and_then(Versions::new)
    }

    /// False if there surely is no version of the row `key`. Costs one cache line, however large the memtable.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.filter.may_contain(hash_key(key))
    }

    /// Keys that divide the rows from `from` on, and before `to`, into at most `parts` parts of about as many rows,
    /// ascending. Looks at the inner nodes of the index only; there are none if there are less than some hundred rows.
    pub fn dividing_keys(&self, from: &[u8], to: Option<&[u8]>, parts: usize) -> Vec<&[u8]> {
        let separators = self.index.separators(from, to);
        let parts = parts.min(separators.len() + 1);
        // Before each leaf but the first stands a separator.
        (1..parts).map(|part| separators[part * (separators.len() + 1) / parts - 1].key()).collect()
    }

    /// Puts a version behind all others of the row `key`: what the checkpoint found in the tree, for old snapshots.
    /// Several threads may do so at a time, but not for the same row.
    ///
    /// # Panics
    /// If there is no such row; in debug builds if the stamp is above that of the row's oldest version.
    pub fn add_base(&self, key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
        let shard = self.shards.mine();
        let entry = self.index.find(key).expect("a base belongs to a row of the memtable");
        entry.push_oldest(shard.arena(), stamp, value);
        shard.count_extra_version();
    }

    /// Bytes of memory taken: rows, versions and index, not filter and directory.
    pub fn bytes_used(&self) -> usize {
        self.shards.bytes_used()
            + self.index.bytes_used()
            + self.adopted.iter().map(Arena::bytes_used).sum::<usize>()
    }

    /// Bytes of filter and directory, whose sizes are fixed. They take all of it soon: a few hundred rows are in every huge
    /// page of them.
    pub fn table_bytes(&self) -> usize {
        self.filter.bytes() + self.directory.bytes()
    }

    /// Bytes of memory taken, of all of it.
    pub fn memory_bytes(&self) -> usize {
        self.bytes_used() + self.table_bytes()
    }

    /// How many rows (different keys) there are, deleted ones included.
    pub fn row_count(&self) -> usize {
        self.shards.row_count()
    }

    /// How many versions are kept.
    pub fn version_count(&self) -> usize {
        self.shards.row_count() + self.shards.extra_version_count()
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.row_count() == 0
    }

    pub(crate) fn number(&self) -> MemtableNumber {
        self.number
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Takes entries that are already in the index, or soon will be, into filter and directory.
    pub(crate) fn lookup_batch(&self) -> LookupBatch<'_> {
        LookupBatch::new(&self.filter, &self.directory)
    }

    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Takes over an arena whose entries are about to be put into the index.
    pub(crate) fn adopt(&mut self, arena: Arena) {
        self.adopted.push(arena);
    }

    fn find(&self, key: &[u8]) -> Option<EntryRef<'_>> {
        let hash = hash_key(key);
        if !self.filter.may_contain(hash) {
            return None;
        }
        match self.directory.find(hash, key) {
            Known::Entry(entry) => Some(entry),
            Known::Absent => None,
            Known::Unknown => self.index.find(key),
        }
    }

    fn push<'m>(
        &'m self,
        entry: EntryRef<'m>,
        shard: &'m Shard,
        stamp: Stamp,
        value: Option<&[u8]>,
        horizon: impl Fn() -> Lsn,
    ) {
        let reaches = |stamp| self.horizon_reaches(stamp, horizon);
        if entry.push(shard.arena(), stamp, value, reaches) {
            shard.count_extra_version();
        }
    }

    fn horizon_reaches(&self, stamp: Lsn, horizon: impl Fn() -> Lsn) -> bool {
        // Acquire pairs with the release below: readers that ended before another thread asked for the horizon have
        // read before this thread writes.
        if self.horizon.load(Ordering::Acquire) >= stamp.get() {
            return true;
        }
        let told = horizon();
        self.horizon.fetch_max(told.get(), Ordering::AcqRel);
        told >= stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_asked_only_when_needed() {
        let asked = std::cell::Cell::new(0);
        let memtable = Memtable::new(0);
        let insert = |stamp: u64, horizon: u64| {
            let tell = || {
                asked.set(asked.get() + 1);
                Lsn::new(horizon)
            };
            memtable.insert(b"row", Lsn::new(stamp), Some(b"value"), tell);
            asked.get()
        };
        assert_eq!(insert(1, 0), 0, "a new row");
        assert_eq!(insert(2, 0), 0, "one version");
        assert_eq!(insert(3, 10), 1, "two versions, and nothing told yet");
        for stamp in 4..=11 {
            assert_eq!(insert(stamp, 20), 1, "10 suffices while the version before is at most 10");
        }
        assert_eq!(insert(12, 20), 2, "10 does not reach 11");
        assert_eq!((memtable.row_count(), memtable.version_count()), (1, 2));
    }

    #[test]
    fn an_empty_memtable_is_small_and_has_nothing() {
        let memtable = Memtable::new(1 << 20);
        assert!(memtable.is_empty());
        assert!(memtable.bytes_used() < 16 << 10);
        assert_eq!(memtable.get(b"", Lsn::MAX), Lookup::Missing);
        assert_eq!(memtable.newest_stamp(b"a"), None);
    }

    #[test]
    fn a_memtable_is_shared_by_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Memtable>();
        shared::<crate::Cursor>();
        shared::<crate::ReplayPartition>();
        shared::<crate::MemtableBuilder>();
    }
}
