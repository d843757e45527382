//! Functions that ask the session: who, where, which settings, sequences, other sessions.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{CancelToken, Database, Error, LockWait, Transaction};
use seawall_io::{Clock, SystemClock};
use seawall_types::Lsn;
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Array, Datum, Oid, SqlError, SqlResult, SqlState, oid};

use super::SqlDatabase;
use super::activity::SessionActivity;
use super::advisory::{self, HeldAdvisoryLocks};
use super::settings::SessionSettings;
use super::source::State;
use crate::catalog;
use crate::catalog::source::{Asker, OpenCursor, PreparedStatement};
use crate::schema::privilege::Privileges;
use crate::schema::sequence::{SequencePosition, SequenceSession};
use crate::schema::store::StoreSource;
use crate::schema::{Definition, Sequence};
use crate::storage::SessionCalls;
use crate::storage::engine_error::EngineResult;

/// A function over the session.
type Implementation =
    fn(&mut Calls<'_>, &mut Transaction, &mut SequenceSession, &Call<'_>) -> SqlResult<Datum>;

/// Functions by `pg_proc.prosrc`; those over the catalogs are in `catalog::functions`.
const TABLE: &[(&str, Implementation)] = &[
    ("nextval_oid", |calls, transaction, sequences, call| {
        let sequence = calls.sequence(transaction, call)?;
        let any = Privileges::USAGE.and(Privileges::UPDATE);
        calls.require_on_sequence(transaction, &sequence, any)?;
        calls.require_writable(&sequence, "nextval")?;
        sequences.next_value(&calls.database.store, &sequence).map(Datum::Int8)
    }),
    ("currval_oid", |calls, transaction, sequences, call| {
        let sequence = calls.sequence(transaction, call)?;
        let any = Privileges::USAGE.and(Privileges::SELECT);
        calls.require_on_sequence(transaction, &sequence, any)?;
        sequences.current_value(&sequence).map(Datum::Int8)
    }),
    ("lastval", |_, _, sequences, _| sequences.last_value().map(Datum::Int8)),
    ("setval_oid", set_value),
    ("setval3_oid", set_value),
    ("set_config_by_name", set_config),
    ("show_config_by_name", |calls, _, _, call| {
        calls.settings.show(text(call, 0)?).map(|value| Datum::text(&value))
    }),
    ("show_config_by_name_missing_ok", |calls, _, _, call| match calls.settings.show(text(call, 0)?) {
        Err(error)
            if error.code == SqlState::UNDEFINED_OBJECT
                && matches!(call.arguments.get(1), Some(Datum::Bool(true))) =>
        {
            Ok(Datum::Null)
        }
        shown => shown.map(|value| Datum::text(&value)),
    }),
    ("pg_sleep", sleep),
    ("seawall_wait_for_lsn", wait_for_lsn),
    ("seawall_last_commit_lsn", |calls, _, _, _| {
        Ok(calls.last_commit.map_or(Datum::Null, |lsn| Datum::Unsigned8(lsn.get())))
    }),
    ("pg_notify", |calls, _, _, call| {
        let payload = match call.arguments.get(1) {
            Some(Datum::Text(payload)) => payload.to_string(),
            _ => String::new(),
        };
        let channel = match call.arguments.first() {
            Some(Datum::Text(channel)) => channel,
            _ => "",
        };
        super::notification::add(calls.notifications, channel, &payload)?;
        Ok(Datum::text(""))
    }),
    ("pg_cancel_backend", |calls, _, _, call| match session_to_stop(calls, call)? {
        Some(process_id) => Ok(Datum::Bool(calls.database.activities.cancel(process_id))),
        None => Ok(Datum::Bool(false)),
    }),
    ("pg_terminate_backend", |calls, _, _, call| match session_to_stop(calls, call)? {
        Some(process_id) => Ok(Datum::Bool(calls.database.activities.terminate(process_id))),
        None => Ok(Datum::Bool(false)),
    }),
    ("pg_blocking_pids", |calls, _, _, call| {
        let blockers = calls.database.blockers_of(process_id(call)?).into_iter().map(Datum::Int4);
        Ok(Datum::Array(Arc::new(Array::one_dimensional(oid::INT4, blockers.collect()))))
    }),
    ("pg_isolation_test_session_is_blocked", |calls, _, _, call| {
        let Some(Datum::Array(others)) = call.arguments.get(1) else { return Err(unexpected("sessions")) };
        let is_other = |blocker: &i32| {
            others.values.iter().any(|other| matches!(other, Datum::Int4(other) if other == blocker))
        };
        Ok(Datum::Bool(calls.database.blockers_of(process_id(call)?).iter().any(is_other)))
    }),
    ("pg_stat_statements_reset", |calls, _, _, call| {
        calls.require_superuser_to_reset()?;
        let user = match call.arguments.first() {
            Some(Datum::Oid(user)) => *user,
            _ => 0,
        };
        let id = match call.arguments.get(2) {
            Some(Datum::Int8(id)) => *id,
            _ => 0,
        };
        calls.database.store.monitor.statements.clear(user, id, super::settings::clock());
        Ok(Datum::text(""))
    }),
    ("pg_jit_available", |_, _, _, _| Ok(Datum::Bool(false))),
    ("pg_trigger_depth", |_, _, _, _| Ok(Datum::Int4(0))),
];

