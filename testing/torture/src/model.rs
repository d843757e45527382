//! Random histories of everything a program can do with a database, against a plain model.
//!
//! ```text
//!   seed --> options, keys, steps --> Database on a simulated disk   each answer
//!                                \--> plain::Model: maps             compared with the model's
//! ```
//! Reads, writes, scans, definitions of tables, savepoints, two-phase commits, snapshots, bulk loads, checkpoints, reopens,
//! power losses. Everything runs on one thread, so **a seed repeats** the whole history.
//!
//! Start at `history::History::run`.

mod history;
mod plain;
mod prepared;

use std::ops::Range;

use crate::arguments::ModelOptions;
use crate::finding::{Finding, Report};
use crate::panics::caught;
use crate::workers::{FINDINGS_MAX, for_each_seed};

/// Runs the histories that `options` ask for.
pub(crate) fn run(options: &ModelOptions) -> Report {
    run_seeds(options.seed..options.seed.saturating_add(options.histories))
}

/// Runs the histories of `seeds`, several at a time; what differed from the model.
pub fn run_histories(seeds: Range<u64>) -> Vec<Finding> {
    run_seeds(seeds).findings
}

fn run_seeds(seeds: Range<u64>) -> Report {
    for_each_seed("model", seeds, FINDINGS_MAX, |seed, _| run_history(seed))
}

fn run_history(seed: u64) -> Result<(), Finding> {
    let run = || {
        history::History::run(seed);
        Ok(())
    };
    caught(run).map_err(|what| {
        let repeat = format!("seawall-torture model --seed {seed} --histories 1");
        Finding { seed, what, repeat, evidence: None }
    })
}
