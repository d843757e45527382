//! Locks: of rows, and of objects that programs name. Held by a transaction until its commit is in the log and in the memtable, or
//! by a session as long as it likes.
//!
//! ```text
//!   rows      hash of the row key --+
//!                                   +--> shard --> Lock: holders, requests that wait
//!   objects   LockTag --------------+
//!
//!   waiting   owner --> the one request that it waits for        touched only by those who have to wait
//! ```
//! A row's lock is named by a 64-bit hash of the row key. Two rows that share a hash share a lock, which can make one wait
//! for the other and never lets two writers of one row pass. Uncontended, a lock is one insertion into a sharded map.
//!
//! **Deadlocks.** Who waits for whom is one graph over all locks. The locks of a session and of its transaction are one node of it.
//! A request that would close a circle is refused. If some member of the circle waits for nothing but its turn, that one takes its
//! turn earlier instead, and nobody is refused.

mod shown;

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use seawall_io::Clock;
use seawall_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use seawall_sync::{CancelToken, Mutex};

use crate::inspect::durations::DurationCounter;
use crate::transaction::lock::{Blocker, Edge, Lock, LockOwner, Waiter};
use crate::transaction::lock_graph::{LockName, Wait, Waits, circle};
use crate::transaction::lock_mode::{LockMode, LockModes};
use crate::transaction::lock_view::{CircleMember, LockTag};
use crate::transaction::lock_wait::{LockPatience, LockSession, LockWait};

const SHARD_COUNT: usize = 64;
const OBJECT_SHARDS: usize = 16;
/// A shard keeps the memory of so many locks when they are gone.
const SHARD_CAPACITY_KEPT: usize = 256;
/// So many locks are given up under a shard's latch at most.
const RELEASED_AT_ONCE: usize = 64;

/// Why a lock was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockRefused {
    /// Held by another, and the caller does not wait.
    Held,
    /// The wait took longer than allowed.
    TimedOut,
    /// The wait was cancelled.
    Cancelled,
    /// Waiting would have closed this circle: the first member is the one that is refused, each waits for the next one.
    Deadlock(Vec<CircleMember>),
    /// The database takes no more writes: who holds the lock may keep it until the next open.
    Stopped,
}

/// What `acquire` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Taken now: release it.
    Now,
    /// Held by this owner before, as strongly.
    Before,
    /// Held by this owner before, in these modes only.
    Stronger(LockModes),
}

/// Lock names are hashes already.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("lock names are u64");
    }
    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}

type Locks<K, S> = std::collections::HashMap<K, Lock, S>;
type RowLocks = Locks<u64, BuildHasherDefault<NameHasher>>;
type ObjectLocks = Locks<LockTag, FxBuildHasher>;

/// All locks of a database.
pub(crate) struct LockTable {
    shards: Box<[crossbeam_utils::CachePadded<Mutex<RowLocks>>]>,
    objects: Box<[crossbeam_utils::CachePadded<Mutex<ObjectLocks>>]>,
    object_count: AtomicUsize,
    /// Requests that wait. Shards are latched while it is held, one at a time, to follow who waits for whom; it is never taken
    /// under the latch of a shard.
    waiting: Mutex<Waits>,
    next_owner: crossbeam_utils::CachePadded<AtomicU64>,
    stopped: AtomicBool,
    /// Sessions with numbers. For those who look.
    sessions: Mutex<Vec<Weak<LockSession>>>,
    clock: Arc<dyn Clock>,
    /// How long those waited who had to.
    pub(crate) waits: DurationCounter,
}

