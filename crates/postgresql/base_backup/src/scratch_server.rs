//! A server that is started on what was restored, to see whether it recovers, and that nobody else can reach: on a socket in a
//! directory of its own, without a network, without an archive.
//!
//! ```text
//!   SCRATCH/  data/            the cluster
//!             pg_hba.conf      whoever can look into SCRATCH may connect as anybody
//!             postgresql.conf  only if the backup has none
//!             postgresql.log   what the server says
//!             .s.PGSQL.5432    where it listens
//! ```
//! It runs under a guard, which ends it, and what it has begun, when this process ends in whatever way. The directory stays then.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output};
use std::time::Duration;

use seawall_io::Clock;
use serde::Deserialize;

use super::error::PostgreSqlBackupError;
use super::patience::{Patience, in_memory};
use super::programs::{Programs, ServerUser};

/// How often it is looked whether it has recovered.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a question of our own about it may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(600);
/// Lines of its log that are shown, its last ones, if they are within so many bytes.
const LOG_LINES: usize = 20;
const LOG_BYTES: u64 = 16 << 10;
/// In `postmaster.pid`, where the server says how far it is.
const STATUS_LINE: usize = 7;
const RECOVERED: &str = "ready";

/// What `postgresql.conf` does not decide here. Nothing is told to the outside: there is no network, no archive, no job of an
/// extension, no subscription that takes what its slot has for somebody else; and it waits for nobody, no standby either. While it
/// recovers nobody can connect, so limits of connections do not have to be those of the primary.
const SETTINGS: [&str; 18] = [
    "listen_addresses=",
    "port=5432",
    "archive_mode=off",
    "hot_standby=off",
    "primary_conninfo=",
    "primary_slot_name=",
    "archive_cleanup_command=",
    "recovery_end_command=",
    "recovery_min_apply_delay=0",
    "synchronous_standby_names=",
    "shared_preload_libraries=",
    "max_logical_replication_workers=0",
    "autovacuum=off",
    "ssl=off",
    "restart_after_crash=off",
    "external_pid_file=",
    "logging_collector=off",
    "log_destination=stderr",
];

/// From release 17 on: a trigger on login is somebody's code.
const NO_EVENT_TRIGGERS: (u32, &str) = (17, "event_triggers=off");

/// Of these also what a database or a role of the cluster has for its sessions does not decide: damage must look like damage, in
/// words that are known here, and a library that is not here is none. Whoever looks says so, which comes before those.
const SESSION_SETTINGS: [&str; 6] = [
    "lc_messages=C",
    "zero_damaged_pages=off",
    "ignore_checksum_failure=off",
    "statement_timeout=0",
    "session_preload_libraries=",
    "local_preload_libraries=",
];

/// For a cluster whose configuration lies elsewhere: what was prepared when the backup was taken, and its locks, must find room.
const WITHOUT_CONFIGURATION: &str =
    "# The backup has none.\nmax_prepared_transactions = 1000\nmax_locks_per_transaction = 256\n";

/// A server on a restored cluster; ended at once if this is dropped.
#[derive(Debug)]
pub(super) struct ScratchServer<'a> {
    programs: &'a Programs,
    user: Option<ServerUser>,
    scratch: &'a Path,
    clock: &'a dyn Clock,
    program: String,
    session_options: String,
    log: File,
    /// As which the server ends, with all that it has begun.
    guard: Child,
}

/// How a server is started.
#[derive(Debug)]
pub(super) struct ServerStart<'a> {
    pub(super) programs: &'a Programs,
    /// See [`super::scratch_guard`].
    pub(super) guard: &'a Path,
    pub(super) user: Option<ServerUser>,
    /// The cluster is in `data` below it.
    pub(super) scratch: &'a Path,
    pub(super) settings: &'a [String],
    /// For the server, and so for its `restore_command`.
    pub(super) environment: &'a [(OsString, OsString)],
}

pub(super) fn data_directory(scratch: &Path) -> PathBuf {
    scratch.join("data")
}

