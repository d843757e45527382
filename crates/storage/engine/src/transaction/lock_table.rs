//! Row locks: exclusive, per row, held by a transaction until its commit is in the log and in the memtable.
//!
//! A lock is named by a 64-bit hash of the row key. Two rows that share a hash share a lock, which can make one wait
//! for the other and never lets two writers of one row pass. Uncontended, a lock is one insertion into a sharded map;
//! released, it is handed to the first who waits, in order of arrival.
//!
//! Deadlocks: locks are exclusive and a transaction waits for one lock at a time, so whoever waits has exactly one
//! successor in the graph of who waits for whom, and a cycle is found by following it. The one who would close the
//! cycle is the victim.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use seawall_io::Clock;
use seawall_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use seawall_sync::{Mutex, WaitWord};

const SHARD_COUNT: usize = 64;
/// A shard keeps the memory of so many locks when they are gone.
const SHARD_CAPACITY_KEPT: usize = 256;
/// So many locks are given up under a shard's latch at most.
const RELEASED_AT_ONCE: usize = 64;

/// A transaction, as the lock table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LockOwner(pub(crate) u64);

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

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRefused {
    /// Held by another, and the caller does not wait.
    Held,
    /// The wait took longer than allowed.
    TimedOut,
    /// Waiting would have closed a cycle.
    Deadlock,
    /// The database takes no more writes: who holds the lock may keep it until the next open.
    Stopped,
}

/// What `acquire` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Taken now: release it.
    Now,
    /// Held by this owner before.
    Before,
}

/// Small, as most locks are taken by large transactions, and nobody waits for them.
#[derive(Debug)]
struct Lock {
    owner: LockOwner,
    waiters: Option<Box<Waiters>>,
}

/// In order of arrival.
#[derive(Debug, Default)]
struct Waiters(VecDeque<Arc<Waiter>>);

impl Lock {
    fn waiters(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.waiters.iter().flat_map(|waiters| &waiters.0)
    }
}

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const ABANDONED: u32 = 2;

#[derive(Debug)]
struct Waiter {
    owner: LockOwner,
    state: AtomicU32,
    changed: WaitWord,
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

type Locks = std::collections::HashMap<u64, Lock, BuildHasherDefault<NameHasher>>;
type Shard = Mutex<Locks>;

/// All row locks of a database.
pub(crate) struct LockTable {
    shards: Box<[crossbeam_utils::CachePadded<Shard>]>,
    /// Who waits, and for which lock. Only touched by those who have to wait. Shards are latched while it is held, one at a
    /// time, to follow who waits for whom; it is never taken under the latch of a shard.
    waiting: Mutex<FxHashMap<LockOwner, u64>>,
    next_owner: crossbeam_utils::CachePadded<AtomicU64>,
    stopped: AtomicBool,
    clock: Arc<dyn Clock>,
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
fn shrink(locks: &mut Locks) {
    if locks.capacity() > SHARD_CAPACITY_KEPT && locks.len() < locks.capacity() / 8 {
        locks.shrink_to((locks.len() * 2).max(SHARD_CAPACITY_KEPT / 2));
    }
}

fn shard_index(name: u64) -> usize {
    // Not the low bits, by which the shard's map places a lock, nor the high ones, by which it tells locks apart.
    usize::try_from(name >> 48 & 0xFF).expect("eight bits fit") % SHARD_COUNT
}

/// Gives the lock to the first who waits for it, who is to be woken.
fn release_in(locks: &mut Locks, owner: LockOwner, name: u64) -> Option<Arc<Waiter>> {
    let Entry::Occupied(mut entry) = locks.entry(name) else {
        unreachable!("lock {name:#x} released by {owner:?} is not held");
    };
    let lock = entry.get_mut();
    assert_eq!(lock.owner, owner, "lock {name:#x} released by one who does not hold it");
    let Some(waiter) = lock.waiters.as_mut().and_then(|waiters| waiters.0.pop_front()) else {
        entry.remove();
        shrink(locks);
        return None;
    };
    lock.owner = waiter.owner;
    // Under the shard's latch, as in `abandon`: who is in the queue is waiting.
    waiter.state.store(GRANTED, Ordering::SeqCst);
    Some(waiter)
}

impl std::fmt::Debug for LockTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LockTable").field("held", &self.held_count()).finish_non_exhaustive()
    }
}

