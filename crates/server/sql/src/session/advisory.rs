//! Advisory locks: locks on numbers whose meaning only the clients know.
//!
//! ```text
//!   HeldAdvisoryLocks (a session: what it has taken, in order)  -->  AdvisoryLocks (all sessions: holders and waiters of each key)
//! ```
//! A lock belongs to its session or to its transaction, may be taken more than once, and is shared or exclusive. Requests that conflict
//! wait in the order in which they came. A wait ends by `lock_timeout`, by a cancel, or at once if it would close a circle of waits.
//! Row locks are the engine's: a circle of waits for both kinds is ended by `lock_timeout` alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_io::{Clock, SystemClock};
use seawall_values::functions::Call;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::activity::SessionActivity;
use crate::catalog::numbers::DATABASE;
use crate::catalog::source::HeldLock;

/// Keys that are locked at a time, and locks that one session holds, at most: each takes memory.
const LOCKS_MAX: usize = 65_536;
/// How often a waiter looks whether its statement was cancelled.
const CANCEL_STEP: Duration = Duration::from_millis(20);

/// The number that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AdvisoryKey {
    /// A `bigint`.
    One(i64),
    /// Two `integer`s, which are never equal to a `bigint`.
    Two(i32, i32),
}

impl AdvisoryKey {
    /// `classid`, `objid` and `objsubid` of `pg_locks`.
    fn columns(self) -> (u32, u32, i16) {
        match self {
            AdvisoryKey::One(number) => {
                let bytes = number.to_be_bytes();
                let half = |start: usize| {
                    bytes[start..start + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
                };
                (half(0), half(4), 1)
            }
            AdvisoryKey::Two(first, second) => (first.cast_unsigned(), second.cast_unsigned(), 2),
        }
    }
}

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AdvisoryMode {
    Shared,
    Exclusive,
}

impl AdvisoryMode {
    fn conflicts(self, other: AdvisoryMode) -> bool {
        self == AdvisoryMode::Exclusive || other == AdvisoryMode::Exclusive
    }

    fn name(self) -> &'static str {
        match self {
            AdvisoryMode::Shared => "ShareLock",
            AdvisoryMode::Exclusive => "ExclusiveLock",
        }
    }
}

type Lock = (AdvisoryKey, AdvisoryMode);

/// What ends a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdvisoryWait<'a> {
    pub(crate) limit: Duration,
    pub(crate) cancel: &'a AtomicBool,
    /// Shows that the session waits.
    pub(crate) activity: &'a SessionActivity,
}

/// The advisory locks of a database.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    /// Locks were released, or a waiter has given up.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    keys: FxHashMap<AdvisoryKey, Requests>,
    /// The key that each waiting session waits for.
    waits: FxHashMap<i32, Lock>,
}

/// Who has a key, and who waits for it, in the order of arrival.
#[derive(Debug, Default)]
struct Requests {
    holders: Vec<Holder>,
    waiters: Vec<(i32, AdvisoryMode)>,
}

#[derive(Debug)]
struct Holder {
    process_id: i32,
    mode: AdvisoryMode,
    /// How many times the lock was taken.
    count: u32,
}

impl State {
    /// The sessions that a request waits for.
    fn blockers(&self, process_id: i32, (key, mode): Lock) -> Vec<i32> {
        let Some(requests) = self.keys.get(&key) else { return Vec::new() };
        let others = requests.holders.iter().filter(|holder| holder.process_id != process_id);
        let mut blockers: Vec<i32> =
            others.filter(|holder| holder.mode.conflicts(mode)).map(|holder| holder.process_id).collect();
        // One that has the key already does not wait for those that wait for it.
        if !requests.holders.iter().any(|holder| holder.process_id == process_id) {
            let earlier = requests.waiters.iter().take_while(|(waiter, _)| *waiter != process_id);
            blockers
                .extend(earlier.filter(|(_, waiting)| waiting.conflicts(mode)).map(|(waiter, _)| *waiter));
        }
        blockers
    }

