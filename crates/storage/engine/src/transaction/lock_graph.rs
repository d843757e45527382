//! Who waits for whom: the search for a circle.
//!
//! ```text
//!   wait --edge--> owner --its own wait--> wait --edge--> ... --edge--> an owner of the first one: a circle
//! ```
//! An edge leads from a request to a holder that is in its way, perhaps by way of earlier requests for the same lock. A session and its
//! transaction are one party: what either of them holds, the session keeps from others while it waits.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::transaction::lock::{Blocker, Edge, LockOwner, Waiter};
use crate::transaction::lock_view::{CircleMember, LockTag, LockTarget};

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockName {
    Row(u64),
    Object(LockTag),
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) name: LockName,
    /// Who waits for the same: the other owners of the session.
    pub(crate) party: [LockOwner; 3],
    pub(crate) session: i32,
    pub(crate) since_micros: i64,
}

/// The requests that wait, by their owners, and by the other owners of the same session.
pub(crate) type Waits = FxHashMap<LockOwner, Arc<Wait>>;

impl Wait {
    pub(crate) fn target(&self, blocker: Blocker) -> LockTarget {
        match self.name {
            LockName::Object(tag) => LockTarget::Object(tag),
            LockName::Row(_) => LockTarget::Row { holder: blocker.owner().0 },
        }
    }

    pub(crate) fn described(&self, blocker: Blocker) -> CircleMember {
        CircleMember { session: self.session, target: self.target(blocker), mode: self.waiter.mode }
    }
}

/// The waits of a circle that begins with this one, each with what it waits for.
pub(crate) fn circle(
    wait: &Arc<Wait>,
    waiting: &Waits,
    edges: impl Fn(&Wait) -> Vec<Edge>,
) -> Option<Vec<(Arc<Wait>, Blocker)>> {
    let mut reached = vec![Reached { wait: Arc::clone(wait), before: 0, by: Vec::new() }];
    let mut next = 0;
    while next < reached.len() {
        for edge in edges(&reached[next].wait) {
            let owner = edge.last.owner();
            let of_owner = waiting.get(&owner);
            if wait.party.contains(&owner) {
                return Some(way_back(&reached, next, edge, waiting));
            }
            if let Some(of_owner) = of_owner
                && !reached.iter().any(|known| Arc::ptr_eq(&known.wait, of_owner))
            {
                let by = steps(&reached[next].wait, edge, waiting);
                reached.push(Reached { wait: Arc::clone(of_owner), before: next, by });
            }
        }
        next += 1;
    }
    None
}

/// A wait that a search has reached.
struct Reached {
    wait: Arc<Wait>,
    /// The place of the wait that it was reached from, and the steps from there.
    before: usize,
    by: Vec<(Arc<Wait>, Blocker)>,
}

/// The steps of an edge: each wait with what it waits for.
fn steps(from: &Arc<Wait>, edge: Edge, waiting: &Waits) -> Vec<(Arc<Wait>, Blocker)> {
    let mut steps = Vec::new();
    let mut at = Arc::clone(from);
    for earlier in edge.through {
        let Some(next) = waiting.get(&earlier) else { continue };
        steps.push((std::mem::replace(&mut at, Arc::clone(next)), Blocker::Earlier(earlier)));
    }
    steps.push((at, edge.last));
    steps
}

/// All steps from the first wait to the one at this place, and those of the edge from there.
fn way_back(reached: &[Reached], place: usize, edge: Edge, waiting: &Waits) -> Vec<(Arc<Wait>, Blocker)> {
    let mut parts = vec![steps(&reached[place].wait, edge, waiting)];
    let mut at = place;
    while at != 0 {
        parts.push(reached[at].by.clone());
        at = reached[at].before;
    }
    parts.into_iter().rev().flatten().collect()
}
