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
#![expect(unsafe_code, reason = "a stamp may be the address of a status in the memtable's arena")]

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::arena::Arena;
use crate::memtable::Memtable;

/// In a stamp: the other bits are the address of a status. No log is so long that a stamp has this bit.
const IS_ADDRESS: u64 = 1 << 63;
const PENDING: u64 = u64::MAX;
const ABANDONED: u64 = u64::MAX - 1;

/// What all versions of a pending commit point at.
#[repr(transparent)]
pub(crate) struct CommitStatus(AtomicU64);

/// What a version has for a stamp: an LSN, or the address of a status.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(u64);

impl From<Lsn> for Stamp {
    fn from(lsn: Lsn) -> Stamp {
        assert!(lsn.get() & IS_ADDRESS == 0, "a version stamped {lsn}");
        Stamp(lsn.get())
    }
}

impl From<&CommitStatus> for Stamp {
    fn from(status: &CommitStatus) -> Stamp {
        let address = u64::try_from(std::ptr::from_ref(status).expose_provenance())
            .expect("addresses have at most 64 bits");
        assert!(address & IS_ADDRESS == 0, "a status in the upper half of the address space");
        Stamp(address | IS_ADDRESS)
    }
}

impl Stamp {
    pub(crate) fn from_raw(raw: u64) -> Stamp {
        Stamp(raw)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    /// The LSN; `None` while the commit is pending, and if it was abandoned.
    ///
    /// # Safety
    /// If the stamp points at a status, the arena of that must be alive.
    pub(crate) unsafe fn lsn(self) -> Option<Lsn> {
        if self.0 & IS_ADDRESS == 0 {
            return Some(Lsn::new(self.0));
        }
        // SAFETY: as promised by the caller.
        let status = unsafe { self.load() };
        (status < ABANDONED).then(|| Lsn::new(status))
    }

    /// Whether the version is seen by nobody, now and later.
    ///
    /// # Safety
    /// As for `lsn`.
    pub(crate) unsafe fn is_abandoned(self) -> bool {
        // SAFETY: as promised by the caller.
        self.0 & IS_ADDRESS != 0 && unsafe { self.load() } == ABANDONED
    }

    /// # Safety
    /// The stamp must point at a status whose arena is alive.
    unsafe fn load(self) -> u64 {
        let address = usize::try_from(self.0 & !IS_ADDRESS).expect("it was an address before");
        // SAFETY: the address of a status that was exposed, as promised by the caller.
        let status = unsafe { &*std::ptr::with_exposed_provenance::<CommitStatus>(address) };
        // Acquire pairs with the release in `PendingCommit::decide`, for those who come by the stamp alone.
        status.0.load(Ordering::Acquire)
    }
}

/// A commit whose versions nobody sees before it is published. Dropped without that, nobody ever does.
pub struct PendingCommit<'m> {
    memtable: &'m Memtable,
    status: &'m CommitStatus,
}

impl<'m> PendingCommit<'m> {
    pub(crate) fn new(memtable: &'m Memtable, arena: &'m Arena) -> PendingCommit<'m> {
        let piece = arena.allocate(size_of::<CommitStatus>()).cast::<CommitStatus>();
        // SAFETY: the piece is ours, aligned to 8 and as long as the status, and lives as long as the arena.
        let status = unsafe {
            piece.write(CommitStatus(AtomicU64::new(PENDING)));
            piece.as_ref()
        };
        PendingCommit { memtable, status }
    }

    /// Gives the row `key` a new version, as [`Memtable::insert`] does.
    pub fn insert(&self, key: &[u8], value: Option<&[u8]>, horizon: impl Fn() -> Lsn) {
        self.memtable.put(key, self.status.into(), value, horizon);
    }

    /// Stamps all versions at once. Every later stamp in the memtable must be higher.
    pub fn publish(&self, stamp: Lsn) {
        assert!(stamp.get() < ABANDONED, "published at {stamp}");
        assert!(self.decide(stamp.get()), "a commit is published once");
    }

    /// Whether this was still open.
    fn decide(&self, outcome: u64) -> bool {
        // Release pairs with the acquire in `Stamp::load`.
        self.status.0.compare_exchange(PENDING, outcome, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl Drop for PendingCommit<'_> {
    fn drop(&mut self) {
        // Does nothing after `publish`.
        self.decide(ABANDONED);
    }
}
