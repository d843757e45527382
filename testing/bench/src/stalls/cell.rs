//! One cell: who works, and what is timed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use seawall::{Database, Durability, Isolation, LockWait, Options, Table, TransactionOptions};
use serde::Serialize;

use crate::error::{BenchError, engine_error};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::usage::now;

use super::neighbour::{Counting, Large, leave_in_doubt};

pub(super) const ENGINE: &str = "seawall";
const VALUE_BYTES: usize = 100;
/// Each neighbour does its work at least so often before a cell ends.
const TURNS_MIN: u64 = 2;
/// Keys of each thread of short commits.
const KEYS_PER_THREAD: u64 = 10_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Short commits alone
    Quiet,
    /// Beside a thread that commits large transactions
    Large,
    /// Beside a thread that counts a table of recent rows under `Serializable` and commits the count
    Serializable,
    /// Beside a serializable transaction in doubt that has read many rows
    InDoubt,
    /// Beside all of these together
    All,
    /// Snapshots beside `Async` committers
    Snapshots,
    /// One transaction of very many rows, its commit
    ManyRows,
    /// Read and update one row under `ReadCommitted`
    HotRow,
}

impl Kind {
    pub(super) const ALL: [Kind; 8] = [
        Kind::Quiet,
        Kind::Large,
        Kind::Serializable,
        Kind::InDoubt,
        Kind::All,
        Kind::Snapshots,
        Kind::ManyRows,
        Kind::HotRow,
    ];

    fn is_beside(self, neighbour: Kind) -> bool {
        self == neighbour || self == Kind::All
    }
}

/// What is to be measured, and how.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) directory: PathBuf,
    pub(super) seconds: f64,
    pub(super) threads: u64,
    pub(super) hot_threads: u64,
    pub(super) large_bytes: u64,
    pub(super) rows: u64,
    pub(super) counted_rows: u64,
    pub(super) memtable_bytes: u64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    kind: Kind,
    operations: u64,
    operations_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// What neighbours have completed meanwhile.
    large_commits: u64,
    counts: u64,
    /// The longest that a batch of the log took to get to the disk.
    disk_max_us: f64,
}

impl Figures {
    pub(super) fn row(&self) -> String {
        let name = self.kind.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
        format!(
            "| {name} | {:.0} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {} large commits, {} counts |",
            self.operations_per_second,
            self.p50_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
            self.disk_max_us,
            self.large_commits,
            self.counts
        )
    }
}

/// Latencies of all threads, and how long they worked.
struct Timed {
    latencies: Histogram,
    elapsed: Duration,
    large_commits: u64,
    counts: u64,
}

/// Measures the cell in its directory, and leaves the database there.
pub(super) fn measure(cell: &Cell) -> Result<Figures, BenchError> {
    let mut options = Options::default();
    options.memory.memtable_bytes = cell.memtable_bytes;
    // No checkpoint: what is measured is the path of a commit.
    options.checkpoint.log_bytes = 1 << 40;
    options.checkpoint.interval = Duration::from_secs(86_400);
    options.recovery.target = None;
    // A row of 100 bytes takes about 400 with its key, lock and record.
    options.memory.transaction_bytes = 1920 << 20;
    options.memory.all_transactions_bytes = 4 << 30;
    let database = Database::open(&cell.directory, options).map_err(engine_error(ENGINE, "open"))?;
    let table = database.create_table("t").map_err(engine_error(ENGINE, "create a table"))?;
    let timed = match cell.kind {
        Kind::Snapshots => snapshots(cell, &database, &table)?,
        Kind::ManyRows => many_rows(cell, &database, &table)?,
        Kind::HotRow => hot_row(cell, &database, &table)?,
        _ => short_commits(cell, &database, &table)?,
    };
    let disk_max = database.statistics().log.batch_longest;
    database.close().map_err(engine_error(ENGINE, "close"))?;
    let latencies = &timed.latencies;
    Ok(Figures {
        kind: cell.kind,
        operations: latencies.count(),
        operations_per_second: latencies.count() as f64 / timed.elapsed.as_secs_f64().max(1e-9),
        p50_us: latencies.quantile_micros(0.5),
        p99_us: latencies.quantile_micros(0.99),
        p999_us: latencies.quantile_micros(0.999),
        max_us: latencies.max_micros(),
        large_commits: timed.large_commits,
        counts: timed.counts,
        disk_max_us: disk_max.as_secs_f64() * 1e6,
    })
}

/// Works until it is told to stop, and counts its turns.
type Work<'w> = Box<dyn Fn(&AtomicBool, &AtomicU64) -> Result<(), BenchError> + Send + Sync + 'w>;

