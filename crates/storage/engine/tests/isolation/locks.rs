//! Row locks between threads: waiting, giving up, deadlocks.

use std::sync::Barrier;
use std::time::Duration;

use seawall_engine::{Error, Isolation, LockWait, TransactionOptions};
use seawall_testing::wait_until;

use super::{ALL, BACKGROUNDS, begin, check_and_close, in_threads, number, open, with};

#[test]
fn of_those_who_wait_in_a_circle_one_gives_way_and_the_rest_commit() {
    for count in [2_usize, 3, 5] {
        let database = open(BACKGROUNDS[0]);
        let table = database.create_table("t").unwrap();
        let barrier = Barrier::new(count);
        let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|index| {
                    let (database, table, barrier) = (&database, &table, &barrier);
                    scope.spawn(move || {
                        let mut transaction = begin(database, Isolation::Snapshot);
                        transaction.put(table, index.to_be_bytes(), index.to_be_bytes()).unwrap();
                        barrier.wait();
                        let next = (index + 1) % count;
                        transaction.put(table, next.to_be_bytes(), index.to_be_bytes())?;
                        transaction.commit().map(|_| ())
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let victims =
            outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Deadlock { .. }))).count();
        let committed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(victims >= 1, "{outcomes:?}");
        assert_eq!(victims + committed, count, "{outcomes:?}");
        check_and_close(database);
    }
}

#[test]
fn threads_that_deadlock_again_and_again_all_finish_with_retries() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 40;
    for background in BACKGROUNDS {
        for isolation in ALL {
            let database = open(background);
            let table = database.create_table("t").unwrap();
            in_threads(THREADS, ROUNDS, |random| {
                let mut rows = [0_u64, 1, 2];
                random.shuffle(&mut rows);
                database
                    .with(with(isolation))
                    .transact(|transaction| {
                        for row in &rows {
                            let value = number(transaction.get_for_update(&table, row.to_be_bytes())?);
                            transaction.put(&table, row.to_be_bytes(), (value + 1).to_be_bytes())?;
                        }
                        Ok(())
                    })
                    .unwrap();
            });
            for row in 0..3_u64 {
                let value = number(database.get(&table, row.to_be_bytes()).unwrap());
                assert_eq!(value, THREADS * ROUNDS, "row {row}, {isolation:?}, {background:?}");
            }
            check_and_close(database);
        }
    }
}

#[test]
fn a_row_that_is_put_while_its_table_is_truncated_is_put_into_the_truncated_table() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    let mut holder = database.begin();
    holder.put(&table, "k", "held").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| database.put(&table, "k", "put"));
        wait_until("the writer to wait for the lock", || database.statistics().transactions.lock_waiters > 0);
        database.tables().truncate("t").unwrap();
        holder.rollback();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"put");
    check_and_close(database);
}

#[test]
fn a_wait_ends_with_the_time_it_was_given() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    let mut holder = database.begin();
    holder.put(&table, "k", "held").unwrap();
    let waits =
        [(LockWait::NoWait, "not to wait"), (LockWait::Timeout(Duration::from_millis(2)), "timed out")];
    for (lock_wait, says) in waits {
        for isolation in ALL {
            let mut other = database.with(TransactionOptions { lock_wait, ..with(isolation) }).begin();
            let error = other.put(&table, "k", "v").unwrap_err();
            assert!(matches!(error, Error::Locked { .. }), "{error:?}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(matches!(other.commit(), Err(Error::TransactionFailed { .. })));
        }
    }
    holder.commit().unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"held");
    check_and_close(database);
}

#[test]
fn single_writes_wait_as_their_handle_was_told() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    let mut holder = database.begin();
    holder.put(&table, "k", "held").unwrap();
    let waits =
        [(LockWait::NoWait, "not to wait"), (LockWait::Timeout(Duration::from_millis(2)), "timed out")];
    for (lock_wait, says) in waits {
        let waiting = database.with(lock_wait);
        for refused in [waiting.put(&table, "k", "v"), waiting.delete(&table, "k")] {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Locked { .. }), "{error:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
    // The later setting counts.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let waiting = database.with(LockWait::NoWait).with(LockWait::Timeout(Duration::from_secs(600)));
            waiting.put(&table, "k", "v")?;
            waiting.delete(&table, "k")
        });
        wait_until("the writer to wait for the lock", || database.statistics().transactions.lock_waiters > 0);
        holder.commit().unwrap();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(database.get(&table, "k").unwrap(), None);
    check_and_close(database);
}

#[test]
fn who_waited_for_a_row_sees_what_its_holder_committed_or_conflicts() {
    for background in BACKGROUNDS {
        for isolation in ALL {
            for (reads_first, rolls_back) in [(false, false), (true, false), (false, true), (true, true)] {
                let database = open(background);
                let table = database.create_table("t").unwrap();
                database.put(&table, "k", "old").unwrap();
                let mut holder = database.begin();
                holder.put(&table, "k", "new").unwrap();
                let mut waiter = begin(&database, isolation);
                if reads_first {
                    assert_eq!(waiter.get(&table, "k").unwrap().unwrap(), b"old");
                }
                let seen = std::thread::scope(|scope| {
                    let table = &table;
                    let thread = scope.spawn(move || waiter.get_for_update(table, "k"));
                    // Whether the thread waits already makes no difference to what it gets.
                    if rolls_back {
                        holder.rollback()
                    } else {
                        holder.commit().map(|_| ()).unwrap()
                    }
                    thread.join().unwrap()
                });
                let conflicts = reads_first && !rolls_back && isolation != Isolation::ReadCommitted;
                match seen {
                    Err(Error::Conflict { .. }) => assert!(conflicts, "{isolation:?}"),
                    Err(error) => panic!("{error}"),
                    Ok(value) => {
                        assert!(!conflicts, "{isolation:?}");
                        let expected: &[u8] = if rolls_back { b"old" } else { b"new" };
                        assert_eq!(value.unwrap(), expected, "{isolation:?}, read first: {reads_first}");
                    }
                }
                check_and_close(database);
            }
        }
    }
}
