//! Two-phase commit: what is prepared survives everything until it is decided, and holds nothing but its rows.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "two_phase/decisions.rs"]
mod decisions;
#[path = "two_phase/definitions.rs"]
mod definitions;
#[path = "two_phase/errors.rs"]
mod errors;
#[path = "two_phase/held.rs"]
mod held;
#[path = "two_phase/policy.rs"]
mod policy;
#[path = "two_phase/serializable.rs"]
mod serializable;
#[path = "two_phase/survival.rs"]
mod survival;

use std::sync::Arc;

use seawall_engine::{
    Background, Database, Environment, InDoubtTransaction, Isolation, LockWait, Options, Transaction,
    TransactionOptions,
};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom};

fn options() -> Options {
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 8 << 20;
    options.memory.cache_bytes = 1 << 20;
    options.checkpoint.log_bytes = 64 << 20;
    options.checkpoint.chunk_bytes = 64 << 10;
    options.recovery.threads = 1;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

fn open_with(disk: &SimulatedDisk, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

fn open(disk: &SimulatedDisk) -> Database {
    open_with(disk, options())
}

/// What a power failure leaves of all that is not synced: nothing.
fn lose_power(disk: &SimulatedDisk, database: Database) -> SimulatedDisk {
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    disk.crash();
    drop(database);
    left
}

/// As `lose_power`, where no page of the log's buffers has reached the disk either. Whoever has the disk goes on.
fn lose_unsynced(disk: &SimulatedDisk) -> SimulatedDisk {
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    for path in ["log/pending.1", "log/pending.2"] {
        left.overwrite(path, 512, &[0; 16]);
    }
    left
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..options().transaction }).begin()
}

/// Prepares the put of some rows.
fn prepare(database: &Database, gid: &str, rows: &[(&str, &str)]) {
    let table = database.table("t").unwrap();
    let mut transaction = database.begin();
    for (key, value) in rows {
        transaction.put(&table, key, value).unwrap();
    }
    transaction.prepare(gid).unwrap();
}

fn get(database: &Database, key: &str) -> Option<String> {
    let value = database.get(&database.table("t").unwrap(), key).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

fn put(database: &Database, key: &str, value: &str) -> Result<(), seawall_engine::Error> {
    database.put(&database.table("t").unwrap(), key, value).map(|_| ())
}

fn gids(database: &Database) -> Vec<String> {
    database.two_phase().in_doubt().unwrap().into_iter().map(|transaction| transaction.gid).collect()
}

fn only(database: &Database) -> InDoubtTransaction {
    let mut all = database.two_phase().in_doubt().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn check_and_close(database: Database) {
    let statistics = database.statistics();
    assert_eq!(
        (statistics.transactions.locks_held, statistics.two_phase.in_doubt, statistics.snapshots.alive),
        (0, 0, 0)
    );
    database.check(&mut |damage| panic!("{damage}")).unwrap();
    database.close().unwrap();
}
