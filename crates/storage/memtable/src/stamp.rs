//! The stamp of a version: an LSN, or the address of the status of a commit that has no LSN yet (`pending`).
//!
//! A status is pending until it is published or abandoned, and then never changes again.
#![expect(unsafe_code, reason = "a stamp may be the address of a status in the memtable's arena")]

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::arena::Arena;

/// In a stamp: the other bits are the address of a status. No log is so long that a stamp has this bit.
const IS_ADDRESS: u64 = 1 << 63;
const PENDING: u64 = u64::MAX;
const ABANDONED: u64 = u64::MAX - 1;

/// What all versions of a pending commit point at.
#[repr(transparent)]
pub(crate) struct CommitStatus(AtomicU64);

impl CommitStatus {
    /// A status in `arena`, pending.
    pub(crate) fn create(arena: &Arena) -> &CommitStatus {
        let piece = arena.allocate(size_of::<CommitStatus>()).cast::<CommitStatus>();
        // SAFETY: the piece is ours, aligned to 8 and as long as the status, and lives as long as the arena.
        unsafe {
            piece.write(CommitStatus(AtomicU64::new(PENDING)));
            piece.as_ref()
        }
    }

    /// Stamps the commit's versions. False if it was decided already.
    ///
    /// # Panics
    /// If the stamp is higher than any LSN of a log.
    pub(crate) fn publish(&self, stamp: Lsn) -> bool {
        assert!(stamp.get() < ABANDONED, "published at {stamp}");
        self.decide(stamp.get())
    }

    /// Abandons the commit's versions. False if it was decided already.
    pub(crate) fn abandon(&self) -> bool {
        self.decide(ABANDONED)
    }

    fn decide(&self, outcome: u64) -> bool {
        // Release pairs with the acquire in `Stamp::load`.
        self.0.compare_exchange(PENDING, outcome, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

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
        // Acquire pairs with the release in `CommitStatus::decide`, for those who come by the stamp alone.
        status.0.load(Ordering::Acquire)
    }
}