impl LockTable {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> LockTable {
        let shards = (0..SHARD_COUNT).map(|_| crossbeam_utils::CachePadded::new(Mutex::default())).collect();
        let next_owner = crossbeam_utils::CachePadded::default();
        LockTable { shards, waiting: Mutex::default(), next_owner, stopped: AtomicBool::new(false), clock }
    }

    /// An owner that nobody has been before.
    pub(crate) fn new_owner(&self) -> LockOwner {
        LockOwner(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    fn shard(&self, name: u64) -> &Shard {
        &self.shards[shard_index(name)]
    }

    /// Takes the lock `name` for `owner`, waiting as `wait` says.
    pub(crate) fn acquire(
        &self,
        owner: LockOwner,
        name: u64,
        wait: LockWait,
    ) -> Result<Acquired, LockRefused> {
        let waiter = {
            let mut locks = self.shard(name).lock();
            let lock = match locks.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(Lock { owner, waiters: None });
                    return Ok(Acquired::Now);
                }
                Entry::Occupied(entry) => entry.into_mut(),
            };
            if lock.owner == owner {
                return Ok(Acquired::Before);
            }
            if wait == LockWait::NoWait {
                return Err(LockRefused::Held);
            }
            let waiter = Arc::new(Waiter { owner, state: AtomicU32::new(WAITING), changed: WaitWord::new() });
            lock.waiters.get_or_insert_default().0.push_back(Arc::clone(&waiter));
            waiter
        };
        self.wait_for_grant(owner, name, wait, &waiter)
    }

    fn wait_for_grant(
        &self,
        owner: LockOwner,
        name: u64,
        wait: LockWait,
        waiter: &Arc<Waiter>,
    ) -> Result<Acquired, LockRefused> {
        // The edge is entered before the cycle is looked for, and under one latch: of those who close a cycle together the
        // last sees the whole of it, and only the last.
        let closes_cycle = {
            let mut waiting = self.waiting.lock();
            waiting.insert(owner, name);
            self.closes_cycle(owner, &waiting)
        };
        let refused =
            if closes_cycle { Some(LockRefused::Deadlock) } else { self.sleep_until_granted(wait, waiter) };
        self.waiting.lock().remove(&owner);
        match refused {
            Some(reason) if self.abandon(name, waiter) => Err(reason),
            // Granted in the last moment: it is ours, whatever the clock says.
            _ => Ok(Acquired::Now),
        }
    }

    fn sleep_until_granted(&self, wait: LockWait, waiter: &Waiter) -> Option<LockRefused> {
        let started = self.clock.monotonic();
        loop {
            let seen = waiter.changed.read();
            if waiter.state.load(Ordering::SeqCst) == GRANTED {
                return None;
            }
            if self.stopped.load(Ordering::SeqCst) {
                return Some(LockRefused::Stopped);
            }
            let left = match wait {
                LockWait::NoWait => Duration::ZERO,
                LockWait::Timeout(timeout) => {
                    timeout.saturating_sub(self.clock.monotonic().saturating_sub(started))
                }
            };
            if left.is_zero() {
                return Some(LockRefused::TimedOut);
            }
            waiter.changed.wait(seen, Some(left));
        }
    }

    /// Whether following who waits for whom from `owner` comes back to it.
    fn closes_cycle(&self, owner: LockOwner, waiting: &FxHashMap<LockOwner, u64>) -> bool {
        let mut next = owner;
        // Bounded by the number of waiters: a cycle that `owner` is not part of has its own victim.
        for _ in 0..=waiting.len() {
            match self.waits_for(next, waiting) {
                None => return false,
                Some(holder) if holder == owner => return true,
                Some(holder) => next = holder,
            }
        }
        false
    }

    /// Who holds the lock that `owner` waits for; `None` if it does not wait. One that was handed its lock and has not
    /// woken up yet waits no more.
    fn waits_for(&self, owner: LockOwner, waiting: &FxHashMap<LockOwner, u64>) -> Option<LockOwner> {
        let name = waiting.get(&owner)?;
        let holder = self.shard(*name).lock().get(name)?.owner;
        (holder != owner).then_some(holder)
    }

