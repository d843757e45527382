//! `transact` and `try_transact`: run again while others are in the way, end with the program's own errors, and then change nothing.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Environment, Error, Isolation, Options, Table, Transaction, TransactionOptions,
};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

/// What a program says of its own transactions.
#[derive(Debug)]
enum Refusal {
    NotEnough(u64),
    Database(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Database(error)
    }
}

fn open(options: Options) -> (Database, Table, Arc<SimulatedClock>) {
    let clock = Arc::new(SimulatedClock::default());
    let environment = Environment {
        disk: Arc::new(SimulatedDisk::new(1)),
        clock: clock.clone(),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let options = Options { background: Background::Manual, ..options };
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, "hot", "0").unwrap();
    (database, table, clock)
}

#[test]
fn an_error_of_the_program_commits_nothing_and_is_what_it_was() {
    let (database, table, _) = open(Options::default());
    let mut runs = 0;
    let refused: Result<(), Refusal> = database.try_transact(|transaction| {
        runs += 1;
        transaction.put(&table, "debit", "100")?;
        let created = transaction.create_table("receipts")?;
        transaction.put(&created, "1", "100")?;
        Err(Refusal::NotEnough(42))
    });
    assert!(matches!(refused, Err(Refusal::NotEnough(42))), "{refused:?}");
    assert_eq!(runs, 1, "nobody was in the way");
    assert_eq!(database.get(&table, "debit").unwrap(), None);
    assert!(matches!(database.table("receipts"), Err(Error::NoSuchTable { .. })));
    // Its locks are gone, too.
    database.put(&table, "debit", "1").unwrap();
}

#[test]
fn an_error_of_the_database_becomes_one_of_the_program() {
    let (database, table, _) = open(Options::default());
    let refused: Result<(), Refusal> =
        database.try_transact(|transaction| Ok(transaction.put(&table, vec![0; 5_000], "")?));
    assert!(matches!(refused, Err(Refusal::Database(Error::KeyTooLarge { .. }))), "{refused:?}");
    database.tables().drop("t").unwrap();
    let refused: Result<(), Box<dyn std::error::Error>> =
        database.try_transact(|transaction| Ok(transaction.put(&table, "k", "v")?));
    assert!(refused.unwrap_err().downcast_ref::<Error>().is_some());
}

/// Reads a row, another transaction changes it, and this one writes it.
fn collide(database: &Database, table: &Table, transaction: &mut Transaction) -> Result<(), Error> {
    transaction.get(table, "hot")?;
    database.put(table, "hot", "changed by another").unwrap();
    transaction.put(table, "hot", "mine")
}

#[test]
fn a_conflict_is_run_again_whatever_the_program_makes_of_it() {
    let (database, table, _) = open(Options::default());
    let mut runs = 0;
    let done: Result<&str, Refusal> = database.try_transact(|transaction| {
        runs += 1;
        if runs < 3 {
            // The program hides what the database said.
            collide(&database, &table, transaction).map_err(|_| Refusal::NotEnough(0))?;
        }
        transaction.put(&table, "hot", "mine at last")?;
        Ok("done")
    });
    assert!(matches!(done, Ok("done")), "{done:?}");
    assert_eq!(runs, 3);
    assert_eq!(database.get(&table, "hot").unwrap().unwrap(), b"mine at last");
}

#[test]
fn a_conflict_that_the_program_passes_over_is_run_again() {
    let (database, table, _) = open(Options::default());
    let mut runs = 0;
    let done: Result<(), Refusal> = database.try_transact(|transaction| {
        runs += 1;
        if runs == 1 {
            assert!(collide(&database, &table, transaction).is_err());
            return Ok(());
        }
        Ok(transaction.put(&table, "hot", "mine at last")?)
    });
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(runs, 2);
    assert_eq!(database.get(&table, "hot").unwrap().unwrap(), b"mine at last");
}

#[test]
fn a_conflict_at_the_commit_is_run_again() {
    let (database, table, _) = open(Options::default());
    let options = TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    let mut runs = 0;
    let done: Result<(), Refusal> = database.with(options).try_transact(|transaction| {
        runs += 1;
        transaction.get(&table, "hot")?;
        transaction.put(&table, "cold", "read the other")?;
        if runs == 1 {
            database.put(&table, "hot", "changed by another")?;
        }
        Ok(())
    });
    done.unwrap();
    assert_eq!(runs, 2);
}

/// Room for a snapshot that is not very old.
fn open_with_little_room() -> (Database, Table, Arc<SimulatedClock>) {
    open(Options::default().with(|options| {
        options.memory.snapshot_bytes = 64 << 10;
        options.memory.memtable_bytes = 4 << 20;
    }))
}

