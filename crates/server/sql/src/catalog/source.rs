//! Where the live rows of system relations come from: the definitions that a transaction sees, and the state of the server.

use std::sync::Arc;

use seawall_engine::{Database, LoggedRows};
use seawall_replication::Replication;
use seawall_values::{Oid, SqlResult};

use crate::monitor::Monitor;
use crate::schema::function::Function;
use crate::schema::privilege::AccessList;
use crate::schema::statistics::TableStatistics;
use crate::schema::user_type::UserType;
use crate::schema::{Definition, Table};

/// A schema of the database.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its number in `pg_namespace`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its owner's number.
    pub owner: Oid,
}

/// A role.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its number in `pg_authid`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// `SUPERUSER`.
    pub is_superuser: bool,
    /// `INHERIT`.
    pub inherits: bool,
    /// `CREATEROLE`.
    pub creates_roles: bool,
    /// `CREATEDB`.
    pub creates_databases: bool,
    /// `LOGIN`.
    pub can_log_in: bool,
    /// `REPLICATION`.
    pub replicates: bool,
    /// `BYPASSRLS`.
    pub bypasses_row_security: bool,
    /// `CONNECTION LIMIT`; -1: none.
    pub connection_limit: i32,
    /// The verifier of the password.
    pub password: Option<String>,
    /// `VALID UNTIL`: microseconds since 2000-01-01 UTC.
    pub valid_until: Option<i64>,
    /// Settings of `ALTER ROLE .. SET`, as `name=value`.
    pub settings: Vec<String>,
    /// Roles that it is a member of, and whether `WITH ADMIN OPTION`.
    pub member_of: Vec<(Oid, bool)>,
}

impl Role {
    /// A role that `CREATE ROLE` without options makes.
    pub fn plain(oid: Oid, name: String) -> Role {
        Role {
            oid,
            name,
            is_superuser: false,
            inherits: true,
            creates_roles: false,
            creates_databases: false,
            can_log_in: false,
            replicates: false,
            bypasses_row_security: false,
            connection_limit: -1,
            password: None,
            valid_until: None,
            settings: Vec::new(),
            member_of: Vec::new(),
        }
    }
}

/// A comment.
#[derive(Clone, Debug)]
pub struct Comment {
    /// The number of the object.
    pub object: Oid,
    /// The number of the system relation that lists the object.
    pub class: Oid,
    /// The number of a column, from 1; 0: the object itself.
    pub column: i32,
    /// What it says.
    pub text: String,
}

/// A setting with its current value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, as `SHOW` gives it, but without a unit.
    pub value: String,
    /// The value that `RESET` gives.
    pub reset_value: String,
    /// `pg_settings.source`, such as `default`, `configuration file`, `session`.
    pub source: &'static str,
}

/// A transaction that is prepared.
#[derive(Clone, Debug)]
pub struct PreparedTransaction {
    /// The number of the transaction.
    pub transaction: u32,
    /// Its name.
    pub name: String,
    /// When it was prepared: microseconds since 2000-01-01 UTC.
    pub prepared: i64,
    /// The name of its owner.
    pub owner: String,
    /// The name of the database.
    pub database: String,
}

/// A session, as `pg_stat_activity` shows it.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The number by which it is cancelled.
    pub process_id: i32,
    /// The number of its role; 0: none.
    pub user: Oid,
    /// `application_name`.
    pub application: String,
    /// The address of its client, and the port; `None`: none, or a local one.
    pub client: Option<(String, i32)>,
    /// When it began: microseconds since 2000-01-01 UTC.
    pub started: i64,
    /// When its transaction began.
    pub transaction_started: Option<i64>,
    /// When its statement began.
    pub statement_started: Option<i64>,
    /// When `state` changed last.
    pub state_changed: Option<i64>,
    /// What it waits for: `wait_event_type` and `wait_event`.
    pub wait: Option<(&'static str, &'static str)>,
    /// `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: &'static str,
    /// The statement under way, or the last one.
    pub query: String,
    /// `client backend`, `checkpointer` and so on.
    pub backend_type: &'static str,
}

/// A lock, as `pg_locks` shows it.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// `relation`, `transactionid`, `virtualxid`, `advisory`.
    pub kind: &'static str,
    /// The number of the table.
    pub relation: Option<Oid>,
    /// The number of the transaction that is waited for.
    pub transaction: Option<u32>,
    /// `virtualxid`: the transaction of a session.
    pub virtual_id: Option<String>,
    /// The key of an advisory lock: `classid`, `objid`, `objsubid`.
    pub advisory: Option<(Oid, Oid, i16)>,
    /// The session; `None`: a prepared transaction.
    pub process_id: Option<i32>,
    /// `virtualtransaction`.
    pub virtual_transaction: String,
    /// Such as `RowExclusiveLock`.
    pub mode: &'static str,
    /// Whether it is held, and not waited for.
    pub is_granted: bool,
    /// Since when it has been waited for: microseconds since 2000-01-01 UTC.
    pub waiting_since: Option<i64>,
}

