//! The cases where memory is hardest to bound, each against the sum of what the options allow.
//!
//! ```text
//!   case --> a process of its own: open, prepare | what the case is about, sampled | peak, allowed, ratio
//! ```
//! Invariants:
//! * What is counted is anonymous memory beyond what the process had before it opened the database.
//! * Allowed is `memory.memtable_bytes`, `memory.cache_bytes`, `memory.snapshot_bytes` and `memory.all_transactions_bytes`, whether the case
//!   needs them or not.
//!
//! Only Seawall is measured. Start at `cases::run`.

mod cases;

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child;
use crate::error::BenchError;
use crate::scratch::Scratch;

use cases::Case;
pub(crate) use cases::run as run_case;

/// What each case is to reach.
const RATIO_MAX: f64 = 1.25;

/// What the user may ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory for the databases; a folder is made in it and removed at the end
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Cases, comma-separated; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Memory for the memtable, the cache, old snapshots and a transaction
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    each_mib: u64,
    /// One JSON line a case instead of the Markdown table
    #[arg(long)]
    json: bool,
}

/// A case for a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    case: Case,
    each_bytes: u64,
    directory: PathBuf,
}

/// What one case took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    case: Case,
    peak_mib: f64,
    allowed_mib: f64,
    ratio: f64,
}

/// Returns how many cases failed, or took too much.
pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let cases = if arguments.cases.is_empty() { Case::ALL } else { &arguments.cases };
    let mut failures = 0;
    if !arguments.json {
        println!("| case | peak MiB | allowed MiB | ratio |\n|---|---:|---:|---:|");
    }
    for case in cases {
        let directory = scratch.directory().join("cell");
        let cell = Cell { case: *case, each_bytes: arguments.each_mib << 20, directory: directory.clone() };
        let taken = match child::measure::<_, Taken>("memory-case", &cell, &directory, false) {
            Ok(taken) => taken,
            Err(error) => {
                eprintln!("{}: {error}", case.name());
                failures += 1;
                continue;
            }
        };
        failures += usize::from(taken.ratio > RATIO_MAX);
        if arguments.json {
            println!("{}", serde_json::to_string(&taken)?);
        } else {
            let Taken { peak_mib, allowed_mib, ratio, .. } = taken;
            println!("| {} | {peak_mib:.0} | {allowed_mib:.0} | {ratio:.2} |", case.name());
        }
    }
    scratch.remove()?;
    Ok(failures)
}
