//! `backup --postgresql`, `restore` of a PostgreSQL cluster, and how its backups are shown.

pub(super) mod stored;

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use seawall::{Lsn, MasterKey, TimelineId};
use seawall_archive::{Repository, System};
use seawall_backup::{BackupError, databases};
use seawall_base_backup::{
    BackupCheckpoint, PostgreSqlBackupOptions, PostgreSqlBackupProgress, PostgreSqlRestoreProgress,
    PostgreSqlRestoreReport, PostgreSqlRestoreRequest, PostgreSqlServer, PostgreSqlTarget, RestoredRole,
    TargetAction, back_up_postgresql, clusters, restore_postgresql,
};
use seawall_engine::ArchiveMode;
use seawall_io::SystemClock;
use seawall_settings::KeyOf;
use serde_json::{Value, json};

use super::backup::passed_over::{passed_over_json, warn_of_passed_over};
use super::backup::work::{Work, archive_mode_of, archive_mode_word, restore_threads};
use super::repository::url_of;
use crate::arguments::postgresql as arguments;
use crate::arguments::{BackupArguments, RestoreArguments, Shared};
use crate::failure::Failure;
use crate::output::{Output, duration, grouped, size};
use crate::progress;
use crate::standard_error::tell;
use stored::{backup_json, bad_files_text};

pub(super) fn take(
    shared: &Shared,
    repository: &Repository,
    given: &BackupArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let (arguments, settings) = (&given.postgresql, &shared.settings);
    let Work { threads, bytes_per_second, packing } = Work::of(shared, given);
    let server = PostgreSqlServer {
        connection: arguments.postgresql.clone().filter(|connection| !connection.is_empty()),
        programs: arguments
            .postgresql_programs
            .clone()
            .or_else(|| settings.path("backup.postgresql_programs")),
    };
    let checkpoint = arguments.checkpoint.unwrap_or_else(|| settings.require("backup.checkpoint"));
    let seconds =
        |given: Option<u64>, path| Duration::from_secs(given.unwrap_or_else(|| settings.require(path)));
    let options = PostgreSqlBackupOptions {
        label: arguments.label.clone(),
        checkpoint: match checkpoint {
            arguments::Checkpoint::Fast => BackupCheckpoint::Fast,
            arguments::Checkpoint::Spread => BackupCheckpoint::Spread,
        },
        threads,
        bytes_per_second,
        packing,
        archive_timeout: seconds(arguments.archive_timeout, "backup.archive_timeout"),
        answer_timeout: seconds(arguments.answer_timeout, "backup.answer_timeout"),
        accepts_bad_pages: arguments.accept_bad_pages,
        ..PostgreSqlBackupOptions::default()
    };
    let bar = progress::bytes(None, "backing up");
    let taken = back_up_postgresql(&server, repository, &SystemClock, &options, &mut |step| match step {
        PostgreSqlBackupProgress::Reading { bytes, total } => {
            // An estimate: what is read beyond it is still shown.
            bar.set_length(total.unwrap_or(0).max(bytes));
            bar.set_position(bytes);
        }
        PostgreSqlBackupProgress::WaitingForCheckpoint => {
            bar.suspend(|| tell("waiting for the server's checkpoint; --checkpoint fast begins it at once"));
        }
        PostgreSqlBackupProgress::WaitingForLog { file } => {
            bar.set_message(format!("waiting until {file} is archived"));
        }
    });
    bar.finish_and_clear();
    let taken = taken?;
    output.note_done();
    let manifest = &taken.manifest;
    output.answer(
        &backup_json(&taken),
        format_args!(
            "backup {}: {} files, {}, with the log from {} to {}{}",
            taken.id,
            grouped(manifest.files),
            size(manifest.bytes()),
            manifest.start,
            manifest.end,
            bad_files_text(&taken)
        ),
    )?;
    if manifest.has_bad_pages {
        return Err(Failure::Verified {
            findings: format!("the backup was taken{}", bad_files_text(&taken)),
        });
    }
    Ok(())
}

