//! Commits on their way from the log to the readers, in log order.
//!
//! ```text
//!   enter (in the log's critical section) --> applied (in the memtable) --> visible
//!                                                   and flushed, or, if the commit is Async, safe from a kill,
//!                                                   and at a quorum of standbys, if it is Replicated
//! ```
//! Invariants:
//! * `visible` moves over commits in log order only, so a snapshot is a prefix of the commit order.
//! * A `Sync` commit is not visible before the log is flushed up to its stamp; an `Async` commit not before the log
//!   survives a kill up to its stamp; a `Replicated` commit not before a quorum has it, too. No commit is visible before those
//!   ahead of it.
//!
//! The queue is a ring. Its head is moved by whoever completes the commit at the head, one thread at a time and
//! without a lock: see [`CommitQueue::advance`].

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use seawall_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use seawall_sync::{CancelToken, WaitWord, thread};
use seawall_types::Lsn;

use crate::options::{Durability, ReplicationLevel};
use crate::quorum::watermarks::Watermarks;
use crate::sabotage::{Defect, sabotaged};

/// Commits in flight at most: logged and not yet visible. One that finds the ring full waits for a flush.
const CAPACITY: u64 = 1 << 16;

const LOGGED: u32 = 0;
const APPLIED_ASYNC: u32 = 1;
const APPLIED_SYNC: u32 = 2;
const APPLIED_FOR_WRITTEN: u32 = 3;
const APPLIED_FOR_FLUSHED: u32 = 4;
const APPLIED_FOR_APPLIED: u32 = 5;

#[derive(Debug, Default)]
struct Slot {
    stamp: AtomicU64,
    state: AtomicU32,
}

/// A commit's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    slots: Box<[Slot]>,
    /// Tickets handed out; changed only in the log's critical section.
    tail: CachePadded<AtomicU64>,
    /// Tickets whose commits are visible.
    head: CachePadded<AtomicU64>,
    visible: CachePadded<AtomicU64>,
    /// The log is durable up to here, as far as the queue was told.
    flushed: AtomicU64,
    /// The log survives a kill up to here, as far as the queue was told.
    mirrored: AtomicU64,
    /// Stamp of the commit that entered last.
    last_entered: AtomicU64,
    /// Rows of all commits that entered; changed only in the log's critical section.
    logged_rows: AtomicU64,
    /// Requests to advance; who raises it from zero does the work for all.
    requests: CachePadded<AtomicU64>,
    watermarks: Watermarks,
    became_visible: Arc<WaitWord>,
}

impl CommitQueue {
    /// An empty queue; everything stamped at most `visible` is visible.
    pub(crate) fn new(visible: Lsn) -> CommitQueue {
        CommitQueue::with_capacity(visible, CAPACITY)
    }

    fn with_capacity(visible: Lsn, capacity: u64) -> CommitQueue {
        CommitQueue {
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            tail: CachePadded::default(),
            head: CachePadded::default(),
            visible: CachePadded::new(AtomicU64::new(visible.get())),
            flushed: AtomicU64::new(visible.get()),
            mirrored: AtomicU64::new(visible.get()),
            last_entered: AtomicU64::new(visible.get()),
            logged_rows: AtomicU64::new(0),
            requests: CachePadded::default(),
            watermarks: Watermarks::default(),
            became_visible: Arc::default(),
        }
    }

    fn slot(&self, sequence: u64) -> &Slot {
        &self.slots[usize::try_from(sequence % self.capacity()).expect("the ring fits into memory")]
    }

    fn capacity(&self) -> u64 {
        u64::try_from(self.slots.len()).expect("a length in memory fits into 64 bits")
    }

    /// Whether a commit can enter now.
    pub(crate) fn has_room(&self) -> bool {
        // Head is read second: it only grows, so the difference is never too small.
        let tail = self.tail.load(Ordering::SeqCst);
        tail.saturating_sub(self.head.load(Ordering::SeqCst)) < self.capacity()
    }

    /// Enters a commit at the end; `None` if the ring is full. Call in the log's critical section only.
    pub(crate) fn enter(&self, stamp: Lsn) -> Option<Ticket> {
        if !self.has_room() {
            return None;
        }
        let sequence = self.tail.load(Ordering::SeqCst);
        let slot = self.slot(sequence);
        // Release: whoever sees that the slot is used again sees the head beyond its last use, too (`wait_applied`).
        slot.stamp.store(stamp.get(), Ordering::Release);
        slot.state.store(LOGGED, Ordering::Release);
        // After the slot: whoever sees the new tail sees the slot.
        self.tail.store(sequence + 1, Ordering::SeqCst);
        // After the tail: whoever sees the stamp finds the commit in `wait_applied`.
        self.last_entered.store(stamp.get(), Ordering::SeqCst);
        Some(Ticket(sequence))
    }

