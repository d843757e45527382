//! `Transaction::update`: it does not wait for the disk, and what it has seen is not shown before it is durable.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_engine::{
    Background, Database, Environment, Error, Isolation, LockWait, Options, Table, Transaction,
    TransactionOptions,
};
use seawall_simulation::{Fault, FaultError, FaultTarget, Gate, Operations, PowerLoss, SimulatedDisk};
use seawall_testing::wait_until;

use common::{small_options, try_open};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn open(disk: &SimulatedDisk) -> (Database, Table) {
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(600));
    let environment = Environment::of_the_system(Arc::new(disk.clone()));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..database_options() }).begin()
}

fn database_options() -> TransactionOptions {
    TransactionOptions {
        lock_wait: LockWait::Timeout(Duration::from_secs(600)),
        ..TransactionOptions::default()
    }
}

fn hold_the_log(disk: &SimulatedDisk) -> Gate {
    disk.hold(FaultTarget::Path { prefix: "log/".to_owned(), operations: Operations::Syncs })
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

fn add_one(transaction: &mut Transaction, table: &Table) -> u64 {
    let mut seen = 0;
    transaction
        .update(table, "k", |current| {
            seen = number(current);
            Some((seen + 1).to_be_bytes())
        })
        .unwrap();
    seen
}

/// What is in the row after a power failure now.
fn after_power_loss(disk: &SimulatedDisk) -> u64 {
    let database = try_open(&disk.after_power_loss(PowerLoss::LoseAll), small_options()).unwrap();
    let table = database.table("t").unwrap();
    number(database.get(&table, "k").unwrap().as_deref())
}

#[test]
fn many_transactions_change_one_row_while_the_flush_of_the_first_is_under_way() {
    for isolation in ALL {
        let disk = SimulatedDisk::new(1);
        let (database, table) = open(&disk);
        database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
        let gate = hold_the_log(&disk);
        let mut handles = Vec::new();
        for round in 5..40 {
            let mut transaction = begin(&database, isolation);
            assert_eq!(add_one(&mut transaction, &table), round, "{isolation:?}");
            assert_eq!(add_one(&mut transaction, &table), round + 1, "its own change, {isolation:?}");
            transaction.update(&table, "k", |current| Some((number(current) - 1).to_be_bytes())).unwrap();
            handles.push(transaction.commit_async().unwrap());
        }
        assert!(handles.iter().all(|handle| !handle.is_durable()));
        assert_eq!(number(database.get(&table, "k").unwrap().as_deref()), 5, "nothing is visible yet");
        gate.open();
        for handle in handles {
            handle.wait().unwrap();
        }
        assert_eq!(number(database.get(&table, "k").unwrap().as_deref()), 40);
        assert_eq!(after_power_loss(&disk), 40);
    }
}

/// How a transaction comes to show what it has seen in `update`.
type Showing = (&'static str, fn(Transaction, &Table));

const SHOWING: [Showing; 9] = [
    ("a rollback", |transaction, _| transaction.rollback()),
    ("a refused change", |mut transaction, table| {
        let refuse = |_: Option<&[u8]>| Err::<Option<Vec<u8>>, _>(Error::NoSuchSavepoint);
        transaction.try_update(table, "k", refuse).unwrap_err();
        // It does not end: what it was told is enough.
        std::mem::forget(transaction);
    }),
    ("a value that is too long", |mut transaction, table| {
        transaction.update(table, "k", |_| Some(vec![0; (64 << 20) + 1])).unwrap_err();
        std::mem::forget(transaction);
    }),
    ("a read of its own row", |mut transaction, table| {
        transaction.get(table, "k").unwrap();
        std::mem::forget(transaction);
    }),
    ("a locking read of its own row", |mut transaction, table| {
        transaction.get_for_update(table, "k").unwrap();
        std::mem::forget(transaction);
    }),
    ("a scan over its own row", |mut transaction, table| {
        assert_eq!(transaction.range(table, "a".."z").count(), 1);
        std::mem::forget(transaction);
    }),
    ("a commit without a change", |mut transaction, table| {
        transaction.rollback_to(&FIRST.with(|first| first.take()).unwrap()).unwrap();
        assert!(transaction.commit().is_ok(), "{}", table.name());
    }),
    ("a failed commit", |transaction, table| {
        let name = table.name().to_owned();
        OTHER.with(|other| other.take()).unwrap().tables().truncate(&name).unwrap();
        assert!(matches!(transaction.commit(), Err(Error::TableChanged { .. })));
    }),
    ("a commit", |transaction, _| assert!(transaction.commit().is_ok())),
];

thread_local! {
    /// A savepoint from before the update.
    static FIRST: std::cell::Cell<Option<seawall_engine::Savepoint>> = const { std::cell::Cell::new(None) };
    static OTHER: std::cell::Cell<Option<Database>> = const { std::cell::Cell::new(None) };
}

#[test]
fn whatever_shows_what_an_update_has_seen_waits_until_no_power_failure_takes_it() {
    for isolation in ALL {
        for (what, show) in SHOWING {
            let disk = SimulatedDisk::new(1);
            let (database, table) = open(&disk);
            database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
            let (gate, ended) = (hold_the_log(&disk), AtomicBool::new(false));
            let mut first = begin(&database, isolation);
            assert_eq!(add_one(&mut first, &table), 5);
            let first = first.commit_async().unwrap();
            gate.await_waiting(1);
            let mut second = begin(&database, isolation);
            let before = second.savepoint();
            assert_eq!(add_one(&mut second, &table), 6);
            assert_eq!(after_power_loss(&disk), 5, "the commit that it has seen can be lost still");
            std::thread::scope(|scope| {
                let (table, disk, ended, database) = (&table, &disk, &ended, &database);
                let showing = scope.spawn(move || {
                    FIRST.with(|first| first.set(Some(before)));
                    OTHER.with(|other| other.set(Some(database.clone())));
                    show(second, table);
                    let disk = disk.after_power_loss(PowerLoss::LoseAll);
                    ended.store(true, Ordering::SeqCst);
                    disk
                });
                wait_until("it to wait, or to end", || {
                    database.statistics().transactions.commit_waiters > 0 || ended.load(Ordering::SeqCst)
                });
                assert!(!ended.load(Ordering::SeqCst), "{what}, {isolation:?}: it did not wait");
                gate.open();
                let disk = showing.join().unwrap();
                let database = try_open(&disk, small_options()).unwrap();
                // A truncate, or the commit itself, may have come after.
                let table = database.table("t").unwrap();
                let left = number(database.get(&table, "k").unwrap().as_deref());
                let expected: &[u64] = match what {
                    "a commit" => &[7],
                    "a failed commit" => &[0],
                    _ => &[6],
                };
                assert!(expected.contains(&left), "{what}, {isolation:?}: {left}");
            });
            first.wait().unwrap();
        }
    }
}

/// How a transaction ends that has changed nothing.
type Ending = (&'static str, fn(Transaction) -> Result<(), Error>);

const WITHOUT_A_CHANGE: [Ending; 4] = [
    ("a commit", |transaction| transaction.commit().map(drop)),
    ("a commit that is waited for later", |transaction| transaction.commit_async()?.wait().map(drop)),
    ("a prepare", |transaction| transaction.prepare("gid").map(drop)),
    ("a prepare that is refused", |transaction| transaction.prepare("").map(drop)),
];

#[test]
fn whatever_ends_a_transaction_says_so_if_what_an_update_has_seen_may_be_lost() {
    for isolation in ALL {
        for (what, end) in WITHOUT_A_CHANGE {
            let disk = SimulatedDisk::new(1);
            let (database, table) = open(&disk);
            database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
            let gate = hold_the_log(&disk);
            let mut first = begin(&database, isolation);
            assert_eq!(add_one(&mut first, &table), 5);
            let first = first.commit_async().unwrap();
            let mut second = begin(&database, isolation);
            let before = second.savepoint();
            assert_eq!(add_one(&mut second, &table), 6);
            second.rollback_to(&before).unwrap();
            disk.inject(failing_syncs_of_the_log());
            gate.open();
            let ended = end(second);
            assert!(matches!(ended, Err(Error::Stopped { .. })), "{what}, {isolation:?}: {ended:?}");
            assert!(matches!(first.wait(), Err(Error::Stopped { .. })));
        }
    }
}

fn failing_syncs_of_the_log() -> Fault {
    let target = FaultTarget::Path { prefix: "log/".to_owned(), operations: Operations::Syncs };
    Fault { target, error: FaultError::Number(5), skip: 0, count: u64::MAX }
}

#[test]
fn an_update_under_a_snapshot_is_refused_when_the_row_has_changed_since() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let disk = SimulatedDisk::new(1);
        let (database, table) = open(&disk);
        database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
        let mut transaction = begin(&database, isolation);
        assert_eq!(transaction.get(&table, "other").unwrap(), None);
        database.put(&table, "k", 6_u64.to_be_bytes()).unwrap();
        let result = transaction.update(&table, "k", |_| Some("never"));
        assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
        // A snapshot that comes after an update sees the version that the update has seen.
        let mut transaction = begin(&database, isolation);
        assert_eq!(add_one(&mut transaction, &table), 6);
        database.put(&table, "other", "later").unwrap();
        assert!(transaction.get(&table, "other").unwrap().is_some());
        transaction.commit().unwrap();
        assert_eq!(number(database.get(&table, "k").unwrap().as_deref()), 7);
    }
}

#[test]
fn a_transaction_that_first_writes_a_cold_row_reads_without_waiting_for_the_commits_of_others() {
    for isolation in ALL {
        let disk = SimulatedDisk::new(1);
        let (database, table) = open(&disk);
        database.put(&table, "cold", "1").unwrap();
        let gate = hold_the_log(&disk);
        let mut other = begin(&database, isolation);
        other.put(&table, "hot", "2").unwrap();
        let other = other.commit_async().unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, "cold", "2").unwrap();
        assert_eq!(transaction.get(&table, "hot").unwrap(), None, "{isolation:?}");
        assert_eq!(transaction.get(&table, "cold").unwrap().unwrap(), b"2");
        gate.open();
        other.wait().unwrap();
    }
}