/// The cluster that is to be restored; `None` if it is a database of Seawall's.
pub(super) fn cluster_of(
    repository: &Repository,
    system: Option<System>,
    database: Option<&str>,
) -> Result<Option<u64>, Failure> {
    match system {
        Some(System::PostgreSql(identifier)) => return Ok(Some(identifier)),
        Some(System::Seawall(_)) => return Ok(None),
        None if database.is_some() => return Ok(None),
        None => {}
    }
    let (databases, clusters) = (databases(repository)?, clusters(repository)?);
    match (&databases[..], &clusters[..]) {
        (_, []) => Ok(None),
        ([], [identifier]) => Ok(Some(*identifier)),
        _ => {
            let databases = databases.into_iter().map(System::Seawall);
            let names: Vec<String> = databases
                .chain(clusters.into_iter().map(System::PostgreSql))
                .map(|system| system.to_string())
                .collect();
            let problem = format!(
                "{} has several systems, name one with --system: {}",
                repository.url(),
                names.join(", ")
            );
            Err(BackupError::WhichDatabase { problem }.into())
        }
    }
}

pub(super) fn restore(
    shared: &Shared,
    repository: &Repository,
    identifier: u64,
    given: &RestoreArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let arguments = &given.postgresql;
    let target = target(given.to_lsn, given.to_time, given.to_name.as_deref());
    let restore_command = match &arguments.restore_command {
        Some(command) => command.clone(),
        None => restore_command(shared, repository, &given.repository)?,
    };
    let request = PostgreSqlRestoreRequest {
        target,
        timeline: given.timeline.and_then(TimelineId::new),
        backup: given.backup.clone(),
        action: match arguments.target_action {
            Some(arguments::TargetAction::Promote) => TargetAction::Promote,
            Some(arguments::TargetAction::Shutdown) => TargetAction::Shutdown,
            Some(arguments::TargetAction::Pause) | None => TargetAction::Pause,
        },
        role: if arguments.standby { RestoredRole::Standby } else { RestoredRole::Primary },
        archive_mode: archive_mode_of(given),
        threads: restore_threads(shared, given),
        ..PostgreSqlRestoreRequest::new(restore_command)
    };
    let bar = progress::bytes(Some(0), "restoring files");
    let restored =
        restore_postgresql(repository, identifier, &given.dir, &SystemClock, &request, &mut |step| {
            show(&bar, step);
        });
    bar.finish_and_clear();
    let report = restored?;
    output.note_done();
    warn_of_passed_over(&report.passed_over, report.timeline, output);
    if report.backup.manifest.has_bad_pages {
        output.warn(format_args!(
            "the backup was taken of a damaged cluster{}",
            bad_files_text(&report.backup)
        ));
    }
    let mut answer = report_json(&report);
    answer["archive_mode"] = archive_mode_word(request.archive_mode).into();
    let archiving = match request.archive_mode {
        ArchiveMode::Preserve => "",
        ArchiveMode::Off => {
            "\narchive_mode is off in it: if it takes the place of the original, `alter system set archive_mode = on`, restart it, and \
             take a backup"
        }
    };
    let pauses = if request.action == TargetAction::Pause && request.target != PostgreSqlTarget::Latest {
        "\nit will pause at the target, and can be read there: `select pg_wal_replay_resume()` promotes it; --target-action promote does \
         so by itself"
    } else {
        ""
    };
    answer["target_action"] = match request.target {
        PostgreSqlTarget::Latest => Value::Null,
        _ => action_word(request.action).into(),
    };
    output.answer(&answer, format_args!("{}{pauses}{archiving}", report_text(&report, &given.dir)))
}

fn action_word(action: TargetAction) -> &'static str {
    match action {
        TargetAction::Pause => "pause",
        TargetAction::Promote => "promote",
        TargetAction::Shutdown => "shutdown",
    }
}

