//! Tables that are truncated or dropped while others write to them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_engine::{Database, Error, Isolation, TableChange};
use seawall_types::Lsn;

use super::{ALL, BACKGROUNDS, begin, check_and_close, open, with};

const WRITERS: u64 = 3;

/// Writers put rows until told to stop or refused for good; stamp and key of what they committed.
fn write_while(database: &Database, define: impl FnOnce(&AtomicBool)) -> Vec<(Lsn, Vec<u8>)> {
    let (committed, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let table = database.table("t").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (table, committed, stop) = (&table, &committed, &stop);
            scope.spawn(move || {
                for round in 0_u64.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = [writer.to_be_bytes(), round.to_be_bytes()].concat();
                    let isolation = ALL[usize::try_from(round).unwrap() % ALL.len()];
                    let mut transaction = begin(database, isolation);
                    let put = transaction.get(table, "x").and_then(|_| transaction.put(table, &key, "v"));
                    match put.and_then(|()| transaction.commit()) {
                        Ok(stamp) => committed.lock().unwrap().push((stamp, key)),
                        Err(
                            Error::TableChanged { change: TableChange::Truncated, .. }
                            | Error::Conflict { .. },
                        ) => {}
                        Err(
                            Error::TableChanged { change: TableChange::Dropped, .. }
                            | Error::NoSuchTable { .. },
                        ) => {
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        define(&stop);
    });
    committed.into_inner().unwrap()
}

#[test]
fn a_truncate_removes_exactly_what_was_committed_before_it() {
    for background in BACKGROUNDS {
        let database = open(background);
        database.create_table("t").unwrap();
        let mut last = Lsn::ZERO;
        let committed = write_while(&database, |stop| {
            for _ in 0..30 {
                let mut transaction = begin(&database, Isolation::ReadCommitted);
                transaction.truncate_table("t").unwrap();
                last = transaction.commit().unwrap();
                database.checkpoint().unwrap();
            }
            stop.store(true, Ordering::SeqCst);
        });
        let expected: BTreeSet<_> =
            committed.into_iter().filter(|(stamp, _)| *stamp > last).map(|(_, key)| key).collect();
        let table = database.table("t").unwrap();
        let rows: BTreeSet<_> =
            database.snapshot().range::<&[u8]>(&table, ..).map(|row| row.unwrap().0).collect();
        assert_eq!(rows, expected, "{background:?}");
        check_and_close(database);
    }
}

#[test]
fn nobody_commits_to_a_table_after_it_is_dropped() {
    for background in BACKGROUNDS {
        let database = open(background);
        database.create_table("t").unwrap();
        let mut dropped = Lsn::MAX;
        let committed = write_while(&database, |_| {
            let mut transaction = begin(&database, Isolation::ReadCommitted);
            transaction.drop_table("t").unwrap();
            dropped = transaction.commit().unwrap();
            // Under the old name, a new table: none of the writers' rows may turn up in it.
            database.create_table("t").unwrap();
        });
        assert!(committed.iter().all(|(stamp, _)| *stamp < dropped));
        database.checkpoint().unwrap();
        let table = database.table("t").unwrap();
        assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 0);
        check_and_close(database);
    }
}

#[test]
fn a_truncate_after_a_serializable_read_is_a_conflict() {
    let database = open(BACKGROUNDS[1]);
    let (read, written) = (database.create_table("read").unwrap(), database.create_table("written").unwrap());
    for by_range in [false, true] {
        database.put(&read, "k", "v").unwrap();
        let mut reader = begin(&database, Isolation::Serializable);
        let mut truncater = begin(&database, Isolation::Serializable);
        if by_range {
            assert_eq!(reader.range::<&[u8]>(&read, ..).count(), 1);
            assert_eq!(truncater.range::<&[u8]>(&written, ..).count(), 0);
        } else {
            assert!(reader.get(&read, "k").unwrap().is_some());
            assert!(truncater.get(&written, "k").unwrap().is_none());
        }
        reader.put(&written, "k", "v").unwrap();
        truncater.truncate_table("read").unwrap();
        truncater.commit().unwrap();
        // Neither order explains both: the reader saw the row, the other one saw nothing written.
        assert!(matches!(reader.commit(), Err(Error::Conflict { .. })));
    }
    check_and_close(database);
}

/// Whether the reader had the table open when it was dropped or opened it later, by its old snapshot.
#[test]
fn a_drop_after_a_serializable_read_is_a_conflict() {
    let database = open(BACKGROUNDS[1]);
    let written = database.create_table("written").unwrap();
    for (opens_late, merges) in [(false, false), (true, false), (false, true), (true, true)] {
        database.put(&database.create_table("read").unwrap(), "k", "v").unwrap();
        let snapshot = database.snapshot();
        let mut reader = begin(&database, Isolation::Serializable);
        let mut dropper = begin(&database, Isolation::Serializable);
        for transaction in [&mut reader, &mut dropper] {
            assert_eq!(transaction.get(&written, "x").unwrap(), None);
        }
        let early = (!opens_late).then(|| database.table("read").unwrap());
        assert!(dropper.get(&written, "k").unwrap().is_none());
        dropper.drop_table("read").unwrap();
        dropper.commit().unwrap();
        if merges {
            database.checkpoint().unwrap();
        }
        let read = early.unwrap_or_else(|| snapshot.table("read").unwrap());
        assert!(reader.get(&read, "k").unwrap().is_some());
        reader.put(&written, "k", "v").unwrap();
        // Neither order explains both: the reader saw the table, the other one saw nothing written.
        assert!(matches!(reader.commit(), Err(Error::Conflict { .. })), "{opens_late} {merges}");
    }
    check_and_close(database);
}

#[test]
fn a_serializable_transaction_that_saw_no_table_conflicts_with_its_creation() {
    let database = open(BACKGROUNDS[1]);
    let log = database.create_table("log").unwrap();
    let mut first = begin(&database, Isolation::Serializable);
    assert!(matches!(first.table("t"), Err(Error::NoSuchTable { .. })));
    first.put(&log, "k", "there is no t").unwrap();
    database.create_table("t").unwrap();
    assert!(matches!(first.commit(), Err(Error::Conflict { .. })));
    // Under Snapshot it may.
    let mut second = begin(&database, Isolation::Snapshot);
    assert!(matches!(second.table("u"), Err(Error::NoSuchTable { .. })));
    second.put(&log, "k", "there is no u").unwrap();
    database.create_table("u").unwrap();
    second.commit().unwrap();
    check_and_close(database);
}

#[test]
fn one_name_goes_to_one_of_those_who_create_it() {
    for background in BACKGROUNDS {
        let database = open(background);
        for round in 0..20 {
            let name = format!("table {round}");
            let created: Vec<bool> = std::thread::scope(|scope| {
                let threads: Vec<_> = ALL
                    .map(|isolation| {
                        let (database, name) = (&database, &name);
                        scope.spawn(move || {
                            let result = database.with(with(isolation)).transact(|transaction| {
                                let table = transaction.create_table(name)?;
                                transaction.put(&table, "creator", format!("{isolation:?}"))
                            });
                            match result {
                                Ok(()) => true,
                                Err(Error::TableExists { .. }) => false,
                                Err(error) => panic!("{error}"),
                            }
                        })
                    })
                    .into_iter()
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let table = database.table(&name).unwrap();
            let creator = database.get(&table, "creator").unwrap().unwrap();
            let winners: Vec<_> = ALL.iter().zip(created).filter(|(_, created)| *created).collect();
            assert_eq!(winners.len(), 1, "{name}");
            assert_eq!(format!("{:?}", winners[0].0).as_bytes(), creator);
        }
        check_and_close(database);
    }
}
