//! Many threads, each with many commits on their way at a time: one flush of the log serves them all. In a scratch directory.

use std::collections::VecDeque;

use seawall::{CommitHandle, Database, Error, Options, TypedTable};

const THREADS: u64 = 8;
const COMMITS: u64 = 1_000;
/// Commits of one thread that may be on their way to the disk at a time.
const IN_FLIGHT: usize = 64;

fn main() -> Result<(), Error> {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let database = Database::open(scratch.path().join("readings"), Options::default())?;
    let readings: TypedTable<(u64, u64), f64> = TypedTable::open_or_create(&database, "readings")?;

    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|sensor| {
                // Handles are cheap. A session of its own: this thread never waits to see what another one has committed.
                let (session, readings) = (database.new_session(), &readings);
                scope.spawn(move || write(&session, readings, sensor))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;

    let rows = readings.rows_at(&database.snapshot()).count();
    let (commits, flushes) = (THREADS * COMMITS, database.statistics().log.flushes);
    println!("{commits} durable commits of {rows} rows took {flushes} flushes of the log");
    assert_eq!(rows as u64, commits);
    database.close()
}

/// A commit has its place in the log when `commit_async` returns, and is durable and visible when `wait` does. Commits become durable in
/// the order of the log, so the oldest is waited for first.
fn write(database: &Database, readings: &TypedTable<(u64, u64), f64>, sensor: u64) -> Result<(), Error> {
    let mut in_flight: VecDeque<CommitHandle> = VecDeque::new();
    for number in 0..COMMITS {
        if in_flight.len() == IN_FLIGHT
            && let Some(oldest) = in_flight.pop_front()
        {
            oldest.wait()?; // From here on this reading may be acknowledged to whoever has sent it.
        }
        let mut transaction = database.begin();
        readings.put(&mut transaction, (sensor, number), 20.5)?;
        in_flight.push_back(transaction.commit_async()?);
    }
    in_flight.into_iter().try_for_each(|handle| handle.wait().map(drop))
}
