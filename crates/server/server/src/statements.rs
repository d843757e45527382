//! What the server asks of the database: logins, and sessions that run statements. `seawall-sql` is one; tests have others.

use std::fmt;
use std::sync::Arc;

use seawall_replication::Replication;
use seawall_sql::session::{
    DatabaseSettings, Executed, Field, Login, Session, Sink, SqlDatabase, StatementDescription, Timeouts,
    TransactionStatus, Waker,
};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

/// Ends the statement that a session runs, if it runs one.
pub type Canceller = Arc<dyn Fn() + Send + Sync>;

/// A role, as far as a login needs it.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// The verifier of its password, as `pg_authid.rolpassword` has it.
    pub verifier: Option<String>,
    /// It gets one of the connections that are reserved.
    pub is_superuser: bool,
    /// It may stream the log: a superuser, or one with `REPLICATION`.
    pub may_replicate: bool,
}

/// A database that sessions are made of.
pub trait Statements: Send + Sync + fmt::Debug {
    /// What a login needs to know of a role; of one that does not exist, nothing.
    ///
    /// # Errors
    /// What the database says.
    fn role(&self, name: &str) -> SqlResult<Role>;

    /// Begins a session.
    ///
    /// # Errors
    /// As [`SqlDatabase::connect`].
    fn connect(&self, login: Login) -> SqlResult<Box<dyn StatementSession>>;

    /// The replication of the database; `None`: it has none.
    fn replication(&self) -> Option<Arc<Replication>> {
        None
    }

    /// Makes a primary of a standby.
    ///
    /// # Errors
    /// `55000`: it is none.
    fn promote(&self, _reason: &str) -> SqlResult<()> {
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is not in progress"))
    }

    /// Takes over what an operator has set for all sessions.
    fn configure(&self, _settings: &DatabaseSettings) {}

    /// The engine's statistics as OpenMetrics text.
    fn open_metrics(&self) -> String;

    /// Whether no more writes are taken, because one has failed: the next open recovers.
    fn is_stopped(&self) -> bool;
}

/// A session, as [`Session`] explains it.
#[expect(missing_docs, reason = "each function is that of `Session`")]
#[expect(clippy::missing_errors_doc, reason = "each function is that of `Session`")]
pub trait StatementSession: Send {
    fn reported_settings(&self) -> Vec<(String, String)>;
    fn status(&self) -> TransactionStatus;
    fn canceller(&self) -> Canceller;
    fn timeouts(&self) -> Timeouts;
    fn set_waker(&mut self, waker: Waker);
    fn attend(&mut self, sink: &mut dyn Sink) -> SqlResult<()>;
    fn is_to_end(&self) -> bool;
    fn simple_query(&mut self, text: &str, sink: &mut dyn Sink) -> SqlResult<()>;
    fn parse(&mut self, name: &str, text: &str, types: &[Oid]) -> SqlResult<()>;
    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        formats: &[i16],
        values: &[Option<&[u8]>],
        result_formats: &[i16],
    ) -> SqlResult<()>;
    fn describe_statement(&mut self, name: &str) -> SqlResult<StatementDescription>;
    fn describe_portal(&mut self, name: &str) -> SqlResult<Option<Vec<Field>>>;
    fn execute(&mut self, portal: &str, rows: u32, sink: &mut dyn Sink) -> SqlResult<Executed>;
    fn close_statement(&mut self, name: &str);
    fn close_portal(&mut self, name: &str);
    fn sync(&mut self, has_failed: bool, sink: &mut dyn Sink) -> SqlResult<()>;
    fn fail(&mut self);
}

impl Statements for Arc<SqlDatabase> {
    fn role(&self, name: &str) -> SqlResult<Role> {
        Ok(Role {
            verifier: self.password_of(name)?,
            is_superuser: self.is_superuser(name)?,
            may_replicate: self.may_replicate(name)?,
        })
    }

    fn connect(&self, login: Login) -> SqlResult<Box<dyn StatementSession>> {
        Ok(Box::new(SqlDatabase::connect(self, login)?))
    }

    fn replication(&self) -> Option<Arc<Replication>> {
        Some(Arc::clone(&self.replication))
    }

    fn promote(&self, reason: &str) -> SqlResult<()> {
        SqlDatabase::promote(self, reason).map(drop)
    }

    fn configure(&self, settings: &DatabaseSettings) {
        SqlDatabase::configure(self, settings);
    }

    fn open_metrics(&self) -> String {
        let mut text = self.engine.statistics().open_metrics();
        if let Some(families) = text.strip_suffix("# EOF\n") {
            text = format!("{families}{}# EOF\n", SqlDatabase::open_metrics(self));
        }
        text
    }

    fn is_stopped(&self) -> bool {
        self.engine.statistics().stopped
    }
}

impl StatementSession for Session {
    fn reported_settings(&self) -> Vec<(String, String)> {
        Session::reported_settings(self)
    }

    fn status(&self) -> TransactionStatus {
        Session::status(self)
    }

    fn canceller(&self) -> Canceller {
        let handle = self.cancel_handle();
        Arc::new(move || handle.cancel())
    }

    fn timeouts(&self) -> Timeouts {
        Session::timeouts(self)
    }

    fn set_waker(&mut self, waker: Waker) {
        Session::set_waker(self, waker);
    }

    fn attend(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        Session::attend(self, sink)
    }

    fn is_to_end(&self) -> bool {
        Session::is_to_end(self)
    }

    fn simple_query(&mut self, text: &str, sink: &mut dyn Sink) -> SqlResult<()> {
        Session::simple_query(self, text, sink)
    }

    fn parse(&mut self, name: &str, text: &str, types: &[Oid]) -> SqlResult<()> {
        Session::parse(self, name, text, types)
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        formats: &[i16],
        values: &[Option<&[u8]>],
        result_formats: &[i16],
    ) -> SqlResult<()> {
        Session::bind(self, portal, statement, formats, values, result_formats)
    }

    fn describe_statement(&mut self, name: &str) -> SqlResult<StatementDescription> {
        Session::describe_statement(self, name)
    }

    fn describe_portal(&mut self, name: &str) -> SqlResult<Option<Vec<Field>>> {
        Session::describe_portal(self, name)
    }

    fn execute(&mut self, portal: &str, rows: u32, sink: &mut dyn Sink) -> SqlResult<Executed> {
        Session::execute(self, portal, rows, sink)
    }

    fn close_statement(&mut self, name: &str) {
        Session::close_statement(self, name);
    }

    fn close_portal(&mut self, name: &str) {
        Session::close_portal(self, name);
    }

    fn sync(&mut self, has_failed: bool, sink: &mut dyn Sink) -> SqlResult<()> {
        Session::sync(self, has_failed, sink)
    }

    fn fail(&mut self) {
        Session::fail(self);
    }
}
