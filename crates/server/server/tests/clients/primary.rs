//! A server over a database that a test opens, closes and copies.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use seawall_engine::{Database, FormatOptions, Options};
use seawall_server::Configuration;
use seawall_sql::session::SqlDatabase;

use crate::program::{both, ok, program};
use crate::served::Served;

pub(crate) const SEGMENT_BYTES: u64 = 1 << 20;

/// A server and its database, which a test closes and opens.
pub(crate) struct Primary {
    pub(crate) served: Served,
    pub(crate) sql: Arc<SqlDatabase>,
}

pub(crate) fn options() -> Options {
    Options {
        format: FormatOptions { segment_bytes: SEGMENT_BYTES, ..FormatOptions::default() },
        ..Options::default()
    }
}

fn with_http(configuration: Configuration, _directory: &Path) -> Configuration {
    Configuration { http_listen: "127.0.0.1:0".parse().ok(), ..configuration }
}

impl Primary {
    pub(crate) fn over(database: Database) -> Primary {
        let served = Served::starting_with(with_http);
        let sql = SqlDatabase::new(database).unwrap();
        served.server().serve(Arc::new(Arc::clone(&sql)));
        Primary { served, sql }
    }

    pub(crate) fn program(&self, name: &str) -> Option<Command> {
        program(name, "127.0.0.1", self.served.port())
    }

    pub(crate) fn sql(&self, statement: &str) -> String {
        ok(self.program("psql").unwrap().args(["-X", "-A", "-t", "-q", "-c", statement])).trim().to_owned()
    }

    /// A command of replication; what psql prints of it.
    pub(crate) fn command(&self, command: &str) -> String {
        let connection = "replication=true dbname=postgres";
        let output =
            self.program("psql").unwrap().args(["-X", "-A", "-t", "-d", connection, "-c", command]).output();
        both(&output.unwrap()).trim().to_owned()
    }

    /// The end of the durable log, as a client is told.
    pub(crate) fn end_of_log(&self) -> u64 {
        let answer = self.command("IDENTIFY_SYSTEM");
        let end = answer.split('|').nth(2).unwrap();
        end.parse::<seawall_types::Lsn>().unwrap().get()
    }

    /// Writes about `mebibytes` of log.
    pub(crate) fn write(&self, mebibytes: usize) {
        let rows = mebibytes * 1000;
        self.sql("create table if not exists t (a int, b text)");
        self.sql(&format!(
            "insert into t select i, repeat(md5(i::text), 32) from generate_series(1, {rows}) as i"
        ));
    }

    /// Receives all there is into a directory.
    pub(crate) fn receive(&self, into: &Path, slot: &str) {
        let end = seawall_types::Lsn::new(self.end_of_log() - 1).to_string();
        let mut receive = self.program("pg_receivewal").unwrap();
        receive.args([
            "-D",
            into.to_str().unwrap(),
            "-S",
            slot,
            "--no-loop",
            "--synchronous",
            "--endpos",
            &end,
            "-v",
        ]);
        ok(&mut receive);
    }

    pub(crate) fn close(self) {
        drop(self.served);
        self.sql.engine.clone().close().unwrap();
    }
}

/// Copies a directory with all that is in it.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
