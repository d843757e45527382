//! `drill` of a PostgreSQL cluster.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use seawall::TimelineId;
use seawall_archive::{Repository, System};
use seawall_base_backup::{
    CheckQuery, PostgreSqlDrillProgress, PostgreSqlDrillReport, PostgreSqlDrillRequest,
    PostgreSqlRestoreRequest, ServerUser, drill_postgresql,
};
use seawall_io::SystemClock;
use serde_json::json;

use super::backup::passed_over::{passed_over_json, warn_of_passed_over};
use super::drill::outcome::{Outcome, stale, threads};
use super::postgresql_backup::{restore_command, show, target};
use crate::arguments::{DrillArguments, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, duration, grouped, size};
use crate::progress;

pub(super) fn run(
    shared: &Shared,
    repository: &Repository,
    identifier: u64,
    arguments: &DrillArguments,
    scratch: &Path,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let request = request_of(shared, repository, arguments, scratch)?;
    let bar = progress::bytes(Some(0), "restoring files");
    let drilled =
        drill_postgresql(repository, identifier, scratch, &SystemClock, &request, &mut |step| match step {
            PostgreSqlDrillProgress::Restore(step) => show(&bar, step),
            PostgreSqlDrillProgress::Replay => bar.set_message("replaying the log"),
            PostgreSqlDrillProgress::Check => bar.set_message("checking"),
        });
    bar.finish_and_clear();
    let report = drilled?;
    let (restored, kept) = (&report.restored, arguments.keep.then_some(scratch));
    warn_of_passed_over(&restored.passed_over, restored.timeline, output);
    let stale = stale(arguments, restored.timeline, &restored.passed_over);
    let written = answer(&report, repository.url(), kept, stale.is_some(), output);
    let phases = report.phases;
    Ok(Outcome {
        recovery: phases.recovery(),
        phases: vec![("fetch", phases.fetch), ("replay", phases.replay), ("check", phases.check)],
        damages: report.checked.damages.len() as u64,
        stale,
        written,
    })
}

fn request_of(
    shared: &Shared,
    repository: &Repository,
    arguments: &DrillArguments,
    scratch: &Path,
) -> Result<PostgreSqlDrillRequest, Failure> {
    let (given, settings) = (&arguments.postgresql, &shared.settings);
    let user = given.postgresql_user.clone().unwrap_or_else(|| settings.require("drill.postgresql_user"));
    let user = ServerUser::for_root(&user);
    let user = user?;
    let command = match &given.restore_command {
        Some(command) => command.clone(),
        None => restore_command(shared, repository, &arguments.repository)?,
    };
    let restore = PostgreSqlRestoreRequest {
        target: target(arguments.to_lsn, arguments.to_time, arguments.to_name.as_deref()),
        timeline: arguments.timeline.and_then(TimelineId::new),
        backup: arguments.backup.clone(),
        threads: threads(shared, arguments),
        ..PostgreSqlRestoreRequest::new(command)
    };
    let guard = std::env::current_exe().map_err(Failure::io("cannot find the program"))?;
    let defaults = PostgreSqlDrillRequest::new(restore, guard);
    let time = |given: Option<Duration>, path| {
        given.or_else(|| settings.time(path)).expect("the setting has a default")
    };
    let query = given.query.as_ref().map(|sql| CheckQuery {
        sql: sql.clone(),
        database: given.query_database.clone().unwrap_or_else(|| "postgres".to_owned()),
    });
    Ok(PostgreSqlDrillRequest {
        programs: given.postgresql_programs.clone().or_else(|| settings.path("drill.postgresql_programs")),
        user,
        settings: match &given.postgresql_setting[..] {
            [] => settings.texts("drill.postgresql_setting").to_vec(),
            given => given.to_vec(),
        },
        environment: environment(scratch),
        query,
        patience: time(given.recovery_timeout, "drill.recovery_timeout"),
        check_patience: time(given.check_timeout, "drill.check_timeout"),
        ..defaults
    })
}

/// So that what archive-get leaves goes with the directory, and statistics of the agent there are not taken for production's.
fn environment(scratch: &Path) -> Vec<(OsString, OsString)> {
    let in_scratch = |name: &str, file: &str| (OsString::from(name), scratch.join(file).into_os_string());
    vec![in_scratch("SEAWALL_SPOOL", "spool"), in_scratch("SEAWALL_PROMETHEUS_FILE", "agent.prom")]
}

fn answer(
    report: &PostgreSqlDrillReport,
    url: &str,
    kept: Option<&Path>,
    is_stale: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let (phases, checked, restored) = (&report.phases, &report.checked, &report.restored);
    let manifest = &restored.backup.manifest;
    if output.json() {
        return output.line(json!({
            "repository": url, "backup": restored.backup.id, "system": System::PostgreSql(manifest.system).to_string(),
            "end": report.end.to_string(), "last_commit_micros": report.last_commit_micros,
            "from_timeline": restored.timeline.get(), "files": manifest.files, "bytes": manifest.bytes(),
            "recovery_seconds": phases.recovery().as_secs_f64(),
            "phases_seconds": {
                "fetch": phases.fetch.as_secs_f64(), "replay": phases.replay.as_secs_f64(),
                "check": phases.check.as_secs_f64(),
            },
            "checked_databases": checked.databases, "checked_tables": checked.tables, "checked_rows": checked.rows,
            "checked_pages": checked.pages, "answer": checked.answer, "damages": checked.damages,
            "ok": checked.damages.is_empty() && !is_stale, "kept": kept.map(|path| path.display().to_string()),
            "passed_over": passed_over_json(&restored.passed_over),
        }));
    }
    checked.damages.iter().try_for_each(|damage| output.line(damage))?;
    let last = report.last_commit_micros.map_or(String::new(), |micros| format!(", {}", utc(micros)));
    output.line(format_args!("restored from {} to {}{last}", restored.backup.id, report.end))?;
    output.line(format_args!("time to recover  {}", duration(phases.recovery())))?;
    let files = format!("{} files, {}", grouped(manifest.files), size(manifest.bytes()));
    output.line(format_args!("  fetch          {} ({files})", duration(phases.fetch)))?;
    output.line(format_args!("  replay         {}", duration(phases.replay)))?;
    let result = if checked.damages.is_empty() { "no damage found" } else { "DAMAGED" };
    let looked_at = match &checked.answer {
        Some(_) => "the query".to_owned(),
        None => format!(
            "{} databases, {} tables, {} rows{}",
            grouped(checked.databases),
            grouped(checked.tables),
            grouped(checked.rows),
            checked.pages.map_or(String::new(), |pages| format!(", {} pages", grouped(pages)))
        ),
    };
    output.line(format_args!("check            {} ({looked_at}): {result}", duration(phases.check)))?;
    match &checked.answer {
        Some(answer) => output.line(answer),
        None => Ok(()),
    }
}