    fn grant(&mut self, process_id: i32, (key, mode): Lock) {
        let holders = &mut self.keys.entry(key).or_default().holders;
        match holders.iter_mut().find(|holder| holder.process_id == process_id && holder.mode == mode) {
            Some(holder) => holder.count += 1,
            None => holders.push(Holder { process_id, mode, count: 1 }),
        }
    }

    fn release(&mut self, process_id: i32, (key, mode): Lock) {
        let Some(requests) = self.keys.get_mut(&key) else { return };
        let holders = &mut requests.holders;
        let found = holders.iter().position(|holder| holder.process_id == process_id && holder.mode == mode);
        if let Some(position) = found {
            holders[position].count -= 1;
            if holders[position].count == 0 {
                holders.swap_remove(position);
            }
        }
        self.forget_unused(key);
    }

    fn enqueue(&mut self, process_id: i32, lock: Lock) {
        self.keys.entry(lock.0).or_default().waiters.push((process_id, lock.1));
        self.waits.insert(process_id, lock);
    }

    fn dequeue(&mut self, process_id: i32, key: AdvisoryKey) {
        if let Some(requests) = self.keys.get_mut(&key) {
            requests.waiters.retain(|(waiter, _)| *waiter != process_id);
        }
        self.waits.remove(&process_id);
        self.forget_unused(key);
    }

    fn forget_unused(&mut self, key: AdvisoryKey) {
        if self
            .keys
            .get(&key)
            .is_some_and(|requests| requests.holders.is_empty() && requests.waiters.is_empty())
        {
            self.keys.remove(&key);
        }
    }

    /// The sessions of a circle of waits that begins and ends with this one.
    fn circle(&self, process_id: i32) -> Option<Vec<i32>> {
        let mut seen = FxHashSet::default();
        let mut paths = vec![vec![process_id]];
        while let Some(path) = paths.pop() {
            let Some(lock) = path.last().and_then(|last| self.waits.get(last).map(|lock| (*last, *lock)))
            else {
                continue;
            };
            for blocker in self.blockers(lock.0, lock.1) {
                if blocker == process_id {
                    return Some(path);
                }
                if seen.insert(blocker) {
                    paths.push(path.iter().copied().chain([blocker]).collect());
                }
            }
        }
        None
    }

    fn deadlock(&self, circle: &[i32]) -> Box<SqlError> {
        let next = circle.iter().skip(1).chain(circle.first());
        let lines = circle.iter().zip(next).filter_map(|(waiter, blocker)| {
            let (key, mode) = self.waits.get(waiter)?;
            let (class, object, part) = key.columns();
            let mode = mode.name();
            Some(format!(
                "Process {waiter} waits for {mode} on advisory lock [{DATABASE},{class},{object},{part}]; \
                 blocked by process {blocker}."
            ))
        });
        let lines: Vec<String> = lines.collect();
        SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(lines.join("\n"))
    }
}

#[cold]
fn too_many() -> Box<SqlError> {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory")
        .with_detail(format!("{LOCKS_MAX} advisory locks are held."))
        .with_hint("Release advisory locks that are no longer needed.")
}

impl AdvisoryLocks {
    /// Takes a lock if that is possible at once.
    fn try_lock(&self, process_id: i32, lock: Lock) -> SqlResult<bool> {
        let mut state = self.state.lock();
        if state.keys.len() >= LOCKS_MAX && !state.keys.contains_key(&lock.0) {
            return Err(too_many());
        }
        let is_free = state.blockers(process_id, lock).is_empty();
        if is_free {
            state.grant(process_id, lock);
        }
        Ok(is_free)
    }

    /// Takes a lock, and waits for it if need be.
    fn lock(&self, process_id: i32, lock: Lock, wait: AdvisoryWait<'_>) -> SqlResult<()> {
        if self.try_lock(process_id, lock)? {
            return Ok(());
        }
        wait.activity.set_wait(Some(("Lock", "advisory")));
        let outcome = self.wait_for(process_id, lock, wait);
        wait.activity.set_wait(None);
        outcome
    }

