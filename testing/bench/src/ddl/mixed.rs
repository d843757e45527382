//! Drops mixed with writes: one session drops a table and creates it again, over and over, beside seven that write rows. What is looked
//! for is memory that grows: of the writer, and of the replay of what a kill leaves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall::{Database, Options, Table};

use super::cell::{Cell, NAME};
use super::create::create_tables;
use super::figures::{Figures, Named, mebibytes};
use crate::error::{BenchError, engine_error};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::timed_run::sleep_unless_stopped;
use crate::usage::{Memory, now};

const WRITERS: u64 = 7;
/// Rows that are put again and again.
const ROWS: u64 = 1_000_000;
/// Every so many transactions, a writer puts many rows in one.
const SMALL_BETWEEN: u64 = 2_000;
const ROWS_OF_LARGE: u64 = 10_000;
const VALUE_BYTES: usize = 405;
const SECOND: Duration = Duration::from_secs(1);

fn open(cell: &Cell) -> Result<Database, BenchError> {
    let mut options = Options::default();
    options.memory.cache_bytes = cell.cache_mib << 20;
    Database::open(cell.directory.join("database"), options).map_err(engine_error(NAME, "open"))
}

/// What the sessions did.
#[derive(Default)]
struct Counts {
    dropped: AtomicU64,
    small: AtomicU64,
    large: AtomicU64,
}

pub(super) fn write(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("mixed");
    let database = open(cell)?;
    create_tables(cell, &database)?;
    let table = database.create_table("rows").map_err(engine_error(NAME, "create a table"))?;
    let (stop, counts) = (AtomicBool::new(false), Counts::default());
    let failure = Mutex::new(None);
    let note = |result: Result<(), seawall::Error>| {
        if let Err(error) = result {
            stop.store(true, Ordering::Relaxed);
            failure.lock().expect("nobody panics holding it").get_or_insert(error);
        }
    };
    let drops = Mutex::new(Histogram::new());
    let begun = now();
    let memory = std::thread::scope(|scope| {
        scope.spawn(|| note(drop_and_create(cell, &database, &counts, &drops, &stop)));
        for writer in 0..WRITERS {
            let (database, table, counts, stop, note) = (&database, &table, &counts, &stop, &note);
            scope.spawn(move || note(write_rows(writer, database, table, counts, stop)));
        }
        let mut memory = Vec::new();
        while !stop.load(Ordering::Relaxed) && begun.elapsed().as_secs_f64() < cell.seconds {
            sleep_unless_stopped(SECOND, &stop);
            memory.push(mebibytes(Memory::of_this_process().anonymous));
        }
        stop.store(true, Ordering::Relaxed);
        memory
    });
    if let Some(error) = failure.into_inner().expect("nobody panicked") {
        return Err(engine_error(NAME, "run a session")(error));
    }
    let elapsed = begun.elapsed();
    named.set_operations(&drops.into_inner().expect("nobody panicked"), elapsed);
    let each_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64();
    named.set("small_transactions_per_second", each_second(&counts.small));
    named.set("large_transactions_per_second", each_second(&counts.large));
    set_memory(&mut named, &memory);
    named.set("checkpoints", database.statistics().checkpoints.completed as f64);
    expect_tables(cell, &database)?;
    Ok((database, named.figures))
}

/// Of the anonymous memory each second: where it was and is, and how it grows in the last five sixths of the run.
fn set_memory(named: &mut Named, memory: &[f64]) {
    let later = &memory[memory.len() / 6..];
    named.set("memory_first_mib", later.first().copied().unwrap_or(0.0));
    named.set("memory_last_mib", later.last().copied().unwrap_or(0.0));
    named.set("memory_most_mib", memory.iter().copied().fold(0.0, f64::max));
    named.set("memory_grows_mib_per_minute", slope(later) * 60.0);
    let shown: Vec<String> = memory.iter().map(|mebibytes| format!("{mebibytes:.0}")).collect();
    eprintln!("anonymous memory each second, MiB: {}", shown.join(" "));
}

/// Of the straight line that is nearest to the values, for each step from one to the next.
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let places = || (0..values.len()).map(|place| place as f64 - middle);
    let squares: f64 = places().map(|place| place * place).sum();
    let products: f64 = places().zip(values).map(|(place, value)| place * (value - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

fn drop_and_create(
    cell: &Cell,
    database: &Database,
    counts: &Counts,
    drops: &Mutex<Histogram>,
    stop: &AtomicBool,
) -> Result<(), seawall::Error> {
    let (mut random, mut histogram) = (Random::new(cell.seed), Histogram::new());
    while !stop.load(Ordering::Relaxed) {
        let name = Cell::name(random.below(cell.table_count()));
        let begun = now();
        database.tables().drop(&name)?;
        histogram.record(begun.elapsed());
        database.create_table(&name)?;
        counts.dropped.fetch_add(1, Ordering::Relaxed);
    }
    drops.lock().expect("nobody panics holding it").merge(&histogram);
    Ok(())
}

fn write_rows(
    writer: u64,
    database: &Database,
    table: &Table,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<(), seawall::Error> {
    let mut random = Random::new(1000 + writer);
    let mut value = vec![0; VALUE_BYTES];
    // Rows of its own: no writer waits for another.
    let first = writer * (ROWS / WRITERS);
    let mut done = writer * (SMALL_BETWEEN / WRITERS);
    while !stop.load(Ordering::Relaxed) {
        done += 1;
        if !done.is_multiple_of(SMALL_BETWEEN) {
            random.fill_value(&mut value);
            let row = first + random.below(ROWS / WRITERS);
            database.put(table, row.to_be_bytes(), &value)?;
            counts.small.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let start = random.below(ROWS / WRITERS - ROWS_OF_LARGE);
        let mut transaction = database.begin();
        for row in start..start + ROWS_OF_LARGE {
            random.fill_value(&mut value);
            transaction.put(table, (first + row).to_be_bytes(), &value)?;
        }
        transaction.commit()?;
        counts.large.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

pub(super) fn replay(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("replay_mixed");
    let begun = now();
    let database = open(cell)?;
    named.set("open_seconds", begun.elapsed().as_secs_f64());
    named.set("memory_peak_mib", mebibytes(Memory::of_this_process().resident_peak));
    let recovery = database.statistics().recovery;
    named.set("seconds", recovery.duration.as_secs_f64());
    named.set("records", recovery.records as f64);
    named.set("log_mib", mebibytes(recovery.end_of_log.bytes_since(recovery.redo_point)));
    expect_tables(cell, &database)?;
    Ok((database, named.figures))
}

/// All tables but the one that was dropped last, perhaps, and that of the rows.
fn expect_tables(cell: &Cell, database: &Database) -> Result<(), BenchError> {
    let found = database.tables().list().map_err(engine_error(NAME, "list tables"))?.len() as u64;
    let expected = cell.table_count() + 1;
    if found == expected || found + 1 == expected {
        Ok(())
    } else {
        Err(Cell::wrong(format!("{found} tables where {expected} are expected")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_nearest_line() {
        let near = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
        assert!(near(slope(&[1.0, 3.0, 5.0, 7.0]), 2.0));
        assert!(near(slope(&[4.0, 6.0, 4.0, 6.0, 4.0]), 0.0));
        assert!(near(slope(&[]), 0.0) && near(slope(&[5.0]), 0.0));
    }
}
