//! Reads that lock a row: how long each waits, and what it says of changes.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use seawall_engine::{
    Database, Error, Isolation, LockMode, LockTag, LockTarget, LockWait, LockedRow, RowLock, Table,
    Transaction, TransactionOptions,
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

#[test]
fn rows_are_shared_by_strength_and_written_under_a_lock_of_their_key() {
    let strengths = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];
    let (database, table) = open();
    database.put(&table, "k", "old").unwrap();
    for (held, one) in strengths.into_iter().enumerate() {
        for (wanted, other) in strengths.into_iter().enumerate() {
            let mut holder = begin(&database, Isolation::ReadCommitted);
            holder.lock_row_as(&table, "k", one, LONG).unwrap();
            let mut second = begin(&database, Isolation::ReadCommitted);
            let got = second.try_lock_row_as(&table, "k", other).unwrap();
            assert_eq!(got.is_some(), held + wanted < 3, "{other:?} beside {one:?}");
        }
        let mut holder = begin(&database, Isolation::ReadCommitted);
        holder.lock_row_as(&table, "k", one, LONG).unwrap();
        let put = database.with(LockWait::NoWait).put(&table, "k", one.eq(&RowLock::KeyShare).to_string());
        assert_eq!(put.is_ok(), one == RowLock::KeyShare, "{one:?}");
        let deleted = database.with(LockWait::NoWait).delete(&table, "k");
        assert!(matches!(deleted, Err(Error::Locked { .. })), "{one:?}");
        let row = holder.lock_row_as(&table, "k", RowLock::KeyShare, LONG).unwrap();
        assert_eq!(row.value.unwrap(), b"true", "its newest version");
    }
    assert_eq!(database.statistics().transactions.locks_held, 0);
}

#[test]
fn a_rollback_to_a_savepoint_leaves_a_lock_as_strong_as_it_was() {
    let (database, table) = open();
    database.put(&table, "k", "old").unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.lock_row_as(&table, "k", RowLock::KeyShare, LONG).unwrap();
    let outer = transaction.savepoint();
    transaction.put(&table, "k", "new").unwrap();
    let inner = transaction.savepoint();
    transaction.get_for_update(&table, "k").unwrap();
    let others = |strength| {
        let mut other = begin(&database, Isolation::ReadCommitted);
        other.try_lock_row_as(&table, "k", strength).unwrap().is_some()
    };
    assert!(!others(RowLock::KeyShare));
    transaction.rollback_to(&inner).unwrap();
    assert!(others(RowLock::KeyShare) && !others(RowLock::Share));
    transaction.rollback_to(&outer).unwrap();
    assert!(others(RowLock::NoKeyUpdate) && !others(RowLock::Update));
    drop(transaction);
    assert!(others(RowLock::Update));
}

#[test]
fn a_wait_for_a_row_or_an_object_ends_when_its_session_is_cancelled() {
    let (database, table) = open();
    let object = LockTag { kind: 1, number: 7 };
    let (holder, of_holder) = database.new_numbered_session(1);
    let (waiter, of_waiter) = database.new_numbered_session(2);
    let mut holding = holder.begin();
    holding.put(&table, "k", "held").unwrap();
    of_holder.lock(object, LockMode::Exclusive, LONG).unwrap();
    std::thread::scope(|scope| {
        let table = &table;
        for is_row in [true, false] {
            waiter.cancel_token().clear();
            let (waiter_of_row, of_waiter) = (waiter.clone(), of_waiter.clone());
            let waiting = scope.spawn(move || match is_row {
                true => waiter_of_row.with(LONG).begin().put(table, "k", "waited"),
                false => of_waiter.lock(object, LockMode::Share, LONG),
            });
            wait_until("it to wait", || database.waiting_requests().len() == 1);
            let seen = database.waiting_requests().remove(0);
            assert_eq!((seen.session, &seen.blocked_by[..]), (2, &[1][..]));
            match seen.target {
                LockTarget::Row { .. } => assert!(is_row && seen.mode == LockMode::Exclusive),
                LockTarget::Object(tag) => assert!(!is_row && tag == object && seen.mode == LockMode::Share),
            }
            waiter.cancel_token().request();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Cancelled)));
        }
    });
    assert_eq!(database.locked_objects().iter().map(|held| held.session).collect::<Vec<_>>(), [1]);
    of_holder.keep(object, Default::default());
    assert_eq!(of_waiter.object_count(), 0);
}

