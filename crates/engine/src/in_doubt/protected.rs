//! What in-doubt transactions have read under `Serializable`: nobody may commit a change of it before they are decided.
//!
//! A serializable commit is explained by its place in the log: all that it read is unchanged there. The place of a
//! prepared transaction is that of its decision, which must not be refused any more. So its reads are validated at the
//! prepare, like those of a commit, and from then on protected.
//!
//! A prepare protects its reads *before* it looks for prepared transactions that wrote what it has read, and both before
//! it enters the log. Whoever enters the log looks at what is protected. So of two prepared transactions of which one has
//! read what the other has written, at least one is refused.

use std::ops::RangeBounds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_io::WaitWord;
use seawall_types::TableId;

use crate::lock_table::LockOwner;
use crate::row_key;
use crate::transaction::ReadItem;

#[derive(Debug, Default)]
struct Reads {
    by_owner: FxHashMap<LockOwner, Vec<ReadItem>>,
    /// How many protect each row.
    rows: FxHashMap<Vec<u8>, usize>,
    /// Ranges lie within one table each.
    ranges: FxHashMap<Option<TableId>, Vec<(LockOwner, ReadItem)>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ProtectedReads {
    /// Transactions that protect anything: mostly none.
    owners: AtomicU64,
    reads: Mutex<Reads>,
    changed: WaitWord,
}

impl ProtectedReads {
    /// From now on nobody but `owner` commits a change of `reads`.
    pub(crate) fn protect(&self, owner: LockOwner, items: Vec<ReadItem>) {
        if items.is_empty() {
            return;
        }
        let mut reads = self.reads.lock();
        for item in &items {
            match item {
                ReadItem::Row(key) => *reads.rows.entry(key.clone()).or_default() += 1,
                ReadItem::Range(..) => {
                    reads.ranges.entry(table_of(item)).or_default().push((owner, item.clone()));
                }
                // Held by a count of its own: `OpenObject::hold_in_doubt`.
                ReadItem::Object(_) => {}
            }
        }
        reads.by_owner.insert(owner, items);
        // Under the mutex, so that who sees no owner came before this one.
        self.owners.fetch_add(1, Ordering::SeqCst);
    }

    /// The transaction is decided, or was not prepared after all.
    pub(crate) fn unprotect(&self, owner: LockOwner) {
        if self.owners.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut reads = self.reads.lock();
        let Some(items) = reads.by_owner.remove(&owner) else { return };
        for item in &items {
            match item {
                ReadItem::Row(key) => {
                    let left = reads.rows.get_mut(key).map(|count| {
                        *count -= 1;
                        *count
                    });
                    if left == Some(0) {
                        reads.rows.remove(key);
                    }
                }
                ReadItem::Range(..) => {
                    let table = table_of(item);
                    let of_table = reads.ranges.entry(table).or_default();
                    of_table.retain(|(other, _)| *other != owner);
                    if of_table.is_empty() {
                        reads.ranges.remove(&table);
                    }
                }
                ReadItem::Object(_) => {}
            }
        }
        self.owners.fetch_sub(1, Ordering::SeqCst);
        drop(reads);
        self.changed.wake_all();
    }

    /// Whether a transaction other than `owner` has read one of the rows. Cheap as long as nobody protects anything.
    pub(crate) fn covers_any<'r>(&self, owner: LockOwner, row_keys: impl Iterator<Item = &'r [u8]>) -> bool {
        if self.owners.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let reads = self.reads.lock();
        let own = reads.by_owner.get(&owner).map_or(&[][..], |items| items);
        for key in row_keys {
            let by_own = own.iter().filter(|item| matches!(item, ReadItem::Row(row) if row == key)).count();
            if reads.rows.get(key).is_some_and(|count| *count > by_own) {
                return true;
            }
            let ranges = reads.ranges.get(&row_key::table_of(key)).map_or(&[][..], |ranges| ranges);
            if ranges.iter().any(|(other, range)| *other != owner && covers(range, key)) {
                return true;
            }
        }
        false
    }

    /// What to wait on: read before the look at what is protected.
    pub(crate) fn seen(&self) -> u32 {
        self.changed.read()
    }

    /// Waits until something is no longer protected that was when `seen` was read, at most so long.
    pub(crate) fn wait(&self, seen: u32, at_most: Duration) {
        self.changed.wait(seen, Some(at_most));
    }
}

/// Whether a change of the row would change what was read.
pub(crate) fn covers(item: &ReadItem, row_key: &[u8]) -> bool {
    match item {
        ReadItem::Row(key) => key == row_key,
        ReadItem::Range(from, to) => {
            let bounds = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
            RangeBounds::<[u8]>::contains(&bounds, row_key)
        }
        ReadItem::Object(_) => false,
    }
}

fn table_of(range: &ReadItem) -> Option<TableId> {
    let ReadItem::Range(std::ops::Bound::Included(from) | std::ops::Bound::Excluded(from), _) = range else {
        return None;
    };
    row_key::table_of(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    #[test]
    fn protected_rows_and_ranges_are_covered_until_their_last_owner_goes() {
        let table = |key: &[u8]| row_key::encode(TableId::new(70), key);
        let protected = ProtectedReads::default();
        let (first, second, nobody) = (LockOwner(1), LockOwner(2), LockOwner(9));
        let covers = |owner, key: &[u8]| protected.covers_any(owner, [&table(key)[..]].into_iter());
        let range = ReadItem::Range(Bound::Included(table(b"m")), Bound::Excluded(table(b"p")));
        protected.protect(first, vec![ReadItem::Row(table(b"a")), range.clone()]);
        protected.protect(second, vec![ReadItem::Row(table(b"a"))]);
        assert!(covers(nobody, b"a") && covers(nobody, b"m") && covers(nobody, b"oz"));
        assert!(!covers(nobody, b"b") && !covers(nobody, b"p"));
        assert!(covers(first, b"a"), "the other has read it too");
        assert!(!covers(first, b"n"), "its own range");
        let other_table = row_key::encode(TableId::new(71), b"n");
        assert!(!protected.covers_any(nobody, [&other_table[..]].into_iter()));
        protected.unprotect(first);
        assert!(covers(nobody, b"a") && !covers(nobody, b"n") && !covers(second, b"a"));
        protected.unprotect(second);
        assert!(!covers(nobody, b"a"));
        assert_eq!(protected.owners.load(Ordering::SeqCst), 0);
        assert!(protected.reads.lock().ranges.is_empty() && protected.reads.lock().rows.is_empty());
    }
}
