use std::sync::Arc;

use seawall_testing::wait_until;

use super::super::activity::Activities;
use super::super::{CancelHandle, Login};
use super::*;

const LONG: Duration = Duration::from_secs(60);
const KEY: AdvisoryKey = AdvisoryKey::One(7);
const OTHER: AdvisoryKey = AdvisoryKey::Two(1, 2);
const EXCLUSIVE: AdvisoryMode = AdvisoryMode::Exclusive;
const SHARED: AdvisoryMode = AdvisoryMode::Shared;

/// Locks of a session, which may wait as long as it is told.
struct Session {
    locks: Arc<AdvisoryLocks>,
    process_id: i32,
    cancel: AtomicBool,
    activity: Arc<SessionActivity>,
}

impl Session {
    fn new(locks: &Arc<AdvisoryLocks>, process_id: i32) -> Session {
        let login = Login { process_id, ..Login::default() };
        let activity = Activities::default().add(&login, 10, CancelHandle::default(), 0);
        Session { locks: Arc::clone(locks), process_id, cancel: AtomicBool::new(false), activity }
    }

    fn lock(&self, lock: Lock, limit: Duration) -> SqlResult<()> {
        let wait = AdvisoryWait { limit, cancel: &self.cancel, activity: &self.activity };
        self.locks.lock(self.process_id, lock, wait)
    }

    fn try_lock(&self, lock: Lock) -> bool {
        self.locks.try_lock(self.process_id, lock).unwrap()
    }

    fn release(&self, lock: Lock) {
        self.locks.release(self.process_id, std::iter::once(lock));
    }
}

fn sessions() -> (Arc<AdvisoryLocks>, Session, Session, Session) {
    let locks = Arc::new(AdvisoryLocks::default());
    let (first, second, third) = (Session::new(&locks, 1), Session::new(&locks, 2), Session::new(&locks, 3));
    (locks, first, second, third)
}

fn is_waiting(locks: &AdvisoryLocks, process_id: i32) -> bool {
    locks.state.lock().waits.contains_key(&process_id)
}

#[test]
fn an_exclusive_lock_is_of_one_session_and_a_shared_one_of_many() {
    let (locks, first, second, third) = sessions();
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
    assert!(locks.state.lock().keys.is_empty());
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let (locks, first, second, third) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until("the second session waits", || is_waiting(&locks, 2));
        assert_eq!(locks.blockers_of(2), [1]);
        first.release((KEY, EXCLUSIVE));
        waiter.join().unwrap().unwrap();
        assert!(!third.try_lock((KEY, SHARED)));
    });
}

#[test]
fn those_who_come_later_wait_for_those_who_wait() {
    let (locks, first, second, third) = sessions();
    first.lock((KEY, SHARED), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until("the second session waits", || is_waiting(&locks, 2));
        assert!(!third.try_lock((KEY, SHARED)));
        assert!(first.try_lock((KEY, SHARED)), "the holder does not wait for those who wait for it");
        first.release((KEY, SHARED));
        first.release((KEY, SHARED));
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_wait_ends_by_its_limit_and_by_a_cancel() {
    let (locks, first, second, _) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    let error = second.lock((KEY, SHARED), Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.to_string(), "55P03: canceling statement due to lock timeout");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, SHARED), LONG));
        wait_until("the second session waits", || is_waiting(&locks, 2));
        second.cancel.store(true, Ordering::SeqCst);
        let error = waiter.join().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "57014: canceling statement due to user request");
    });
    assert!(!is_waiting(&locks, 2));
}

#[test]
fn a_circle_of_waits_is_an_error_of_the_last_one() {
    let (locks, first, second, _) = sessions();
    first.lock((KEY, EXCLUSIVE), LONG).unwrap();
    second.lock((OTHER, EXCLUSIVE), LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock((KEY, EXCLUSIVE), LONG));
        wait_until("the second session waits", || is_waiting(&locks, 2));
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
    let (locks, first, second, _) = sessions();
    let mut held = HeldAdvisoryLocks::new(1);
    let call = |source: &str, held: &mut HeldAdvisoryLocks, arguments: &[Datum]| {
        let settings = seawall_values::Settings::default();
        let result_type = seawall_values::TypeReference::of(seawall_values::oid::VOID);
        let call = Call { arguments, argument_types: &[], result_type, settings: &settings };
        let wait = AdvisoryWait { limit: LONG, cancel: &first.cancel, activity: &first.activity };
        held.call(&locks, operation(source).unwrap(), &call, wait).unwrap()
    };
    let two = [Datum::Int4(1), Datum::Int4(2)];
    call("pg_advisory_lock_int8", &mut held, &[Datum::Int8(7)]);
    let mark = held.mark();
    let taken = call("pg_try_advisory_xact_lock_shared_int4", &mut held, &two);
    assert!(matches!(taken, Datum::Bool(true)));
    assert!(!second.try_lock((OTHER, EXCLUSIVE)));
    let released = call("pg_advisory_unlock_shared_int4", &mut held, &two);
    assert!(matches!(released, Datum::Bool(false)), "it is the transaction's");
    held.return_to(&locks, mark);
    assert!(second.try_lock((OTHER, EXCLUSIVE)));
    held.return_to(&locks, 0);
    assert!(!second.try_lock((KEY, SHARED)));
    assert!(matches!(call("pg_advisory_unlock_int8", &mut held, &[Datum::Int8(7)]), Datum::Bool(true)));
    assert!(matches!(call("pg_advisory_unlock_int8", &mut held, &[Datum::Int8(7)]), Datum::Bool(false)));
    call("pg_advisory_lock_int8", &mut held, &[Datum::Int8(7)]);
    call("pg_advisory_unlock_all", &mut held, &[]);
    assert!(second.try_lock((KEY, SHARED)));
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

#[test]
fn locks_are_shown_as_postgresql_shows_them() {
    let (locks, first, _, _) = sessions();
    assert!(first.try_lock((AdvisoryKey::One(-5), EXCLUSIVE)));
    let shown = locks.all();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].advisory, Some((4_294_967_295, 4_294_967_291, 1)));
    assert_eq!((shown[0].mode, shown[0].process_id, shown[0].is_granted), ("ExclusiveLock", Some(1), true));
}
