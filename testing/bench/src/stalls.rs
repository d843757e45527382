//! How long one client's work makes all others wait: latencies of short commits alone and beside a large transaction, a
//! serializable one with a long read set, and one in doubt that has read much.
//!
//! ```text
//!   8 threads:   commit commit commit commit ...    each latency counts
//!   neighbour:   [   256 MiB   ] [   256 MiB   ]    in turns: none, one kind, all kinds together
//! ```
//! Three more cells measure what waits for other things: snapshots beside `Async` committers, one transaction of very many
//! rows beside idle threads, and one hot row. The memtable is large enough that no cell waits for a checkpoint.
//!
//! Start at `cell::measure`.

mod cell;
mod neighbour;

use std::path::PathBuf;

use clap::Args;

use crate::command_line::seconds;
use crate::error::BenchError;
use crate::scratch::Scratch;

use cell::{Cell, Figures, Kind};

/// What the user may ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Seconds of each cell
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Cells, comma-separated; all if not given
    #[arg(long, value_delimiter = ',')]
    cells: Vec<Kind>,
    /// Threads of short commits
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Threads that update the hot row
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1024))]
    hot_threads: u64,
    /// Size of a large transaction in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    large_mib: u64,
    /// Rows of the one transaction of very many rows
    #[arg(long, default_value_t = 1_500_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Rows that the serializable transaction counts
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    counted_rows: u64,
    /// Memory for memtables in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memtable_mib: u64,
    /// One JSON line a cell instead of the Markdown table
    #[arg(long)]
    json: bool,
}

/// Returns how many cells failed.
pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let kinds = if arguments.cells.is_empty() { Kind::ALL.to_vec() } else { arguments.cells.clone() };
    let mut failures = 0;
    let mut measured = Vec::new();
    for (number, kind) in kinds.into_iter().enumerate() {
        let cell = Cell {
            kind,
            directory: scratch.directory().join(format!("stalls-{number}")),
            seconds: arguments.seconds,
            threads: arguments.threads,
            hot_threads: arguments.hot_threads,
            large_bytes: arguments.large_mib << 20,
            rows: arguments.rows,
            counted_rows: arguments.counted_rows,
            memtable_bytes: arguments.memtable_mib << 20,
        };
        rustix::fs::sync();
        match cell::measure(&cell) {
            Ok(figures) if arguments.json => println!("{}", serde_json::to_string(&figures)?),
            Ok(figures) => measured.push(figures),
            Err(error) => {
                eprintln!("{kind:?}: {error}");
                failures += 1;
            }
        }
    }
    if !arguments.json {
        print_table(&measured);
    }
    scratch.remove()?;
    Ok(failures)
}

fn print_table(measured: &[Figures]) {
    println!("| cell | operations/s | p50 us | p99 us | p99.9 us | max us | disk max us | beside |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    measured.iter().for_each(|figures| println!("{}", figures.row()));
}
