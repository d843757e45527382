//! The writes of the latest commits, kept while serializable transactions validate their reads.
//!
//! ```text
//!   validation:  watch | look at the memtables, outside   | few entries since, inside the log's critical section
//!   commits:           | entry | entry | entry | entry    | entry
//! ```
//! A long look takes place outside of the log's critical section. What enters the log meanwhile is in these entries, so
//! that what is left to be looked at inside is short. While no thread validates, a commit pays one load.
//!
//! Invariants:
//! * Every commit that enters the log after `watch` has returned has an entry, or `since` answers `None`. The entry of a
//!   commit is there before the log's critical section in which it entered has ended.
//! * What is done in the log's critical section does not grow with the number of entries: they are freed outside of it, and
//!   while the lock is free that it takes.

use std::sync::Arc;

use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

/// Memory for entries. All of them give way to the first one that has no room.
const BYTES_MAX: usize = 32 << 20;
/// What an entry takes besides its keys: itself, and the block that is shared by those who look at it.
const ENTRY_BYTES: usize = size_of::<Entry>() + size_of::<Packed>() + 2 * size_of::<usize>();
/// Entries of a block, which never grows.
const BLOCK_ENTRIES: usize = 1024;

/// What one commit has changed.
#[derive(Clone, Debug)]
pub(crate) struct WrittenKeys {
    packed: Option<Arc<Packed>>,
    /// It has defined, dropped or truncated tables, too.
    pub(crate) has_definitions: bool,
}

#[derive(Debug, Default)]
struct Packed {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl WrittenKeys {
    /// Keys that were not collected: the rows have to be looked for in the memtables.
    pub(crate) const UNKNOWN: WrittenKeys = WrittenKeys { packed: None, has_definitions: true };

    /// The keys that `visit_all` visits.
    pub(crate) fn collect(
        has_definitions: bool,
        visit_all: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> WrittenKeys {
        let mut packed = Packed::default();
        visit_all(&mut |key| {
            packed.bytes.extend_from_slice(key);
            packed.ends.push(packed.bytes.len());
        });
        WrittenKeys { packed: Some(Arc::new(packed)), has_definitions }
    }

    /// `None` if the keys were not collected.
    pub(crate) fn keys(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let packed = self.packed.as_deref()?;
        let starts = std::iter::once(0).chain(packed.ends.iter().copied());
        Some(starts.zip(&packed.ends).map(|(start, end)| &packed.bytes[start..*end]))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.packed.as_deref().map_or(0, |packed| packed.ends.len())
    }

    /// Bytes taken by its keys.
    fn key_bytes(&self) -> usize {
        let packed = |packed: &Packed| packed.bytes.capacity() + size_of::<usize>() * packed.ends.capacity();
        self.packed.as_deref().map_or(0, packed)
    }
}

type Entry = (Lsn, WrittenKeys);

#[derive(Debug, Default)]
struct Entries {
    /// In the order of their stamps. In blocks, so that no commit moves those of all others.
    blocks: Vec<Vec<Entry>>,
    bytes: usize,
    /// Commits stamped above have their entries.
    complete_above: Lsn,
}

impl Entries {
    fn push(&mut self, entry: Entry) {
        self.bytes += ENTRY_BYTES + entry.1.key_bytes();
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK_ENTRIES => block.push(entry),
            _ => {
                let mut block = Vec::with_capacity(BLOCK_ENTRIES);
                block.push(entry);
                self.blocks.push(block);
            }
        }
    }

