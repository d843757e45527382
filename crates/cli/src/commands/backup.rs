//! `backup`, `backup list`, `restore`.

pub(super) mod passed_over;
pub(super) mod stored;
pub(super) mod work;

use std::sync::Arc;

use seawall::{DatabaseDirectory, DatabaseId, Environment, OpenMode, TimelineId};
use seawall_archive::{Repository, System};
use seawall_backup::{
    BackupOptions, BackupStart, BackupStep, OnItsWay, RestoreProgress, RestoreReport, RestoreRequest, back_up,
};
use seawall_engine::{ArchiveMode, RestoreTarget};
use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use serde_json::{Value, json};

use super::postgresql_backup;
use crate::arguments::{
    ArchiveModeArguments, BackupArguments, BackupCommand, OneRepository, RestoreArguments, Shared, Switch,
};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, duration, grouped, size};
use crate::progress;
use crate::standard_error::tell;
use passed_over::{passed_over_json, warn_of_passed_over};
use stored::{backup_json, origin, shown};
use work::{Work, archive_mode_of, archive_mode_word, restore_threads};

pub(crate) fn backup(
    shared: &Shared,
    arguments: &BackupArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    match (&arguments.command, &arguments.dir) {
        (Some(BackupCommand::List(one)), _) => list(shared, one, output),
        (None, _) if arguments.postgresql.postgresql.is_some() => {
            let repository = open_repository(shared, &arguments.repository)?;
            postgresql_backup::take(shared, &repository, arguments, output)
        }
        (None, Some(dir)) => take(shared, arguments, dir, output),
        (None, None) => Err(Failure::Usage(
            "name the directory of the database, or give --postgresql for a cluster; `backup list` lists what there is".to_owned(),
        )),
    }
}

/// The repository. With a master key it must be encrypted: whoever gives one wants nothing to be put there in the clear, and nothing
/// to be believed that anybody could have put there.
pub(super) fn open_repository(shared: &Shared, given: &Option<String>) -> Result<Repository, Failure> {
    super::repository::open(shared, given)
}

/// Those that are named, or those that are set.
pub(super) fn open_repositories(shared: &Shared, given: &[String]) -> Result<Vec<Arc<Repository>>, Failure> {
    let open = |url: &Option<String>| Ok(Arc::new(open_repository(shared, url)?));
    let named = if given.is_empty() { shared.settings.texts("repository") } else { given };
    match named {
        // Says what to do.
        [] => Ok(vec![open(&None)?]),
        named => named.iter().cloned().map(Some).map(|url| open(&url)).collect(),
    }
}

