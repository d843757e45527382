//! `drill`.

pub(super) mod outcome;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall::{Environment, OpenMode, TimelineId};
use seawall_archive::{Repository, System};
use seawall_backup::{DrillReport, RestoreRequest, VerifyOptions};
use seawall_engine::RestoreTarget;
use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use serde_json::json;

use super::backup::passed_over::{passed_over_json, warn_of_passed_over};
use super::backup::{Bars, database_id, left_behind, on_its_way_json, open_repository};
use super::inspect::{Tables, damage_text};
use super::{postgresql_backup, postgresql_drill};
use crate::arguments::{DrillArguments, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, duration, grouped};
use outcome::{Outcome, stale, threads};

pub(crate) fn drill(shared: &Shared, arguments: &DrillArguments, output: &mut Output) -> Result<(), Failure> {
    let drilled = run(shared, arguments, output);
    let prometheus_file =
        arguments.prometheus_file.clone().or_else(|| shared.settings.path("drill.prometheus_file"));
    let metrics = match &prometheus_file {
        Some(file) => write_prometheus(file, drilled.as_ref().ok())
            .map_err(Failure::io(format!("cannot write {}", file.display()))),
        None => Ok(()),
    };
    match (drilled.and_then(verdict), metrics) {
        // What the drill has found counts more than who else hears of it.
        (Err(found), Err(not_written)) if found.exit_code() != 0 => {
            output.warn(not_written);
            Err(found)
        }
        (verdict, metrics) => metrics.and(verdict),
    }
}

fn verdict(outcome: Outcome) -> Result<(), Failure> {
    let Outcome { damages, stale, written, .. } = outcome;
    match (damages, stale) {
        (0, None) => written,
        (0, Some(why)) => Err(Failure::Broken(why)),
        (count, _) => Err(Failure::Damage { findings: format!("{} damages", grouped(count)) }),
    }
}

/// The directory goes when this returns, whatever has happened.
fn run(shared: &Shared, arguments: &DrillArguments, output: &mut Output) -> Result<Outcome, Failure> {
    let repository = open_repository(shared, &arguments.repository)?;
    let (system, database) = (arguments.postgresql.system, arguments.database.as_deref());
    let cluster = postgresql_backup::cluster_of(&repository, system, database)?;
    if let (None, Some(option)) = (cluster, arguments.postgresql.given()) {
        return Err(Failure::Usage(format!(
            "{option} is for PostgreSQL clusters, and this is a database of Seawall's"
        )));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix("seawall-drill-").disable_cleanup(arguments.keep);
    let scratch = match arguments.scratch.clone().or_else(|| shared.settings.path("drill.scratch")) {
        Some(directory) => builder
            .tempdir_in(std::path::absolute(directory).map_err(Failure::io("cannot look for a directory"))?),
        None => builder.tempdir(),
    };
    let scratch = scratch.map_err(Failure::io("cannot make a scratch directory"))?;
    let mut outcome = match cluster {
        Some(cluster) => {
            postgresql_drill::run(shared, &repository, cluster, arguments, scratch.path(), output)
        }
        None => run_own(shared, &repository, arguments, scratch.path(), output),
    }?;
    if arguments.keep {
        if !output.json() && outcome.written.is_ok() {
            outcome.written = output.line(format_args!("kept in          {}", scratch.path().display()));
        }
    } else {
        let path = scratch.path().display().to_string();
        scratch.close().map_err(Failure::io(format!("cannot remove {path}")))?;
    }
    Ok(outcome)
}

fn run_own(
    shared: &Shared,
    repository: &Repository,
    arguments: &DrillArguments,
    scratch: &Path,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let request = RestoreRequest {
        target: match (&arguments.to_lsn, &arguments.to_time, &arguments.to_name) {
            (Some(lsn), ..) => RestoreTarget::Lsn(*lsn),
            (None, Some(micros), _) => RestoreTarget::Time(*micros),
            (None, None, Some(name)) => RestoreTarget::RestorePoint(name.clone()),
            (None, None, None) => RestoreTarget::Latest,
        },
        timeline: arguments.timeline.and_then(TimelineId::new),
        database: match (&arguments.database, arguments.postgresql.system) {
            (None, Some(System::Seawall(database))) => Some(database),
            (given, _) => given.as_deref().map(database_id).transpose()?,
        },
        backup: arguments.backup.clone(),
        threads: threads(shared, arguments),
        // As `verify` has it.
        settle: Some(VerifyOptions::default().settle),
        ..RestoreRequest::default()
    };
    let environment = Environment::of_the_system(Arc::new(OsDisk::new(scratch)));
    let options = super::options(shared, OpenMode::Existing);
    let mut bars = Bars::default();
    let mut damages = Vec::new();
    let drilled = seawall_backup::drill(
        repository,
        &environment,
        &options,
        &request,
        &mut |damage| damages.push(damage_text(&damage, &Tables::new())),
        &mut |step| bars.show(step),
    );
    bars.clear();
    let report = drilled?;
    let (restored, kept) = (&report.restored, arguments.keep.then(|| scratch.display().to_string()));
    warn_of_passed_over(&restored.passed_over, restored.from_timeline, output);
    let stale = stale(arguments, restored.from_timeline, &restored.passed_over);
    let place = Place { url: repository.url(), kept: kept.as_deref(), is_stale: stale.is_some() };
    let written = answer(&report, &place, &damages, output);
    if report.checked.damages == 0 && report.checked.unreadable > 0 {
        return Err(Failure::Unreadable { places: format!("{} places", grouped(report.checked.unreadable)) });
    }
    let phases = report.phases;
    Ok(Outcome {
        recovery: phases.recovery(),
        phases: vec![
            ("fetch", phases.fetch),
            ("rows", phases.rows),
            ("replay", phases.replay),
            ("check", phases.check),
        ],
        damages: report.checked.damages,
        stale,
        written,
    })
}

/// What a drill was of.
struct Place<'a> {
    url: &'a str,
    /// Where it is left.
    kept: Option<&'a str>,
    is_stale: bool,
}

