//! A session: what a connection, or a program that embeds the database, speaks to.
//!
//! All calls block until they are done. A session is `Send`: between calls it needs no thread.
//!
//! ```text
//!   text -> parse -> Prepared -> plan -> Portal -> Execution -> rows -> Sink
//!                                           all within: OpenTransaction
//! ```
//! * here: what callers see. `database`: what all sessions share. `run`: statements of a simple query; `portal`: prepared statements and
//!   portals; `plan`: plans; `utility`: statements that are no queries, with `analyze`, `cursor`, `copy`, `explain`, `define` and `notification`.
//! * `transaction`: blocks, savepoints, failures. `settings`: `SET` and `SHOW`. `stored`: expressions of definitions.
//! * `automatic_analyze`: a thread that analyzes tables that have changed.
//! * `measure`: how long statements take. `plan_cache`: plans that sessions share.
//! * `functions`, `source`, `locks`: what functions and system relations ask the session. `activity`: who does what.
//!   `advisory`: locks on numbers of the clients'. `encode`: values for clients.

pub(crate) mod activity;
mod advisory;
mod analyze;
mod attention;
mod automatic_analyze;
mod copy;
mod cursor;
mod database;
mod define;
pub(crate) mod encode;
mod explain;
pub(crate) mod functions;
mod locks;
mod measure;
mod notification;
mod plan;
pub(crate) mod plan_cache;
mod portal;
mod privileges;
mod recovery;
mod role;
mod run;
pub(crate) mod settings;
mod source;
mod stored;
pub(crate) mod transaction;
mod utility;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use seawall_engine::{CancelToken, Database};
use seawall_types::Lsn;
use seawall_values::user_types::UserTypes;
use seawall_values::{Oid, SqlError, SqlResult, TypeReference};

use crate::catalog::source::Asker;
use crate::execute::TemporaryFiles;
use crate::monitor::Monitor;
use crate::schema::store::SearchPath;
use crate::storage::StorageSession;

pub use attention::Waker;
pub use automatic_analyze::{AnalyzeThread, AutomaticAnalyze, PROCESS_ID as ANALYZE_PROCESS_ID};
pub use database::{DatabaseSettings, SqlDatabase};
pub(crate) use recovery::not_in_recovery;

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
    /// A statement of several begins: `limit` is its `statement_timeout`.
    fn statement_begins(&mut self, _limit: Option<Duration>) {}

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
    requested: Arc<CancelToken>,
}

impl CancelHandle {
    /// The statement under way ends with `57014`, at once if it waits; without one, nothing happens.
    pub fn cancel(&self) {
        self.requested.request();
    }

    /// A statement begins: what was asked for before does not count.
    fn begin(&self) {
        self.requested.clear();
    }
}

/// How long a session may take; `None`: without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// `statement_timeout`.
    pub statement: Option<Duration>,
    /// `idle_in_transaction_session_timeout`.
    pub idle_in_transaction: Option<Duration>,
    /// `idle_session_timeout`.
    pub idle: Option<Duration>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    database: Arc<SqlDatabase>,
    /// The engine's session: it reads what it has committed.
    engine: Database,
    login: Login,
    /// The number of the role that logged in.
    login_role: Oid,
    /// The name of `current_user`.
    user: String,
    asker: Asker,
    settings: settings::SessionSettings,
    open: Option<transaction::OpenTransaction>,
    storage: StorageSession,
    expressions: stored::StoredExpressions,
    /// Where names are looked up, by the version of the settings and the moment of the definitions.
    path: Option<(u64, Lsn, SearchPath)>,
    /// When the types of users were looked up: as for `path`.
    types_seen: Option<(u64, Lsn, Arc<UserTypes>)>,
    statements: FxHashMap<String, portal::Prepared>,
    portals: FxHashMap<String, portal::Portal>,
    notices: Vec<Notice>,
    /// What `NOTIFY` has said, until the commit: channel and payload.
    pending_notifications: Vec<(String, String)>,
    /// What `LISTEN` and `UNLISTEN` have said, until the commit.
    pending_channels: Vec<notification::ListenChange>,
    activity: Arc<activity::SessionActivity>,
    attention: attention::Attention,
    advisory: advisory::HeldAdvisoryLocks,
    temporary_files: Arc<TemporaryFiles>,
    on_commit: define::on_commit::OnCommitTables,
    cancel: CancelHandle,
    /// Where the record of its last commit that wrote something ends.
    last_commit: Option<Lsn>,
    measured: measure::Measured,
}

impl Session {
    fn monitor(&self) -> &Monitor {
        &self.database.store.monitor
    }

    /// Settings that clients are told of at the beginning: name and value.
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        self.settings.reported()
    }

    /// The limits that its settings say now. The server asks before each statement, and keeps to them.
    pub fn timeouts(&self) -> Timeouts {
        self.settings.timeouts()
    }

    /// What ends a statement of this session from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
        self.advisory.unlock_all();
        self.database.forget(self.login.process_id);
    }
}