/// The name of a row's lock.
pub(crate) fn lock_name(row_key: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(row_key);
    hasher.write_usize(row_key.len());
    // The final mix of splitmix64 (Steele et al., OOPSLA 2014): both halves of the name depend on every input bit.
    let mut name = hasher.finish();
    name = (name ^ (name >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    name = (name ^ (name >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    name ^ (name >> 31)
}

/// Gives back the memory of locks that are gone. What stays is enough for as many again, so releasing stays cheap.
fn shrink<K: Eq + Hash, S: BuildHasher>(locks: &mut Locks<K, S>) {
    if locks.capacity() > SHARD_CAPACITY_KEPT && locks.len() < locks.capacity() / 8 {
        locks.shrink_to((locks.len() * 2).max(SHARD_CAPACITY_KEPT / 2));
    }
}

fn shard_index(name: u64) -> usize {
    // Not the low bits, by which the shard's map places a lock, nor the high ones, by which it tells locks apart.
    usize::try_from(name >> 48 & 0xFF).expect("eight bits fit") % SHARD_COUNT
}

/// What becomes of a mode that those of its owner cover already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    Forgotten,
    Noted,
}

/// Takes a lock. `Err`: it is held; the request waits now, if it may.
fn take<K: Eq + Hash, S: BuildHasher>(
    locks: &mut Locks<K, S>,
    (owner, key, mode): (LockOwner, K, LockMode),
    covered: Covered,
    wait: LockWait,
) -> Result<Acquired, Option<Arc<Waiter>>> {
    let lock = match locks.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(Lock::new(owner, mode));
            return Ok(Acquired::Now);
        }
        Entry::Occupied(entry) => entry.into_mut(),
    };
    let held = lock.held_by(owner);
    if held.has(mode) || (covered == Covered::Forgotten && held.cover(mode)) {
        return Ok(Acquired::Before);
    }
    if lock.is_free_for(owner, mode) {
        lock.grant(owner, mode);
        return Ok(if held.is_empty() { Acquired::Now } else { Acquired::Stronger(held) });
    }
    if wait == LockWait::NoWait {
        return Err(None);
    }
    let waiter = Waiter::new(owner, mode);
    lock.enqueue(Arc::clone(&waiter));
    Err(Some(waiter))
}

/// Leaves the owner these modes of the lock. Those to be woken are added to `granted`.
fn keep_in<K: Eq + Hash, S: BuildHasher>(
    locks: &mut Locks<K, S>,
    (owner, key): (LockOwner, K),
    modes: LockModes,
    granted: &mut Vec<Arc<Waiter>>,
) -> bool {
    let Entry::Occupied(mut entry) = locks.entry(key) else {
        unreachable!("a lock that {owner:?} gives up is not held");
    };
    let is_held = entry.get_mut().keep(owner, modes, granted);
    if !is_held {
        entry.remove();
        shrink(locks);
    }
    is_held
}

impl std::fmt::Debug for LockTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LockTable").field("held", &self.held_count()).finish_non_exhaustive()
    }
}

impl LockTable {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> LockTable {
        LockTable {
            shards: (0..SHARD_COUNT).map(|_| crossbeam_utils::CachePadded::new(Mutex::default())).collect(),
            objects: (0..OBJECT_SHARDS)
                .map(|_| crossbeam_utils::CachePadded::new(Mutex::default()))
                .collect(),
            object_count: AtomicUsize::new(0),
            waiting: Mutex::default(),
            next_owner: crossbeam_utils::CachePadded::new(AtomicU64::new(1)),
            stopped: AtomicBool::new(false),
            sessions: Mutex::default(),
            clock,
            waits: DurationCounter::default(),
        }
    }

