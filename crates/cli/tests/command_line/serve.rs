//! `serve`: what it says when clients can connect, how signals end it, and what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seawall_testing::{PATIENCE, wait_for, wait_until};
use serde_json::Value;

use crate::support::{Scratch, json_lines};

/// A server that answers.
struct Serving {
    child: Child,
    /// What it has said.
    answer: Value,
}

impl Serving {
    fn begun(scratch: &Scratch, more: &[&str]) -> Serving {
        Serving::begun_with(scratch, more, |command| command)
    }

    fn begun_with(
        scratch: &Scratch,
        more: &[&str],
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Serving {
        Serving::begun_at(scratch, "db", more, prepare)
    }

    fn begun_at(
        scratch: &Scratch,
        directory: &str,
        more: &[&str],
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Serving {
        let words = ["serve", directory, "--json", "--port", "0", "--socket-directory", "."];
        let mut command = scratch.command(words.iter().chain(more));
        let mut child = prepare(&mut command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let answer = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line}{said}")
        });
        Serving { child, answer }
    }

    fn port(&self) -> u16 {
        self.answer["port"].as_u64().unwrap().try_into().unwrap()
    }

    /// All messages of a session with one query, or none: their kinds and bodies.
    fn ask(&self, sql: Option<&str>) -> Vec<(u8, Vec<u8>)> {
        let with_length = |body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap();
            [&length.to_be_bytes()[..], body].concat()
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let startup = with_length(b"\0\x03\0\0user\0postgres\0database\0postgres\0\0");
        let query = sql.map(|sql| [b"Q", &with_length(format!("{sql}\0").as_bytes())[..]].concat());
        let sent = [startup, query.unwrap_or_default(), b"X\0\0\0\x04".to_vec()].concat();
        stream.write_all(&sent).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        let mut rest = &received[..];
        let mut messages = Vec::new();
        while let Some((kind, more)) = rest.split_first() {
            let length = usize::try_from(u32::from_be_bytes(more[..4].try_into().unwrap())).unwrap();
            messages.push((*kind, more[4..length].to_vec()));
            rest = &more[length..];
        }
        messages
    }

    /// The first byte of the answer to a start-up packet: `R`, or `E` of an error.
    fn answers(&self) -> u8 {
        self.ask(None)[0].0
    }

