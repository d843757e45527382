//! What is locked, and what waits, for those who look.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::transaction::lock::LockOwner;
use crate::transaction::lock_graph::Wait;
use crate::transaction::lock_table::LockTable;
use crate::transaction::lock_view::{LockedObject, WaitingRequest};
use crate::transaction::lock_wait::LockSession;

impl LockTable {
    /// The sessions with numbers that there are.
    pub(crate) fn sessions(&self) -> Vec<Arc<LockSession>> {
        self.sessions.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The locks of objects that are held.
    pub(crate) fn locked_objects(&self) -> Vec<LockedObject> {
        let sessions = Numbers::of(&self.sessions());
        let mut locked = Vec::new();
        for shard in &self.objects {
            for (tag, lock) in &*shard.lock() {
                locked.extend(lock.holders().map(|(owner, modes)| LockedObject {
                    session: sessions.of_owner(owner),
                    tag: *tag,
                    modes,
                }));
            }
        }
        locked
    }

    /// The requests that wait.
    pub(crate) fn waiting_requests(&self) -> Vec<WaitingRequest> {
        let sessions = Numbers::of(&self.sessions());
        let waits: Vec<Arc<Wait>> = {
            let waiting = self.waiting.lock();
            let own = |(owner, wait): (&LockOwner, &Arc<Wait>)| {
                (wait.waiter.owner == *owner).then(|| Arc::clone(wait))
            };
            waiting.iter().filter_map(own).collect()
        };
        waits.iter().filter_map(|wait| self.waiting_request(wait, &sessions)).collect()
    }

    /// `None`: it was granted meanwhile.
    fn waiting_request(&self, wait: &Wait, sessions: &Numbers) -> Option<WaitingRequest> {
        let blockers = self.with_lock(wait.name, |lock| match lock {
            Some(lock) if !wait.waiter.is_granted() => {
                lock.blockers(wait.waiter.owner, wait.waiter.mode).collect()
            }
            _ => Vec::new(),
        });
        let mut blocked_by: Vec<i32> =
            blockers.iter().map(|blocker| sessions.of_owner(blocker.owner())).collect();
        blocked_by.sort_unstable();
        blocked_by.dedup();
        Some(WaitingRequest {
            session: wait.session,
            target: wait.target(*blockers.first()?),
            mode: wait.waiter.mode,
            since_micros: wait.since_micros,
            blocked_by,
        })
    }
}

/// The numbers of sessions by the owners that they have: looked up for each of many locks.
struct Numbers(FxHashMap<LockOwner, i32>);

impl Numbers {
    fn of(sessions: &[Arc<LockSession>]) -> Numbers {
        let owners = |session: &Arc<LockSession>| {
            let number = session.number;
            [Some(session.own), session.transaction()].into_iter().flatten().map(move |owner| (owner, number))
        };
        Numbers(sessions.iter().flat_map(owners).collect())
    }

    /// 0: no session has this owner.
    fn of_owner(&self, owner: LockOwner) -> i32 {
        self.0.get(&owner).copied().unwrap_or_default()
    }
}
