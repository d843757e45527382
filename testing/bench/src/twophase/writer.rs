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

const TABLE: &str = "rows";
/// More than any run writes, so that no checkpoint comes between what is written and its replay.
const ROOM_BYTES: u64 = 4 << 30;
const LONGER_THAN_ANY_RUN: Duration = Duration::from_secs(24 * 3600);

/// Of the writer, and of the process that opens after it.
pub(super) fn options() -> Options {
    let mut options = Options::default();
    options.memory.memtable_bytes = ROOM_BYTES;
    options.checkpoint.log_bytes = 1 << 40;
    options.checkpoint.interval = LONGER_THAN_ANY_RUN;
    options.recovery.target = None;
    options
}

/// Writes, says so, and waits.
pub(crate) fn write_and_wait(run: &Run) -> Result<(), BenchError> {
    let database = Database::open(&run.directory, options()).map_err(engine_error(NAME, "open"))?;
    let table = fill(run, &database)?;
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
                    result.map(|()| client.histogram)
                })
            })
            .collect();
        start.wait();
        let (begin, cpu) = (now(), Usage::of_this_process());
        sleep_unless_stopped(Duration::from_secs_f64(run.seconds), &stop);
        stop.store(true, Ordering::Relaxed);
        let mut all = Histogram::new();
        for client in clients {
            all.merge(&client.join().expect("a client panicked")?);
        }
        let (elapsed, used) = (begin.elapsed(), Usage::of_this_process().since(&cpu));
        let after = database.statistics();
        Ok(Written {
            transactions: all.count(),
            seconds: elapsed.as_secs_f64(),
            log_bytes: after.log.bytes - before.log.bytes,
            flushes: after.log.flushes - before.log.flushes,
            cpu_seconds: used.cpu.as_secs_f64(),
            median_micros: all.quantile_micros(0.5),
            p99_micros: all.quantile_micros(0.99),
            slowest_micros: all.max_micros(),
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
    histogram: Histogram,
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
            histogram: Histogram::new(),
        }
    }

    fn work(&mut self, work: Work, stop: &AtomicBool) -> Result<(), BenchError> {
        let mut last = now();
        for count in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let key = self.keys.random_key(&mut self.random);
            self.random.fill_value(&mut self.value);
            let mut transaction = self.database.begin();
            transaction.put(self.table, key, &self.value).map_err(engine_error(NAME, "put"))?;
            match work {
                Work::Puts => drop(transaction.commit().map_err(engine_error(NAME, "commit"))?),
                Work::Pairs => {
                    let gid = format!("client-{:04}-{count:012}", self.number);
                    transaction.prepare(&gid).map_err(engine_error(NAME, "prepare"))?;
                    let committed = self.database.two_phase().commit(&gid);
                    committed.map_err(engine_error(NAME, "commit a prepared transaction"))?;
                }
            }
            let end = now();
            self.histogram.record(end - last);
            last = end;
        }
        Ok(())
    }
}
