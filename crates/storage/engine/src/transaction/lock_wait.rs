//! The patience of a lock request: its time limit, its cancel token, its session.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_sync::atomic::{AtomicU64, Ordering};

use crate::transaction::lock::LockOwner;

const NONE: u64 = 0;

/// How long to wait for a row that another transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Not at all.
    NoWait,
    /// At most this long.
    Timeout(Duration),
}

impl LockWait {
    pub(crate) fn at_least(self, least: Duration) -> LockWait {
        match self {
            LockWait::NoWait => LockWait::Timeout(least),
            LockWait::Timeout(timeout) => LockWait::Timeout(timeout.max(least)),
        }
    }
}

/// What ends a wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockPatience<'a> {
    pub(crate) wait: LockWait,
    pub(crate) cancel: Option<&'a CancelToken>,
    /// The session that waits, if it has a number.
    pub(crate) session: Option<&'a LockSession>,
}

impl LockPatience<'_> {
    /// The patience of a request that does not wait.
    pub(crate) const NONE: LockPatience<'static> =
        LockPatience { wait: LockWait::NoWait, cancel: None, session: None };

    /// Whether the wait is to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_requested)
    }
}

/// A session that its program has given a number: one party to waits, whichever of its owners holds what others want.
#[derive(Debug)]
pub(crate) struct LockSession {
    /// What the program calls it.
    pub(crate) number: i32,
    /// Holds the locks that are the session's own.
    pub(crate) own: LockOwner,
    /// The owner of the locks of its transaction.
    transaction: AtomicU64,
}

impl LockSession {
    pub(crate) fn new(number: i32, own: LockOwner) -> Arc<LockSession> {
        Arc::new(LockSession { number, own, transaction: AtomicU64::new(NONE) })
    }

    /// A transaction of the session begins. One that begins within another one takes its place in no list.
    pub(crate) fn begin_transaction(&self, owner: LockOwner) {
        // Relaxed: those who look at other sessions see a moment; the session itself sees its own stores.
        if self.transaction.load(Ordering::Relaxed) == NONE {
            self.transaction.store(owner.0, Ordering::Relaxed);
        }
    }

    /// The transaction has ended, or is prepared: its locks are not the session's any more.
    pub(crate) fn end_transaction(&self, owner: LockOwner) {
        if self.transaction.load(Ordering::Relaxed) == owner.0 {
            self.transaction.store(NONE, Ordering::Relaxed);
        }
    }

    /// The owner of the locks of its transaction, if it has one.
    pub(crate) fn transaction(&self) -> Option<LockOwner> {
        Some(self.transaction.load(Ordering::Relaxed)).filter(|owner| *owner != NONE).map(LockOwner)
    }
}

/// What the waits of a session have in common.
#[derive(Debug, Default)]
pub(crate) struct SessionWaits {
    pub(crate) cancel: Arc<CancelToken>,
    /// `None` for a session without a number.
    pub(crate) session: Option<Arc<LockSession>>,
}

impl SessionWaits {
    /// The waits of a session with a number.
    pub(crate) fn numbered(session: Arc<LockSession>) -> SessionWaits {
        SessionWaits { cancel: Arc::default(), session: Some(session) }
    }

    /// The patience of a call that waits as `wait` says.
    pub(crate) fn patience(&self, wait: LockWait) -> LockPatience<'_> {
        LockPatience { wait, cancel: Some(&self.cancel), session: self.session.as_deref() }
    }
}
