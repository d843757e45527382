//! Locks of tables: whoever writes rows, and whoever changes the table itself or looks at all of its rows, wait for each other.
//!
//! ```text
//!   INSERT, UPDATE, DELETE: ROW EXCLUSIVE --+
//!   SELECT FOR UPDATE:      ROW SHARE ------+--> end of the transaction, or rollback to a savepoint from before
//!   CREATE INDEX:           SHARE ----------+
//!   ALTER, DROP, TRUNCATE:  ACCESS EXCLUSIVE
//! ```
//! The locks are the engine's. A query takes none: its rows and the definitions that it goes by are of one moment.

use rustc_hash::FxHashMap;
use seawall_engine::{Error, LockModes, LockWait, SessionLocks};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use crate::storage::engine_error::sql_error;
use crate::storage::lock_tag::LockedThing;

pub use seawall_engine::LockMode as TableLockMode;

/// The tables that the transaction of a session has locked.
#[derive(Debug)]
pub(crate) struct HeldTables {
    locks: SessionLocks,
    held: FxHashMap<Oid, LockModes>,
    /// The tables in the order in which they were locked, each with the modes that it was locked in before.
    order: Vec<(Oid, LockModes)>,
}

impl HeldTables {
    /// None yet.
    pub(crate) fn new(locks: SessionLocks) -> HeldTables {
        HeldTables { locks, held: FxHashMap::default(), order: Vec::new() }
    }

    /// Locks a table until the end of the transaction.
    pub(crate) fn lock(
        &mut self,
        (table, name): (Oid, &str),
        mode: TableLockMode,
        wait: LockWait,
    ) -> SqlResult<()> {
        let before = self.held.get(&table).copied().unwrap_or_default();
        if before.has(mode) {
            return Ok(());
        }
        let locked = self.locks.lock(LockedThing::Relation(table).tag(), mode, wait);
        locked.map_err(|error| refusal(&error, name, wait))?;
        self.held.insert(table, before.with(mode));
        self.order.push((table, before));
        Ok(())
    }

    /// Where a rollback to a savepoint returns to.
    pub(crate) fn mark(&self) -> usize {
        self.order.len()
    }

    /// Gives back the locks since the mark; 0: all.
    pub(crate) fn return_to(&mut self, mark: usize) {
        while self.order.len() > mark
            && let Some((table, before)) = self.order.pop()
        {
            self.locks.keep(LockedThing::Relation(table).tag(), before);
            if before.is_empty() {
                self.held.remove(&table);
            } else {
                self.held.insert(table, before);
            }
        }
    }
}

impl Drop for HeldTables {
    fn drop(&mut self) {
        self.return_to(0);
    }
}

#[cold]
fn refusal(error: &Error, table: &str, wait: LockWait) -> Box<SqlError> {
    match (error, wait) {
        (Error::Locked { .. }, LockWait::NoWait) => {
            let message = format!("could not obtain lock on relation \"{table}\"");
            SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
        }
        _ => sql_error(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use seawall_engine::{Database, Environment, Options};
    use seawall_simulation::SimulatedDisk;

    use super::*;

    const NO_WAIT: LockWait = LockWait::NoWait;
    const LONG: LockWait = LockWait::Timeout(Duration::from_secs(60));

    fn code(result: SqlResult<()>) -> String {
        result.map_or_else(|error| error.code.as_str().to_owned(), |()| "ok".to_owned())
    }

    fn database() -> Database {
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
        Database::open(environment, Options::default()).unwrap()
    }

    fn held(database: &Database, number: i32) -> HeldTables {
        HeldTables::new(database.new_numbered_session(number).1)
    }

    #[test]
    fn writers_go_together_and_changes_of_the_table_alone() {
        let database = database();
        let mut sessions: Vec<HeldTables> = (1..4).map(|number| held(&database, number)).collect();
        let mut lock = |session: usize, mode, wait| code(sessions[session].lock((1, "t"), mode, wait));
        assert_eq!(lock(0, TableLockMode::RowExclusive, NO_WAIT), "ok");
        assert_eq!(lock(1, TableLockMode::RowExclusive, NO_WAIT), "ok");
        assert_eq!(lock(2, TableLockMode::Share, NO_WAIT), "55P03");
        assert_eq!(lock(2, TableLockMode::Share, LockWait::Timeout(Duration::from_millis(1))), "55P03");
        assert_eq!(lock(0, TableLockMode::AccessExclusive, NO_WAIT), "55P03");
        sessions[1].return_to(0);
        assert_eq!(code(sessions[0].lock((1, "t"), TableLockMode::AccessExclusive, NO_WAIT)), "ok");
        drop(sessions);
        assert!(database.locked_objects().is_empty());
    }

    #[test]
    fn who_waits_is_served_in_turn_and_a_circle_is_found() {
        let database = database();
        let mut first = held(&database, 1);
        first.lock((1, "a"), TableLockMode::RowExclusive, NO_WAIT).unwrap();
        let mut second = held(&database, 2);
        let waiter = std::thread::spawn(move || {
            second.lock((2, "b"), TableLockMode::RowExclusive, NO_WAIT).unwrap();
            code(second.lock((1, "a"), TableLockMode::AccessExclusive, LONG))
        });
        seawall_testing::wait_until("the second one waits", || database.waiting_requests().len() == 1);
        let write = held(&database, 3).lock((1, "a"), TableLockMode::RowExclusive, NO_WAIT);
        assert_eq!(code(write), "55P03", "it comes after the one that waits");
        let circle = first.lock((2, "b"), TableLockMode::AccessExclusive, LONG);
        assert_eq!(code(circle), "40P01");
        first.return_to(0);
        assert_eq!(waiter.join().unwrap(), "ok");
    }

    #[test]
    fn a_rollback_to_a_savepoint_leaves_tables_as_they_were_locked_before() {
        let database = database();
        let (mut first, mut second) = (held(&database, 1), held(&database, 2));
        first.lock((1, "a"), TableLockMode::RowExclusive, NO_WAIT).unwrap();
        let mark = first.mark();
        first.lock((1, "a"), TableLockMode::AccessExclusive, NO_WAIT).unwrap();
        first.lock((2, "b"), TableLockMode::AccessExclusive, NO_WAIT).unwrap();
        assert_eq!(code(second.lock((1, "a"), TableLockMode::RowExclusive, NO_WAIT)), "55P03");
        first.return_to(mark);
        assert_eq!(code(second.lock((1, "a"), TableLockMode::RowExclusive, NO_WAIT)), "ok");
        assert_eq!(code(second.lock((2, "b"), TableLockMode::Share, NO_WAIT)), "ok");
        assert_eq!(code(second.lock((1, "a"), TableLockMode::Share, NO_WAIT)), "55P03");
    }
}
