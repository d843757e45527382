//! Savepoints: what a return to one gives back, and what it mends.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use seawall_engine::{
    Database, Durability, Error, Isolation, LockWait, Table, Transaction, TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_testing::wait_until;

use common::{small_options, try_open};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const LONG: LockWait = LockWait::Timeout(std::time::Duration::from_secs(120));

fn open() -> (Database, Table) {
    let database = try_open(&SimulatedDisk::new(1), small_options()).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..small_options().transaction }).begin()
}

fn is_free(database: &Database, table: &Table, key: &str) -> bool {
    match database.begin().try_lock_row(table, key) {
        Ok(row) => row.is_some(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_rollback_to_a_savepoint_gives_back_the_locks_taken_since() {
    for isolation in ALL {
        let (database, table) = open();
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, "before", "1").unwrap();
        transaction.get_for_update(&table, "locked before").unwrap();
        let outer = transaction.savepoint();
        transaction.put(&table, "outer", "1").unwrap();
        let inner = transaction.savepoint();
        transaction.put(&table, "inner", "1").unwrap();
        transaction.get_for_update(&table, "locked").unwrap();
        transaction.put(&table, "before", "2").unwrap();
        let held = |keys: [bool; 5]| {
            let all = ["before", "locked before", "outer", "inner", "locked"];
            assert_eq!(all.map(|key| !is_free(&database, &table, key)), keys, "{isolation:?}");
        };
        held([true; 5]);
        transaction.rollback_to(&inner).unwrap();
        held([true, true, true, false, false]);
        transaction.get_for_update(&table, "locked").unwrap();
        transaction.rollback_to(&outer).unwrap();
        held([true, true, false, false, false]);
        transaction.prepare("gid").unwrap();
        held([true, true, false, false, false]);
        database.two_phase().commit("gid").unwrap();
        assert_eq!(database.get(&table, "before").unwrap().unwrap(), b"1");
        assert_eq!(database.statistics().transactions.locks_held, 0);
    }
}

#[test]
fn a_transaction_that_failed_goes_on_after_a_rollback_to_a_savepoint() {
    for isolation in ALL {
        let (database, table) = open();
        let mut holder = begin(&database, isolation);
        holder.put(&table, "held", "1").unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, "before", "1").unwrap();
        let savepoint = transaction.savepoint();
        transaction.put(&table, "since", "1").unwrap();
        let refused = transaction.put(&table, "held", "2").unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused}");
        assert!(is_free(&database, &table, "since"), "given back at once");
        assert!(!is_free(&database, &table, "before"));
        for refused in [
            transaction.get(&table, "before").unwrap_err(),
            transaction.put(&table, "other", "1").unwrap_err(),
            transaction.release(&savepoint).unwrap_err(),
        ] {
            assert!(matches!(refused, Error::TransactionFailed { .. }), "{refused}");
        }
        let too_late = transaction.savepoint();
        let refused = transaction.rollback_to(&too_late).unwrap_err();
        assert!(matches!(refused, Error::TransactionFailed { .. }), "{refused}");
        transaction.rollback_to(&savepoint).unwrap();
        assert_eq!(transaction.get(&table, "since").unwrap(), None);
        transaction.put(&table, "after", "1").unwrap();
        transaction.commit().unwrap();
        drop(holder);
        let rows: Vec<_> = database.snapshot().rows(&table).map(|row| row.unwrap().0).collect();
        assert_eq!(rows, [&b"after"[..], b"before"]);
        assert_eq!(database.statistics().transactions.locks_held, 0);
    }
}

#[test]
fn a_conflict_after_a_savepoint_leaves_the_snapshot_and_what_came_before() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let (database, table) = open();
        let mut transaction = begin(&database, isolation);
        assert_eq!(transaction.get(&table, "read").unwrap(), None);
        transaction.put(&table, "before", "1").unwrap();
        let (outer, inner) = (transaction.savepoint(), transaction.savepoint());
        database.put(&table, "taken", "theirs").unwrap();
        let refused = transaction.put(&table, "taken", "mine").unwrap_err();
        assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
        transaction.rollback_to(&inner).unwrap();
        assert_eq!(transaction.get(&table, "taken").unwrap(), None, "the snapshot is the same");
        assert!(
            matches!(transaction.delete(&table, "taken"), Err(Error::Conflict { .. })),
            "and so is the conflict"
        );
        transaction.rollback_to(&outer).unwrap();
        let committed = transaction.commit();
        assert_eq!(
            committed.is_ok(),
            isolation == Isolation::Snapshot,
            "what was read has changed: {committed:?}"
        );
    }
}

