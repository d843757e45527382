//! Statements as the session runs them.
//!
//! Queries and changes are sqlparser's trees, for the binder. All others are types of our own: `definition` has those that define
//! something, `copy` has `COPY`.

pub(crate) mod copy;
pub(crate) mod definition;

use std::sync::Arc;

use sqlparser::ast::{self, DataType, Expr, SetExpr};

use super::text::Text;
pub(crate) use crate::session::settings::IsolationLevel as Isolation;
pub(crate) use crate::storage::TableLockMode as TableLock;
use copy::Copy;
use definition::Definition;

/// One statement of a text.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) text: Text,
    pub(crate) statement: Statement,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Dml(Dml),
    Utility(Arc<Utility>),
}

/// A statement that reads or changes rows: the binder's.
#[derive(Clone, Debug)]
pub(crate) enum Dml {
    /// `SELECT`, `VALUES`, `TABLE`, or a change after `WITH`.
    Query(Box<ast::Query>),
    /// `INSERT`, `UPDATE`, `DELETE`, `MERGE`.
    Change(Box<ast::Statement>),
}

/// A name with the schema that was written before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// The database, which is to be this one.
    pub(crate) database: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
    /// Where it begins.
    pub(crate) position: Option<u32>,
}

/// A statement that neither reads nor changes rows by itself.
#[derive(Clone, Debug)]
pub(crate) enum Utility {
    Transaction(Transaction),
    Setting(Setting),
    /// `PREPARE`.
    Prepare {
        name: String,
        types: Vec<DataType>,
        text: Text,
        statement: Dml,
    },
    Execute(Execute),
    /// `DEALLOCATE`; `None`: all.
    Deallocate(Option<String>),
    Declare(Declare),
    Fetch(Fetch),
    /// `CLOSE`; `None`: all.
    Close(Option<String>),
    Copy(Box<Copy>),
    Explain(Box<Explain>),
    Listen(String),
    /// `UNLISTEN`; `None`: all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// `LOCK TABLE`.
    Lock {
        tables: Vec<ObjectName>,
        mode: TableLock,
        is_nowait: bool,
    },
    Discard(Discard),
    Maintenance(Maintenance),
    Truncate {
        tables: Vec<ObjectName>,
        is_restarting: bool,
        is_cascading: bool,
    },
    /// `SET CONSTRAINTS`; no names: all.
    SetConstraints {
        names: Vec<ObjectName>,
        is_deferred: bool,
    },
    Define(Box<Definition>),
}

/// A statement about transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// `BEGIN`, or `START TRANSACTION` (`true`), which has another tag.
    Begin(TransactionModes, bool),
    /// `COMMIT`, and whether `AND CHAIN`.
    Commit(bool),
    /// `ROLLBACK`, and whether `AND CHAIN`.
    Rollback(bool),
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// `PREPARE TRANSACTION`.
    Prepare(String),
    CommitPrepared(String),
    RollbackPrepared(String),
    /// `SET TRANSACTION`.
    SetModes(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`.
    SetSessionModes(TransactionModes),
}

/// What a transaction is to be like; `None`: as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionModes {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) is_read_only: Option<bool>,
    pub(crate) is_deferrable: Option<bool>,
}

/// A statement about a setting. Names are in lower case; `SET TIME ZONE`, `SET NAMES`, `SET ROLE`, `SET SESSION AUTHORIZATION`,
/// `SET SCHEMA` and their like are `timezone`, `client_encoding`, `role`, `session_authorization`, `search_path`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// `SET`, `SET LOCAL`; no values: `TO DEFAULT`.
    Set { name: String, values: Vec<SettingValue>, is_local: bool },
    /// `RESET`; `None`: all.
    Reset(Option<String>),
    /// `SHOW`; `None`: all.
    Show(Option<String>),
}

/// A value of a setting, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingValue {
    /// A word, or a text in quotes.
    Text(String),
    /// A number with its sign.
    Number(String),
    /// `INTERVAL '..'` of `SET TIME ZONE`, and the fields after it.
    Interval(String, String),
}

/// `EXECUTE`.
#[derive(Clone, Debug)]
pub(crate) struct Execute {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
}

/// `DECLARE`.
#[derive(Clone, Debug)]
pub(crate) struct Declare {
    pub(crate) name: String,
    pub(crate) is_binary: bool,
    pub(crate) is_holdable: bool,
    pub(crate) is_insensitive: bool,
    /// `SCROLL` or `NO SCROLL`.
    pub(crate) is_scrollable: Option<bool>,
    pub(crate) query: Dml,
    /// The whole statement, as `pg_cursors` has it.
    pub(crate) text: Text,
}

/// `FETCH` or `MOVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) cursor: String,
    pub(crate) direction: Direction,
    pub(crate) is_move: bool,
}

