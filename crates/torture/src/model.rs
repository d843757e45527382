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
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use seawall_io::{Clock, SystemClock};

use crate::arguments::ModelOptions;
use crate::finding::{Finding, Report};
use crate::panics::caught;

/// After so many findings no more histories begin.
const FINDINGS_MAX: usize = 3;

/// Runs the histories that `options` ask for.
pub(crate) fn run(options: &ModelOptions) -> Report {
    let start = SystemClock.monotonic();
    let mut report = Report::new("model");
    report.findings = run_histories(options.seed..options.seed.saturating_add(options.histories));
    report.count("histories", options.histories);
    report.seconds = (SystemClock.monotonic() - start).as_secs_f64();
    report
}

/// Runs the histories of `seeds`, several at a time; what differed from the model.
pub fn run_histories(seeds: Range<u64>) -> Vec<Finding> {
    let (next, found) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let worker = || {
        while found.lock().len() < FINDINGS_MAX {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end {
                return;
            }
            let finding = run_history(seed).err();
            found.lock().extend(finding);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        (0..threads).for_each(|_| drop(scope.spawn(worker)));
    });
    found.into_inner()
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