    /// An owner that nobody has been before.
    pub(crate) fn new_owner(&self) -> LockOwner {
        LockOwner(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    fn shard(&self, name: u64) -> &Mutex<RowLocks> {
        &self.shards[shard_index(name)]
    }

    fn object_shard(&self, tag: LockTag) -> &Mutex<ObjectLocks> {
        // The high bits: the map in the shard goes by the low ones.
        let index = usize::try_from(FxBuildHasher.hash_one(tag) >> 60).expect("four bits fit");
        &self.objects[index % OBJECT_SHARDS]
    }

    /// Calls `look` with the lock, if there is one.
    fn with_lock<T>(&self, name: LockName, look: impl FnOnce(Option<&mut Lock>) -> T) -> T {
        match name {
            LockName::Row(name) => look(self.shard(name).lock().get_mut(&name)),
            LockName::Object(tag) => look(self.object_shard(tag).lock().get_mut(&tag)),
        }
    }

    /// Locks the row `name`, waiting as `patience` says. A mode that those of the owner cover changes nothing.
    pub(crate) fn acquire(
        &self,
        owner: LockOwner,
        name: u64,
        mode: LockMode,
        patience: LockPatience<'_>,
    ) -> Result<Acquired, LockRefused> {
        let taken =
            take(&mut self.shard(name).lock(), (owner, name, mode), Covered::Forgotten, patience.wait);
        match taken {
            Ok(acquired) => Ok(acquired),
            Err(None) => Err(LockRefused::Held),
            Err(Some(waiter)) => self.wait_for_grant(LockName::Row(name), patience, &waiter),
        }
    }

    /// Locks an object, waiting as `patience` says.
    pub(crate) fn acquire_object(
        &self,
        owner: LockOwner,
        tag: LockTag,
        mode: LockMode,
        patience: LockPatience<'_>,
    ) -> Result<Acquired, LockRefused> {
        let taken = {
            let mut locks = self.object_shard(tag).lock();
            let before = locks.len();
            let taken = take(&mut locks, (owner, tag, mode), Covered::Noted, patience.wait);
            self.object_count.fetch_add(locks.len() - before, Ordering::Relaxed);
            taken
        };
        match taken {
            Ok(acquired) => Ok(acquired),
            Err(None) => Err(LockRefused::Held),
            Err(Some(waiter)) => self.wait_for_grant(LockName::Object(tag), patience, &waiter),
        }
    }

    /// Locks a row as it was locked before the database was opened, beside whatever others hold; `false`: another owner holds it
    /// to write it, and so does this one.
    pub(crate) fn adopt(&self, owner: LockOwner, name: u64, mode: LockMode) -> bool {
        let mut locks = self.shard(name).lock();
        let lock = match locks.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Lock::new(owner, mode));
                return true;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let writes = LockMode::Exclusive;
        let is_written = |modes: LockModes| modes.cover(writes);
        let other_writes = lock.holders().any(|(holder, modes)| holder != owner && is_written(modes));
        lock.grant(owner, mode);
        !(is_written(mode.into()) && other_writes)
    }

    fn wait_for_grant(
        &self,
        name: LockName,
        patience: LockPatience<'_>,
        waiter: &Arc<Waiter>,
    ) -> Result<Acquired, LockRefused> {
        let wait = self.wait_of(name, patience, waiter);
        // The wait is entered before a circle is looked for, and under one latch: of those who close a circle together the
        // last sees the whole of it, and only the last.
        let circle = {
            let mut waiting = self.waiting.lock();
            wait.party.iter().for_each(|owner| drop(waiting.insert(*owner, Arc::clone(&wait))));
            self.unbroken_circle(&wait, &waiting)
        };
        let started = self.clock.monotonic();
        let refused = match circle {
            Some(circle) => Some(LockRefused::Deadlock(circle)),
            None => self.sleep_until_granted(patience, waiter),
        };
        self.waits.note(self.clock.monotonic().saturating_sub(started));
        {
            let mut waiting = self.waiting.lock();
            wait.party.iter().for_each(|owner| drop(waiting.remove(owner)));
        }
        match refused {
            Some(reason) if self.abandon(name, waiter) => Err(reason),
            // Granted in the last moment: it is ours, whatever the clock says.
            _ => Ok(self.granted(name, waiter)),
        }
    }

    fn wait_of(&self, name: LockName, patience: LockPatience<'_>, waiter: &Arc<Waiter>) -> Arc<Wait> {
        let (owner, session) = (waiter.owner, patience.session);
        let transaction = session.and_then(LockSession::transaction);
        Arc::new(Wait {
            waiter: Arc::clone(waiter),
            name,
            party: [owner, session.map_or(owner, |session| session.own), transaction.unwrap_or(owner)],
            session: session.map_or(0, |session| session.number),
            since_micros: self.clock.wall_micros(),
        })
    }

    fn sleep_until_granted(&self, patience: LockPatience<'_>, waiter: &Waiter) -> Option<LockRefused> {
        let started = self.clock.monotonic();
        loop {
            let seen = waiter.changed.read();
            if waiter.is_granted() {
                return None;
            }
            if self.stopped.load(Ordering::SeqCst) {
                return Some(LockRefused::Stopped);
            }
            if patience.cancel.is_some_and(CancelToken::is_requested) {
                return Some(LockRefused::Cancelled);
            }
            let left = match patience.wait {
                LockWait::NoWait => Duration::ZERO,
                LockWait::Timeout(timeout) => {
                    timeout.saturating_sub(self.clock.monotonic().saturating_sub(started))
                }
            };
            if left.is_zero() {
                return Some(LockRefused::TimedOut);
            }
            match patience.cancel {
                Some(cancel) => cancel.wait(&waiter.changed, seen, Some(left)),
                None => waiter.changed.wait(seen, Some(left)),
            }
        }
    }

    /// What the owner holds of a lock that was granted to it while it waited.
    fn granted(&self, name: LockName, waiter: &Waiter) -> Acquired {
        let held = self.with_lock(name, |lock| lock.map(|lock| lock.held_by(waiter.owner)));
        let before = held.unwrap_or_default().without(waiter.mode);
        if before.is_empty() { Acquired::Now } else { Acquired::Stronger(before) }
    }

    /// A circle that a wait has closed and that cannot be broken by letting one of its members take its turn earlier.
    fn unbroken_circle(&self, wait: &Arc<Wait>, waiting: &Waits) -> Option<Vec<CircleMember>> {
        // Each round grants a request, so there are no more rounds than waits.
        for _ in 0..=waiting.len() {
            let circle = circle(wait, waiting, |from| self.edges(from, wait, waiting))?;
            // From the end: the request that closes the circle comes last.
            if !circle.iter().rev().any(|(member, blocker)| self.let_pass(member, *blocker)) {
                return Some(circle.iter().map(|(member, blocker)| member.described(*blocker)).collect());
            }
        }
        None
    }

    fn edges(&self, from: &Wait, sought: &Wait, waiting: &Waits) -> Vec<Edge> {
        let is_known = |owner: LockOwner| waiting.contains_key(&owner);
        let is_sought = |owner: LockOwner| sought.party.contains(&owner);
        let edges = |lock: &mut Lock| lock.edges(&from.waiter, is_known, is_sought);
        self.with_lock(from.name, |lock| lock.map_or_else(Vec::new, edges))
    }

    /// Grants the request of a member that waits for its turn alone.
    fn let_pass(&self, member: &Wait, blocker: Blocker) -> bool {
        let passes = matches!(blocker, Blocker::Earlier(_))
            && self.with_lock(member.name, |lock| lock.is_some_and(|lock| lock.let_pass(&member.waiter)));
        if passes {
            member.waiter.changed.wake_all();
        }
        passes
    }

    /// Takes a request out of the queue; those that have waited for it are served. `false`: it was granted meanwhile.
    fn abandon(&self, name: LockName, waiter: &Arc<Waiter>) -> bool {
        let mut granted = Vec::new();
        let is_abandoned = self.with_lock(name, |lock| {
            lock.is_some_and(|lock| {
                let is_abandoned = lock.abandon(waiter);
                lock.serve(&mut granted);
                is_abandoned
            })
        });
        wake(&granted);
        is_abandoned
    }

    /// Gives up the lock of a row.
    pub(crate) fn release(&self, owner: LockOwner, name: u64) {
        self.keep(owner, name, LockModes::default());
    }

    /// Leaves the owner these modes of a row's lock, which its own cover.
    pub(crate) fn keep(&self, owner: LockOwner, name: u64, modes: LockModes) {
        let mut granted = Vec::new();
        keep_in(&mut self.shard(name).lock(), (owner, name), modes, &mut granted);
        wake(&granted);
    }

    /// Leaves the owner these modes of an object's lock, which its own cover.
    pub(crate) fn keep_object(&self, owner: LockOwner, tag: LockTag, modes: LockModes) {
        let mut granted = Vec::new();
        if !keep_in(&mut self.object_shard(tag).lock(), (owner, tag), modes, &mut granted) {
            self.object_count.fetch_sub(1, Ordering::Relaxed);
        }
        wake(&granted);
    }

    /// Gives up all of these locks, one shard after the other: a shard fits into a processor's cache, all of them may not.
    pub(crate) fn release_all(&self, owner: LockOwner, mut names: Vec<u64>) {
        names.sort_unstable_by_key(|name| shard_index(*name));
        let shards = names.chunk_by(|name, next| shard_index(*name) == shard_index(*next));
        for names in shards.flat_map(|names| names.chunks(RELEASED_AT_ONCE)) {
            let mut granted = Vec::new();
            {
                let mut locks = self.shard(names[0]).lock();
                for name in names {
                    keep_in(&mut locks, (owner, *name), LockModes::default(), &mut granted);
                }
            }
            wake(&granted);
        }
    }

    /// Nobody waits any more: those who do are refused, and those who come. The locks stay with those who have them.
    pub(crate) fn stop(&self) {
        // Set first: who is not in a queue yet when it is looked at has not looked at this yet.
        self.stopped.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            let waiters: Vec<_> = shard.lock().values().flat_map(|lock| lock.waiting().cloned()).collect();
            wake(&waiters);
        }
        for shard in &self.objects {
            let waiters: Vec<_> = shard.lock().values().flat_map(|lock| lock.waiting().cloned()).collect();
            wake(&waiters);
        }
    }

    /// How many requests wait now.
    pub(crate) fn waiting_count(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.iter().filter(|(owner, wait)| wait.waiter.owner == **owner).count()
    }

    /// Locks of rows held now, for statistics and tests.
    pub(crate) fn held_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// A session with a number.
    pub(crate) fn new_session(&self, number: i32) -> Arc<LockSession> {
        let session = LockSession::new(number, self.new_owner());
        let mut sessions = self.sessions.lock();
        if sessions.len() == sessions.capacity() {
            sessions.retain(|session| session.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(&session));
        session
    }

    /// How many objects are locked now.
    pub(crate) fn object_count(&self) -> usize {
        self.object_count.load(Ordering::Relaxed)
    }
}

fn wake(waiters: &[Arc<Waiter>]) {
    waiters.iter().for_each(|waiter| waiter.changed.wake_all());
}

#[cfg(test)]
mod tests;