pub(super) fn target(to_lsn: Option<Lsn>, to_time: Option<i64>, to_name: Option<&str>) -> PostgreSqlTarget {
    match (to_lsn, to_time, to_name) {
        (Some(lsn), ..) => PostgreSqlTarget::Lsn(lsn),
        (None, Some(micros), _) => PostgreSqlTarget::Time(micros),
        (None, None, Some(name)) => PostgreSqlTarget::RestorePoint(name.to_owned()),
        (None, None, None) => PostgreSqlTarget::Latest,
    }
}

pub(super) fn show(bar: &ProgressBar, step: PostgreSqlRestoreProgress) {
    match step {
        PostgreSqlRestoreProgress::Searching { segments } => {
            bar.set_message(format!("looking for the restore point, segments: {segments}"));
        }
        PostgreSqlRestoreProgress::Checking { bytes, total } => {
            bar.set_message("checking what is there already");
            bar.set_length(total);
            bar.set_position(bytes);
        }
        PostgreSqlRestoreProgress::Files { bytes, total, .. } => {
            bar.set_message("restoring files");
            bar.set_length(total);
            bar.set_position(bytes);
        }
    }
}

/// `archive-get` of this program, from this repository.
pub(super) fn restore_command(
    shared: &Shared,
    repository: &Repository,
    given: &Option<String>,
) -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("cannot tell where this program is"))?;
    let full = |path: &Path, what: &str| {
        let path = std::path::absolute(path).map_err(Failure::io(format!("cannot tell where {what} is")))?;
        Ok::<_, Failure>(path.display().to_string())
    };
    let mut words = vec![program.display().to_string(), "archive-get".to_owned()];
    // Its credentials, and whatever else is set there.
    if let Some(file) = shared.settings.named_file() {
        words.push(format!("--config={}", full(file, "the settings file")?));
    }
    words.push(format!("--repository={}", url_of(shared, given)?));
    match shared.key_of(KeyOf::Repositories).filter(|_| repository.is_encrypted()) {
        Some(MasterKey::File(file)) => {
            words.push(format!("--master-key-file={}", full(&file, "the master key")?));
        }
        Some(MasterKey::Environment(name)) => words.push(format!("--master-key-env={name}")),
        Some(MasterKey::Command(command)) => words.push(format!("--master-key-command={command}")),
        Some(MasterKey::Bytes(_)) | None => {}
    }
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    Ok(format!("{} %f %p", words.join(" ")))
}

/// A word for the shell that PostgreSQL runs the command with; PostgreSQL itself takes `%%` for `%`.
fn shell_word(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=@+,".contains(character);
    let word = word.replace('%', "%%");
    match word.chars().all(|character| is_plain(character) || character == '%') {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn report_json(report: &PostgreSqlRestoreReport) -> Value {
    let manifest = &report.backup.manifest;
    json!({
        "backup": report.backup.id, "system": System::PostgreSql(manifest.system).to_string(),
        "timeline": report.timeline.get(), "consistent_from": manifest.end.to_string(), "files": manifest.files,
        "bytes": manifest.bytes(), "kept_files": report.kept_files, "kept_bytes": report.kept_bytes,
        "fetched_bytes": report.fetched_bytes, "seconds": report.elapsed.as_secs_f64(),
        "passed_over": passed_over_json(&report.passed_over),
    })
}

fn report_text(report: &PostgreSqlRestoreReport, directory: &Path) -> String {
    let resumed = match report.kept_files {
        0 => String::new(),
        files => format!(
            " (resumed: {} of {} files, {}, were there already and are whole)",
            grouped(files),
            grouped(report.backup.manifest.files),
            size(report.kept_bytes)
        ),
    };
    format!(
        "restored the files of {} in {}{resumed}; start PostgreSQL in {}, and it recovers along timeline {}",
        report.backup.id,
        duration(report.elapsed),
        directory.display(),
        report.timeline
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_program_as_they_are() {
        for (word, expected) in [
            ("/usr/bin/seawall", "/usr/bin/seawall"),
            ("--repository=s3://a/b?region=x&y", "'--repository=s3://a/b?region=x&y'"),
            ("/srv/100%", "/srv/100%%"),
            ("it's", "'it'\\''s'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }
}