#[test]
fn a_snapshot_sees_what_was_committed_before_to_the_rows_that_are_locked_written_or_given_back() {
    for (isolation, is_given_back) in ALL.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let disk = SimulatedDisk::new(1);
        let (database, table) = open(&disk);
        database.put(&table, "read", "1").unwrap();
        let gate = hold_the_log(&disk);
        let mut other = begin(&database, isolation);
        other.put(&table, "written", "1").unwrap();
        let other = other.commit_async().unwrap();
        gate.await_waiting(1);
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, "kept", "2").unwrap();
        let before = transaction.savepoint();
        transaction.put(&table, "written", "2").unwrap();
        if is_given_back {
            transaction.rollback_to(&before).unwrap();
        }
        std::thread::scope(|scope| {
            let (table, database) = (&table, &database);
            let reading = scope.spawn(move || {
                assert_eq!(transaction.get(table, "read").unwrap().unwrap(), b"1");
                // Refused if the snapshot did not see the other's version, which the lock was waited for.
                transaction.put(table, "written", "3").unwrap();
                transaction.commit().unwrap();
            });
            wait_until("it to wait", || {
                database.statistics().transactions.commit_waiters > 0 || reading.is_finished()
            });
            gate.open();
            reading.join().unwrap();
        });
        other.wait().unwrap();
        assert_eq!(database.get(&table, "written").unwrap().unwrap(), b"3", "{isolation:?}");
    }
}

