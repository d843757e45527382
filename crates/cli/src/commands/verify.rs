//! `verify`.

use seawall_backup::{Finding, Severity, VerifyDepth, VerifyOptions, VerifyReport};
use seawall_io::SystemClock;
use serde_json::json;

use super::backup::open_repositories;
use crate::arguments::{Shared, VerifyArguments};
use crate::failure::Failure;
use crate::output::{Output, grouped, size};
use crate::progress;

pub(crate) fn verify(
    shared: &Shared,
    arguments: &VerifyArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let settings = &shared.settings;
    let threads = arguments.threads.unwrap_or_else(|| settings.require("verify.threads"));
    let settle = arguments.settle.or_else(|| settings.time("verify.settle"));
    let options = VerifyOptions {
        depth: if arguments.full { VerifyDepth::Content } else { VerifyDepth::Headers },
        threads: usize::from(threads),
        settle: settle.expect("the setting has a default"),
    };
    let (mut damages, mut doubts) = (0, 0);
    let mut written = Ok(());
    for repository in open_repositories(shared, &arguments.repository)? {
        let bar = progress::rows("verifying, objects:");
        let report = seawall_backup::verify(
            &repository,
            &SystemClock,
            &options,
            &mut |finding| {
                if written.is_ok() {
                    written = tell(&finding, output);
                }
            },
            &mut |step| bar.set_position(step.objects),
        );
        bar.finish_and_clear();
        let report = report?;
        written = written.and_then(|()| summary(repository.url(), &report, output));
        damages += report.damages;
        doubts += report.doubts;
    }
    // What is damaged is damaged, whether somebody reads what it is or not.
    match (damages, doubts) {
        (0, 0) => written,
        (0, doubts) => {
            let count = grouped(doubts);
            Err(Failure::Broken(format!("{count} objects are not what belongs into a repository; see above")))
        }
        (damages, _) => {
            Err(Failure::Verified { findings: format!("damaged or missing: {}", grouped(damages)) })
        }
    }
}

fn tell(finding: &Finding, output: &mut Output) -> Result<(), Failure> {
    let Finding { kind, object, problem } = finding;
    let (severity, word) = match kind.severity() {
        Severity::Damage => ("damage", "DAMAGE  "),
        Severity::Doubt => ("doubt", "STRANGE "),
        Severity::Note => ("note", "note    "),
    };
    output.answer(
        &json!({ "finding": kind.name(), "severity": severity, "object": object, "problem": problem }),
        format_args!("{word}{object}: {problem}"),
    )
}

fn summary(url: &str, report: &VerifyReport, output: &mut Output) -> Result<(), Failure> {
    let VerifyReport { objects, stored_bytes, checked_bytes, backups, damages, doubts } = *report;
    let value = json!({
        "repository": url, "objects": objects, "stored_bytes": stored_bytes, "checked_bytes": checked_bytes,
        "backups": backups, "damages": damages, "doubts": doubts, "ok": damages + doubts == 0,
    });
    let result = match (damages, doubts) {
        (0, 0) => "no damage found".to_owned(),
        _ => format!("{} damaged or missing, {} strange", grouped(damages), grouped(doubts)),
    };
    output.answer(
        &value,
        format_args!(
            "{url}: {} objects, {}, {} of content read, {} backups: {result}",
            grouped(objects),
            size(stored_bytes),
            size(checked_bytes),
            grouped(backups)
        ),
    )
}
