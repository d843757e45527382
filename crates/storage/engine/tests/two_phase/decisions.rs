//! Who decides what, and when it is told that something is decided already.

use std::time::Duration;

use seawall_engine::{Durability, Error, InDoubtAction, InDoubtHook, InDoubtRule, Verdict};
use seawall_simulation::SimulatedDisk;

use super::{check_and_close, get, gids, lose_unsynced, open, prepare};

/// A coordinator that lost its connection while it decided asks again, and forgets the transaction if it hears that it is
/// decided: no power loss may bring it back after that.
#[test]
fn nobody_hears_that_it_is_decided_before_that_is_as_durable_as_he_asks() {
    for waits_for_flush in [true, false] {
        for commits in [true, false] {
            let disk = SimulatedDisk::new(1);
            let database = open(&disk);
            database.create_table("t").unwrap();
            prepare(&database, "gid", &[("a", "1")]);
            match (commits, waits_for_flush) {
                // Its flush is on its way.
                (true, true) => {
                    drop(database.two_phase().with(Durability::Sync).commit_async("gid").unwrap())
                }
                (false, true) => {
                    drop(database.two_phase().with(Durability::Sync).rollback_async("gid").unwrap())
                }
                // Nobody flushes it.
                (true, false) => assert!(database.two_phase().with(Durability::Async).commit("gid").is_ok()),
                (false, false) => {
                    assert!(database.two_phase().with(Durability::Async).rollback("gid").is_ok())
                }
            }
            let again = database.two_phase().with(Durability::Sync).rollback("gid");
            assert!(matches!(again, Err(Error::NotInDoubt { .. })), "{again:?}");
            let left = open(&lose_unsynced(&disk));
            assert!(gids(&left).is_empty(), "waits: {waits_for_flush}, commits: {commits}");
            assert_eq!(get(&left, "a").is_some(), commits);
            check_and_close(database);
        }
    }
}

#[test]
fn of_two_decisions_about_one_gid_the_last_one_counts_for_whoever_asks_again() {
    let disk = SimulatedDisk::new(2);
    let database = open(&disk);
    database.create_table("t").unwrap();
    for value in ["1", "2"] {
        prepare(&database, "gid", &[("a", value)]);
        database.two_phase().with(Durability::Async).commit("gid").unwrap();
    }
    assert!(matches!(database.two_phase().commit("gid"), Err(Error::NotInDoubt { .. })));
    assert_eq!(get(&open(&lose_unsynced(&disk)), "a").as_deref(), Some("2"));
    check_and_close(database);
}

/// While somebody is asked about a transaction its coordinator comes, decides it, and prepares another of the same name.
#[test]
fn a_verdict_is_about_the_transaction_that_was_asked_about_and_no_other_of_its_name() {
    for verdict in [Verdict::Commit, Verdict::RollBack] {
        let database = open(&SimulatedDisk::new(3));
        database.create_table("t").unwrap();
        prepare(&database, "gid", &[("a", "first")]);
        let coordinator = database.clone();
        let hook = InDoubtHook::new(move |asked| {
            coordinator.two_phase().rollback(&asked.gid).unwrap();
            prepare(&coordinator, &asked.gid, &[("a", "second")]);
            verdict
        });
        let rule = InDoubtRule::new(Duration::ZERO, InDoubtAction::Ask(hook));
        let decided = database.two_phase().apply_rules(&[rule]).unwrap().decided;
        assert!(decided.is_empty(), "{decided:?}");
        assert_eq!((gids(&database), get(&database, "a")), (vec!["gid".to_owned()], None));
        database.two_phase().commit("gid").unwrap();
        assert_eq!(get(&database, "a").as_deref(), Some("second"));
        check_and_close(database);
    }
}
