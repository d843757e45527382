//! What an in-doubt transaction holds: its rows and its tables, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Environment, Error, Isolation, LockWait, Options, RowLock, TransactionOptions,
};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, SimulatedDisk};
use seawall_testing::wait_until;

use super::{begin, check_and_close, get, gids, lose_power, open, options, prepare, put};

#[test]
fn rows_are_locked_until_the_decision_and_again_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    put(&database, "read", "1").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, "written", "1").unwrap();
    transaction.delete(&table, "deleted").unwrap();
    transaction.get_for_update(&table, "read").unwrap();
    let savepoint = transaction.savepoint();
    transaction.put(&table, "undone", "1").unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.prepare("gid").unwrap();
    let look = |database: &Database| {
        for key in ["written", "deleted", "read"] {
            assert!(matches!(put(database, key, "2"), Err(Error::Locked { .. })), "{key}");
        }
        put(database, "undone", "2").unwrap();
        put(database, "other", "2").unwrap();
        assert_eq!(get(database, "read").as_deref(), Some("1"));
        assert_eq!(database.statistics().transactions.locks_held, 3);
    };
    look(&database);
    let disk = lose_power(&disk, database);
    let database = open(&disk);
    look(&database);
    database.checkpoint().unwrap();
    let disk = lose_power(&disk, database);
    let database = open(&disk);
    look(&database);
    database.two_phase().commit("gid").unwrap();
    for key in ["written", "deleted", "read"] {
        put(&database, key, "3").unwrap();
    }
    check_and_close(database);
}

#[test]
fn whoever_waits_for_a_row_gets_it_with_the_decision() {
    for commits in [true, false] {
        let mut options = Options { background: Background::Threads, ..options() };
        options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(2)));
        let database = Database::open(environment, options).unwrap();
        let table = database.create_table("t").unwrap();
        prepare(&database, "gid", &[("a", "prepared")]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let options =
                    TransactionOptions { isolation: Isolation::ReadCommitted, ..database_options() };
                let mut transaction = database.with(options).begin();
                let found = transaction.get_for_update(&table, "a").unwrap();
                transaction.put(&table, "a", "after").unwrap();
                transaction.commit().unwrap();
                found
            });
            if commits {
                database.two_phase().commit("gid").unwrap();
            } else {
                database.two_phase().rollback("gid").unwrap();
            }
            assert_eq!(waiting.join().unwrap(), commits.then(|| b"prepared".to_vec()));
        });
        assert_eq!(get(&database, "a").as_deref(), Some("after"));
        check_and_close(database);
    }
}

/// Its rows stay locked until the next open then: nobody can decide it.
#[test]
fn whoever_waits_for_a_row_is_told_when_the_database_stops() {
    for fails in ["log/0", "recovery"] {
        let disk = SimulatedDisk::new(9);
        let lock_wait = LockWait::Timeout(Duration::from_secs(120));
        let environment = Environment::of_the_system(Arc::new(disk.clone()));
        let database =
            Database::open(environment, options().with(|options| options.transaction.lock_wait = lock_wait))
                .unwrap();
        let table = database.create_table("t").unwrap();
        put(&database, "a", "old").unwrap();
        prepare(&database, "gid", &[("a", "prepared")]);
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| database.with(database_options()).begin().get_for_update(&table, "a"));
            wait_until("the reader to wait for the lock", || {
                database.statistics().transactions.lock_waiters > 0
            });
            let target = FaultTarget::Path { prefix: fails.to_owned(), operations: Operations::Syncs };
            disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
            let failed = match fails {
                "recovery" => database.checkpoint().map(|_| ()),
                _ => put(&database, "b", "1"),
            };
            assert!(matches!(failed, Err(Error::Stopped { .. })), "{failed:?}");
            let waited = waiting.join().unwrap();
            assert!(matches!(&waited, Err(Error::Stopped { cause }) if !cause.is_empty()), "{waited:?}");
        });
        assert_eq!(get(&database, "a").as_deref(), Some("old"), "what is there can be read");
        let refused = put(&database, "a", "refused");
        assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
        let database = open(&lose_power(&disk, database));
        assert_eq!(gids(&database), ["gid"]);
        database.two_phase().commit("gid").unwrap();
        assert_eq!(get(&database, "a").as_deref(), Some("prepared"));
        check_and_close(database);
    }
}

fn database_options() -> TransactionOptions {
    TransactionOptions { lock_wait: LockWait::Timeout(Duration::from_secs(120)), ..options().transaction }
}

#[test]
fn its_tables_are_not_dropped_or_truncated_and_may_be_renamed() {
    let disk = SimulatedDisk::new(3);
    let mut database = open(&disk);
    database.create_table("t").unwrap();
    database.create_table("other").unwrap();
    prepare(&database, "gid", &[("a", "1")]);
    for restarts in [false, true] {
        if restarts {
            let left = lose_power(&disk, database);
            database = open(&left);
        }
        for refused in [database.tables().drop("t"), database.tables().truncate("t")] {
            let expected =
                matches!(&refused, Err(Error::TableInDoubt { name, gid }) if name == "t" && gid == "gid");
            assert!(expected, "{refused:?}");
        }
        database.tables().rename("t", "renamed").unwrap();
        assert_eq!(database.two_phase().in_doubt().unwrap()[0].tables, ["renamed"]);
        database.tables().rename("renamed", "t").unwrap();
    }
    database.tables().drop("other").unwrap();
    database.two_phase().commit("gid").unwrap();
    assert_eq!(get(&database, "a").as_deref(), Some("1"));
    database.tables().truncate("t").unwrap();
    assert_eq!(get(&database, "a"), None);
    database.tables().drop("t").unwrap();
    check_and_close(database);
}

