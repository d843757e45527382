//! The door to a written log: open; or shut for a while, and writers wait; or shut because the role of the primary went elsewhere.
//!
//! ```text
//!   open --park--> parked: writers wait --hand over--> handed over: writers are refused
//!    ^                |                                    |
//!    +----- open -----+---------------- open --------------+
//! ```
//! The door says what a writer does that the log refuses ([`Log::park`](seawall_wal::Log::park)). It keeps nobody out by itself.

use std::sync::Arc;

use seawall_sync::WaitWord;
use seawall_sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What a writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// It goes in.
    Open,
    /// It waits.
    Parked,
    /// It is refused.
    HandedOver,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    door: AtomicU8,
    /// The database is being closed: nobody waits any more.
    is_over: AtomicBool,
    /// Changes with the door.
    pub(crate) changed: Arc<WaitWord>,
}

const OPEN: u8 = 0;
const PARKED: u8 = 1;
const HANDED_OVER: u8 = 2;

impl Parking {
    /// How the door is.
    pub(crate) fn door(&self) -> Door {
        match self.door.load(Ordering::SeqCst) {
            OPEN => Door::Open,
            PARKED => Door::Parked,
            _ => Door::HandedOver,
        }
    }

    /// Writers wait from now on; `false` if the door was shut already.
    pub(crate) fn park(&self) -> bool {
        self.door.compare_exchange(OPEN, PARKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Writers are refused from now on, those that wait, too.
    pub(crate) fn hand_over(&self) {
        self.door.store(HANDED_OVER, Ordering::SeqCst);
        self.changed.wake_all();
    }

    /// Writers go in. The log takes records already.
    pub(crate) fn open(&self) {
        self.door.store(OPEN, Ordering::SeqCst);
        self.changed.wake_all();
    }

    /// Nobody waits from now on.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.changed.wake_all();
    }

    /// Whether the database is being closed.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_shut_once_and_may_be_opened_again() {
        let parking = Parking::default();
        assert_eq!(parking.door(), Door::Open);
        assert!(parking.park() && !parking.park());
        assert_eq!(parking.door(), Door::Parked);
        parking.hand_over();
        assert!(!parking.park());
        assert_eq!(parking.door(), Door::HandedOver);
        parking.open();
        assert_eq!(parking.door(), Door::Open);
    }
}
