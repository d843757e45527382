//! Measures the tables: the steps of each cell one after another, caches taking turns within a run.

use std::path::Path;

use serde::Serialize;

use super::arguments::{Arguments, Load, Verb};
use super::cell::Cell;
use super::figures::Figures;
use super::report::{Measured, markdown};
use super::step::{Kind, Step};
use crate::child;
use crate::error::{BenchError, file_error};
use crate::scratch::Scratch;

/// Prints as it goes with `--json`, else tables at the end; returns how many cells failed.
pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let mut failures = 0;
    for load in &arguments.loads {
        for threads in threads_of(*load, arguments) {
            for (verb, per_transaction) in statements_of(*load, arguments) {
                let mut measured = Vec::new();
                for run in 1..=arguments.runs {
                    for cache_mib in &arguments.cache_mib {
                        let mut cell = cell(arguments, *load, threads, *cache_mib, run, scratch.directory());
                        (cell.verb, cell.per_transaction) = (verb, per_transaction);
                        match measure(&cell, arguments) {
                            Ok(done) => measured.push(done),
                            Err(error) => {
                                eprintln!("{}: {error}", name(&cell));
                                failures += 1;
                            }
                        }
                        remove(&cell.directory)?;
                    }
                }
                if !arguments.json {
                    let what = format!("{threads} sessions, {verb}, {per_transaction} a transaction");
                    println!("{}", markdown(*load, &what, arguments, &measured));
                }
            }
        }
    }
    scratch.remove()?;
    Ok(failures)
}

fn threads_of(load: Load, arguments: &Arguments) -> Vec<usize> {
    match load {
        Load::Empty | Load::Rows => arguments.threads.clone(),
        Load::Large | Load::Mixed => vec![1],
    }
}

fn statements_of(load: Load, arguments: &Arguments) -> Vec<(Verb, u64)> {
    if load == Load::Mixed {
        return vec![(Verb::Drop, 1)];
    }
    let counts = || arguments.per_transaction.iter().map(|count| (*count).max(1));
    arguments.verbs.iter().flat_map(|verb| counts().map(|count| (*verb, count))).collect()
}

fn name(cell: &Cell) -> String {
    let Cell { load, threads, verb, per_transaction, cache_mib, run, .. } = cell;
    format!(
        "{load}, {threads} sessions, {verb}, {per_transaction} a transaction, cache {cache_mib} MiB, run {run}"
    )
}

fn cell(arguments: &Arguments, load: Load, threads: usize, cache_mib: u64, run: u64, scratch: &Path) -> Cell {
    Cell {
        load,
        verb: Verb::Drop,
        per_transaction: 1,
        seconds: arguments.seconds,
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
    verb: Verb,
    per_transaction: u64,
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
        eprintln!("{}: {kind:?} done", name(cell));
        figures.extend(done);
    }
    add_ratios(&mut figures);
    if arguments.json {
        let line = Line {
            load: cell.load,
            verb: cell.verb,
            per_transaction: cell.per_transaction,
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
    if load == Load::Mixed {
        return vec![Kind::Mixed, Kind::ReplayMixed];
    }
    let all = [Kind::Puts, Kind::Create, Kind::ReplayCreates, Kind::Drop, Kind::ReplayDrops, Kind::Reclaim];
    // Where rows are loaded, checkpoints take the log away.
    let replays_creates = load == Load::Empty;
    all.into_iter().filter(|kind| *kind != Kind::ReplayCreates || replays_creates).collect()
}

/// What the figures of two steps say together.
fn add_ratios(figures: &mut Figures) {
    let pairs = [
        ("drop_rate_to_put_rate", "drop_tables_per_second", "puts_per_second"),
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