fn answer(
    report: &DrillReport,
    place: &Place<'_>,
    damages: &[String],
    output: &mut Output,
) -> Result<(), Failure> {
    let (phases, restored) = (&report.phases, &report.restored);
    let value = json!({
        "repository": place.url, "backup": restored.backup, "end": restored.end.end.to_string(),
        "last_commit_micros": restored.end.last_commit_micros, "from_timeline": restored.from_timeline.get(),
        "rows": restored.rows, "recovery_seconds": phases.recovery().as_secs_f64(),
        "phases_seconds": {
            "fetch": phases.fetch.as_secs_f64(), "rows": phases.rows.as_secs_f64(),
            "replay": phases.replay.as_secs_f64(), "check": phases.check.as_secs_f64(),
        },
        "checked_pages": report.checked.pages, "checked_rows": report.checked.rows, "damages": damages,
        "ok": damages.is_empty() && !place.is_stale, "kept": place.kept,
        "on_its_way": on_its_way_json(restored), "passed_over": passed_over_json(&restored.passed_over),
    });
    if output.json() {
        return output.line(value);
    }
    damages.iter().try_for_each(|damage| output.line(damage))?;
    let last = restored.end.last_commit_micros.map_or(String::new(), |micros| format!(", {}", utc(micros)));
    output.line(format_args!("restored from {} to {}{last}", restored.backup, restored.end.end))?;
    left_behind(restored).iter().try_for_each(|line| output.line(line))?;
    output.line(format_args!("time to recover  {}", duration(phases.recovery())))?;
    output.line(format_args!("  fetch          {}", duration(phases.fetch)))?;
    output.line(format_args!(
        "  rows           {} ({} rows)",
        duration(phases.rows),
        grouped(restored.rows)
    ))?;
    output.line(format_args!("  replay         {}", duration(phases.replay)))?;
    let checked = format!("{} pages, {} rows", grouped(report.checked.pages), grouped(report.checked.rows));
    let result = match damages.is_empty() {
        true => "no damage found",
        false if report.checked.damages == 0 => "NOT ALL READ",
        false => "DAMAGED",
    };
    output.line(format_args!("check            {} ({checked}): {result}", duration(phases.check)))
}

const LAST_SUCCESS: &str = "seawall_drill_last_success_seconds";

/// Whoever reads it finds all of it. When the last drill succeeded stays in it when a later one does not.
fn write_prometheus(path: &Path, outcome: Option<&Outcome>) -> io::Result<()> {
    let now = SystemClock.wall_micros() / 1_000_000;
    let is_good = outcome.is_some_and(|outcome| outcome.damages == 0 && outcome.stale.is_none());
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let before = before.lines().find_map(|line| line.strip_prefix(LAST_SUCCESS)?.trim().parse::<i64>().ok());
    let last_success = if is_good { Some(now) } else { before };
    let text = prometheus_text(now, is_good, last_success, outcome);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    let disk = OsDisk::new(directory);
    // The collector reads files that end in `.prom`.
    let new = format!("{name}.new");
    write_new(&disk, directory, &new, &text)?;
    disk.rename(&new, name)
}

/// Writes a file that is not there. The directory may be somebody else's, and a link there lead anywhere: what is there of an earlier
/// attempt goes, and is not written to.
fn write_new(disk: &OsDisk, directory: &Path, name: &str, text: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut file = std::fs::File::options().write(true).create_new(true).open(directory.join(name))?;
    file.write_all(text.as_bytes())
}

fn prometheus_text(now: i64, is_good: bool, last_success: Option<i64>, outcome: Option<&Outcome>) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, values: &[(&str, String)]| {
        let head = format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
        text.push_str(&head);
        for (labels, value) in values {
            writeln!(text, "{name}{labels} {value}").expect("writing to a String cannot fail");
        }
    };
    metric("seawall_drill_last_run_seconds", "when the last drill ended", &[("", now.to_string())]);
    metric("seawall_drill_success", "1 if the last drill succeeded", &[("", i32::from(is_good).to_string())]);
    if let Some(last_success) = last_success {
        metric(LAST_SUCCESS, "when a drill last succeeded", &[("", last_success.to_string())]);
    }
    if let Some(outcome) = outcome {
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let recovery = seconds(outcome.recovery);
        metric("seawall_drill_recovery_seconds", "time to recover in the last drill", &[("", recovery)]);
        let phases = outcome.phases.iter();
        let labels: Vec<(String, String)> =
            phases.map(|(name, time)| (format!("{{phase=\"{name}\"}}"), seconds(*time))).collect();
        let each: Vec<(&str, String)> =
            labels.iter().map(|(labels, value)| (labels.as_str(), value.clone())).collect();
        metric("seawall_drill_phase_seconds", "phases of the last drill", &each);
    }
    text
}
