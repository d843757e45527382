//! Measures a table: every cell in a child process, engines taking turns within each run (A B C A B C), so that a
//! device that gets slower does so for all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command_line::Common;
use crate::device;
use crate::engine::EngineKind;
use crate::error::{BenchError, file_error};
use crate::plan::PlannedRow;
use crate::report::{ReportRow, markdown};
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
    let syncs_before = device::syncs_per_second(&scratch.directory, probe)?;
    for row in rows {
        let (measured, failed) = measure_row(common, row, &scratch.directory);
        failures += failed;
        report.push(measured);
    }
    let syncs_after = device::syncs_per_second(&scratch.directory, probe)?;
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
            match in_child(&cell, !common.unsettled) {
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
        seconds: row.seconds,
        run,
        seed: common.seed,
        directory: scratch.join("cell"),
        prepared: scratch.join("prepared"),
    }
}

fn in_child(cell: &Cell, settle: bool) -> Result<Measurement, BenchError> {
    let failed = |what: &str, error: std::io::Error| BenchError::Process(format!("{what}: {error}"));
    if settle {
        // What the last cell left to write would be measured in this one.
        rustix::fs::sync();
    }
    let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
    let output = Command::new(program)
        .arg("cell")
        .arg(serde_json::to_string(cell)?)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed("start", error))?;
    if cell.directory.exists() {
        fs::remove_dir_all(&cell.directory).map_err(file_error("remove", &cell.directory))?;
    }
    if !output.status.success() {
        return Err(BenchError::Process(format!("ended with {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The folder for one table's databases; gone when it ends, also by an error.
struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    fn create(parent: &Path) -> Result<Scratch, BenchError> {
        fs::create_dir_all(parent).map_err(file_error("create", parent))?;
        // The program may be started from elsewhere than the child's directory.
        let parent = parent.canonicalize().map_err(file_error("resolve", parent))?;
        let directory = parent.join(format!("seawall-bench-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(file_error("create", &directory))?;
        Ok(Scratch { directory })
    }

    fn remove(self) -> Result<(), BenchError> {
        fs::remove_dir_all(&self.directory).map_err(file_error("remove", &self.directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.directory.exists()
            && let Err(error) = fs::remove_dir_all(&self.directory)
        {
            eprintln!("{} is left behind: {error}", self.directory.display());
        }
    }
}
