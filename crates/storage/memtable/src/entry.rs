//! One row: its key, and its versions linked newest first.
//!
//! Memory of an entry, then of a version; the first version lies right behind its entry:
//!
//! | offset | bytes | field      | meaning                                                               |
//! |-------:|------:|------------|-----------------------------------------------------------------------|
//! |      0 |     8 | newest     | the newest version; never null                                        |
//! |      8 |     4 | latch      | 1 while a writer changes the chain                                    |
//! |     12 |     4 | key length |                                                                       |
//! |     16 |     n | key        | padded to a multiple of 8                                             |
//!
//! | offset | bytes | field      | meaning                                                               |
//! |-------:|------:|------------|-----------------------------------------------------------------------|
//! |      0 |     8 | stamp      | the LSN after the commit's record, or where it will be: see `pending` |
//! |      8 |     8 | older      | the version it replaced, or null                                      |
//! |     16 |     8 | newer      | the version that replaced it; in the newest one: the oldest of all    |
//! |     24 |     4 | length     | bytes of the value; `DELETED` for a deletion                          |
//! |     28 |     4 | capacity   | bytes there is room for                                               |
//! |     32 |     n | value      | padded to a multiple of 8                                             |
//!
//! # Why the oldest version may be written again
//!
//! Let `h` be the horizon: every snapshot alive now or later is at or above it, and a snapshot is only used once every
//! commit at or below it has been applied. A reader at snapshot `s` walks from the newest version to the first whose
//! stamp is at most `s`, and stops there. Let `g` be the version that replaced the oldest one, with `g.stamp <= h`.
//! Then `g.stamp <= s`, so the reader stops at `g` or before it: it never loads `g.older`, and never touches the oldest
//! version. That holds for the bytes that it was given, too, as long as its snapshot is alive. `g` was in the chain
//! before, so a reader that started earlier (and whose `newest` may be stale) has found `g` or something newer.
//! The write is ordered after the last read of a reader that has gone: ending a snapshot releases, computing the
//! horizon acquires, and the horizon is handed on through an atomic with release and acquire.
//!
//! # Why an abandoned version may be written again
//!
//! No reader ever uses the value of an abandoned version (`pending`), so the next version takes its memory and its place in
//! the chain. A reader may stand on the version meanwhile. It finds the old stamp, which is abandoned, or the new one,
//! which is above its snapshot, and goes on to the version below. That is why the stamp is written last, after the link
//! to the version below: a reader who finds the new stamp finds that link and the value.
//!
//! The same order serves a look at the newest version that holds no snapshot, or one that was cancelled. It may stand on
//! the oldest version when that is written again, and finds its old stamp, or the way to a newer version.
#![expect(unsafe_code, reason = "entries are variable-length pieces of an arena behind safe handles")]

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use seawall_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::arena::{Arena, PIECE_ALIGNMENT};
use crate::spin::spin;
use crate::stamp::Stamp;

/// The longest row key in bytes: eight of the table id, then up to 4096 of the user's.
pub const KEY_BYTES_MAX: usize = 8 + 4096;
/// The longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// In `length`: the version says that the row is gone.
const DELETED: u32 = u32::MAX;
/// Below it, room for a version that is used again and again comes in powers of two, above in steps of a quarter.
const POWER_OF_TWO_CAPACITY_MAX: usize = 4096;

/// What a snapshot sees of one row in one memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'m> {
    /// The row's value.
    Value(&'m [u8]),
    /// The row is deleted: do not look elsewhere.
    Deleted,
    /// Nothing here is old enough for the snapshot: look elsewhere.
    Missing,
}

#[repr(C)]
pub(crate) struct EntryHeader {
    newest: AtomicPtr<VersionHeader>,
    latch: AtomicU32,
    key_length: u32,
}

#[repr(C)]
struct VersionHeader {
    stamp: AtomicU64,
    older: AtomicPtr<VersionHeader>,
    newer: AtomicPtr<VersionHeader>,
    length: AtomicU32,
    capacity: u32,
}

const ENTRY_HEADER_BYTES: usize = size_of::<EntryHeader>();
const VERSION_HEADER_BYTES: usize = size_of::<VersionHeader>();
const _: () = assert!(ENTRY_HEADER_BYTES == 16 && VERSION_HEADER_BYTES == 32);

/// Where an entry is; says nothing about how long it lives. [`EntryRef`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPointer(NonNull<EntryHeader>);