fn take(
    shared: &Shared,
    arguments: &BackupArguments,
    dir: &std::path::Path,
    output: &mut Output,
) -> Result<(), Failure> {
    let repository = Arc::new(open_repository(shared, &arguments.repository)?);
    let database = super::open(shared, dir, OpenMode::Existing)?;
    let Work { threads, bytes_per_second, packing } = Work::of(shared, arguments);
    let options = BackupOptions {
        is_incremental: arguments.incremental,
        resumes: !arguments.no_resume,
        threads,
        bytes_per_second,
        packing,
        ..BackupOptions::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let bar = progress::bytes(None, "backing up");
    let mut notes = Vec::new();
    let taken = back_up(&database, &repository, &clock, &options, &mut |step| match step {
        BackupStep::Begins(start) => {
            tell_start(&bar, &start);
            notes = start.notes;
        }
        BackupStep::Reads(done) => bar.set_position(done.read_bytes),
    });
    bar.finish_and_clear();
    let taken = taken?;
    super::close(database, dir, output);
    let manifest = &taken.manifest;
    let mut answer = backup_json(&taken);
    answer["notes"] = notes.into();
    output.answer(
        &answer,
        format_args!(
            "backup {}{}: {} rows, {}, and {} of log, up to {}",
            taken.id,
            origin(&taken),
            grouped(manifest.user_rows()),
            size(manifest.bytes()),
            size(manifest.log_bytes()),
            manifest.end.end
        ),
    )
}

/// What a backup goes on with, and why it does not build on what it might have built on: on standard error.
fn tell_start(bar: &indicatif::ProgressBar, start: &BackupStart) {
    let goes_on = start.goes_on_with.as_ref().map(|id| format!("going on with {id}, which was cut short"));
    bar.suspend(|| goes_on.iter().chain(&start.notes).for_each(tell));
}

fn list(shared: &Shared, one: &OneRepository, output: &mut Output) -> Result<(), Failure> {
    let repository = open_repository(shared, one.given())?;
    for system in repository.systems()? {
        for (value, text) in shown(&repository, system)? {
            output.answer(&value, text)?;
        }
    }
    Ok(())
}

pub(crate) fn restore(
    shared: &Shared,
    arguments: &RestoreArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let repository = open_repository(shared, &arguments.repository)?;
    let (system, database) = (arguments.postgresql.system, arguments.database.as_deref());
    if let Some(cluster) = postgresql_backup::cluster_of(&repository, system, database)? {
        return postgresql_backup::restore(shared, &repository, cluster, arguments, output);
    }
    if let Some(option) = arguments.postgresql.given() {
        return Err(Failure::Usage(format!(
            "{option} is for PostgreSQL clusters, and this is a database of Seawall's"
        )));
    }
    let request = request_of(shared, arguments)?;
    let environment = Environment::of_the_system(Arc::new(OsDisk::new(&arguments.dir)));
    let options = super::options(shared, OpenMode::Existing);
    let mut bars = Bars::default();
    let restored =
        seawall_backup::restore(&repository, &environment, &options, &request, &mut |step| bars.show(step));
    bars.clear();
    let report = restored?;
    output.note_done();
    warn_of_passed_over(&report.passed_over, report.from_timeline, output);
    if let Some(why) = &report.not_reserved {
        output.warn(format_args!(
            "the number of timeline {} is not reserved in the repository, so another restore may take it, too; then it belongs to the \
             first that archives: {why}",
            report.timeline
        ));
    }
    let mut answer = report_json(&report);
    answer["archive_mode"] = archive_mode_word(request.archive_mode).into();
    let archiving = match request.archive_mode {
        ArchiveMode::Preserve => String::new(),
        ArchiveMode::Off => format!(
            "\nit does not archive, and no backup of it is taken: `seawall archive-mode {} on` if it takes the place of the original",
            arguments.dir.display()
        ),
    };
    output.answer(&answer, format_args!("{}{archiving}", report_text(&report)))
}

pub(crate) fn archive_mode(arguments: &ArchiveModeArguments, output: &mut Output) -> Result<(), Failure> {
    let disk = OsDisk::new(&arguments.dir);
    // A directory without a database has nothing to switch.
    if !disk.list_names("").is_ok_and(|names| names.iter().any(|name| name == "superblock")) {
        return Err(seawall::Error::NoDatabase { directory: disk.location("") }.into());
    }
    let directory = DatabaseDirectory::at(&arguments.dir);
    let (word, what) = match arguments.mode {
        Switch::On => {
            directory.allow_archiving()?;
            ("on", "archives where its program says so, and can be backed up")
        }
        Switch::Off => {
            directory.forbid_archiving()?;
            ("off", "is not opened with archives, and no backup of it is taken")
        }
    };
    output.note_done();
    let text = format_args!("from its next open on, the database in {} {what}", arguments.dir.display());
    output.answer(&json!({ "archive_mode": word }), text)
}

fn request_of(shared: &Shared, arguments: &RestoreArguments) -> Result<RestoreRequest, Failure> {
    let target = match (&arguments.to_lsn, &arguments.to_time, &arguments.to_name) {
        (Some(lsn), ..) => RestoreTarget::Lsn(*lsn),
        (None, Some(micros), _) => RestoreTarget::Time(*micros),
        (None, None, Some(name)) => RestoreTarget::RestorePoint(name.clone()),
        (None, None, None) => RestoreTarget::Latest,
    };
    let database = match (&arguments.database, arguments.postgresql.system) {
        (None, Some(System::Seawall(database))) => Some(database),
        (given, _) => given.as_deref().map(database_id).transpose()?,
    };
    Ok(RestoreRequest {
        target,
        timeline: arguments.timeline.and_then(TimelineId::new),
        new_timeline: arguments.new_timeline.and_then(TimelineId::new),
        archive_mode: archive_mode_of(arguments),
        database,
        backup: arguments.backup.clone(),
        threads: restore_threads(shared, arguments),
        ..RestoreRequest::default()
    })
}

pub(super) fn database_id(text: &str) -> Result<DatabaseId, Failure> {
    match format!("seawall-{text}").parse() {
        Ok(System::Seawall(database)) => Ok(database),
        Ok(System::PostgreSql(_)) | Err(_) => Err(Failure::Usage(format!(
            "{text:?} is not a valid database id: expected 32 hexadecimal digits"
        ))),
    }
}

fn report_json(report: &RestoreReport) -> Value {
    json!({
        "backup": report.backup, "end": report.end.end.to_string(),
        "last_commit_micros": report.end.last_commit_micros, "from_timeline": report.from_timeline.get(),
        "timeline": report.timeline.get(), "not_reserved": report.not_reserved, "rows": report.rows, "went_on": report.went_on,
        "seconds": report.elapsed.as_secs_f64(), "on_its_way": on_its_way_json(report),
        "passed_over": passed_over_json(&report.passed_over),
    })
}

pub(super) fn on_its_way_json(report: &RestoreReport) -> Value {
    let part = report.on_its_way.as_ref();
    part.map_or(Value::Null, |part| json!({ "from": part.from.to_string(), "to": part.to.to_string() }))
}

/// What a report says of the log that was not restored, in lines.
pub(super) fn left_behind(report: &RestoreReport) -> Vec<String> {
    let on_its_way = report.on_its_way.map(|OnItsWay { from, to }| {
        format!(
            "log from {to} on is in the repository, but not from {from} to {to}: it may be on its way, since later log is young"
        )
    });
    on_its_way.into_iter().collect()
}

fn report_text(report: &RestoreReport) -> String {
    let last = match report.end.last_commit_micros {
        Some(micros) => format!(", the last commit of {}", utc(micros)),
        None => String::new(),
    };
    let restored = format!(
        "restored from {} to {}{last}, in {}; the database is on timeline {} now",
        report.backup,
        report.end.end,
        duration(report.elapsed),
        report.timeline
    );
    [vec![restored], left_behind(report)].concat().join("\n")
}

/// A bar for each phase.
#[derive(Default)]
pub(super) struct Bars {
    bar: Option<(&'static str, indicatif::ProgressBar)>,
}

impl Bars {
    pub(super) fn show(&mut self, step: RestoreProgress) {
        let (phase, position, total) = match step {
            RestoreProgress::Log { segments } => ("fetching the log, segments:", segments, None),
            RestoreProgress::Rows { bytes, total, .. } => ("restoring rows", bytes, Some(total)),
            RestoreProgress::Replay { bytes, total } => ("replaying the log", bytes, Some(total)),
        };
        if self.bar.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            self.clear();
            let bar = match total {
                Some(total) => progress::bytes(Some(total), phase),
                None => progress::rows(phase),
            };
            self.bar = Some((phase, bar));
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_position(position);
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
