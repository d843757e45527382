//! Measures the tables: the steps of each cell one after another, caches taking turns within a run.

use std::path::Path;

use serde::Serialize;

use super::arguments::{Arguments, Load};
use super::cell::Cell;
use super::report::{Measured, markdown};
use super::step::{Figures, Kind, Step};
use crate::child;
use crate::error::{BenchError, file_error};
use crate::scratch::Scratch;

/// Prints as it goes with `--json`, else tables at the end; returns how many cells failed.
pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let mut failures = 0;
    for load in &arguments.loads {
        for threads in threads_of(*load, arguments) {
            let mut measured = Vec::new();
            for run in 1..=arguments.runs {
                for cache_mib in &arguments.cache_mib {
                    let cell = cell(arguments, *load, threads, *cache_mib, run, scratch.directory());
                    let name = format!("{load}, {threads} sessions, cache {cache_mib} MiB, run {run}");
                    match measure(&cell, arguments) {
                        Ok(done) => measured.push(done),
                        Err(error) => {
                            eprintln!("{name}: {error}");
                            failures += 1;
                        }
                    }
                    remove(&cell.directory)?;
                }
            }
            if !arguments.json {
                println!("{}", markdown(*load, threads, arguments, &measured));
            }
        }
    }
    scratch.remove()?;
    Ok(failures)
}

fn threads_of(load: Load, arguments: &Arguments) -> Vec<usize> {
    match load {
        Load::Empty | Load::Rows => arguments.threads.clone(),
        Load::Large => vec![1],
    }
}

fn cell(arguments: &Arguments, load: Load, threads: usize, cache_mib: u64, run: u64, scratch: &Path) -> Cell {
    Cell {
        load,
        tables: arguments.tables,
        rows: arguments.rows,
        large_mib: arguments.large_mib,
        threads: threads.max(1),
        cache_mib,
        run,
        seed: arguments.seed,
        directory: scratch.join("cell"),
    }
}

fn remove(directory: &Path) -> Result<(), BenchError> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(file_error("remove", directory))?;
    }
    Ok(())
}

/// A JSON line.
#[derive(Serialize)]
struct Line<'a> {
    load: Load,
    tables: u64,
    rows_of_a_table: u64,
    threads: usize,
    cache_mib: u64,
    run: u64,
    figures: &'a Figures,
}

fn measure(cell: &Cell, arguments: &Arguments) -> Result<Measured, BenchError> {
    std::fs::create_dir_all(&cell.directory).map_err(file_error("create", &cell.directory))?;
    let mut figures = Figures::new();
    for kind in steps(cell.load) {
        let step = Step { kind, cell: cell.clone() };
        let done: Figures = child::run("ddl-step", &step, !arguments.unsettled)?;
        eprintln!("{}, {} sessions, cache {} MiB: {kind:?} done", cell.load, cell.threads, cell.cache_mib);
        figures.extend(done);
    }
    add_ratios(&mut figures);
    if arguments.json {
        let line = Line {
            load: cell.load,
            tables: cell.table_count(),
            rows_of_a_table: cell.rows_of_a_table(),
            threads: cell.threads,
            cache_mib: cell.cache_mib,
            run: cell.run,
            figures: &figures,
        };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(Measured { cache_mib: cell.cache_mib, figures })
}

fn steps(load: Load) -> Vec<Kind> {
    let all = [Kind::Puts, Kind::Create, Kind::ReplayCreates, Kind::Drop, Kind::ReplayDrops, Kind::Reclaim];
    // Where rows are loaded, checkpoints take the log away.
    let replays_creates = load == Load::Empty;
    all.into_iter().filter(|kind| *kind != Kind::ReplayCreates || replays_creates).collect()
}

/// What the figures of two steps say together.
fn add_ratios(figures: &mut Figures) {
    let pairs = [
        ("drop_rate_to_put_rate", "drop_per_second", "puts_per_second"),
        ("drop_seconds_to_replay_seconds", "drop_seconds", "replay_drops_seconds"),
        ("create_seconds_to_replay_seconds", "create_seconds", "replay_creates_seconds"),
    ];
    for (name, of, to) in pairs {
        if let (Some(of), Some(to)) = (figures.get(of), figures.get(to)) {
            let ratio = of / to;
            figures.insert(name.to_owned(), ratio);
        }
    }
    let grown = |of: &str, from: &str| Some(figures.get(of)? - figures.get(from)?);
    let more = [
        ("drop_memory_grown_mib", grown("drop_memory_after_mib", "drop_memory_before_mib")),
        ("replay_drops_memory_grown_mib", grown("replay_drops_memory_peak_mib", "puts_memory_of_empty_mib")),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            figures.insert(name.to_owned(), value);
        }
    }
}
