//! Writers at full speed, at a fixed rate, or with unique keys under a memory limit.

use std::time::Duration;

use seawall::{Database, Options, Table};

use super::carrier::{archives, carried, with_standby};
use super::cell::{Cell, Kind, TABLE};
use super::figures::Figures;
use super::load::{Keys, NAME, Writer};
use super::series;
use super::watch::{Watched, watched};
use crate::error::{BenchError, engine_error};
use crate::recorder::{Recorded, Span, run};
use crate::timeline::{Evenness, evenness};
use crate::usage::{Memory, device_written};
use crate::workload::per;

const MEBIBYTE: f64 = 1_048_576.0;

pub(super) fn measure(cell: &Cell) -> Result<Figures, BenchError> {
    let options = Options { archives: archives(cell)?, ..cell.options()? };
    let database =
        Database::open(cell.database_directory(), options.clone()).map_err(engine_error(NAME, "open"))?;
    let (created, rows_before) = match cell.kind {
        Kind::Extreme => (database.create_table(TABLE).map_err(engine_error(NAME, "create the table"))?, 0),
        Kind::Overwrite | Kind::Readers | Kind::Kill | Kind::RecoveryTarget => {
            (cell.preload(&database)?, cell.rows)
        }
    };
    drop(created);
    let (database, standby) = with_standby(cell, database, &options)?;
    let table = database.table(TABLE).map_err(engine_error(NAME, "open the table"))?;
    // Unique keys must not come twice, so those tests start cold.
    if cell.kind == Kind::Overwrite && cell.warm_up > 0.0 {
        let span = Span { duration: Duration::from_secs_f64(cell.warm_up), operations_per_second: None };
        write(cell, &database, &table, span, 1)?;
    }
    Memory::reset_peak();
    let span = Span {
        duration: Duration::from_secs_f64(cell.seconds),
        operations_per_second: cell.operations_per_second,
    };
    let device_before = device_written(&cell.directory);
    let ((recorded, seen), carriers) = carried(&database, standby.as_ref(), || {
        let (recorded, seen) = watched(&database, || write(cell, &database, &table, span, 0));
        Ok((recorded?, seen))
    })?;
    let device_bytes =
        device_before.zip(device_written(&cell.directory)).map(|(before, after)| after - before);
    let mut figures = figures(cell, &recorded, &seen, device_bytes)?;
    figures.extend(carriers);
    let expected = match cell.kind {
        Kind::Extreme => rows_before + recorded.operations() * cell.load.rows_per_operation(),
        Kind::Overwrite | Kind::Readers | Kind::Kill | Kind::RecoveryTarget => rows_before,
    };
    check_rows(cell, &database, &table, expected)?;
    if let Some(standby) = standby {
        standby.close().map_err(engine_error(NAME, "close the standby"))?;
    }
    database.close().map_err(engine_error(NAME, "close"))?;
    Ok(figures)
}

fn write(
    cell: &Cell,
    database: &Database,
    table: &Table,
    span: Span,
    phase: u64,
) -> Result<Recorded, BenchError> {
    run(cell.load.threads, span, |thread, recorder| {
        let seed = cell.thread_seed(thread) ^ (phase << 32);
        let keys = match cell.kind {
            Kind::Extreme => Keys::unique(thread, cell.load.threads, cell.value_bytes, seed),
            Kind::Overwrite | Kind::Readers | Kind::Kill | Kind::RecoveryTarget => {
                Keys::overwrite(cell.keys(), cell.value_bytes, seed)
            }
        };
        let mut writer = Writer::new(database, table, cell.load, keys);
        while recorder.turn() {
            writer.write()?;
            recorder.done();
        }
        Ok(())
    })
}

fn figures(
    cell: &Cell,
    recorded: &Recorded,
    seen: &Watched,
    device_bytes: Option<u64>,
) -> Result<Figures, BenchError> {
    let rows_each = cell.load.rows_per_operation();
    let rows = recorded.operations() * rows_each;
    let log_bytes = seen.log_bytes() as f64;
    let seconds = recorded.elapsed.as_secs_f64();
    let intervals = recorded.timeline.intervals(recorded.elapsed);
    if let Some(path) = &cell.series {
        series::write(path, &intervals, rows_each)?;
    }
    let even = evenness(&intervals);
    let latency = &recorded.histogram;
    let mut figures = seen.figures();
    let named = [
        ("rows_per_second", recorded.operations_per_second() * rows_each as f64),
        ("operations", recorded.operations() as f64),
        ("window_seconds", seconds),
        ("latency_mean_us", latency.mean_micros()),
        ("latency_p50_us", latency.quantile_micros(0.5)),
        ("latency_p99_us", latency.quantile_micros(0.99)),
        ("latency_p99_9_us", latency.quantile_micros(0.999)),
        ("latency_max_us", latency.max_micros()),
        ("log_mib", log_bytes / MEBIBYTE),
        ("log_bytes_per_row", per(log_bytes, rows)),
        ("longest_gap_ms", recorded.timeline.longest_gap(recorded.elapsed).as_secs_f64() * 1000.0),
        ("own_cpu_cores", recorded.usage.cpu.as_secs_f64() / seconds),
        ("other_cpu_cores", recorded.other_cpu.as_secs_f64() / seconds),
        ("resident_peak_mib", Memory::of_this_process().resident_peak as f64 / MEBIBYTE),
        ("configured_mib", (cell.cache_bytes + cell.memtable_bytes) as f64 / MEBIBYTE),
    ];
    figures.extend(named.map(|(name, value)| (name.to_owned(), value)));
    if let Some(bytes) = device_bytes {
        figures.insert("device_written_mib".into(), bytes as f64 / MEBIBYTE);
        figures.insert("device_written_bytes_per_row".into(), per(bytes as f64, rows));
    }
    figures.extend(interval_figures(&even, intervals.len(), rows_each));
    if let Some(rate) = cell.operations_per_second {
        figures.insert("wanted_rows_per_second".into(), rate * rows_each as f64);
    }
    Ok(figures)
}

fn interval_figures(even: &Evenness, count: usize, rows_each: u64) -> Figures {
    [
        ("intervals", count as f64),
        ("interval_median_rows", (even.median * rows_each) as f64),
        ("interval_least_rows", (even.least * rows_each) as f64),
        ("intervals_at_zero", even.at_zero as f64),
        ("intervals_below_20_percent_of_median", even.below_fifth as f64),
        ("intervals_below_50_percent_of_median", even.below_half as f64),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// A figure for rows that vanish, or come twice, would mean nothing.
fn check_rows(cell: &Cell, database: &Database, table: &Table, expected: u64) -> Result<(), BenchError> {
    let snapshot = database.snapshot();
    let mut range = snapshot.rows(table);
    let mut found = 0;
    while range.next_row().map_err(engine_error(NAME, "scan"))?.is_some() {
        found += 1;
    }
    if found == expected {
        Ok(())
    } else {
        Err(cell.wrong(format!("{expected} rows should be there after the run, and {found} are")))
    }
}