impl<'a> ScratchServer<'a> {
    /// Starts it; it begins to recover.
    pub(super) fn start(
        start: &ServerStart<'a>,
        files: ServerFiles,
        clock: &'a dyn Clock,
    ) -> Result<ScratchServer<'a>, PostgreSqlBackupError> {
        let ServerStart { programs, user, scratch, .. } = *start;
        let ServerFiles { log, settings } = files;
        let (program, mut command) = programs.guarded(start.guard, "postgres", user);
        let logs = log.try_clone().and_then(|output| Ok((output, log.try_clone()?)));
        let (output, errors) = logs.map_err(PostgreSqlBackupError::io("cannot share the log of a server"))?;
        command.arg("-D").arg(data_directory(scratch));
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        command.current_dir(scratch).envs(start.environment.iter().cloned()).stdout(output).stderr(errors);
        let guard = command.spawn().map_err(|source| no_guard(start.guard, source))?;
        let session_options = session_options(programs.major, start.settings);
        Ok(ScratchServer { programs, user, scratch, clock, program, session_options, log, guard })
    }

    /// Waits until it has recovered, and takes connections.
    pub(super) fn wait_until_recovered(&mut self, patience: Duration) -> Result<(), PostgreSqlBackupError> {
        let begun = self.clock.monotonic();
        loop {
            if let Some(status) = self.look_for_end()? {
                return Err(self.failed(format!("it ended while it recovered ({status})")));
            }
            if self.has_recovered() {
                return Ok(());
            }
            if self.clock.monotonic().saturating_sub(begun) >= patience {
                return Err(self.failed(format!("it has not recovered within {} s", patience.as_secs())));
            }
            self.clock.sleep(LOOK_AGAIN);
        }
    }

    pub(super) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    fn has_recovered(&self) -> bool {
        let text = std::fs::read_to_string(data_directory(self.scratch).join("postmaster.pid"));
        text.is_ok_and(|text| text.lines().nth(STATUS_LINE).is_some_and(|line| line.trim() == RECOVERED))
    }

    fn look_for_end(&mut self) -> Result<Option<ExitStatus>, PostgreSqlBackupError> {
        self.guard.try_wait().map_err(PostgreSqlBackupError::io("cannot look after a server"))
    }

    /// It did not do what it should, and its log may say why.
    fn failed(&self, problem: String) -> PostgreSqlBackupError {
        let said = last_lines(&self.log).unwrap_or_else(|error| format!("(cannot read it: {error})"));
        let problem = format!(
            "{} did not work on what was restored: {problem}. Its log ends with\n{said}",
            self.program
        );
        PostgreSqlBackupError::Drill { problem }
    }

    /// `psql` with what it reads on its standard input; it stays until all of it was executed, whether that succeeds or not, and no
    /// longer than `patience`.
    pub(super) fn psql(
        &self,
        database: &str,
        arguments: &[&str],
        script: &str,
        patience: Duration,
    ) -> Result<Output, PostgreSqlBackupError> {
        let (program, mut command) = self.programs.command("psql", self.user);
        let role = std::env::var_os("PGUSER").unwrap_or_else(|| "postgres".into());
        command.env("PGHOST", self.scratch).env("PGPORT", "5432").env("PGUSER", role);
        command.env("PGDATABASE", database).env("PGOPTIONS", &self.session_options).current_dir(self.scratch);
        command.args(["-X", "-q", "-A", "-t", "--no-password"]).args(arguments);
        let patience = Patience { clock: self.clock, limit: patience };
        let output = in_memory(script).and_then(|script| patience.output(command.stdin(script), Child::kill));
        output.map_err(|source| PostgreSqlBackupError::Program { program, source })?.ok_or_else(|| {
            let seconds = patience.limit.as_secs();
            self.failed(format!("what database {database} was asked took longer than {seconds} s"))
        })
    }

    /// One value, which the query makes JSON.
    pub(super) fn ask<T: for<'b> Deserialize<'b>>(&self, query: &str) -> Result<T, PostgreSqlBackupError> {
        let output = self.psql("postgres", &["-v", "ON_ERROR_STOP=1"], query, ANSWER_PATIENCE)?;
        let answer = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(self.failed(format!("psql says: {}", message.trim())));
        }
        serde_json::from_str(answer.trim())
            .map_err(|error| self.failed(format!("it answered {:?}: {error}", answer.trim())))
    }

    /// An error if it has ended.
    pub(super) fn still_runs(&mut self) -> Result<(), PostgreSqlBackupError> {
        match self.look_for_end()? {
            Some(status) => Err(self.failed(format!("it ended while it was asked ({status})"))),
            None => Ok(()),
        }
    }

    /// Stops it so that its files are as they are to be.
    pub(super) fn stop(mut self, patience: Duration) -> Result<(), PostgreSqlBackupError> {
        let begun = self.clock.monotonic();
        let input = self.guard.stdin.as_mut().expect("it was started with a pipe");
        // A byte, whatever it is.
        input.write_all(b".").map_err(PostgreSqlBackupError::io("cannot stop a server"))?;
        loop {
            match self.look_for_end()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(format!("it ended badly ({status})"))),
                None if self.clock.monotonic().saturating_sub(begun) >= patience => {
                    return Err(self.failed(format!("it has not stopped within {} s", patience.as_secs())));
                }
                None => self.clock.sleep(LOOK_AGAIN),
            }
        }
    }
}

impl Drop for ScratchServer<'_> {
    /// At once: it ends its processes, and writes nothing. Waiting closes the input that the guard follows.
    fn drop(&mut self) {
        if let Err(error) = self.guard.wait() {
            tracing::warn!(%error, "a server may be left");
        }
    }
}

/// What lies beside the cluster. It is written before all of this is given to another user, who could put a link there.
#[derive(Debug)]
pub(super) struct ServerFiles {
    log: File,
    settings: Vec<OsString>,
}

impl ServerFiles {
    pub(super) fn write(start: &ServerStart<'_>) -> Result<ServerFiles, PostgreSqlBackupError> {
        let log = start.scratch.join("postgresql.log");
        let opened = File::options().create_new(true).read(true).append(true).mode(0o600).open(&log);
        let log = opened.map_err(PostgreSqlBackupError::io(format!("cannot write {}", log.display())))?;
        Ok(ServerFiles { log, settings: own_settings(start)? })
    }
}

