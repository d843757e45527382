//! What machines do to a database besides losing power: a disk that is full, slow, or forgets what it was given, and a
//! clock that jumps. `faults` has the calls that fail, `damage` the damage of every file.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "hostile_machine/bit_rot.rs"]
mod bit_rot;
#[path = "hostile_machine/clock_jumps.rs"]
mod clock_jumps;
#[path = "common/mod.rs"]
mod common;
#[path = "hostile_machine/failing_checkpoint.rs"]
mod failing_checkpoint;
#[path = "hostile_machine/full_disk.rs"]
mod full_disk;
#[path = "hostile_machine/slow_disk.rs"]
mod slow_disk;

use std::sync::Arc;

use seawall_engine::{Database, Environment, Error, Options, Table};
use seawall_io::{Clock, SystemClock};
use seawall_simulation::{FaultTarget, Operations, SimulatedClock, SimulatedDisk, SimulatedRandom};

use common::small_options;

fn environment(disk: &SimulatedDisk, clock: &SimulatedClock) -> Environment {
    Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    }
}

fn try_open_at(disk: &SimulatedDisk, clock: &SimulatedClock, options: &Options) -> Result<Database, Error> {
    Database::open(environment(disk, clock), options.clone())
}

fn open_at(disk: &SimulatedDisk, clock: &SimulatedClock, options: &Options) -> Database {
    try_open_at(disk, clock, options).unwrap_or_else(|error| panic!("it does not open: {error}"))
}

/// What comes at all comes sooner.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock;
    let begun = clock.monotonic();
    while !is_so() {
        assert!(clock.monotonic() - begun < LIMIT, "not so after a minute: {what}");
        std::thread::yield_now();
    }
}

/// Calls on files whose path starts with `prefix`.
fn calls(prefix: &str, operations: Operations) -> FaultTarget {
    FaultTarget::Path { prefix: prefix.to_owned(), operations }
}

/// The row of a number: which one it is can be seen from any part of it.
fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(40)
}

fn put_rows(database: &Database, table: &Table, rows: std::ops::Range<u32>) {
    for number in rows {
        database.put(table, number.to_be_bytes(), value(number)).unwrap();
    }
}

/// Exactly the rows of these numbers are there.
fn check_rows(database: &Database, rows: std::ops::Range<u32>) {
    let table = database.table("t").unwrap();
    let snapshot = database.snapshot();
    let mut found = snapshot.range::<&[u8]>(&table, ..);
    for number in rows {
        let (key, bytes) = found.next().unwrap_or_else(|| panic!("row {number} is missing")).unwrap();
        assert_eq!((key, bytes), (number.to_be_bytes().to_vec(), value(number)));
    }
    assert!(found.next().is_none());
}

fn check_clean(database: &Database) {
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}
