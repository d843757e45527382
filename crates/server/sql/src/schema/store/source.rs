//! What system relations show of a database: its definitions, as a transaction sees them. The session adds what it knows of itself and
//! of others.

use std::sync::Arc;

use seawall_engine::{ArchiveStatistics, Database, LoggedRows, Transaction};
use seawall_replication::Replication;
use seawall_values::{Oid, SqlResult};

use super::{SchemaStore, StoredStatistics, letter_of_kind};
use crate::catalog::source::{
    Activity, Asker, Comment, EngineTotals, HeldLock, Namespace, OpenCursor, PreparedStatement,
    PreparedTransaction, Role, Setting, Source, Statistics,
};
use crate::execute::Statistics as _;
use crate::monitor::Monitor;
use crate::schema::function::Function;
use crate::schema::privilege::AccessList;
use crate::schema::statistics::TableStatistics;
use crate::schema::user_type::UserType;
use crate::schema::{Definition, Table};
use crate::storage::engine_error::EngineResult;

/// Microseconds from 1970-01-01 to 2000-01-01 UTC.
const EPOCH: i64 = 946_684_800_000_000;

/// The parts of a [`Source`] that are the session's. See there.
pub trait SessionState {
    /// Who asks.
    fn asker(&self) -> &Asker;

    /// All settings.
    fn settings(&mut self) -> Vec<Setting>;

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

    /// Slots, streams to standbys, and the stream from a primary.
    fn replication(&self) -> Option<Arc<Replication>> {
        None
    }

    /// Makes a primary of a standby.
    ///
    /// # Errors
    /// `55000`: the server is not a standby; what the engine says.
    fn promote(&self) -> SqlResult<()> {
        Err(crate::session::not_in_recovery())
    }

    /// The number of the current transaction; `None`: it has none, and none is to be given to it.
    fn transaction_number(&mut self, _is_assigned: bool) -> Option<u64> {
        None
    }
}

/// Definitions for system relations.
pub struct StoreSource<'a> {
    /// Where they are.
    pub store: &'a SchemaStore,
    /// Who reads them.
    pub transaction: &'a mut Transaction,
    /// The session.
    pub session: &'a mut dyn SessionState,
}

impl std::fmt::Debug for StoreSource<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoreSource").finish_non_exhaustive()
    }
}