    /// Counts the rows of a commit that enters. Call in the log's critical section only.
    pub(crate) fn count_rows(&self, rows: u64) {
        // No read-modify-write: the critical section keeps others out.
        self.logged_rows.store(self.logged_rows() + rows, Ordering::Release);
    }

    /// Rows of all commits that entered, a row written twice counted twice.
    pub(crate) fn logged_rows(&self) -> u64 {
        self.logged_rows.load(Ordering::SeqCst)
    }

    /// The commit's rows are in the memtable.
    pub(crate) fn applied(&self, ticket: Ticket, durability: Durability) {
        let state = match durability {
            Durability::Sync | Durability::Archived => APPLIED_SYNC,
            Durability::Async => APPLIED_ASYNC,
            Durability::Replicated(ReplicationLevel::Written) => APPLIED_FOR_WRITTEN,
            Durability::Replicated(ReplicationLevel::Flushed) => APPLIED_FOR_FLUSHED,
            Durability::Replicated(ReplicationLevel::Applied) => APPLIED_FOR_APPLIED,
        };
        self.slot(ticket.0).state.store(state, Ordering::SeqCst);
    }

    /// The log is durable up to `flushed`.
    pub(crate) fn flushed_until(&self, flushed: Lsn) {
        self.flushed.fetch_max(flushed.get(), Ordering::SeqCst);
        self.advance();
    }

    /// The log survives a kill up to `mirrored`.
    pub(crate) fn mirrored_until(&self, mirrored: Lsn) {
        self.mirrored.fetch_max(mirrored.get(), Ordering::SeqCst);
        self.advance();
    }

