//! What threads meet at: atomics, latches, waiting, threads. The crates where they meet take these from here and from
//! nowhere else, but for what is not explored (below).
//!
//! ```text
//!   wal, memtable, tree, engine
//!        |  use seawall_sync::{Mutex, WaitWord, atomic, thread, ...}
//!        v
//!   +--------------------------------+     +----------------------------------------------------------+
//!   | std, parking_lot, arc_swap:    |  or | `explored`, with the feature `shuttle`: one thread at a  |
//!   | names passed on, nothing added |     | time, and at each access a seed says which one goes on   |
//!   +--------------------------------+     +----------------------------------------------------------+
//! ```
//! So a schedule test runs the code that users run, and one seed gives one run, schedule included.
//!
//! Invariants:
//! * Without the feature there is no wrapper: the names are those of `std`, `parking_lot` and `arc_swap`.
//! * With it, types have the layout that they have without it where memory is laid out by hand: an atomic is as large as
//!   its value, and zeros are a valid one.
//!
//! **What explored schedules do not show.** They are interleavings of sequentially consistent accesses: an ordering that is
//! too weak passes. Not scheduled, and so not explored, are counters for people, the memory of page images, and
//! `crossbeam_epoch` itself: what one run puts off must not change the schedule of another.
//!
//! Start at [`WaitWord`], or, for schedules, at `explored::explore`.

mod cancel;
#[cfg(feature = "shuttle")]
pub mod explored;
mod priority;
#[cfg(not(feature = "shuttle"))]
mod thread_number;
mod wait;

pub use cancel::CancelToken;
pub use priority::giving_way;
pub use wait::WaitWord;

#[cfg(not(feature = "shuttle"))]
pub use self::usual::*;

#[cfg(feature = "shuttle")]
pub use self::explored::names::*;

#[cfg(not(feature = "shuttle"))]
mod usual {
    /// A value behind an `Arc` that is replaced as a whole and read without a lock.
    pub mod arc_swap {
        pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
    }

    pub use std::hint;
    pub use std::sync::{atomic, mpsc};
    pub use std::{thread, thread_local};

    pub use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock};

    /// A number for the calling thread: from zero, and no other thread has it while this one lives. The numbers of threads
    /// that have ended are given again, the lowest first, so that numbers stay as small as threads are few.
    pub fn thread_number() -> usize {
        thread_local! {
            static MINE: super::thread_number::ThreadNumber = super::thread_number::ThreadNumber::draw();
        }
        // A thread that is ending may have given its number back.
        MINE.try_with(|mine| mine.get()).unwrap_or(0)
    }
}
