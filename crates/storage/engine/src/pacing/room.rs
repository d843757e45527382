//! Space in the active memtable, reserved for commits that are admitted and not applied yet.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use seawall_sync::WaitWord;
use seawall_sync::atomic::{AtomicU64, Ordering};

/// What is reserved, and a word for those who wait for room.
#[derive(Debug)]
pub(crate) struct MemtableRoom {
    reserved: CachePadded<AtomicU64>,
    /// Changes when room was given back or made, and when a checkpoint has failed to make any.
    changed: WaitWord,
}

impl MemtableRoom {
    pub(super) fn new() -> MemtableRoom {
        MemtableRoom { reserved: CachePadded::default(), changed: WaitWord::new() }
    }

    /// Reserves `bytes` if `fits` says so, given what others have reserved. Looked at and reserved in one step: of those who come
    /// at once, one may go over a limit.
    pub(crate) fn try_reserve(&self, bytes: u64, fits: impl Fn(u64) -> bool) -> bool {
        let mut reserved = self.reserved.load(Ordering::SeqCst);
        loop {
            if !fits(reserved) {
                return false;
            }
            let with = reserved.saturating_add(bytes);
            match self.reserved.compare_exchange(reserved, with, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => reserved = now,
            }
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::SeqCst);
        self.changed.wake_all();
    }

    /// There is more room than before, or the checkpoint that was to make it has failed.
    pub(crate) fn has_changed(&self) {
        self.changed.wake_all();
    }

    /// For `wait`: to be read before the look at what is full.
    pub(crate) fn read(&self) -> u32 {
        self.changed.read()
    }

    pub(crate) fn wait(&self, seen: u32, timeout: Duration) {
        self.changed.wait(seen, Some(timeout));
    }

    #[cfg(test)]
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::SeqCst)
    }
}
