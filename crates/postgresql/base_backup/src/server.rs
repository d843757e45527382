//! A running cluster, by its own programs: `psql` asks it, `pg_basebackup` reads it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seawall_types::Lsn;
use serde::Deserialize;

use super::bad_pages::BadPages;
use super::error::PostgreSqlBackupError;
use super::patience::Patience;

/// Lines that a program's message is made of, if it fails: its last ones.
const LINES_KEPT: usize = 20;

/// How long a program of PostgreSQL tries to connect: what libpq reads, and what it is set to at most and at least (libpq takes less for
/// that, too).
const CONNECT_TIMEOUT: &str = "PGCONNECT_TIMEOUT";
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(60);
const CONNECT_SECONDS_MIN: u64 = 2;

/// What is asked of a server, in one row.
const LOOK: &str = "select json_build_object(
 'system', (select system_identifier::text from pg_control_system()),
 'release', current_setting('server_version_num')::int,
 'segment_bytes', (select setting::bigint from pg_settings where name = 'wal_segment_size'),
 'position', (case when pg_is_in_recovery() then (select redo_lsn from pg_control_checkpoint())
   else pg_current_wal_lsn() end)::text,
 'timeline', (select timeline_id from pg_control_checkpoint()),
 'is_standby', pg_is_in_recovery(),
 'is_superuser', current_setting('is_superuser') = 'on',
 'archive_mode', current_setting('archive_mode'),
 'last_archived', (select last_archived_wal from pg_stat_archiver),
 'tablespaces', (select coalesce(json_agg(spcname), '[]') from pg_tablespace
   where spcname not in ('pg_default', 'pg_global')),
 'bytes', (select sum(case when has_database_privilege(oid, 'CONNECT') then pg_database_size(oid) end)::bigint
   from pg_database),
 'micros', (extract(epoch from clock_timestamp()) * 1000000)::bigint)";

/// The server's clock, microseconds since 1970.
const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";

/// What the archiver does, and whether a base backup waits for it.
const ARCHIVER: &str = "select json_build_object(
 'waits', exists (select from pg_stat_progress_basebackup where phase = 'waiting for wal archiving to finish'),
 'archive_mode', current_setting('archive_mode'),
 'archive_command', (select setting from pg_settings where name = 'archive_command'),
 'last_archived', last_archived_wal, 'last_archived_time', last_archived_time::text,
 'failed_count', failed_count, 'last_failed', last_failed_wal, 'last_failed_time', last_failed_time::text)
 from pg_stat_archiver";

/// How a cluster is reached.
#[derive(Clone, Debug, Default)]
pub struct PostgreSqlServer {
    /// A connection string or URI, as `psql -d` takes it; none: what `PGHOST` and its like say.
    pub connection: Option<String>,
    /// Where `pg_basebackup` and `psql` are; none: in the `PATH`.
    pub programs: Option<PathBuf>,
}

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ServerState {
    pub(super) system: String,
    pub(super) release: u32,
    pub(super) segment_bytes: u32,
    position: String,
    pub(super) timeline: u32,
    pub(super) is_standby: bool,
    /// The role may set what others may not.
    pub(super) is_superuser: bool,
    pub(super) archive_mode: String,
    pub(super) last_archived: Option<String>,
    pub(super) tablespaces: Vec<String>,
    /// About as much as there is to read, as far as the user may know.
    pub(super) bytes: Option<u64>,
    /// The server's clock, microseconds since 1970.
    pub(super) micros: i64,
}

impl ServerState {
    /// No backup that begins now begins before this place.
    pub(super) fn position(&self) -> Lsn {
        self.position.parse().unwrap_or(Lsn::ZERO)
    }
}

/// What a server says of its archiver.
#[derive(Debug, Deserialize)]
pub(super) struct ArchiverState {
    /// A base backup has been read, and waits for the log to be archived.
    pub(super) waits: bool,
    archive_mode: String,
    archive_command: Option<String>,
    last_archived: Option<String>,
    last_archived_time: Option<String>,
    failed_count: i64,
    last_failed: Option<String>,
    last_failed_time: Option<String>,
}

