use seawall_engine::{Database, Options};
use seawall_values::oid;

use super::*;

fn opened(directory: &tempfile::TempDir) -> (Database, SchemaStore) {
    let database = Database::open(directory.path().join("bank"), Options::default()).unwrap();
    let store = SchemaStore::open(&database, "postgres").unwrap();
    (database, store)
}

fn sequence() -> Sequence {
    Sequence {
        oid: 16400,
        name: "s".to_owned(),
        namespace: 2200,
        owner: 10,
        of: oid::INT8,
        start: 1,
        increment: 1,
        minimum: 1,
        maximum: i64::MAX,
        cache: 1,
        is_cycling: false,
        owned_by: None,
        state: 1,
    }
}

fn next(session: &mut SequenceSession, store: &SchemaStore, sequence: &Sequence, count: usize) -> Vec<i64> {
    (0..count).map(|_| session.next_value(store, sequence).unwrap()).collect()
}

#[test]
fn values_are_given_out_once_also_after_an_open() {
    let directory = tempfile::tempdir().unwrap();
    let (database, store) = opened(&directory);
    let mut session = SequenceSession::default();
    assert_eq!(next(&mut session, &store, &sequence(), 40), (1..=40).collect::<Vec<_>>());
    assert_eq!(store.sequence_position(&sequence()).unwrap().value, 40);
    drop(store);
    database.close().unwrap();
    let (_database, store) = opened(&directory);
    let after = session.next_value(&store, &sequence()).unwrap();
    assert!((41..=41 + i64::from(LOGGED_AHEAD)).contains(&after), "{after}");
}

#[test]
fn bounds_and_cycles_are_those_of_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, store) = opened(&directory);
    let mut session = SequenceSession::default();
    let small = Sequence { maximum: 3, ..sequence() };
    assert_eq!(next(&mut session, &store, &small, 3), [1, 2, 3]);
    let ended = session.next_value(&store, &small).unwrap_err();
    assert_eq!(ended.code.as_str(), "2200H");
    assert_eq!(ended.message, "nextval: reached maximum value of sequence \"s\" (3)");
    let cycle = Sequence { is_cycling: true, state: 2, ..small };
    assert_eq!(next(&mut session, &store, &cycle, 5), [1, 2, 3, 1, 2]);
    let down = Sequence { start: -1, increment: -2, minimum: -4, maximum: -1, state: 3, ..sequence() };
    assert_eq!(next(&mut session, &store, &down, 2), [-1, -3]);
    let ended = session.next_value(&store, &down).unwrap_err();
    assert_eq!(ended.message, "nextval: reached minimum value of sequence \"s\" (-4)");
}

#[test]
fn a_session_keeps_the_values_that_it_has_taken_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, store) = opened(&directory);
    let (mut one, mut other) = (SequenceSession::default(), SequenceSession::default());
    let cached = Sequence { cache: 5, ..sequence() };
    assert_eq!(next(&mut one, &store, &cached, 2), [1, 2]);
    assert_eq!(next(&mut other, &store, &cached, 2), [6, 7]);
    assert_eq!(next(&mut one, &store, &cached, 4), [3, 4, 5, 11]);
    let restarted = Sequence { state: 2, ..cached };
    assert_eq!(next(&mut one, &store, &restarted, 1), [1]);
}

#[test]
fn current_and_last_values_belong_to_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, store) = opened(&directory);
    let mut session = SequenceSession::default();
    assert_eq!(session.last_value().unwrap_err().message, "lastval is not yet defined in this session");
    let refused = session.current_value(&sequence()).unwrap_err();
    assert_eq!(refused.message, "currval of sequence \"s\" is not yet defined in this session");
    let set = |session: &mut SequenceSession, value, is_called| {
        session.set_value(&store, &sequence(), SequencePosition { value, is_called })
    };
    set(&mut session, 9, false).unwrap();
    assert!(session.current_value(&sequence()).is_err());
    set(&mut session, 5, true).unwrap();
    assert_eq!(session.current_value(&sequence()).unwrap(), 5);
    set(&mut session, 9, false).unwrap();
    assert_eq!(session.current_value(&sequence()).unwrap(), 5);
    assert!(session.last_value().is_err());
    assert_eq!(session.next_value(&store, &sequence()).unwrap(), 9);
    assert_eq!(session.last_value().unwrap(), 9);
    let refused = set(&mut session, 0, true).unwrap_err();
    assert_eq!(
        refused.message,
        "setval: value 0 is out of bounds for sequence \"s\" (1..9223372036854775807)"
    );
    session.discard();
    assert!(session.last_value().is_err());
}

#[test]
fn threads_never_get_the_same_value() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, store) = opened(&directory);
    let mut all: Vec<i64> = std::thread::scope(|scope| {
        let run = || next(&mut SequenceSession::default(), &store, &Sequence { cache: 3, ..sequence() }, 500);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2000);
}
