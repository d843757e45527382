//! A session: what a connection, or a program that embeds the database, speaks to.
//!
//! All calls block until they are done. A session is `Send`: between calls it needs no thread.

use std::sync::Arc;

use seawall_engine::Database;
use seawall_values::{Datum, Oid, SqlError, SqlResult, TypeReference};

/// A database that speaks SQL.
#[derive(Debug)]
pub struct SqlDatabase {
    /// The engine.
    pub engine: Database,
}

/// Who begins a session, and with what.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The role.
    pub user: String,
    /// The database's name.
    pub database: String,
    /// Settings that come with it: name and value.
    pub settings: Vec<(String, String)>,
    /// The number by which it is cancelled and seen in `pg_stat_activity`.
    pub process_id: i32,
    /// Where it comes from: address and port.
    pub client: Option<(String, u16)>,
}

/// Where a session is, as `ReadyForQuery` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: in none.
    Idle,
    /// `T`: in one.
    InTransaction,
    /// `E`: in one that has failed.
    Failed,
}

/// A column of a result, as `RowDescription` says it.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The table that it is of; 0: none.
    pub table: Oid,
    /// The column there, from 1; 0: none.
    pub column: i16,
    /// Its type.
    pub of: TypeReference,
    /// `pg_type.typlen`.
    pub type_length: i16,
    /// 0: text; 1: binary.
    pub format: i16,
}

/// A notice, or a warning.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, `INFO`, `DEBUG`, `LOG`.
    pub severity: &'static str,
    /// What it says.
    pub content: SqlError,
}

/// Takes what statements return, in order. `Err`: whoever listens is gone, or the session is to end; the statement ends.
pub trait Sink {
    /// The columns of the rows that follow.
    ///
    /// # Errors
    /// The receiver is gone.
    fn fields(&mut self, fields: &[Field]) -> SqlResult<()>;

    /// A row: for each column its bytes in the format that was asked for.
    ///
    /// # Errors
    /// The receiver is gone.
    fn row(&mut self, row: &EncodedRow) -> SqlResult<()>;

    /// The statement is done: `INSERT 0 1`. `None`: it was empty.
    ///
    /// # Errors
    /// The receiver is gone.
    fn complete(&mut self, tag: Option<&str>) -> SqlResult<()>;

    /// A notice.
    ///
    /// # Errors
    /// The receiver is gone.
    fn notice(&mut self, notice: &Notice) -> SqlResult<()>;

    /// A setting that clients are told of has another value.
    ///
    /// # Errors
    /// The receiver is gone.
    fn setting(&mut self, name: &str, value: &str) -> SqlResult<()>;

    /// `NOTIFY` of another session, or of this one.
    ///
    /// # Errors
    /// The receiver is gone.
    fn notification(&mut self, process_id: i32, channel: &str, payload: &str) -> SqlResult<()>;

    /// `COPY .. TO STDOUT` begins: 0 text or 1 binary, and how many columns.
    ///
    /// # Errors
    /// The receiver is gone.
    fn copy_out(&mut self, format: i8, columns: usize) -> SqlResult<()>;

    /// A part of the copied data.
    ///
    /// # Errors
    /// The receiver is gone.
    fn copy_data(&mut self, data: &[u8]) -> SqlResult<()>;

    /// `COPY .. FROM STDIN` begins: the receiver asks its client for data, which `next_copy_data` returns.
    ///
    /// # Errors
    /// The receiver is gone.
    fn copy_in(&mut self, format: i8, columns: usize) -> SqlResult<()>;

    /// The next part of the data of `COPY .. FROM STDIN`; `None`: that was all.
    ///
    /// # Errors
    /// The client has given up (`57014`), or is gone.
    fn next_copy_data(&mut self) -> SqlResult<Option<Vec<u8>>>;
}

/// A row in the form that a client gets: as in a `DataRow` message without its head: for each column four bytes of length (-1: null),
/// then its bytes.
#[derive(Clone, Debug, Default)]
pub struct EncodedRow {
    /// How many columns.
    pub columns: u16,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// How `execute` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executed {
    /// The statement is done, and this is its tag; `None`: it was empty.
    Complete(Option<String>),
    /// There are more rows.
    Suspended,
}