/// Which rows are fetched. `ALL` is `i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// So many after the current one; 0: the current one again; negative: backward.
    Forward(i64),
    /// So many before the current one.
    Backward(i64),
    /// The one with this number; negative: from the end. `FIRST` is 1, `LAST` is -1.
    Absolute(i64),
    /// The one so far from the current one.
    Relative(i64),
}

/// `EXPLAIN`.
#[derive(Clone, Debug)]
pub(crate) struct Explain {
    pub(crate) options: ExplainOptions,
    /// What is explained: a query, a change, `EXECUTE`, `DECLARE`, `CREATE TABLE AS`.
    pub(crate) statement: Statement,
}

/// What `EXPLAIN` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainOptions {
    pub(crate) is_analyze: bool,
    pub(crate) is_verbose: bool,
    pub(crate) has_costs: bool,
    pub(crate) has_settings: bool,
    pub(crate) has_buffers: bool,
    pub(crate) has_wal: bool,
    /// `TIMING`; `None`: as `ANALYZE` says.
    pub(crate) has_timing: Option<bool>,
    /// `SUMMARY`; `None`: as `ANALYZE` says.
    pub(crate) has_summary: Option<bool>,
    pub(crate) format: ExplainFormat,
}

/// The form of what `EXPLAIN` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExplainFormat {
    Text,
    Json,
    Xml,
    Yaml,
}

/// `DISCARD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    All,
    Plans,
    Sequences,
    Temporary,
}

/// A statement that changes nothing that can be seen. No tables: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// `VACUUM`, and whether `ANALYZE` with it.
    Vacuum(Vec<MaintainedTable>, bool),
    Analyze(Vec<MaintainedTable>),
    Checkpoint,
    /// `CLUSTER`.
    Cluster(Option<ObjectName>),
    Reindex(Reindex),
}

/// `REINDEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reindex {
    pub(crate) what: Reindexed,
    pub(crate) name: ObjectName,
    pub(crate) is_concurrent: bool,
}

/// What `REINDEX` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reindexed {
    Index,
    Table,
    Schema,
    System,
    Database,
}

/// A table with columns, as `ANALYZE` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaintainedTable {
    pub(crate) name: ObjectName,
    pub(crate) columns: Vec<String>,
}

impl Statement {
    /// Whether a transaction that has failed lets it run.
    pub(crate) fn ends_transaction(&self) -> bool {
        use Transaction as T;
        match self {
            Statement::Utility(utility) => matches!(
                **utility,
                Utility::Transaction(T::Commit(_) | T::Rollback(_) | T::RollbackTo(_) | T::Prepare(_))
            ),
            Statement::Dml(_) => false,
        }
    }
}

impl Dml {
    /// What it is called when it is done: `SELECT`, `INSERT`, `UPDATE`, `DELETE` or `MERGE`.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            Dml::Query(query) => match &*query.body {
                SetExpr::Insert(_) => "INSERT",
                SetExpr::Update(_) => "UPDATE",
                SetExpr::Delete(_) => "DELETE",
                SetExpr::Merge(_) => "MERGE",
                _ => "SELECT",
            },
            Dml::Change(statement) => change_command(statement),
        }
    }

    fn change(&self) -> Option<&ast::Statement> {
        match self {
            Dml::Query(query) => match &*query.body {
                SetExpr::Insert(statement)
                | SetExpr::Update(statement)
                | SetExpr::Delete(statement)
                | SetExpr::Merge(statement) => Some(statement),
                _ => None,
            },
            Dml::Change(statement) => Some(statement),
        }
    }

    /// Whether clients are told of columns: a query, or a change with `RETURNING`.
    pub(crate) fn returns_rows(&self) -> bool {
        match self.change() {
            None => true,
            Some(ast::Statement::Insert(insert)) => insert.returning.is_some(),
            Some(ast::Statement::Update(update)) => update.returning.is_some(),
            Some(ast::Statement::Delete(delete)) => delete.returning.is_some(),
            Some(_) => false,
        }
    }

    /// How PostgreSQL names it where a transaction is read-only, if it is refused there.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        if let Some(statement) = self.change() {
            return Some(change_command(statement));
        }
        let Dml::Query(query) = self else { return None };
        let changes =
            |body: &SetExpr| matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_));
        let has_change =
            query.with.iter().flat_map(|with| &with.cte_tables).any(|table| changes(&table.query.body));
        match query.locks.first() {
            Some(lock) => Some(match super::marked_lock(lock) {
                Some(crate::algebra::RowLock::NoKeyUpdate) => "SELECT FOR NO KEY UPDATE",
                Some(crate::algebra::RowLock::KeyShare) => "SELECT FOR KEY SHARE",
                Some(crate::algebra::RowLock::Share) => "SELECT FOR SHARE",
                Some(crate::algebra::RowLock::Update) => "SELECT FOR UPDATE",
                None if lock.lock_type == ast::LockType::Share => "SELECT FOR SHARE",
                None => "SELECT FOR UPDATE",
            }),
            None if has_change => Some("SELECT"),
            None => None,
        }
    }
}

