//! Advisory locks: locks on numbers whose meaning only the clients know.
//!
//! A lock belongs to its session or to its transaction, may be taken more than once, and is shared or exclusive. The engine holds the lock once
//! for the session. How often the session has taken it is counted here; for a transaction once is as good as often, since it gives back
//! none before its end.

use rustc_hash::FxHashMap;
use seawall_engine::{Error, LockMode, LockModes, LockWait, SessionLocks};
use seawall_values::functions::Call;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use crate::storage::engine_error::sql_error;
use crate::storage::lock_tag::LockedThing;

/// Objects that are locked at a time, at most: each takes memory. How often one is locked takes none.
const LOCKS_MAX: usize = 65_536;

/// How a number is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AdvisoryMode {
    Shared = 0,
    Exclusive = 1,
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

/// How a number is locked.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    /// How often the session has taken it: shared, exclusive.
    of_session: [u64; 2],
    /// Whether the transaction has it.
    of_transaction: [bool; 2],
}

impl Holding {
    fn modes(self) -> LockModes {
        let mut modes = LockModes::default();
        for (index, mode) in [AdvisoryMode::Shared, AdvisoryMode::Exclusive].into_iter().enumerate() {
            if self.of_session[index] > 0 || self.of_transaction[index] {
                modes = modes.with(mode.mode());
            }
        }
        modes
    }
}

/// The advisory locks that a session has taken. The session gives them back before it ends.
#[derive(Debug)]
pub(crate) struct HeldAdvisoryLocks {
    locks: SessionLocks,
    held: FxHashMap<LockedThing, Holding>,
    /// Those of the transaction, in the order in which it took them first.
    of_transaction: Vec<Lock>,
}

impl HeldAdvisoryLocks {
    /// None yet.
    pub(crate) fn new(locks: SessionLocks) -> HeldAdvisoryLocks {
        HeldAdvisoryLocks { locks, held: FxHashMap::default(), of_transaction: Vec::new() }
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
        let mut holding = self.held.get(&thing).copied().unwrap_or_default();
        if holding.modes().is_empty() && self.locks.object_count() >= LOCKS_MAX {
            return Err(too_many());
        }
        let index = mode as usize;
        let again = holding.of_session[index].checked_add(1);
        let again = again.ok_or_else(|| SqlError::internal("an advisory lock was taken too often"))?;
        if !holding.modes().has(mode.mode()) {
            match self.locks.lock(thing.tag(), mode.mode(), wait) {
                Ok(()) => {}
                Err(Error::Locked { .. }) if wait == LockWait::NoWait => return Ok(false),
                Err(error) => return Err(sql_error(&error)),
            }
        }
        if !is_of_transaction {
            holding.of_session[index] = again;
        } else if !std::mem::replace(&mut holding.of_transaction[index], true) {
            self.of_transaction.push((thing, mode));
        }
        self.held.insert(thing, holding);
        Ok(true)
    }

    /// Changes how a number is locked, and gives back what it is not locked with any more.
    fn change(&mut self, thing: LockedThing, change: impl FnOnce(&mut Holding)) {
        let Some(holding) = self.held.get_mut(&thing) else { return };
        let before = holding.modes();
        change(holding);
        let now = holding.modes();
        if now.is_empty() {
            self.held.remove(&thing);
        }
        if now != before {
            self.locks.keep(thing.tag(), now);
        }
    }

    /// Gives back a lock of the session; `false`: it has none.
    fn unlock(&mut self, (thing, mode): Lock) -> bool {
        let index = mode as usize;
        if self.held.get(&thing).is_none_or(|holding| holding.of_session[index] == 0) {
            return false;
        }
        self.change(thing, |holding| holding.of_session[index] -= 1);
        true
    }

    /// Gives back all locks of the session: `pg_advisory_unlock_all`, `DISCARD ALL`, the end of the session.
    pub(crate) fn unlock_all(&mut self) {
        let things: Vec<LockedThing> = self.held.keys().copied().collect();
        for thing in things {
            self.change(thing, |holding| holding.of_session = [0; 2]);
        }
    }

    /// `0A000` if the transaction has locks: they would end with the session's part in it, before the decision.
    pub(crate) fn check_preparable(&self) -> SqlResult<()> {
        let is_of_session = |(thing, _): &Lock| {
            self.held.get(thing).is_some_and(|holding| holding.of_session.iter().any(|count| *count > 0))
        };
        match self.of_transaction.as_slice() {
            [] => Ok(()),
            locks if locks.iter().any(is_of_session) => {
                let message = "cannot PREPARE while holding both session-level and transaction-level locks on the same object";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            _ => Err(SqlError::unsupported("PREPARE TRANSACTION with advisory locks of the transaction")),
        }
    }

    /// Where a rollback to a savepoint returns to.
    pub(crate) fn mark(&self) -> usize {
        self.of_transaction.len()
    }

    /// Gives back the locks of the transaction since the mark; 0: all.
    pub(crate) fn return_to(&mut self, mark: usize) {
        while self.of_transaction.len() > mark
            && let Some((thing, mode)) = self.of_transaction.pop()
        {
            self.change(thing, |holding| holding.of_transaction[mode as usize] = false);
        }
    }
}

#[cfg(test)]
mod tests;
