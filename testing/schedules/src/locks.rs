//! Row locks: handed on in order of arrival, with a victim for each deadlock.
//!
//! Checked: nobody waits for ever, not even for a lock that a stopped database will not give up; a lock that was refused or given up is nobody's, and no two hold one at a time.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Error, Isolation, LockMode, LockModes, LockTag, LockWait, LockedRow,
    Options, RowLock, Table, Transaction, TransactionOptions,
};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, SimulatedDisk};
use seawall_sync::explored::{Timeouts, set_timeouts};
use seawall_sync::thread;

use crate::world::{open, small_options};

fn options() -> Options {
    let mut options = small_options(Background::Manual);
    options.transaction.isolation = Isolation::ReadCommitted;
    options.transaction.durability = Durability::Async;
    options
}

/// All rows can be written at once by one who does not wait.
fn assert_all_free(database: &Database, table: &Table, rows: u8) {
    let mut transaction = database
        .with(TransactionOptions {
            isolation: Isolation::ReadCommitted,
            durability: Durability::Sync,
            lock_wait: LockWait::NoWait,
            ..TransactionOptions::default()
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
    let victims = results.iter().filter(|result| matches!(result, Err(Error::Deadlock { .. }))).count();
    let winners = results.iter().filter(|result| result.is_ok()).count();
    assert!(victims <= 1 && victims + winners == 3, "one cycle, one victim: {results:?}");
    assert_all_free(&database, &table, 3);
    database.close().unwrap();
}

/// Threads count in one row, and some give up waiting for it, perhaps when they are given it.
pub(crate) fn that_time_out(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(
        &disk,
        options().with(|options| options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(1))),
    );
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

/// Threads count in two rows, each time after a savepoint: two lock the rows crosswise, the third passes over a row that is held, and
/// some return to the savepoint and give the row to the next one that waits.
pub(crate) fn given_back_at_savepoints(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    let threads: Vec<_> = (0..3_u8)
        .map(|own| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                let mut transaction = database.begin();
                transaction.put(&table, [10 + own], b"kept").unwrap();
                let mut counted = [0_u8; 2];
                for round in 0..2 {
                    let row = (own + round) % 2;
                    let is_undone = (seed + u64::from(own + round)).is_multiple_of(3);
                    let add = if own == 2 { add_if_free } else { add_to_row };
                    counted[usize::from(row)] += add_unless(is_undone, &mut transaction, &table, row, add);
                }
                transaction.commit().unwrap();
                counted
            })
        })
        .collect();
    let counted: Vec<[u8; 2]> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for row in 0..2_u8 {
        let sum: u8 = counted.iter().map(|of_thread| of_thread[usize::from(row)]).sum();
        let value = database.get(&table, [row]).unwrap().map_or(0, |value| value[0]);
        assert_eq!(value, sum, "row {row}: {counted:?}");
    }
    assert_eq!(database.snapshot().range(&table, [10]..[20]).count(), 3, "what came before the savepoints");
    assert_eq!(database.statistics().transactions.locks_held, 0);
    assert_all_free(&database, &table, 2);
    database.close().unwrap();
}

/// Adds one to the row after a savepoint, and undoes that if it is to be undone or fails; how much was added in the end.
fn add_unless(
    is_undone: bool,
    transaction: &mut Transaction,
    table: &Table,
    row: u8,
    add: fn(&mut Transaction, &Table, u8) -> Result<bool, Error>,
) -> u8 {
    let savepoint = transaction.savepoint();
    let added = match add(transaction, table, row) {
        Ok(added) => added,
        Err(Error::Deadlock { .. }) => false,
        Err(other) => panic!("{other}"),
    };
    if added && !is_undone {
        transaction.release(&savepoint).unwrap();
        return 1;
    }
    transaction.rollback_to(&savepoint).unwrap();
    0
}

fn add_to_row(transaction: &mut Transaction, table: &Table, row: u8) -> Result<bool, Error> {
    let locked = transaction.lock_row(table, [row], LockWait::Timeout(Duration::from_secs(3600)))?;
    add_one(transaction, table, row, &locked).map(|()| true)
}