    /// The commits stamped above `stamp`.
    fn above(&self, stamp: Lsn) -> impl Iterator<Item = &Entry> {
        let is_before = move |entry: &Entry| entry.0 <= stamp;
        let from = self.blocks.partition_point(|block| block.last().is_some_and(is_before));
        self.blocks[from..].iter().flatten().skip_while(move |entry| is_before(entry))
    }
}

/// Entries that are kept no longer: to be dropped outside of the log's critical section, and of whatever others wait for.
#[derive(Debug, Default)]
#[must_use = "to be dropped outside of the log's critical section"]
pub(crate) struct EvictedKeys {
    _blocks: Vec<Vec<Entry>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecentCommits {
    /// Validations under way.
    watches: AtomicU64,
    entries: Mutex<Entries>,
}

/// While it lives, commits leave entries.
#[derive(Debug)]
pub(crate) struct Watch<'r>(&'r RecentCommits);

impl RecentCommits {
    /// From now on commits leave entries. `last_entered` tells the stamp of the last commit in the log.
    pub(crate) fn watch(&self, last_entered: impl FnOnce() -> Lsn) -> Watch<'_> {
        let mut entries = self.entries.lock();
        if self.watches.fetch_add(1, Ordering::SeqCst) == 0 {
            // After the addition: a commit that has not seen it is stamped at most this.
            *entries = Entries { complete_above: last_entered(), ..Entries::default() };
        }
        Watch(self)
    }

    /// Whether a thread validates, and needs to know what is written.
    pub(crate) fn is_watched(&self) -> bool {
        self.watches.load(Ordering::SeqCst) > 0
    }

    /// A commit has entered the log. In the log's critical section, after the stamp can be seen and tables are changed.
    pub(crate) fn entered(&self, stamp: Lsn, written: WrittenKeys) -> EvictedKeys {
        if !self.is_watched() {
            return EvictedKeys::default();
        }
        let mut entries = self.entries.lock();
        // The last watch may have ended meanwhile.
        if !self.is_watched() {
            return EvictedKeys::default();
        }
        entries.push((stamp, written));
        if entries.bytes <= BYTES_MAX {
            return EvictedKeys::default();
        }
        let evicted =
            std::mem::replace(&mut *entries, Entries { complete_above: stamp, ..Entries::default() });
        EvictedKeys { _blocks: evicted.blocks }
    }

    /// The first commits stamped above `stamp`, in order, at most so many; `None` if some of them have no entry.
    pub(crate) fn since(&self, stamp: Lsn, at_most: usize) -> Option<Vec<Entry>> {
        let entries = self.entries.lock();
        if entries.complete_above > stamp {
            return None;
        }
        Some(entries.above(stamp).take(at_most).cloned().collect())
    }

