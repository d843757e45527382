//! PostgreSQL's codes and messages for what the engine says.

use seawall_engine::Error;
use seawall_values::{SqlError, SqlResult, SqlState};

use crate::storage::lock_tag::circle_detail;

/// The result of a call of the engine, as a statement has it.
pub trait EngineResult<T> {
    /// With the error as PostgreSQL has it.
    ///
    /// # Errors
    /// What the engine said.
    fn sql(self) -> SqlResult<T>;
}

impl<T> EngineResult<T> for Result<T, Error> {
    fn sql(self) -> SqlResult<T> {
        self.map_err(|error| sql_error(&error))
    }
}

/// No order of transactions explains what this one has read.
#[cold]
pub(crate) fn not_serializable() -> Box<SqlError> {
    let message = "could not serialize access due to read/write dependencies among transactions";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
        .with_hint("The transaction might succeed if retried.")
}

/// An error of the engine as PostgreSQL has it; the engine's own words are its detail where PostgreSQL's say less.
#[cold]
pub fn sql_error(error: &Error) -> Box<SqlError> {
    let plain = |code, message: &str| SqlError::new(code, message);
    let with_words = |code, message: &str| SqlError::new(code, message).with_detail(error.to_string());
    match error {
        Error::Conflict { .. } if error.is_conflict_of_reads() => not_serializable(),
        Error::Conflict { .. } => {
            plain(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        }
        Error::TableChanged { .. } => with_words(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: a table was changed by another transaction",
        ),
        Error::Cancelled => plain(SqlState::QUERY_CANCELED, "canceling statement due to user request"),
        Error::Deadlock { circle } => SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .with_detail(circle_detail(circle))
            .with_hint("See server log for query details."),
        Error::Locked { .. } => plain(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"),
        Error::SnapshotCancelled { .. } => with_words(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old"),
        Error::TransactionFailed { .. } => plain(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ),
        Error::KeyTooLarge { bytes, limit } => SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("index row size {bytes} exceeds maximum {limit}"),
        )
        .with_hint(
            "Values larger than this cannot be indexed. Consider a function index of an MD5 hash of the value.",
        ),
        Error::ValueTooLarge { bytes, limit } => SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("row is too big: size {bytes}, maximum size {limit}"),
        ),
        Error::TransactionTooLarge { .. } | Error::TransactionMemory { .. } => {
            with_words(SqlState::OUT_OF_MEMORY, "out of memory")
        }
        Error::DiskFull { .. } => with_words(SqlState::DISK_FULL, "could not write to the log: the disk is full"),
        Error::ReadOnly => plain(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "cannot execute this statement: the database is open read-only",
        ),
        Error::HandedOver => SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "cannot execute this statement: this server has handed the role of the primary over",
        )
        .with_detail("The transaction has changed nothing.")
        .with_hint("Connect to the new primary."),
        Error::Parked => {
            plain(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the role of the primary is being handed over")
        }
        Error::NotReplicated { .. } => SqlError::new(
            SqlState::STATEMENT_COMPLETION_UNKNOWN,
            "canceling the wait for synchronous replication: the outcome of the transaction is unknown",
        )
        .with_detail(
            "The transaction is on stable storage here, but might not have been replicated to the standby. It becomes visible when it has.",
        ),
        Error::Closed | Error::Stopped { .. } => {
            with_words(SqlState::CRASH_SHUTDOWN, "the database does not take this statement")
        }
        Error::NoSuchTable { .. } => {
            with_words(SqlState::UNDEFINED_TABLE, "the storage of the relation does not exist")
        }
        Error::NoSuchSavepoint => plain(SqlState::SAVEPOINT_EXCEPTION, "no such savepoint"),
        Error::NotInDoubt { gid } => SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("prepared transaction with identifier \"{gid}\" does not exist"),
        ),
        Error::GidInUse { gid } => SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("transaction identifier \"{gid}\" is already in use"),
        ),
        Error::BeingDecided { gid } => SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("prepared transaction with identifier \"{gid}\" is busy"),
        ),
        Error::Gid { .. } => SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string()),
        Error::TableInDoubt { .. } => SqlError::new(SqlState::OBJECT_IN_USE, error.to_string()),
        other => SqlError::new(SqlState::IO_ERROR, other.to_string()),
    }
}
