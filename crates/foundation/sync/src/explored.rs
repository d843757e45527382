//! The same names, under a scheduler that is told what to do by a seed: every access is a *point* at which another thread
//! may go on.
//!
//! All threads of a run are coroutines on one thread of the operating system (crate `shuttle`), so between two points a
//! thread is alone. A run in which nobody can go on is a deadlock, and fails: a lost wake-up shows as one.
//!
//! **Time** passes only when somebody lets it: a sleep is a point that moves the clock on. Whether a wait with a timeout
//! ends by it is the seed's choice, as often as [`Timeouts`] says; it moves the clock on by its length, too.

#![allow(missing_docs, reason = "the names and what they do are those of std, parking_lot and arc_swap")]

mod arc_swap;
mod atomic;
mod explore;
mod latch;
pub(crate) mod point;
mod thread;
mod time;
pub(crate) mod wait_queue;

pub use explore::{Exploration, explore};
pub use point::point;
pub use time::{Timeouts, now, pass_time, set_timeouts};

/// How many steps the run has made so far: whenever a thread goes on, it is one.
pub fn steps() -> usize {
    shuttle::current::context_switches()
}

pub(crate) mod names {
    /// See `arc_swap`.
    pub mod arc_swap {
        pub use crate::explored::arc_swap::{ArcSwap, ArcSwapOption, Guard};
    }
    /// See `std::sync::atomic`.
    pub mod atomic {
        pub use crate::explored::atomic::{
            AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        };
        // Everything is sequentially consistent here: a fence adds nothing.
        pub use std::sync::atomic::{Ordering, fence};
    }
    /// See `std::thread`.
    pub mod thread {
        pub use crate::explored::thread::Builder;
        pub use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle, scope, spawn, yield_now};
    }
    /// See `std::hint`.
    pub mod hint {
        pub use shuttle::hint::spin_loop;
    }

    pub use shuttle::sync::mpsc;
    pub use shuttle::thread_local;

    pub use crate::explored::latch::{Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock};

    /// A number for the calling thread, the same in each run of the same seed; zero outside of a run.
    pub fn thread_number() -> usize {
        shuttle::current::try_get_current_task().map_or(0, usize::from)
    }
}
