//! Opening after `kill -9`, until the first row is read.
//!
//! ```text
//!   cell process --- starts ---> filling process: rows, flush, "ready", waits
//!        |<------- "ready" ------------|
//!        |-------- kill -9 ----------->x
//!        |-- open, first read: timed
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::prepared::size;
use super::{Cell, Measurement, Workload};
use crate::engine::{Durability, Engine, EngineKind, LogLimits, Settings};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::random::Shuffle;
use crate::rows::{Order, RowSource};
use crate::timed_run::Totals;
use crate::usage::{Memory, Usage, now};

const READY: &str = "ready";
const BATCH_ROWS: usize = 100;
/// Rows that are looked up after the recovery.
const CHECKED_ROWS: u64 = 1000;

pub(super) fn reopen(cell: &Cell) -> Result<Measurement, BenchError> {
    let opened = fill_kill_open(cell)?;
    let value = opened.totals.elapsed.as_secs_f64();
    Ok(opened.measurement(cell, value))
}

pub(super) fn recovery(cell: &Cell) -> Result<Measurement, BenchError> {
    if matches!(cell.engine, EngineKind::Lmdb | EngineKind::Redb) {
        return Err(BenchError::Unsupported {
            engine: cell.engine.name(),
            operation: "a log to recover from",
        });
    }
    let opened = fill_kill_open(cell)?;
    let value = opened.totals.rows_per_second();
    Ok(opened.measurement(cell, value))
}

struct Opened {
    totals: Totals,
    fill: Duration,
    directory_bytes: u64,
    page_reads: Option<u64>,
    configured_bytes: u64,
}

impl Opened {
    fn measurement(&self, cell: &Cell, value: f64) -> Measurement {
        let mut measurement = Measurement::new(cell, value, &self.totals, self.configured_bytes)
            .with("rows_written", self.totals.rows as f64)
            .with("fill_seconds", self.fill.as_secs_f64())
            .with("directory_mib", self.directory_bytes as f64 / f64::from(1 << 20));
        if let Some(pages) = self.page_reads {
            measurement = measurement.with("page_reads_while_opening", pages as f64);
        }
        measurement
    }
}

fn fill_kill_open(cell: &Cell) -> Result<Opened, BenchError> {
    let begin = now();
    fill_and_kill(cell)?;
    let fill = begin.elapsed();
    let directory_bytes = size(&cell.directory)?;
    let keys = cell.keys();
    let order = Shuffle::new(cell.rows, cell.seed);
    let filling = filling(cell)?;
    let written = filling.rows;
    Memory::reset_peak();
    let (begin, before) = (now(), Usage::of_this_process());
    let engine = cell.engine.open(&settings(cell, &filling))?;
    let page_reads = engine.page_reads();
    let first = engine.session()?.get(&keys.key(order.at(0)))?;
    let totals = Totals {
        elapsed: begin.elapsed(),
        operations: 1,
        rows: written,
        histogram: Histogram::new(),
        usage: Usage::of_this_process().since(&before),
    };
    if first.is_none() {
        return Err(cell.wrong("the first row is not there after the recovery"));
    }
    check_rows(cell, engine.as_ref(), written.min(cell.rows))?;
    let configured_bytes = engine.configured_bytes();
    // Not closed: that may move a gigabyte of log into place, and nobody asks how long it takes.
    std::mem::forget(engine);
    Ok(Opened { totals, fill, directory_bytes, page_reads, configured_bytes })
}

/// Rows all over what was written, the last one among them, are there.
fn check_rows(cell: &Cell, engine: &dyn Engine, distinct: u64) -> Result<(), BenchError> {
    let (keys, order) = (cell.keys(), Shuffle::new(cell.rows, cell.seed));
    let mut session = engine.session()?;
    let step = (distinct / CHECKED_ROWS).max(1);
    for back in (0..distinct).step_by(usize::try_from(step).expect("a step fits the address space")) {
        let position = distinct - 1 - back;
        if session.get(&keys.key(order.at(position)))?.is_none() {
            return Err(cell.wrong(format!("row {position} of {distinct} is not there after the recovery")));
        }
    }
    Ok(())
}

fn settings(cell: &Cell, filling: &Filling) -> Settings {
    let log_room_bytes = match filling.limits {
        LogLimits::Default => None,
        LogLimits::Raised => Some(filling.written_bytes),
    };
    Settings { log_room_bytes, ..cell.settings(Durability::Buffered) }
}

/// What the filling process writes, and how.
struct Filling {
    rows: u64,
    written_bytes: u64,
    limits: LogLimits,
    batch_rows: usize,
}

fn filling(cell: &Cell) -> Result<Filling, BenchError> {
    let (written_bytes, limits, batch_rows) = match cell.workload {
        Workload::Reopen { written_bytes, limits } => (written_bytes, limits, BATCH_ROWS),
        Workload::Recovery { written_bytes } => (written_bytes, LogLimits::Raised, 1),
        other => return Err(BenchError::Process(format!("{} has nothing to fill", other.label()))),
    };
    let rows = (written_bytes / (8 + cell.value_bytes as u64)).max(1);
    Ok(Filling { rows, written_bytes, limits, batch_rows })
}

fn fill_and_kill(cell: &Cell) -> Result<(), BenchError> {
    let failed = |what: &str, error: std::io::Error| BenchError::Process(format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
    let mut filler = Command::new(program)
        .arg("fill")
        .arg(serde_json::to_string(cell)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("start the filling process", error))?;
    let answer = first_line(&mut filler);
    // SIGKILL: no destructor runs, no buffer of the process is written.
    filler.kill().map_err(|error| failed("kill the filling process", error))?;
    filler.wait().map_err(|error| failed("wait for the filling process", error))?;
    let answer = answer?;
    if answer.trim_end() != READY {
        return Err(BenchError::Process(format!("the filling process said {answer:?}")));
    }
    Ok(())
}

fn first_line(filler: &mut Child) -> Result<String, BenchError> {
    let stdout = filler.stdout.take().ok_or_else(|| BenchError::Process("it has no output".into()))?;
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .map_err(|error| BenchError::Process(format!("read from the filling process: {error}")))?;
    Ok(line)
}

/// The filling process: writes, says so, and waits to be killed.
pub(crate) fn fill(cell: &Cell) -> Result<(), BenchError> {
    let filling = filling(cell)?;
    let engine = cell.engine.open(&settings(cell, &filling))?;
    write_rows(cell, engine.as_ref(), filling.rows, filling.batch_rows)?;
    engine.flush()?;
    let failed = |error: std::io::Error| BenchError::Process(format!("tell the cell: {error}"));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}").and_then(|()| stdout.flush()).map_err(failed)?;
    // Ends only if the cell's process is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(failed)?;
    Ok(())
}

fn write_rows(cell: &Cell, engine: &dyn Engine, rows: u64, batch_rows: usize) -> Result<(), BenchError> {
    let mut session = engine.session()?;
    let mut left = usize::try_from(rows).expect("rows fit the address space");
    let mut round = 0;
    while left > 0 {
        // The order is the same in each round, the values are not.
        let mut rows = RowSource::new(cell.keys(), cell.value_bytes, Order::Random, cell.seed);
        rows.reseed_values(cell.seed + round);
        round += 1;
        while left > 0 {
            let batch = rows.next_batch(batch_rows.min(left));
            match batch.as_slice() {
                [] => break,
                [row] => session.put(&row.key, &row.value)?,
                batch => session.put_batch(batch)?,
            }
            left -= batch.len();
        }
    }
    Ok(())
}
