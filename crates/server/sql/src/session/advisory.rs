//! Advisory locks: locks on numbers whose meaning only the clients know.
//!
//! A lock belongs to its session or to its transaction, may be taken more than once, and is shared or exclusive. The engine holds the lock once
//! for the session; how often it was taken is counted here.

use rustc_hash::FxHashMap;
use seawall_engine::{Error, LockMode, LockModes, LockWait, SessionLocks};
use seawall_values::functions::Call;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use crate::storage::engine_error::sql_error;
use crate::storage::lock_tag::LockedThing;

/// Objects that are locked at a time, and locks that one session holds, at most: each takes memory.
const LOCKS_MAX: usize = 65_536;

/// How a number is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AdvisoryMode {
    Shared,
    Exclusive,
}

impl AdvisoryMode {
    fn mode(self) -> LockMode {
        match self {
            AdvisoryMode::Shared => LockMode::Share,
            AdvisoryMode::Exclusive => LockMode::Exclusive,
        }
    }
}

type Lock = (LockedThing, AdvisoryMode);

#[cold]
fn too_many() -> Box<SqlError> {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory")
        .with_detail(format!("{LOCKS_MAX} advisory locks are held."))
        .with_hint("Release advisory locks that are no longer needed.")
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

/// How often a number was locked.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    shared: u32,
    exclusive: u32,
}

impl Count {
    fn of(&mut self, mode: AdvisoryMode) -> &mut u32 {
        match mode {
            AdvisoryMode::Shared => &mut self.shared,
            AdvisoryMode::Exclusive => &mut self.exclusive,
        }
    }

    fn modes(self) -> LockModes {
        let one = |modes: LockModes, (count, mode): (u32, AdvisoryMode)| {
            if count > 0 { modes.with(mode.mode()) } else { modes }
        };
        let counts = [(self.shared, AdvisoryMode::Shared), (self.exclusive, AdvisoryMode::Exclusive)];
        counts.into_iter().fold(LockModes::default(), one)
    }
}

/// The advisory locks that a session has taken, in order. The session gives them back before it ends.
#[derive(Debug)]
pub(crate) struct HeldAdvisoryLocks {
    locks: SessionLocks,
    of_session: Vec<Lock>,
    of_transaction: Vec<Lock>,
    counts: FxHashMap<LockedThing, Count>,
}

impl HeldAdvisoryLocks {
    /// None yet.
    pub(crate) fn new(locks: SessionLocks) -> HeldAdvisoryLocks {
        HeldAdvisoryLocks {
            locks,
            of_session: Vec::new(),
            of_transaction: Vec::new(),
            counts: FxHashMap::default(),
        }
    }

    /// Calls an advisory function.
    ///
    /// # Errors
    /// `55P03`, `57014`, `40P01`: the lock was waited for in vain; `53200`.
    pub(crate) fn call(
        &mut self,
        operation: AdvisoryOperation,
        call: &Call<'_>,
        wait: LockWait,
    ) -> SqlResult<Datum> {
        const VOID: &str = "";
        let thing = || match call.arguments {
            [Datum::Int8(number)] => Ok(LockedThing::AdvisoryOne(*number)),
            [Datum::Int4(first), Datum::Int4(second)] => Ok(LockedThing::AdvisoryTwo(*first, *second)),
            other => Err(SqlError::internal(format!("an advisory lock of {other:?}"))),
        };
        match operation {
            AdvisoryOperation::Lock { mode, is_of_transaction } => {
                self.lock((thing()?, mode), is_of_transaction, wait)?;
                Ok(Datum::text(VOID))
            }
            AdvisoryOperation::Try { mode, is_of_transaction } => {
                let is_taken = self.lock((thing()?, mode), is_of_transaction, LockWait::NoWait)?;
                Ok(Datum::Bool(is_taken))
            }
            AdvisoryOperation::Unlock(mode) => Ok(Datum::Bool(self.unlock((thing()?, mode)))),
            AdvisoryOperation::UnlockAll => {
                self.unlock_all();
                Ok(Datum::text(VOID))
            }
        }
    }

    /// `false`: it is held, and not to be waited for.
    fn lock(&mut self, (thing, mode): Lock, is_of_transaction: bool, wait: LockWait) -> SqlResult<bool> {
        let count = self.counts.get(&thing).copied().unwrap_or_default();
        let held = self.of_session.len() + self.of_transaction.len();
        if held >= LOCKS_MAX || (count.modes().is_empty() && self.locks.object_count() >= LOCKS_MAX) {
            return Err(too_many());
        }
        if !count.modes().has(mode.mode()) {
            match self.locks.lock(thing.tag(), mode.mode(), wait) {
                Ok(()) => {}
                Err(Error::Locked { .. }) if wait == LockWait::NoWait => return Ok(false),
                Err(error) => return Err(sql_error(&error)),
            }
        }
        *self.counts.entry(thing).or_default().of(mode) += 1;
        let list = if is_of_transaction { &mut self.of_transaction } else { &mut self.of_session };
        list.push((thing, mode));
        Ok(true)
    }

    fn release(&mut self, (thing, mode): Lock) {
        let Some(count) = self.counts.get_mut(&thing) else { return };
        let before = count.modes();
        *count.of(mode) -= 1;
        let now = count.modes();
        if now.is_empty() {
            self.counts.remove(&thing);
        }
        if now != before {
            self.locks.keep(thing.tag(), now);
        }
    }

    /// Gives back a lock of the session; `false`: it has none.
    fn unlock(&mut self, lock: Lock) -> bool {
        let Some(position) = self.of_session.iter().rposition(|held| *held == lock) else { return false };
        self.of_session.swap_remove(position);
        self.release(lock);
        true
    }

    /// Gives back all locks of the session: `pg_advisory_unlock_all`, `DISCARD ALL`, the end of the session.
    pub(crate) fn unlock_all(&mut self) {
        while let Some(lock) = self.of_session.pop() {
            self.release(lock);
        }
    }

    /// Where a rollback to a savepoint returns to.
    pub(crate) fn mark(&self) -> usize {
        self.of_transaction.len()
    }

    /// Gives back the locks of the transaction since the mark; 0: all.
    pub(crate) fn return_to(&mut self, mark: usize) {
        while self.of_transaction.len() > mark
            && let Some(lock) = self.of_transaction.pop()
        {
            self.release(lock);
        }
    }
}

#[cfg(test)]
mod tests;
