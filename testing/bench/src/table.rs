//! Measures a table: every cell in a child process, engines taking turns within each run (A B C A B C), so that a
//! device that gets slower does so for all.

use std::path::Path;
use std::time::Duration;

use crate::child;
use crate::command_line::Common;
use crate::device;
use crate::engine::EngineKind;
use crate::error::BenchError;
use crate::plan::PlannedRow;
use crate::report::{ReportRow, markdown};
use crate::scratch::Scratch;
use crate::workload::{Cell, Measurement};

const PROBE_MAX: Duration = Duration::from_millis(500);

/// Prints as it goes with `--json`, else one table at the end; returns how many cells failed.
pub(crate) fn measure(common: &Common, rows: &[PlannedRow]) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&common.dir)?;
    let mut failures = 0;
    let mut report = Vec::new();
    // No longer than what it is compared with.
    let shortest = rows.iter().map(|row| Duration::from_secs_f64(row.seconds)).min().unwrap_or(PROBE_MAX);
    let probe = shortest.min(PROBE_MAX);
    let syncs_before = device::syncs_per_second(scratch.directory(), probe)?;
    for row in rows {
        let (measured, failed) = measure_row(common, row, scratch.directory());
        failures += failed;
        report.push(measured);
    }
    let syncs_after = device::syncs_per_second(scratch.directory(), probe)?;
    if !common.json {
        println!("{}", markdown(&report));
        println!(
            "Median of {}. Cache {} MiB, values of {} bytes. 8 KiB overwrites with fdatasync: {syncs_before:.0}/s \
             before, {syncs_after:.0}/s after.",
            common.runs, common.cache_mib, common.value_bytes
        );
    }
    scratch.remove()?;
    Ok(failures)
}

fn measure_row(common: &Common, row: &PlannedRow, scratch: &Path) -> (ReportRow, usize) {
    let mut measurements = Vec::new();
    let mut failures = 0;
    for run in 1..=common.runs {
        for engine in &row.engines {
            let cell = cell(common, row, scratch, *engine, run);
            let name =
                format!("{}, {} threads, {}, run {run}", row.workload.label(), row.threads, engine.name());
            let done: Result<Measurement, BenchError> =
                child::measure("cell", &cell, &cell.directory, !common.unsettled);
            match done {
                Ok(measurement) => {
                    eprintln!("{name}: {:.4} {}", measurement.value, measurement.unit);
                    print_json(common, &measurement);
                    measurements.push(measurement);
                }
                Err(error) => {
                    eprintln!("{name}: {error}");
                    failures += 1;
                }
            }
        }
    }
    let row = ReportRow {
        label: row.workload.label(),
        threads: row.threads,
        unit: row.workload.unit(),
        better: row.workload.better(),
        reach: row.reach,
        measurements,
    };
    (row, failures)
}

fn print_json(common: &Common, measurement: &Measurement) {
    if common.json {
        let line = serde_json::to_string(measurement).expect("numbers and strings are JSON");
        println!("{line}");
    }
}

fn cell(common: &Common, row: &PlannedRow, scratch: &Path, engine: EngineKind, run: u64) -> Cell {
    Cell {
        engine,
        workload: row.workload,
        threads: row.threads,
        rows: row.rows,
        value_bytes: usize::try_from(common.value_bytes).expect("32 bits fit"),
        cache_bytes: common.cache_mib << 20,
        run_percent: common.run_percent,
        seconds: row.seconds,
        run,
        seed: common.seed,
        directory: scratch.join("cell"),
        prepared: scratch.join("prepared"),
    }
}
