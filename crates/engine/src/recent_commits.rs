//! What the latest commits have written, kept while serializable transactions validate what they have read.
//!
//! ```text
//!   validation:  watch | look at the memtables, outside   | few entries since, inside the log's critical section
//!   commits:           | entry | entry | entry | entry    | entry
//! ```
//! A long look takes place outside of the log's critical section. What enters the log meanwhile is in these entries, so
//! that what is left to be looked at inside is short. While nobody validates, a commit pays one load.
//!
//! Invariant: every commit that enters the log after `watch` has returned has an entry, or `since` answers `None`. The entry of a commit is there before the log's critical section in which it entered has ended.

use std::collections::VecDeque;
use std::sync::Arc;

use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

/// Memory for entries. The oldest give way to new ones.
const BYTES_MAX: usize = 32 << 20;
/// What an entry takes besides its keys.
const ENTRY_BYTES: usize = 64;

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

    fn memory(&self) -> usize {
        let packed = self
            .packed
            .as_deref()
            .map_or(0, |packed| packed.bytes.len() + size_of::<usize>() * packed.ends.len());
        ENTRY_BYTES + packed
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// In the order of their stamps.
    all: VecDeque<(Lsn, WrittenKeys)>,
    bytes: usize,
    /// Commits stamped above have their entries.
    complete_above: Lsn,
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

    /// Whether somebody validates, and needs to know what is written.
    pub(crate) fn is_watched(&self) -> bool {
        self.watches.load(Ordering::SeqCst) > 0
    }

    /// A commit has entered the log. In the log's critical section, after the stamp can be seen and tables are changed.
    pub(crate) fn entered(&self, stamp: Lsn, written: WrittenKeys) {
        if !self.is_watched() {
            return;
        }
        let mut entries = self.entries.lock();
        entries.bytes += written.memory();
        entries.all.push_back((stamp, written));
        while entries.bytes > BYTES_MAX {
            let Some((stamp, oldest)) = entries.all.pop_front() else { break };
            entries.bytes -= oldest.memory();
            entries.complete_above = stamp;
        }
    }

    /// The first commits stamped above `stamp`, in order, at most so many; `None` if some of them have no entry.
    pub(crate) fn since(&self, stamp: Lsn, at_most: usize) -> Option<Vec<(Lsn, WrittenKeys)>> {
        let entries = self.entries.lock();
        if entries.complete_above > stamp {
            return None;
        }
        let from = entries.all.partition_point(|(entered, _)| *entered <= stamp);
        Some(entries.all.iter().skip(from).take(at_most).cloned().collect())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut entries = self.0.entries.lock();
        if self.0.watches.fetch_sub(1, Ordering::SeqCst) == 1 {
            *entries = Entries::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&[u8]]) -> WrittenKeys {
        WrittenKeys::collect(false, |visit| names.iter().for_each(|name| visit(name)))
    }

    fn stamps(recent: &RecentCommits, above: u64, at_most: usize) -> Option<Vec<u64>> {
        let entries = recent.since(Lsn::new(above), at_most)?;
        Some(entries.iter().map(|(stamp, _)| stamp.get()).collect())
    }

    #[test]
    fn commits_leave_entries_while_somebody_validates_and_no_longer() {
        let recent = RecentCommits::default();
        recent.entered(Lsn::new(5), keys(&[b"unseen"]));
        let watch = recent.watch(|| Lsn::new(5));
        recent.entered(Lsn::new(7), keys(&[b"a", b"", b"bc"]));
        recent.entered(Lsn::new(9), WrittenKeys::UNKNOWN);
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
        assert!(recent.entries.lock().all.is_empty());
    }

    #[test]
    fn memory_for_entries_is_bounded_and_what_is_lost_is_said() {
        let recent = RecentCommits::default();
        let _watch = recent.watch(|| Lsn::ZERO);
        let long = vec![0; BYTES_MAX / 4];
        for stamp in 1..=8 {
            recent.entered(Lsn::new(stamp), keys(&[&long]));
        }
        assert!(recent.entries.lock().bytes <= BYTES_MAX);
        assert_eq!(stamps(&recent, 0, 9), None);
        assert_eq!(stamps(&recent, 7, 9), Some(vec![8]));
    }
}
