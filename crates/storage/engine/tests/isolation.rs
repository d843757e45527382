//! What transactions may see of each other, with real threads on a simulated disk: every isolation level keeps its
//! promises, with threads of the database's own and without.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "isolation/anomalies.rs"]
mod anomalies;
#[path = "isolation/definitions.rs"]
mod definitions;
#[path = "isolation/lists.rs"]
mod lists;
#[path = "isolation/locks.rs"]
mod locks;
#[path = "isolation/prefixes.rs"]
mod prefixes;
#[path = "isolation/snapshots.rs"]
mod snapshots;
#[path = "isolation/statements.rs"]
mod statements;
#[path = "isolation/sums.rs"]
mod sums;
#[path = "isolation/validation.rs"]
mod validation;

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Environment, Isolation, LockWait, Options, Transaction,
    TransactionOptions,
};
use seawall_simulation::{SeededRandom, SimulatedDisk};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const BACKGROUNDS: [Background; 2] = [Background::Threads, Background::Manual];

/// A small database: checkpoints come often, and lock waits are longer than any test.
fn open(background: Background) -> Database {
    open_on(&SimulatedDisk::new(0), background)
}

fn open_on(disk: &SimulatedDisk, background: Background) -> Database {
    let mut options = Options { background, ..Options::default() };
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 256 << 10;
    options.memory.cache_bytes = 256 << 10;
    options.checkpoint.log_bytes = 100_000;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
    let environment = Environment::of_the_system(Arc::new(disk.clone()));
    Database::open(environment, options).unwrap()
}

fn with(isolation: Isolation) -> TransactionOptions {
    TransactionOptions { isolation, ..TransactionOptions::default() }
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(with(isolation)).begin()
}

fn durability(random: &mut SeededRandom) -> Durability {
    *random.pick(&[Durability::Sync, Durability::Async])
}

/// So many threads, each doing `work` so often with a randomness of its own.
fn in_threads(threads: u64, rounds: u64, work: impl Fn(&mut SeededRandom) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                let mut random = SeededRandom::new(thread);
                (0..rounds).for_each(|_| work(&mut random));
            });
        }
    });
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

fn check_and_close(database: Database) {
    let statistics = database.statistics();
    assert_eq!(
        (statistics.transactions.locks_held, statistics.snapshots.alive),
        (0, 0),
        "locks or snapshots were left behind"
    );
    database.check(&mut |damage| panic!("{damage}")).unwrap();
    database.close().unwrap();
}