    fn wait_for(&self, process_id: i32, lock: Lock, wait: AdvisoryWait<'_>) -> SqlResult<()> {
        let begun = SystemClock.monotonic();
        let mut state = self.state.lock();
        state.enqueue(process_id, lock);
        // Whoever waits last closes a circle, so one look is enough.
        if let Some(circle) = state.circle(process_id) {
            let error = state.deadlock(&circle);
            state.dequeue(process_id, lock.0);
            return Err(error);
        }
        let outcome = loop {
            if state.blockers(process_id, lock).is_empty() {
                state.grant(process_id, lock);
                break Ok(());
            }
            if wait.cancel.load(Ordering::Relaxed) {
                let message = "canceling statement due to user request";
                break Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
            let rest = wait.limit.saturating_sub(SystemClock.monotonic().saturating_sub(begun));
            if rest.is_zero() {
                let message = "canceling statement due to lock timeout";
                break Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
            }
            self.changed.wait_for(&mut state, rest.min(CANCEL_STEP));
        };
        state.dequeue(process_id, lock.0);
        // The next in the queue may go on: shared locks are granted side by side.
        self.changed.notify_all();
        outcome
    }

    fn release(&self, process_id: i32, locks: impl Iterator<Item = Lock>) {
        let mut state = self.state.lock();
        locks.for_each(|lock| state.release(process_id, lock));
        self.changed.notify_all();
    }

    /// The sessions that a session waits for.
    pub(crate) fn blockers_of(&self, process_id: i32) -> Vec<i32> {
        let state = self.state.lock();
        state.waits.get(&process_id).map_or_else(Vec::new, |lock| state.blockers(process_id, *lock))
    }

    /// All locks, held and waited for, as `pg_locks` shows them.
    pub(crate) fn all(&self) -> Vec<HeldLock> {
        let state = self.state.lock();
        let shown = |key: AdvisoryKey, process_id: i32, mode: AdvisoryMode, is_granted| HeldLock {
            kind: "advisory",
            relation: None,
            transaction: None,
            advisory: Some(key.columns()),
            process_id: Some(process_id),
            virtual_transaction: format!("{process_id}/0"),
            mode: mode.name(),
            is_granted,
            waiting_since: None,
        };
        let mut locks = Vec::new();
        for (key, requests) in &state.keys {
            locks.extend(requests.holders.iter().map(|held| shown(*key, held.process_id, held.mode, true)));
            locks.extend(requests.waiters.iter().map(|(waiter, mode)| shown(*key, *waiter, *mode, false)));
        }
        locks
    }
}

/// What an advisory function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdvisoryOperation {
    /// Waits for a lock of the session, or of the transaction.
    Lock {
        mode: AdvisoryMode,
        is_of_transaction: bool,
    },
    /// Takes it only if it is free.
    Try {
        mode: AdvisoryMode,
        is_of_transaction: bool,
    },
    Unlock(AdvisoryMode),
    UnlockAll,
}

impl AdvisoryOperation {
    fn takes_lock(self) -> bool {
        matches!(self, AdvisoryOperation::Lock { .. } | AdvisoryOperation::Try { .. })
    }
}

/// The operation of the function with this source, if it is an advisory one: `pg_try_advisory_xact_lock_shared_int8`.
pub(crate) fn operation(source: &str) -> Option<AdvisoryOperation> {
    let (is_try, rest) = match source.strip_prefix("pg_try_advisory_") {
        Some(rest) => (true, rest),
        None => (false, source.strip_prefix("pg_advisory_")?),
    };
    if rest == "unlock_all" {
        return Some(AdvisoryOperation::UnlockAll);
    }
    let rest = rest.strip_suffix("_int8").or_else(|| rest.strip_suffix("_int4"))?;
    let (mode, rest) = match rest.strip_suffix("_shared") {
        Some(rest) => (AdvisoryMode::Shared, rest),
        None => (AdvisoryMode::Exclusive, rest),
    };
    let is_of_transaction = rest == "xact_lock";
    match (rest, is_try) {
        ("unlock", false) => Some(AdvisoryOperation::Unlock(mode)),
        ("lock" | "xact_lock", true) => Some(AdvisoryOperation::Try { mode, is_of_transaction }),
        ("lock" | "xact_lock", false) => Some(AdvisoryOperation::Lock { mode, is_of_transaction }),
        _ => None,
    }
}

