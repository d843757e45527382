//! Numbered sessions, and the object locks that sessions hold.

use std::sync::Arc;

use seawall_sync::CancelToken;

use super::Database;
use crate::engine::Engine;
use crate::error::Error;
use crate::transaction::lock_mode::{LockMode, LockModes};
use crate::transaction::lock_view::{LockTag, LockedObject, WaitingRequest};
use crate::transaction::lock_wait::{LockSession, LockWait, SessionWaits};
use crate::transaction::session::Session;

impl Database {
    /// As [`Database::new_session`], for a session that runs one transaction at a time and has a number, by which others are told
    /// what it waits for. The second part locks objects for it: who waits for whom is looked at for objects and rows together.
    pub fn new_numbered_session(&self, number: i32) -> (Database, SessionLocks) {
        let engine = Arc::clone(self.engine());
        let locks = engine.locks.new_session(number);
        let session = Arc::new(Session::with_waits(SessionWaits::numbered(Arc::clone(&locks))));
        let database = Database { engine: Arc::clone(&self.engine), session: Arc::clone(&session) };
        (database, SessionLocks { engine, session, locks })
    }

    /// Cancels what the session waits for: locks, decisions of transactions in doubt, room in memory. Such a call ends with
    /// `Cancelled`.
    pub fn cancel_token(&self) -> Arc<CancelToken> {
        Arc::clone(&self.session.waits.cancel)
    }

    /// The requests that wait for locks.
    pub fn waiting_requests(&self) -> Vec<WaitingRequest> {
        self.engine().locks.waiting_requests()
    }

    /// The objects that sessions with numbers have locked.
    pub fn locked_objects(&self) -> Vec<LockedObject> {
        self.engine().locks.locked_objects()
    }

    /// The sessions with numbers that have a transaction, each with the number that [`crate::LockTarget::Row`] has for it.
    pub fn transactions_of_sessions(&self) -> Vec<(i32, u64)> {
        let sessions = self.engine().locks.sessions();
        sessions.iter().filter_map(|session| Some((session.number, session.transaction()?.0))).collect()
    }
}

/// Locks objects for a session, which holds them until it gives them up: see [`Database::new_numbered_session`].
#[derive(Clone, Debug)]
pub struct SessionLocks {
    engine: Arc<Engine>,
    session: Arc<Session>,
    locks: Arc<LockSession>,
}

impl SessionLocks {
    /// Locks an object in one more mode. The session gives it up by [`SessionLocks::keep`].
    ///
    /// # Errors
    /// `Locked`, `Deadlock`, `Cancelled`: the session holds what it held before. `Stopped`.
    pub fn lock(&self, tag: LockTag, mode: LockMode, wait: LockWait) -> Result<(), Error> {
        let patience = self.session.waits.patience(wait);
        let acquired = self.engine.locks.acquire_object(self.locks.own, tag, mode, patience);
        acquired.map(drop).map_err(|refused| self.engine.lock_refused(refused))
    }

    /// How many objects are locked, by all sessions.
    pub fn object_count(&self) -> usize {
        self.engine.locks.object_count()
    }

    /// Leaves the session these modes of an object that it has locked, and gives up the others.
    ///
    /// # Panics
    /// If the session has not locked the object.
    pub fn keep(&self, tag: LockTag, modes: LockModes) {
        self.engine.locks.keep_object(self.locks.own, tag, modes);
    }
}
