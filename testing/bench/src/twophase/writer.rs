//! The writing process: clients, each with a thread of its own, until the time is over; then it says what they did and waits
//! to be killed.

use std::io::{Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall::{Database, Options, Table};

use super::{NAME, Run, Work, Written};
use crate::error::{BenchError, engine_error};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::rows::KeySpace;
use crate::timed_run::sleep_unless_stopped;
use crate::usage::{Usage, now};

pub(super) const TABLE: &str = "rows";
/// More than any run writes, so that no checkpoint comes between what is written and its replay.
const ROOM_BYTES: u64 = 4 << 30;
const LONGER_THAN_ANY_RUN: Duration = Duration::from_secs(24 * 3600);

/// Of the writer, and of the process that opens after it.
pub(super) fn options(run: &Run) -> Options {
    let mut options = Options::default();
    options.memory.memtable_bytes = ROOM_BYTES;
    options.checkpoint.log_bytes = 1 << 40;
    options.checkpoint.interval = match run.checkpoint_interval {
        seconds if seconds > 0.0 => Duration::from_secs_f64(seconds),
        _ => LONGER_THAN_ANY_RUN,
    };
    options.recovery.target = None;
    options
}

/// Writes, says so, and waits.
pub(crate) fn write_and_wait(run: &Run) -> Result<(), BenchError> {
    let database = Database::open(&run.directory, options(run)).map_err(engine_error(NAME, "open"))?;
    let table = fill(run, &database)?;
    prepare_in_doubt(run, &database)?;
    let written = write(run, &database, &table)?;
    let failed = |error: std::io::Error| BenchError::Process(format!("tell what was written: {error}"));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", serde_json::to_string(&written)?).and_then(|()| stdout.flush()).map_err(failed)?;
    // Ends only if the process that waits is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(failed)?;
    Ok(())
}

/// All rows, in the tree.
fn fill(run: &Run, database: &Database) -> Result<Table, BenchError> {
    let table = database.create_table(TABLE).map_err(engine_error(NAME, "create the table"))?;
    let keys = KeySpace::new(run.rows);
    let mut value = vec![0; value_bytes(run)];
    let mut random = Random::new(run.seed);
    let mut next = 0;
    while next < run.rows {
        let end = run.rows.min(next + 1000);
        let mut transaction = database.begin();
        for number in next..end {
            random.fill_value(&mut value);
            transaction.put(&table, keys.key(number), &value).map_err(engine_error(NAME, "put"))?;
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))?;
        next = end;
    }
    database.checkpoint().map_err(engine_error(NAME, "checkpoint"))?;
    Ok(table)
}

/// Those that stay in doubt, in rows of a table of their own.
fn prepare_in_doubt(run: &Run, database: &Database) -> Result<(), BenchError> {
    if run.in_doubt == 0 {
        return Ok(());
    }
    let mut value = vec![0; value_bytes(run)];
    let mut random = Random::new(run.seed);
    let table = database.create_table("in doubt").map_err(engine_error(NAME, "create a table"))?;
    for number in 0..run.in_doubt {
        let mut transaction = database.begin();
        for row in 0..run.rows_each {
            random.fill_value(&mut value);
            let key = (number * run.rows_each + row).to_be_bytes();
            transaction.put(&table, key, &value).map_err(engine_error(NAME, "put"))?;
        }
        let prepared = transaction.prepare_async(&format!("old-{number:08}"));
        prepared.map_err(engine_error(NAME, "prepare"))?;
    }
    database.flush().map(drop).map_err(engine_error(NAME, "flush"))
}

fn value_bytes(run: &Run) -> usize {
    usize::try_from(run.value_bytes).expect("a value fits into memory")
}