fn change_command(statement: &ast::Statement) -> &'static str {
    match statement {
        ast::Statement::Insert(_) => "INSERT",
        ast::Statement::Update(_) => "UPDATE",
        ast::Statement::Merge(_) => "MERGE",
        _ => "DELETE",
    }
}

impl Utility {
    /// Its tag. `COMMIT` of a failed transaction has `ROLLBACK`; those that count rows have a number after it, and `CREATE TABLE AS` has
    /// `SELECT` and one.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Utility::Transaction(transaction) => transaction.tag(),
            Utility::Setting(Setting::Set { .. }) => "SET",
            Utility::Setting(Setting::Reset(_)) => "RESET",
            Utility::Setting(Setting::Show(_)) => "SHOW",
            Utility::SetConstraints { .. } => "SET CONSTRAINTS",
            Utility::Prepare { .. } => "PREPARE",
            Utility::Execute(_) => "EXECUTE",
            Utility::Deallocate(None) => "DEALLOCATE ALL",
            Utility::Deallocate(Some(_)) => "DEALLOCATE",
            Utility::Declare(_) => "DECLARE CURSOR",
            Utility::Fetch(Fetch { is_move: false, .. }) => "FETCH",
            Utility::Fetch(_) => "MOVE",
            Utility::Close(None) => "CLOSE CURSOR ALL",
            Utility::Close(Some(_)) => "CLOSE CURSOR",
            Utility::Copy(_) => "COPY",
            Utility::Explain(_) => "EXPLAIN",
            Utility::Listen(_) => "LISTEN",
            Utility::Unlisten(_) => "UNLISTEN",
            Utility::Notify { .. } => "NOTIFY",
            Utility::Lock { .. } => "LOCK TABLE",
            Utility::Discard(Discard::All) => "DISCARD ALL",
            Utility::Discard(Discard::Plans) => "DISCARD PLANS",
            Utility::Discard(Discard::Sequences) => "DISCARD SEQUENCES",
            Utility::Discard(Discard::Temporary) => "DISCARD TEMP",
            Utility::Maintenance(maintenance) => maintenance.tag(),
            Utility::Truncate { .. } => "TRUNCATE TABLE",
            Utility::Define(definition) => definition.tag(),
        }
    }
}

impl Transaction {
    fn tag(&self) -> &'static str {
        match self {
            Transaction::Begin(_, false) => "BEGIN",
            Transaction::Begin(_, true) => "START TRANSACTION",
            Transaction::Commit(_) => "COMMIT",
            Transaction::Rollback(_) | Transaction::RollbackTo(_) => "ROLLBACK",
            Transaction::Savepoint(_) => "SAVEPOINT",
            Transaction::Release(_) => "RELEASE",
            Transaction::Prepare(_) => "PREPARE TRANSACTION",
            Transaction::CommitPrepared(_) => "COMMIT PREPARED",
            Transaction::RollbackPrepared(_) => "ROLLBACK PREPARED",
            Transaction::SetModes(_) | Transaction::SetSessionModes(_) => "SET",
        }
    }
}

impl Maintenance {
    fn tag(&self) -> &'static str {
        match self {
            Maintenance::Vacuum(..) => "VACUUM",
            Maintenance::Analyze(_) => "ANALYZE",
            Maintenance::Checkpoint => "CHECKPOINT",
            Maintenance::Cluster(_) => "CLUSTER",
            Maintenance::Reindex(_) => "REINDEX",
        }
    }
}
