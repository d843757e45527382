//! The reads and writes of serializable transactions in doubt, which keep these transactions in one order with all others.
//!
//! A serializable commit is explained by its place in the log: all that it read is unchanged there. The place of a prepared
//! transaction is that of its decision, which must not be refused any more. So its reads are validated at the prepare, like
//! those of a commit, and from then on protected: nobody commits, or prepares, a change of them. And nobody is prepared who
//! has read what a transaction in doubt has written, or a table that it defines, as it would have to be decided before that one.
//!
//! A prepare *enters* what it has read and written before its place in the log, outside of any critical section; there it
//! means nothing yet. In the log's critical section two questions are asked, of a prepare both, of a commit only the first:
//! does anybody protect what this one writes? Has anybody in doubt written what it has read, or defined a table of it
//! (`OpenObject::is_settled`)? If not, what it has entered counts from then on (`count`). So of two that do not go together
//! the second one in the log waits, or is refused, and one that waits keeps nobody else from anything.
//!
//! The first question takes one look, without a lock, while nobody protects anything; otherwise a search for each row. Where
//! that is long it is asked before the critical section, and inside only whether anybody has begun to count since
//! (`counted`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_sync::{CancelToken, Mutex, WaitWord};

use crate::in_doubt::ranges::{End, RangeId, RangeMap};
use crate::transaction::lock::LockOwner;
use crate::transaction::read_item::{ReadItem, range_of};

/// Keys that are entered, taken out or looked for without a pause for others.
const KEYS_TOGETHER: usize = 256;

/// So many rows of others that do not count yet are passed over in the log's critical section at most.
pub(crate) const PASSED_OVER_MAX: usize = 1_000;

/// A transaction that has entered what it has read and written.
#[derive(Debug)]
pub(crate) struct Holder {
    owner: LockOwner,
    /// It has its place in the log. Set in the log's critical section, where it is asked for, too.
    counts: AtomicBool,
}

impl Holder {
    fn is_in_the_way_of(&self, owner: LockOwner) -> bool {
        self.owner != owner && self.counts.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
struct Entered {
    written: Vec<Arc<[u8]>>,
    read: Vec<RangeId>,
}

#[derive(Debug, Default)]
struct Keys {
    by_owner: FxHashMap<LockOwner, Entered>,
    /// A row is a range of one key.
    read: RangeMap<Arc<Holder>>,
    /// Locked, so each by one.
    written: BTreeMap<Arc<[u8]>, Arc<Holder>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Protected {
    /// Transactions that have entered reads: mostly none.
    readers: AtomicU64,
    /// Transactions that have begun to count so far. Changed in the log's critical section only.
    counted: AtomicU64,
    keys: Mutex<Keys>,
    changed: Arc<WaitWord>,
}

impl Protected {
    /// Enters what a transaction has read and written.
    pub(crate) fn enter<'k>(
        &self,
        owner: LockOwner,
        written: impl Iterator<Item = &'k [u8]>,
        reads: &[ReadItem],
    ) -> Arc<Holder> {
        let holder = Arc::new(Holder { owner, counts: AtomicBool::new(false) });
        let mut entered = Entered::default();
        entered.written.extend(written.map(Arc::<[u8]>::from));
        let ranges: Vec<_> = reads.iter().filter_map(range_of).collect();
        if !ranges.is_empty() {
            self.readers.fetch_add(1, Ordering::SeqCst);
        }
        for keys in entered.written.chunks(KEYS_TOGETHER) {
            let of_holder = keys.iter().map(|key| (Arc::clone(key), Arc::clone(&holder)));
            self.keys.lock().written.extend(of_holder);
        }
        for ranges in ranges.chunks(KEYS_TOGETHER) {
            let mut keys = self.keys.lock();
            for (start, end) in ranges {
                entered.read.push(keys.read.insert(Arc::clone(start), end.clone(), Arc::clone(&holder)));
            }
        }
        self.keys.lock().by_owner.insert(owner, entered);
        holder
    }

    /// What it has entered counts. In the log's critical section; or at open, before anybody else is there.
    pub(crate) fn count(&self, holder: &Holder) {
        holder.counts.store(true, Ordering::SeqCst);
        self.counted.fetch_add(1, Ordering::SeqCst);
    }

    /// How many transactions have begun to count so far. As long as this stays, an answer of "no" to one of the questions
    /// below does.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::SeqCst)
    }

    /// The transaction is decided, or was not prepared after all: takes out what it has entered.
    pub(crate) fn leave(&self, owner: LockOwner) {
        let Some(entered) = self.keys.lock().by_owner.remove(&owner) else { return };
        for written in entered.written.chunks(KEYS_TOGETHER) {
            let mut keys = self.keys.lock();
            written.iter().for_each(|key| drop(keys.written.remove(key)));
        }
        for read in entered.read.chunks(KEYS_TOGETHER) {
            let mut keys = self.keys.lock();
            read.iter().for_each(|id| keys.read.remove(id));
        }
        if !entered.read.is_empty() {
            self.readers.fetch_sub(1, Ordering::SeqCst);
        }
        self.changed.wake_all();
    }

    /// Whether another transaction in doubt has read one of the rows. Cheap as long as nobody protects anything.
    pub(crate) fn has_read_any<'k>(
        &self,
        owner: LockOwner,
        row_keys: impl Iterator<Item = &'k [u8]>,
    ) -> bool {
        if self.readers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let counts = |holder: &Arc<Holder>| holder.is_in_the_way_of(owner);
        let mut row_keys = row_keys.peekable();
        while row_keys.peek().is_some() {
            let keys = self.keys.lock();
            if row_keys.by_ref().take(KEYS_TOGETHER).any(|key| keys.read.any_covers(key, &counts)) {
                return true;
            }
        }
        false
    }