    /// Runs a statement that succeeds; returns the bytes of its rows.
    fn ok(&self, sql: &str) -> Vec<Vec<u8>> {
        let messages = self.ask(Some(sql));
        let error = messages.iter().find(|(kind, _)| *kind == b'E');
        assert!(error.is_none(), "{sql}: {}", String::from_utf8_lossy(&error.unwrap().1));
        messages.into_iter().filter(|(kind, _)| *kind == b'D').map(|(_, body)| body).collect()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The exit code after a signal, and what was said on standard error.
    fn ended_by(mut self, name: &str) -> (Option<i32>, String) {
        self.signal(name);
        let status = wait_for("the server ends", || self.child.try_wait().unwrap());
        let mut said = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn a_database_is_made_served_and_closed() {
    for (signal, is_clean) in [("TERM", true), ("INT", true), ("QUIT", false)] {
        let scratch = Scratch::new();
        let serving = Serving::begun(&scratch, &["--http-listen", "127.0.0.1:0"]);
        assert_eq!(serving.answer["serving"], "db");
        assert!(serving.answer["http"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(serving.answers(), b'R');
        let socket = scratch.path(&format!(".s.PGSQL.{}", serving.port()));
        assert!(socket.exists());
        // The database is in use.
        scratch.fails(5, ["put", "db", "t", "k", "v"]);
        let (code, said) = serving.ended_by(signal);
        assert_eq!(code, Some(0), "{signal}: {said}");
        assert!(
            json_lines(&said).iter().all(|line| line["time"].as_str().unwrap().ends_with(" UTC")),
            "{said}"
        );
        assert!(!socket.exists(), "{signal}");
        let recovery = scratch.run(["-v", "count", "db"]);
        let replayed = String::from_utf8(recovery.stderr).unwrap();
        assert!(replayed.contains("rows: 0,") || !is_clean, "{signal}: {replayed}");
    }
}

#[test]
fn a_killed_server_recovers_what_it_has_acknowledged() {
    let scratch = Scratch::new();
    let mut serving = Serving::begun(&scratch, &[]);
    serving.ok("create table t (a integer primary key, b text)");
    for number in 0..20 {
        serving.ok(&format!("insert into t values ({number}, 'row')"));
    }
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let again = Serving::begun(&scratch, &[]);
    let rows = again.ok("select a from t order by a");
    let last: Vec<&[u8]> = rows.iter().map(|row| &row[6..]).collect();
    assert_eq!(last, (0..20).map(|number| number.to_string().into_bytes()).collect::<Vec<_>>());
    assert_eq!(again.ended_by("INT").0, Some(0));
    scratch.ok(["check", "db"]);
}

#[test]
fn a_hang_up_reads_the_settings_again() {
    let scratch = Scratch::new();
    scratch.write("own.toml", b"");
    let serving = Serving::begun(&scratch, &["--config", "own.toml"]);
    assert_eq!(serving.answers(), b'R');
    scratch.write("own.toml", b"[server]\naccess = [\"local all all trust\"]\n");
    serving.signal("HUP");
    wait_for("the rule is in force", || (serving.answers() == b'E').then_some(()));
    // A mistake changes nothing.
    scratch.write("own.toml", b"[server]\naccess = [\"everybody\"]\n");
    serving.signal("HUP");
    assert_eq!(serving.answers(), b'E');
    let (code, said) = serving.ended_by("INT");
    assert_eq!(code, Some(0));
    assert!(said.contains("the configuration is read again"), "{said}");
}

#[test]
fn a_service_manager_is_told_when_clients_can_connect() {
    let scratch = Scratch::new();
    let socket = UnixDatagram::bind(scratch.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let serving = Serving::begun_with(&scratch, &[], |command| command.env("NOTIFY_SOCKET", "notify"));
    let first = told();
    let ready = if first.starts_with("STATUS=recovering") { told() } else { first };
    assert_eq!(ready, "READY=1\nSTATUS=serving");
    assert_eq!(serving.ended_by("INT").0, Some(0));
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let scratch = Scratch::new();
    let serving = Serving::begun(&scratch, &[]);
    let port = serving.port().to_string();
    let elsewhere = ["--socket-directory", "."];
    for (code, words, expected) in [
        (2, vec!["--listen", "*", "--access", "host all all all trust"], "without a password"),
        (2, vec!["--access", "everybody"], "\"everybody\": expected `host"),
        (2, vec!["--port", "70000"], "expected a number, 0 to 65535"),
        (2, vec!["--tls-key", "key"], "set server.tls_certificate"),
        (2, vec!["--connections", "3"], "cannot be reserved"),
        (1, vec!["--tls-key", "key", "--tls-certificate", "none"], "cannot read none for TLS"),
        (1, vec!["--port", &port, "--unix-socket", "off"], "is another server running there?"),
        (5, [&["--port", "0"][..], &elsewhere].concat(), "in use"),
        (3, vec!["--port", "0", "--unix-socket", "off", "--archive", "nowhere"], "nowhere"),
    ] {
        let said = scratch.fails(code, ["serve", "db", "--json"].iter().chain(&words));
        let errors = json_lines(&said);
        let error = errors.last().unwrap();
        assert_eq!(error["exit_code"], code, "{said}");
        assert!(error["error"].as_str().unwrap().contains(expected), "{words:?}: {said}");
    }
    // The socket belongs to the server, though it listens at no address of TCP that the other has.
    let said = scratch
        .fails(5, ["serve", "other", "--listen", "127.0.0.2", "--port", &port].iter().chain(&elsewhere));
    assert!(said.contains("another server listens on the Unix socket"), "{said}");
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn a_standby_takes_the_place_of_a_primary_that_was_killed() {
    let scratch = Scratch::new();
    let primary = Serving::begun(&scratch, &[]);
    primary.ok("create table t (a int primary key)");
    assert_eq!(primary.ended_by("TERM").0, Some(0));
    copy_directory(&scratch.path("db"), &scratch.path("copy"));

    let mut primary = Serving::begun(&scratch, &[]);
    let upstream = format!("host=127.0.0.1 port={} user=postgres", primary.port());
    let standby = Serving::begun_at(&scratch, "copy", &["--follow", &upstream], |command| command);
    for number in 0..100 {
        primary.ok(&format!("insert into t values ({number})"));
    }
    let acknowledged = "select 1 from pg_stat_replication where flush_lsn >= pg_current_wal_lsn()";
    wait_until("the standby acknowledges", || !primary.ok(acknowledged).is_empty());
    for number in 100..120 {
        primary.ok(&format!("insert into t values ({number})"));
    }
    primary.signal("KILL");
    primary.child.wait().unwrap();

    // Nobody serves the copy by mistake as if it were a primary's.
    let refused = scratch.fails(2, ["serve", "copy", "--port", "0"]);
    assert!(refused.contains("copy is a standby: give --follow"), "{refused}");
    assert!(!standby.ask(Some("insert into t values (-1)")).iter().all(|(kind, _)| *kind != b'E'));
    standby.ok("select pg_promote()");
    let found = standby.ok("select a from t order by a").len();
    assert!((100..=120).contains(&found), "{found} rows");
    assert_eq!(
        standby.ok(&format!("select a from t where a < {found}")).len(),
        found,
        "a prefix of the commits"
    );
    standby.ok("insert into t values (-1)");
    let (code, said) = standby.ended_by("TERM");
    assert_eq!(code, Some(0), "{said}");

    // From now on it is a database like any other.
    let promoted = Serving::begun_at(&scratch, "copy", &[], |command| command);
    assert_eq!(promoted.ok("select a from t").len(), found + 1);
}

#[test]
fn settings_of_a_primary_that_are_wrong_are_named() {
    let scratch = Scratch::new();
    let refused = scratch.fails(2, ["serve", "db", "--follow", "hots=primary"]);
    assert!(refused.contains("--follow: \"hots\" is not a setting of a connection"), "{refused}");
}

/// Sessions begin with what is stored for all roles. With 0, every statement counts as slow.
#[test]
fn slow_statements_are_in_the_log_without_passwords() {
    let scratch = Scratch::new();
    let serving = Serving::begun(&scratch, &[]);
    serving.ok("select 'before'");
    serving.ok("alter role all set log_min_duration_statement = 0");
    serving.ok("select 'meanwhile'");
    serving.ok("create role someone password 'secret'");
    serving.ok("alter role all reset log_min_duration_statement");
    serving.ok("select 'after'");
    let (code, said) = serving.ended_by("INT");
    assert_eq!(code, Some(0), "{said}");
    let slow: Vec<String> =
        said.lines().filter(|line| line.contains("a slow statement")).map(str::to_owned).collect();
    assert_eq!(slow.len(), 3, "{said}");
    assert!(slow[0].contains("select 'meanwhile'") && slow[0].contains("postgres"), "{said}");
    assert!(slow[1].contains("create role someone password $1"), "{said}");
    assert!(!said.contains("secret") && !said.contains("'after'") && !said.contains("'before'"), "{said}");
}
