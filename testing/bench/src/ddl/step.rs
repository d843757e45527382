//! The steps of a cell, each in a process of its own.
//!
//! A step ends without closing the database, so that the next one finds what a kill leaves. Each step's figures are named
//! for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall::Database;
use serde::{Deserialize, Serialize};

use super::arguments::{Load, Verb};
use super::cell::{Cell, Checkpoints, NAME};
use super::create::create_tables;
use super::figures::{Figures, Named, mebibytes};
use super::mixed;
use crate::error::{BenchError, engine_error};
use crate::histogram::Histogram;
use crate::random::Shuffle;
use crate::usage::{Memory, Usage, now};

/// What is done to the cell's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Durable puts of one row, as many as there are tables to drop, in a database of their own.
    Puts,
    Create,
    ReplayCreates,
    Drop,
    ReplayDrops,
    Reclaim,
    /// Drops and creates beside writers.
    Mixed,
    ReplayMixed,
}

/// One step of a cell, as its process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(super) kind: Kind,
    pub(super) cell: Cell,
}

/// Puts to which drops are compared, at least: one drop of a large table says nothing about a rate.
const PUTS_MIN: u64 = 1000;

/// Runs one step in this process; its figures.
pub(crate) fn run(step: &Step) -> Result<Figures, BenchError> {
    let cell = &step.cell;
    let (database, figures) = match step.kind {
        Kind::Puts => puts(cell)?,
        Kind::Create => create(cell)?,
        Kind::ReplayCreates => replay(cell, "replay_creates", cell.table_count())?,
        Kind::Drop => drop_all(cell)?,
        Kind::ReplayDrops => replay(cell, "replay_drops", cell.tables_left())?,
        Kind::Reclaim => reclaim(cell)?,
        Kind::Mixed => mixed::write(cell)?,
        Kind::ReplayMixed => mixed::replay(cell)?,
    };
    // Not closed: the next step is to find the log as it is.
    std::mem::forget(database);
    Ok(figures)
}

/// Has `operation` done once for each number below `count`, by all sessions of the cell; how long each took.
fn by_sessions(
    cell: &Cell,
    count: u64,
    operation: impl Fn(u64) -> Result<(), seawall::Error> + Sync,
) -> Result<(Histogram, Duration), BenchError> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut histogram = Histogram::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(histogram);
            }
            let begin = now();
            operation(number)?;
            histogram.record(begin.elapsed());
        }
    };
    let begin = now();
    let results: Vec<Result<Histogram, seawall::Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cell.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a session does not panic")).collect()
    });
    let elapsed = begin.elapsed();
    let mut all = Histogram::new();
    for result in results {
        all.merge(&result.map_err(engine_error(NAME, "run a session"))?);
    }
    Ok((all, elapsed))
}

fn puts(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("puts");
    let database = cell.open_at("puts", Checkpoints::OnRequest)?;
    named.set("memory_of_empty_mib", mebibytes(Memory::of_this_process().resident_peak));
    let table = database.create_table("rows").map_err(engine_error(NAME, "create a table"))?;
    let value = Cell::value();
    let count = cell.table_count().max(PUTS_MIN);
    let (histogram, elapsed) =
        by_sessions(cell, count, |number| database.put(&table, number.to_be_bytes(), &value).map(drop))?;
    named.set_operations(&histogram, elapsed);
    Ok((database, named.figures))
}

fn create(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("create");
    // What is loaded need not fit into memory; what is not loaded stays in the log, to be replayed.
    let checkpoints = if cell.load == Load::Empty { Checkpoints::OnRequest } else { Checkpoints::ByLimits };
    let database = cell.open(checkpoints)?;
    let (log_before, cpu_before) = (database.statistics().log.bytes, Usage::of_this_process());
    let begin = now();
    match cell.load {
        Load::Empty | Load::Rows | Load::Mixed => create_tables(cell, &database)?,
        Load::Large => load_large(cell, &database)?,
    }
    database.flush().map_err(engine_error(NAME, "flush"))?;
    let elapsed = begin.elapsed();
    let count = cell.table_count() as f64;
    named.set("per_second", count / elapsed.as_secs_f64());
    named.set("seconds", elapsed.as_secs_f64());
    named.set("log_bytes_each", (database.statistics().log.bytes - log_before) as f64 / count);
    let usage = Usage::of_this_process().since(&cpu_before);
    named.set("cpu_us_each", usage.cpu.as_secs_f64() * 1e6 / count);
    expect_tables(&database, cell.table_count())?;
    Ok((database, named.figures))
}

fn load_large(cell: &Cell, database: &Database) -> Result<(), BenchError> {
    let mut load =
        database.tables().bulk_load(&Cell::name(0)).map_err(engine_error(NAME, "begin a bulk load"))?;
    let value = Cell::value();
    for row in 0..cell.rows_of_a_table() {
        load.add(row.to_be_bytes(), &value).map_err(engine_error(NAME, "add a row to a bulk load"))?;
    }
    load.finish().map(drop).map_err(engine_error(NAME, "finish a bulk load"))
}