/// A statement of `PREPARE`.
#[derive(Clone, Debug)]
pub struct PreparedStatement {
    /// Its name.
    pub name: String,
    /// Its text.
    pub statement: String,
    /// When it was prepared: microseconds since 2000-01-01 UTC.
    pub prepared: i64,
    /// The types of its parameters.
    pub parameters: Vec<Oid>,
    /// Whether it was prepared by `PREPARE`, and not by a message.
    pub is_from_sql: bool,
}

/// An open cursor.
#[derive(Clone, Debug)]
pub struct OpenCursor {
    /// Its name.
    pub name: String,
    /// Its text.
    pub statement: String,
    /// `WITH HOLD`.
    pub is_holdable: bool,
    /// `BINARY`.
    pub is_binary: bool,
    /// `SCROLL`.
    pub is_scrollable: bool,
    /// When it was opened: microseconds since 2000-01-01 UTC.
    pub opened: i64,
}

/// What is known of the rows of a table, or of an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Rows, about; `None`: unknown.
    pub rows: Option<u64>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Scans that were begun.
    pub scans: u64,
    /// Rows that were read.
    pub rows_read: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows changed since the last `ANALYZE`.
    pub changed: u64,
    /// How often somebody has analyzed it.
    pub analyzes: u64,
    /// How often it was analyzed automatically.
    pub automatic_analyzes: u64,
    /// When somebody analyzed it last; `None`: not since the start of the server.
    pub analyzed_at: Option<i64>,
    /// When it was last analyzed automatically.
    pub automatically_analyzed_at: Option<i64>,
}

/// What the engine has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineTotals {
    /// Bytes up to the end of what is logged.
    pub log_end: u64,
    /// Bytes up to the end of what is durable.
    pub durable_end: u64,
    /// Records appended to the log.
    pub log_records: u64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
    /// Flushes of the log.
    pub log_flushes: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Pages that the last checkpoint wrote.
    pub pages_written: u64,
    /// Pages read from the page file.
    pub pages_read: u64,
    /// Segments archived, by all archives.
    pub archived: u64,
    /// Failures of archives.
    pub archive_failures: u64,
    /// When something was archived last: microseconds since 2000-01-01 UTC.
    pub last_archived: Option<i64>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// `current_user`.
    pub user: Oid,
    /// Whether that role is a superuser.
    pub is_superuser: bool,
    /// `session_user`.
    pub session_user: Oid,
    /// The name of the database.
    pub database: String,
    /// The schemas in which names are looked up, in order; `pg_catalog` and the temporary schema are in it even if implied.
    pub search_path: Vec<Oid>,
    /// How many of the first of these are implied: not written in `search_path`.
    pub implied: usize,
    /// The number of the temporary schema; 0: there is none yet.
    pub temporary_namespace: Oid,
    /// The number of the session.
    pub process_id: i32,
    /// When the server began: microseconds since 2000-01-01 UTC.
    pub server_started: i64,
    /// When its configuration was read last.
    pub configuration_loaded: i64,
    /// The address and port of the client, and those of the server that it speaks to.
    pub addresses: Option<((String, i32), (String, i32))>,
    /// Whether the server is a standby.
    pub is_in_recovery: bool,
}

/// What system relations show, and functions over them look up. One method for one thing; those that a server may lack have defaults.
pub trait Source {
    /// Who asks.
    fn asker(&self) -> &Asker;

    /// The table, view or sequence with the smallest number above `after`: all of them are listed by beginning with 0.
    ///
    /// # Errors
    /// What the engine says.
    fn definition_after(&mut self, after: Oid) -> SqlResult<Option<Definition>>;

    /// The table, view, sequence or index with this number. System relations are not asked for.
    ///
    /// # Errors
    /// What the engine says.
    fn definition(&mut self, oid: Oid) -> SqlResult<Option<Definition>>;

    /// The table, view, sequence or index with this name in a schema.
    ///
    /// # Errors
    /// What the engine says.
    fn definition_named(&mut self, namespace: Oid, name: &str) -> SqlResult<Option<Definition>>;

    /// The types that users have made.
    ///
    /// # Errors
    /// What the source says.
    fn user_types(&mut self) -> SqlResult<Vec<UserType>> {
        Ok(Vec::new())
    }

    /// All schemas but those of the system: `public` is one of them.
    ///
    /// # Errors
    /// What the engine says.
    fn namespaces(&mut self) -> SqlResult<Vec<Namespace>>;

    /// All functions that users have made, by their numbers.
    ///
    /// # Errors
    /// What the engine says.
    fn functions(&mut self) -> SqlResult<Vec<Function>> {
        Ok(Vec::new())
    }

    /// The function with this number, if users have made it.
    ///
    /// # Errors
    /// What the engine says.
    fn function(&mut self, _oid: Oid) -> SqlResult<Option<Function>> {
        Ok(None)
    }

    /// Functions of a schema with this name that users have made.
    ///
    /// # Errors
    /// What the engine says.
    fn functions_named(&mut self, _namespace: Oid, _name: &str) -> SqlResult<Vec<Arc<Function>>> {
        Ok(Vec::new())
    }