    /// Makes visible what can be.
    ///
    /// Never blocks: if another thread is at it, that thread goes round once more for this call.
    pub(crate) fn advance(&self) {
        if self.requests.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        loop {
            let served = self.requests.load(Ordering::SeqCst);
            self.advance_alone();
            // Requests that came meanwhile may have seen a state older than ours: serve them too.
            if self.requests.compare_exchange(served, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }

    fn advance_alone(&self) {
        let flushed = Lsn::new(self.flushed.load(Ordering::SeqCst));
        let mirrored = flushed.max(Lsn::new(self.mirrored.load(Ordering::SeqCst)));
        let (start, tail) = (self.head.load(Ordering::SeqCst), self.tail.load(Ordering::SeqCst));
        let mut head = start;
        let mut visible = None;
        while head < tail {
            let slot = self.slot(head);
            let stamp = Lsn::new(slot.stamp.load(Ordering::SeqCst));
            let ready = match slot.state.load(Ordering::SeqCst) {
                LOGGED => sabotaged(Defect::VisibleBeforeApplied),
                APPLIED_ASYNC => stamp <= mirrored,
                APPLIED_SYNC => stamp <= flushed || sabotaged(Defect::VisibleBeforeFlushed),
                waits_for => {
                    let is_replicated = stamp <= self.replicated(waits_for);
                    stamp <= flushed && (is_replicated || sabotaged(Defect::VisibleBeforeQuorum))
                }
            };
            if !ready {
                break;
            }
            visible = Some(stamp);
            head += 1;
        }
        if let Some(stamp) = visible {
            self.visible.store(stamp.get(), Ordering::SeqCst);
            // After `visible`: a slot is reused only when its commit is visible.
            self.head.store(head, Ordering::SeqCst);
            self.became_visible.wake_all();
        }
    }

    /// Up to where standbys have what commits in this state wait for.
    fn replicated(&self, state: u32) -> Lsn {
        self.watermarks.at(match state {
            APPLIED_FOR_WRITTEN => ReplicationLevel::Written,
            APPLIED_FOR_APPLIED => ReplicationLevel::Applied,
            _ => ReplicationLevel::Flushed,
        })
    }

    /// What standbys have. After a change, `advance`.
    pub(crate) fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// To be given to `wait_news`.
    pub(crate) fn seen_visible(&self) -> u32 {
        self.became_visible.read()
    }

    /// Sleeps until something became visible since `seen` was read, at most for `limit`.
    pub(crate) fn wait_news(&self, seen: u32, limit: Duration) {
        self.became_visible.wait(seen, Some(limit));
    }

    /// Those who wait look again whether they are to give up.
    pub(crate) fn wake_waiting(&self) {
        self.became_visible.wake_all();
    }

    /// A standby has applied everything up to `applied`, which is durable: shows it. Nothing enters the queue of a standby.
    pub(crate) fn follow(&self, applied: Lsn) {
        self.last_entered.store(applied.get(), Ordering::SeqCst);
        self.flushed.fetch_max(applied.get(), Ordering::SeqCst);
        self.mirrored.fetch_max(applied.get(), Ordering::SeqCst);
        if self.visible.swap(applied.get(), Ordering::SeqCst) != applied.get() {
            self.became_visible.wake_all();
        }
    }

    /// Everything stamped at most this is visible.
    pub(crate) fn visible(&self) -> Lsn {
        Lsn::new(self.visible.load(Ordering::SeqCst))
    }

    /// Stamp of the commit that entered last: what will be visible when all that is in flight is.
    pub(crate) fn last_entered(&self) -> Lsn {
        Lsn::new(self.last_entered.load(Ordering::SeqCst))
    }

    /// Waits until `is_done`, which something that became visible may have brought about; looks again each time that `limit` has
    /// passed, and gives up when there is none. A request to cancel makes it look at once.
    pub(crate) fn wait_until(
        &self,
        cancel: Option<&CancelToken>,
        is_done: impl Fn() -> bool,
        limit: impl Fn() -> Option<Duration>,
    ) {
        loop {
            let seen = self.became_visible.read();
            self.advance();
            if is_done() {
                return;
            }
            let Some(limit) = limit() else { return };
            match cancel {
                Some(cancel) => cancel.wait(&self.became_visible, seen, Some(limit)),
                None => self.became_visible.wait(seen, Some(limit)),
            }
        }
    }

    /// Waits until every commit that entered before the call is in the memtable: microseconds, unless a thread was
    /// preempted between the two. Never in the log's critical section.
    pub(crate) fn wait_applied(&self) {
        let tail = self.tail.load(Ordering::SeqCst);
        let mut sequence = self.head.load(Ordering::SeqCst);
        while sequence < tail {
            // A head beyond `sequence` means that the slot may be another commit's by now.
            let applied = self.slot(sequence).state.load(Ordering::SeqCst) != LOGGED
                || self.head.load(Ordering::SeqCst) > sequence;
            if applied {
                sequence += 1;
            } else {
                thread::yield_now();
            }
        }
    }

    /// How many threads wait until commits are visible.
    pub(crate) fn waiting_count(&self) -> u64 {
        u64::from(self.became_visible.sleepers())
    }

    /// Commits that are logged and not yet visible.
    pub(crate) fn in_flight(&self) -> u64 {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst).saturating_sub(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use seawall_testing::wait_until;

    use crate::quorum::watermarks::QuorumPositions;

    #[test]
    fn commits_become_visible_in_log_order_and_as_durable_as_they_ask() {
        let queue = CommitQueue::new(Lsn::ZERO);
        let first = queue.enter(Lsn::new(10)).unwrap();
        let second = queue.enter(Lsn::new(20)).unwrap();
        let third = queue.enter(Lsn::new(30)).unwrap();
        queue.applied(second, Durability::Async);
        queue.mirrored_until(Lsn::new(20));
        assert_eq!(queue.visible(), Lsn::ZERO, "the commit ahead is not applied");
        queue.applied(first, Durability::Async);
        queue.advance();
        assert_eq!(queue.visible(), Lsn::new(20));
        queue.applied(third, Durability::Sync);
        queue.advance();
        queue.mirrored_until(Lsn::new(30));
        assert_eq!(queue.visible(), Lsn::new(20), "a Sync commit waits for the flush");
        queue.flushed_until(Lsn::new(30));
        assert_eq!(queue.visible(), Lsn::new(30));
        assert_eq!(queue.in_flight(), 0);
    }

    #[test]
    fn an_async_commit_is_not_visible_before_it_survives_a_kill() {
        for is_flushed in [false, true] {
            let queue = CommitQueue::new(Lsn::ZERO);
            let commit = queue.enter(Lsn::new(10)).unwrap();
            queue.applied(commit, Durability::Async);
            queue.advance();
            assert_eq!(queue.visible(), Lsn::ZERO);
            if is_flushed {
                queue.flushed_until(Lsn::new(10));
            } else {
                queue.mirrored_until(Lsn::new(10));
            }
            assert_eq!(queue.visible(), Lsn::new(10));
        }
    }

    #[test]
    fn a_replicated_commit_is_visible_when_a_quorum_has_done_with_it_what_it_asks() {
        let position = |lsn| QuorumPositions { written: lsn, ..QuorumPositions::default() };
        let lsn = Lsn::new;
        for level in [ReplicationLevel::Written, ReplicationLevel::Flushed, ReplicationLevel::Applied] {
            let queue = CommitQueue::new(Lsn::ZERO);
            queue.watermarks().require(true);
            let commit = queue.enter(lsn(10)).unwrap();
            let local = queue.enter(lsn(20)).unwrap();
            queue.applied(commit, Durability::Replicated(level));
            queue.applied(local, Durability::Sync);
            queue.flushed_until(lsn(20));
            assert_eq!(queue.visible(), Lsn::ZERO, "{level:?}");
            let (before, enough) = match level {
                ReplicationLevel::Written => (position(lsn(9)), position(lsn(10))),
                ReplicationLevel::Flushed => {
                    (position(lsn(30)), QuorumPositions { flushed: lsn(10), ..position(lsn(30)) })
                }
                ReplicationLevel::Applied => (
                    QuorumPositions { flushed: lsn(30), ..position(lsn(30)) },
                    QuorumPositions { written: lsn(30), flushed: lsn(30), applied: lsn(10) },
                ),
            };
            queue.watermarks().raise(before);
            queue.advance();
            assert_eq!(queue.visible(), Lsn::ZERO, "{level:?}: not enough");
            queue.watermarks().raise(enough);
            queue.advance();
            assert_eq!(queue.visible(), lsn(20), "{level:?}: with the local one behind it");
        }
    }

    #[test]
    fn what_standbys_have_is_not_visible_before_it_is_durable_here() {
        let queue = CommitQueue::new(Lsn::ZERO);
        queue.watermarks().require(true);
        let commit = queue.enter(Lsn::new(10)).unwrap();
        queue.applied(commit, Durability::Replicated(ReplicationLevel::Flushed));
        queue.watermarks().raise(QuorumPositions { flushed: Lsn::new(10), ..QuorumPositions::default() });
        queue.advance();
        assert_eq!(queue.visible(), Lsn::ZERO);
        queue.flushed_until(Lsn::new(10));
        assert_eq!(queue.visible(), Lsn::new(10));
    }

    #[test]
    fn who_finds_the_ring_full_sleeps_until_the_commit_at_its_head_is_visible() {
        let queue = CommitQueue::with_capacity(Lsn::ZERO, 2);
        let first = queue.enter(Lsn::new(10)).unwrap();
        let second = queue.enter(Lsn::new(20)).unwrap();
        assert_eq!(queue.enter(Lsn::new(30)), None);
        queue.applied(second, Durability::Async);
        queue.wait_until(None, || queue.has_room(), || None);
        assert_eq!(queue.enter(Lsn::new(30)), None, "given up");
        let looks = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            let (queue, looks) = (&queue, &looks);
            let waiting = scope.spawn(move || {
                queue.wait_until(
                    None,
                    || queue.has_room(),
                    || {
                        let looks = looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        (looks <= 1_000).then_some(Duration::from_millis(20))
                    },
                );
                queue.enter(Lsn::new(30))
            });
            wait_until("the thread to look", || looks.load(std::sync::atomic::Ordering::SeqCst) > 0);
            queue.applied(first, Durability::Async);
            queue.mirrored_until(Lsn::new(20));
            assert!(waiting.join().unwrap().is_some(), "the wait was given up");
        });
        assert_eq!(queue.visible(), Lsn::new(20));
    }

    #[test]
    fn threads_that_enter_and_wait_all_become_visible() {
        let queue = CommitQueue::new(Lsn::ZERO);
        let log = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let (stamp, ticket) = {
                            let mut end = log.lock().unwrap();
                            *end += 10;
                            (Lsn::new(*end), queue.enter(Lsn::new(*end)).unwrap())
                        };
                        queue.applied(ticket, Durability::Async);
                        queue.mirrored_until(stamp);
                        queue.wait_until(None, || queue.visible() >= stamp, || Some(Duration::from_secs(1)));
                    }
                });
            }
        });
        assert_eq!(queue.visible(), Lsn::new(4 * 20_000 * 10));
    }
}
