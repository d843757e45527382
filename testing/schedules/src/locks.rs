//! Row locks: handed on in order of arrival, with a victim for each deadlock.
//!
//! Checked: nobody waits for ever, not even for a lock that a stopped database will not give up; a lock that was refused or given up is nobody's, and no two hold one at a time.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Error, Isolation, LockWait, Options, Table, TransactionOptions,
};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, SimulatedDisk};
use seawall_sync::explored::{Timeouts, set_timeouts};
use seawall_sync::thread;

use crate::world::{open, small_options};

fn options() -> Options {
    Options {
        isolation: Isolation::ReadCommitted,
        durability: Durability::Async,
        ..small_options(Background::Manual)
    }
}

/// All rows can be written at once by one who does not wait.
fn assert_all_free(database: &Database, table: &Table, rows: u8) {
    let mut transaction = database
        .with(TransactionOptions {
            isolation: Isolation::ReadCommitted,
            durability: Durability::Sync,
            lock_wait: LockWait::NoWait,
        })
        .begin();
    for row in 0..rows {
        transaction.put(table, [row], b"free").unwrap();
    }
    transaction.commit().unwrap();
}

/// Three transactions that each want what the next one has.
pub(crate) fn in_a_cycle(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    let threads: Vec<_> = (0..3_u8)
        .map(|own| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                let mut transaction = database.begin();
                transaction.put(&table, [own], [own])?;
                transaction.put(&table, [(own + 1) % 3], [own])?;
                transaction.commit()
            })
        })
        .collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let victims = results.iter().filter(|result| matches!(result, Err(Error::Deadlock))).count();
    let winners = results.iter().filter(|result| result.is_ok()).count();
    assert!(victims <= 1 && victims + winners == 3, "one cycle, one victim: {results:?}");
    assert_all_free(&database, &table, 3);
    database.close().unwrap();
}

/// Threads count in one row, and some give up waiting for it, perhaps when they are given it.
pub(crate) fn that_time_out(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, Options { lock_wait: LockWait::Timeout(Duration::from_secs(1)), ..options() });
    let table = database.create_table("t").unwrap();
    database.put(&table, [0], [0]).unwrap();
    set_timeouts(Timeouts::Percent(30));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                let mut transaction = database.begin();
                let before = match transaction.get_for_update(&table, [0]) {
                    Ok(before) => before.unwrap()[0],
                    Err(Error::Locked { .. }) => return 0,
                    Err(other) => panic!("{other}"),
                };
                transaction.put(&table, [0], [before + 1]).unwrap();
                transaction.commit().unwrap();
                1
            })
        })
        .collect();
    let counted: u8 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    set_timeouts(Timeouts::Never);
    assert_eq!(database.get(&table, [0]).unwrap(), Some(vec![counted]), "each saw the one before");
    assert_all_free(&database, &table, 1);
    database.close().unwrap();
}

/// A prepared transaction keeps its lock until somebody decides it, and hands it on then, under a checkpoint.
pub(crate) fn in_doubt(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = Arc::new(open(&disk, options()));
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, [0], b"prepared").unwrap();
    transaction.prepare("gid").unwrap();
    let waiter = {
        let (database, table) = (Arc::clone(&database), table.clone());
        thread::spawn(move || {
            let mut transaction = database.begin();
            let before = transaction.get_for_update(&table, [0]).unwrap();
            transaction.put(&table, [0], b"waited").unwrap();
            transaction.commit().unwrap();
            before
        })
    };
    let decider = {
        let database = Arc::clone(&database);
        thread::spawn(move || match seed % 3 {
            0 => database.two_phase().rollback("gid").map(drop),
            _ => database.two_phase().commit("gid").map(drop),
        })
    };
    let checkpoint = {
        let database = Arc::clone(&database);
        thread::spawn(move || database.checkpoint().map(drop))
    };
    decider.join().unwrap().unwrap();
    checkpoint.join().unwrap().unwrap();
    let before = waiter.join().unwrap();
    let wanted = (!seed.is_multiple_of(3)).then(|| b"prepared".to_vec());
    assert_eq!(before, wanted, "who waited for the decision sees it");
    assert_eq!(database.get(&table, [0]).unwrap(), Some(b"waited".to_vec()));
    assert!(database.two_phase().in_doubt().unwrap().is_empty());
    assert_all_free(&database, &table, 1);
    Arc::into_inner(database).unwrap().close().unwrap();
}

/// Two wait for what a prepared transaction has written and read, when the log or the tree stops: it cannot be decided then.
pub(crate) fn of_a_stopped_database(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    database.put(&table, [1], b"read").unwrap();
    let mut transaction = database
        .with(TransactionOptions { isolation: Isolation::Serializable, ..options().transaction() })
        .begin();
    transaction.get(&table, [1]).unwrap();
    transaction.put(&table, [0], b"written").unwrap();
    transaction.prepare("gid").unwrap();
    let waiters: Vec<_> = (0..2_u8)
        .map(|row| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || database.put(&table, [row], b"waited").map(drop))
        })
        .collect();
    let fails = if seed % 4 < 2 { "log/0" } else { "recovery" };
    let target = FaultTarget::Path { prefix: fails.to_owned(), operations: Operations::Syncs };
    disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
    let stopped = match fails {
        "recovery" => database.checkpoint().map(drop),
        _ => database.with(Durability::Sync).put(&table, [2], b"not durable").map(drop),
    };
    assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
    for waiter in waiters {
        let waited = waiter.join().unwrap();
        assert!(matches!(waited, Err(Error::Stopped { .. })), "{waited:?}");
    }
    drop(database);
}
