use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Database, Environment, Options};
use seawall_simulation::SimulatedDisk;
use seawall_testing::wait_until;

use super::*;
use crate::catalog::numbers::DATABASE;

const LONG: LockWait = LockWait::Timeout(Duration::from_secs(60));
const KEY: LockedThing = LockedThing::AdvisoryOne(7);
const OTHER: LockedThing = LockedThing::AdvisoryTwo(1, 2);
const EXCLUSIVE: AdvisoryMode = AdvisoryMode::Exclusive;
const SHARED: AdvisoryMode = AdvisoryMode::Shared;

/// A session that locks for itself, and its handle of the engine.
struct Session {
    held: HeldAdvisoryLocks,
    engine: Database,
}

impl Session {
    fn new(database: &Database, number: i32) -> Session {
        let (engine, locks) = database.new_numbered_session(number);
        Session { held: HeldAdvisoryLocks::new(locks), engine }
    }

    fn lock(&mut self, lock: Lock, wait: LockWait) -> SqlResult<()> {
        self.held.lock(lock, false, wait).map(drop)
    }

    fn try_lock(&mut self, lock: Lock) -> bool {
        self.held.lock(lock, false, LockWait::NoWait).unwrap()
    }

    fn release(&mut self, lock: Lock) {
        assert!(self.held.unlock(lock));
    }

    fn call(&mut self, source: &str, arguments: &[Datum]) -> Datum {
        let settings = seawall_values::Settings::default();
        let result_type = seawall_values::TypeReference::of(seawall_values::oid::VOID);
        let call = Call { arguments, argument_types: &[], result_type, settings: &settings };
        self.held.call(operation(source).unwrap(), &call, LONG).unwrap()
    }
}

fn sessions() -> (Database, Session, Session, Session) {
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
    let database = Database::open(environment, Options::default()).unwrap();
    let [first, second, third] = [1, 2, 3].map(|number| Session::new(&database, number));
    (database, first, second, third)
}

fn wait_until_waiting(database: &Database) {
    wait_until("the session waits", || database.waiting_requests().len() == 1);
}

#[test]
fn an_exclusive_lock_is_of_one_session_and_a_shared_one_of_many() {
    let (database, mut first, mut second, mut third) = sessions();
    assert!(first.try_lock((KEY, EXCLUSIVE)) && first.try_lock((KEY, EXCLUSIVE)));
    assert!(!second.try_lock((KEY, EXCLUSIVE)) && !second.try_lock((KEY, SHARED)));
    assert!(second.try_lock((OTHER, SHARED)) && third.try_lock((OTHER, SHARED)));
    assert!(!first.try_lock((OTHER, EXCLUSIVE)));
    first.release((KEY, EXCLUSIVE));
    assert!(!second.try_lock((KEY, SHARED)));
    first.release((KEY, EXCLUSIVE));
    assert!(second.try_lock((KEY, SHARED)));
    second.release((KEY, SHARED));
    second.release((OTHER, SHARED));
    third.release((OTHER, SHARED));
    assert!(database.locked_objects().is_empty());
}

#[test]
fn a_lock_that_was_taken_in_both_modes_is_given_back_one_by_one() {
    let (database, mut first, mut second, _) = sessions();
    assert!(first.try_lock((KEY, EXCLUSIVE)) && first.try_lock((KEY, SHARED)));
    first.release((KEY, EXCLUSIVE));
    assert!(second.try_lock((KEY, SHARED)) && !second.try_lock((KEY, EXCLUSIVE)));
    first.release((KEY, SHARED));
    assert!(second.try_lock((KEY, EXCLUSIVE)));
    second.held.unlock_all();
    assert!(database.locked_objects().is_empty());
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let (database, mut first, mut second, mut third) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until_waiting(&database);
        assert_eq!(database.waiting_requests()[0].blocked_by, [1]);
        first.release((KEY, EXCLUSIVE));
        waiter.join().unwrap().unwrap();
        assert!(!third.try_lock((KEY, SHARED)));
    });
}

#[test]
fn those_who_come_later_wait_for_those_who_wait() {
    let (database, mut first, mut second, mut third) = sessions();
    first.lock((KEY, SHARED), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until_waiting(&database);
        assert!(!third.try_lock((KEY, SHARED)));
        assert!(first.try_lock((KEY, SHARED)), "the holder does not wait for those who wait for it");
        first.release((KEY, SHARED));
        first.release((KEY, SHARED));
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_wait_ends_by_its_limit_and_by_a_cancel() {
    let (database, mut first, mut second, _) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    let error = second.lock((KEY, SHARED), LockWait::Timeout(Duration::from_millis(1))).unwrap_err();
    assert_eq!(error.to_string(), "55P03: canceling statement due to lock timeout");
    let cancel = second.engine.cancel_token();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, SHARED), LONG));
        wait_until_waiting(&database);
        cancel.request();
        let error = waiter.join().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "57014: canceling statement due to user request");
    });
    assert!(database.waiting_requests().is_empty());
}

