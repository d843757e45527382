//! Whoever reads sees a prefix of the commit order, and at least what was acknowledged before.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall_engine::{Durability, Isolation, TransactionOptions};
use seawall_simulation::SeededRandom;
use seawall_types::Lsn;

use super::{ALL, BACKGROUNDS, begin, check_and_close, durability, number, open, with};

#[test]
fn whoever_begins_after_a_commit_sees_it() {
    for background in BACKGROUNDS {
        let database = open(background);
        let table = database.create_table("t").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    let mut random = SeededRandom::new(thread);
                    let key = thread.to_be_bytes();
                    for round in 1..120_u64 {
                        let value = round.to_be_bytes();
                        let durability = durability(&mut random);
                        let mut transaction = database
                            .with(TransactionOptions { durability, ..with(Isolation::Snapshot) })
                            .begin();
                        let stamp = match random.below(3) {
                            0 => database.with(durability).put(table, key, value).unwrap(),
                            1 => {
                                transaction.put(table, key, value).unwrap();
                                transaction.commit().unwrap()
                            }
                            _ => {
                                transaction.put(table, key, value).unwrap();
                                transaction.commit_async().unwrap().wait().unwrap()
                            }
                        };
                        let seen = match random.below(4) {
                            0 => database.get(table, key).unwrap(),
                            1 => {
                                let snapshot = database.snapshot();
                                assert!(snapshot.lsn() >= stamp);
                                snapshot.get(table, key).unwrap()
                            }
                            2 => begin(database, *random.pick(&ALL)).get(table, key).unwrap(),
                            _ => {
                                let mut later = begin(database, *random.pick(&ALL));
                                later.get_for_update(table, key).unwrap()
                            }
                        };
                        assert_eq!(number(seen), round, "thread {thread}, {durability:?}, {background:?}");
                    }
                });
            }
        });
        check_and_close(database);
    }
}

/// What a reader saw: its snapshot, and the counter of each writer.
type Observation = (Lsn, Vec<u64>);

#[test]
fn a_snapshot_shows_exactly_the_commits_stamped_up_to_it() {
    const WRITERS: usize = 3;
    for background in BACKGROUNDS {
        let database = open(background);
        let table = database.create_table("t").unwrap();
        let observed: Mutex<Vec<Observation>> = Mutex::default();
        let writing = AtomicUsize::new(WRITERS);
        let committed: Vec<Vec<Lsn>> = std::thread::scope(|scope| {
            let (database, table, observed, writing) = (&database, &table, &observed, &writing);
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn(move || {
                        let mut random = SeededRandom::new(writer as u64);
                        let mut handles = Vec::new();
                        let mut stamps = vec![Lsn::ZERO];
                        for round in 1..250_u64 {
                            let options = TransactionOptions {
                                durability: durability(&mut random),
                                ..with(Isolation::ReadCommitted)
                            };
                            let mut transaction = database.with(options).begin();
                            // Two rows far apart: a commit is seen whole.
                            for half in [0_u8, 1] {
                                let key = [&[half][..], &writer.to_be_bytes()].concat();
                                transaction.put(table, key, round.to_be_bytes()).unwrap();
                            }
                            let handle = transaction.commit_async().unwrap();
                            stamps.push(handle.lsn());
                            handles.push(handle);
                            if random.chance(1, 10) {
                                handles.drain(..).for_each(|handle| assert!(handle.wait().is_ok()));
                            }
                        }
                        handles.into_iter().for_each(|handle| assert!(handle.wait().is_ok()));
                        writing.fetch_sub(1, Ordering::SeqCst);
                        stamps
                    })
                })
                .collect();
            scope.spawn(move || {
                while writing.load(Ordering::SeqCst) > 0 {
                    database.checkpoint().unwrap();
                }
            });
            for reader in 0..2 {
                scope.spawn(move || {
                    let mut last = Lsn::ZERO;
                    let mut is_over = false;
                    while !is_over {
                        // Asked before the look: each reader looks once at least, however late it is started.
                        is_over = writing.load(Ordering::SeqCst) == 0;
                        let snapshot = database.snapshot();
                        assert!(snapshot.lsn() >= last, "snapshots ran backwards");
                        last = snapshot.lsn();
                        let rows: Vec<_> = if reader == 0 {
                            snapshot.range::<&[u8]>(table, ..).map(Result::unwrap).collect()
                        } else {
                            let mut rows: Vec<_> =
                                snapshot.range_reverse::<&[u8]>(table, ..).map(Result::unwrap).collect();
                            rows.reverse();
                            rows
                        };
                        let mut halves = [vec![0; WRITERS], vec![0; WRITERS]];
                        for (key, value) in rows {
                            let writer = usize::from_be_bytes(key[1..].try_into().unwrap());
                            halves[usize::from(key[0])][writer] = number(Some(value));
                        }
                        assert_eq!(halves[0], halves[1], "a commit was seen in part");
                        for (writer, seen) in halves[0].iter().enumerate() {
                            let key = [&[1][..], &writer.to_be_bytes()].concat();
                            assert_eq!(number(snapshot.get(table, key).unwrap()), *seen);
                        }
                        observed.lock().unwrap().push((snapshot.lsn(), halves[0].clone()));
                    }
                });
            }
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let observed = observed.into_inner().unwrap();
        assert!(!observed.is_empty());
        for (lsn, counters) in observed {
            for (writer, counter) in counters.into_iter().enumerate() {
                let stamped = committed[writer].partition_point(|stamp| *stamp <= lsn) - 1;
                assert_eq!(counter, stamped as u64, "snapshot {lsn}, writer {writer}, {background:?}");
            }
        }
        check_and_close(database);
    }
}

#[test]
fn an_asynchronous_commit_waits_for_the_synchronous_ones_ahead_of_it() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    let mut handles = Vec::new();
    for round in 0..100_u64 {
        let durability = if round % 2 == 0 { Durability::Sync } else { Durability::Async };
        let mut transaction =
            database.with(TransactionOptions { durability, ..with(Isolation::Snapshot) }).begin();
        transaction.put(&table, round.to_be_bytes(), "v").unwrap();
        handles.push(transaction.commit_async().unwrap());
        let seen = database.snapshot().range::<&[u8]>(&table, ..).count();
        assert!(seen <= handles.len());
    }
    for (round, handle) in (1..).zip(handles) {
        handle.wait().unwrap();
        assert!(database.snapshot().range::<&[u8]>(&table, ..).count() >= round);
    }
    check_and_close(database);
}

#[test]
fn an_asynchronous_commit_is_seen_while_a_synchronous_one_ahead_is_on_its_way_to_the_disk() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    for round in 1..1500_u64 {
        let mut ahead = begin(&database, Isolation::ReadCommitted);
        ahead.put(&table, "ahead", round.to_be_bytes()).unwrap();
        let ahead = ahead.commit_async().unwrap();
        let stamp = database.with(Durability::Async).put(&table, "k", round.to_be_bytes()).unwrap();
        let snapshot = database.snapshot();
        assert!(snapshot.lsn() >= stamp && stamp > ahead.lsn());
        assert!(ahead.is_durable(), "a Sync commit was seen before it was durable");
        assert_eq!(number(snapshot.get(&table, "k").unwrap()), round);
        assert_eq!(number(snapshot.get(&table, "ahead").unwrap()), round);
    }
    check_and_close(database);
}