impl ArchiverState {
    /// For a message.
    pub(super) fn words(&self) -> String {
        let at = |name: &Option<String>, time: &Option<String>| match (name, time) {
            (Some(name), Some(time)) => format!("{name} at {time}"),
            (Some(name), None) => name.clone(),
            (None, _) => "nothing".to_owned(),
        };
        let archived = at(&self.last_archived, &self.last_archived_time);
        let failed = match self.failed_count {
            0 => "has not failed".to_owned(),
            count => format!("failed {count} times, last {}", at(&self.last_failed, &self.last_failed_time)),
        };
        let command = self.archive_command.as_deref().and_then(program_of).unwrap_or("not shown");
        format!(
            "PostgreSQL (archive_mode {}, archive_command {command}) has archived {archived} last, and {failed}; the cause is in \
             its log",
            self.archive_mode
        )
    }
}

/// The program that a shell command runs, if that is its first word. Assignments before it and arguments after it may be secrets, and
/// messages get into logs.
fn program_of(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    word.bytes().all(is_plain).then_some(word)
}

/// A server that is asked, and not waited for longer than so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedServer<'a> {
    pub(super) server: &'a PostgreSqlServer,
    pub(super) patience: Patience<'a>,
}

impl PostgreSqlServer {
    fn command(&self, program: &str) -> (String, Command) {
        let path = self
            .programs
            .as_ref()
            .map_or_else(|| PathBuf::from(program), |directory| directory.join(program));
        let mut command = Command::new(&path);
        command.stdin(Stdio::null());
        if let Some(connection) = &self.connection {
            command.arg("-d").arg(connection);
        }
        // Rather an error than a question that nobody answers.
        command.arg("--no-password");
        (path.display().to_string(), command)
    }
}

impl AskedServer<'_> {
    /// A program that connects to it, within the limit unless the caller's environment or connection string has another one.
    fn command(&self, program: &str) -> (String, Command) {
        let (name, mut command) = self.server.command(program);
        if std::env::var_os(CONNECT_TIMEOUT).is_none() {
            let seconds = self.patience.limit.min(CONNECT_TIMEOUT_MAX).as_secs().max(CONNECT_SECONDS_MIN);
            command.env(CONNECT_TIMEOUT, seconds.to_string());
        }
        (name, command)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&self, query: &str) -> Result<T, PostgreSqlBackupError> {
        let (program, mut command) = self.command("psql");
        // A database of the user's name, which would be the default, often is not there.
        if std::env::var_os("PGDATABASE").is_none() {
            command.env("PGDATABASE", "postgres");
        }
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", query]);
        let failed = |message: String| PostgreSqlBackupError::Failed { program: program.clone(), message };
        let output = self.patience.output(&mut command, Child::kill);
        let output =
            output.map_err(|source| PostgreSqlBackupError::Program { program: program.clone(), source })?;
        let output = output.ok_or_else(|| failed(self.silence("has not answered")))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let answer = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(answer.trim())
            .map_err(|error| failed(format!("it answered {:?}: {error}", answer.trim())))
    }

    /// For a message: what the server has not done within the limit.
    pub(super) fn silence(&self, what: &str) -> String {
        let seconds = self.patience.limit.as_secs();
        format!(
            "the server {what} within {seconds} s: look whether it hangs, or the network to it, and take the backup again \
             (--answer-timeout is how long it is waited for)"
        )
    }

    pub(super) fn look(&self) -> Result<ServerState, PostgreSqlBackupError> {
        self.ask(LOOK)
    }

    pub(super) fn clock_micros(&self) -> Result<i64, PostgreSqlBackupError> {
        self.ask(CLOCK)
    }

    pub(super) fn archiver(&self) -> Result<ArchiverState, PostgreSqlBackupError> {
        self.ask(ARCHIVER)
    }

    /// Starts `pg_basebackup`, which writes a tar archive.
    pub(super) fn base_backup(
        &self,
        arguments: &[OsString],
        is_superuser: bool,
    ) -> Result<BaseBackup, PostgreSqlBackupError> {
        let (program, mut command) = self.command("pg_basebackup");
        command.args([
            "--pgdata=-",
            "--format=tar",
            "--wal-method=none",
            "--manifest-checksums=CRC32C",
            "--no-sync",
        ]);
        // Its own words are looked at, and not those of a translation.
        command.env("LC_ALL", "C");
        if is_superuser {
            // So are those of the server. Another role would be refused with this.
            let mut server_options = std::env::var_os("PGOPTIONS").unwrap_or_default();
            server_options.push(" -c lc_messages=C");
            command.env("PGOPTIONS", server_options);
        }
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child =
            started.map_err(|source| PostgreSqlBackupError::Program { program: program.clone(), source })?;
        let stdout = child.stdout.take().expect("it was started with a pipe");
        let stderr = child.stderr.take().expect("it was started with a pipe");
        let messages = std::thread::spawn(move || listen(stderr));
        Ok(BaseBackup { program, child, stdout: Some(stdout), messages: Some(messages) })
    }
}