// SAFETY: an address; whoever turns it into an `EntryRef` answers for the arena, and entries are made for sharing.
unsafe impl Send for EntryPointer {}
// SAFETY: as above.
unsafe impl Sync for EntryPointer {}

impl EntryPointer {
    /// The entry itself.
    ///
    /// # Safety
    /// The arena that the entry was created in must outlive `'m`.
    pub(crate) unsafe fn upgrade<'m>(self) -> EntryRef<'m> {
        EntryRef { header: self.0, arena: PhantomData }
    }

    /// Starts loading the entry into the cache. Allowed with any address: nothing is read.
    pub(crate) fn prefetch(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = self.0.as_ptr().cast::<i8>();
            // SAFETY: a prefetch reads nothing and cannot fault.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start);
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64));
            }
        }
    }
}

/// A row of a memtable, whose arena outlives `'m`.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'m> {
    header: NonNull<EntryHeader>,
    arena: PhantomData<&'m Arena>,
}

// SAFETY: the key is never written again, and everything else that is shared is atomic or guarded by the latch.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for EntryRef<'_> {}

impl<'m> EntryRef<'m> {
    /// Copies key and value into `arena`, as an entry with one version.
    ///
    /// # Panics
    /// If the key or the value is too long.
    pub(crate) fn create(
        arena: &'m Arena,
        key: &[u8],
        stamp: impl Into<Stamp>,
        value: Option<&[u8]>,
    ) -> EntryRef<'m> {
        assert!(key.len() <= KEY_BYTES_MAX, "a row key of {} bytes", key.len());
        let version_offset = ENTRY_HEADER_BYTES + round_up(key.len());
        let capacity = round_up(value_length(value));
        let piece = arena.allocate(version_offset + VERSION_HEADER_BYTES + capacity);
        let header = piece.cast::<EntryHeader>();
        // SAFETY: the piece is ours, aligned to 8, and as long as the layout above needs.
        unsafe {
            let version = piece.add(version_offset);
            let newest = VersionRef::initialise(version, capacity);
            newest.fill(stamp.into(), value);
            newest.set_newer(newest);
            ptr::copy_nonoverlapping(key.as_ptr(), piece.add(ENTRY_HEADER_BYTES).as_ptr(), key.len());
            header.write(EntryHeader {
                newest: AtomicPtr::new(newest.header.as_ptr()),
                latch: AtomicU32::new(0),
                key_length: u32::try_from(key.len()).expect("checked above"),
            });
        }
        EntryRef { header, arena: PhantomData }
    }

    /// The entry behind a pointer kept in a node of the same memtable; `None` for null.
    ///
    /// # Safety
    /// `raw` must be null or come from [`EntryRef::raw`] of an entry whose arena outlives `'m`.
    pub(crate) unsafe fn from_raw(raw: *mut EntryHeader) -> Option<EntryRef<'m>> {
        NonNull::new(raw).map(|header| EntryRef { header, arena: PhantomData })
    }

    /// The entry's address, to be kept in a node.
    pub(crate) fn raw(self) -> *mut EntryHeader {
        self.header.as_ptr()
    }

    /// The entry's address.
    pub(crate) fn pointer(self) -> EntryPointer {
        EntryPointer(self.header)
    }

    /// The row key.
    pub(crate) fn key(self) -> &'m [u8] {
        // SAFETY: `create` wrote `key_length` bytes behind the header, and nobody writes them again. The pointer is
        // that of the whole piece.
        unsafe {
            let start = self.header.cast::<u8>().add(ENTRY_HEADER_BYTES);
            std::slice::from_raw_parts(start.as_ptr(), self.header().key_length as usize)
        }
    }

    /// The newest version whose stamp is at most `snapshot`.
    pub(crate) fn visible(self, snapshot: Lsn) -> Lookup<'m> {
        let mut next = Some(self.newest());
        while let Some(version) = next {
            if version.stamp().is_some_and(|stamp| stamp <= snapshot) {
                return version.value().map_or(Lookup::Deleted, Lookup::Value);
            }
            next = version.older();
        }
        Lookup::Missing
    }

    /// Stamp of the newest version that has one.
    pub(crate) fn newest_stamp(self) -> Option<Lsn> {
        self.newest_stamped().map(|(stamp, _)| stamp)
    }

    /// Stamp and value of the newest version that has a stamp; the value is `None` for a deletion.
    pub(crate) fn newest_value(self) -> Option<(Lsn, Option<&'m [u8]>)> {
        self.newest_stamped().map(|(stamp, version)| (stamp, version.value()))
    }

    /// The newest version that has a stamp.
    fn newest_stamped(self) -> Option<(Lsn, VersionRef<'m>)> {
        self.stamped().next().or_else(|| {
            // During the walk, what was pending may have got its stamp, and the version below may have been unlinked. None
            // is under the latch.
            let _latch = self.latch();
            self.stamped().next()
        })
    }

    /// The versions that have a stamp, newest first.
    fn stamped(self) -> impl Iterator<Item = (Lsn, VersionRef<'m>)> {
        std::iter::successors(Some(self.newest()), |version| version.older())
            .filter_map(|version| version.stamp().map(|stamp| (stamp, version)))
    }

    /// Stamps and values of the versions that have a stamp, newest first. Nobody may write to the memtable meanwhile.
    pub(crate) fn versions(self) -> impl Iterator<Item = (Lsn, Option<&'m [u8]>)> + use<'m> {
        self.stamped().map(|(stamp, version)| (stamp, version.value()))
    }

    /// Puts a version before all others; true if that took the place of none. `reaches(stamp)` says whether the
    /// horizon is at or above `stamp`, and is asked only if there are two versions or more.
    pub(crate) fn push(
        self,
        arena: &'m Arena,
        stamp: impl Into<Stamp>,
        value: Option<&[u8]>,
        reaches: impl FnOnce(Lsn) -> bool,
    ) -> bool {
        let _latch = self.latch();
        let newest = self.newest();
        let below = self.without_abandoned(newest);
        let free = if newest.is_abandoned() {
            Some(newest)
        } else {
            below.and_then(|below| self.unlink_oldest(below, reaches))
        };
        let length = value_length(value);
        let version = match free {
            Some(version) if version.capacity() >= length => version,
            // Room to grow: each slot can be found too small only a few times, so the row's memory stays bounded.
            Some(_) => VersionRef::create(arena, generous_capacity(length)),
            None => VersionRef::create(arena, round_up(length)),
        };
        version.set_older(below);
        version.fill(stamp.into(), value);
        debug_assert!(
            below.and_then(VersionRef::stamp) <= version.stamp() || version.stamp().is_none(),
            "a version comes after a newer one"
        );
        version.set_newer(below.map_or(version, VersionRef::newer));
        if let Some(below) = below {
            below.set_newer(version);
        }
        // Release pairs with the acquire in `newest`: who finds the version finds its fields and bytes.
        self.header().newest.store(version.header.as_ptr(), Ordering::Release);
        free.is_none()
    }

    /// The newest version that is not abandoned, now linked as if none was before it.
    fn without_abandoned(self, newest: VersionRef<'m>) -> Option<VersionRef<'m>> {
        if !newest.is_abandoned() {
            return Some(newest);
        }
        let mut versions = std::iter::successors(newest.older(), |version| version.older());
        let kept = versions.find(|version| !version.is_abandoned())?;
        kept.set_newer(newest.newer());
        Some(kept)
    }

    /// Puts a version behind all others.
    pub(crate) fn push_oldest(self, arena: &'m Arena, stamp: Lsn, value: Option<&[u8]>) {
        let version = VersionRef::create(arena, round_up(value_length(value)));
        version.fill(stamp.into(), value);
        let _latch = self.latch();
        let newest = self.newest();
        let oldest = newest.newer();
        debug_assert!(oldest.stamp().is_some_and(|oldest| stamp <= oldest), "base {stamp} before the oldest");
        version.set_newer(oldest);
        newest.set_newer(version);
        oldest.set_older(Some(version));
    }

    /// Takes the oldest version out of the chain if nobody can see it; see the top of the file.
    fn unlink_oldest(
        self,
        newest: VersionRef<'m>,
        reaches: impl FnOnce(Lsn) -> bool,
    ) -> Option<VersionRef<'m>> {
        let oldest = newest.newer();
        if oldest.header == newest.header {
            return None;
        }
        let replacement = oldest.newer();
        if !replacement.stamp().is_some_and(reaches) {
            return None;
        }
        replacement.set_older(None);
        newest.set_newer(replacement);
        Some(oldest)
    }

    fn newest(self) -> VersionRef<'m> {
        // Acquire pairs with the release in `push`.
        let newest = self.header().newest.load(Ordering::Acquire);
        // SAFETY: never null; versions live in the memtable's arenas, which outlive 'm.
        unsafe { VersionRef::from_raw(newest) }.expect("an entry always has a version")
    }

    fn latch(self) -> EntryLatch<'m> {
        let mut spins = 0;
        // Acquire pairs with the release in `EntryLatch::drop`: this writer sees what the last one linked.
        while self.header().latch.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin(&mut spins);
        }
        EntryLatch(self)
    }

    fn header(&self) -> &'m EntryHeader {
        // SAFETY: `create` wrote it, and only its atomic fields change.
        unsafe { self.header.as_ref() }
    }
}

