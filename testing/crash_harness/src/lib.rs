//! What tests of crashes and faults share: plans, models, sessions, watched disks. Used by tests only.
//!
//! ```text
//!   plan --steps--> Session --calls--> WatchedDisk --> SimulatedDisk
//!                      |                    |
//!                   Progress            CrashPoint: the disk with the power gone during this call,
//!         what may be there after a crash   and what may be there then  --> recover
//! ```
//! Invariants:
//! * It uses the database as an embedding program does, and nothing of the engine's insides.
//! * A state that is found after a crash is one of the candidates, whole, and the database goes on working.
//! * One seed gives one run, where the options have no threads.
//!
//! Start at [`everywhere::watch`] and [`recover::recover`].

pub mod comparison;
mod database;
pub mod everywhere;
mod options;
pub mod plan;
pub mod progress;
pub mod recover;
pub mod session;
pub mod state;
pub mod watched_disk;

pub use database::{
    environment, forget_pending, open, slow_down_pages, template, template_with_id, try_open,
};
pub use options::{
    Cell, draw_runs, master_key, other_place, plan_options, protected_options, small_options, wide_options,
    without_threads,
};