/// What a prepared statement takes and returns.
#[derive(Clone, Debug)]
pub struct StatementDescription {
    /// Types of parameters.
    pub parameters: Vec<Oid>,
    /// Columns of its rows; `None`: it returns none.
    pub fields: Option<Vec<Field>>,
}

/// Ends what a session does, from any thread.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    requested: Arc<std::sync::atomic::AtomicBool>,
}

impl CancelHandle {
    /// The statement under way ends with `57014`; without one, nothing happens.
    pub fn cancel(&self) {
        self.requested.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// A session.
#[derive(Debug)]
pub struct Session {
    cancel: CancelHandle,
}

impl SqlDatabase {
    /// SQL over an engine's database; makes what it keeps in it, if that is missing.
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(engine: Database) -> SqlResult<Arc<SqlDatabase>> {
        Ok(Arc::new(SqlDatabase { engine }))
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `28000`: no such role, or it may not log in; `3D000`: no such database; a setting that is wrong.
    pub fn connect(self: &Arc<SqlDatabase>, _login: Login) -> SqlResult<Session> {
        Ok(Session { cancel: CancelHandle::default() })
    }

    /// The SCRAM-SHA-256 verifier of a role that may log in, as `pg_authid.rolpassword` has it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn password_of(&self, _role: &str) -> SqlResult<Option<String>> {
        Ok(None)
    }
}

impl Session {
    /// Settings that clients are told of at the beginning: name and value.
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Where it is.
    pub fn status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// What ends a statement of this session from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Runs all statements of a text, each result into `sink`; ends at the first error. All of them are one transaction, unless
    /// they say otherwise. Results are in text format.
    ///
    /// # Errors
    /// Of the statement that failed.
    pub fn simple_query(&mut self, _text: &str, _sink: &mut dyn Sink) -> SqlResult<()> {
        Err(SqlError::unsupported("SQL"))
    }

    /// Prepares one statement. An unnamed one (`""`) takes the place of the one before. Types of 0 are to be found out.
    ///
    /// # Errors
    /// Syntax, names, types.
    pub fn parse(&mut self, _name: &str, _text: &str, _types: &[Oid]) -> SqlResult<()> {
        Err(SqlError::unsupported("SQL"))
    }

    /// Makes a portal of a prepared statement and its parameters. Formats: none: all text; one: for all; else one each.
    ///
    /// # Errors
    /// `26000`, `42P03`, values that are none of their types.
    pub fn bind(
        &mut self,
        _portal: &str,
        _statement: &str,
        _formats: &[i16],
        _values: &[Option<&[u8]>],
        _result_formats: &[i16],
    ) -> SqlResult<()> {
        Err(SqlError::unsupported("SQL"))
    }

    /// What a prepared statement takes and returns.
    ///
    /// # Errors
    /// `26000`.
    pub fn describe_statement(&mut self, _name: &str) -> SqlResult<StatementDescription> {
        Err(SqlError::unsupported("SQL"))
    }

    /// What a portal returns.
    ///
    /// # Errors
    /// `34000`.
    pub fn describe_portal(&mut self, _name: &str) -> SqlResult<Option<Vec<Field>>> {
        Err(SqlError::unsupported("SQL"))
    }

    /// Runs a portal for at most `rows` rows; 0: all. `Sink::fields` and `Sink::complete` are not called.
    ///
    /// # Errors
    /// Of the statement.
    pub fn execute(&mut self, _portal: &str, _rows: u32, _sink: &mut dyn Sink) -> SqlResult<Executed> {
        Err(SqlError::unsupported("SQL"))
    }

    /// Forgets a prepared statement, and its portals.
    pub fn close_statement(&mut self, _name: &str) {}

    /// Forgets a portal.
    pub fn close_portal(&mut self, _name: &str) {}

    /// The end of a pipeline: an implicit transaction is committed, or rolled back if `failed`.
    ///
    /// # Errors
    /// Of the commit.
    pub fn sync(&mut self, _has_failed: bool, _sink: &mut dyn Sink) -> SqlResult<()> {
        Ok(())
    }

    /// An error that the server found (such as of the protocol) counts for the transaction as one of a statement.
    pub fn fail(&mut self) {}
}

/// Encodes a value for a client; for tests of receivers.
///
/// # Errors
/// A value that has no such form.
pub fn encode(_value: &Datum, _of: TypeReference, _format: i16, _to: &mut Vec<u8>) -> SqlResult<()> {
    Err(SqlError::unsupported("encoding"))
}