impl Source for StoreSource<'_> {
    fn asker(&self) -> &Asker {
        self.session.asker()
    }

    fn definition_after(&mut self, after: Oid) -> SqlResult<Option<Definition>> {
        self.store.definition_after(self.transaction, after)
    }

    fn definition(&mut self, oid: Oid) -> SqlResult<Option<Definition>> {
        self.store.definition(self.transaction, oid)
    }

    fn definition_named(&mut self, namespace: Oid, name: &str) -> SqlResult<Option<Definition>> {
        match self.store.relation_number(self.transaction, namespace, name)? {
            Some(oid) => self.store.definition(self.transaction, oid),
            None => Ok(None),
        }
    }

    fn user_types(&mut self) -> SqlResult<Vec<UserType>> {
        self.store.user_types(self.transaction)
    }

    fn functions(&mut self) -> SqlResult<Vec<Function>> {
        self.store.functions(self.transaction)
    }

    fn function(&mut self, oid: Oid) -> SqlResult<Option<Function>> {
        self.store.function(self.transaction, oid)
    }

    fn functions_named(&mut self, namespace: Oid, name: &str) -> SqlResult<Vec<Arc<Function>>> {
        self.store.functions_named(self.transaction, namespace, name)
    }

    fn dependencies(&mut self, object: Oid) -> SqlResult<Vec<(Oid, u16)>> {
        self.store.dependencies(self.transaction, object)
    }

    fn namespaces(&mut self) -> SqlResult<Vec<Namespace>> {
        self.store.namespaces(self.transaction)
    }

    fn roles(&mut self) -> SqlResult<Vec<Role>> {
        self.store.roles(self.transaction)
    }

    fn access_list(&mut self, place: (Oid, Oid, u16)) -> SqlResult<Option<AccessList>> {
        self.store.access_list(self.transaction, place)
    }

    fn access_lists(&mut self, object: Oid, class: Oid) -> SqlResult<Vec<(u16, AccessList)>> {
        self.store.access_lists(self.transaction, object, class)
    }

    fn default_access(&mut self) -> SqlResult<Vec<(Oid, Oid, u8, AccessList)>> {
        let all = self.store.all_default_access(self.transaction)?.into_iter();
        Ok(all.map(|((role, schema, kind), list)| (role, schema, letter_of_kind(kind), list)).collect())
    }

    fn comments(&mut self, object: Option<Oid>) -> SqlResult<Vec<Comment>> {
        self.store.comments(self.transaction, object)
    }

    fn sequence_value(&mut self, sequence: Oid) -> SqlResult<Option<i64>> {
        let Some(Definition::Sequence(sequence)) = self.store.definition(self.transaction, sequence)? else {
            return Ok(None);
        };
        let position = self.store.sequence_position(&sequence)?;
        Ok(position.is_called.then_some(position.value))
    }

    fn settings(&mut self) -> Vec<Setting> {
        self.session.settings()
    }

    fn table_of_constraint(&mut self, constraint: Oid) -> SqlResult<Option<Arc<Table>>> {
        let Some(table) = self.store.table_of_constraint(self.transaction, constraint)? else {
            return Ok(None);
        };
        match self.store.definition(self.transaction, table)? {
            Some(Definition::Table(table)) => Ok(Some(table)),
            _ => Ok(None),
        }
    }

    fn prepared_transactions(&mut self) -> SqlResult<Vec<PreparedTransaction>> {
        let database = self.session.asker().database.clone();
        let mut found = Vec::new();
        for (number, prepared) in (1..).zip(self.store.database().two_phase().in_doubt().sql()?) {
            found.push(PreparedTransaction {
                transaction: number,
                owner: prepared.owner,
                name: prepared.gid,
                prepared: prepared.prepared_micros.saturating_sub(EPOCH),
                database: database.clone(),
            });
        }
        Ok(found)
    }

    fn activity(&mut self) -> Vec<Activity> {
        self.session.activity()
    }

    fn locks(&mut self) -> Vec<HeldLock> {
        self.session.locks()
    }

    fn prepared_statements(&mut self) -> Vec<PreparedStatement> {
        self.session.prepared_statements()
    }

    fn listening_channels(&mut self) -> Vec<String> {
        self.session.listening_channels()
    }

    fn cursors(&mut self) -> Vec<OpenCursor> {
        self.session.cursors()
    }

    fn replication(&mut self) -> Option<Arc<Replication>> {
        self.session.replication()
    }

    fn promote(&mut self) -> SqlResult<()> {
        self.session.promote()
    }

    fn engine_totals(&mut self) -> EngineTotals {
        let known = self.store.database().statistics();
        let sum = |of: fn(&ArchiveStatistics) -> u64| known.archives.iter().map(of).sum();
        let last = known.archives.iter().filter_map(|archive| archive.last_success_micros).max();
        EngineTotals {
            log_end: known.log.appended.get(),
            durable_end: known.log.flushed.get(),
            log_records: known.log.records,
            log_bytes: known.log.bytes,
            log_flushes: known.log.flushes,
            checkpoints: known.checkpoints.completed,
            pages_written: known.checkpoints.last.as_ref().map_or(0, |last| last.leaves + last.interiors),
            pages_read: known.cache.pages_read,
            archived: sum(|archive| archive.segments),
            archive_failures: sum(|archive| archive.failures),
            last_archived: last.map(|micros| micros.saturating_sub(EPOCH)),
        }
    }

    fn live_rows(&mut self, table: &Table) -> SqlResult<Option<u64>> {
        let mut statistics =
            StoredStatistics { store: self.store, transaction: &mut *self.transaction, failure: None };
        let estimated = statistics.estimated_rows(table).map(whole);
        statistics.failure.map_or(Ok(estimated), Err)
    }

    fn engine(&self) -> Option<&Database> {
        Some(self.store.database())
    }

    fn monitor(&self) -> Option<&Monitor> {
        Some(&self.store.monitor)
    }

    fn logged_rows(&mut self, place: &str) -> SqlResult<LoggedRows> {
        let table = self.transaction.table(place).sql()?;
        Ok(self.store.database().log().rows_of(&table))
    }

    fn statistics(&mut self, relation: Oid) -> SqlResult<Statistics> {
        let known = self.store.statistics(self.transaction, relation)?;
        let rows = known.map(|known| whole(known.rows));
        Ok(Statistics { rows, ..self.store.monitor.relations.shown(relation) })
    }

    fn table_statistics(&mut self, table: Oid) -> SqlResult<Option<Arc<TableStatistics>>> {
        self.store.statistics(self.transaction, table)
    }

    fn transaction_number(&mut self, is_assigned: bool) -> SqlResult<Option<u64>> {
        Ok(self.session.transaction_number(is_assigned))
    }
}

/// A count that was estimated, as a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast of a float saturates")]
fn whole(rows: f64) -> u64 {
    rows as u64
}