    /// A watch has ended; what is not needed any more.
    fn end_watch(&self) -> EvictedKeys {
        let mut entries = self.entries.lock();
        if self.watches.fetch_sub(1, Ordering::SeqCst) > 1 {
            return EvictedKeys::default();
        }
        EvictedKeys { _blocks: std::mem::take(&mut *entries).blocks }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // Freed when the lock is free again: commits wait for it in the log's critical section.
        drop(self.0.end_watch());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&[u8]]) -> WrittenKeys {
        WrittenKeys::collect(false, |visit| names.iter().for_each(|name| visit(name)))
    }

    fn enter(recent: &RecentCommits, stamp: u64, written: WrittenKeys) {
        drop(recent.entered(Lsn::new(stamp), written));
    }

    fn stamps(recent: &RecentCommits, above: u64, at_most: usize) -> Option<Vec<u64>> {
        let entries = recent.since(Lsn::new(above), at_most)?;
        Some(entries.iter().map(|(stamp, _)| stamp.get()).collect())
    }

    #[test]
    fn commits_leave_entries_while_somebody_validates_and_no_longer() {
        let recent = RecentCommits::default();
        enter(&recent, 5, keys(&[b"unseen"]));
        let watch = recent.watch(|| Lsn::new(5));
        enter(&recent, 7, keys(&[b"a", b"", b"bc"]));
        enter(&recent, 9, WrittenKeys::UNKNOWN);
        let other = recent.watch(|| panic!("only the first looks where the log is"));
        assert_eq!(stamps(&recent, 5, 9), Some(vec![7, 9]));
        assert_eq!(stamps(&recent, 5, 1), Some(vec![7]));
        assert_eq!(stamps(&recent, 9, 9), Some(vec![]));
        assert_eq!(stamps(&recent, 4, 9), None, "what entered before the watch has no entry");
        let entries = recent.since(Lsn::new(5), 9).unwrap();
        assert_eq!(entries[0].1.keys().unwrap().collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
        assert_eq!((entries[0].1.count(), entries[1].1.keys().is_none()), (3, true));
        drop(watch);
        assert!(recent.is_watched());
        drop(other);
        assert!(!recent.is_watched());
        assert!(recent.entries.lock().blocks.is_empty());
    }

    #[test]
    fn memory_for_entries_is_bounded_and_what_is_lost_is_said() {
        let recent = RecentCommits::default();
        let _watch = recent.watch(|| Lsn::ZERO);
        let long = vec![0; BYTES_MAX / 4];
        for stamp in 1..=7 {
            enter(&recent, stamp, keys(&[&long]));
            assert!(recent.entries.lock().bytes <= BYTES_MAX);
        }
        assert_eq!(stamps(&recent, 0, 9), None);
        assert_eq!(stamps(&recent, 6, 9), Some(vec![7]));
        // One that alone takes too much.
        enter(&recent, 8, keys(&[&vec![0; BYTES_MAX + 1]]));
        assert_eq!((stamps(&recent, 7, 9), stamps(&recent, 8, 9)), (None, Some(vec![])));
    }

    #[test]
    fn entries_of_many_commits_are_found_from_any_of_them_on() {
        let recent = RecentCommits::default();
        let _watch = recent.watch(|| Lsn::ZERO);
        let last = 3 * u64::try_from(BLOCK_ENTRIES).unwrap();
        (1..=last).for_each(|stamp| enter(&recent, 2 * stamp, keys(&[])));
        for above in [0, 1, 2, 2046, 2047, 2048, 2049, 2050, 4096, 2 * last - 1] {
            let next = above / 2 * 2 + 2;
            let expected: Vec<u64> = (next..=2 * last).step_by(2).take(3).collect();
            assert_eq!(stamps(&recent, above, 3), Some(expected), "above {above}");
        }
        assert_eq!(stamps(&recent, 2 * last, 3), Some(vec![]));
    }

    /// How many have the keys of the entry.
    fn owners(written: &WrittenKeys) -> usize {
        Arc::strong_count(written.packed.as_ref().unwrap())
    }

    #[test]
    fn what_is_evicted_is_freed_by_the_caller() {
        let recent = RecentCommits::default();
        let watch = recent.watch(|| Lsn::ZERO);
        let (first, last) = (keys(&[b"first"]), keys(&[b"last"]));
        enter(&recent, 1, first.clone());
        let evicted = recent.entered(Lsn::new(2), keys(&[&vec![0; BYTES_MAX + 1]]));
        assert_eq!(owners(&first), 2, "freed where commits wait for it");
        drop(evicted);
        assert_eq!(owners(&first), 1, "kept although there is no room");
        enter(&recent, 3, last.clone());
        let other = recent.watch(|| panic!("only the first looks where the log is"));
        drop(watch);
        assert_eq!(owners(&last), 2, "somebody validates still");
        std::mem::forget(other);
        let evicted = recent.end_watch();
        assert!(recent.entries.try_lock().is_some_and(|entries| entries.bytes == 0));
        assert_eq!(owners(&last), 2, "freed where commits wait for it");
        drop(evicted);
        assert_eq!(owners(&last), 1, "kept although nobody validates");
    }

    #[test]
    fn the_count_of_memory_is_that_of_what_was_allocated() {
        let recent = RecentCommits::default();
        let _watch = recent.watch(|| Lsn::ZERO);
        let mut packed = Packed { bytes: Vec::with_capacity(1000), ends: Vec::with_capacity(100) };
        packed.bytes.push(b'k');
        packed.ends.push(1);
        let allocated = packed.bytes.capacity() + packed.ends.capacity() * size_of::<usize>();
        let written = WrittenKeys { packed: Some(Arc::new(packed)), has_definitions: false };
        enter(&recent, 1, written);
        let counted = recent.entries.lock().bytes;
        assert!(counted >= allocated + size_of::<Entry>() + size_of::<Packed>(), "{counted} of {allocated}");
    }
}
