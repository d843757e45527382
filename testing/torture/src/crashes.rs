//! Power losses in disk calls: of single workloads, with every state that they may leave, and of databases of several lives.
//! The plans, models and watched disks are those of `seawall_crash_harness`.

mod enumerate;
pub mod lives;
mod workload;

use std::collections::BTreeMap;
use std::ops::Range;

use seawall_crash_harness::Cell;

use crate::arguments::{CrashesOptions, LivesOptions};
use crate::finding::{Finding, Report};
use crate::panics::caught;
use crate::workers::{FINDINGS_MAX, for_each_seed};

pub use enumerate::Effort;

/// Runs the workloads that `options` ask for through their crashes.
pub(crate) fn run(options: &CrashesOptions) -> Report {
    let CrashesOptions { points, states, depth, lose_syncs, .. } = *options;
    let seeds = options.seed..options.seed.saturating_add(options.seeds);
    run_seeds(seeds, &Effort { points, states, depth, lose_syncs })
}

/// Runs the workloads of `seeds` through their crashes: what was found, and how much was tried, by what.
pub fn run_workloads(seeds: Range<u64>, effort: &Effort) -> (Vec<Finding>, BTreeMap<String, u64>) {
    let report = run_seeds(seeds, effort);
    let tried = report.tried.into_iter().map(|(what, count)| (what.into_owned(), count));
    (report.findings, tried.collect())
}

fn run_seeds(seeds: Range<u64>, effort: &Effort) -> Report {
    for_each_seed("crashes", seeds, FINDINGS_MAX, |seed, report| enumerate::run_seed(seed, effort, report))
}

/// Runs the lives that `options` ask for.
pub(crate) fn run_lives(options: &LivesOptions) -> Report {
    let seeds = options.seed..options.seed.saturating_add(options.histories);
    for_each_seed("lives", seeds, FINDINGS_MAX, run_life)
}

fn run_life(seed: u64, report: &mut Report) -> Result<(), Finding> {
    let cells = Cell::all();
    // The cell of a seed, and its number among those of the cell.
    let count = cells.len() as u64;
    let cell = cells[usize::try_from(seed % count).expect("there are few cells")];
    let mut tally = lives::Tally::default();
    let result = caught(|| lives::run_history(cell, seed / count, &mut tally));
    tally.count_into(report);
    result.map_err(|what| {
        let repeat = format!("seawall-torture lives --seed {seed} --histories 1");
        Finding { seed, what: format!("{cell}: {what}"), repeat, evidence: None }
    })
}
