//! The named anomalies, one by one: which level rules out which.

use std::sync::atomic::{AtomicU64, Ordering};

use seawall_engine::{Durability, Error, Isolation, Table, Transaction, TransactionOptions};
use seawall_simulation::SeededRandom;

use super::{ALL, BACKGROUNDS, begin, check_and_close, in_threads, number, open, with};

#[test]
fn no_level_reads_what_is_not_committed() {
    for background in BACKGROUNDS {
        let database = open(background);
        let table = database.create_table("t").unwrap();
        database.put(&table, "k", "old").unwrap();
        let mut writer = database.begin();
        writer.put(&table, "k", "dirty").unwrap();
        writer.put(&table, "new", "dirty").unwrap();
        for isolation in ALL {
            let mut reader = begin(&database, isolation);
            assert_eq!(reader.get(&table, "k").unwrap().unwrap(), b"old", "{isolation:?}");
            assert_eq!(reader.get(&table, "new").unwrap(), None, "{isolation:?}");
            assert_eq!(reader.range::<&[u8]>(&table, ..).count(), 1, "{isolation:?}");
        }
        assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"old");
        writer.rollback();
        for isolation in ALL {
            assert_eq!(begin(&database, isolation).get(&table, "k").unwrap().unwrap(), b"old");
        }
        check_and_close(database);
    }
}

#[test]
fn no_level_reads_an_intermediate_value() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    database.put(&table, "k", 0_u64.to_be_bytes()).unwrap();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..300_u64 {
                let mut writer = database.begin();
                writer.put(&table, "k", (2 * round + 1).to_be_bytes()).unwrap();
                writer.put(&table, "k", (2 * round + 2).to_be_bytes()).unwrap();
                writer.commit().unwrap();
            }
            done.store(1, Ordering::SeqCst);
        });
        for isolation in ALL {
            let (database, table, done) = (&database, &table, &done);
            scope.spawn(move || {
                while done.load(Ordering::SeqCst) == 0 {
                    let seen = number(begin(database, isolation).get(table, "k").unwrap());
                    assert!(seen.is_multiple_of(2), "{isolation:?} saw the odd {seen}");
                }
            });
        }
    });
    check_and_close(database);
}

#[test]
fn reads_repeat_and_ranges_have_no_phantoms_but_under_read_committed() {
    for background in BACKGROUNDS {
        let database = open(background);
        let table = database.create_table("t").unwrap();
        database.put(&table, "b", "1").unwrap();
        database.put(&table, "c", "1").unwrap();
        let mut readers = ALL.map(|isolation| (isolation, begin(&database, isolation)));
        for (_, reader) in &mut readers {
            assert_eq!(reader.get(&table, "b").unwrap().unwrap(), b"1");
            assert_eq!(count_range(reader, &table, "a".."z"), 2);
        }
        database.put(&table, "b", "2").unwrap();
        database.delete(&table, "c").unwrap();
        database.put(&table, "d", "1").unwrap();
        database.put(&table, "e", "1").unwrap();
        database.checkpoint().unwrap();
        for (isolation, reader) in &mut readers {
            let (value, count) = match isolation {
                Isolation::ReadCommitted => (b"2", 3),
                Isolation::Snapshot | Isolation::Serializable => (b"1", 2),
            };
            assert_eq!(reader.get(&table, "b").unwrap().unwrap(), value, "{isolation:?}");
            assert_eq!(count_range(reader, &table, "a".."z"), count, "{isolation:?}");
            assert_eq!(reader.get(&table, "d").unwrap().is_some(), *isolation == Isolation::ReadCommitted);
        }
        for (_, reader) in readers {
            reader.commit().unwrap();
        }
        check_and_close(database);
    }
}

fn count_range(transaction: &mut Transaction, table: &Table, bounds: std::ops::Range<&str>) -> usize {
    transaction.range(table, bounds).map(Result::unwrap).count()
}

#[test]
fn the_first_updater_wins_but_under_read_committed() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    for isolation in ALL {
        database.put(&table, "k", "0").unwrap();
        let mut late = begin(&database, isolation);
        late.get(&table, "other").unwrap();
        database.put(&table, "k", "1").unwrap();
        match isolation {
            Isolation::ReadCommitted => {
                assert_eq!(late.get_for_update(&table, "k").unwrap().unwrap(), b"1", "the newest, locked");
                late.put(&table, "k", "2").unwrap();
                late.commit().unwrap();
            }
            Isolation::Snapshot | Isolation::Serializable => {
                assert!(matches!(late.put(&table, "k", "2"), Err(Error::Conflict { .. })));
            }
        }
    }
    check_and_close(database);
}