    /// The objects, and columns of them from 1, that an object depends on.
    ///
    /// # Errors
    /// What the engine says.
    fn dependencies(&mut self, _object: Oid) -> SqlResult<Vec<(Oid, u16)>> {
        Ok(Vec::new())
    }

    /// All roles but those whose names begin with `pg_`.
    ///
    /// # Errors
    /// What the engine says.
    fn roles(&mut self) -> SqlResult<Vec<Role>>;

    /// The access list of an object: its number, that of its class, and a column from 1 or 0. `None`: nothing was granted or revoked.
    ///
    /// # Errors
    /// What the engine says.
    fn access_list(&mut self, _place: (Oid, Oid, u16)) -> SqlResult<Option<AccessList>> {
        Ok(None)
    }

    /// The access lists of an object and (by their numbers) of its columns.
    ///
    /// # Errors
    /// What the engine says.
    fn access_lists(&mut self, _object: Oid, _class: Oid) -> SqlResult<Vec<(u16, AccessList)>> {
        Ok(Vec::new())
    }

    /// What `ALTER DEFAULT PRIVILEGES` has said: role, schema, letter of the kind of objects, list.
    ///
    /// # Errors
    /// What the engine says.
    fn default_access(&mut self) -> SqlResult<Vec<(Oid, Oid, u8, AccessList)>> {
        Ok(Vec::new())
    }

    /// Comments of an object; `None`: of all.
    ///
    /// # Errors
    /// What the engine says.
    fn comments(&mut self, object: Option<Oid>) -> SqlResult<Vec<Comment>>;

    /// The last value that a sequence has given, if it has given one.
    ///
    /// # Errors
    /// What the engine says.
    fn sequence_value(&mut self, sequence: Oid) -> SqlResult<Option<i64>>;

    /// All settings.
    fn settings(&mut self) -> Vec<Setting>;

    /// The table that has this constraint.
    ///
    /// # Errors
    /// What the engine says.
    fn table_of_constraint(&mut self, constraint: Oid) -> SqlResult<Option<Arc<Table>>> {
        let mut after = 0;
        while let Some(definition) = self.definition_after(after)? {
            if let Definition::Table(table) = &definition
                && table.constraints.iter().any(|known| known.oid == constraint)
            {
                return Ok(Some(Arc::clone(table)));
            }
            after = super::oid_of(&definition);
        }
        Ok(None)
    }

    /// Transactions that are prepared.
    ///
    /// # Errors
    /// What the engine says.
    fn prepared_transactions(&mut self) -> SqlResult<Vec<PreparedTransaction>> {
        Ok(Vec::new())
    }

    /// All sessions.
    fn activity(&mut self) -> Vec<Activity> {
        Vec::new()
    }

    /// All locks.
    fn locks(&mut self) -> Vec<HeldLock> {
        Vec::new()
    }

    /// Statements that the session has prepared.
    fn prepared_statements(&mut self) -> Vec<PreparedStatement> {
        Vec::new()
    }

    /// The channels that the session listens to.
    fn listening_channels(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Cursors that the session has open.
    fn cursors(&mut self) -> Vec<OpenCursor> {
        Vec::new()
    }

    /// What is known of a table or an index.
    ///
    /// # Errors
    /// What the engine says.
    fn statistics(&mut self, _relation: Oid) -> SqlResult<Statistics> {
        Ok(Statistics::default())
    }

    /// How many rows a table has, about.
    ///
    /// # Errors
    /// What the engine says.
    fn live_rows(&mut self, _table: &Table) -> SqlResult<Option<u64>> {
        Ok(None)
    }

    /// The engine.
    fn engine(&self) -> Option<&Database> {
        None
    }

    /// What is counted of statements and relations.
    fn monitor(&self) -> Option<&Monitor> {
        None
    }

    /// What one of the engine's tables has put into the log.
    ///
    /// # Errors
    /// What the engine says.
    fn logged_rows(&mut self, _place: &str) -> SqlResult<LoggedRows> {
        Ok(LoggedRows::default())
    }

    /// What the engine has done.
    fn engine_totals(&mut self) -> EngineTotals {
        EngineTotals::default()
    }

    /// Slots, streams to standbys, and the stream from a primary.
    fn replication(&mut self) -> Option<Arc<Replication>> {
        None
    }

    /// Makes a primary of a standby.
    ///
    /// # Errors
    /// `55000`: the server is not a standby; what the engine says.
    fn promote(&mut self) -> SqlResult<()> {
        Err(crate::session::not_in_recovery())
    }

    /// What `ANALYZE` has found out about a table.
    ///
    /// # Errors
    /// What the engine says.
    fn table_statistics(&mut self, _table: Oid) -> SqlResult<Option<Arc<TableStatistics>>> {
        Ok(None)
    }

    /// The number of the current transaction: of `None`, if it has none yet and none is to be given to it.
    ///
    /// # Errors
    /// What the engine says.
    fn transaction_number(&mut self, _is_assigned: bool) -> SqlResult<Option<u64>> {
        Ok(None)
    }
}