    /// Takes a waiter out of the queue. `false`: it was granted the lock meanwhile.
    fn abandon(&self, name: u64, waiter: &Arc<Waiter>) -> bool {
        let mut locks = self.shard(name).lock();
        if waiter.state.compare_exchange(WAITING, ABANDONED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        if let Some(waiters) = locks.get_mut(&name).and_then(|lock| lock.waiters.as_mut()) {
            waiters.0.retain(|other| !Arc::ptr_eq(other, waiter));
        }
        true
    }

    /// Gives up the lock `name`: the first waiter has it from now on.
    pub(crate) fn release(&self, owner: LockOwner, name: u64) {
        let granted = release_in(&mut self.shard(name).lock(), owner, name);
        if let Some(waiter) = granted {
            waiter.changed.wake_all();
        }
    }

    /// Gives up all of these locks, one shard after the other: a shard fits into a processor's cache, all of them may not.
    pub(crate) fn release_all(&self, owner: LockOwner, mut names: Vec<u64>) {
        names.sort_unstable_by_key(|name| shard_index(*name));
        let shards = names.chunk_by(|name, next| shard_index(*name) == shard_index(*next));
        for names in shards.flat_map(|names| names.chunks(RELEASED_AT_ONCE)) {
            let granted: Vec<Arc<Waiter>> = {
                let mut locks = self.shard(names[0]).lock();
                names.iter().filter_map(|name| release_in(&mut locks, owner, *name)).collect()
            };
            granted.iter().for_each(|waiter| waiter.changed.wake_all());
        }
    }

    /// Nobody waits any more: those who do are refused, and those who come. The locks stay with those who have them.
    pub(crate) fn stop(&self) {
        // Set first: who is not in a queue yet when it is looked at has not looked at this yet.
        self.stopped.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            let waiters: Vec<_> = shard.lock().values().flat_map(|lock| lock.waiters().cloned()).collect();
            waiters.iter().for_each(|waiter| waiter.changed.wake_all());
        }
    }

    /// Who waits for a lock now.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Locks held now, for statistics and tests.
    pub(crate) fn held_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::SystemClock;
    use seawall_testing::wait_until;

    fn table() -> Arc<LockTable> {
        Arc::new(LockTable::new(Arc::new(SystemClock)))
    }

    const LONG: LockWait = LockWait::Timeout(Duration::from_secs(60));

    fn wait_until_waiting(locks: &LockTable, count: usize) {
        wait_until("the transactions to wait", || locks.waiting.lock().len() >= count);
    }

    #[test]
    fn a_held_lock_is_refused_without_waiting_and_after_a_timeout() {
        let locks = table();
        assert_eq!(locks.acquire(LockOwner(1), 5, LONG), Ok(Acquired::Now));
        assert_eq!(locks.acquire(LockOwner(1), 5, LONG), Ok(Acquired::Before));
        assert_eq!(locks.acquire(LockOwner(2), 5, LockWait::NoWait), Err(LockRefused::Held));
        let short = LockWait::Timeout(Duration::from_millis(1));
        assert_eq!(locks.acquire(LockOwner(2), 5, short), Err(LockRefused::TimedOut));
        locks.release(LockOwner(1), 5);
        assert_eq!(locks.acquire(LockOwner(2), 5, LockWait::NoWait), Ok(Acquired::Now));
        locks.release(LockOwner(2), 5);
        assert_eq!(locks.held_count(), 0);
    }