fn add_if_free(transaction: &mut Transaction, table: &Table, row: u8) -> Result<bool, Error> {
    let Some(locked) = transaction.try_lock_row(table, [row])? else { return Ok(false) };
    add_one(transaction, table, row, &locked).map(|()| true)
}

fn add_one(transaction: &mut Transaction, table: &Table, row: u8, locked: &LockedRow) -> Result<(), Error> {
    let before = locked.value.as_ref().map_or(0, |value| value[0]);
    transaction.put(table, [row], [before + 1])
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
        .with(TransactionOptions { isolation: Isolation::Serializable, ..options().transaction })
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

/// Threads wait for a row, some to share it, while another thread cancels them: each has the row or was cancelled, and no lock is left.
pub(crate) fn that_are_cancelled(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(
        &disk,
        options()
            .with(|options| options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(3600))),
    );
    let table = database.create_table("t").unwrap();
    database.put(&table, [0], [0]).unwrap();
    let mut holder = database.begin();
    holder.lock_row_as(&table, [0], RowLock::Share, LockWait::NoWait).unwrap();
    let sessions: Vec<Database> = (1..4).map(|number| database.new_numbered_session(number).0).collect();
    let threads: Vec<_> = sessions
        .iter()
        .zip([RowLock::NoKeyUpdate, RowLock::Share, RowLock::Update])
        .map(|(session, strength)| {
            let (session, table) = (session.clone(), table.clone());
            thread::spawn(move || {
                let mut transaction = session.begin();
                let wait = LockWait::Timeout(Duration::from_secs(3600));
                match transaction.lock_row_as(&table, [0], strength, wait) {
                    Ok(_) => transaction.commit().map(drop).unwrap(),
                    Err(Error::Cancelled) => {}
                    Err(other) => panic!("{other}"),
                }
            })
        })
        .collect();
    let canceller = {
        let cancels: Vec<_> = sessions.iter().map(Database::cancel_token).collect();
        thread::spawn(move || {
            let cancelled = usize::try_from(seed % 3).unwrap() + 1;
            cancels.iter().take(cancelled).for_each(|cancel| cancel.request());
        })
    };
    if seed.is_multiple_of(2) {
        canceller.join().unwrap();
        holder.rollback();
    } else {
        holder.rollback();
        canceller.join().unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(database.statistics().transactions.locks_held, 0);
    assert_all_free(&database, &table, 1);
    drop(sessions);
    database.close().unwrap();
}

/// Two threads share a row and both write it, each after a wait for an object that the other one may hold: at most one is refused at a
/// time, and the other one goes on.
pub(crate) fn of_rows_and_objects(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    database.put(&table, [0], [0]).unwrap();
    let long = LockWait::Timeout(Duration::from_secs(3600));
    let threads: Vec<_> = (1..4_i32)
        .map(|number| {
            let (session, locks) = database.new_numbered_session(number);
            let table = table.clone();
            thread::spawn(move || {
                let object = |number: i32| LockTag { kind: 0, number: u64::from(number.unsigned_abs()) % 3 };
                let mut transaction = session.begin();
                let mut held = Vec::new();
                let mut work = || -> Result<(), Error> {
                    transaction.lock_row_as(&table, [0], RowLock::Share, long)?;
                    for tag in [object(number), object(number + 1)] {
                        locks.lock(tag, LockMode::Exclusive, long)?;
                        held.push(tag);
                    }
                    let before = transaction.lock_row(&table, [0], long)?.value.unwrap()[0];
                    transaction.put(&table, [0], [before + 1])
                };
                let worked = work().and_then(|()| transaction.commit().map(drop));
                held.into_iter().for_each(|tag| locks.keep(tag, LockModes::default()));
                match worked {
                    Ok(()) => 1,
                    Err(Error::Deadlock { circle }) => {
                        assert_eq!(circle[0].session, number);
                        0
                    }
                    Err(other) => panic!("{other}"),
                }
            })
        })
        .collect();
    let counted: u8 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(counted >= 1, "one of them goes on");
    assert_eq!(database.get(&table, [0]).unwrap(), Some(vec![counted]));
    assert!(database.locked_objects().is_empty() && database.waiting_requests().is_empty());
    assert_all_free(&database, &table, 1);
    database.close().unwrap();
}