fn implementation(source: &str) -> Option<Implementation> {
    TABLE.iter().find(|(known, _)| *known == source).map(|(_, implementation)| *implementation)
}

/// Whether the session answers the function with this source.
pub(crate) fn is_session_function(source: &str) -> bool {
    implementation(source).is_some()
        || advisory::operation(source).is_some()
        || catalog::functions::implementation(source).is_some()
        || catalog::functions::set_implementation(source).is_some()
}

/// What functions of the session use.
pub(crate) struct Calls<'a> {
    pub(crate) database: &'a SqlDatabase,
    /// The engine's session.
    pub(crate) engine: &'a Database,
    /// Of this session.
    pub(crate) last_commit: Option<Lsn>,
    pub(crate) settings: &'a mut SessionSettings,
    pub(crate) asker: &'a Asker,
    /// Whether the transaction may write to nothing but what is temporary.
    pub(crate) is_read_only: bool,
    pub(crate) notifications: &'a mut Vec<(String, String)>,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) advisory: &'a mut HeldAdvisoryLocks,
    pub(crate) lock_wait: LockWait,
    pub(crate) activity: &'a SessionActivity,
    pub(crate) prepared: &'a dyn Fn() -> Vec<PreparedStatement>,
    pub(crate) cursors: &'a dyn Fn() -> Vec<OpenCursor>,
    /// The number of the session.
    pub(crate) session: i32,
}