#[test]
fn a_truncate_or_drop_is_not_told_before_it_is_durable() {
    for drops in [false, true] {
        let disk = SimulatedDisk::new(1);
        let (database, table) = open(&disk);
        database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
        let gate = hold_the_log(&disk);
        let mut definition = database.begin();
        if drops { definition.drop_table("t") } else { definition.truncate_table("t") }.unwrap();
        let definition = definition.commit_async().unwrap();
        gate.await_waiting(1);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, disk, ended, database) = (&table, &disk, &ended, &database);
            let reader = scope.spawn(move || {
                let mut transaction = begin(database, Isolation::ReadCommitted);
                let seen = transaction.get_for_update(table, "k");
                ended.store(true, Ordering::SeqCst);
                (seen, disk.after_power_loss(PowerLoss::LoseAll))
            });
            wait_until("the reader to wait, or to end", || {
                database.statistics().transactions.commit_waiters > 0 || ended.load(Ordering::SeqCst)
            });
            assert!(!ended.load(Ordering::SeqCst), "it did not wait for the truncate to be durable");
            gate.open();
            let (seen, disk) = reader.join().unwrap();
            let left = try_open(&disk, small_options()).unwrap();
            match seen {
                Ok(value) => {
                    assert!(value.is_none() && !drops, "{value:?}");
                    let table = left.table("t").unwrap();
                    assert_eq!(left.get(&table, "k").unwrap(), None);
                }
                Err(error) => {
                    assert!(drops && matches!(error, Error::NoSuchTable { .. }), "{error:?}");
                    assert!(matches!(left.table("t"), Err(Error::NoSuchTable { .. })));
                }
            }
        });
        definition.wait().unwrap();
    }
}

