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
//! * Where the device has lost a write of a page, each row is right or refused, and `check` tells.
//! * An error has a cause that is at work: a fault explains the step that it strikes and no later one (`causes`).
//!
//! **What a seed repeats**: everything with `--checkpoint-threads 1`: the database has no threads of its own then, the disk and the
//! clock are simulated. With more threads, which half of the databases have, not the order of their calls.
//!
//! Start at [`life::Run`]; `fault` draws what goes wrong, `step` what is done meanwhile, `account` says what should be there.

mod account;
mod causes;
mod fault;
mod life;
mod lost;
mod rot;
mod step;

use crate::arguments::FaultsOptions;
use crate::finding::{Finding, Report};
use crate::panics::caught;
use crate::workers::for_each_seed;
use life::Run;

/// Runs `options.runs` databases through their faults.
pub(crate) fn run(options: &FaultsOptions) -> Report {
    let seeds = options.seed..options.seed.saturating_add(options.runs);
    let findings_max = if options.keep_going { usize::MAX } else { 1 };
    for_each_seed("faults", seeds, findings_max, |seed, report| run_seed(seed, options, report))
}

fn run_seed(seed: u64, options: &FaultsOptions, report: &mut Report) -> Result<(), Finding> {
    let FaultsOptions { swallow, checkpoint_threads, .. } = *options;
    let mut run = Run::new(seed, swallow, checkpoint_threads);
    let result = caught(|| run.run());
    for (what, count) in run.counts() {
        report.count(what, count);
    }
    result.map_err(|what| {
        let swallow = swallow.map_or(String::new(), |one_in| format!(" --swallow {one_in}"));
        let threads =
            checkpoint_threads.map_or(String::new(), |count| format!(" --checkpoint-threads {count}"));
        let repeat = format!("seawall-torture faults --runs 1 --seed {seed}{swallow}{threads}");
        Finding { seed, what: format!("{what}\n  {}", run.describe()), repeat, evidence: None }
    })
}
