//! A server that is a process of its own: it can be killed, and is looked at from outside.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use seawall_testing::wait_for;
use serde_json::Value;

use crate::client::{Client, Message, query, shown};

/// Where a database, and what its servers have said, are.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    database: &'static str,
    /// `TMPDIR` of its servers.
    pub(crate) temporary_directory: Option<PathBuf>,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::with_database("db")
    }

    /// With a database elsewhere.
    pub(crate) fn with_database(database: &'static str) -> Place {
        Place { directory: tempfile::tempdir().unwrap(), database, temporary_directory: None }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        command.current_dir(self.path()).env("SEAWALL_CONFIG", "/dev/null").args(arguments);
        command
    }

    /// A server of the database, as soon as it answers.
    pub(crate) fn serve(&self, more: &[&str]) -> Serving {
        self.serve_database(self.database, more)
    }

    /// As `serve`, of another database of this place.
    pub(crate) fn serve_database(&self, database: &str, more: &[&str]) -> Serving {
        let started = self.start_database(database, more);
        started.serving().unwrap_or_else(|ended| panic!("{}", std::fs::read_to_string(ended.log).unwrap()))
    }

    /// A server that may not answer yet.
    pub(crate) fn start(&self, more: &[&str]) -> Started {
        self.start_database(self.database, more)
    }

    pub(crate) fn start_database(&self, database: &str, more: &[&str]) -> Started {
        self.start_on(0, database, more)
    }

    /// As `start_database`, on a port that is known; 0: any.
    pub(crate) fn start_on(&self, port: u16, database: &str, more: &[&str]) -> Started {
        let name = if database == self.database { "log".to_owned() } else { format!("log of {database}") };
        let log = self.path().join(name);
        let said = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let port = port.to_string();
        let words = ["serve", database, "--json", "--port", &port, "--unix-socket", "off"];
        let mut command = self.command(&words);
        if let Some(directory) = &self.temporary_directory {
            command.env("TMPDIR", directory);
        }
        command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        Started { child: command.spawn().unwrap(), log }
    }

    /// Every page and every record of the database, which nobody serves, is sound.
    pub(crate) fn check(&self) {
        let output = self.command(&["check", self.database]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("no damage"), "{output:?}");
    }
}

/// A server of which nobody knows whether it answers.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
}

impl Started {
    /// The server as soon as it answers, or what it was if it ends before.
    pub(crate) fn serving(mut self) -> Result<Serving, Started> {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Ok(answer) = serde_json::from_str::<Value>(&line) else { return Err(self) };
        let port = answer["port"].as_u64().unwrap().try_into().unwrap();
        Ok(Serving { child: self.child, port, log: self.log })
    }
}

/// A server that answers.
pub(crate) struct Serving {
    child: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Serving {
    pub(crate) fn client(&self) -> Client {
        Client::logged_in(self.port, "postgres")
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the server in order.
    pub(crate) fn end(mut self) {
        self.signal("INT");
        let status = wait_for("the server ends", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.said());
        self.panics_nowhere();
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// What it has said on standard error.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Nothing has panicked.
    pub(crate) fn panics_nowhere(&self) {
        let said = self.said();
        assert!(!said.contains("panicked"), "{said}");
    }

    /// The memory of the process, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// The most memory that it has had.
    pub(crate) fn memory_max_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Files and sockets that are open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Runs statements that succeed, in one message; returns the rows of all of them.
pub(crate) fn rows(client: &mut Client, sql: &str) -> Vec<Vec<Option<String>>> {
    answered(client, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

/// The single value of a statement that succeeds.
pub(crate) fn value(client: &mut Client, sql: &str) -> String {
    let mut rows = rows(client, sql);
    assert!(rows.len() == 1 && rows[0].len() == 1, "{sql}: {rows:?}");
    rows.remove(0).remove(0).unwrap_or_default()
}

/// Why a text has no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// SQLSTATE and message.
    Told { code: String, line: String },
    /// The connection is gone, and nobody knows.
    Lost,
}

/// Runs statements in one message; returns the rows of all of them, or the error.
pub(crate) fn answered(client: &mut Client, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
    client.try_send(&query(sql)).map_err(|_| Failure::Lost)?;
    let (mut rows, mut told) = (Vec::new(), None);
    loop {
        let Some(message) = client.receive() else { return Err(told.unwrap_or(Failure::Lost)) };
        match message.kind {
            b'D' => rows.push(values(&message.body)),
            b'E' => told = Some(failure(&message)),
            b'Z' => return told.map_or(Ok(rows), Err),
            _ => {}
        }
    }
}

pub(crate) fn failure(message: &Message) -> Failure {
    let fields = message.body.split(|byte| *byte == 0);
    let code = fields.into_iter().find_map(|field| field.strip_prefix(b"C"));
    Failure::Told {
        code: String::from_utf8_lossy(code.unwrap_or_default()).into_owned(),
        line: shown(message),
    }
}

fn values(body: &[u8]) -> Vec<Option<String>> {
    let count = u16::from_be_bytes(*body.first_chunk().unwrap());
    let mut rest = &body[2..];
    (0..count)
        .map(|_| {
            let length = i32::from_be_bytes(*rest.first_chunk().unwrap());
            rest = &rest[4..];
            let (value, after) = rest.split_at(usize::try_from(length).ok()?);
            rest = after;
            Some(String::from_utf8_lossy(value).into_owned())
        })
        .collect()
}
