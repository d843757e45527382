//! A primary and two standbys: histories of clients on all of them.
//!
//! ```text
//!   writers --> primary --stream over a bad network--> standbys <-- readers
//!                  |                                      |
//!        dies, is closed, is cut off                      restarts, pauses, takes the primary's place
//!                  `--> comes back: its log is cut, or it is made anew
//! ```
//! The servers are real ones, with connections between them; disks are simulated, and clients call the engine. After each life of a
//! primary all servers are compared row by row. The checker is that of one server (`checker`), with two differences. Of real time, what a
//! standby must see is what it had applied for certain: what it has shown before, a commit whose position was waited for, and whatever
//! was acknowledged where commits wait for all standbys to apply. And each reader of a standby says which position it reads at: it sees
//! the commits up to there, and none behind.
//!
//! A cycle of any length over all servers is a finding: so all agree on the order of commits, and what a standby shows is a moment of
//! the primary.
//!
//! **What a seed repeats**: options, what each client does in which order, how lives end and what a quorum is; not which thread runs
//! when, nor when the network does what.

mod cluster;
mod member;
mod network;
mod plan;
mod readers;
mod round;

use std::time::Duration;

use seawall::Isolation;
use seawall_io::{Clock, SystemClock};

use super::checker;
use super::history::{History, Place};
use super::told::{TOLD_MAX, count, keep};
use crate::arguments::StandbysOptions;
use crate::error::TortureError;
use crate::finding::{Finding, Report};
use crate::progress;

/// Runs rounds of `options.seeds`, or for `options.seconds`, at least one.
pub(crate) fn run(options: &StandbysOptions) -> Result<Report, TortureError> {
    let start = SystemClock.monotonic();
    let end = start + Duration::from_secs(options.seconds);
    let mut report = Report::new("standbys");
    for seed in options.seed.. {
        progress::seed(seed, &mut report, |report| {
            let findings = round(seed, options, report);
            report.findings.extend(findings);
        });
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

fn round(seed: u64, options: &StandbysOptions, report: &mut Report) -> Vec<Finding> {
    let check_as = if options.check_as_one_server { " --check-as-one-server" } else { "" };
    let repeat = format!("seawall-torture standbys --seconds 0 --seed {seed}{check_as}");
    let finding = |what, evidence| Finding { seed, what, repeat: repeat.clone(), evidence };
    let isolation = plan::Plan::new(seed).work.isolation;
    let histories = match round::run(seed, report) {
        Ok(histories) => histories,
        Err(what) => return vec![finding(what, None)],
    };
    for mut history in histories {
        count(&history, report);
        report.count("reads on standbys", on_standbys(&history));
        if options.check_as_one_server {
            history.iter_mut().for_each(|transaction| transaction.place = Place::default());
        }
        let found = anomalies(seed, &history, isolation, report);
        if !found.is_empty() {
            return found.into_iter().map(|(what, evidence)| finding(what, evidence)).collect();
        }
    }
    Vec::new()
}

fn on_standbys(history: &History) -> u64 {
    history.iter().filter(|transaction| transaction.place.is_standby).count() as u64
}

fn anomalies(
    seed: u64,
    history: &History,
    isolation: Isolation,
    report: &mut Report,
) -> Vec<(String, Option<std::path::PathBuf>)> {
    let verdict = checker::check(history, isolation);
    verdict.dependencies.iter().for_each(|(kind, count)| report.count(*kind, *count));
    if verdict.anomalies.is_empty() {
        return Vec::new();
    }
    // Without the file the findings still count.
    let evidence = keep(history, seed).inspect_err(|error| eprintln!("{error}")).ok();
    verdict.anomalies.iter().take(TOLD_MAX).map(|anomaly| (anomaly.to_string(), evidence.clone())).collect()
}