#[test]
fn nobody_sees_what_is_prepared_and_a_snapshot_from_before_the_decision_never_does() {
    let database = open(&SimulatedDisk::new(4));
    let table = database.create_table("t").unwrap();
    put(&database, "a", "old").unwrap();
    prepare(&database, "gid", &[("a", "new"), ("b", "new")]);
    let before = database.snapshot();
    let mut writer = begin(&database, Isolation::Snapshot);
    assert_eq!(writer.get(&table, "c").unwrap(), None);
    let stamp = database.two_phase().commit("gid").unwrap();
    assert_eq!(before.get(&table, "a").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(before.range::<&[u8]>(&table, ..).count(), 1);
    assert_eq!(database.snapshot().lsn(), stamp);
    assert_eq!((get(&database, "a").as_deref(), get(&database, "b").as_deref()), (Some("new"), Some("new")));
    // The decision counts as the commit: whoever began before it and writes the row has a conflict.
    let refused = writer.put(&table, "a", "conflict");
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    drop((writer, before));
    check_and_close(database);
}

#[test]
fn it_keeps_no_snapshot_and_no_memory_once_it_is_in_the_tree() {
    let database = open(&SimulatedDisk::new(5));
    let table = database.create_table("t").unwrap();
    let mut transaction = begin(&database, Isolation::Snapshot);
    assert_eq!(transaction.get(&table, "a").unwrap(), None);
    transaction.put(&table, "b", vec![1; 1 << 20]).unwrap();
    transaction.prepare("gid").unwrap();
    assert_eq!(database.statistics().snapshots.alive, 0);
    for round in 0..3_u8 {
        put(&database, "c", &round.to_string()).unwrap();
        database.checkpoint().unwrap();
        let statistics = database.statistics();
        assert_eq!((statistics.memtable.frozen, statistics.snapshots.memory_bytes), (0, 0));
        assert!(statistics.memtable.bytes < 64 << 10, "{}", statistics.memtable.bytes);
    }
    let before = database.statistics().cache.pages_read;
    database.two_phase().commit("gid").unwrap();
    assert!(database.statistics().cache.pages_read > before, "the write set was read from the tree");
    assert_eq!(database.get(&table, "b").unwrap(), Some(vec![1; 1 << 20]));
    check_and_close(database);
}

#[test]
fn statistics_count_what_was_prepared_and_decided() {
    let database = open(&SimulatedDisk::new(6));
    database.create_table("t").unwrap();
    for number in 0..6 {
        prepare(&database, &number.to_string(), &[(&number.to_string(), "1")]);
    }
    database.two_phase().commit("0").unwrap();
    database.two_phase().commit("2").unwrap();
    database.two_phase().rollback("1").unwrap();
    let statistics = database.statistics();
    let counts =
        (statistics.two_phase.prepared, statistics.two_phase.committed, statistics.two_phase.rolled_back);
    assert_eq!((counts, statistics.two_phase.in_doubt), ((6, 2, 1), 3));
    assert!(statistics.two_phase.oldest_in_doubt.is_some());
    assert_eq!(gids(&database), ["3", "4", "5"]);
    for gid in gids(&database) {
        database.two_phase().rollback(&gid).unwrap();
    }
    assert_eq!(database.statistics().two_phase.oldest_in_doubt, None);
    check_and_close(database);
}

#[test]
fn rows_that_several_share_are_shared_again_after_a_restart() {
    let disk = SimulatedDisk::new(3);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    put(&database, "parent", "1").unwrap();
    for (gid, key) in [("one", "child 1"), ("two", "child 2")] {
        let mut transaction = database.begin();
        transaction.lock_row_as(&table, "parent", RowLock::KeyShare, LockWait::NoWait).unwrap();
        transaction.put(&table, key, "1").unwrap();
        transaction.prepare(gid).unwrap();
    }
    prepare(&database, "writer", &[("parent", "2")]);
    let look = |database: &Database| {
        let table = database.table("t").unwrap();
        assert!(matches!(put(database, "parent", "3"), Err(Error::Locked { .. })));
        let mut other = database.begin();
        assert!(other.try_lock_row_as(&table, "parent", RowLock::KeyShare).unwrap().is_some());
        assert!(other.try_lock_row_as(&table, "parent", RowLock::Update).unwrap().is_none());
    };
    look(&database);
    let disk = lose_power(&disk, database);
    let database = open(&disk);
    look(&database);
    for gid in ["one", "writer"] {
        database.two_phase().commit(gid).unwrap();
    }
    let deleted = database.with(LockWait::NoWait).delete(&database.table("t").unwrap(), "parent");
    assert!(matches!(deleted, Err(Error::Locked { .. })), "one of them is in doubt still");
    database.two_phase().rollback("two").unwrap();
    assert_eq!(get(&database, "parent").as_deref(), Some("2"));
    database.delete(&database.table("t").unwrap(), "parent").unwrap();
    check_and_close(database);
}
