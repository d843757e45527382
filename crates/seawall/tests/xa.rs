//! A transaction manager's view: votes, one phase, recovery, heuristic outcomes.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use seawall::xa::{Branches, Vote, XaError, Xid};
use seawall::{
    Background, Database, Durability, Environment, Error, InDoubtAction, InDoubtHook, InDoubtRule, LockWait,
    Options, Table, Transaction, Verdict,
};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom};

fn open(directory: &tempfile::TempDir) -> (Database, Table, Branches) {
    let mut options = Options::default();
    options.transaction.lock_wait = LockWait::NoWait;
    let database = Database::open(directory.path().join("db"), options).unwrap();
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    let branches = Branches::new(database.clone());
    (database, table, branches)
}

fn xid(branch: &str) -> Xid {
    Xid::new(4711, b"global", branch.as_bytes()).unwrap()
}

fn work(database: &Database, table: &Table, key: &str) -> Transaction {
    let mut transaction = database.begin();
    transaction.put(table, key, "1").unwrap();
    transaction
}

#[test]
fn branches_vote_are_recovered_and_decided() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table, branches) = open(&directory);
    let mut reader = database.begin();
    assert_eq!(reader.get(&table, "a").unwrap(), None);
    assert_eq!(branches.prepare(&xid("reader"), reader).unwrap(), Vote::ReadOnly);
    branches.commit_one_phase(work(&database, &table, "one phase")).unwrap();
    for key in ["a", "b"] {
        assert_eq!(branches.prepare(&xid(key), work(&database, &table, key)).unwrap(), Vote::Ok);
    }
    let duplicate = branches.prepare(&xid("a"), work(&database, &table, "c")).unwrap_err();
    assert!(matches!(&duplicate, XaError::Duplicate { .. }) && duplicate.code() == -8, "{duplicate}");
    work(&database, &table, "other").prepare("no xid").unwrap();
    drop((table, branches));
    database.close().unwrap();
    let (database, table, branches) = open(&directory);
    assert_eq!(branches.recover().unwrap(), [xid("a"), xid("b")]);
    branches.commit(&xid("a")).unwrap();
    branches.rollback(&xid("b")).unwrap();
    assert!(branches.recover().unwrap().is_empty());
    for unknown in [branches.commit(&xid("a")), branches.rollback(&xid("reader")), branches.forget(&xid("a"))]
    {
        assert_eq!(unknown.unwrap_err().code(), -4);
    }
    let value = |key: &str| database.get(&table, key).unwrap().is_some();
    assert_eq!((value("a"), value("b"), value("c"), value("one phase")), (true, false, false, true));
}

#[test]
fn a_branch_that_cannot_be_prepared_is_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table, branches) = open(&directory);
    let mut older = database.begin();
    older.put(&table, "x", "1").unwrap();
    let mut failed = work(&database, &table, "y");
    assert!(failed.put(&table, "x", "2").is_err());
    let error = branches.prepare(&xid("failed"), failed).unwrap_err();
    assert!(matches!(&error, XaError::RolledBack(Error::TransactionFailed { .. })), "{error}");
    assert_eq!(error.code(), 100);
    let stale = work(&database, &table, "z");
    database.tables().truncate("t").unwrap();
    let error = branches.commit_one_phase(stale).unwrap_err();
    assert_eq!(error.code(), 107, "{error}");
    assert!(branches.recover().unwrap().is_empty());
}

