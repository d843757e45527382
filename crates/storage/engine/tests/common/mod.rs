//! A small database on a simulated disk, without threads of its own.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

pub(crate) mod memory_archive;

use std::sync::Arc;

use seawall_engine::{Background, Database, Environment, Error, LockWait, Options};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

/// Small enough that a short test meets checkpoints and several segments; nobody waits for a lock.
pub(crate) fn small_options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        memtable_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        checkpoint_chunk_bytes: 64 << 10,
        recovery_threads: 1,
        lock_wait: LockWait::NoWait,
        background: Background::Manual,
        ..Options::default()
    }
}

pub(crate) fn try_open(disk: &SimulatedDisk, options: Options) -> Result<Database, Error> {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options)
}
