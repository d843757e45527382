//! Measures the tables: each cell in a child process, configurations taking turns within each run, so that a device that
//! gets slower does so for all.

use std::path::{Path, PathBuf};

use super::arguments::{Common, Test};
use super::cell::{Cell, Kind, Measured};
use super::configuration::Configuration;
use super::load::Load;
use super::plan::{Limits, PlannedTable, Rate, configurations, plan};
use super::report::{Table, markdown};
use crate::child;
use crate::error::{BenchError, file_error};
use crate::scratch::Scratch;

/// Prints as it goes with `--json`, else tables at the end; returns how many cells failed.
pub(crate) fn run(test: &Test) -> Result<usize, BenchError> {
    let Some((common, limits, planned)) = plan(test) else { return redraw(test) };
    let series = series_directory(test)?;
    let scratch = Scratch::create(&common.dir)?;
    let mut failures = 0;
    let mut measured: Vec<Table> = Vec::new();
    for table in planned {
        let around = Around { common, limits, scratch: scratch.directory(), series: series.as_deref() };
        let rate = match table.rate {
            Rate::Full => None,
            Rate::Fixed(rate) => Some(rate),
            Rate::ShareOfFull(share) => measured.last().and_then(Table::slowest).map(|rate| rate * share),
        };
        if rate.is_none() && table.rate != Rate::Full {
            eprintln!("{}: not measured, for nothing is known of full speed", table.title);
            failures += 1;
            continue;
        }
        let (done, failed) = around.measure_table(&table, rate);
        if !common.json {
            println!("{}", markdown(&done));
        }
        failures += failed;
        measured.push(done);
    }
    scratch.remove()?;
    if let Some(directory) = &series {
        draw(directory, &measured)?;
    }
    Ok(failures)
}

/// Made if the test writes series.
fn series_directory(test: &Test) -> Result<Option<PathBuf>, BenchError> {
    let Test::Extreme { series, .. } = test else { return Ok(None) };
    std::fs::create_dir_all(series).map_err(file_error("create", series))?;
    // A child may be started from elsewhere.
    series.canonicalize().map(Some).map_err(file_error("resolve", series))
}

/// What all cells of a command have in common.
struct Around<'command> {
    common: &'command Common,
    limits: Limits,
    scratch: &'command Path,
    series: Option<&'command Path>,
}

impl Around<'_> {
    fn measure_table(&self, table: &PlannedTable, rows_per_second: Option<f64>) -> (Table, usize) {
        let mut measured = Vec::new();
        let mut failures = 0;
        for run in 1..=table.runs {
            for configuration in configurations(self.common) {
                let name = format!("{}; {}, run {run}", table.title, configuration.label());
                let cell = self.cell(table, configuration, run, rows_per_second);
                let done: Result<Measured, BenchError> =
                    child::measure("checkpoint-cell", &cell, &cell.directory, !self.common.unsettled);
                match done {
                    Ok(done) => {
                        eprintln!("{name}: {}", super::report::headline(&done));
                        self.print_json(&done);
                        measured.push(done);
                    }
                    Err(error) => {
                        eprintln!("{name}: {error}");
                        failures += 1;
                    }
                }
            }
        }
        (Table { title: table.title.clone(), kind: table.kind, measured }, failures)
    }

    fn print_json(&self, measured: &Measured) {
        if self.common.json {
            let line = serde_json::to_string(measured).expect("numbers and strings are JSON");
            println!("{line}");
        }
    }

    fn cell(
        &self,
        table: &PlannedTable,
        configuration: Configuration,
        run: u64,
        rows_per_second: Option<f64>,
    ) -> Cell {
        let series =
            self.series.map(|directory| directory.join(series_name(&table.load, &configuration, run)));
        Cell {
            kind: table.kind,
            load: table.load,
            configuration,
            carriers: self.common.carriers.clone(),
            rows: self.common.rows,
            value_bytes: usize::try_from(self.common.value_bytes).expect("32 bits fit"),
            cache_bytes: self.limits.cache_bytes,
            memtable_bytes: self.limits.memtable_bytes,
            chunk_bytes: self.limits.chunk_bytes,
            // Of `kill` the seconds are those between checkpoints.
            interval: if table.kind == Kind::Kill { table.seconds } else { self.common.interval },
            recovery_target: self.limits.recovery_target,
            warm_up: self.common.warm_up,
            seconds: table.seconds,
            operations_per_second: rows_per_second.map(|rate| rate / table.load.rows_per_operation() as f64),
            run,
            seed: self.common.seed,
            directory: self.scratch.join("cell"),
            series,
        }
    }
}

fn series_name(load: &Load, configuration: &Configuration, run: u64) -> String {
    format!("extreme-{}-{}-run{run}.csv", load.file_words(), configuration.file_words())
}

/// One panel for each configuration, of the median run's series.
#[cfg(feature = "plot")]
fn draw(directory: &Path, tables: &[Table]) -> Result<(), BenchError> {
    for table in tables {
        let medians = table.medians();
        let path = |measured: &&Measured| {
            directory.join(series_name(&measured.load, &measured.configuration, measured.run))
        };
        let paths: Vec<PathBuf> = medians.iter().map(path).collect();
        if let Some(first) = medians.first() {
            let picture = directory.join(format!("extreme-{}.svg", first.load.file_words()));
            super::plot::plot(&paths, &picture)?;
            eprintln!("{}", picture.display());
        }
    }
    Ok(())
}

#[cfg(not(feature = "plot"))]
fn draw(directory: &Path, _tables: &[Table]) -> Result<(), BenchError> {
    eprintln!("{}: CSV only; build with `--features plot` for pictures", directory.display());
    Ok(())
}

#[cfg(feature = "plot")]
fn redraw(test: &Test) -> Result<usize, BenchError> {
    match test {
        Test::Plot { series, picture } => super::plot::plot(series, picture).map(|()| 0),
        planned => unreachable!("{planned:?} has a plan"),
    }
}

#[cfg(not(feature = "plot"))]
fn redraw(test: &Test) -> Result<usize, BenchError> {
    unreachable!("{test:?} has a plan")
}
