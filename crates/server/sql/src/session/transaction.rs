//! The transaction of a session: begun by `BEGIN` or by a statement, failed by an error, ended by `COMMIT`, `ROLLBACK` or the end of the
//! statements that it was begun for.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Durability, Error, Isolation, LockWait, Savepoint, Transaction};
use seawall_types::Lsn;
use seawall_values::{SqlError, SqlResult, SqlState};

use super::{Session, TransactionStatus};
use crate::monitor::count;
use crate::parse::statement::{Isolation as IsolationLevel, TransactionModes};
use crate::storage::engine_error::{EngineResult, not_serializable};
use crate::storage::foreign_key::QueueMark;

/// The engine's level for one of PostgreSQL's. `READ UNCOMMITTED` reads what is committed.
fn engine_isolation(isolation: IsolationLevel) -> Isolation {
    match isolation {
        IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        IsolationLevel::RepeatableRead => Isolation::Snapshot,
        IsolationLevel::Serializable => Isolation::Serializable,
    }
}

/// A transaction that is open.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    /// The engine's. It is gone once the transaction has failed and no savepoint can save it, so that its locks are, too.
    pub(super) engine: Option<Transaction>,
    /// Whether `BEGIN` began it: only `COMMIT` and `ROLLBACK` end it.
    pub(super) is_block: bool,
    pub(super) is_failed: bool,
    pub(super) isolation: IsolationLevel,
    pub(super) is_read_only: bool,
    pub(super) is_deferrable: bool,
    /// Whether a statement has read or written.
    pub(super) has_begun_work: bool,
    /// Whether it has made, changed or dropped an object: what it plans is good for itself only.
    pub(super) changes_definitions: bool,
    /// How many savepoints there were when it made the session's temporary schema; `None`: it did not.
    pub(super) made_temporary_schema: Option<usize>,
    savepoints: Vec<NamedSavepoint>,
}

#[derive(Debug)]
struct NamedSavepoint {
    name: String,
    engine: Savepoint,
    queue: QueueMark,
    settings: usize,
    notifications: usize,
    channels: usize,
    advisory: usize,
    tables: usize,
}

/// How `COMMIT` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Committed,
    RolledBack,
}