#[test]
fn what_a_rule_has_decided_is_told_until_it_is_forgotten() {
    for (verdict, code) in [(Verdict::Commit, 7), (Verdict::RollBack, 6)] {
        let directory = tempfile::tempdir().unwrap();
        let (database, table, branches) = open(&directory);
        branches.prepare(&xid("late"), work(&database, &table, "late")).unwrap();
        let hook = InDoubtHook::new(move |_| verdict);
        let rule = InDoubtRule::new(Duration::ZERO, InDoubtAction::Ask(hook));
        assert_eq!(database.two_phase().apply_rules(&[rule]).unwrap().decided.len(), 1);
        assert_eq!(branches.recover().unwrap(), [xid("late")]);
        for outcome in [branches.commit(&xid("late")), branches.rollback(&xid("late"))] {
            let error = outcome.unwrap_err();
            let is_commit = matches!(error, XaError::HeuristicCommit { .. });
            assert_eq!((error.code(), is_commit), (code, verdict == Verdict::Commit), "{error}");
        }
        // Its name is taken until then.
        let duplicate = branches.prepare(&xid("late"), work(&database, &table, "another")).unwrap_err();
        assert_eq!(duplicate.code(), -8, "{duplicate}");
        assert_eq!(branches.recover().unwrap(), [xid("late")]);
        branches.forget(&xid("late")).unwrap();
        assert!(branches.recover().unwrap().is_empty());
        assert_eq!(branches.commit(&xid("late")).unwrap_err().code(), -4);
        branches.prepare(&xid("late"), work(&database, &table, "another")).unwrap();
        branches.rollback(&xid("late")).unwrap();
    }
}

/// A hook is asked while the branch is not decided, so the call below meets a rule that is at it only by chance; a full disk
/// is met for sure.
#[test]
fn only_a_commit_is_to_be_tried_again_by_that_number() {
    let disk = SimulatedDisk::new(2);
    let (database, branches) = open_async(&disk);
    let table = database.create_table("t").unwrap();
    branches.prepare(&xid("a"), work(&database, &table, "a")).unwrap();
    disk.set_capacity(Some(disk.allocated_bytes()));
    let full = (0..100_000).find_map(|_| database.put(&table, "b", [2; 3_000]).err());
    assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
    // Until not even the short record of a decision fits.
    let full = (0..10_000).find_map(|_| database.put(&table, "b", b"2").err());
    assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
    let commit = branches.commit(&xid("a"));
    assert!(matches!(&commit, Err(error @ XaError::Retry(_)) if error.code() == 4), "{commit:?}");
    let rollback = branches.rollback(&xid("a"));
    assert!(matches!(&rollback, Err(error @ XaError::Unavailable(_)) if error.code() == -7), "{rollback:?}");
    disk.set_capacity(None);
    branches.commit(&xid("a")).unwrap();
}

/// A database of which nothing is durable that is not forced to be.
fn open_async(disk: &SimulatedDisk) -> (Database, Branches) {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let options = Options::default().with(|options| {
        options.transaction.durability = Durability::Async;
        options.background = Background::Manual;
    });
    let database = Database::open(environment, options).unwrap();
    (database.clone(), Branches::new(database))
}

/// What a power failure leaves now: nothing that was not forced.
fn lose_power(disk: &SimulatedDisk) -> (Database, Branches) {
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    for path in ["log/pending.1", "log/pending.2"] {
        left.overwrite(path, 512, &[0; 16]);
    }
    open_async(&left)
}

#[test]
fn what_a_transaction_manager_hears_survives_a_power_failure_whatever_the_options_say() {
    let disk = SimulatedDisk::new(1);
    let (database, branches) = open_async(&disk);
    let table = database.create_table("t").unwrap();
    let is_there = |database: &Database, key: &str| {
        let table = database.table("t").unwrap();
        database.get(&table, key).unwrap().is_some()
    };
    for key in ["a", "b"] {
        assert_eq!(branches.prepare(&xid(key), work(&database, &table, key)).unwrap(), Vote::Ok);
        assert!(lose_power(&disk).1.recover().unwrap().contains(&xid(key)), "the vote");
    }
    branches.commit(&xid("a")).unwrap();
    let (left, others) = lose_power(&disk);
    assert_eq!((others.recover().unwrap(), is_there(&left, "a")), (vec![xid("b")], true));
    branches.rollback(&xid("b")).unwrap();
    assert!(lose_power(&disk).1.recover().unwrap().is_empty());
    branches.commit_one_phase(work(&database, &table, "one phase")).unwrap();
    assert!(is_there(&lose_power(&disk).0, "one phase"));
    // Decided before by one who did not care, and not durable yet.
    branches.prepare(&xid("c"), work(&database, &table, "c")).unwrap();
    database.two_phase().with(Durability::Async).commit(&xid("c").to_string()).unwrap();
    assert_eq!(branches.commit(&xid("c")).unwrap_err().code(), -4);
    assert!(is_there(&lose_power(&disk).0, "c"));
}
