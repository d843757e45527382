//! Locks of tables: whoever writes rows, and whoever changes the table itself or looks at all of its rows, wait for each other.
//!
//! ```text
//!   INSERT, UPDATE, DELETE: ROW EXCLUSIVE --+
//!   SELECT FOR UPDATE:      ROW SHARE ------+--> end of the transaction
//!   CREATE INDEX:           SHARE ----------+
//!   ALTER, DROP, TRUNCATE:  ACCESS EXCLUSIVE
//! ```
//! Modes and conflicts are PostgreSQL's. A query takes no lock: its rows and the definitions that it goes by are of one moment.
//! Whoever waits is served in the order of arrival, but for a transaction that holds the table in another mode already.
//!
//! A circle of transactions that wait for tables is found, and whoever would close it is refused. The engine knows those of rows. One of
//! both is ended by `lock_timeout`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_engine::LockWait;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

const SHARDS: usize = 16;

/// How a table is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLockMode {
    /// `ACCESS SHARE`.
    AccessShare,
    /// `ROW SHARE`.
    RowShare,
    /// `ROW EXCLUSIVE`.
    RowExclusive,
    /// `SHARE UPDATE EXCLUSIVE`.
    ShareUpdateExclusive,
    /// `SHARE`.
    Share,
    /// `SHARE ROW EXCLUSIVE`.
    ShareRowExclusive,
    /// `EXCLUSIVE`.
    Exclusive,
    /// `ACCESS EXCLUSIVE`.
    AccessExclusive,
}

impl TableLockMode {
    /// Its bit in a set of modes.
    fn bit(self) -> u8 {
        1 << (self as u8)
    }

    /// The modes that others must not hold at the same time.
    fn conflicts(self) -> u8 {
        match self {
            TableLockMode::AccessShare => 0b1000_0000,
            TableLockMode::RowShare => 0b1100_0000,
            TableLockMode::RowExclusive => 0b1111_0000,
            TableLockMode::ShareUpdateExclusive => 0b1111_1000,
            TableLockMode::Share => 0b1110_1100,
            TableLockMode::ShareRowExclusive => 0b1111_1100,
            TableLockMode::Exclusive => 0b1111_1110,
            TableLockMode::AccessExclusive => 0b1111_1111,
        }
    }
}

/// Who holds a table, and who waits for it.
#[derive(Debug, Default)]
struct TableState {
    /// Transactions, with the set of their modes.
    held: Vec<(u64, u8)>,
    /// In the order of arrival.
    waiting: Vec<(u64, TableLockMode)>,
}

impl TableState {
    fn held_by(&self, owner: u64) -> u8 {
        self.held.iter().find(|(holder, _)| *holder == owner).map_or(0, |(_, modes)| *modes)
    }

    /// The transactions that this one would wait for.
    fn in_the_way(&self, owner: u64, mode: TableLockMode) -> Vec<u64> {
        let conflicts = mode.conflicts();
        let holders = self.held.iter().filter(|(holder, modes)| *holder != owner && modes & conflicts != 0);
        let mut found: Vec<u64> = holders.map(|(holder, _)| *holder).collect();
        if self.held_by(owner) == 0 {
            let before = self.waiting.iter().take_while(|(waiter, _)| *waiter != owner);
            found.extend(before.filter(|(_, mode)| mode.bit() & conflicts != 0).map(|(waiter, _)| *waiter));
        }
        found
    }

    fn grant(&mut self, owner: u64, mode: TableLockMode) {
        self.waiting.retain(|(waiter, _)| *waiter != owner);
        match self.held.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, modes)) => *modes |= mode.bit(),
            None => self.held.push((owner, mode.bit())),
        }
    }
}

#[derive(Debug, Default)]
struct Shard {
    tables: Mutex<FxHashMap<Oid, TableState>>,
    freed: Condvar,
}

/// The locks of a database's tables.
#[derive(Debug, Default)]
pub(crate) struct TableLocks {
    shards: [Shard; SHARDS],
    /// The table that each waiting transaction waits for.
    waits: Mutex<FxHashMap<u64, (Oid, TableLockMode)>>,
    owners: AtomicU64,
}

/// Why a table was not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Held,
    TimedOut,
    Deadlock,
}

