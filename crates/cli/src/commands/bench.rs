//! `bench`: a few figures of this machine in a few seconds. Comparisons with other engines are crate seawall-bench's.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use seawall::{Database, Durability, Error, OpenMode, Table};
use serde_json::json;

use super::{open_with, options};
use crate::arguments::{Bench, Shared};
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{Output, grouped, rate};

/// Keys are drawn from this many.
const KEYS: u64 = 1_000_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// Commits that one thread keeps in flight.
const IN_FLIGHT: usize = 1000;
const BATCH: u64 = 100;
const SCAN_ROWS: u64 = 100;
const WRITTEN: &str = "bench_written";
const LOADED: &str = "bench_loaded";

pub(crate) fn bench(shared: &Shared, bench: &Bench, output: &mut Output) -> Result<(), Failure> {
    let scratch = match &bench.dir {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("seawall-bench-")
                .tempdir()
                .map_err(Failure::io("cannot make a scratch directory"))?,
        ),
    };
    let directory: PathBuf = match (&bench.dir, &scratch) {
        (Some(directory), _) => directory.clone(),
        (None, Some(scratch)) => scratch.path().join("database"),
        (None, None) => return Err(Failure::Broken("no directory".to_owned())),
    };
    let result = measure_all(shared, bench, &directory, output);
    if let Some(scratch) = scratch {
        let name = scratch.path().display().to_string();
        scratch.close().map_err(Failure::io(format!("cannot remove {name}")))?;
    }
    result
}

fn measure_all(shared: &Shared, bench: &Bench, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let database = open_with(directory, options(shared, OpenMode::CreateIfMissing))?;
    let machine = Machine { database: &database, limit: Duration::from_secs_f64(bench.seconds) };
    let written = fresh_table(&database, WRITTEN)?;
    if !output.json() {
        output
            .line(format_args!("in {}; 8-byte keys of 1,000,000, 100-byte values\n", directory.display()))?;
        output.line(format_args!("{:>14}  {:<14}  workload", "a second", "threads"))?;
    }
    for &threads in &bench.threads {
        let count = machine.run(threads, |random| {
            database.with(Durability::Sync).put(&written, key(random), VALUE).map(|_| 1)
        })?;
        show(output, "durable puts", threads, "commits", count)?;
    }
    show(output, "durable puts, 1,000 commits in flight", 1, "commits", machine.in_flight(&written)?)?;
    let count = machine.run(1, |random| batch(&database, &written, random))?;
    show(output, "durable batches of 100", 1, "rows", count)?;
    let count = machine
        .run(1, |random| database.with(Durability::Async).put(&written, key(random), VALUE).map(|_| 1))?;
    show(output, "puts durable within 10 ms", 1, "commits", count)?;

    let (loaded, count) = machine.bulk_load()?;
    show(output, "bulk load of 1,000,000 sorted rows", 1, "rows", count)?;
    for threads in [1, 2] {
        let count = machine.run(threads, |random| {
            database.get_with(&loaded, key(random), |value| u64::from(value.is_some()))
        })?;
        show(output, "point reads", threads, "reads", count)?;
    }
    let count = machine.run(1, |random| {
        let from = random.u64(..KEYS - SCAN_ROWS).to_be_bytes();
        let mut rows = 0;
        let snapshot = database.snapshot();
        let mut range = snapshot.range(&loaded, from.as_slice()..);
        while rows < SCAN_ROWS && range.next_row()?.is_some() {
            rows += 1;
        }
        Ok(1)
    })?;
    show(output, "scans of 100 rows", 1, "scans", count)?;
    let count = machine.run(1, |_| {
        let snapshot = database.snapshot();
        let mut range = snapshot.range::<&[u8]>(&loaded, ..);
        let mut rows = 0;
        while range.next_row()?.is_some() {
            rows += 1;
        }
        Ok(rows)
    })?;
    show(output, "full scans", 1, "rows", count)?;
    database.tables().drop(LOADED)?;
    database.close()?;
    Ok(())
}

struct Machine<'a> {
    database: &'a Database,
    limit: Duration,
}

/// How many, in what time.
#[derive(Clone, Copy)]
struct Count {
    events: u64,
    elapsed: Duration,
}

impl Machine<'_> {
    /// Repeats `operation`, which says how many events it was, on `threads` threads until the time is up.
    fn run(
        &self,
        threads: u64,
        operation: impl Fn(&mut Rng) -> Result<u64, Error> + Sync,
    ) -> Result<Count, Failure> {
        let events = AtomicU64::new(0);
        let stopwatch = Stopwatch::start();
        let work = |seed| -> Result<(), Error> {
            let mut random = Rng::with_seed(seed);
            while stopwatch.elapsed() < self.limit {
                // Adding to a total: no other memory depends on it.
                events.fetch_add(operation(&mut random)?, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|seed| scope.spawn(move || work(seed))).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result.map_err(Failure::from),
                Err(_) => Err(Failure::Broken("a thread of the benchmark panicked".to_owned())),
            })
        })?;
        Ok(Count { events: events.into_inner(), elapsed: stopwatch.elapsed() })
    }

    /// One thread that waits for a commit only when `IN_FLIGHT` later ones are on their way.
    fn in_flight(&self, table: &Table) -> Result<Count, Failure> {
        let mut random = Rng::with_seed(0);
        let mut handles = VecDeque::new();
        let mut events = 0;
        let stopwatch = Stopwatch::start();
        while stopwatch.elapsed() < self.limit {
            let mut transaction = self.database.begin();
            transaction.put(table, key(&mut random), VALUE)?;
            handles.push_back(transaction.commit_async()?);
            if handles.len() > IN_FLIGHT
                && let Some(oldest) = handles.pop_front()
            {
                oldest.wait()?;
                events += 1;
            }
        }
        for handle in handles {
            handle.wait()?;
            events += 1;
        }
        Ok(Count { events, elapsed: stopwatch.elapsed() })
    }

    fn bulk_load(&self) -> Result<(Table, Count), Failure> {
        match self.database.tables().drop(LOADED) {
            Ok(()) | Err(Error::NoSuchTable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let stopwatch = Stopwatch::start();
        let mut load = self.database.tables().bulk_load(LOADED)?;
        for number in 0..KEYS {
            load.add(number.to_be_bytes(), VALUE)?;
        }
        let table = load.finish()?;
        Ok((table, Count { events: KEYS, elapsed: stopwatch.elapsed() }))
    }
}

/// A random key of the million.
fn key(random: &mut Rng) -> [u8; 8] {
    random.u64(..KEYS).to_be_bytes()
}

fn batch(database: &Database, table: &Table, random: &mut Rng) -> Result<u64, Error> {
    let mut transaction = database.begin();
    for _ in 0..BATCH {
        transaction.put(table, key(random), VALUE)?;
    }
    transaction.commit().map(|_| BATCH)
}

fn fresh_table(database: &Database, name: &str) -> Result<Table, Failure> {
    match database.tables().drop(name) {
        Ok(()) | Err(Error::NoSuchTable { .. }) => Ok(database.create_table(name)?),
        Err(error) => Err(error.into()),
    }
}

fn show(output: &mut Output, what: &str, threads: u64, unit: &str, count: Count) -> Result<(), Failure> {
    let rate = rate(count.events, count.elapsed);
    let answer = json!({
        "workload": what, "threads": threads, "unit": unit, "count": count.events,
        "seconds": count.elapsed.as_secs_f64(), "per_second": rate,
    });
    output.answer(&answer, format_args!("{:>14}  {threads:<14}  {what} ({unit})", grouped(rate)))?;
    output.flush()
}