/// Held by the one writer that changes an entry's chain.
struct EntryLatch<'m>(EntryRef<'m>);

impl Drop for EntryLatch<'_> {
    fn drop(&mut self) {
        // Release pairs with the acquire in `EntryRef::latch`.
        self.0.header().latch.store(0, Ordering::Release);
    }
}

/// A version of a row.
#[derive(Clone, Copy)]
struct VersionRef<'m> {
    header: NonNull<VersionHeader>,
    arena: PhantomData<&'m Arena>,
}

impl<'m> VersionRef<'m> {
    fn create(arena: &'m Arena, capacity: usize) -> VersionRef<'m> {
        let piece = arena.allocate(VERSION_HEADER_BYTES + capacity);
        // SAFETY: the piece is ours, aligned to 8, and has room for the header and `capacity` bytes.
        unsafe { VersionRef::initialise(piece, capacity) }
    }

    /// # Safety
    /// `piece` must have room for the header and `capacity` bytes, be aligned to 8, be nobody else's, and outlive `'m`.
    unsafe fn initialise(piece: NonNull<u8>, capacity: usize) -> VersionRef<'m> {
        let header = piece.cast::<VersionHeader>();
        // SAFETY: as promised by the caller.
        unsafe {
            header.write(VersionHeader {
                stamp: AtomicU64::new(0),
                older: AtomicPtr::new(ptr::null_mut()),
                newer: AtomicPtr::new(ptr::null_mut()),
                length: AtomicU32::new(DELETED),
                capacity: u32::try_from(capacity).expect("values are far shorter"),
            });
        }
        VersionRef { header, arena: PhantomData }
    }