#[test]
fn a_circle_of_a_row_and_an_object_is_found_and_named() {
    let (database, table) = open();
    let object = LockTag { kind: 1, number: 7 };
    let (first, of_first) = database.new_numbered_session(1);
    let (second, of_second) = database.new_numbered_session(2);
    let mut holding = first.with(LONG).begin();
    holding.put(&table, "k", "held").unwrap();
    of_second.lock(object, LockMode::AccessExclusive, LONG).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| of_first.lock(object, LockMode::Share, LONG));
        wait_until("it to wait", || database.waiting_requests().len() == 1);
        let refused = second.with(LONG).begin().put(&table, "k", "waited").unwrap_err();
        let Error::Deadlock { circle } = refused else { panic!("{refused}") };
        let sessions: Vec<i32> = circle.iter().map(|member| member.session).collect();
        assert_eq!(sessions, [2, 1]);
        assert_eq!(circle[1].target, LockTarget::Object(object));
        of_second.keep(object, Default::default());
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_row_that_is_to_be_inserted_is_locked_unless_it_is_there() {
    let (database, table) = open();
    database.put(&table, "there", "old").unwrap();
    let mut sharing = begin(&database, Isolation::ReadCommitted);
    sharing.lock_row_as(&table, "there", RowLock::KeyShare, LONG).unwrap();
    let mut inserting = begin(&database, Isolation::ReadCommitted);
    assert_eq!(inserting.lock_new_row(&table, "there", LockWait::NoWait).unwrap().unwrap(), b"old");
    assert_eq!(inserting.lock_new_row(&table, "new", LockWait::NoWait).unwrap(), None);
    let mut other = begin(&database, Isolation::ReadCommitted);
    assert!(other.try_lock_row_as(&table, "there", RowLock::NoKeyUpdate).unwrap().is_some());
    assert!(other.try_lock_row_as(&table, "new", RowLock::Share).unwrap().is_none());
    inserting.put(&table, "new", "1").unwrap();
    inserting.commit().unwrap();
    let mut another = begin(&database, Isolation::ReadCommitted);
    another.delete(&table, "new").unwrap();
    let refused = other.lock_new_row(&table, "new", LockWait::NoWait).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
}

#[test]
fn a_lock_of_a_key_does_not_mind_a_new_value_of_its_row() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let (database, table) = open();
        for key in ["changed", "deleted", "replaced"] {
            database.put(&table, key, "old").unwrap();
        }
        let mut transaction = begin(&database, isolation);
        assert_eq!(transaction.get(&table, "other").unwrap(), None);
        database.put(&table, "changed", "new").unwrap();
        database.delete(&table, "deleted").unwrap();
        database.put(&table, "inserted", "new").unwrap();
        assert!(transaction.lock_existing_row(&table, "changed", LONG).unwrap());
        let seen = transaction.lock_row_as(&table, "replaced", RowLock::KeyShare, LONG).unwrap();
        assert_eq!(seen.value.unwrap(), b"old", "as its snapshot has it");
        assert!(!transaction.lock_existing_row(&table, "missing", LONG).unwrap());
        let savepoint = transaction.savepoint();
        for key in ["deleted", "inserted"] {
            let refused = transaction.lock_existing_row(&table, key, LONG).unwrap_err();
            assert!(matches!(refused, Error::Conflict { .. }), "{key}: {refused}");
            transaction.rollback_to(&savepoint).unwrap();
        }
        transaction.put(&table, "child", "1").unwrap();
        transaction.commit().unwrap();
    }
    let (database, table) = open();
    let mut transaction = begin(&database, Isolation::Serializable);
    assert!(!transaction.lock_existing_row(&table, "missing", LONG).unwrap());
    transaction.put(&table, "child", "1").unwrap();
    database.put(&table, "missing", "new").unwrap();
    let refused = transaction.commit().unwrap_err();
    assert!(refused.is_conflict_of_reads(), "that there was no such row is read: {refused}");
}