    /// Whether another transaction in doubt has written something of what `owner` has read; `None` if that is still open after
    /// so many rows of others that do not count yet.
    pub(crate) fn has_written_any(
        &self,
        owner: LockOwner,
        reads: &[ReadItem],
        passed_over_max: usize,
    ) -> Option<bool> {
        if reads.chunks(KEYS_TOGETHER).any(|reads| self.has_written_row(owner, reads)) {
            return Some(true);
        }
        let mut left = passed_over_max;
        // Tables are held by counts of their own: `OpenObject::hold_in_doubt`, `OpenObject::hold_definition`.
        let ranges = reads.iter().filter(|read| matches!(read, ReadItem::Range(..))).filter_map(range_of);
        for (start, end) in ranges {
            if self.has_written_in(owner, start, &end, &mut left)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn has_written_row(&self, owner: LockOwner, reads: &[ReadItem]) -> bool {
        let keys = self.keys.lock();
        let is_met = |key: &[u8]| keys.written.get(key).is_some_and(|holder| holder.is_in_the_way_of(owner));
        reads.iter().any(|read| matches!(read, ReadItem::Row(key) if is_met(key)))
    }

    /// Goes through the range in pieces: others need the latch, in the log's critical section, too.
    fn has_written_in(
        &self,
        owner: LockOwner,
        start: Arc<[u8]>,
        end: &End,
        left: &mut usize,
    ) -> Option<bool> {
        let end = match end {
            End::Before(end) => Bound::Excluded(&end[..]),
            End::Unbounded => Bound::Unbounded,
        };
        let mut next = Some(Bound::Included(start));
        while let Some(from) = next.take() {
            let keys = self.keys.lock();
            let rows = keys.written.range::<[u8], _>((from.as_ref().map(|key| &key[..]), end));
            for (number, (key, holder)) in rows.take(KEYS_TOGETHER).enumerate() {
                if holder.is_in_the_way_of(owner) {
                    return Some(true);
                }
                if holder.owner != owner {
                    *left = left.checked_sub(1)?;
                }
                if number + 1 == KEYS_TOGETHER {
                    next = Some(Bound::Excluded(Arc::clone(key)));
                }
            }
        }
        Some(false)
    }

    /// What to wait on: read before the look at what is protected.
    pub(crate) fn seen(&self) -> u32 {
        self.changed.read()
    }

    /// How many threads wait for a decision.
    pub(crate) fn waiting_count(&self) -> u64 {
        u64::from(self.changed.sleepers())
    }

    /// The database takes no more writes: whoever waits here looks again.
    pub(crate) fn wake_waiting(&self) {
        self.changed.wake_all();
    }

    /// Waits until something is no longer protected that was when `seen` was read, at most so long; may return early.
    pub(crate) fn wait(&self, seen: u32, at_most: Duration, cancel: Option<&CancelToken>) {
        match cancel {
            Some(cancel) => cancel.wait(&self.changed, seen, Some(at_most)),
            None => self.changed.wait(seen, Some(at_most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &[u8]) -> ReadItem {
        ReadItem::Row(key.to_vec())
    }

    fn range(from: &[u8], to: &[u8]) -> ReadItem {
        ReadItem::Range(Bound::Included(from.to_vec()), Bound::Excluded(to.to_vec()))
    }

    #[test]
    fn reads_are_protected_from_the_prepare_until_their_last_owner_goes() {
        let protected = Protected::default();
        let (first, second, nobody) = (LockOwner(1), LockOwner(2), LockOwner(9));
        let covers = |owner, key: &[u8]| protected.has_read_any(owner, [key].into_iter());
        let one = protected.enter(first, [&b"n"[..]].into_iter(), &[row(b"a"), range(b"m", b"p")]);
        assert!(!covers(nobody, b"a"), "it has no place in the log yet");
        protected.count(&one);
        let two = protected.enter(second, std::iter::empty(), &[row(b"a")]);
        protected.count(&two);
        assert!(covers(nobody, b"a") && covers(nobody, b"m") && covers(nobody, b"oz"));
        assert!(!covers(nobody, b"b") && !covers(nobody, b"p") && !covers(nobody, b"a\0"));
        assert!(covers(first, b"a"), "the other has read it too");
        assert!(!covers(first, b"n"), "its own range");
        protected.leave(first);
        assert!(covers(nobody, b"a") && !covers(nobody, b"n") && !covers(second, b"a"));
        protected.leave(second);
        assert!(!covers(nobody, b"a"));
        assert_eq!(protected.readers.load(Ordering::SeqCst), 0);
        let keys = protected.keys.lock();
        assert!(keys.read.is_empty() && keys.written.is_empty() && keys.by_owner.is_empty());
    }

    #[test]
    fn what_is_written_is_in_the_way_of_those_who_have_read_it() {
        let protected = Protected::default();
        let (writer, reader) = (LockOwner(1), LockOwner(2));
        let written = [&b"b"[..], b"d", b"f"];
        let holder = protected.enter(writer, written.into_iter(), &[]);
        let is_met = |owner, read: ReadItem| protected.has_written_any(owner, &[read], usize::MAX).unwrap();
        assert!(!is_met(reader, row(b"b")) && !is_met(reader, range(b"a", b"z")), "not logged");
        protected.count(&holder);
        assert!(is_met(reader, row(b"b")) && !is_met(reader, row(b"c")));
        assert!(is_met(reader, range(b"c", b"e")) && !is_met(reader, range(b"c", b"d")));
        assert!(!is_met(reader, range(b"e", b"c")), "an empty range");
        assert!(!is_met(writer, range(b"a", b"z")), "its own");
        let unbounded = ReadItem::Range(Bound::Excluded(b"f".to_vec()), Bound::Unbounded);
        assert!(!is_met(reader, unbounded));
        protected.leave(writer);
        assert!(!is_met(reader, row(b"b")));
    }

    #[test]
    fn rows_that_do_not_count_yet_are_passed_over_as_far_as_the_caller_has_time() {
        let protected = Protected::default();
        let (writer, reader, last) = (LockOwner(1), LockOwner(2), LockOwner(3));
        let count = 3 * KEYS_TOGETHER;
        let keys: Vec<_> = (0..count).map(|number| number.to_be_bytes()).collect();
        protected.enter(writer, keys.iter().map(|key| &key[..]), &[]);
        let look = |owner, passed_over_max| {
            let all = [range(&[], &(count + 1).to_be_bytes())];
            protected.has_written_any(owner, &all, passed_over_max)
        };
        assert_eq!((look(reader, count), look(reader, count - 1)), (Some(false), None));
        assert_eq!(look(writer, 0), Some(false), "its own");
        let one = protected.enter(last, [&count.to_be_bytes()[..]].into_iter(), &[]);
        protected.count(&one);
        assert_eq!((look(reader, count), look(reader, count - 1)), (Some(true), None));
        assert_eq!(look(writer, 0), Some(true));
    }
}
