//! `seawall serve` in a process of its own, psql as its client, and `kill -9` while rows go in.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::report::Report;
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{duration, grouped};

/// Statements that psql sends, one transaction each, until the server is killed.
const INSERTS: u64 = 100_000;
/// Acknowledged rows at which the server is killed.
const KILL_AT: u64 = 500;

/// A table, rows, and a transaction that waits for its decision when the server is killed.
const DEFINE: &str = "\
CREATE TABLE accounts (id integer PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2) CHECK (balance >= 0));
INSERT INTO accounts SELECT n, 'owner ' || n, 100 FROM generate_series(1, 1000) AS n;
CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer REFERENCES accounts, made timestamptz DEFAULT now());
BEGIN;
UPDATE accounts SET balance = balance - 25 WHERE id = 1;
UPDATE accounts SET balance = balance + 25 WHERE id = 2;
PREPARE TRANSACTION 'tour';
";

/// Serves a database in `directory`; kills the server under load, starts it again, and compares.
pub(super) fn serve_and_kill(directory: &Path, report: &mut Report<'_>) -> Result<(), Failure> {
    let server = Server::start(directory, None)?;
    report.say(&format!("a child process serves a new database on port {} of this machine", server.port))?;
    if !is_psql_here() {
        report.fact("psql", false, "psql is not installed here: no client is shown")?;
        return server.kill();
    }
    server.psql(DEFINE)?;
    report.say("psql makes two tables, fills one, and prepares a transaction that moves 25.00")?;

    let mut inserting = server.start_psql()?;
    let acknowledged = insert_until_kill(&mut inserting, server);
    // psql ends by itself when its server is gone; after a failure above it must not stay.
    let _killed_or_gone = inserting.kill();
    inserting.wait().map_err(Failure::io("cannot wait for psql"))?;
    let acknowledged = acknowledged?;
    report.fact(
        "rows_acknowledged_to_psql",
        acknowledged,
        &format!("kill -9 of the server after {} acknowledged INSERTs", grouped(acknowledged)),
    )?;

    let stopwatch = Stopwatch::start();
    let server = Server::start(directory, None)?;
    report.say(&format!("the next server recovers and serves after {}", duration(stopwatch.elapsed())))?;
    let found = verify(&server, acknowledged)?;
    report.fact(
        "rows_found_by_psql",
        found,
        &format!(
            "verified: {} entries are there, and the prepared transaction, which is committed now",
            grouped(found)
        ),
    )?;
    server.kill()
}

/// Feeds psql until `KILL_AT` rows are acknowledged, and kills the server. Gives the rows that psql was told of.
fn insert_until_kill(psql: &mut Child, server: Server) -> Result<u64, Failure> {
    let (Some(mut stdin), Some(stdout)) = (psql.stdin.take(), psql.stdout.take()) else {
        return Err(Failure::Broken("psql has no standard input or output".to_owned()));
    };
    // psql reads and answers at once: one thread writes, another reads.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..INSERTS {
                let account = number % 998 + 3;
                if writeln!(stdin, "INSERT INTO entries (account) VALUES ({account});").is_err() {
                    return; // psql is gone
                }
            }
        });
        let mut server = Some(server);
        let mut acknowledged = 0;
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(Failure::io("cannot read what psql says"))?;
            acknowledged += u64::from(line == "INSERT 0 1");
            if acknowledged == KILL_AT
                && let Some(server) = server.take()
            {
                // What psql was told before the kill is in the pipe, and counts.
                server.kill()?;
            }
        }
        match server {
            None => Ok(acknowledged),
            Some(_) => Err(Failure::Broken(format!("psql ended after {acknowledged} rows"))),
        }
    })
}

