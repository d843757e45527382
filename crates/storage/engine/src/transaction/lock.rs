//! One lock: its holders, and the requests that wait for it.
//!
//! ```text
//!   holders   modes that go together        waiting   in order of arrival; one that holds the lock already comes first
//! ```
//! A request waits for holders whose modes conflict with its own. Unless its owner holds the lock already, it waits for earlier
//! requests that conflict, too, so that shared holders cannot keep an exclusive request waiting for ever.
//!
//! Invariant: a lock has a holder. One that the last holder gives up goes to the first that waits.

use std::collections::VecDeque;
use std::sync::Arc;

use seawall_sync::WaitWord;
use seawall_sync::atomic::{AtomicU32, Ordering};

use crate::transaction::lock_mode::{LockMode, LockModes};

/// A transaction, or a session, as holder of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockOwner(pub(crate) u64);

/// An owner and its modes, in one word: most locks are held by one owner, and there are many.
#[derive(Clone, Copy)]
struct Holder(u64);

impl Holder {
    fn new(owner: LockOwner, modes: LockModes) -> Holder {
        Holder(owner.0 << 8 | u64::from(modes.0))
    }

    fn owner(self) -> LockOwner {
        LockOwner(self.0 >> 8)
    }

    fn modes(self) -> LockModes {
        LockModes(self.0.to_le_bytes()[0])
    }
}

const WAITING: u32 = 0;
const GRANTED: u32 = 1;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) owner: LockOwner,
    pub(crate) mode: LockMode,
    state: AtomicU32,
    pub(crate) changed: Arc<WaitWord>,
}

impl Waiter {
    pub(crate) fn new(owner: LockOwner, mode: LockMode) -> Arc<Waiter> {
        Arc::new(Waiter { owner, mode, state: AtomicU32::new(WAITING), changed: Arc::new(WaitWord::new()) })
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.state.load(Ordering::SeqCst) == GRANTED
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocker {
    /// It holds the lock.
    Holder(LockOwner),
    /// It came first.
    Earlier(LockOwner),
}

impl Blocker {
    pub(crate) fn owner(self) -> LockOwner {
        match self {
            Blocker::Holder(owner) | Blocker::Earlier(owner) => owner,
        }
    }
}

/// A way from a request that waits to an owner that keeps it waiting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Earlier requests on the way, each of which waits for the next one.
    pub(crate) through: Vec<LockOwner>,
    pub(crate) last: Blocker,
}

/// A request on the ways of another one.
struct Step {
    owner: LockOwner,
    mode: LockMode,
    /// It waits for holders alone.
    is_holder: bool,
    before: usize,
}

/// Small, as most locks are taken by large transactions, and nobody else wants them.
pub(crate) struct Lock {
    first: Holder,
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    holders: Vec<Holder>,
    /// Waiting requests. Requests of owners that hold the lock come first.
    waiting: VecDeque<(LockMode, Arc<Waiter>)>,
}

impl Lock {
    pub(crate) fn new(owner: LockOwner, mode: LockMode) -> Lock {
        Lock { first: Holder::new(owner, mode.into()), more: None }
    }

    /// Owners with their modes.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (LockOwner, LockModes)> {
        let more = self.more.iter().flat_map(|more| &more.holders);
        std::iter::once(&self.first).chain(more).map(|holder| (holder.owner(), holder.modes()))
    }