fn write(run: &Run, database: &Database, table: &Table) -> Result<Written, BenchError> {
    let (stop, start) = (AtomicBool::new(false), Barrier::new(run.clients + 1));
    let before = database.statistics();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..run.clients)
            .map(|number| {
                let (stop, start) = (&stop, &start);
                scope.spawn(move || {
                    let mut client = Client::new(run, database, table, number);
                    start.wait();
                    let result = client.work(run.work, stop);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result.map(|()| (client.all, client.prepares, client.decisions))
                })
            })
            .collect();
        start.wait();
        let (begin, cpu) = (now(), Usage::of_this_process());
        sleep_unless_stopped(Duration::from_secs_f64(run.seconds), &stop);
        stop.store(true, Ordering::Relaxed);
        let [mut all, mut prepares, mut decisions] = [(); 3].map(|()| Histogram::new());
        for client in clients {
            let (whole, first, second) = client.join().expect("a client panicked")?;
            all.merge(&whole);
            prepares.merge(&first);
            decisions.merge(&second);
        }
        let (elapsed, used) = (begin.elapsed(), Usage::of_this_process().since(&cpu));
        let after = database.statistics();
        let info = database.info().map_err(engine_error(NAME, "tell of the database"))?;
        let freezes = info.recent_checkpoints.iter().map(|done| done.durations.freeze);
        Ok(Written {
            transactions: all.count(),
            seconds: elapsed.as_secs_f64(),
            log_bytes: after.log.bytes - before.log.bytes,
            flushes: after.log.flushes - before.log.flushes,
            cpu_seconds: used.cpu.as_secs_f64(),
            median_micros: all.quantile_micros(0.5),
            p99_micros: all.quantile_micros(0.99),
            p99_9_micros: all.quantile_micros(0.999),
            slowest_micros: all.max_micros(),
            slowest_prepare_micros: prepares.max_micros(),
            slowest_decision_micros: decisions.max_micros(),
            checkpoints: after.checkpoints.completed - before.checkpoints.completed,
            longest_freeze_micros: freezes.max().unwrap_or_default().as_secs_f64() * 1e6,
        })
    })
}

struct Client<'run> {
    database: &'run Database,
    table: &'run Table,
    keys: KeySpace,
    random: Random,
    value: Vec<u8>,
    number: usize,
    /// Its own rows, if others must not meet them: each `clients`-th.
    own_rows: Option<(u64, u64)>,
    hold: Duration,
    /// Latencies: of whole transactions without what they were held for, of prepares, of decisions.
    all: Histogram,
    prepares: Histogram,
    decisions: Histogram,
}

impl<'run> Client<'run> {
    fn new(run: &Run, database: &'run Database, table: &'run Table, number: usize) -> Client<'run> {
        let seed = run.seed ^ (u64::try_from(number).expect("a count of threads") + 1) << 32;
        Client {
            database,
            table,
            keys: KeySpace::new(run.rows),
            random: Random::new(seed),
            value: vec![0; value_bytes(run)],
            number,
            own_rows: run.keeps_rows().then(|| (count(run.clients), run.rows / count(run.clients))),
            hold: match run.work {
                Work::Puts => Duration::ZERO,
                Work::Pairs => Duration::from_millis(run.hold_ms[number % run.hold_ms.len()]),
            },
            all: Histogram::new(),
            prepares: Histogram::new(),
            decisions: Histogram::new(),
        }
    }

    fn work(&mut self, work: Work, stop: &AtomicBool) -> Result<(), BenchError> {
        let mut begun = now();
        for count in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let key = self.next_key();
            self.random.fill_value(&mut self.value);
            let mut transaction = self.database.begin();
            transaction.put(self.table, key, &self.value).map_err(engine_error(NAME, "put"))?;
            match work {
                Work::Puts => drop(transaction.commit().map_err(engine_error(NAME, "commit"))?),
                Work::Pairs => {
                    let gid = format!("client-{:04}-{count:012}", self.number);
                    transaction.prepare(&gid).map_err(engine_error(NAME, "prepare"))?;
                    let prepared = now();
                    self.prepares.record(prepared - begun);
                    sleep_unless_stopped(self.hold, stop);
                    let decided = now();
                    let committed = self.database.two_phase().commit(&gid);
                    committed.map_err(engine_error(NAME, "commit a prepared transaction"))?;
                    self.decisions.record(decided.elapsed());
                    begun += decided - prepared;
                }
            }
            let end = now();
            self.all.record(end - begun);
            begun = end;
        }
        Ok(())
    }

    fn next_key(&mut self) -> [u8; 8] {
        match self.own_rows {
            Some((clients, rows)) => {
                self.keys.key(self.random.below(rows.max(1)) * clients + count(self.number))
            }
            None => self.keys.random_key(&mut self.random),
        }
    }
}

fn count(clients: usize) -> u64 {
    u64::try_from(clients).expect("a count of threads")
}
