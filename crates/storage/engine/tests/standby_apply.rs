//! A standby applies what it receives by itself; callers wait for it, pause it and keep it behind.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::following::Following;
use common::small_options;
use seawall_engine::{Background, Database, Error, Options};
use seawall_simulation::PowerLoss;
use seawall_types::Lsn;

const LONG: Duration = Duration::from_secs(120);

/// With threads of their own.
fn options() -> Options {
    let mut options = small_options();
    options.background = Background::Threads;
    options
}

fn value_of(database: &Database, key: &[u8]) -> Option<Vec<u8>> {
    let database = database.new_session();
    let table = database.table("flushed").unwrap();
    database.snapshot().get(&table, key).unwrap().map(|value| value.to_vec())
}

/// Where the primary's log ends, durably and received.
fn receive(pair: &mut Following) -> Lsn {
    pair.flush_primary();
    pair.receive().unwrap();
    pair.standby.standby().unwrap().statistics().unwrap().flushed
}

#[test]
fn what_is_synced_is_applied_while_others_read_and_survives_restarts() {
    let mut pair = Following::with(options());
    for round in 0..20_u32 {
        pair.flush_primary();
        let table = pair.primary.table("flushed").unwrap();
        for row in 0..500_u32 {
            pair.primary
                .put(&table, (round * 500 + row).to_be_bytes(), round.to_be_bytes().repeat(200))
                .unwrap();
        }
        let end = receive(&mut pair);
        pair.standby.standby().unwrap().wait_applied(end, LONG).unwrap();
        let key = (round * 500 + 7).to_be_bytes();
        assert_eq!(value_of(&pair.standby, &key), Some(round.to_be_bytes().repeat(200)));
        if round % 7 == 6 {
            pair.standby.clone().close().unwrap();
            pair.restart_standby(PowerLoss::LoseAll);
        }
    }
    let statistics = pair.standby.standby().unwrap().statistics().unwrap();
    assert!(statistics.records.commits > 2_000, "{statistics:?}");
    assert_eq!(statistics.applied, statistics.flushed);
    assert!(statistics.last_error.is_none());
    assert!(pair.standby.statistics().checkpoints.completed > 0, "its memtable was full");
    pair.standby.standby().unwrap().promote("test").unwrap();
    let table = pair.standby.table("flushed").unwrap();
    pair.standby.put(&table, b"promoted", b"v").unwrap();
    pair.standby.close().unwrap();
}

