//! Point reads during a checkpoint, beside the same reads without one.
//!
//! ```text
//!   main     | write rows |   wait    | checkpoint ... | write rows |   wait    | checkpoint ...
//!   readers  |  ignored   |  without  |     during     |  ignored   |  without  |     during
//! ```
//! In both measured parts nobody writes, and the rows read lie in the same memtables and pages: what differs is the
//! checkpoint alone. Operations that lie in two parts count for neither.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use seawall::{Database, Table};

use super::cell::Cell;
use super::figures::Figures;
use super::load::{Keys, NAME, Operation, Writer};
use super::watch::{Watched, watched};
use crate::engine::digest;
use crate::error::{BenchError, engine_error};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::usage::now;

const IGNORED: u8 = 0;
const WITHOUT: u8 = 1;
const DURING: u8 = 2;
/// So that no single checkpoint decides.
const ROUNDS_MIN: u32 = 3;
const WITHOUT_MIN: Duration = Duration::from_secs(1);
/// Rounds go on until checkpoints have taken all the seconds asked for, and no longer than this many times that.
const SHARE_OF_CHECKPOINTS_MIN: u32 = 20;

/// Latencies of the two measured parts.
struct Latencies {
    without: Histogram,
    during: Histogram,
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { without: Histogram::new(), during: Histogram::new() }
    }

    fn merge(&mut self, other: &Latencies) {
        self.without.merge(&other.without);
        self.during.merge(&other.during);
    }
}

/// What readers and the main thread share: which part it is, and whether it is over.
#[derive(Default)]
struct Parts {
    part: AtomicU8,
    over: AtomicBool,
}

pub(super) fn measure(cell: &Cell) -> Result<Figures, BenchError> {
    let database = cell.open()?;
    let table = cell.preload(&database)?;
    let parts = Parts::default();
    let (latencies, seen) = watched(&database, || {
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..cell.load.threads)
                .map(|thread| {
                    let (database, table, parts) = (&database, &table, &parts);
                    scope.spawn(move || read(cell, database, table, parts, thread))
                })
                .collect();
            let rounds = rounds(cell, &database, &table, &parts);
            parts.over.store(true, Ordering::SeqCst);
            let mut latencies = Latencies::new();
            for reader in readers {
                latencies.merge(&reader.join().expect("a reader panicked")?);
            }
            rounds.map(|rounds| (latencies, rounds))
        })
    });
    let (latencies, rounds) = latencies?;
    database.close().map_err(engine_error(NAME, "close"))?;
    Ok(figures(&latencies, rounds, &seen))
}

fn read(
    cell: &Cell,
    database: &Database,
    table: &Table,
    parts: &Parts,
    thread: usize,
) -> Result<Latencies, BenchError> {
    let (keys, mut random) = (cell.keys(), Random::new(cell.thread_seed(thread)));
    let mut latencies = Latencies::new();
    let (mut begin, mut part) = (now(), parts.part.load(Ordering::SeqCst));
    while !parts.over.load(Ordering::Relaxed) {
        let key = keys.random_key(&mut random);
        let value =
            database.get_with(table, key, |value| value.map(digest)).map_err(engine_error(NAME, "get"))?;
        let (end, part_now) = (now(), parts.part.load(Ordering::SeqCst));
        if value.is_none() {
            return Err(cell.wrong("a row that is there was not found"));
        }
        match (part, part_now) {
            (WITHOUT, WITHOUT) => latencies.without.record(end - begin),
            (DURING, DURING) => latencies.during.record(end - begin),
            _ => {}
        }
        (begin, part) = (end, part_now);
    }
    Ok(latencies)
}

/// Rounds of writing, waiting and a checkpoint; returns how many.
fn rounds(cell: &Cell, database: &Database, table: &Table, parts: &Parts) -> Result<u64, BenchError> {
    let wanted = Duration::from_secs_f64(cell.seconds);
    let load = super::load::Load { operation: Operation::Batch, threads: 1, ..cell.load };
    let keys = Keys::overwrite(cell.keys(), cell.value_bytes, cell.thread_seed(cell.load.threads));
    let mut writer = Writer::new(database, table, load, keys);
    let (begin, mut in_checkpoints, mut rounds) = (now(), Duration::ZERO, 0);
    while rounds < ROUNDS_MIN
        || (in_checkpoints < wanted && begin.elapsed() < wanted * SHARE_OF_CHECKPOINTS_MIN)
    {
        for _ in 0..cell.rows.div_ceil(load.rows_per_operation()) {
            writer.write()?;
        }
        database.flush().map(drop).map_err(engine_error(NAME, "flush"))?;
        // As long without as the checkpoints so far took.
        let last = if rounds == 0 { WITHOUT_MIN } else { (in_checkpoints / rounds).max(WITHOUT_MIN) };
        enter(parts, WITHOUT);
        std::thread::sleep(last);
        enter(parts, DURING);
        let checkpoint_begin: Instant = now();
        let result = database.checkpoint();
        enter(parts, IGNORED);
        in_checkpoints += checkpoint_begin.elapsed();
        result.map(drop).map_err(engine_error(NAME, "checkpoint"))?;
        rounds += 1;
    }
    Ok(u64::from(rounds))
}

fn enter(parts: &Parts, part: u8) {
    parts.part.store(part, Ordering::SeqCst);
}

fn figures(latencies: &Latencies, rounds: u64, seen: &Watched) -> Figures {
    let mut figures = seen.figures();
    figures.insert("rounds".into(), rounds as f64);
    for (part, histogram) in [("without", &latencies.without), ("during", &latencies.during)] {
        for (name, micros) in [
            ("p50", histogram.quantile_micros(0.5)),
            ("p99", histogram.quantile_micros(0.99)),
            ("p99_9", histogram.quantile_micros(0.999)),
            ("max", histogram.max_micros()),
        ] {
            figures.insert(format!("reads_{part}_checkpoint_{name}_us"), micros);
        }
        figures.insert(format!("reads_{part}_checkpoint"), histogram.count() as f64);
    }
    let ratio = latencies.during.quantile_micros(0.999) / latencies.without.quantile_micros(0.999);
    if ratio.is_finite() {
        figures.insert("reads_p99_9_during_to_without".into(), ratio);
    }
    figures
}