/// Changes the row that only the tree holds, in each way that ends in the log.
fn change_a_cold_row(database: &Database, table: &Table, isolation: Isolation) {
    let mut transaction = begin(database, isolation);
    assert_eq!(add_one(&mut transaction, table), 5);
    transaction.commit().unwrap();
    assert_eq!(number(database.get(table, "k").unwrap().as_deref()), 6, "{isolation:?}");
}

/// What an update has read and undone counts as read, and the row stays locked.
fn prepare_after_a_read_of_a_cold_row(database: &Database, table: &Table, isolation: Isolation) {
    let mut transaction = begin(database, isolation);
    let before = transaction.savepoint();
    assert_eq!(add_one(&mut transaction, table), 5);
    transaction.rollback_to(&before).unwrap();
    transaction.put(table, "l", "v").unwrap();
    transaction.prepare("gid").unwrap();
    database.two_phase().commit("gid").unwrap();
}

const OF_A_COLD_ROW: [fn(&Database, &Table, Isolation); 2] =
    [change_a_cold_row, prepare_after_a_read_of_a_cold_row];

#[test]
fn an_update_commits_where_only_the_tree_knows_row_and_table() {
    for isolation in ALL {
        for change in OF_A_COLD_ROW {
            let disk = SimulatedDisk::new(1);
            let (database, table) = open(&disk);
            database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
            database.close().unwrap();
            let database = try_open(&disk, small_options()).unwrap();
            change(&database, &database.table("t").unwrap(), isolation);
        }
    }
}

#[test]
fn an_update_commits_after_a_snapshot_was_cancelled_that_the_transaction_never_had() {
    for isolation in ALL {
        for change in OF_A_COLD_ROW {
            let mut options = small_options();
            options.memory.snapshot_bytes = 0;
            let database = try_open(&SimulatedDisk::new(1), options).unwrap();
            let table = database.create_table("t").unwrap();
            database.put(&table, "k", 4_u64.to_be_bytes()).unwrap();
            database.checkpoint().unwrap();
            let snapshot = database.snapshot();
            database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
            database.checkpoint().unwrap();
            let seen = snapshot.get(&table, "k");
            assert!(matches!(seen, Err(Error::SnapshotCancelled { .. })), "{seen:?}");
            drop(snapshot);
            database.checkpoint().unwrap();
            change(&database, &table, isolation);
        }
    }
}

#[test]
fn what_an_update_has_read_and_undone_is_read_where_the_table_was_then() {
    let database = try_open(&SimulatedDisk::new(1), small_options()).unwrap();
    let table = database.create_table("t").unwrap();
    let other = database.create_table("other").unwrap();
    database.put(&table, "k", 5_u64.to_be_bytes()).unwrap();
    let mut transaction = begin(&database, Isolation::Serializable);
    let before = transaction.savepoint();
    assert_eq!(add_one(&mut transaction, &table), 5);
    transaction.rollback_to(&before).unwrap();
    transaction.put(&other, "seen", 5_u64.to_be_bytes()).unwrap();
    // Has read that nothing was seen: so it comes before the other, which has seen a row that is gone after it.
    let mut truncate = begin(&database, Isolation::Serializable);
    assert_eq!(truncate.get(&other, "seen").unwrap(), None);
    truncate.truncate_table("t").unwrap();
    truncate.commit().unwrap();
    let refused = transaction.commit();
    assert!(matches!(refused, Err(Error::TableChanged { .. })), "{refused:?}");
}