fn no_transaction(statement: &str) -> Box<SqlError> {
    let message = format!("{statement} can only be used in transaction blocks");
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

pub(super) fn aborted() -> Box<SqlError> {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// Ends a transaction. A serializable one that no order explains until a prepared transaction is decided fails at once, as in PostgreSQL: it may
/// be retried, and nobody knows when that will be. Others wait.
fn in_order(
    mut transaction: Transaction,
    isolation: IsolationLevel,
    end: impl FnOnce(Transaction) -> Result<Lsn, Error>,
) -> SqlResult<Lsn> {
    if isolation != IsolationLevel::Serializable {
        return end(transaction).sql();
    }
    transaction.set_lock_wait(LockWait::NoWait);
    match end(transaction) {
        Err(Error::Locked { .. }) => Err(not_serializable()),
        ended => ended.sql(),
    }
}

impl Session {
    /// Where it is.
    pub fn status(&self) -> TransactionStatus {
        match &self.open {
            Some(open) if open.is_failed => TransactionStatus::Failed,
            Some(open) if open.is_block => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    pub(super) fn is_in_block(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_block)
    }

    fn new_transaction(&self, modes: TransactionModes) -> OpenTransaction {
        let isolation = modes.isolation.unwrap_or_else(|| self.settings.default_isolation());
        let is_read_only = modes.is_read_only.unwrap_or_else(|| self.settings.default_read_only());
        let is_read_only = is_read_only || self.asker.is_in_recovery;
        let durability = self.settings.synchronous_commit().durability();
        let engine =
            self.engine.with(engine_isolation(isolation)).with(durability).with(self.lock_wait()).begin();
        OpenTransaction {
            engine: Some(engine),
            is_block: false,
            is_failed: false,
            isolation,
            is_read_only,
            is_deferrable: modes.is_deferrable.unwrap_or_else(|| self.settings.default_deferrable()),
            has_begun_work: false,
            changes_definitions: false,
            made_temporary_schema: None,
            savepoints: Vec::new(),
        }
    }

    /// `lock_timeout`; without one, until a cancel: a deadlock is found at once.
    pub(super) fn lock_wait(&self) -> LockWait {
        LockWait::Timeout(self.settings.lock_timeout().unwrap_or(Duration::MAX))
    }

    /// The transaction that a statement runs in; begins one if there is none.
    pub(super) fn open(&mut self) -> SqlResult<&mut OpenTransaction> {
        if self.open.is_none() {
            self.note_role();
            let open = self.new_transaction(TransactionModes::default());
            self.settings.begin_transaction((self.settings.values().clock)());
            self.open = Some(open);
        }
        match &mut self.open {
            Some(open) if open.is_failed => Err(aborted()),
            Some(open) => Ok(open),
            None => Err(SqlError::internal("no transaction after one was begun")),
        }
    }

    /// The engine's transaction.
    pub(super) fn engine_transaction(&mut self) -> SqlResult<&mut Transaction> {
        self.open()?.engine.as_mut().ok_or_else(aborted)
    }

    /// `BEGIN`. Within a transaction: a warning. What was begun for the statements before it goes on as the block.
    pub(super) fn begin_block(&mut self, modes: TransactionModes) -> SqlResult<()> {
        match &mut self.open {
            Some(open) if open.is_failed => return Err(aborted()),
            Some(open) if open.is_block => {
                self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
                return Ok(());
            }
            Some(open) => {
                open.is_block = true;
                return self.set_modes(modes);
            }
            None => {}
        }
        self.note_role();
        self.check_modes(modes)?;
        let mut open = self.new_transaction(modes);
        open.is_block = true;
        self.settings.begin_transaction((self.settings.values().clock)());
        self.open = Some(open);
        Ok(())
    }

    /// `SET TRANSACTION`, and modes of a second `BEGIN`.
    pub(super) fn set_modes(&mut self, modes: TransactionModes) -> SqlResult<()> {
        self.check_modes(modes)?;
        let lock_wait = self.lock_wait();
        let durability = self.settings.synchronous_commit().durability();
        let engine = self.engine.clone();
        let open = self.open()?;
        if let Some(isolation) = modes.isolation
            && isolation != open.isolation
        {
            if open.has_begun_work {
                let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            // Ended first: a session has one transaction at a time.
            open.engine = None;
            let begun = engine.with(engine_isolation(isolation)).with(durability).with(lock_wait).begin();
            open.engine = Some(begun);
            open.isolation = isolation;
        }
        if let Some(is_read_only) = modes.is_read_only {
            if !is_read_only && open.is_read_only && open.has_begun_work {
                let message = "transaction read-write mode must be set before any query";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            open.is_read_only = is_read_only;
        }
        if let Some(is_deferrable) = modes.is_deferrable {
            open.is_deferrable = is_deferrable;
        }
        Ok(())
    }

    /// `COMMIT`: of a failed transaction, a rollback. Outside of a block: a warning.
    pub(super) fn commit_block(&mut self, and_chain: bool) -> SqlResult<Ended> {
        let modes = self.chained_modes("COMMIT AND CHAIN", and_chain)?;
        if !self.is_in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let ended = match &self.open {
            Some(open) if open.is_failed => {
                self.roll_back();
                Ended::RolledBack
            }
            _ => {
                self.commit()?;
                Ended::Committed
            }
        };
        if let Some(modes) = modes {
            self.begin_block(modes)?;
        }
        Ok(ended)
    }

    /// `ROLLBACK`. Outside of a block: a warning.
    pub(super) fn roll_back_block(&mut self, and_chain: bool) -> SqlResult<()> {
        let modes = self.chained_modes("ROLLBACK AND CHAIN", and_chain)?;
        if !self.is_in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        self.roll_back();
        if let Some(modes) = modes {
            self.begin_block(modes)?;
        }
        Ok(())
    }

    fn chained_modes(&self, statement: &str, and_chain: bool) -> SqlResult<Option<TransactionModes>> {
        match (&self.open, and_chain) {
            (_, false) => Ok(None),
            (Some(open), true) if open.is_block => Ok(Some(TransactionModes {
                isolation: Some(open.isolation),
                is_read_only: Some(open.is_read_only),
                is_deferrable: Some(open.is_deferrable),
            })),
            (_, true) => Err(no_transaction(statement)),
        }
    }

    /// Commits what is open, if anything is; after an error it is rolled back.
    pub(super) fn commit(&mut self) -> SqlResult<()> {
        if self.open.is_none() {
            self.settings.commit();
            return Ok(());
        }
        let checked =
            self.finish_constraints().and_then(|()| self.hold_cursors()).and_then(|()| self.run_on_commit());
        let Some(open) = self.open.take() else { return Ok(()) };
        let database = Arc::clone(&self.database);
        let _changing = open.changes_definitions.then(|| database.store.begin_change());
        let begun = super::measure::now();
        let has_written = open.engine.as_ref().is_some_and(|transaction| transaction.written_bytes() > 0);
        let result = checked.and_then(|gone| {
            if let Some(mut transaction) = open.engine {
                // What counts is the setting at the end, as in PostgreSQL.
                let durability = self.settings.synchronous_commit().durability();
                transaction.set_durability(durability);
                let is_replicated = matches!(durability, Durability::Replicated(_));
                let may_wait = has_written && is_replicated && self.engine.quorum().is_required();
                if may_wait {
                    self.activity.set_wait(Some(("IPC", "SyncRep")));
                }
                let committed = in_order(transaction, open.isolation, Transaction::commit);
                if may_wait {
                    self.activity.set_wait(None);
                }
                let stamp = committed?;
                if has_written {
                    self.last_commit = Some(stamp);
                }
            }
            self.on_commit.forget(&gone);
            Ok(())
        });
        self.end_cursors(result.is_ok());
        match &result {
            Ok(()) => {
                self.settings.commit();
                self.send_notifications();
                count(&self.monitor().counts.commits);
                if has_written {
                    self.monitor().stages.commit.note(super::measure::now().saturating_sub(begun));
                }
            }
            Err(_) => {
                self.settings.rollback();
                self.forget_temporary_schema(open.made_temporary_schema.is_some());
                count(&self.monitor().counts.rollbacks);
            }
        }
        self.after_transaction(open.changes_definitions);
        result
    }

    /// Rolls back what is open, if anything is.
    pub(super) fn roll_back(&mut self) {
        let Some(open) = self.open.take() else {
            self.settings.rollback();
            return;
        };
        self.end_cursors(false);
        drop(open.engine);
        self.settings.rollback();
        self.forget_temporary_schema(open.made_temporary_schema.is_some());
        count(&self.monitor().counts.rollbacks);
        self.after_transaction(open.changes_definitions);
    }

    /// The temporary schema of the session was made in what is rolled back: there is none.
    fn forget_temporary_schema(&mut self, is_gone: bool) {
        if is_gone {
            self.asker.temporary_namespace = 0;
            self.path = None;
        }
    }

    fn after_transaction(&mut self, changed_definitions: bool) {
        self.storage.end_transaction();
        self.pending_notifications.clear();
        self.pending_channels.clear();
        self.advisory.return_to(0);
        if changed_definitions {
            self.database.store.note_change_now();
            self.storage.forget_definitions();
            self.expressions.clear();
        }
    }

    /// A statement has failed: so has its transaction. Without a block that is its end; in one, the locks since the last savepoint go.
    pub(super) fn fail_transaction(&mut self) {
        let Some(open) = &mut self.open else {
            self.settings.rollback();
            return;
        };
        if !open.is_block {
            self.roll_back();
            return;
        }
        open.is_failed = true;
        let savepoints = open.savepoints.len();
        let returned = match (open.savepoints.last(), &mut open.engine) {
            (Some(savepoint), Some(engine)) => engine
                .rollback_to(&savepoint.engine)
                .is_ok()
                .then_some((savepoint.tables, savepoint.advisory)),
            _ => None,
        };
        if let Some((tables, advisory)) = returned {
            self.storage.give_back_tables(tables);
            self.advisory.return_to(advisory);
        } else {
            open.engine = None;
            self.storage.end_transaction();
            self.advisory.return_to(0);
        }
        self.portals
            .retain(|_, portal| portal.is_held() || (returned.is_some() && portal.savepoints < savepoints));
    }

    /// How many savepoints there are.
    pub(super) fn savepoints(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.savepoints.len())
    }

    /// `SAVEPOINT`.
    pub(super) fn set_savepoint(&mut self, name: &str) -> SqlResult<()> {
        if !self.is_in_block() {
            return Err(no_transaction("SAVEPOINT"));
        }
        let (queue, settings) = (self.storage.foreign_keys.mark(), self.settings.mark());
        let (notifications, advisory) = (self.pending_notifications.len(), self.advisory.mark());
        let (tables, channels) = (self.storage.tables_mark(), self.pending_channels.len());
        let engine = self.engine_transaction()?.savepoint();
        self.open()?.savepoints.push(NamedSavepoint {
            name: name.to_owned(),
            engine,
            queue,
            settings,
            notifications,
            channels,
            advisory,
            tables,
        });
        Ok(())
    }

    fn savepoint_index(&self, name: &str, statement: &str) -> SqlResult<usize> {
        let open = match &self.open {
            Some(open) if open.is_block => open,
            _ => return Err(no_transaction(statement)),
        };
        open.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            SqlError::new(SqlState::SAVEPOINT_EXCEPTION, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// `RELEASE`: of this savepoint and of those after it.
    pub(super) fn release_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let index = self.savepoint_index(name, "RELEASE SAVEPOINT")?;
        let open = self.open()?;
        let released = open.savepoints.split_off(index);
        match (released.first(), &mut open.engine) {
            (Some(first), Some(engine)) => engine.release(&first.engine).sql()?,
            _ => return Err(aborted()),
        }
        open.made_temporary_schema = open.made_temporary_schema.map(|at| at.min(index));
        for portal in self.portals.values_mut() {
            portal.savepoints = portal.savepoints.min(index);
        }
        Ok(())
    }

    /// `ROLLBACK TO`: the savepoint stays. A failed transaction goes on from there.
    pub(super) fn roll_back_to_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let index = self.savepoint_index(name, "ROLLBACK TO SAVEPOINT")?;
        let Some(open) = &mut self.open else { return Err(aborted()) };
        open.savepoints.truncate(index + 1);
        let (Some(savepoint), Some(engine)) = (open.savepoints.last(), &mut open.engine) else {
            return Err(aborted());
        };
        engine.rollback_to(&savepoint.engine).sql()?;
        open.is_failed = false;
        let is_gone = open.made_temporary_schema.take_if(|at| *at > index).is_some();
        let changes_definitions = open.changes_definitions;
        self.storage.foreign_keys.return_to(&savepoint.queue);
        self.settings.return_to(savepoint.settings);
        self.pending_notifications.truncate(savepoint.notifications);
        self.pending_channels.truncate(savepoint.channels);
        self.advisory.return_to(savepoint.advisory);
        self.storage.give_back_tables(savepoint.tables);
        self.forget_temporary_schema(is_gone);
        if changes_definitions {
            self.storage.forget_definitions();
            self.expressions.clear();
        }
        self.portals.retain(|_, portal| portal.is_held() || portal.savepoints <= index);
        Ok(())
    }

    /// `PREPARE TRANSACTION`.
    pub(super) fn prepare_transaction(&mut self, gid: &str) -> SqlResult<Ended> {
        if !self.is_in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            return Ok(Ended::RolledBack);
        }
        if self.open.as_ref().is_some_and(|open| open.is_failed) {
            self.roll_back();
            return Ok(Ended::RolledBack);
        }
        if let Err(refused) = self.check_preparable() {
            // As PostgreSQL: the transaction is over.
            self.roll_back();
            return Err(refused);
        }
        self.end_cursors(false);
        let Some(open) = self.open.take() else { return Ok(Ended::RolledBack) };
        let result = match open.engine {
            Some(mut transaction) => {
                transaction.set_durability(self.settings.synchronous_commit().of_two_phase());
                transaction.set_owner(&self.user).sql().and_then(|()| {
                    in_order(transaction, open.isolation, |transaction| transaction.prepare(gid)).map(drop)
                })
            }
            None => Ok(()),
        };
        match &result {
            Ok(()) => {
                self.settings.commit();
                if !open.changes_definitions {
                    self.database.prepared_rows.lock().insert(gid.to_owned());
                }
            }
            Err(_) => self.settings.rollback(),
        }
        self.after_transaction(open.changes_definitions);
        result.map(|()| Ended::Committed)
    }

    /// What a transaction must not have done that is prepared; its constraints.
    fn check_preparable(&mut self) -> SqlResult<()> {
        if !self.pending_notifications.is_empty() || !self.pending_channels.is_empty() {
            let message = "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if self.portals.values().any(|portal| {
            !portal.is_held() && portal.cursor.as_ref().is_some_and(|cursor| cursor.is_holdable)
        }) {
            let message = "cannot PREPARE a transaction that has created a cursor WITH HOLD";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if self.storage.uses_temporary {
            let message = "cannot PREPARE a transaction that has operated on temporary objects";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.advisory.check_preparable()?;
        self.look_up_user()?;
        self.finish_constraints()
    }

    /// `COMMIT PREPARED` (`true`), `ROLLBACK PREPARED`.
    pub(super) fn decide_prepared(&mut self, gid: &str, is_commit: bool) -> SqlResult<()> {
        if self.is_in_block() {
            let statement = if is_commit { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" };
            let message = format!("{statement} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        // The end of a transaction may have changed the role.
        self.look_up_user()?;
        self.check_may_decide(gid)?;
        let changes_nothing_else = self.database.prepared_rows.lock().remove(gid);
        let two_phase = self.engine.two_phase().with(self.settings.synchronous_commit().of_two_phase());
        if !is_commit {
            return two_phase.rollback(gid).map(|_| ()).sql();
        }
        let database = Arc::clone(&self.database);
        let _changing = (!changes_nothing_else).then(|| database.store.begin_change());
        // Where the wait for standbys was ended, its changes are visible later.
        let decided = two_phase.commit(gid).map(|stamp| self.last_commit = Some(stamp));
        if !changes_nothing_else {
            // Definitions and privileges that it may have changed: plans and rights are looked up again.
            self.database.store.note_change_now();
            self.storage.forget_definitions();
            self.expressions.clear();
        }
        decided.sql()
    }

    /// `42501` unless the user is a superuser, or has prepared the transaction.
    fn check_may_decide(&self, gid: &str) -> SqlResult<()> {
        if self.asker.is_superuser {
            return Ok(());
        }
        let in_doubt = self.engine.two_phase().in_doubt().sql()?;
        match in_doubt.iter().find(|prepared| prepared.gid == gid) {
            Some(prepared) if *prepared.owner != *self.user => {
                let message = "permission denied to finish prepared transaction";
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .with_hint("Must be superuser or the user that prepared the transaction."))
            }
            _ => Ok(()),
        }
    }
}
