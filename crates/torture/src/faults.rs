//! Faults that are not crashes: a disk whose calls fail, fill up, take seconds or lie rotten, and a clock that jumps.
//!
//! ```text
//!   seed --> plan: options, steps, faults between them --> Database on a simulated disk and clock
//!                                                               |  errors: typed, and what they promise is held to
//!   plain model: what is there, what may be there --------------+  reads, reopening, `check`: compared
//! ```
//! What is held to, step by step:
//! * A step that fails says so with an error that a disk can cause. If the database takes writes afterwards, the step did
//!   nothing at all, now and for ever. If it has stopped, it goes on being read, refuses every write with `Stopped`, and
//!   the step is in doubt until the next open: there whole or not at all.
//! * Once the fault is over, the next open succeeds, whatever was there before. Everything acknowledged is there.
//! * Slow calls and clocks that jump change nothing but the time.
//! * A bit that has rotted is told by `check`, or matters to nobody; it never changes a row that is read.
//!
//! **What a seed repeats**: everything. The database has no threads of its own here, the disk and the clock are simulated.
//!
//! Start at [`life::Run`]; `fault` draws what goes wrong, `step` what is done meanwhile, `model` is what should be there.

mod fault;
mod life;
mod model;
mod rot;
mod step;

use std::panic::{AssertUnwindSafe, catch_unwind};

use seawall_io::{Clock, SystemClock};

use crate::arguments::FaultsOptions;
use crate::error::TortureError;
use crate::finding::{Finding, Report};
use life::Run;

/// Runs `options.runs` databases through their faults.
pub(crate) fn run(options: &FaultsOptions) -> Result<Report, TortureError> {
    let start = SystemClock.monotonic();
    let mut report = Report::new("faults");
    for seed in options.seed..options.seed.saturating_add(options.runs) {
        report.count("runs", 1);
        if let Some(what) = run_one(seed, options, &mut report) {
            let swallow = options.swallow.map_or(String::new(), |one_in| format!(" --swallow {one_in}"));
            let repeat = format!("seawall-torture faults --runs 1 --seed {seed}{swallow}");
            report.findings.push(Finding { seed, what, repeat, evidence: None });
            if !options.keep_going {
                break;
            }
        }
    }
    report.seconds = (SystemClock.monotonic() - start).as_secs_f64();
    Ok(report)
}

/// What was found, if anything.
fn run_one(seed: u64, options: &FaultsOptions, report: &mut Report) -> Option<String> {
    let mut run = Run::new(seed, options.swallow);
    // An assertion that fails in the engine is a finding like any other.
    let result = catch_unwind(AssertUnwindSafe(|| run.run()));
    for (what, count) in run.counts() {
        report.count(what, count);
    }
    match result {
        Ok(Ok(())) => None,
        Ok(Err(what)) => Some(format!("{what}\n  {}", run.describe())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Some(format!("panic: {text}\n  {}", run.describe()))
        }
    }
}