impl TableLocks {
    fn shard(&self, table: Oid) -> &Shard {
        let index = usize::try_from(table).unwrap_or_default() % SHARDS;
        &self.shards[index]
    }

    fn lock(&self, owner: u64, table: Oid, mode: TableLockMode, wait: LockWait) -> Result<(), Refused> {
        let shard = self.shard(table);
        let mut tables = shard.tables.lock();
        let state = tables.entry(table).or_default();
        if state.in_the_way(owner, mode).is_empty() {
            state.grant(owner, mode);
            return Ok(());
        }
        let limit = match wait {
            LockWait::NoWait => return Err(Refused::Held),
            LockWait::Timeout(limit) => limit,
        };
        state.waiting.push((owner, mode));
        drop(tables);
        self.waits.lock().insert(owner, (table, mode));
        let outcome = self.wait(owner, table, mode, limit);
        self.waits.lock().remove(&owner);
        outcome
    }

    fn wait(&self, owner: u64, table: Oid, mode: TableLockMode, limit: Duration) -> Result<(), Refused> {
        let is_deadlock = self.closes_a_circle(owner);
        let shard = self.shard(table);
        let mut tables = shard.tables.lock();
        if !is_deadlock {
            let is_free = |tables: &FxHashMap<Oid, TableState>| {
                tables.get(&table).is_none_or(|state| state.in_the_way(owner, mode).is_empty())
            };
            shard.freed.wait_while_for(&mut tables, |tables| !is_free(tables), limit);
            if is_free(&tables) {
                tables.entry(table).or_default().grant(owner, mode);
                // Others that wait may go along with this one.
                shard.freed.notify_all();
                return Ok(());
            }
        }
        if let Some(state) = tables.get_mut(&table) {
            state.waiting.retain(|(waiter, _)| *waiter != owner);
        }
        shard.freed.notify_all();
        Err(if is_deadlock { Refused::Deadlock } else { Refused::TimedOut })
    }

    /// Whether a transaction waits for itself, by others. The last one to wait sees the whole circle.
    fn closes_a_circle(&self, owner: u64) -> bool {
        let waits = self.waits.lock();
        let (mut next, mut seen) = (vec![owner], FxHashSet::default());
        while let Some(waiter) = next.pop() {
            let Some((table, mode)) = waits.get(&waiter) else { continue };
            let tables = self.shard(*table).tables.lock();
            let in_the_way = tables.get(table).map_or_else(Vec::new, |state| state.in_the_way(waiter, *mode));
            drop(tables);
            if in_the_way.contains(&owner) {
                return true;
            }
            next.extend(in_the_way.into_iter().filter(|other| seen.insert(*other)));
        }
        false
    }

    fn release(&self, owner: u64, table: Oid) {
        let shard = self.shard(table);
        let mut tables = shard.tables.lock();
        if let Some(state) = tables.get_mut(&table) {
            state.held.retain(|(holder, _)| *holder != owner);
            if state.held.is_empty() && state.waiting.is_empty() {
                tables.remove(&table);
            } else if !state.waiting.is_empty() {
                shard.freed.notify_all();
            }
        }
    }
}

/// The tables that the transaction of a session has locked.
#[derive(Debug, Default)]
pub(crate) struct HeldTables {
    locks: Option<(Arc<TableLocks>, u64)>,
    held: FxHashMap<Oid, u8>,
}

impl HeldTables {
    /// Locks a table until the end of the transaction.
    pub(crate) fn lock(
        &mut self,
        locks: &Arc<TableLocks>,
        (table, name): (Oid, &str),
        mode: TableLockMode,
        wait: LockWait,
    ) -> SqlResult<()> {
        if self.held.get(&table).is_some_and(|modes| modes & mode.bit() != 0) {
            return Ok(());
        }
        let (locks, owner) = self
            .locks
            .get_or_insert_with(|| (Arc::clone(locks), locks.owners.fetch_add(1, Ordering::Relaxed)));
        locks.lock(*owner, table, mode, wait).map_err(|refused| refusal(refused, name))?;
        *self.held.entry(table).or_default() |= mode.bit();
        Ok(())
    }