/// Runs `neighbours` and so many threads of `operation(thread, turn)` until the time is up and each neighbour has had its turns.
fn run_threads(
    cell: &Cell,
    threads: u64,
    neighbours: &[Work<'_>],
    operation: impl Fn(u64, u64) -> Result<(), BenchError> + Sync,
) -> Result<(Histogram, Duration), BenchError> {
    let stop = AtomicBool::new(false);
    let turns: Vec<AtomicU64> = neighbours.iter().map(|_| AtomicU64::new(0)).collect();
    let begun = now();
    let deadline = begun + Duration::from_secs_f64(cell.seconds);
    let (stop, turns, operation) = (&stop, &turns, &operation);
    let is_over =
        |now| now >= deadline && turns.iter().all(|turns| turns.load(Ordering::Relaxed) >= TURNS_MIN);
    let is_over = &is_over;
    std::thread::scope(|scope| {
        let neighbours: Vec<_> = neighbours
            .iter()
            .zip(turns)
            .map(|(work, turns)| {
                scope.spawn(move || {
                    let outcome = work(stop, turns);
                    // One that has failed keeps nobody.
                    turns.fetch_add(TURNS_MIN, Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let timed: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut latencies = Histogram::new();
                    let mut turn = 0;
                    let mut before = now();
                    while !is_over(before) {
                        operation(thread, turn)?;
                        let after = now();
                        latencies.record(after - before);
                        (before, turn) = (after, turn + 1);
                    }
                    Ok(latencies)
                })
            })
            .collect();
        let mut all = Histogram::new();
        let outcomes: Vec<Result<Histogram, BenchError>> =
            timed.into_iter().map(|thread| thread.join().expect("a thread of the cell panicked")).collect();
        let elapsed = now() - begun;
        stop.store(true, Ordering::Relaxed);
        for neighbour in neighbours {
            neighbour.join().expect("a neighbour panicked")?;
        }
        for outcome in outcomes {
            all.merge(&outcome?);
        }
        Ok((all, elapsed))
    })
}

fn short_commits(cell: &Cell, database: &Database, table: &Table) -> Result<Timed, BenchError> {
    let (large_commits, counts) = (AtomicU64::new(0), AtomicU64::new(0));
    let large = cell.kind.is_beside(Kind::Large).then(|| Large::new(database)).transpose()?;
    let counting =
        cell.kind.is_beside(Kind::Serializable).then(|| Counting::new(cell, database)).transpose()?;
    if cell.kind.is_beside(Kind::InDoubt) {
        leave_in_doubt(database)?;
    }
    let mut neighbours: Vec<Work<'_>> = Vec::new();
    if let Some(large) = &large {
        neighbours.push(Box::new(|stop, turns| large.run(cell, database, stop, &[turns, &large_commits])));
    }
    if let Some(counting) = &counting {
        neighbours.push(Box::new(|stop, turns| counting.run(database, stop, &[turns, &counts])));
    }
    let (latencies, elapsed) = run_threads(cell, cell.threads, &neighbours, |thread, turn| {
        put(database, table, thread, turn, Durability::Sync)
    })?;
    drop(neighbours);
    Ok(Timed { latencies, elapsed, large_commits: large_commits.into_inner(), counts: counts.into_inner() })
}

/// One row of the thread's own.
fn put(
    database: &Database,
    table: &Table,
    thread: u64,
    turn: u64,
    durability: Durability,
) -> Result<(), BenchError> {
    let key = (thread * KEYS_PER_THREAD + turn % KEYS_PER_THREAD).to_be_bytes();
    let value = [b'.'; VALUE_BYTES];
    database.with(durability).put(table, key, value).map(|_| ()).map_err(engine_error(ENGINE, "put"))
}

fn snapshots(cell: &Cell, database: &Database, table: &Table) -> Result<Timed, BenchError> {
    let committers: Vec<Work<'_>> = (0..cell.threads)
        .map(|thread| {
            let session = database.new_session();
            let work: Work<'_> = Box::new(move |stop, turns| {
                let mut turn = 0;
                while !stop.load(Ordering::Relaxed) {
                    put(&session, table, thread, turn, Durability::Async)?;
                    turn += 1;
                    turns.store(turn, Ordering::Relaxed);
                }
                Ok(())
            });
            work
        })
        .collect();
    let (latencies, elapsed) = run_threads(cell, 1, &committers, |_, _| {
        database.snapshot();
        Ok(())
    })?;
    Ok(Timed { latencies, elapsed, large_commits: 0, counts: 0 })
}

/// Times the commit alone, not the writes before it, beside threads that only hold their connection.
fn many_rows(cell: &Cell, database: &Database, table: &Table) -> Result<Timed, BenchError> {
    let mut random = Random::new(9);
    let mut value = [0; VALUE_BYTES];
    let mut transaction = database.begin();
    for row in 0..cell.rows {
        random.fill_value(&mut value);
        transaction.put(table, row.to_be_bytes(), value).map_err(engine_error(ENGINE, "put"))?;
    }
    let before = now();
    transaction.commit().map_err(engine_error(ENGINE, "commit"))?;
    let elapsed = now() - before;
    let mut latencies = Histogram::new();
    latencies.record(elapsed);
    Ok(Timed { latencies, elapsed, large_commits: 1, counts: 0 })
}

fn hot_row(cell: &Cell, database: &Database, table: &Table) -> Result<Timed, BenchError> {
    let options = TransactionOptions {
        isolation: Isolation::ReadCommitted,
        durability: Durability::Sync,
        lock_wait: LockWait::Timeout(Duration::from_secs(10)),
        ..TransactionOptions::default()
    };
    let (latencies, elapsed) = run_threads(cell, cell.hot_threads, &[], |_, _| {
        let mut transaction = database.with(options).begin();
        transaction
            .update(table, b"hot", |count| {
                let count = count.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
                Some((count + 1).to_be_bytes())
            })
            .map_err(engine_error(ENGINE, "update"))?;
        transaction.commit().map(|_| ()).map_err(engine_error(ENGINE, "commit"))
    })?;
    let read = database.get(table, b"hot").map_err(engine_error(ENGINE, "get"))?;
    let count = read.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    if count != latencies.count() {
        let fact = format!("{} updates left the row at {count}", latencies.count());
        return Err(BenchError::Wrong { engine: ENGINE, fact });
    }
    Ok(Timed { latencies, elapsed, large_commits: 0, counts: 0 })
}
