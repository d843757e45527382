//! Histories of clients that work at once, and what isolation they had.
//!
//! ```text
//!   clients on threads: append to lists, read them, roll back --> Database <-- checkpoints, kills, power losses
//!        |  each remembers what it did, saw and was told
//!        v
//!   History --> checker: which anomalies does it show? --> those that the isolation level rules out are findings
//! ```
//! Every element is appended once, so a list that was read names all transactions that wrote it, in order:
//! dependencies are told by the data, not guessed from times (Elle; see `anomaly` for the literature). A history goes
//! on over crashes: what was read and acknowledged before must fit what is read afterwards, and a commit whose client
//! was not told of its outcome took place if anybody ever sees it. A power loss may take the newest commits that did not wait
//! for the disk: the history ends there, and goes on without them (`gone`).
//!
//! **What a seed repeats**: options, how many clients do what in which order, and the disk call of each crash; not
//! which thread runs when. The history of a finding is kept, so that it can be looked at, and checked again by eye.
//!
//! Start at [`checker::check`]; `round` makes histories, `clients` what is in them.

mod anomaly;
mod checker;
mod clients;
mod cycles;
mod dependencies;
mod gone;
mod history;
mod inconsistencies;
mod lists;
mod round;
pub(crate) mod standbys;
mod told;

use std::time::Duration;

use seawall::Isolation;
use seawall_io::{Clock, SystemClock};

use crate::arguments::{HistoriesOptions, Level};
use crate::error::TortureError;
use crate::finding::{Finding, Report};
use crate::progress;
use round::Stop;
use told::{TOLD_MAX, count, keep};

/// Runs rounds of `options.seeds`, or for `options.seconds`, at least one of each level.
pub(crate) fn run(options: &HistoriesOptions) -> Result<Report, TortureError> {
    let start = SystemClock.monotonic();
    let end = start + Duration::from_secs(options.seconds);
    let mut report = Report::new("histories");
    for seed in options.seed.. {
        progress::seed(seed, &mut report, |report| rounds(seed, options, report))?;
        let has_found = !report.findings.is_empty() && !options.keep_going;
        let is_enough = match options.seeds {
            Some(seeds) => report.seeds() >= seeds,
            None => SystemClock.monotonic() >= end,
        };
        if has_found || is_enough {
            break;
        }
    }
    report.seconds = (SystemClock.monotonic() - start).as_secs_f64();
    Ok(report)
}

fn rounds(seed: u64, options: &HistoriesOptions, report: &mut Report) -> Result<(), TortureError> {
    for level in options.isolation.levels() {
        let promised = options.check_as.map_or(level, Level::single);
        let findings = round(seed, level, promised, options, report)?;
        report.findings.extend(findings);
    }
    Ok(())
}

fn round(
    seed: u64,
    isolation: Isolation,
    promised: Isolation,
    options: &HistoriesOptions,
    report: &mut Report,
) -> Result<Vec<Finding>, TortureError> {
    report.count("rounds", 1);
    let name = Level::of(isolation).name();
    let check_as = options.check_as.map_or(String::new(), |level| format!(" --check-as {}", level.name()));
    let repeat = format!("seawall-torture histories --seconds 0 --isolation {name} --seed {seed}{check_as}");
    let finding = |what, evidence| Finding { seed, what, repeat: repeat.clone(), evidence };
    let histories = match round::run(seed, isolation, report) {
        Ok(histories) => histories,
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Found(what)) => return Ok(vec![finding(format!("{name}: {what}"), None)]),
    };
    for history in &histories {
        count(history, report);
        let verdict = checker::check(history, promised);
        verdict.dependencies.iter().for_each(|(kind, count)| report.count(*kind, *count));
        if !verdict.anomalies.is_empty() {
            // Without the file the findings still count.
            let evidence = keep(history, seed).inspect_err(|error| eprintln!("{error}")).ok();
            let told = verdict.anomalies.iter().take(TOLD_MAX);
            return Ok(told.map(|anomaly| finding(format!("{name}: {anomaly}"), evidence.clone())).collect());
        }
    }
    Ok(Vec::new())
}
