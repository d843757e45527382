//! The live snapshots: the checkpoint and the memtable keep the versions that these need, and no others.
//!
//! Taking a snapshot is one compare-and-swap on a slot of the thread's own. The *horizon* is a stamp that no present
//! snapshot is below and no future one will be: row versions that only snapshots below it could see may go.
//!
//! # Cancelled snapshots
//!
//! Frozen memtables that are kept only for old snapshots have a limit on their memory. When it is passed, the oldest
//! snapshot is cancelled: the *floor* rises to its stamp, and every snapshot at or below the floor is cancelled, though it
//! stays registered until its owner lets go of it. A reader looks at the floor *after* it has taken the view of the memtables:
//! * If its snapshot is above the floor then, that view has all memtables that it needs, and keeps them for as long as it
//!   reads. Whatever the tree loses afterwards changes the tree's version, so the reader starts over and meets the floor.
//! * Otherwise it gets an error, and has read nothing.
//!
//! Values in a memtable may be written again once the horizon has passed them, and there must be no reader at them then. So
//! a memtable goes by the floor that there was when it was made: for a snapshot that was cancelled before, no reader comes to
//! it (its view is newer than the floor); one that was cancelled later counts as alive in it until it is let go.
//! The values that a merge keeps behind a memtable's versions are stamped above the floor (`merge_source`), so a reader that
//! was cancelled after its look at the floor passes them by.

pub(crate) mod horizon;
pub(crate) mod kept_memory;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod view;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use seawall_types::Lsn;

use crate::sabotage::{Defect, sabotaged};

const SLOT_COUNT: usize = 1024;
const FREE: u64 = u64::MAX;

seawall_sync::thread_local! {
    /// Where this thread looks for a free slot first. Numbered from zero, so that the slots in use stay few and dense.
    static PREFERRED_SLOT: Cell<usize> =
        Cell::new(seawall_sync::thread_number() % SLOT_COUNT);
}

/// The snapshots of one database.
#[derive(Debug)]
pub(crate) struct SnapshotRegistry {
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Slots at and above this index were never used.
    used_slots: AtomicUsize,
    /// Snapshots that found no slot, by LSN, with how many of each.
    overflow: Mutex<BTreeMap<u64, usize>>,
    /// How many those are; counted before they enter and after they have left.
    overflow_count: AtomicUsize,
    /// Snapshots up to this stamp are cancelled.
    floor: CachePadded<AtomicU64>,
    cancelled_count: AtomicU64,
}

/// Keeps one snapshot alive until dropped.
#[derive(Debug)]
pub(crate) struct RegisteredSnapshot {
    registry: Arc<SnapshotRegistry>,
    place: Place,
    lsn: Lsn,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Slot(usize),
    Overflow,
}

impl SnapshotRegistry {
    pub(crate) fn new() -> Arc<SnapshotRegistry> {
        let slots = (0..SLOT_COUNT).map(|_| CachePadded::new(AtomicU64::new(FREE))).collect();
        Arc::new(SnapshotRegistry {
            slots,
            used_slots: AtomicUsize::new(0),
            overflow: Mutex::default(),
            overflow_count: AtomicUsize::new(0),
            floor: CachePadded::default(),
            cancelled_count: AtomicU64::new(0),
        })
    }

    /// Registers a snapshot of everything visible now.
    pub(crate) fn register(self: &Arc<Self>, visible: impl Fn() -> Lsn) -> RegisteredSnapshot {
        let (place, lsn) = self.enter(&visible);
        RegisteredSnapshot { registry: Arc::clone(self), place, lsn }
    }