/// Writes so much that the oldest snapshot is cancelled.
fn cancel_oldest_snapshot(database: &Database, table: &Table) {
    for round in 0..4 {
        for row in 0..400_u32 {
            database.put(table, row.to_be_bytes(), [round; 1000]).unwrap();
        }
        database.checkpoint().unwrap();
    }
}

/// Under `ReadCommitted` a scan has a snapshot of its own, which is cancelled where memory is short.
#[test]
fn a_cancelled_snapshot_is_run_again_under_every_isolation() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let (database, table, _) = open_with_little_room();
        cancel_oldest_snapshot(&database, &table);
        let options = TransactionOptions { isolation, ..TransactionOptions::default() };
        let mut runs = 0;
        let rows: Result<usize, Refusal> = database.with(options).try_transact(|transaction| {
            runs += 1;
            let mut rows = transaction.rows(&table);
            let mut count = 0;
            while let Some(_row) = rows.next_row().map_err(|_| Refusal::NotEnough(runs))? {
                count += 1;
                if runs == 1 && count == 1 {
                    cancel_oldest_snapshot(&database, &table);
                }
            }
            Ok(count)
        });
        assert!(matches!(rows, Ok(401)), "{isolation:?}: {rows:?}");
        assert_eq!(runs, 2, "{isolation:?}");
    }
}

/// Another read that has a snapshot of its own, under `ReadCommitted`, is no proof that all had theirs.
#[test]
fn a_cancelled_read_is_run_again_whatever_was_read_after_it() {
    let (database, table, _) = open_with_little_room();
    cancel_oldest_snapshot(&database, &table);
    let options = TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() };
    let mut runs = 0;
    let read: Result<(), Refusal> = database.with(options).try_transact(|transaction| {
        runs += 1;
        let mut rows = transaction.rows(&table);
        rows.next_row()?;
        if runs > 1 {
            return Ok(());
        }
        cancel_oldest_snapshot(&database, &table);
        let cancelled = rows.find_map(Result::err);
        assert!(matches!(cancelled, Some(Error::SnapshotCancelled { .. })), "{cancelled:?}");
        drop(rows);
        transaction.get(&table, "hot")?;
        Err(Refusal::NotEnough(0))
    });
    assert!(read.is_ok(), "{read:?}");
    assert_eq!(runs, 2);
}

/// What the program has read was there, and what it makes of that is its own.
#[test]
fn a_snapshot_that_is_cancelled_after_the_last_read_is_nobody_in_the_way() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let (database, table, _) = open_with_little_room();
        let options = TransactionOptions { isolation, ..TransactionOptions::default() };
        let mut runs = 0;
        let refused: Result<(), Refusal> = database.with(options).try_transact(|transaction| {
            runs += 1;
            assert!(runs < 5, "{isolation:?}: it is run again and again");
            transaction.get(&table, "hot")?;
            let as_old = database.snapshot();
            cancel_oldest_snapshot(&database, &table);
            let cancelled = as_old.get(&table, "hot");
            assert!(matches!(cancelled, Err(Error::SnapshotCancelled { .. })), "{cancelled:?}");
            Err(Refusal::NotEnough(42))
        });
        assert!(matches!(refused, Err(Refusal::NotEnough(42))), "{isolation:?}: {refused:?}");
        assert_eq!(runs, 1, "{isolation:?}");
    }
}

#[test]
fn a_transaction_that_never_gets_through_is_given_up_after_the_time_for_it() {
    for (retry_for, expected) in [(Duration::ZERO, 1), (Duration::from_secs(60), 6)] {
        let (database, table, clock) =
            open(Options::default().with(|options| options.transaction.retry_for = retry_for));
        let mut runs = 0;
        let result: Result<(), Refusal> = database.try_transact(|transaction| {
            runs += 1;
            assert!(runs < 100, "it is never given up");
            clock.advance(Duration::from_secs(10));
            Ok(collide(&database, &table, transaction)?)
        });
        assert!(matches!(result, Err(Refusal::Database(Error::Conflict { .. }))), "{result:?}");
        assert_eq!(runs, expected);
    }
}

#[test]
fn the_time_for_a_transaction_may_be_its_own() {
    let (database, table, clock) = open(Options::default());
    let once = TransactionOptions { retry_for: Duration::ZERO, ..TransactionOptions::default() };
    let mut runs = 0;
    let result: Result<(), Error> = database.with(once).transact(|transaction| {
        runs += 1;
        assert!(runs < 100, "it is never given up");
        clock.advance(Duration::from_secs(10));
        collide(&database, &table, transaction)
    });
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
    assert_eq!(runs, 1);
}
