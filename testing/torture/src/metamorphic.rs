//! One random history of calls under many option sets: each must give the same answers, errors included.
//!
//! ```text
//!   seed --> Script of calls --> Subject with options A --> answers \
//!                           \--> Subject with options B --> answers  compared, call by call
//!                            \-> Subject with options C --> answers /
//! ```
//! What an option may change is how fast something is and what it costs, never what it says. The sets differ in the sizes of
//! pages, chunks, segments, memtables and caches, in page protection, compression, threads, spare segments, encryption, and
//! in who does the work in the background; what can change from one open to the next changes. The calls meet no limit
//! that an option sets. No model is needed, so nothing that a model has misunderstood is missed here.
//!
//! **What a seed repeats**: everything, but for the threads of the sets that have some; those must not change answers either.

mod script;
mod subject;

use std::ops::Range;

use seawall_simulation::SeededRandom;

use crate::arguments::OptionsOptions;
use crate::finding::{Finding, Report};
use crate::panics::caught;
use crate::workers::{FINDINGS_MAX, for_each_seed};

use script::{Call, Script};
use subject::Subject;

/// Runs the histories that `options` ask for.
pub(crate) fn run(options: &OptionsOptions) -> Report {
    run_seeds(options.seed..options.seed.saturating_add(options.histories), options.sets)
}

/// Runs the histories of `seeds`, each under so many option sets; what differed.
pub fn run_histories(seeds: Range<u64>, sets: u64) -> Vec<Finding> {
    run_seeds(seeds, sets).findings
}

fn run_seeds(seeds: Range<u64>, sets: u64) -> Report {
    for_each_seed("options", seeds, FINDINGS_MAX, |seed, report| run_seed(seed, sets, report))
}

fn run_seed(seed: u64, sets: u64, report: &mut Report) -> Result<(), Finding> {
    let script = Script::new(seed);
    let mut random = SeededRandom::new(!seed);
    let found = |what| {
        let repeat = format!("seawall-torture options --seed {seed} --histories 1 --sets {sets}");
        Finding { seed, what, repeat, evidence: None }
    };
    let mut first: Option<(String, Vec<String>)> = None;
    for set in 0..sets {
        let mut subject = Subject::new(set, &mut random);
        let name = subject.describe();
        let answers =
            caught(|| subject.run(&script)).map_err(|what| found(format!("{what}\n  with {name}")))?;
        report.count("calls", answers.len() as u64);
        report.count("histories under an option set", 1);
        let Some((first_name, expected)) = &first else {
            first = Some((name, answers));
            continue;
        };
        if let Some(difference) = compare(&script, expected, &answers) {
            return Err(found(format!("{difference}\n  A: {first_name}\n  B: {name}")));
        }
    }
    first.iter().for_each(|(_, answers)| count_answers(&script, answers, report));
    Ok(())
}

/// The first call that two option sets answer differently.
fn compare(script: &Script, left: &[String], right: &[String]) -> Option<String> {
    let index = left.iter().zip(right).position(|(left, right)| left != right)?;
    let call: &Call = &script.calls[index];
    let (left, right) = (&left[index], &right[index]);
    Some(format!("call {index}, {call}, answers {left} with A and {right} with B"))
}

fn count_answers(script: &Script, answers: &[String], report: &mut Report) {
    for (call, answer) in script.calls.iter().zip(answers) {
        if let Some(error) = answer.strip_prefix("error ") {
            report.count(format!("calls answered with error {error}, the same under all sets"), 1);
        } else {
            report.count(
                format!("calls of {} answered without an error, the same under all sets", call.name()),
                1,
            );
        }
    }
}