#[test]
fn a_deadlock_after_a_savepoint_lets_the_other_transaction_go_on_and_then_this_one() {
    let (database, table) = open();
    let with = |wait| TransactionOptions {
        isolation: Isolation::ReadCommitted,
        durability: Durability::Async,
        lock_wait: wait,
        ..TransactionOptions::default()
    };
    let mut first = database.with(with(LONG)).begin();
    first.put(&table, "kept", "first").unwrap();
    let savepoint = first.savepoint();
    first.put(&table, "a", "first").unwrap();
    std::thread::scope(|scope| {
        let (database, table) = (&database, &table);
        let second = scope.spawn(move || {
            let mut second = database.with(with(LONG)).begin();
            second.put(table, "b", "second").unwrap();
            second.put(table, "a", "second").unwrap();
            second.commit().unwrap();
        });
        wait_until("the second one to wait", || database.statistics().transactions.lock_waiters > 0);
        assert!(matches!(first.put(table, "b", "first"), Err(Error::Deadlock { .. })));
        second.join().unwrap();
    });
    first.rollback_to(&savepoint).unwrap();
    first.put(&table, "b", "first").unwrap();
    first.commit().unwrap();
    let values = ["kept", "a", "b"].map(|key| database.get(&table, key).unwrap().unwrap());
    assert_eq!(values, [&b"first"[..], b"second", b"first"]);
}

#[test]
fn a_released_savepoint_is_gone_and_what_was_done_since_belongs_to_the_one_before() {
    let (database, table) = open();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let outer = transaction.savepoint();
    transaction.put(&table, "a", "1").unwrap();
    let inner = transaction.savepoint();
    let innermost = transaction.savepoint();
    transaction.put(&table, "b", "1").unwrap();
    transaction.release(&inner).unwrap();
    for gone in [&inner, &innermost] {
        assert!(matches!(transaction.rollback_to(gone), Err(Error::NoSuchSavepoint)));
        assert!(matches!(transaction.release(gone), Err(Error::NoSuchSavepoint)));
    }
    assert_eq!(transaction.rows(&table).count(), 2);
    transaction.rollback_to(&outer).unwrap();
    assert_eq!(transaction.rows(&table).count(), 0);
    assert_eq!(database.statistics().transactions.locks_held, 0);
    transaction.put(&table, "c", "1").unwrap();
    transaction.release(&outer).unwrap();
    transaction.commit().unwrap();
    assert_eq!(database.snapshot().rows(&table).count(), 1);
}

#[test]
fn savepoints_that_are_released_take_no_memory() {
    let limit = 4 << 20;
    let options = small_options().with(|options| {
        options.memory.transaction_bytes = limit;
        options.memory.all_transactions_bytes = limit;
    });
    let database = try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    // Each statement has a savepoint, writes one row, and locks another.
    for number in 0..100_000_u32 {
        let statement = transaction.savepoint();
        transaction.put(&table, "row", number.to_be_bytes()).unwrap();
        transaction.get_for_update(&table, "locked").unwrap();
        transaction.release(&statement).unwrap();
    }
    let mut statement = None;
    let refused = (0..100_000_u32).find_map(|number| {
        statement.get_or_insert_with(|| transaction.savepoint());
        transaction.put(&table, "row", number.to_be_bytes()).err()
    });
    assert!(matches!(refused, Some(Error::TransactionTooLarge { .. })), "undo counts: {refused:?}");
    transaction.rollback_to(&statement.unwrap()).unwrap();
    transaction.put(&table, "row", "last").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn definitions_are_undone_with_their_locks() {
    let (database, _table) = open();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let savepoint = transaction.savepoint();
    let new = transaction.create_table("new").unwrap();
    transaction.put(&new, "a", "1").unwrap();
    transaction.truncate_table("t").unwrap();
    assert!(matches!(database.create_table("new"), Err(Error::Locked { .. })));
    transaction.rollback_to(&savepoint).unwrap();
    database.create_table("new").unwrap();
    database.tables().truncate("t").unwrap();
    assert!(matches!(transaction.create_table("new"), Err(Error::TableExists { .. })));
    transaction.rollback_to(&savepoint).unwrap();
    transaction.commit().unwrap();
    assert_eq!(database.statistics().transactions.locks_held, 0);
}
