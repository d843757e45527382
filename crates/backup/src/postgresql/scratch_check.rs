//! Looking at what a server has recovered: every table of every database is read, and every page where pages have checksums; or
//! what somebody wants to know is asked.

use std::process::Output;
use std::time::Duration;

use super::error::PostgreSqlBackupError;
use super::scratch_server::{ScratchServer, ServerStart, on_files};

/// Names of databases that take connections.
const DATABASES: &str = "select json_agg(datname order by datname) from pg_database where datallowconn";

/// Reads every page of every table, materialized view and TOAST table, those of the catalog, too; one count a line.
const COUNT_ALL: &str = r"
set enable_indexscan = off;
set enable_indexonlyscan = off;
set enable_bitmapscan = off;
set statement_timeout = 0;
select format('select count(*) from %s', oid::regclass) from pg_class
where relkind in ('r', 't', 'm') and relpersistence <> 't' and (relkind <> 'm' or relispopulated)
order by oid \gexec
";

/// What is asked instead of reading everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckQuery {
    /// Statements.
    pub sql: String,
    /// Where.
    pub database: String,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCheck {
    /// Databases whose tables were all read.
    pub databases: u64,
    /// Their tables.
    pub tables: u64,
    /// The rows of these.
    pub rows: u64,
    /// Pages whose checksums were found right; `None` if pages have none, or a query was asked instead.
    pub pages: Option<u64>,
    /// What the query gave.
    pub answer: Option<String>,
    /// What could not be read, in the words of PostgreSQL.
    pub damages: Vec<String>,
}

impl ServerCheck {
    /// Asks one query.
    pub(super) fn ask(
        server: &mut ScratchServer<'_>,
        query: &CheckQuery,
    ) -> Result<ServerCheck, PostgreSqlBackupError> {
        let output = server.psql(&query.database, &["-v", "ON_ERROR_STOP=1"], &query.sql)?;
        server.still_runs()?;
        let mut check = ServerCheck {
            answer: Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            ..ServerCheck::default()
        };
        if !output.status.success() {
            check.damages.push(format!("the query failed: {}", said(&output)));
        }
        Ok(check)
    }

    /// Reads all that can be read; then the server has stopped.
    pub(super) fn everything(
        mut server: ScratchServer<'_>,
        start: &ServerStart<'_>,
        patience: Duration,
    ) -> Result<ServerCheck, PostgreSqlBackupError> {
        let mut check = ServerCheck::default();
        for database in server.ask::<Vec<String>>(DATABASES)? {
            let output = server.psql(&database, &["--echo-errors"], COUNT_ALL)?;
            server.still_runs()?;
            check.add_database(&database, &output);
        }
        let has_checksums: String = server.ask("select to_json(current_setting('data_checksums'))")?;
        server.stop(patience)?;
        if has_checksums == "on" {
            check.verify_pages(start)?;
        }
        Ok(check)
    }

    fn add_database(&mut self, database: &str, output: &Output) {
        self.databases += 1;
        let counts = String::from_utf8_lossy(&output.stdout);
        for rows in counts.lines().filter_map(|line| line.parse::<u64>().ok()) {
            self.tables += 1;
            self.rows += rows;
        }
        let mut damages = errors_in(&said(output));
        if damages.is_empty() && !output.status.success() {
            damages.push(format!("psql ended with {}", output.status));
        }
        self.damages.extend(damages.into_iter().map(|damage| format!("database {database}: {damage}")));
    }

    /// `pg_checksums` looks at every page of every file, those of indexes, too.
    fn verify_pages(&mut self, start: &ServerStart<'_>) -> Result<(), PostgreSqlBackupError> {
        let (program, mut command) = on_files(start, "pg_checksums");
        let run = command.arg("--check").output();
        let output =
            run.map_err(|source| PostgreSqlBackupError::Program { program: program.clone(), source })?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let scanned =
            answer.lines().find_map(|line| line.strip_prefix("Blocks scanned:")?.trim().parse().ok());
        let message = said(&output);
        let bad = message.lines().filter(|line| line.contains("checksum verification failed"));
        let before = self.damages.len();
        self.damages.extend(bad.map(str::to_owned));
        if !output.status.success() && self.damages.len() == before {
            return Err(PostgreSqlBackupError::Failed { program, message });
        }
        self.pages = scanned;
        Ok(())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// The errors that psql tells of, each with its statement. Warnings are none: that the collations of this machine are others, say.
fn errors_in(message: &str) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    for line in message.lines() {
        if ["ERROR:", "FATAL:", "PANIC:"].iter().any(|severity| line.contains(severity)) {
            errors.push(line.to_owned());
        } else if let (Some(error), Some((_, statement))) = (errors.last_mut(), line.split_once("STATEMENT:"))
        {
            error.push_str(&format!(" ({})", statement.trim()));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_with_their_statements_and_warnings_are_not() {
        let message = "psql:<stdin>:1: WARNING:  database \"x\" has a collation version mismatch\nDETAIL:  y\n\
                       psql:<stdin>:8: ERROR:  invalid page in block 3 of relation base/5/16384\n\
                       psql:<stdin>:8: STATEMENT:  select count(*) from t\n\
                       psql:<stdin>:8: ERROR:  z";
        assert_eq!(
            errors_in(message),
            [
                "psql:<stdin>:8: ERROR:  invalid page in block 3 of relation base/5/16384 (select count(*) from t)",
                "psql:<stdin>:8: ERROR:  z"
            ]
        );
        assert!(errors_in("").is_empty());
    }
}