#[test]
fn a_circle_of_waits_is_an_error_of_the_last_one() {
    let (database, mut first, mut second, _) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    second.lock((OTHER, EXCLUSIVE), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until_waiting(&database);
        let error = first.lock((OTHER, SHARED), LONG).unwrap_err();
        assert_eq!(error.to_string(), "40P01: deadlock detected");
        let detail = format!(
            "Process 1 waits for ShareLock on advisory lock [{DATABASE},1,2,2]; blocked by process 2.\n\
             Process 2 waits for ExclusiveLock on advisory lock [{DATABASE},0,7,1]; blocked by process 1."
        );
        assert_eq!(error.detail, Some(detail));
        first.release((KEY, EXCLUSIVE));
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn locks_of_a_session_outlive_its_transactions() {
    let (_database, mut held, mut second, _) = sessions();
    let two = [Datum::Int4(1), Datum::Int4(2)];
    held.call("pg_advisory_lock_int8", &[Datum::Int8(7)]);
    let mark = held.held.mark();
    let taken = held.call("pg_try_advisory_xact_lock_shared_int4", &two);
    assert!(matches!(taken, Datum::Bool(true)));
    assert!(!second.try_lock((OTHER, EXCLUSIVE)));
    let released = held.call("pg_advisory_unlock_shared_int4", &two);
    assert!(matches!(released, Datum::Bool(false)), "it is the transaction's");
    held.held.return_to(mark);
    assert!(second.try_lock((OTHER, EXCLUSIVE)));
    held.held.return_to(0);
    assert!(!second.try_lock((KEY, SHARED)));
    assert!(matches!(held.call("pg_advisory_unlock_int8", &[Datum::Int8(7)]), Datum::Bool(true)));
    assert!(matches!(held.call("pg_advisory_unlock_int8", &[Datum::Int8(7)]), Datum::Bool(false)));
    held.call("pg_advisory_lock_int8", &[Datum::Int8(7)]);
    held.call("pg_advisory_unlock_all", &[]);
    assert!(second.try_lock((KEY, SHARED)));
}

/// PostgreSQL counts them without a limit that anyone meets.
#[test]
fn a_lock_may_be_taken_more_often_than_there_may_be_locks() {
    let (database, mut first, mut second, _) = sessions();
    let times = LOCKS_MAX + 10;
    for _ in 0..times {
        assert!(first.try_lock((KEY, EXCLUSIVE)));
        assert!(first.held.lock((KEY, SHARED), true, LockWait::NoWait).unwrap());
    }
    for _ in 1..times {
        first.release((KEY, EXCLUSIVE));
    }
    assert!(!second.try_lock((KEY, SHARED)));
    first.release((KEY, EXCLUSIVE));
    assert!(!first.held.unlock((KEY, EXCLUSIVE)));
    assert!(second.try_lock((KEY, SHARED)) && !second.try_lock((KEY, EXCLUSIVE)));
    first.held.return_to(0);
    assert!(second.try_lock((KEY, EXCLUSIVE)));
    second.held.unlock_all();
    assert!(database.locked_objects().is_empty());
}

#[test]
fn a_rollback_to_a_savepoint_gives_back_what_was_taken_since_only() {
    let (_database, mut first, mut second, _) = sessions();
    assert!(first.held.lock((KEY, EXCLUSIVE), true, LockWait::NoWait).unwrap());
    let mark = first.held.mark();
    assert!(first.held.lock((KEY, EXCLUSIVE), true, LockWait::NoWait).unwrap());
    assert!(first.held.lock((OTHER, EXCLUSIVE), true, LockWait::NoWait).unwrap());
    first.held.return_to(mark);
    assert!(!second.try_lock((KEY, SHARED)) && second.try_lock((OTHER, SHARED)));
}

#[test]
fn every_advisory_function_of_postgresql_is_there() {
    let advisory = |source: &&str| source.starts_with("pg_advisory") || source.starts_with("pg_try_advisory");
    let block = seawall_values::system::system().block("pg_proc").unwrap();
    let column = block.position("prosrc");
    let sources: Vec<String> =
        block.rows().filter_map(|row| row[column].as_deref().map(str::to_owned)).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).filter(advisory).collect();
    assert_eq!(sources.len(), 21);
    assert!(sources.iter().all(|source| operation(source).is_some()));
    assert_eq!(operation("pg_advisory_lock"), None);
    assert_eq!(operation("pg_try_advisory_unlock_int8"), None);
}