/// The advisory locks that a session has taken, in order. The session gives them back before it ends.
#[derive(Debug, Default)]
pub(crate) struct HeldAdvisoryLocks {
    process_id: i32,
    of_session: Vec<Lock>,
    of_transaction: Vec<Lock>,
}

impl HeldAdvisoryLocks {
    /// None, of the session with this number.
    pub(crate) fn new(process_id: i32) -> HeldAdvisoryLocks {
        HeldAdvisoryLocks { process_id, ..HeldAdvisoryLocks::default() }
    }

    /// Calls an advisory function.
    ///
    /// # Errors
    /// `55P03`, `57014`, `40P01`: the lock was waited for in vain; `53200`.
    pub(crate) fn call(
        &mut self,
        locks: &AdvisoryLocks,
        operation: AdvisoryOperation,
        call: &Call<'_>,
        wait: AdvisoryWait<'_>,
    ) -> SqlResult<Datum> {
        const VOID: &str = "";
        let key = || match call.arguments {
            [Datum::Int8(number)] => Ok(AdvisoryKey::One(*number)),
            [Datum::Int4(first), Datum::Int4(second)] => Ok(AdvisoryKey::Two(*first, *second)),
            other => Err(SqlError::internal(format!("an advisory lock of {other:?}"))),
        };
        if self.of_session.len() + self.of_transaction.len() >= LOCKS_MAX && operation.takes_lock() {
            return Err(too_many());
        }
        match operation {
            AdvisoryOperation::Lock { mode, is_of_transaction } => {
                let lock = (key()?, mode);
                locks.lock(self.process_id, lock, wait)?;
                self.note(lock, is_of_transaction);
                Ok(Datum::text(VOID))
            }
            AdvisoryOperation::Try { mode, is_of_transaction } => {
                let lock = (key()?, mode);
                let is_taken = locks.try_lock(self.process_id, lock)?;
                if is_taken {
                    self.note(lock, is_of_transaction);
                }
                Ok(Datum::Bool(is_taken))
            }
            AdvisoryOperation::Unlock(mode) => Ok(Datum::Bool(self.unlock(locks, (key()?, mode)))),
            AdvisoryOperation::UnlockAll => {
                self.unlock_all(locks);
                Ok(Datum::text(VOID))
            }
        }
    }

    fn note(&mut self, lock: Lock, is_of_transaction: bool) {
        if is_of_transaction { self.of_transaction.push(lock) } else { self.of_session.push(lock) }
    }

    /// Gives back a lock of the session; `false`: it has none.
    fn unlock(&mut self, locks: &AdvisoryLocks, lock: Lock) -> bool {
        let Some(position) = self.of_session.iter().rposition(|held| *held == lock) else { return false };
        self.of_session.swap_remove(position);
        locks.release(self.process_id, std::iter::once(lock));
        true
    }

    /// Gives back all locks of the session: `pg_advisory_unlock_all`, `DISCARD ALL`, the end of the session.
    pub(crate) fn unlock_all(&mut self, locks: &AdvisoryLocks) {
        if !self.of_session.is_empty() {
            locks.release(self.process_id, self.of_session.drain(..));
        }
    }

    /// Where a rollback to a savepoint returns to.
    pub(crate) fn mark(&self) -> usize {
        self.of_transaction.len()
    }

    /// Gives back the locks of the transaction since the mark; 0: all.
    pub(crate) fn return_to(&mut self, locks: &AdvisoryLocks, mark: usize) {
        if self.of_transaction.len() > mark {
            locks.release(self.process_id, self.of_transaction.drain(mark..));
        }
    }
}

#[cfg(test)]
mod tests;