    /// Runs `read` with a snapshot of everything visible now, registered for as long as that takes.
    pub(crate) fn with_current<R>(&self, visible: impl Fn() -> Lsn, read: impl FnOnce(Lsn) -> R) -> R {
        struct Leave<'a>(&'a SnapshotRegistry, Place, Lsn);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.leave(self.1, self.2);
            }
        }
        let (place, lsn) = self.enter(&visible);
        let leave = Leave(self, place, lsn);
        let result = read(lsn);
        drop(leave);
        result
    }

    fn enter(&self, visible: &impl Fn() -> Lsn) -> (Place, Lsn) {
        let mut lsn = visible();
        let place = self.claim(lsn);
        // `horizon` reads what is visible and then the slots. If it missed this slot, it read before the slot was
        // filled, so the visible LSN read here, after, is at least its horizon; equal means that nothing was lost.
        loop {
            let now = visible();
            if now == lsn {
                return (place, lsn);
            }
            self.move_to(place, lsn, now);
            lsn = now;
        }
    }

    fn claim(&self, lsn: Lsn) -> Place {
        let first = PREFERRED_SLOT.with(Cell::get);
        for step in 0..SLOT_COUNT {
            let index = (first + step) % SLOT_COUNT;
            if self.slots[index].load(Ordering::Relaxed) != FREE {
                continue;
            }
            self.used_slots.fetch_max(index + 1, Ordering::SeqCst);
            if self.slots[index]
                .compare_exchange(FREE, lsn.get(), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return Place::Slot(index);
            }
        }
        self.overflow_count.fetch_add(1, Ordering::SeqCst);
        *self.overflow.lock().entry(lsn.get()).or_default() += 1;
        Place::Overflow
    }

    fn move_to(&self, place: Place, from: Lsn, to: Lsn) {
        match place {
            Place::Slot(index) => self.slots[index].store(to.get(), Ordering::SeqCst),
            Place::Overflow => {
                let mut overflow = self.overflow.lock();
                *overflow.entry(to.get()).or_default() += 1;
                Self::forget(&mut overflow, from);
            }
        }
    }

    fn leave(&self, place: Place, lsn: Lsn) {
        match place {
            Place::Slot(index) => self.slots[index].store(FREE, Ordering::SeqCst),
            Place::Overflow => {
                Self::forget(&mut self.overflow.lock(), lsn);
                self.overflow_count.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn forget(overflow: &mut BTreeMap<u64, usize>, lsn: Lsn) {
        let count = overflow.get_mut(&lsn.get()).expect("an overflow snapshot is in the map until it leaves");
        *count -= 1;
        if *count == 0 {
            overflow.remove(&lsn.get());
        }
    }

    /// The oldest snapshot above `floor`, if there is one.
    fn oldest_above(&self, floor: Lsn) -> Option<Lsn> {
        let used = self.used_slots.load(Ordering::SeqCst);
        let above = |lsn: &u64| *lsn > floor.get();
        let in_slots = self.slots[..used].iter().map(|slot| slot.load(Ordering::SeqCst)).filter(above).min();
        // One that is counted later looks again at what is visible after that: see `enter`.
        let in_overflow = match self.overflow_count.load(Ordering::SeqCst) {
            0 => None,
            _ => self.overflow.lock().keys().copied().find(above),
        };
        let oldest = in_slots.into_iter().chain(in_overflow).min().unwrap_or(FREE);
        (oldest != FREE).then(|| Lsn::new(oldest))
    }

    /// The snapshots below `end` that are not cancelled, ascending, each stamp once. Complete, if `end` is visible, but for
    /// one whose only registration moves to another slot meanwhile; none does (`Engine::register_snapshot_at`).
    pub(crate) fn alive_before(&self, end: Lsn) -> Vec<Lsn> {
        let floor = self.floor();
        let used = self.used_slots.load(Ordering::SeqCst);
        let mut alive: Vec<u64> = self.slots[..used].iter().map(|slot| slot.load(Ordering::SeqCst)).collect();
        alive.extend(self.overflow.lock().keys());
        alive.retain(|lsn| *lsn > floor.get() && *lsn < end.get());
        alive.sort_unstable();
        alive.dedup();
        alive.into_iter().map(Lsn::new).collect()
    }

    /// The oldest snapshot that is not cancelled, if there is one.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.oldest_above(self.floor())
    }

    /// A stamp that no present snapshot above `floor` is below and no future one will be.
    pub(crate) fn horizon_above(&self, floor: Lsn, visible: impl Fn() -> Lsn) -> Lsn {
        // Read before the slots: see `enter`.
        let visible = visible();
        if sabotaged(Defect::HorizonIgnoresSnapshots) {
            return visible;
        }
        self.oldest_above(floor).map_or(visible, |oldest| oldest.min(visible))
    }

    /// A stamp that no present snapshot that is not cancelled is below and no future one will be.
    pub(crate) fn horizon(&self, visible: impl Fn() -> Lsn) -> Lsn {
        self.horizon_above(self.floor(), visible)
    }

    /// Snapshots up to this stamp are cancelled.
    pub(crate) fn floor(&self) -> Lsn {
        Lsn::new(self.floor.load(Ordering::SeqCst))
    }

    /// Cancels the oldest snapshot, with those of the same stamp, if it is older than `end`; its stamp. As `end` is visible
    /// already, the floor stays below what is visible, so that new snapshots are above it.
    pub(crate) fn cancel_oldest_before(&self, end: Lsn) -> Option<Lsn> {
        let oldest = self.oldest().filter(|oldest| *oldest < end)?;
        self.floor.fetch_max(oldest.get(), Ordering::SeqCst);
        self.cancelled_count.fetch_add(1, Ordering::Relaxed);
        Some(oldest)
    }

    /// Stamps whose snapshots were cancelled since open.
    pub(crate) fn cancelled_count(&self) -> u64 {
        self.cancelled_count.load(Ordering::Relaxed)
    }

    /// How many snapshots are registered, cancelled ones included.
    pub(crate) fn count(&self) -> usize {
        let used = self.used_slots.load(Ordering::SeqCst);
        let in_slots = self.slots[..used].iter().filter(|slot| slot.load(Ordering::SeqCst) != FREE).count();
        in_slots + self.overflow.lock().values().sum::<usize>()
    }
}

impl RegisteredSnapshot {
    /// What the snapshot sees: every commit stamped at most this.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for RegisteredSnapshot {
    fn drop(&mut self) {
        self.registry.leave(self.place, self.lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_the_oldest_snapshot_alive() {
        let registry = SnapshotRegistry::new();
        let visible = |lsn: u64| move || Lsn::new(lsn);
        assert_eq!(registry.horizon(visible(5)), Lsn::new(5));
        let old = registry.register(visible(5));
        let young = registry.register(visible(9));
        assert_eq!(registry.horizon(visible(20)), Lsn::new(5));
        assert_eq!(registry.count(), 2);
        drop(old);
        assert_eq!(registry.horizon(visible(20)), Lsn::new(9));
        drop(young);
        assert_eq!(registry.oldest(), None);
    }

    #[test]
    fn a_cancelled_snapshot_holds_nothing_back_but_in_memtables_older_than_the_floor() {
        let registry = SnapshotRegistry::new();
        let visible = |lsn: u64| move || Lsn::new(lsn);
        let (_old, _young) = (registry.register(visible(5)), registry.register(visible(9)));
        let before = registry.floor();
        assert_eq!(registry.cancel_oldest_before(Lsn::new(10)), Some(Lsn::new(5)));
        assert_eq!((registry.floor(), registry.oldest()), (Lsn::new(5), Some(Lsn::new(9))));
        assert_eq!(registry.horizon(visible(20)), Lsn::new(9));
        assert_eq!(registry.horizon_above(before, visible(20)), Lsn::new(5));
        assert_eq!(registry.cancel_oldest_before(Lsn::new(10)), Some(Lsn::new(9)));
        assert_eq!((registry.cancel_oldest_before(Lsn::new(10)), registry.cancelled_count()), (None, 2));
        assert_eq!(registry.count(), 2, "they stay registered until they are let go");
        let _current = registry.register(visible(20));
        assert_eq!(registry.cancel_oldest_before(Lsn::new(20)), None, "it needs nothing that ends at 20");
    }

    #[test]
    fn more_snapshots_than_slots_are_all_counted() {
        let registry = SnapshotRegistry::new();
        let count = SLOT_COUNT + 10;
        let snapshots: Vec<_> = (0..count)
            .map(|index| registry.register(move || Lsn::new(u64::try_from(index).unwrap() + 1)))
            .collect();
        assert_eq!(registry.count(), count);
        assert_eq!(registry.oldest(), Some(Lsn::new(1)));
        drop(snapshots);
        assert_eq!(registry.count(), 0);
    }

    #[test]
    fn no_snapshot_is_ever_below_a_horizon_taken_before_it() {
        let registry = SnapshotRegistry::new();
        let visible = Arc::new(AtomicU64::new(1));
        let horizon = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let before = horizon.load(Ordering::SeqCst);
                        let snapshot = registry.register(|| Lsn::new(visible.load(Ordering::SeqCst)));
                        assert!(snapshot.lsn().get() >= before);
                        let horizon = registry.horizon(|| Lsn::new(visible.load(Ordering::SeqCst)));
                        assert!(horizon <= snapshot.lsn());
                    }
                });
            }
            scope.spawn(|| {
                for lsn in 2..40_000 {
                    visible.store(lsn, Ordering::SeqCst);
                    let now = registry.horizon(|| Lsn::new(visible.load(Ordering::SeqCst)));
                    horizon.store(now.get(), Ordering::SeqCst);
                }
            });
        });
    }
}
