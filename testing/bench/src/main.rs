//! `seawall-bench`: the same workloads on Seawall and its peers.
//!
//! ```text
//!   command line --> plan: rows of the table
//!                      |
//!                    table: for each run, for each engine: a child process measures one cell
//!                      |                                      engine <-- workload <-- rows, random
//!                    report: medians, ratio to the best peer, what was to be reached
//! ```
//! Invariants:
//! * Engines get the same keys and values in the same order, the same cache, and a process of their own.
//! * What is called durable was synced before the commit returned, by every engine.
//! * A figure counts only if the rows are there: lost rows fail the cell.
//!
//! Start at `workload`; tests which no peer takes part in are in `checkpoint`, `ddl`, `memory_limits`,
//! `standby` and `twophase`.

mod checkpoint;
mod child;
mod command_line;
mod ddl;
mod device;
mod engine;
mod error;
mod histogram;
mod memory_limits;
mod pace;
mod plan;
mod random;
mod recorder;
mod report;
mod rows;
mod scratch;
mod segments;
mod stalls;
mod standby;
mod table;
mod timed_run;
mod timeline;
mod twophase;
mod usage;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use command_line::{Command, CommandLine, Common};
use error::BenchError;

fn main() -> ExitCode {
    // As the program `seawall` does, for all engines.
    seawall::give_back_freed_memory();
    match run(&CommandLine::parse().command) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("{failures} cells failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("seawall-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many cells failed.
fn run(command: &Command) -> Result<usize, BenchError> {
    if let Some((common, rows)) = plan::plan(command) {
        return table::measure(common, &rows);
    }
    match command {
        Command::Device(common) => device(common)?,
        Command::Cell { cell } => {
            let measurement = workload::measure(&serde_json::from_str(cell)?)?;
            println!("{}", serde_json::to_string(&measurement)?);
        }
        Command::Checkpoint { test } => return checkpoint::run(test),
        Command::Segments(arguments) => return segments::run(arguments),
        Command::Stalls(arguments) => return stalls::run(arguments),
        Command::Promotion(arguments) => return standby::promote(arguments),
        Command::Replication(arguments) => return standby::replicate(arguments),
        Command::CheckpointCell { cell } => {
            let measured = checkpoint::measure(&serde_json::from_str(cell)?)?;
            println!("{}", serde_json::to_string(&measured)?);
        }
        Command::CheckpointWriter { cell } => checkpoint::write_until_killed(&serde_json::from_str(cell)?)?,
        Command::Ddl(arguments) => return ddl::run(arguments),
        Command::DdlStep { step } => {
            let figures = ddl::run_step(&serde_json::from_str(step)?)?;
            println!("{}", serde_json::to_string(&figures)?);
        }
        Command::MemoryLimits(arguments) => return memory_limits::run(arguments),
        Command::MemoryCase { cell } => {
            let taken = memory_limits::run_case(&serde_json::from_str(cell)?)?;
            println!("{}", serde_json::to_string(&taken)?);
        }
        Command::Twophase(arguments) => return twophase::run(arguments),
        Command::TwophaseWriter { run } => twophase::write_and_wait(&serde_json::from_str(run)?)?,
        Command::Fill { cell } => workload::reopen::fill(&serde_json::from_str(cell)?)?,
        planned => unreachable!("{planned:?} has a plan"),
    }
    Ok(0)
}

fn device(common: &Common) -> Result<(), BenchError> {
    let directory = &common.dir;
    std::fs::create_dir_all(directory).map_err(error::file_error("create", directory))?;
    let duration = Duration::from_secs_f64(common.seconds.unwrap_or(1.0));
    let syncs = device::syncs_per_second(directory, duration)?;
    println!("8 KiB overwrites with fdatasync: {syncs:.0}/s");
    let in_flight = [1, 32];
    let rates = device::reads_per_second(directory, in_flight, duration)?;
    for (in_flight, reads) in in_flight.into_iter().zip(rates) {
        println!("random 8 KiB reads past the page cache, {in_flight} in flight: {reads:.0}/s");
    }
    Ok(())
}