    /// # Safety
    /// `raw` must be null or a version whose arena outlives `'m`.
    unsafe fn from_raw(raw: *mut VersionHeader) -> Option<VersionRef<'m>> {
        NonNull::new(raw).map(|header| VersionRef { header, arena: PhantomData })
    }

    /// Writes value and stamp. The version is new, or no reader uses its value.
    fn fill(self, stamp: Stamp, value: Option<&[u8]>) {
        let length = value.map_or(DELETED, |value| {
            assert!(value.len() <= self.capacity(), "{} bytes into {}", value.len(), self.capacity());
            // SAFETY: there is room, checked above, and no reader looks at these bytes: see the top of the file.
            unsafe {
                let start = self.header.cast::<u8>().add(VERSION_HEADER_BYTES);
                ptr::copy_nonoverlapping(value.as_ptr(), start.as_ptr(), value.len());
            }
            u32::try_from(value.len()).expect("at most the capacity")
        });
        // Relaxed: published by the store that follows.
        self.header().length.store(length, Ordering::Relaxed);
        // Last, and release, which pairs with the acquire in `raw_stamp`: see the top of the file.
        self.header().stamp.store(stamp.raw(), Ordering::Release);
    }

    /// `None` while its commit is pending, and if that was abandoned.
    fn stamp(self) -> Option<Lsn> {
        // SAFETY: statuses live in the memtable's arenas, which outlive 'm.
        unsafe { self.raw_stamp().lsn() }
    }

    fn is_abandoned(self) -> bool {
        // SAFETY: as above.
        unsafe { self.raw_stamp().is_abandoned() }
    }

    fn raw_stamp(self) -> Stamp {
        // Acquire pairs with the release in `fill`, for those who stand on a version while it is written again.
        Stamp::from_raw(self.header().stamp.load(Ordering::Acquire))
    }

    fn value(self) -> Option<&'m [u8]> {
        // Relaxed: ordered by the load of the stamp.
        let length = self.header().length.load(Ordering::Relaxed);
        if length == DELETED {
            return None;
        }
        // SAFETY: `fill` wrote `length` bytes, at most the capacity, and nobody writes them while a snapshot sees them.
        unsafe {
            let start = self.header.cast::<u8>().add(VERSION_HEADER_BYTES);
            Some(std::slice::from_raw_parts(start.as_ptr(), length as usize))
        }
    }

    fn capacity(self) -> usize {
        self.header().capacity as usize
    }

    fn older(self) -> Option<VersionRef<'m>> {
        // Acquire pairs with the release in `set_older`.
        let older = self.header().older.load(Ordering::Acquire);
        // SAFETY: only versions of the same memtable are linked.
        unsafe { VersionRef::from_raw(older) }
    }

    fn set_older(self, older: Option<VersionRef<'m>>) {
        let raw = older.map_or(ptr::null_mut(), |version| version.header.as_ptr());
        // Release pairs with the acquire in `older`: a base version is published by this store.
        self.header().older.store(raw, Ordering::Release);
    }

    fn newer(self) -> VersionRef<'m> {
        // Relaxed, here and in `set_newer`: only the holder of the latch comes here.
        let newer = self.header().newer.load(Ordering::Relaxed);
        // SAFETY: only versions of the same memtable are linked.
        unsafe { VersionRef::from_raw(newer) }.expect("the link to newer versions is a ring")
    }

    fn set_newer(self, newer: VersionRef<'m>) {
        self.header().newer.store(newer.header.as_ptr(), Ordering::Relaxed);
    }

    fn header(&self) -> &'m VersionHeader {
        // SAFETY: `initialise` wrote it, and only its atomic fields change.
        unsafe { self.header.as_ref() }
    }
}