/// What a program says: its last lines, and what it says of bad pages.
#[derive(Debug, Default)]
struct Said {
    last_lines: Vec<String>,
    bad_pages: BadPages,
}

fn listen(source: impl Read) -> Said {
    let Said { last_lines: mut kept, mut bad_pages } = Said::default();
    for line in BufReader::new(source).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        tracing::info!(line, "pg_basebackup");
        bad_pages.look_at(&line);
        if kept.len() == LINES_KEPT {
            kept.remove(0);
        }
        kept.push(line);
    }
    Said { last_lines: kept, bad_pages }
}

/// A `pg_basebackup` that runs; it is killed if this is dropped before it has ended.
#[derive(Debug)]
pub(super) struct BaseBackup {
    program: String,
    child: Child,
    /// Until it is waited for.
    stdout: Option<ChildStdout>,
    messages: Option<JoinHandle<Said>>,
}

impl BaseBackup {
    /// Reads what comes, or `None` if nothing has come for so long.
    pub(super) fn read(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
        let Some(stdout) = &mut self.stdout else { return Ok(Some(0)) };
        let mut source = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
        match poll(&mut source, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
            Ok(_) => stdout.read(buffer).map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end, which must be a good one.
    ///
    /// # Errors
    /// `BadPages` if all was written, and pages have wrong checksums.
    pub(super) fn finish(mut self) -> Result<(), PostgreSqlBackupError> {
        // If it still writes, it must not wait for a reader.
        self.stdout = None;
        let status = self.child.wait();
        let said = self.messages.take().and_then(|messages| messages.join().ok()).unwrap_or_default();
        let Said { last_lines: lines, bad_pages } = said;
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                if let Some(files) = bad_pages.reason() {
                    return Err(PostgreSqlBackupError::BadPages { files });
                }
                let message = if lines.is_empty() { status.to_string() } else { lines.join("\n") };
                Err(PostgreSqlBackupError::Failed { program: self.program.clone(), message })
            }
            Err(source) => Err(PostgreSqlBackupError::Program { program: self.program.clone(), source }),
        }
    }
}

impl Drop for BaseBackup {
    fn drop(&mut self) {
        // One that has ended is no error.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "pg_basebackup could not be ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(archive_command: &str) -> String {
        let state = ArchiverState {
            waits: false,
            archive_mode: "on".to_owned(),
            archive_command: Some(archive_command.to_owned()),
            last_archived: None,
            last_archived_time: None,
            failed_count: 0,
            last_failed: None,
            last_failed_time: None,
        };
        state.words()
    }

    #[test]
    fn no_secret_of_a_command_gets_into_a_message() {
        for command in [
            "/usr/bin/seawall archive-push --repository=s3://b?x=hunter2 %p",
            "AWS_SECRET_ACCESS_KEY=hunter2 /usr/bin/seawall archive-push %p",
            "\"hunter2\"",
            "cd x; TOKEN='hunter2' push %p",
        ] {
            assert!(!words(command).contains("hunter2"), "{}", words(command));
        }
        assert!(words("/usr/bin/seawall archive-push %p").contains("archive_command /usr/bin/seawall)"));
        assert!(words("false").contains("archive_command false)"));
        assert!(words("").contains("not shown"));
    }
}
