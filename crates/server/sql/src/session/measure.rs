//! How long statements take: what `pg_stat_statements` and the histograms are told, and the log of slow statements.
//!
//! ```text
//!   simple query:  | parse | plan | execute | commit |     duration: all of it
//!   Parse: | parse | plan |   Bind: | plan |   Execute: | execute |     duration: that of the message
//! ```

use std::time::Duration;

use seawall_io::{Clock, SystemClock};
use seawall_values::{Datum, Oid, SqlError, SqlState, text_form};

use super::Session;
use super::portal::{ParsedStatement, Portal, Run};
use crate::monitor::count;
use crate::monitor::statements::StatementRun;

/// Bytes of a statement in the log.
const LOGGED_BYTES_MAX: usize = 4 << 10;

/// Of the statement under way.
#[derive(Debug, Default)]
pub(super) struct Measured {
    begun: Duration,
    /// Its parsing and planning so far; `None`: its plan was kept.
    plan: Option<Duration>,
    /// Of the time since `begun`.
    planned_within: Duration,
    bytes_before: u64,
}

/// What `log_min_duration_statement` and its kind say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlowStatements {
    /// Statements that take as long, or longer, are logged; `None`: none.
    pub(crate) least: Option<Duration>,
    /// Bytes of each parameter that are logged; 0: parameters are not.
    pub(crate) parameter_bytes: usize,
}

pub(super) fn now() -> Duration {
    SystemClock.monotonic()
}

impl Session {
    /// A statement begins, or (with `plan`) has begun, and was parsed meanwhile.
    pub(super) fn begin_measuring(&mut self, begun: Duration, plan: Option<Duration>) {
        self.measured = Measured {
            begun,
            plan,
            planned_within: plan.unwrap_or_default(),
            bytes_before: self.written_bytes(),
        };
    }

    /// Something was parsed.
    pub(super) fn note_parse(&self, begun: Duration) -> Duration {
        let taken = now().saturating_sub(begun);
        count(&self.monitor().counts.parses);
        self.monitor().stages.parse.note(taken);
        taken
    }

    /// A query was planned.
    pub(super) fn note_plan(&mut self, begun: Duration) {
        let taken = now().saturating_sub(begun);
        count(&self.monitor().counts.plans);
        self.monitor().stages.plan.note(taken);
        self.measured.plan = Some(self.measured.plan.unwrap_or_default() + taken);
        self.measured.planned_within += taken;
    }

    /// The time that was spent on planning, for the statement that it was spent for.
    pub(super) fn take_planning(&mut self) -> Option<Duration> {
        self.measured.plan.take()
    }

    /// Planning for what is about to be planned again, or run.
    pub(super) fn put_planning(&mut self, plan: Option<Duration>) {
        self.measured.plan = plan;
    }

    /// The statement has run; an implicit transaction is still to be committed. `before`: time and bytes that it took in earlier calls.
    pub(super) fn end_execution(&mut self, statement: &ParsedStatement, tag: &str, before: Duration) {
        let taken = now().saturating_sub(self.measured.begun).saturating_sub(self.measured.planned_within);
        let execute = before + taken;
        let run = StatementRun {
            plan: self.measured.plan.take(),
            execute,
            rows: rows_of(tag),
            log_bytes: self.written_bytes().saturating_sub(self.measured.bytes_before),
        };
        let monitor = self.monitor();
        monitor.stages.execute.note(execute);
        monitor.statements.note(self.login.process_id, self.asker.user, statement.fingerprint(), run);
    }

    /// The time since the call began.
    pub(super) fn taken(&self) -> Duration {
        now().saturating_sub(self.measured.begun)
    }

    /// A statement has failed.
    pub(super) fn note_failure(&self, error: &SqlError) {
        if error.code == SqlState::DEADLOCK_DETECTED {
            count(&self.monitor().counts.deadlocks);
        }
    }

    fn written_bytes(&self) -> u64 {
        let engine = self.open.as_ref().and_then(|open| open.engine.as_ref());
        engine.map_or(0, seawall_engine::Transaction::written_bytes)
    }

    /// The parameters of a query that is about to begin, with their types, if they may be logged.
    pub(super) fn logged_parameters(&self, portal: &Portal) -> Vec<(Oid, Datum)> {
        let slow = self.settings.slow_statements();
        match &portal.run {
            Run::Ready(Some(planned)) if slow.least.is_some() && slow.parameter_bytes > 0 => {
                planned.parameters().iter().copied().zip(portal.parameters.iter().cloned()).collect()
            }
            Run::Ready(_) | Run::Query(_) | Run::Done => Vec::new(),
        }
    }

    /// Logs the statement if it has taken long, as its client has written it.
    pub(super) fn log_if_slow(
        &self,
        statement: &ParsedStatement,
        text: &str,
        taken: Duration,
        parameters: &[(Oid, Datum)],
    ) {
        let slow = self.settings.slow_statements();
        if slow.least.is_none_or(|least| taken < least) {
            return;
        }
        let (process_id, user, database) = (self.login.process_id, &*self.user, &*self.login.database);
        let application = self.settings.application_name();
        let milliseconds = format!("{:.3}", taken.as_secs_f64() * 1e3);
        let text = logged_text(statement, text);
        if parameters.is_empty() {
            tracing::info!(
                process_id,
                user,
                database,
                application,
                milliseconds,
                statement = text,
                "a slow statement"
            );
            return;
        }
        let parameters = self.parameters_as_text(parameters, slow.parameter_bytes);
        tracing::info!(
            process_id,
            user,
            database,
            application,
            milliseconds,
            statement = text,
            parameters,
            "a slow statement"
        );
    }

    /// `$1 = 'a', $2 = NULL`, each value cut.
    fn parameters_as_text(&self, parameters: &[(Oid, Datum)], bytes_max: usize) -> String {
        let settings = self.settings.values();
        let shown = (1..).zip(parameters).map(|(number, (of, value)): (usize, &(Oid, Datum))| {
            let mut text = String::new();
            match value {
                Datum::Null => format!("${number} = NULL"),
                // Of a type whose values have names, such as regclass.
                value if text_form::output(*of, value, &settings, &mut text).is_err() => {
                    format!("${number} = ...")
                }
                _ => format!("${number} = '{}'", cut(&text, bytes_max).replace('\'', "''")),
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// The statement as it was written, cut; without its constants, if one of them may be a password.
fn logged_text(statement: &ParsedStatement, text: &str) -> String {
    let head = &text[..text.floor_char_boundary(LOGGED_BYTES_MAX)];
    let is_secret = text.to_ascii_lowercase().contains("password");
    cut(if is_secret { &statement.fingerprint().text } else { head }, LOGGED_BYTES_MAX)
        + if head.len() < text.len() { " ..." } else { "" }
}

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// How many rows a tag tells of: the number at its end.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|last| last.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Text;

    fn logged(text: &str) -> String {
        logged_text(&ParsedStatement::new(Text::new(text), None), text)
    }

    #[test]
    fn long_statements_and_passwords_are_not_logged() {
        assert_eq!(logged("select 'a'"), "select 'a'");
        let long = logged(&format!("select '{}'", "é".repeat(4_000)));
        assert!(long.len() <= LOGGED_BYTES_MAX + 4 && long.ends_with("é ..."), "{}", long.len());
        assert_eq!(logged("create role a PASSWORD 'x'"), "create role a PASSWORD $1");
    }

    #[test]
    fn tags_tell_of_rows() {
        let rows = ["INSERT 0 5", "SELECT 3", "CREATE TABLE", "COPY 7"].map(rows_of);
        assert_eq!(rows, [5, 3, 0, 7]);
    }
}