fn value_length(value: Option<&[u8]>) -> usize {
    let length = value.map_or(0, <[u8]>::len);
    assert!(length <= VALUE_BYTES_MAX, "a value of {length} bytes");
    length
}

fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(PIECE_ALIGNMENT)
}

fn generous_capacity(length: usize) -> usize {
    if length <= POWER_OF_TWO_CAPACITY_MAX {
        return length.next_power_of_two().max(PIECE_ALIGNMENT);
    }
    length.next_multiple_of(length.next_power_of_two() / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(_: Lsn) -> bool {
        false
    }

    #[test]
    fn each_snapshot_sees_the_newest_version_that_is_not_newer() {
        let arena = Arena::new();
        let entry = EntryRef::create(&arena, b"key", Lsn::new(10), Some(b"ten"));
        assert!(entry.push(&arena, Lsn::new(20), None, never));
        assert!(entry.push(&arena, Lsn::new(30), Some(b""), never));
        entry.push_oldest(&arena, Lsn::new(5), Some(b"base"));
        assert_eq!(entry.key(), b"key");
        let expected = [
            (4, Lookup::Missing),
            (5, Lookup::Value(b"base")),
            (10, Lookup::Value(b"ten")),
            (29, Lookup::Deleted),
            (30, Lookup::Value(b"")),
        ];
        for (snapshot, lookup) in expected {
            assert_eq!(entry.visible(Lsn::new(snapshot)), lookup, "snapshot {snapshot}");
        }
        assert_eq!(entry.newest_value(), Some((Lsn::new(30), Some(&b""[..]))));
    }

    #[test]
    fn only_a_version_replaced_at_or_below_the_horizon_is_used_again() {
        let arena = Arena::new();
        let entry = EntryRef::create(&arena, b"k", Lsn::new(1), Some(b"aaaaaaaa"));
        entry.push(&arena, Lsn::new(2), Some(b"bbbbbbbb"), |_| panic!("one version: nothing to ask"));
        let used = arena.bytes_used();
        assert!(entry.push(&arena, Lsn::new(3), Some(b"c"), |stamp| Lsn::new(1) >= stamp));
        assert!(arena.bytes_used() > used);
        let used = arena.bytes_used();
        assert!(!entry.push(&arena, Lsn::new(4), Some(b"d"), |stamp| Lsn::new(2) >= stamp));
        assert_eq!(arena.bytes_used(), used);
        assert_eq!(entry.visible(Lsn::new(1)), Lookup::Missing);
        assert_eq!(entry.visible(Lsn::new(2)), Lookup::Value(b"bbbbbbbb"));
        assert_eq!(entry.visible(Lsn::new(3)), Lookup::Value(b"c"));
        assert_eq!(entry.visible(Lsn::new(4)), Lookup::Value(b"d"));
    }

    #[test]
    fn generous_capacities_hold_the_value() {
        for length in (0..10_000).chain([1 << 20, (1 << 20) + 1, VALUE_BYTES_MAX]) {
            let capacity = generous_capacity(length);
            assert!(capacity >= length && capacity.is_multiple_of(PIECE_ALIGNMENT), "{length}: {capacity}");
            assert!(capacity <= (length * 2).max(8), "{length}: {capacity}");
        }
    }
}
