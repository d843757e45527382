//! Space of dropped tables, counted: drops as they are logged, and what checkpoints found and gave back.

use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::Lsn;

/// What dropping and truncating tables left behind, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimStatistics {
    /// Tables dropped or truncated whose space is not given back yet: a checkpoint does that, once no snapshot sees them.
    /// `None` if the catalog cannot be read.
    pub waiting: Option<u64>,
    /// Tables whose space was given back since open.
    pub tables: u64,
    /// Bytes of the page file that became free by that, for other tables or for the file system.
    pub freed_bytes: u64,
    /// Bytes given back to the file system since open, in blocks that were free as a whole. A block counts again each time.
    pub punched_bytes: u64,
}

/// Stands for "nothing is waiting".
const NONE: u64 = u64::MAX;

/// Counted while the database is open.
#[derive(Debug)]
pub(crate) struct ReclaimCounters {
    /// Storages given up by commits since open.
    given_up: AtomicU64,
    /// What that was at the last freeze.
    given_up_at_freeze: AtomicU64,
    /// What the last checkpoint found waiting, and `given_up` at its freeze.
    found: Mutex<Option<(u64, u64)>>,
    /// Stamp of the earliest drop that it left waiting.
    earliest_left: AtomicU64,
    /// It left some that it could have cut out.
    more: AtomicBool,
    tables: AtomicU64,
    freed_pages: AtomicU64,
    punched_bytes: AtomicU64,
}

impl Default for ReclaimCounters {
    fn default() -> ReclaimCounters {
        ReclaimCounters {
            given_up: AtomicU64::new(0),
            given_up_at_freeze: AtomicU64::new(0),
            found: Mutex::new(None),
            earliest_left: AtomicU64::new(NONE),
            more: AtomicBool::new(false),
            tables: AtomicU64::new(0),
            freed_pages: AtomicU64::new(0),
            punched_bytes: AtomicU64::new(0),
        }
    }
}

impl ReclaimCounters {
    /// A commit gives storages up. In the log's critical section.
    pub(crate) fn give_up(&self, count: u64) {
        self.given_up.fetch_add(count, Ordering::SeqCst);
    }

    /// The active memtable is frozen. In the log's critical section.
    pub(crate) fn freeze(&self) {
        self.given_up_at_freeze.store(self.given_up.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub(crate) fn given_up_since_freeze(&self) -> u64 {
        let before = self.given_up_at_freeze.load(Ordering::Relaxed);
        self.given_up.load(Ordering::Relaxed).saturating_sub(before)
    }

    /// A checkpoint has ended that leaves `waiting` of those given up before its freeze, with the stamps of their drops.
    pub(crate) fn left_waiting(&self, waiting: impl Iterator<Item = Lsn>) {
        let (count, earliest) =
            waiting.fold((0, NONE), |(count, earliest), stamp| (count + 1, earliest.min(stamp.get())));
        *self.found.lock() = Some((count, self.given_up_at_freeze.load(Ordering::SeqCst)));
        self.earliest_left.store(earliest, Ordering::SeqCst);
    }

    pub(crate) fn count_reclaimed(&self, tables: u64) {
        self.tables.fetch_add(tables, Ordering::Relaxed);
    }

    pub(crate) fn count_freed(&self, pages: u64) {
        self.freed_pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// A checkpoint cuts out less than it could.
    pub(crate) fn leave_more(&self) {
        self.more.store(true, Ordering::SeqCst);
    }

    /// Whether the last checkpoint did; asked once.
    pub(crate) fn take_more(&self) -> bool {
        self.more.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn count_punched(&self, bytes: u64) {
        self.punched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether the last checkpoint left a drop waiting that no snapshot at or above `horizon` sees.
    pub(crate) fn has_due(&self, horizon: Lsn) -> bool {
        self.earliest_left.load(Ordering::SeqCst) <= horizon.get()
    }

    /// Storages given up since open.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::SeqCst)
    }

    /// So many were found waiting after `given_up_before` had been given up: remembered if it is that many still.
    pub(super) fn found_waiting(&self, waiting: u64, given_up_before: u64) {
        if self.given_up() == given_up_before {
            self.found.lock().get_or_insert((waiting, given_up_before));
        }
    }

    pub(super) fn statistics(&self, waiting: Option<u64>, page_bytes: u64) -> ReclaimStatistics {
        ReclaimStatistics {
            waiting,
            tables: self.tables.load(Ordering::Relaxed),
            freed_bytes: self.freed_pages.load(Ordering::Relaxed) * page_bytes,
            punched_bytes: self.punched_bytes.load(Ordering::Relaxed),
        }
    }

    /// `None` until a checkpoint has found out.
    pub(super) fn waiting(&self) -> Option<u64> {
        let (found, given_up_before) = (*self.found.lock())?;
        Some(found + self.given_up.load(Ordering::SeqCst).saturating_sub(given_up_before))
    }
}
