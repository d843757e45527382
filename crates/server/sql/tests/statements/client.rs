//! A session and a receiver that keeps what statements return, as text.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Database, Options};
use seawall_sql::session::{EncodedRow, Field, Login, Notice, Session, Sink, SqlDatabase};
use seawall_values::{SqlError, SqlResult};

/// What a text of statements has returned, a line for each thing.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) lines: Vec<String>,
    /// The limits of time that the statements began with.
    pub(crate) limits: Vec<Option<Duration>>,
    copied_in: Vec<Vec<u8>>,
}

impl Sink for Received {
    fn statement_begins(&mut self, limit: Option<Duration>) {
        self.limits.push(limit);
    }

    fn fields(&mut self, fields: &[Field]) -> SqlResult<()> {
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        self.lines.push(format!("[{}]", names.join("|")));
        Ok(())
    }

    fn row(&mut self, row: &EncodedRow) -> SqlResult<()> {
        let mut values = Vec::new();
        let mut rest = row.bytes.as_slice();
        for _ in 0..row.columns {
            let (length, after) = rest.split_first_chunk::<4>().expect("a length");
            let length = i32::from_be_bytes(*length);
            match usize::try_from(length) {
                Err(_) => {
                    values.push("null".to_owned());
                    rest = after;
                }
                Ok(length) => {
                    values.push(String::from_utf8_lossy(&after[..length]).into_owned());
                    rest = &after[length..];
                }
            }
        }
        self.lines.push(values.join("|"));
        Ok(())
    }

    fn complete(&mut self, tag: Option<&str>) -> SqlResult<()> {
        self.lines.push(format!("-> {}", tag.unwrap_or("")));
        Ok(())
    }

    fn notice(&mut self, _notice: &Notice) -> SqlResult<()> {
        Ok(())
    }

    fn setting(&mut self, _name: &str, _value: &str) -> SqlResult<()> {
        Ok(())
    }

    fn notification(&mut self, _process_id: i32, _channel: &str, _payload: &str) -> SqlResult<()> {
        Ok(())
    }

    fn copy_out(&mut self, _format: i8, _columns: usize) -> SqlResult<()> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        self.lines.push(String::from_utf8_lossy(data).trim_end().to_owned());
        Ok(())
    }

    fn copy_in(&mut self, _format: i8, _columns: usize) -> SqlResult<()> {
        Ok(())
    }

    fn next_copy_data(&mut self) -> SqlResult<Option<Vec<u8>>> {
        Ok(self.copied_in.pop())
    }
}

/// A database in a directory of its own.
pub(crate) struct TestDatabase {
    pub(crate) database: Arc<SqlDatabase>,
    _directory: tempfile::TempDir,
}

impl TestDatabase {
    pub(crate) fn new() -> TestDatabase {
        TestDatabase::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> TestDatabase {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = Database::open(directory.path(), options).expect("a database");
        TestDatabase { database: SqlDatabase::new(engine).expect("SQL"), _directory: directory }
    }

    pub(crate) fn connect(&self) -> Client {
        self.connect_as(0)
    }

    /// Closes the database, and opens it again: all sessions have ended.
    pub(crate) fn reopened(self) -> TestDatabase {
        let TestDatabase { database, _directory } = self;
        let database = Arc::into_inner(database).expect("sessions have ended");
        drop(database);
        let engine = Database::open(_directory.path(), Options::default()).expect("a database");
        TestDatabase { database: SqlDatabase::new(engine).expect("SQL"), _directory }
    }

    /// A session with a number.
    pub(crate) fn connect_as(&self, process_id: i32) -> Client {
        self.connect_by("postgres", process_id)
    }

    /// A session of a role, with a number.
    pub(crate) fn connect_by(&self, user: &str, process_id: i32) -> Client {
        let (user, database) = (user.to_owned(), "postgres".to_owned());
        let login = Login { user, database, process_id, ..Login::default() };
        Client { session: self.database.connect(login).expect("a session") }
    }
}

pub(crate) struct Client {
    pub(crate) session: Session,
}

impl Client {
    /// Runs statements; what they return, with the error at the end, if there is one.
    pub(crate) fn run(&mut self, text: &str) -> Vec<String> {
        self.run_with(text, &[])
    }

    /// The same with data for `COPY`.
    pub(crate) fn run_with(&mut self, text: &str, data: &[&str]) -> Vec<String> {
        let copied_in = data.iter().rev().map(|part| part.as_bytes().to_vec()).collect();
        let mut received = Received { copied_in, ..Received::default() };
        if let Err(error) = self.session.simple_query(text, &mut received) {
            // As libpq: rows of a result that has failed do not count.
            let complete = received.lines.iter().rposition(|line| line.starts_with("-> "));
            received.lines.truncate(complete.map_or(0, |last| last + 1));
            received.lines.push(shown(&error));
        }
        received.lines
    }
}

fn shown(error: &SqlError) -> String {
    let position = error.position.map(|position| format!(" at {position}")).unwrap_or_default();
    format!("ERROR {}: {}{position}", error.code.as_str(), error.message)
}