    /// The end of the transaction.
    pub(crate) fn release_all(&mut self) {
        if let Some((locks, owner)) = &self.locks {
            for (table, _) in self.held.drain() {
                locks.release(*owner, table);
            }
        }
    }
}

impl Drop for HeldTables {
    fn drop(&mut self) {
        self.release_all();
    }
}

#[cold]
fn refusal(refused: Refused, table: &str) -> Box<SqlError> {
    match refused {
        Refused::Held => {
            let message = format!("could not obtain lock on relation \"{table}\"");
            SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
        }
        Refused::TimedOut => {
            SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
        }
        Refused::Deadlock => SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: LockWait = LockWait::NoWait;
    const LONG: LockWait = LockWait::Timeout(Duration::from_secs(60));

    fn code(result: SqlResult<()>) -> String {
        result.map_or_else(|error| error.code.as_str().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn modes_conflict_as_in_postgresql() {
        use TableLockMode::*;
        let modes = [
            AccessShare,
            RowShare,
            RowExclusive,
            ShareUpdateExclusive,
            Share,
            ShareRowExclusive,
            Exclusive,
            AccessExclusive,
        ];
        for (row, one) in modes.iter().enumerate() {
            for (column, other) in modes.iter().enumerate() {
                let conflicts = one.conflicts() & other.bit() != 0;
                assert_eq!(conflicts, other.conflicts() & one.bit() != 0, "{one:?} and {other:?}");
                // PostgreSQL's table is a staircase, but for SHARE with itself and two steps of SHARE UPDATE EXCLUSIVE.
                let expected = match (row.min(column), row.max(column)) {
                    (4, 4) => false,
                    (3, 3) => true,
                    (2, 3) => false,
                    (low, high) => low + high >= 7 - usize::from(low == 2 && high == 4),
                };
                assert_eq!(conflicts, expected, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn writers_go_together_and_changes_of_the_table_alone() {
        let locks = Arc::<TableLocks>::default();
        let mut sessions: Vec<HeldTables> = (0..3).map(|_| HeldTables::default()).collect();
        let mut lock =
            |session: usize, mode, wait| code(sessions[session].lock(&locks, (1, "t"), mode, wait));
        assert_eq!(lock(0, TableLockMode::RowExclusive, NO_WAIT), "ok");
        assert_eq!(lock(1, TableLockMode::RowExclusive, NO_WAIT), "ok");
        assert_eq!(lock(2, TableLockMode::Share, NO_WAIT), "55P03");
        assert_eq!(lock(2, TableLockMode::Share, LockWait::Timeout(Duration::from_millis(1))), "55P03");
        assert_eq!(lock(0, TableLockMode::AccessExclusive, NO_WAIT), "55P03");
        sessions[1].release_all();
        assert_eq!(code(sessions[0].lock(&locks, (1, "t"), TableLockMode::AccessExclusive, NO_WAIT)), "ok");
        drop(sessions);
        assert!(locks.shards.iter().all(|shard| shard.tables.lock().is_empty()));
    }

    #[test]
    fn who_waits_is_served_in_turn_and_a_circle_is_found() {
        let locks = Arc::<TableLocks>::default();
        let mut first = HeldTables::default();
        first.lock(&locks, (1, "a"), TableLockMode::RowExclusive, NO_WAIT).unwrap();
        let waiter = std::thread::spawn({
            let locks = Arc::clone(&locks);
            move || {
                let mut second = HeldTables::default();
                second.lock(&locks, (2, "b"), TableLockMode::RowExclusive, NO_WAIT).unwrap();
                code(second.lock(&locks, (1, "a"), TableLockMode::AccessExclusive, LONG))
            }
        });
        seawall_testing::wait_until("the second one waits", || !locks.waits.lock().is_empty());
        let mut third = HeldTables::default();
        let write = third.lock(&locks, (1, "a"), TableLockMode::RowExclusive, NO_WAIT);
        assert_eq!(code(write), "55P03", "it comes after the one that waits");
        let circle = first.lock(&locks, (2, "b"), TableLockMode::AccessExclusive, LONG);
        assert_eq!(code(circle), "40P01");
        first.release_all();
        assert_eq!(waiter.join().unwrap(), "ok");
    }
}