fn no_guard(guard: &Path, source: io::Error) -> PostgreSqlBackupError {
    let problem = format!(
        "cannot run {} as the user that PostgreSQL runs as: {source}; let that user read it, and the way to it",
        guard.display()
    );
    PostgreSqlBackupError::Drill { problem }
}

/// What the command line sets, which comes before what files say; last what the caller wants.
fn own_settings(start: &ServerStart<'_>) -> Result<Vec<OsString>, PostgreSqlBackupError> {
    let (scratch, data) = (start.scratch, data_directory(start.scratch));
    let own = SETTINGS.into_iter().chain(session_settings(start.programs.major));
    let mut settings: Vec<OsString> = own.map(OsString::from).collect();
    let mut is_path = |name: &str, path: &Path| {
        let mut setting = OsString::from(format!("{name}="));
        setting.push(path);
        settings.push(setting);
    };
    is_path("data_directory", &data);
    is_path("hba_file", &write(scratch, "pg_hba.conf", "local all all trust\n")?);
    // A list: between quotes a comma is one.
    let quoted = format!("\"{}\"", scratch.display().to_string().replace('"', "\"\""));
    is_path("unix_socket_directories", Path::new(&quoted));
    if !data.join("postgresql.conf").exists() {
        is_path("config_file", &write(scratch, "postgresql.conf", WITHOUT_CONFIGURATION)?);
    }
    settings.extend(start.settings.iter().map(OsString::from));
    Ok(settings)
}

/// Those that a server of this release knows.
fn session_settings(major: u32) -> impl Iterator<Item = &'static str> {
    let (since, setting) = NO_EVENT_TRIGGERS;
    SESSION_SETTINGS.into_iter().chain((major >= since).then_some(setting))
}

/// `PGOPTIONS` of whoever looks: what the caller wants comes first here, too.
fn session_options(major: u32, wanted: &[String]) -> String {
    let wants = |name: &str| {
        wanted.iter().rev().find(|setting| {
            setting.split_once('=').is_some_and(|(wanted, _)| wanted.trim().eq_ignore_ascii_case(name))
        })
    };
    let options = session_settings(major).map(|setting| {
        let name = setting.split('=').next().expect("the first of any number of parts is there");
        let setting = wants(name).map_or(setting, String::as_str);
        // A blank ends one.
        format!("-c {}", setting.replace('\\', "\\\\").replace(' ', "\\ "))
    });
    options.collect::<Vec<_>>().join(" ")
}

fn write(scratch: &Path, name: &str, text: &str) -> Result<PathBuf, PostgreSqlBackupError> {
    let path = scratch.join(name);
    let written = std::fs::write(&path, text);
    written.map_err(PostgreSqlBackupError::io(format!("cannot write {}", path.display())))?;
    Ok(path)
}

fn last_lines(mut file: &File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
}

/// Runs a program that looks at the files of a cluster whose server has stopped, no longer than `patience`.
pub(super) fn on_files(
    start: &ServerStart<'_>,
    program: &str,
    argument: &str,
    patience: Patience<'_>,
) -> Result<(String, Output), PostgreSqlBackupError> {
    let (program, mut command) = start.programs.guarded(start.guard, program, start.user);
    command.arg("-D").arg(data_directory(start.scratch)).arg(argument).current_dir(start.scratch);
    let close_input = |guard: &mut Child| {
        // The guard ends the program then.
        guard.stdin = None;
        Ok(())
    };
    match patience.output(&mut command, close_input).map_err(|source| no_guard(start.guard, source))? {
        Some(output) => Ok((program, output)),
        None => {
            let seconds = patience.limit.as_secs();
            let problem = format!("{program} on what was restored took longer than {seconds} s");
            Err(PostgreSqlBackupError::Drill { problem })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_what_the_caller_wants_and_else_what_finds_damage() {
        let options = session_options(17, &[]);
        assert!(options.ends_with(" -c event_triggers=off"), "{options}");
        // An older server would refuse it.
        let options = session_options(16, &[]);
        assert!(!options.contains("event_triggers"), "{options}");
        assert!(options.starts_with("-c lc_messages=C -c zero_damaged_pages=off -c "), "{options}");
        let options =
            session_options(15, &["Zero_Damaged_Pages=on".to_owned(), "lc_messages=a b\\".to_owned()]);
        assert!(options.starts_with("-c lc_messages=a\\ b\\\\ -c Zero_Damaged_Pages=on -c "), "{options}");
    }

    #[test]
    fn the_last_lines_of_a_log_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = File::options()
            .create_new(true)
            .read(true)
            .append(true)
            .open(directory.path().join("log"))
            .unwrap();
        log.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(last_lines(&log).unwrap(), "one\ntwo");
        let long: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        log.write_all(long.as_bytes()).unwrap();
        let shown = last_lines(&log).unwrap();
        assert!(shown.starts_with("line 4980\n") && shown.ends_with("line 4999"), "{shown}");
    }
}