impl Calls<'_> {
    /// Runs `body` with what system relations and functions over them ask.
    fn with_source<T>(
        &mut self,
        transaction: &mut Transaction,
        body: impl FnOnce(&mut StoreSource<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let mut state = State {
            database: self.database,
            asker: self.asker,
            settings: &*self.settings,
            prepared: self.prepared,
            cursors: self.cursors,
            session: self.session,
        };
        body(&mut StoreSource { store: &self.database.store, transaction, session: &mut state })
    }

    /// `42501`, unless the role may clear what was counted.
    fn require_superuser_to_reset(&self) -> SqlResult<()> {
        match self.asker.is_superuser {
            true => Ok(()),
            false => {
                let message = "permission denied for function pg_stat_statements_reset";
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }

    /// `25006`, unless the sequence may be moved on.
    fn require_writable(&self, sequence: &Sequence, function: &str) -> SqlResult<()> {
        if !self.is_read_only || sequence.namespace == self.asker.temporary_namespace {
            return Ok(());
        }
        let message = format!("cannot execute {function}() in a read-only transaction");
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }

    /// The sequence that the first argument numbers.
    fn sequence(
        &mut self,
        transaction: &mut Transaction,
        call: &Call<'_>,
    ) -> SqlResult<std::sync::Arc<Sequence>> {
        let Some(Datum::Oid(oid)) = call.arguments.first() else { return Err(unexpected("a sequence")) };
        match self.database.store.definition(transaction, *oid)? {
            Some(Definition::Sequence(sequence)) => Ok(sequence),
            Some(other) => {
                let message = format!("\"{}\" is not a sequence", catalog::heading(&other).name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("could not open relation with OID {oid}");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }
}

impl SessionCalls for Calls<'_> {
    fn scan_system(
        &mut self,
        transaction: &mut Transaction,
        relation: Oid,
        columns: &[usize],
        filter: &[(usize, Datum)],
    ) -> SqlResult<Rows> {
        if let Some(Definition::Sequence(sequence)) = sequence_of(self.database, transaction, relation)? {
            return sequence_row(self.database, &sequence, columns);
        }
        self.with_source(transaction, |source| catalog::Scan::rows(relation, columns, filter, source))
    }

    fn call(
        &mut self,
        transaction: &mut Transaction,
        sequences: &mut SequenceSession,
        function: &FunctionRow,
        call: &Call<'_>,
    ) -> SqlResult<Datum> {
        if let Some(implementation) = implementation(&function.source) {
            return implementation(self, transaction, sequences, call);
        }
        if let Some(operation) = advisory::operation(&function.source) {
            return self.advisory.call(operation, call, self.lock_wait);
        }
        match catalog::functions::implementation(&function.source) {
            Some(implementation) => self.with_source(transaction, |source| implementation(source, call)),
            None => Err(SqlError::unsupported(format!("function {}", function.name))),
        }
    }

    fn call_set(
        &mut self,
        transaction: &mut Transaction,
        function: &FunctionRow,
        call: &Call<'_>,
    ) -> SqlResult<Rows> {
        match catalog::functions::set_implementation(&function.source) {
            Some(implementation) => self.with_source(transaction, |source| implementation(source, call)),
            None => Err(SqlError::unsupported(format!("function {}", function.name))),
        }
    }

    fn reference_input(&mut self, transaction: &mut Transaction, of: Oid, text: &str) -> SqlResult<Oid> {
        self.with_source(transaction, |source| catalog::functions::reference_input(source, of, text))
    }

    fn reference_output(&mut self, transaction: &mut Transaction, of: Oid, number: Oid) -> SqlResult<String> {
        self.with_source(transaction, |source| catalog::functions::reference_output(source, of, number))
    }
}

fn unexpected(what: &str) -> Box<SqlError> {
    SqlError::internal(format!("a function of the session got something else than {what}"))
}

fn text<'c>(call: &'c Call<'_>, position: usize) -> SqlResult<&'c str> {
    match call.arguments.get(position) {
        Some(Datum::Text(text)) => Ok(text),
        _ => Err(unexpected("a text")),
    }
}

fn sequence_of(
    database: &SqlDatabase,
    transaction: &mut Transaction,
    relation: Oid,
) -> SqlResult<Option<Definition>> {
    match catalog::relation(relation) {
        Some(_) => Ok(None),
        None => database.store.definition(transaction, relation),
    }
}

/// `SELECT * FROM sequence`.
fn sequence_row(database: &SqlDatabase, sequence: &Sequence, columns: &[usize]) -> SqlResult<Rows> {
    let position = database.store.sequence_position(sequence)?;
    let whole = [Datum::Int8(position.value), Datum::Int8(0), Datum::Bool(position.is_called)];
    let row = columns.iter().filter_map(|column| whole.get(*column).cloned()).collect();
    Ok(Box::new(std::iter::once(Ok(row))))
}

/// `setval(sequence, value)`, `setval(sequence, value, is_called)`.
fn set_value(
    calls: &mut Calls<'_>,
    transaction: &mut Transaction,
    sequences: &mut SequenceSession,
    call: &Call<'_>,
) -> SqlResult<Datum> {
    let sequence = calls.sequence(transaction, call)?;
    calls.require_on_sequence(transaction, &sequence, Privileges::UPDATE)?;
    calls.require_writable(&sequence, "setval")?;
    let Some(Datum::Int8(value)) = call.arguments.get(1) else { return Err(unexpected("a number")) };
    let is_called = !matches!(call.arguments.get(2), Some(Datum::Bool(false)));
    let position = SequencePosition { value: *value, is_called };
    sequences.set_value(&calls.database.store, &sequence, position)?;
    Ok(Datum::Int8(*value))
}

fn set_config(
    calls: &mut Calls<'_>,
    _transaction: &mut Transaction,
    _sequences: &mut SequenceSession,
    call: &Call<'_>,
) -> SqlResult<Datum> {
    let Some(Datum::Text(name)) = call.arguments.first() else {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    };
    let is_local = matches!(call.arguments.get(2), Some(Datum::Bool(true)));
    match call.arguments.get(1) {
        Some(Datum::Text(value)) => calls.settings.set_text(name, value, is_local)?,
        _ => calls.settings.reset(name, is_local)?,
    }
    calls.settings.show(name).map(|value| Datum::text(&value))
}

/// The number of a session, which is the first argument.
fn process_id(call: &Call<'_>) -> SqlResult<i32> {
    match call.arguments.first() {
        Some(Datum::Int4(process_id)) => Ok(*process_id),
        _ => Err(unexpected("the number of a session")),
    }
}

/// The session that the first argument numbers, which the role of this one may stop; `None`: there is none.
fn session_to_stop(calls: &mut Calls<'_>, call: &Call<'_>) -> SqlResult<Option<i32>> {
    let process_id = process_id(call)?;
    let Some(user) = calls.database.activities.user_of(process_id) else { return Ok(None) };
    if user != calls.asker.user && !calls.asker.is_superuser {
        let message =
            "must be a member of the role whose query is being canceled or member of pg_signal_backend";
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    Ok(Some(process_id))
}

/// `pg_sleep`: ends early if the statement is cancelled.
fn sleep(
    calls: &mut Calls<'_>,
    _transaction: &mut Transaction,
    _sequences: &mut SequenceSession,
    call: &Call<'_>,
) -> SqlResult<Datum> {
    let Some(Datum::Float8(seconds)) = call.arguments.first() else { return Err(unexpected("seconds")) };
    let wanted = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    calls.activity.set_wait(Some(("Timeout", "PgSleep")));
    let slept = sleep_until(SystemClock.monotonic().saturating_add(wanted), calls.cancel);
    calls.activity.set_wait(None);
    slept.map(|()| Datum::text(""))
}

/// `seawall.wait_for_lsn`: whether readers see everything before a position, within the time.
fn wait_for_lsn(
    calls: &mut Calls<'_>,
    _transaction: &mut Transaction,
    _sequences: &mut SequenceSession,
    call: &Call<'_>,
) -> SqlResult<Datum> {
    let (Some(Datum::Unsigned8(lsn)), Some(Datum::Int8(milliseconds))) =
        (call.arguments.first(), call.arguments.get(1))
    else {
        return Err(unexpected("a position and a time"));
    };
    let lsn = Lsn::new(*lsn);
    let limit = match u64::try_from(*milliseconds) {
        Ok(0) => Duration::MAX,
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => {
            let message = format!("timeout_ms is {milliseconds}, and a time is not negative");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    if let Some(standby) = calls.engine.standby() {
        calls.activity.set_wait(Some(("IPC", "WaitForWalReplay")));
        let waited = standby.wait_applied(lsn, limit);
        calls.activity.set_wait(None);
        match waited {
            Ok(()) => return Ok(Datum::Bool(true)),
            Err(Error::NotApplied { .. }) => return Ok(Datum::Bool(false)),
            // It was promoted meanwhile.
            Err(_) if calls.engine.standby().is_none() => {}
            Err(error) => return Err(error).sql(),
        }
    }
    // Nothing comes to a primary: what it lacks is in no log that it will have.
    match calls.engine.snapshot().lsn() >= lsn {
        true => Ok(Datum::Bool(true)),
        false => Err(super::not_in_recovery()),
    }
}

fn sleep_until(end: Duration, cancel: &CancelToken) -> SqlResult<()> {
    loop {
        if cancel.is_requested() {
            let message = "canceling statement due to user request";
            return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
        }
        let rest = end.saturating_sub(SystemClock.monotonic());
        if rest.is_zero() {
            return Ok(());
        }
        cancel.sleep(rest);
    }
}
