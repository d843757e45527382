//! Looking at what a server has recovered: every table of every database is read, and every page where pages have checksums; or
//! what somebody wants to know is asked.

use std::process::Output;
use std::time::Duration;

use super::error::PostgreSqlBackupError;
use super::patience::Patience;
use super::scratch_server::{ScratchServer, ServerStart, on_files};

/// Names of databases that take connections.
const DATABASES: &str = "select json_agg(datname order by datname) from pg_database where datallowconn";

/// Every table, materialized view and TOAST table, those of the catalog, too.
const TABLES: &str = "from pg_class
where relkind in ('r', 't', 'm') and relpersistence <> 't' and (relkind <> 'm' or relispopulated)";
/// Before the number of them.
const TABLES_MARK: &str = "tables|";

/// Reads every page of every table: how many there are, and then one count a line. Names are whole, whatever the search path of the
/// database is.
fn count_all() -> String {
    format!(
        r"
set search_path = pg_catalog;
set enable_indexscan = off;
set enable_indexonlyscan = off;
set enable_bitmapscan = off;
select '{TABLES_MARK}' || count(*) {TABLES};
select format('select count(*) from %s', oid::regclass) {TABLES}
order by oid \gexec
"
    )
}

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
    /// Asks one query, and waits so long for its answer.
    pub(super) fn ask(
        server: &mut ScratchServer<'_>,
        query: &CheckQuery,
        patience: Duration,
    ) -> Result<ServerCheck, PostgreSqlBackupError> {
        let output = server.psql(&query.database, &["-v", "ON_ERROR_STOP=1"], &query.sql, patience)?;
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

    /// Reads all that can be read, within so long for each database, and for all pages; then the server has stopped.
    pub(super) fn everything(
        mut server: ScratchServer<'_>,
        start: &ServerStart<'_>,
        patience: Duration,
        stop_patience: Duration,
    ) -> Result<ServerCheck, PostgreSqlBackupError> {
        let mut check = ServerCheck::default();
        let clock = server.clock();
        for database in server.ask::<Vec<String>>(DATABASES)? {
            let output = server.psql(&database, &["--echo-errors"], &count_all(), patience)?;
            server.still_runs()?;
            check.add_database(&database, &output);
        }
        let has_checksums: String = server.ask("select to_json(current_setting('data_checksums'))")?;
        server.stop(stop_patience)?;
        if has_checksums == "on" {
            check.verify_pages(start, Patience { clock, limit: patience })?;
        }
        Ok(check)
    }

    /// What could not be read is what psql tells of; and if it does not, by words that are known here, what has no count.
    fn add_database(&mut self, database: &str, output: &Output) {
        self.databases += 1;
        let answer = String::from_utf8_lossy(&output.stdout);
        let there_are = answer.lines().find_map(|line| line.strip_prefix(TABLES_MARK)?.parse::<u64>().ok());
        let before = self.tables;
        for rows in answer.lines().filter_map(|line| line.parse::<u64>().ok()) {
            self.tables += 1;
            self.rows += rows;
        }
        let mut damages = errors_in(&said(output));
        let read = self.tables - before;
        if damages.is_empty() && !(output.status.success() && there_are == Some(read)) {
            let of = there_are.map_or("an unknown number".to_owned(), |count| count.to_string());
            let (status, said) = (output.status, said(output));
            damages.push(format!("{read} tables were read of {of}; psql ended with {status}: {said}"));
        }
        self.damages.extend(damages.into_iter().map(|damage| format!("database {database}: {damage}")));
    }

    /// `pg_checksums` looks at every page of every file, those of indexes, too.
    fn verify_pages(
        &mut self,
        start: &ServerStart<'_>,
        patience: Patience<'_>,
    ) -> Result<(), PostgreSqlBackupError> {
        let (program, output) = on_files(start, "pg_checksums", "--check", patience)?;
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
    use std::process::ExitStatus;

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

    fn check_of(stdout: &str, stderr: &str) -> ServerCheck {
        let mut check = ServerCheck::default();
        let (status, bytes) = (ExitStatus::default(), |text: &str| text.as_bytes().to_vec());
        check.add_database("x", &Output { status, stdout: bytes(stdout), stderr: bytes(stderr) });
        check
    }

    #[test]
    fn a_table_that_was_not_read_is_damage_in_whatever_language_that_is_told() {
        let good = check_of("tables|2\n10\n5\n", "WARNING:  y");
        assert_eq!((good.tables, good.rows, &good.damages[..]), (2, 15, &[][..]));
        let damaged = check_of("tables|2\n10\n", "psql:<stdin>:8: FEHLER:  ungültige Seite in Block 3");
        assert_eq!(damaged.damages.len(), 1);
        let damage = &damaged.damages[0];
        assert!(damage.contains("1 tables were read of 2") && damage.contains("FEHLER"), "{damage}");
        let silent = check_of("", "");
        assert!(silent.damages[0].contains("0 tables were read of an unknown number"), "{silent:?}");
    }
}
