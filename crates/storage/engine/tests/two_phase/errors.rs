//! What is refused, and what is left afterwards.

use seawall_engine::Error;
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, SimulatedDisk};

use super::{check_and_close, get, gids, lose_power, open, prepare, put};

#[test]
fn names_that_cannot_be_are_refused_and_the_longest_is_not() {
    let database = open(&SimulatedDisk::new(1));
    let table = database.create_table("t").unwrap();
    for gid in [String::new(), "g".repeat(201), "ü".repeat(101)] {
        let mut transaction = database.begin();
        transaction.put(&table, "a", "1").unwrap();
        let refused = transaction.prepare(&gid);
        assert!(matches!(&refused, Err(Error::Gid { bytes, .. }) if *bytes == gid.len()), "{refused:?}");
        put(&database, "a", "not locked").unwrap();
    }
    let mut transaction = database.begin();
    assert!(matches!(transaction.set_owner(&"o".repeat(65)), Err(Error::Owner { bytes: 65, limit: 64 })));
    transaction.set_owner(&"o".repeat(64)).unwrap();
    transaction.put(&table, "a", "1").unwrap();
    transaction.prepare(&"ü".repeat(100)).unwrap();
    database.two_phase().commit(&"ü".repeat(100)).unwrap();
    check_and_close(database);
}

#[test]
fn a_gid_in_use_is_refused_and_the_first_one_stays() {
    let database = open(&SimulatedDisk::new(2));
    let table = database.create_table("t").unwrap();
    prepare(&database, "gid", &[("a", "first")]);
    let mut second = database.begin();
    second.put(&table, "b", "second").unwrap();
    let refused = second.prepare("gid");
    assert!(matches!(&refused, Err(Error::GidInUse { gid }) if gid == "gid"), "{refused:?}");
    put(&database, "b", "not locked").unwrap();
    database.two_phase().commit("gid").unwrap();
    assert_eq!(get(&database, "a").as_deref(), Some("first"));
    check_and_close(database);
}

#[test]
fn deciding_twice_or_what_never_was_is_refused() {
    let database = open(&SimulatedDisk::new(3));
    database.create_table("t").unwrap();
    prepare(&database, "committed", &[("a", "1")]);
    prepare(&database, "rolled back", &[("b", "1")]);
    database.two_phase().commit("committed").unwrap();
    database.two_phase().rollback("rolled back").unwrap();
    for gid in ["committed", "rolled back", "never was", ""] {
        for refused in [database.two_phase().commit(gid), database.two_phase().rollback(gid)] {
            assert!(matches!(&refused, Err(Error::NotInDoubt { gid: other }) if other == gid), "{refused:?}");
        }
    }
    assert_eq!((get(&database, "a").as_deref(), get(&database, "b")), (Some("1"), None));
    check_and_close(database);
}

#[test]
fn preparing_nothing_or_after_an_error_is_refused() {
    let database = open(&SimulatedDisk::new(4));
    let table = database.create_table("t").unwrap();
    let mut reads = database.begin();
    reads.get(&table, "a").unwrap();
    assert!(matches!(reads.prepare("gid"), Err(Error::NothingToPrepare)));
    let mut undone = database.begin();
    let savepoint = undone.savepoint();
    undone.put(&table, "a", "1").unwrap();
    undone.rollback_to(&savepoint).unwrap();
    assert!(matches!(undone.prepare("gid"), Err(Error::NothingToPrepare)));
    let mut holder = database.begin();
    holder.put(&table, "a", "1").unwrap();
    let mut failed = database.begin();
    failed.put(&table, "b", "1").unwrap();
    assert!(matches!(failed.put(&table, "a", "2"), Err(Error::Locked { .. })));
    assert!(matches!(failed.prepare("gid"), Err(Error::TransactionFailed { .. })));
    holder.prepare("gid").unwrap();
    database.two_phase().rollback("gid").unwrap();
    check_and_close(database);
}

#[test]
fn a_table_that_changed_is_noticed_at_the_prepare() {
    let database = open(&SimulatedDisk::new(6));
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, "a", "1").unwrap();
    database.tables().truncate("t").unwrap();
    let refused = transaction.prepare("gid");
    assert!(matches!(refused, Err(Error::TableChanged { .. })), "{refused:?}");
    assert!(gids(&database).is_empty());
    check_and_close(database);
}

#[test]
fn when_the_disk_is_full_nothing_is_prepared_or_decided_and_both_can_be_tried_again() {
    let disk = SimulatedDisk::new(7);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    let (gid, other) = ("g".repeat(200), "h".repeat(200));
    prepare(&database, &gid, &[("a", "1")]);
    disk.set_capacity(Some(disk.allocated_bytes()));
    let full = (0..10_000).find_map(|_| database.put(&table, "b", b"2").err());
    assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
    for refused in [database.two_phase().commit(&gid), database.two_phase().rollback(&gid)] {
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    }
    let mut transaction = database.begin();
    transaction.put(&table, "c", "3").unwrap();
    let refused = transaction.prepare(&other);
    assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    assert_eq!((gids(&database), database.statistics().transactions.locks_held), (vec![gid.clone()], 1));
    disk.set_capacity(None);
    prepare(&database, &other, &[("c", "3")]);
    database.two_phase().commit(&gid).unwrap();
    database.two_phase().commit(&other).unwrap();
    assert_eq!((get(&database, "a").as_deref(), get(&database, "c").as_deref()), (Some("1"), Some("3")));
    check_and_close(database);
}

#[test]
fn a_write_of_the_log_that_fails_leaves_the_decision_to_recovery() {
    for phase in 0..2 {
        let disk = SimulatedDisk::new(8);
        let database = open(&disk);
        let table = database.create_table("t").unwrap();
        if phase == 1 {
            prepare(&database, "gid", &[("a", "1")]);
        }
        disk.inject(Fault {
            target: FaultTarget::Path { prefix: "log/0".to_owned(), operations: Operations::Any },
            error: FaultError::Number(5),
            skip: 0,
            count: u64::MAX,
        });
        let mut transaction = database.begin();
        transaction.put(&table, "b", "1").unwrap();
        let result = if phase == 0 { transaction.prepare("gid") } else { database.two_phase().commit("gid") };
        assert!(matches!(result, Err(Error::Stopped { .. })), "{result:?}");
        assert!(database.two_phase().commit("gid").is_err());
        disk.clear_faults();
        let left = lose_power(&disk, database);
        let database = open(&left);
        match &gids(&database)[..] {
            [] => assert_eq!(get(&database, "a").is_some(), phase == 1),
            [gid] => {
                assert_eq!((&gid[..], get(&database, "a")), ("gid", None));
                database.two_phase().commit("gid").unwrap();
                let key = if phase == 0 { "b" } else { "a" };
                assert_eq!(get(&database, key).as_deref(), Some("1"));
            }
            more => panic!("{more:?}"),
        }
        check_and_close(database);
    }
}