#[test]
fn no_update_is_lost() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 60;
    for background in BACKGROUNDS {
        for isolation in ALL {
            let database = open(background);
            let table = database.create_table("t").unwrap();
            in_threads(THREADS, ROUNDS, |random| {
                let durability = super::durability(random);
                let options = TransactionOptions { durability, ..with(isolation) };
                database
                    .with(options)
                    .transact(|transaction| {
                        // Read Committed promises this only to those who lock what they read.
                        let value = match isolation {
                            Isolation::ReadCommitted => transaction.get_for_update(&table, "counter")?,
                            Isolation::Snapshot | Isolation::Serializable => {
                                transaction.get(&table, "counter")?
                            }
                        };
                        transaction.put(&table, "counter", (number(value) + 1).to_be_bytes())
                    })
                    .unwrap();
            });
            let counted = number(database.get(&table, "counter").unwrap());
            assert_eq!(counted, THREADS * ROUNDS, "{isolation:?}, {background:?}");
            check_and_close(database);
        }
    }
}

#[test]
fn write_skew_is_allowed_under_snapshot_and_ruled_out_under_serializable() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    for (isolation, skewed) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
        // By rows, and by a range that the other one puts a row into.
        for by_range in [false, true] {
            let mut first = begin(&database, isolation);
            let mut second = begin(&database, isolation);
            for (transaction, reads, writes) in [(&mut first, "a", "b"), (&mut second, "b", "a")] {
                if by_range {
                    let end = format!("{reads}~");
                    assert!(count_range(transaction, &table, reads..end.as_str()) < 2);
                } else {
                    transaction.get(&table, reads).unwrap();
                }
                transaction.put(&table, writes, "1").unwrap();
            }
            first.commit().unwrap();
            let second = second.commit();
            assert_eq!(second.is_ok(), skewed, "{isolation:?} {second:?}");
        }
    }
    check_and_close(database);
}

#[test]
fn doctors_on_call_never_all_leave_under_serializable() {
    const PAIRS: u64 = 40;
    for background in BACKGROUNDS {
        let database = open(background);
        let table = database.create_table("on call").unwrap();
        for pair in 0..PAIRS {
            for doctor in 0..2 {
                database.put(&table, key(pair, doctor), 1_u64.to_be_bytes()).unwrap();
            }
        }
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    let mut pairs: Vec<u64> = (0..PAIRS).collect();
                    SeededRandom::new(thread / 2).shuffle(&mut pairs);
                    for pair in pairs {
                        let leave = |transaction: &mut Transaction| {
                            let both: Result<Vec<_>, Error> =
                                transaction.range(table, key(pair, 0)..=key(pair, 1)).collect();
                            let on_call: u64 = both?.into_iter().map(|(_, value)| number(Some(value))).sum();
                            if on_call == 2 {
                                transaction.put(table, key(pair, thread % 2), 0_u64.to_be_bytes())?;
                            }
                            Ok(())
                        };
                        database.with(with(Isolation::Serializable)).transact(leave).unwrap();
                    }
                });
            }
        });
        for pair in 0..PAIRS {
            let on_call = |doctor| number(database.get(&table, key(pair, doctor)).unwrap());
            assert_eq!(on_call(0) + on_call(1), 1, "pair {pair}, {background:?}");
        }
        check_and_close(database);
    }
}

/// A commit is in the log before its rows are in memory, and a large one for longer.
#[test]
fn a_serializable_commit_waits_for_the_rows_of_those_ahead_of_it() {
    const ROWS: u64 = 1000;
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    let barrier = std::sync::Barrier::new(2);
    let mut random = SeededRandom::new(1);
    for round in 0..60_u64 {
        let pause = random.below(30_000);
        let options = TransactionOptions { durability: Durability::Async, ..with(Isolation::Serializable) };
        let (large, small) = std::thread::scope(|scope| {
            let (database, table, barrier) = (&database, &table, &barrier);
            let large = scope.spawn(move || {
                let mut transaction = database.with(options).begin();
                transaction.get(table, "flag").unwrap();
                for row in 0..ROWS {
                    transaction.put(table, row.to_be_bytes(), round.to_be_bytes()).unwrap();
                }
                barrier.wait();
                transaction.commit().is_ok()
            });
            let small = scope.spawn(move || {
                let mut transaction = database.with(options).begin();
                transaction.get(table, (ROWS - 1).to_be_bytes()).unwrap();
                transaction.put(table, "flag", round.to_be_bytes()).unwrap();
                barrier.wait();
                // So that the one commit falls into various moments of the other.
                (0..pause).for_each(|_| std::hint::spin_loop());
                transaction.commit().is_ok()
            });
            (large.join().unwrap(), small.join().unwrap())
        });
        assert!(large != small, "round {round}: large {large}, small {small}");
    }
    check_and_close(database);
}

fn key(pair: u64, doctor: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&pair.to_be_bytes());
    key[8..].copy_from_slice(&doctor.to_be_bytes());
    key
}
