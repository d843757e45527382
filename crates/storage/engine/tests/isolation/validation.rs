//! Serializable transactions whose reads are validated while others commit.

use std::sync::atomic::{AtomicBool, Ordering};

use seawall_engine::{Durability, Error, Isolation, TransactionOptions};

use super::{BACKGROUNDS, begin, check_and_close, open, with};

/// Each counter counts a table, row by row or as a range, and adds the row that has this number. Two that have counted the same
/// rows cannot both commit, however much others commit between a count and its validation.
#[test]
fn counts_that_are_validated_while_others_commit_are_all_different() {
    const BEFORE: u64 = 600;
    const ADDED: u64 = 40;
    for background in BACKGROUNDS {
        let database = open(background);
        let [counted, other] = ["counted", "other"].map(|name| database.create_table(name).unwrap());
        let mut transaction = begin(&database, Isolation::Snapshot);
        (0..BEFORE).for_each(|row| transaction.put(&counted, row.to_be_bytes(), []).unwrap());
        transaction.commit().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (database, counted, other, done) = (&database, &counted, &other, &done);
            for (writer, rows) in [1_u64, 1, 300].into_iter().enumerate() {
                scope.spawn(move || {
                    for turn in 0_u64.. {
                        if done.load(Ordering::SeqCst) {
                            return;
                        }
                        let options =
                            TransactionOptions { durability: Durability::Async, ..with(Isolation::Snapshot) };
                        let mut transaction = database.with(options).begin();
                        for row in 0..rows {
                            let key = (writer as u64 * 1_000 + (turn + row) % 1_000).to_be_bytes();
                            transaction.put(other, key, turn.to_be_bytes()).unwrap();
                        }
                        transaction.commit().unwrap();
                    }
                });
            }
            let counters: Vec<_> = [false, true, false]
                .into_iter()
                .map(|row_by_row| {
                    scope.spawn(move || {
                        let mut counts = Vec::new();
                        loop {
                            let mut transaction = begin(database, Isolation::Serializable);
                            let count = if row_by_row {
                                let is_there = |row: &u64| {
                                    transaction.get(counted, row.to_be_bytes()).unwrap().is_some()
                                };
                                (0..).take_while(is_there).count() as u64
                            } else {
                                transaction.rows(counted).map(Result::unwrap).count() as u64
                            };
                            if count >= BEFORE + ADDED {
                                return counts;
                            }
                            match transaction
                                .put(counted, count.to_be_bytes(), [])
                                .and_then(|()| transaction.commit())
                            {
                                Ok(_) => counts.push(count),
                                Err(Error::Conflict { .. } | Error::Deadlock { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            let mut counts: Vec<u64> =
                counters.into_iter().flat_map(|counter| counter.join().unwrap()).collect();
            done.store(true, Ordering::SeqCst);
            counts.sort_unstable();
            assert_eq!(counts, (BEFORE..BEFORE + ADDED).collect::<Vec<_>>(), "{background:?}");
        });
        check_and_close(database);
    }
}