/// The entries found.
fn verify(server: &Server, acknowledged: u64) -> Result<u64, Failure> {
    let broken = |what: &str, text: &str| Err(Failure::Broken(format!("{what}: psql says {text:?}")));
    let found = server.psql("SELECT count(*) FROM entries")?;
    let rows = match found.trim().parse::<u64>() {
        Ok(rows) if rows >= acknowledged => rows,
        _ => return broken(&format!("{acknowledged} entries were acknowledged"), &found),
    };
    let in_doubt = server.psql("SELECT gid FROM pg_prepared_xacts")?;
    if in_doubt.trim() != "tour" {
        return broken("transaction \"tour\" was prepared", &in_doubt);
    }
    server.psql("COMMIT PREPARED 'tour'")?;
    let balances =
        server.psql("SELECT string_agg(balance::text, ' ' ORDER BY id) FROM accounts WHERE id < 4")?;
    if balances.trim() != "75.00 125.00 100.00" {
        return broken("25.00 were moved", &balances);
    }
    Ok(rows)
}

pub(super) fn is_psql_here() -> bool {
    let status = Command::new("psql")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A running `seawall serve`, killed when this value is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) port: u64,
    /// Kept open: the server may write to it.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// This program, without the user's settings: neither those nor an archive of theirs are meant for these servers.
    pub(super) fn program() -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("cannot find this program's own file"))?;
        let mut command = Command::new(program);
        command.args(["--config", "/dev/null", "--json"]);
        for name in names_that_start_with("SEAWALL_") {
            command.env_remove(name);
        }
        command.env("RUST_LOG", "error").stdin(Stdio::null());
        Ok(command)
    }

    /// A server that answers; with `upstream`, a standby of that.
    pub(super) fn start(directory: &Path, upstream: Option<&str>) -> Result<Server, Failure> {
        let mut command = Server::program()?;
        command.arg("serve").arg(directory);
        command.args(["--listen", "127.0.0.1", "--port", "0", "--unix-socket", "off"]);
        if let Some(upstream) = upstream {
            command.args(["--follow", upstream]);
        }
        command.stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::io("cannot start the server"))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::Broken("the server has no standard output".to_owned()));
        };
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next().transpose().map_err(Failure::io("cannot read what the server says"))?;
        let told: Option<Value> = line.and_then(|line| serde_json::from_str(&line).ok());
        match told.as_ref().and_then(|told| told["port"].as_u64()) {
            Some(port) => Ok(Server { child, port, _lines: lines }),
            None => {
                let _killed_or_gone = child.kill();
                let status = child.wait().map_err(Failure::io("cannot wait for the server"))?;
                Err(Failure::Broken(format!("the server did not start: {status}")))
            }
        }
    }

    /// psql, connected to this server, without the user's settings of psql.
    fn command(&self) -> Command {
        let mut command = Command::new("psql");
        for name in names_that_start_with("PG") {
            command.env_remove(name);
        }
        let address =
            format!("host=127.0.0.1 port={} user=postgres dbname=postgres connect_timeout=10", self.port);
        command.args(["-X", "-w", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &address]);
        command
    }

    /// What psql prints for `statements`.
    pub(super) fn psql(&self, statements: &str) -> Result<String, Failure> {
        let mut command = self.command();
        command.args(["-q", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::io("cannot start psql"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(statements.as_bytes()).map_err(Failure::io("cannot write to psql"))?;
        }
        let output = child.wait_with_output().map_err(Failure::io("cannot read what psql says"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::Broken(format!(
                "psql failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }

    /// psql that reads statements from a pipe. Its last words, of a server that is gone, are not shown.
    fn start_psql(&self) -> Result<Child, Failure> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map_err(Failure::io("cannot start psql"))
    }

    /// SIGKILL: the server gets no chance to write, flush or close anything.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().map_err(Failure::io("cannot kill the server"))?;
        self.child.wait().map(drop).map_err(Failure::io("cannot wait for the server"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed_or_gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Environment variables whose names start with `prefix`.
fn names_that_start_with(prefix: &str) -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(move |name| name.to_string_lossy().starts_with(prefix))
}