    #[test]
    fn waiters_are_served_in_order_of_arrival() {
        let locks = table();
        let order = Arc::new(Mutex::new(Vec::new()));
        locks.acquire(LockOwner(100), 9, LONG).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let (locks, order) = (Arc::clone(&locks), Arc::clone(&order));
                wait_until_waiting(&locks, index);
                let thread = std::thread::spawn({
                    let locks = Arc::clone(&locks);
                    move || {
                        let owner = LockOwner(u64::try_from(index).unwrap());
                        locks.acquire(owner, 9, LONG).unwrap();
                        order.lock().push(index);
                        locks.release(owner, 9);
                    }
                });
                wait_until_waiting(&locks, index + 1);
                thread
            })
            .collect();
        locks.release(LockOwner(100), 9);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
    }

    #[test]
    fn all_locks_given_up_at_once_go_to_those_who_wait_for_them() {
        let locks = table();
        let names: Vec<u64> = (0..10_000_u64).map(|number| lock_name(&number.to_be_bytes())).collect();
        for name in &names {
            locks.acquire(LockOwner(0), *name, LONG).unwrap();
        }
        let waited: Vec<u64> = names.iter().copied().step_by(2_500).collect();
        let threads: Vec<_> = (1..)
            .map(LockOwner)
            .zip(waited.clone())
            .map(|(owner, name)| {
                let locks = Arc::clone(&locks);
                std::thread::spawn(move || locks.acquire(owner, name, LONG))
            })
            .collect();
        wait_until_waiting(&locks, threads.len());
        locks.release_all(LockOwner(0), names);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Ok(Acquired::Now)));
        assert_eq!(locks.held_count(), waited.len());
        (1..).map(LockOwner).zip(waited).for_each(|(owner, name)| locks.release(owner, name));
        assert_eq!(locks.held_count(), 0);
    }

    #[test]
    fn one_that_was_handed_its_lock_and_sleeps_still_waits_for_nobody() {
        let locks = table();
        let (asleep, next) = (LockOwner(1), LockOwner(2));
        locks.acquire(asleep, 5, LONG).unwrap();
        let waiting: FxHashMap<LockOwner, u64> = [(asleep, 5), (next, 5)].into_iter().collect();
        assert_eq!(locks.waits_for(asleep, &waiting), None);
        assert_eq!(locks.waits_for(next, &waiting), Some(asleep));
        assert!(!locks.closes_cycle(next, &waiting));
    }

    #[test]
    fn what_a_million_locks_took_is_given_back_when_they_are_gone() {
        let locks = table();
        let capacity = || locks.shards.iter().map(|shard| shard.lock().capacity()).sum::<usize>();
        let names: Vec<u64> = (0..1_000_000_u64).map(|number| lock_name(&number.to_be_bytes())).collect();
        for name in &names {
            locks.acquire(LockOwner(1), *name, LONG).unwrap();
        }
        assert!(capacity() >= 1_000_000);
        // Somebody holds a lock in each shard.
        locks.release_all(LockOwner(1), names[64 * 200..].to_vec());
        assert!(capacity() < 300_000, "{}", capacity());
        names[..64 * 200].iter().for_each(|name| locks.release(LockOwner(1), *name));
        assert!(capacity() <= SHARD_COUNT * SHARD_CAPACITY_KEPT * 2, "{}", capacity());
    }

    #[test]
    fn locks_of_one_shard_differ_in_the_bits_by_which_its_map_tells_them_apart() {
        let locks = table();
        let mut tags = std::collections::BTreeSet::new();
        for number in 0..20_000_u64 {
            let name = lock_name(&number.to_be_bytes());
            if std::ptr::eq(locks.shard(name), locks.shard(0)) {
                tags.insert(name >> 57);
            }
        }
        assert!(tags.len() > 100, "{} of 128", tags.len());
    }

    #[test]
    fn who_waits_when_the_database_stops_is_refused_and_who_holds_keeps_his_locks() {
        let locks = table();
        locks.acquire(LockOwner(1), 5, LONG).unwrap();
        let waiter = std::thread::spawn({
            let locks = Arc::clone(&locks);
            move || locks.acquire(LockOwner(2), 5, LONG)
        });
        wait_until_waiting(&locks, 1);
        locks.stop();
        assert_eq!(waiter.join().unwrap(), Err(LockRefused::Stopped));
        assert_eq!(locks.acquire(LockOwner(3), 5, LONG), Err(LockRefused::Stopped));
        assert_eq!(locks.acquire(LockOwner(3), 5, LockWait::NoWait), Err(LockRefused::Held));
        assert_eq!((locks.waiting_count(), locks.held_count()), (0, 1));
        locks.release(LockOwner(1), 5);
        assert_eq!(locks.held_count(), 0);
    }

    #[test]
    fn the_one_who_closes_a_cycle_is_the_victim_and_the_others_go_on() {
        let locks = table();
        for index in 0..3 {
            locks.acquire(LockOwner(index), index, LONG).unwrap();
        }
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let locks = Arc::clone(&locks);
                std::thread::spawn(move || {
                    let result = locks.acquire(LockOwner(index), index + 1, LONG);
                    locks.release(LockOwner(index), index);
                    if result.is_ok() {
                        locks.release(LockOwner(index), index + 1);
                    }
                    result
                })
            })
            .collect();
        wait_until_waiting(&locks, 2);
        assert_eq!(locks.acquire(LockOwner(2), 0, LONG), Err(LockRefused::Deadlock));
        locks.release(LockOwner(2), 2);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(Acquired::Now));
        }
        assert_eq!(locks.held_count(), 0);
    }
}