    /// Requests that wait, in order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.more.iter().flat_map(|more| &more.waiting).map(|(_, waiter)| waiter)
    }

    pub(crate) fn held_by(&self, owner: LockOwner) -> LockModes {
        self.holders().find(|(holder, _)| *holder == owner).map_or(LockModes::default(), |(_, modes)| modes)
    }

    /// What a request would wait for; of one that waits already, what it does wait for.
    pub(crate) fn blockers(&self, owner: LockOwner, mode: LockMode) -> impl Iterator<Item = Blocker> {
        let is_holder = !self.held_by(owner).is_empty();
        let earlier = self.waiting().take_while(move |waiter| !is_holder && waiter.owner != owner);
        let earlier = earlier.filter(move |waiter| LockModes::from(waiter.mode).conflict_with(mode));
        self.conflicting(owner, mode)
            .map(Blocker::Holder)
            .chain(earlier.map(|waiter| Blocker::Earlier(waiter.owner)))
    }

    fn conflicting(&self, owner: LockOwner, mode: LockMode) -> impl Iterator<Item = LockOwner> {
        let others = self.holders().filter(move |(holder, _)| *holder != owner);
        others.filter(move |(_, modes)| modes.conflict_with(mode)).map(|(holder, _)| holder)
    }

    pub(crate) fn is_free_for(&self, owner: LockOwner, mode: LockMode) -> bool {
        self.blockers(owner, mode).next().is_none()
    }

    /// Adds the mode to those of the owner, whatever others hold.
    pub(crate) fn grant(&mut self, owner: LockOwner, mode: LockMode) {
        match self.holder_mut(owner) {
            Some(holder) => *holder = Holder::new(owner, holder.modes().with(mode)),
            None => self.more.get_or_insert_default().holders.push(Holder::new(owner, mode.into())),
        }
    }

    fn holder_mut(&mut self, owner: LockOwner) -> Option<&mut Holder> {
        if self.first.owner() == owner {
            return Some(&mut self.first);
        }
        self.more.as_mut()?.holders.iter_mut().find(|holder| holder.owner() == owner)
    }

    /// Enters a request.
    pub(crate) fn enqueue(&mut self, waiter: Arc<Waiter>) {
        let is_holder = !self.held_by(waiter.owner).is_empty();
        let holders_waiting =
            self.waiting().take_while(|other| !self.held_by(other.owner).is_empty()).count();
        let waiting = &mut self.more.get_or_insert_default().waiting;
        let place = if is_holder { holders_waiting } else { waiting.len() };
        waiting.insert(place, (waiter.mode, waiter));
    }

    /// Takes out a request that waits; `false`: it waits no more.
    pub(crate) fn abandon(&mut self, waiter: &Arc<Waiter>) -> bool {
        let Some(more) = &mut self.more else { return false };
        let place = more.waiting.iter().position(|(_, other)| Arc::ptr_eq(other, waiter));
        place.is_some_and(|place| more.waiting.remove(place).is_some())
    }

    /// Leaves the owner these modes, which its own cover; none: it gives up the lock. Those to be woken are added to `granted`.
    /// `false`: no owner has the lock any more.
    pub(crate) fn keep(
        &mut self,
        owner: LockOwner,
        modes: LockModes,
        granted: &mut Vec<Arc<Waiter>>,
    ) -> bool {
        let Some(holder) = self.holder_mut(owner) else {
            unreachable!("{owner:?} gives up a lock that it does not hold");
        };
        *holder = Holder::new(owner, modes);
        self.drop_empty_holder(owner, modes);
        self.serve(granted);
        !self.first.modes().is_empty()
    }

    fn drop_empty_holder(&mut self, owner: LockOwner, modes: LockModes) {
        let Some(more) = &mut self.more else { return };
        if !modes.is_empty() {
            return;
        }
        if self.first.owner() != owner {
            more.holders.retain(|holder| holder.owner() != owner);
        } else if let Some(another) = more.holders.pop() {
            self.first = another;
        }
    }

    /// Grants the requests that need not wait any more.
    pub(crate) fn serve(&mut self, granted: &mut Vec<Arc<Waiter>>) {
        let Some(more) = &mut self.more else { return };
        if more.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut more.waiting);
        let (mut ahead, mut may_be_holder) = (LockModes::default(), true);
        waiting.retain(|(mode, waiter)| {
            may_be_holder = may_be_holder && !self.held_by(waiter.owner).is_empty();
            let is_free = (may_be_holder || !ahead.conflict_with(*mode))
                && self.conflicting(waiter.owner, *mode).next().is_none();
            if is_free {
                self.give(waiter);
                granted.push(Arc::clone(waiter));
            } else {
                ahead = ahead.with(*mode);
            }
            !is_free
        });
        if let Some(more) = &mut self.more {
            more.waiting = waiting;
        }
    }

    fn give(&mut self, waiter: &Waiter) {
        if self.first.modes().is_empty() {
            self.first = Holder::new(waiter.owner, waiter.mode.into());
        } else {
            self.grant(waiter.owner, waiter.mode);
        }
        // Under the latch of the lock's shard, as in `abandon`: what is in the queue is waiting.
        waiter.state.store(GRANTED, Ordering::SeqCst);
    }

    /// All that keeps a request waiting: holders, directly or by way of earlier requests; and earlier requests that are sought.
    /// Requests that are not known to wait are passed over.
    ///
    /// Examines at most one earlier request per mode closely, so that a long queue is cheap.
    pub(crate) fn edges(
        &self,
        waiter: &Arc<Waiter>,
        is_known: impl Fn(LockOwner) -> bool,
        is_sought: impl Fn(LockOwner) -> bool,
    ) -> Vec<Edge> {
        let (mut steps, mut edges) = (vec![self.step(waiter, 0)], Vec::new());
        let Some(more) = &self.more else { return edges };
        let Some(place) = more.waiting.iter().position(|(_, other)| Arc::ptr_eq(other, waiter)) else {
            return edges;
        };
        let mut wanted = LockModes::default();
        for (mode, earlier) in more.waiting.range(..place).rev() {
            let waits = |step: &Step| !step.is_holder && LockModes::from(*mode).conflict_with(step.mode);
            let Some(before) = steps.iter().position(waits) else { continue };
            if is_sought(earlier.owner) {
                edges.push(Edge { through: way_to(&steps, before), last: Blocker::Earlier(earlier.owner) });
            } else if !wanted.has(*mode) && is_known(earlier.owner) {
                let step = self.step(earlier, before);
                // One that holds the lock waits for others than the rest of its mode.
                wanted = if step.is_holder { wanted } else { wanted.with(*mode) };
                steps.push(step);
            }
        }
        for (holder, modes) in self.holders() {
            let waits = |step: &Step| step.owner != holder && modes.conflict_with(step.mode);
            if let Some(place) = steps.iter().position(waits) {
                edges.push(Edge { through: way_to(&steps, place), last: Blocker::Holder(holder) });
            }
        }
        edges
    }

    fn step(&self, waiter: &Waiter, before: usize) -> Step {
        let is_holder = !self.held_by(waiter.owner).is_empty();
        Step { owner: waiter.owner, mode: waiter.mode, is_holder, before }
    }

    /// Grants a request before those that came earlier, if no holder is in its way; `false`: it waits for a holder, or no more.
    pub(crate) fn let_pass(&mut self, waiter: &Arc<Waiter>) -> bool {
        let passes = self.conflicting(waiter.owner, waiter.mode).next().is_none() && self.abandon(waiter);
        if passes {
            self.give(waiter);
        }
        passes
    }
}

/// The requests after the first one on the way to the step at this place.
fn way_to(steps: &[Step], place: usize) -> Vec<LockOwner> {
    let mut way = Vec::new();
    let mut at = place;
    while at != 0 {
        way.push(steps[at].owner);
        at = steps[at].before;
    }
    way.reverse();
    way
}
