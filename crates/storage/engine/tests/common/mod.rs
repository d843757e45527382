//! A small database on a simulated disk, without threads of its own.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

pub(crate) mod copying;
pub(crate) mod following;
pub(crate) mod memory_archive;
pub(crate) mod rewinding;

use std::sync::Arc;

use seawall_engine::{Background, Database, Environment, Error, LockWait, Options};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

/// Small enough that a short test meets checkpoints and several segments; nobody waits for a lock.
pub(crate) fn small_options() -> Options {
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 1 << 20;
    options.memory.cache_bytes = 1 << 20;
    options.checkpoint.chunk_bytes = 64 << 10;
    options.recovery.threads = 1;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

pub(crate) fn try_open(disk: &SimulatedDisk, options: Options) -> Result<Database, Error> {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options)
}
