//! Reads that lock a row: how long each waits, and what it says of changes.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use seawall_engine::{
    Database, Error, Isolation, LockWait, LockedRow, Table, Transaction, TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_testing::wait_until;

use common::{small_options, try_open};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const LONG: LockWait = LockWait::Timeout(Duration::from_secs(120));

fn open() -> (Database, Table) {
    let database = try_open(&SimulatedDisk::new(1), small_options()).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..small_options().transaction }).begin()
}

fn row(value: Option<&str>, changed: bool) -> LockedRow {
    LockedRow { value: value.map(|value| value.as_bytes().to_vec()), changed }
}

#[test]
fn a_row_that_another_holds_is_passed_over_and_the_transaction_goes_on() {
    for isolation in ALL {
        let (database, table) = open();
        for key in ["a", "b", "c"] {
            database.put(&table, key, key).unwrap();
        }
        let mut holder = begin(&database, isolation);
        holder.put(&table, "a", "held").unwrap();
        holder.get_for_update(&table, "b").unwrap();
        let mut worker = begin(&database, isolation);
        worker.put(&table, "own", "1").unwrap();
        let got = ["a", "b", "c", "own"].map(|key| worker.try_lock_row(&table, key).unwrap());
        assert_eq!(got, [None, None, Some(row(Some("c"), false)), Some(row(Some("1"), false))]);
        worker.delete(&table, "c").unwrap();
        worker.commit().unwrap();
        drop(holder);
        assert_eq!(database.snapshot().rows(&table).count(), 3, "{isolation:?}");
        assert_eq!(database.statistics().transactions.locks_held, 0);
    }
}

#[test]
fn each_read_that_locks_may_wait_its_own_time() {
    let (database, table) = open();
    database.put(&table, "k", "old").unwrap();
    let mut holder = begin(&database, Isolation::ReadCommitted);
    holder.put(&table, "k", "new").unwrap();
    // The options say not to wait.
    let mut waiter = begin(&database, Isolation::ReadCommitted);
    let mut patient = begin(&database, Isolation::ReadCommitted);
    patient.set_lock_wait(LONG);
    std::thread::scope(|scope| {
        let table = &table;
        let waiting = scope.spawn(move || {
            let got = waiter.lock_row(table, "k", LONG);
            waiter.commit().unwrap();
            got
        });
        let patient = scope.spawn(move || patient.get_for_update(table, "k"));
        wait_until("both to wait", || database.statistics().transactions.lock_waiters == 2);
        let mut hasty = begin(&database, Isolation::ReadCommitted);
        let savepoint = hasty.savepoint();
        for wait in [LockWait::NoWait, LockWait::Timeout(Duration::ZERO)] {
            let refused = hasty.lock_row(table, "k", wait).unwrap_err();
            assert!(matches!(refused, Error::Locked { .. }), "{refused}");
            hasty.rollback_to(&savepoint).unwrap();
        }
        assert_eq!(hasty.try_lock_row(table, "k").unwrap(), None);
        holder.commit().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), row(Some("new"), false));
        assert_eq!(patient.join().unwrap().unwrap().unwrap(), b"new");
    });
}

#[test]
fn a_locking_read_says_whether_the_row_has_changed_since_the_statement_began() {
    for checkpoints in [false, true] {
        let (database, table) = open();
        let checkpoint = || {
            if checkpoints {
                database.checkpoint().unwrap();
            }
        };
        for key in ["same", "updated", "deleted"] {
            database.put(&table, key, "old").unwrap();
        }
        checkpoint();
        let mut transaction = begin(&database, Isolation::ReadCommitted);
        let lock =
            |transaction: &mut Transaction, key: &str| transaction.lock_row(&table, key, LONG).unwrap();
        database.put(&table, "updated", "before").unwrap();
        assert_eq!(lock(&mut transaction, "updated"), row(Some("before"), false), "outside of a statement");
        transaction.commit().unwrap();
        let mut transaction = begin(&database, Isolation::ReadCommitted);
        transaction.begin_statement().unwrap();
        database.put(&table, "updated", "new").unwrap();
        database.delete(&table, "deleted").unwrap();
        database.put(&table, "inserted", "new").unwrap();
        checkpoint();
        let locked =
            ["same", "updated", "deleted", "inserted", "missing"].map(|key| lock(&mut transaction, key));
        let expected = [
            row(Some("old"), false),
            row(Some("new"), true),
            row(None, true),
            row(Some("new"), true),
            row(None, false),
        ];
        assert_eq!(locked, expected);
        transaction.begin_statement().unwrap();
        assert_eq!(
            lock(&mut transaction, "updated"),
            row(Some("new"), false),
            "as the statement has seen it"
        );
        transaction.put(&table, "updated", "own").unwrap();
        assert_eq!(lock(&mut transaction, "updated"), row(Some("own"), false));
        database.tables().truncate("t").unwrap();
        assert_eq!(lock(&mut transaction, "other"), row(None, true), "the table was truncated");
        drop(transaction);
        database.close().unwrap();
    }
}

#[test]
fn a_row_that_was_waited_for_has_changed() {
    let (database, table) = open();
    database.put(&table, "k", "old").unwrap();
    for (round, commits) in [true, false].into_iter().enumerate() {
        let mut holder = begin(&database, Isolation::ReadCommitted);
        holder.put(&table, "k", round.to_string()).unwrap();
        let mut waiter = begin(&database, Isolation::ReadCommitted);
        waiter.begin_statement().unwrap();
        std::thread::scope(|scope| {
            let table = &table;
            let waiting = scope.spawn(move || waiter.lock_row(table, "k", LONG).unwrap());
            wait_until("it to wait", || database.statistics().transactions.lock_waiters == 1);
            if commits {
                holder.commit().unwrap();
            } else {
                holder.rollback();
            }
            assert_eq!(waiting.join().unwrap(), row(Some("0"), commits));
        });
    }
}

#[test]
fn a_locking_read_whose_statement_was_cancelled_says_so() {
    let mut options = small_options();
    options.memory.snapshot_bytes = 0;
    let database = try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, "k", vec![1; 1000]).unwrap();
    database.checkpoint().unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.begin_statement().unwrap();
    database.put(&table, "k", vec![2; 1000]).unwrap();
    database.checkpoint().unwrap();
    let refused = transaction.lock_row(&table, "k", LONG).unwrap_err();
    assert!(matches!(refused, Error::SnapshotCancelled { .. }), "{refused}");
    transaction.begin_statement().unwrap();
    assert_eq!(transaction.lock_row(&table, "k", LONG).unwrap().value.unwrap(), vec![2; 1000]);
}