fn drop_all(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("drop");
    // Closed first: from then on the log holds drops only, and no checkpoint is under way.
    cell.open(Checkpoints::OnRequestOnly)?.close().map_err(engine_error(NAME, "close"))?;
    let database = cell.open(Checkpoints::OnRequest)?;
    fill_cache(cell, &database)?;
    let count = cell.table_count();
    let order = Shuffle::new(count, cell.seed);
    let (before, cpu_before) = (database.statistics(), Usage::of_this_process());
    named.set("memory_before_mib", mebibytes(Memory::of_this_process().anonymous));
    let each = cell.per_transaction.clamp(1, count);
    let (histogram, elapsed) = by_sessions(cell, count.div_ceil(each), |number| {
        let mut transaction = database.begin();
        for place in number * each..count.min((number + 1) * each) {
            let name = Cell::name(order.at(place));
            match cell.verb {
                Verb::Drop => transaction.drop_table(&name)?,
                Verb::Truncate => transaction.truncate_table(&name)?,
            }
        }
        transaction.commit().map(drop)
    })?;
    let usage = Usage::of_this_process().since(&cpu_before);
    named.set("memory_after_mib", mebibytes(Memory::of_this_process().anonymous));
    named.set_operations(&histogram, elapsed);
    named.set("tables_per_second", count as f64 / elapsed.as_secs_f64());
    let after = database.statistics();
    named.set("log_bytes_each", (after.log.bytes - before.log.bytes) as f64 / count as f64);
    named.set("flushes", (after.log.flushes - before.log.flushes) as f64);
    named.set("cpu_us_each", usage.cpu.as_secs_f64() * 1e6 / count as f64);
    expect_tables(&database, cell.tables_left())?;
    Ok((database, named.figures))
}

/// Reads rows of every table, so that what is dropped is in the cache, as far as it has room.
fn fill_cache(cell: &Cell, database: &Database) -> Result<(), BenchError> {
    let snapshot = database.snapshot();
    for number in 0..cell.table_count() {
        let table = snapshot.table(&Cell::name(number)).map_err(engine_error(NAME, "open a table"))?;
        let mut rows = snapshot.rows(&table);
        let mut found = 0;
        while rows.next_row().map_err(engine_error(NAME, "scan"))?.is_some() {
            found += 1;
        }
        if found != cell.rows_of_a_table() {
            return Err(Cell::wrong(format!("{} has {found} rows", Cell::name(number))));
        }
    }
    Ok(())
}

fn replay(cell: &Cell, name: &'static str, tables: u64) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new(name);
    let begin = now();
    let database = cell.open(Checkpoints::OnRequestOnly)?;
    named.set("open_seconds", begin.elapsed().as_secs_f64());
    let memory = Memory::of_this_process();
    named.set("memory_peak_mib", mebibytes(memory.resident_peak));
    named.set("memory_after_mib", mebibytes(memory.anonymous));
    let recovery = database.statistics().recovery;
    named.set("seconds", recovery.duration.as_secs_f64());
    named.set("records", recovery.records as f64);
    named.set("rows", recovery.rows as f64);
    named.set("pages_read", recovery.pages_read as f64);
    named.set("log_mib", mebibytes(recovery.end_of_log.bytes_since(recovery.redo_point)));
    expect_tables(&database, tables)?;
    Ok((database, named.figures))
}

fn reclaim(cell: &Cell) -> Result<(Database, Figures), BenchError> {
    let mut named = Named::new("reclaim");
    let memory_before = Memory::of_this_process().resident_peak;
    let database = cell.open(Checkpoints::OnRequestOnly)?;
    let begin = now();
    database.checkpoint().map_err(engine_error(NAME, "checkpoint"))?;
    named.set("seconds", begin.elapsed().as_secs_f64());
    named.set("memory_mib", mebibytes(Memory::of_this_process().resident_peak - memory_before));
    let statistics = database.statistics();
    named.set("pages_read", statistics.cache.pages_read as f64);
    named.set("freed_mib", mebibytes(statistics.reclaim.freed_bytes));
    named.set("punched_mib", mebibytes(statistics.reclaim.punched_bytes));
    let checkpoints = database.info().map_err(engine_error(NAME, "tell of the database"))?.recent_checkpoints;
    named.set("chunks", checkpoints.iter().map(|done| done.chunks as f64).sum());
    let publish = checkpoints.iter().map(|done| done.durations.publish_max).max().unwrap_or_default();
    named.set("longest_publish_ms", publish.as_secs_f64() * 1e3);
    if (statistics.reclaim.tables, statistics.reclaim.waiting) != (cell.table_count(), Some(0)) {
        return Err(Cell::wrong(format!("of the tables' space: {:?}", statistics.reclaim)));
    }
    // The rows that list what is to be reclaimed go with the next one.
    database.checkpoint().map_err(engine_error(NAME, "checkpoint"))?;
    let mut damages = Vec::new();
    let summary = database.check(&mut |damage| damages.push(damage.to_string()));
    let summary = summary.map_err(engine_error(NAME, "check"))?;
    if let Some(damage) = damages.first() {
        return Err(Cell::wrong(format!("{} damages, {damage} among them", damages.len())));
    }
    // Of the catalog, two for each table that is left.
    if summary.rows > 2 * cell.tables_left() {
        return Err(Cell::wrong(format!(
            "{} rows are left when all of the tables' rows are gone",
            summary.rows
        )));
    }
    Ok((database, named.figures))
}

fn expect_tables(database: &Database, expected: u64) -> Result<(), BenchError> {
    let found = database.tables().list().map_err(engine_error(NAME, "list tables"))?.len();
    if found as u64 == expected {
        Ok(())
    } else {
        Err(Cell::wrong(format!("{found} tables where {expected} are expected")))
    }
}