/// Its rows are put by several threads, and its tables are created, dropped and truncated with it.
#[test]
fn a_large_commit_is_seen_as_a_whole_and_survives_restarts() {
    const ROWS: u32 = 5_000;
    let mut options = Options { background: Background::Threads, ..Options::default() };
    options.format.segment_bytes = 1 << 20;
    options.recovery.threads = 3;
    let mut pair = Following::with(options);
    let left = pair.primary.create_table("left").unwrap();
    pair.primary.create_table("dropped").unwrap();
    pair.primary.create_table("truncated").unwrap();
    receive(&mut pair);
    let is_over = AtomicBool::new(false);
    let standby = pair.standby.new_session();
    std::thread::scope(|scope| {
        // Rows come and go in transactions that touch all of them.
        let reading = scope.spawn(|| {
            let mut counts = BTreeSet::new();
            while !is_over.load(Ordering::SeqCst) {
                let snapshot = standby.snapshot();
                let rows = standby.table("left").map(|left| snapshot.rows(&left).map(Result::unwrap).count());
                counts.extend(rows);
            }
            counts
        });
        for round in 0..6_u32 {
            let mut transaction = pair.primary.begin();
            let made = transaction.create_table(&format!("made {round}")).unwrap();
            for row in 0..ROWS {
                let (key, value) = (row.to_be_bytes(), round.to_be_bytes().repeat(30));
                match round % 3 {
                    2 => transaction.delete(&left, key).unwrap(),
                    _ => transaction.put(&left, key, &value).unwrap(),
                }
                transaction.put(&made, key, &value).unwrap();
            }
            if round == 1 {
                transaction.drop_table("dropped").unwrap();
                transaction.truncate_table("truncated").unwrap();
            }
            transaction.commit().unwrap();
            let end = receive(&mut pair);
            pair.standby.standby().unwrap().wait_applied(end, LONG).unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        let counts = reading.join().unwrap();
        assert!(counts.iter().all(|count| [0, ROWS as usize].contains(count)), "{counts:?}");
    });
    for restarted in [false, true] {
        if restarted {
            pair.restart_standby(PowerLoss::LoseAll);
        }
        assert!(pair.standby.table("dropped").is_err());
        for name in ["left", "truncated", "made 0", "made 5"] {
            let rows = |database: &Database| {
                let table = database.table(name).unwrap();
                database.snapshot().rows(&table).map(Result::unwrap).collect::<Vec<_>>()
            };
            assert_eq!(rows(&pair.standby), rows(&pair.primary), "{name}, restarted: {restarted}");
        }
    }
    pair.standby.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn a_wait_ends_when_the_position_is_applied_and_not_before() {
    let mut pair = Following::new();
    let before = pair.standby.standby().unwrap().applied();
    let end = receive(&mut pair);
    let standby = pair.standby.standby().unwrap();
    // At and before what is applied no one waits.
    standby.wait_applied(before, Duration::ZERO).unwrap();
    standby.wait_applied(Lsn::new(before.get() - 1), Duration::ZERO).unwrap();
    let waited = standby.wait_applied(Lsn::new(before.get() + 1), Duration::ZERO);
    assert!(matches!(waited, Err(Error::NotApplied { applied, .. }) if applied == before), "{waited:?}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pair.standby.standby().unwrap().wait_applied(end, LONG));
        assert_eq!(standby.apply().unwrap(), end);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_wait_is_cancelled_and_a_promotion_ends_it() {
    let mut pair = Following::new();
    pair.catch_up();
    let beyond = Lsn::new(pair.standby.standby().unwrap().applied().get() + (1 << 30));
    std::thread::scope(|scope| {
        let session = pair.standby.new_session();
        let cancel = session.cancel_token();
        let waiting = scope.spawn(move || session.standby().unwrap().wait_applied(beyond, LONG));
        cancel.request();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Cancelled)));
        let session = pair.standby.new_session();
        let waiting = scope.spawn(move || match session.standby() {
            Some(standby) => standby.wait_applied(beyond, LONG),
            None => Err(Error::Closed),
        });
        pair.standby.standby().unwrap().promote("test").unwrap();
        assert!(waiting.join().unwrap().is_err());
    });
}

#[test]
fn a_paused_standby_receives_and_its_promotion_applies_everything() {
    let mut pair = Following::with(options());
    let end = receive(&mut pair);
    let standby = pair.standby.standby().unwrap();
    standby.wait_applied(end, LONG).unwrap();
    standby.pause_applying();
    let table = pair.primary.table("flushed").unwrap();
    pair.primary.put(&table, b"later", b"v").unwrap();
    pair.receive().unwrap();
    let standby = pair.standby.standby().unwrap();
    assert_eq!(standby.apply().unwrap(), end);
    assert!(standby.statistics().unwrap().paused);
    assert_eq!(value_of(&pair.standby, b"later"), None);
    standby.resume_applying();
    standby.wait_applied(pair.stream.flushed(), LONG).unwrap();
    assert_eq!(value_of(&pair.standby, b"later"), Some(b"v".to_vec()));
    standby.pause_applying();
    pair.primary.put(&table, b"last", b"v").unwrap();
    pair.receive().unwrap();
    pair.standby.standby().unwrap().promote("test").unwrap();
    assert_eq!(value_of(&pair.standby, b"last"), Some(b"v".to_vec()));
}

/// The clock stands still: nothing gets older.
#[test]
fn a_delayed_standby_applies_what_is_old_enough_and_nothing_behind_it() {
    let mut pair = Following::new();
    pair.catch_up();
    let standby = pair.standby.standby().unwrap();
    let applied = standby.applied();
    standby.set_apply_delay(Duration::from_secs(10));
    let table = pair.primary.table("flushed").unwrap();
    let mut transaction = pair.primary.begin();
    transaction.put(&table, b"prepared", b"v").unwrap();
    transaction.prepare("gid").unwrap();
    pair.primary.two_phase().commit("gid").unwrap();
    pair.primary.put(&table, b"later", b"v").unwrap();
    pair.receive().unwrap();
    let standby = pair.standby.standby().unwrap();
    for _ in 0..3 {
        // A prepare shows nothing, so it does not wait.
        assert!(standby.apply().unwrap() >= applied);
        assert_eq!(value_of(&pair.standby, b"prepared"), None);
        assert_eq!(value_of(&pair.standby, b"later"), None);
    }
    assert_eq!(pair.standby.two_phase().in_doubt().unwrap().len(), 1);
    standby.checkpoint().unwrap();
    standby.set_apply_delay(Duration::ZERO);
    assert_eq!(standby.apply().unwrap(), pair.stream.flushed());
    assert_eq!(value_of(&pair.standby, b"prepared"), Some(b"v".to_vec()));
    assert_eq!(value_of(&pair.standby, b"later"), Some(b"v".to_vec()));
    standby.set_apply_delay(Duration::from_secs(10));
    pair.primary.put(&table, b"last", b"v").unwrap();
    pair.receive().unwrap();
    pair.standby.standby().unwrap().promote("test").unwrap();
    assert_eq!(value_of(&pair.standby, b"last"), Some(b"v".to_vec()));
}

/// A row of the primary that the standby has durably, at the end of what it has.
fn put_last(pair: &mut Following, key: &[u8]) {
    let table = pair.primary.table("flushed").unwrap();
    pair.primary.put(&table, key, b"v").unwrap();
    pair.receive().unwrap();
}

/// The clock stands still. What a restart replays waits for its time, too, and a promotion waits for nothing.
#[test]
fn a_delayed_standby_that_is_opened_again_applies_nothing_sooner() {
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll] {
        let mut pair = Following::new();
        pair.catch_up();
        put_last(&mut pair, b"applied");
        let standby = pair.standby.standby().unwrap();
        standby.apply().unwrap();
        // What pages have does not go back.
        standby.checkpoint().unwrap();
        pair.options.apply_delay = Duration::from_secs(10);
        put_last(&mut pair, b"held");
        let (applied, end) = (pair.standby.standby().unwrap().applied(), pair.stream.flushed());
        for _ in 0..2 {
            pair.restart_standby(outcome);
            let standby = pair.standby.standby().unwrap();
            assert_eq!((standby.apply().unwrap(), standby.applied()), (applied, applied));
            assert_eq!((standby.statistics().unwrap().flushed, standby.wanted().unwrap()), (end, end));
            assert_eq!(value_of(&pair.standby, b"applied"), Some(b"v".to_vec()));
            assert_eq!(value_of(&pair.standby, b"held"), None);
        }
        // A checkpoint and another restart lose nothing of what waits.
        pair.standby.standby().unwrap().checkpoint().unwrap();
        put_last(&mut pair, b"held as well");
        pair.restart_standby(outcome);
        assert_eq!(value_of(&pair.standby, b"held"), None);
        let standby = pair.standby.standby().unwrap();
        standby.promote("test").unwrap();
        for key in [&b"applied"[..], b"held", b"held as well"] {
            assert_eq!(value_of(&pair.standby, key), Some(b"v".to_vec()));
        }
    }
}
