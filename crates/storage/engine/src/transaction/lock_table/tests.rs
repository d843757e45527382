//! Locks are granted in order, shared where modes allow, and every circle of waits is broken.

use super::*;
use crate::transaction::lock_view::LockTarget;
use seawall_io::SystemClock;
use seawall_testing::wait_until;

fn table() -> Arc<LockTable> {
    Arc::new(LockTable::new(Arc::new(SystemClock)))
}

const LONG: LockPatience<'_> =
    LockPatience { wait: LockWait::Timeout(Duration::from_secs(60)), ..LockPatience::NONE };
const ALONE: LockMode = LockMode::AccessExclusive;
const SHARED: LockMode = LockMode::RowShare;

fn wait_until_waiting(locks: &LockTable, count: usize) {
    wait_until("the transactions to wait", || locks.waiting.lock().len() >= count);
}

#[test]
fn a_held_lock_is_refused_without_waiting_and_after_a_timeout() {
    let locks = table();
    assert_eq!(locks.acquire(LockOwner(1), 5, ALONE, LONG), Ok(Acquired::Now));
    assert_eq!(locks.acquire(LockOwner(1), 5, ALONE, LONG), Ok(Acquired::Before));
    assert_eq!(locks.acquire(LockOwner(2), 5, ALONE, LockPatience::NONE), Err(LockRefused::Held));
    let short = LockPatience { wait: LockWait::Timeout(Duration::from_millis(1)), ..LockPatience::NONE };
    assert_eq!(locks.acquire(LockOwner(2), 5, ALONE, short), Err(LockRefused::TimedOut));
    locks.release(LockOwner(1), 5);
    assert_eq!(locks.acquire(LockOwner(2), 5, ALONE, LockPatience::NONE), Ok(Acquired::Now));
    locks.release(LockOwner(2), 5);
    assert_eq!(locks.held_count(), 0);
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let locks = table();
    let order = Arc::new(Mutex::new(Vec::new()));
    locks.acquire(LockOwner(100), 9, ALONE, LONG).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|index| {
            let (locks, order) = (Arc::clone(&locks), Arc::clone(&order));
            wait_until_waiting(&locks, index);
            let thread = std::thread::spawn({
                let locks = Arc::clone(&locks);
                move || {
                    let owner = LockOwner(u64::try_from(index).unwrap());
                    locks.acquire(owner, 9, ALONE, LONG).unwrap();
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
        locks.acquire(LockOwner(0), *name, ALONE, LONG).unwrap();
    }
    let waited: Vec<u64> = names.iter().copied().step_by(2_500).collect();
    let threads: Vec<_> = (1..)
        .map(LockOwner)
        .zip(waited.clone())
        .map(|(owner, name)| {
            let locks = Arc::clone(&locks);
            std::thread::spawn(move || locks.acquire(owner, name, ALONE, LONG))
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
fn what_a_million_locks_took_is_given_back_when_they_are_gone() {
    let locks = table();
    let capacity = || locks.shards.iter().map(|shard| shard.lock().capacity()).sum::<usize>();
    let names: Vec<u64> = (0..1_000_000_u64).map(|number| lock_name(&number.to_be_bytes())).collect();
    for name in &names {
        locks.acquire(LockOwner(1), *name, ALONE, LONG).unwrap();
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
    locks.acquire(LockOwner(1), 5, ALONE, LONG).unwrap();
    let waiter = std::thread::spawn({
        let locks = Arc::clone(&locks);
        move || locks.acquire(LockOwner(2), 5, ALONE, LONG)
    });
    wait_until_waiting(&locks, 1);
    locks.stop();
    assert_eq!(waiter.join().unwrap(), Err(LockRefused::Stopped));
    assert_eq!(locks.acquire(LockOwner(3), 5, ALONE, LONG), Err(LockRefused::Stopped));
    assert_eq!(locks.acquire(LockOwner(3), 5, ALONE, LockPatience::NONE), Err(LockRefused::Held));
    assert_eq!((locks.waiting_count(), locks.held_count()), (0, 1));
    locks.release(LockOwner(1), 5);
    assert_eq!(locks.held_count(), 0);
}

#[test]
fn the_one_who_closes_a_cycle_is_the_victim_and_the_others_go_on() {
    let locks = table();
    for index in 0..3 {
        locks.acquire(LockOwner(index), index, ALONE, LONG).unwrap();
    }
    let threads: Vec<_> = (0..2)
        .map(|index| {
            let locks = Arc::clone(&locks);
            std::thread::spawn(move || {
                let result = locks.acquire(LockOwner(index), index + 1, ALONE, LONG);
                locks.release(LockOwner(index), index);
                if result.is_ok() {
                    locks.release(LockOwner(index), index + 1);
                }
                result
            })
        })
        .collect();
    wait_until_waiting(&locks, 2);
    let refused = locks.acquire(LockOwner(2), 0, ALONE, LONG);
    let Err(LockRefused::Deadlock(circle)) = refused else { panic!("{refused:?}") };
    let holders: Vec<LockTarget> = circle.iter().map(|member| member.target).collect();
    assert_eq!(holders, [0, 1, 2].map(|holder| LockTarget::Row { holder }));
    locks.release(LockOwner(2), 2);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ok(Acquired::Now));
    }
    assert_eq!(locks.held_count(), 0);
}

#[test]
fn shared_holders_go_together_and_a_request_for_all_of_it_is_not_starved() {
    let locks = table();
    locks.acquire(LockOwner(1), 5, SHARED, LONG).unwrap();
    assert_eq!(locks.acquire(LockOwner(2), 5, SHARED, LockPatience::NONE), Ok(Acquired::Now));
    let alone = std::thread::spawn({
        let locks = Arc::clone(&locks);
        move || locks.acquire(LockOwner(3), 5, ALONE, LONG)
    });
    wait_until_waiting(&locks, 1);
    let late = locks.acquire(LockOwner(4), 5, SHARED, LockPatience::NONE);
    assert_eq!(late, Err(LockRefused::Held), "it comes after the one that waits");
    locks.release(LockOwner(1), 5);
    let stronger = locks.acquire(LockOwner(2), 5, LockMode::Exclusive, LockPatience::NONE);
    assert_eq!(
        stronger,
        Ok(Acquired::Stronger(SHARED.into())),
        "a holder does not wait for those that wait for it"
    );
    locks.keep(LockOwner(2), 5, SHARED.into());
    assert_eq!(locks.waiting_count(), 1);
    locks.release(LockOwner(2), 5);
    assert_eq!(alone.join().unwrap(), Ok(Acquired::Now));
    locks.release(LockOwner(3), 5);
    assert_eq!(locks.held_count(), 0);
}

#[test]
fn two_that_share_a_lock_and_want_it_alone_are_a_circle() {
    let locks = table();
    for owner in [1, 2] {
        locks.acquire(LockOwner(owner), 5, SHARED, LONG).unwrap();
    }
    let first = std::thread::spawn({
        let locks = Arc::clone(&locks);
        move || locks.acquire(LockOwner(1), 5, ALONE, LONG)
    });
    wait_until_waiting(&locks, 1);
    assert!(matches!(locks.acquire(LockOwner(2), 5, ALONE, LONG), Err(LockRefused::Deadlock(_))));
    locks.release(LockOwner(2), 5);
    assert_eq!(first.join().unwrap(), Ok(Acquired::Stronger(SHARED.into())));
}

#[test]
fn a_wait_ends_when_it_is_cancelled_and_those_after_it_are_served() {
    let locks = table();
    let cancel = Arc::new(CancelToken::default());
    locks.acquire(LockOwner(1), 5, SHARED, LONG).unwrap();
    let cancelled = std::thread::spawn({
        let (locks, cancel) = (Arc::clone(&locks), Arc::clone(&cancel));
        move || locks.acquire(LockOwner(2), 5, ALONE, LockPatience { cancel: Some(&cancel), ..LONG })
    });
    wait_until_waiting(&locks, 1);
    let after = std::thread::spawn({
        let locks = Arc::clone(&locks);
        move || locks.acquire(LockOwner(3), 5, SHARED, LONG)
    });
    wait_until_waiting(&locks, 2);
    cancel.request();
    assert_eq!(cancelled.join().unwrap(), Err(LockRefused::Cancelled));
    assert_eq!(after.join().unwrap(), Ok(Acquired::Now));
    cancel.clear();
    assert!(!cancel.is_requested());
}

/// A waits for what B shares; B waits for its turn after C, which waits for A: B takes its turn before C.
#[test]
fn a_circle_that_one_closes_who_only_waits_for_its_turn_has_no_victim() {
    let locks = table();
    let (a, b, c) = (LockOwner(1), LockOwner(2), LockOwner(3));
    locks.acquire(a, 5, SHARED, LONG).unwrap();
    locks.acquire(b, 6, ALONE, LONG).unwrap();
    let wait = |owner, name, mode| {
        let locks = Arc::clone(&locks);
        let before = locks.waiting_count();
        let waiting = std::thread::spawn({
            let locks = Arc::clone(&locks);
            move || locks.acquire(owner, name, mode, LONG)
        });
        (waiting, before)
    };
    let (of_c, _) = wait(c, 5, ALONE);
    wait_until_waiting(&locks, 1);
    let (of_b, _) = wait(b, 5, SHARED);
    wait_until_waiting(&locks, 2);
    let (of_a, _) = wait(a, 6, ALONE);
    assert_eq!(of_b.join().unwrap(), Ok(Acquired::Now));
    locks.release_all(b, vec![5, 6]);
    assert_eq!(of_a.join().unwrap(), Ok(Acquired::Now));
    locks.release_all(a, vec![5, 6]);
    assert_eq!(of_c.join().unwrap(), Ok(Acquired::Now));
}

/// Owners that lock and give up at random, one call at a time, so that a look between two calls sees a state that stays.
struct Crowd {
    locks: Arc<LockTable>,
    members: Vec<Member>,
}

type Waiting = std::thread::JoinHandle<Result<Acquired, LockRefused>>;

struct Member {
    session: Arc<LockSession>,
    held: Vec<LockTag>,
    /// The call that waits.
    waiting: Option<(LockTag, LockMode, Waiting)>,
}

/// Holders and requests of each lock, as a plain list.
type Plain = Vec<(LockTag, Vec<(LockOwner, LockModes)>, Vec<(LockOwner, LockMode)>)>;

impl Crowd {
    fn state(&self) -> Plain {
        let mut state = Plain::new();
        for shard in &self.locks.objects {
            for (tag, lock) in &*shard.lock() {
                let waiting = lock.waiting().map(|waiter| (waiter.owner, waiter.mode)).collect();
                state.push((*tag, lock.holders().collect(), waiting));
            }
        }
        state
    }

    fn lock(&mut self, member: usize, tag: LockTag, mode: LockMode) {
        let session = Arc::clone(&self.members[member].session);
        let locks = Arc::clone(&self.locks);
        let mut state = self.state();
        let call = std::thread::spawn({
            let session = Arc::clone(&session);
            move || {
                locks.acquire_object(session.own, tag, mode, LockPatience { session: Some(&session), ..LONG })
            }
        });
        // One that sleeps was not refused.
        let sleeps = |wait: &Arc<Wait>| wait.waiter.changed.sleepers() > 0;
        let is_waiting = || self.locks.waiting.lock().get(&session.own).is_some_and(sleeps);
        wait_until("the call to wait or to return", || call.is_finished() || is_waiting());
        if !call.is_finished() {
            self.members[member].waiting = Some((tag, mode, call));
            return;
        }
        match call.join().unwrap() {
            Ok(_) => self.note(member, tag),
            Err(LockRefused::Deadlock(circle)) => {
                let queue = &mut state.iter_mut().find(|(other, ..)| *other == tag).unwrap().2;
                queue.push((session.own, mode));
                assert_is_circle(&circle, &self.members, &state);
                self.give_up(member);
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn note(&mut self, member: usize, tag: LockTag) {
        let held = &mut self.members[member].held;
        if !held.contains(&tag) {
            held.push(tag);
        }
    }

    fn give_up(&mut self, member: usize) {
        let own = self.members[member].session.own;
        for tag in std::mem::take(&mut self.members[member].held) {
            self.locks.keep_object(own, tag, LockModes::default());
        }
    }

    /// Those that were granted their locks go on.
    fn settle(&mut self) {
        for member in 0..self.members.len() {
            let own = self.members[member].session.own;
            let queued =
                self.state().iter().any(|(.., waiting)| waiting.iter().any(|(owner, _)| *owner == own));
            if queued {
                continue;
            }
            if let Some((tag, _, call)) = self.members[member].waiting.take() {
                assert!(call.join().unwrap().is_ok(), "a request that left the queue was granted");
                self.note(member, tag);
            }
        }
    }
}

/// The requests that wait directly for another one, by the rules alone.
fn plain_blockers(owner: LockOwner, state: &Plain) -> Vec<LockOwner> {
    for (_, holders, waiting) in state {
        let Some(place) = waiting.iter().position(|(other, _)| *other == owner) else { continue };
        let mode = waiting[place].1;
        let is_holder = holders.iter().any(|(holder, _)| *holder == owner);
        let held = holders.iter().filter(|(holder, modes)| *holder != owner && modes.conflict_with(mode));
        let earlier = waiting[..place]
            .iter()
            .filter(|(_, other)| !is_holder && LockModes::from(*other).conflict_with(mode));
        return held.map(|(holder, _)| *holder).chain(earlier.map(|(other, _)| *other)).collect();
    }
    Vec::new()
}

fn assert_is_circle(circle: &[CircleMember], members: &[Member], state: &Plain) {
    assert!(!circle.is_empty());
    let owner =
        |member: &CircleMember| members.iter().find(|known| known.session.number == member.session).unwrap();
    for (number, member) in circle.iter().enumerate() {
        let next = &circle[(number + 1) % circle.len()];
        let blockers = plain_blockers(owner(member).session.own, state);
        assert!(blockers.contains(&owner(next).session.own), "{circle:?} in {state:?}");
    }
}

fn assert_sound(state: &Plain) {
    for (tag, holders, waiting) in state {
        for (number, (_, modes)) in holders.iter().enumerate() {
            let others = holders.iter().skip(number + 1);
            let conflict =
                others.flat_map(|(_, others)| others.iter()).find(|other| modes.conflict_with(*other));
            assert_eq!(conflict, None, "{tag:?}: {holders:?}");
        }
        for (owner, mode) in waiting {
            let mut reached = plain_blockers(*owner, state);
            assert!(!reached.is_empty(), "{owner:?} waits for nothing with {mode:?}: {state:?}");
            let mut next = 0;
            while let Some(blocker) = reached.get(next).copied() {
                assert_ne!(blocker, *owner, "a circle was left: {state:?}");
                let more: Vec<_> = plain_blockers(blocker, state);
                reached.extend(more.into_iter().filter(|other| !reached.contains(other)).collect::<Vec<_>>());
                next += 1;
            }
        }
    }
}

#[test]
fn no_conflict_is_granted_no_circle_is_left_and_no_victim_is_without_a_circle() {
    const MEMBERS: usize = 6;
    for seed in 1..=40_u64 {
        println!("seed {seed}");
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
        };
        let locks = table();
        let member = |number| Member { session: locks.new_session(number), held: Vec::new(), waiting: None };
        let members = (1..=i32::try_from(MEMBERS).unwrap()).map(member).collect();
        let mut crowd = Crowd { locks: Arc::clone(&locks), members };
        for _ in 0..120 {
            let number = draw(MEMBERS);
            if crowd.members[number].waiting.is_some() {
                continue;
            }
            match draw(6) {
                0 => crowd.give_up(number),
                _ => {
                    let tag = LockTag { kind: 0, number: u64::try_from(draw(4)).unwrap() };
                    crowd.lock(number, tag, LockMode::ALL[draw(8)]);
                }
            }
            crowd.settle();
            assert_sound(&crowd.state());
        }
        while crowd.members.iter().any(|member| member.waiting.is_some() || !member.held.is_empty()) {
            (0..MEMBERS).for_each(|member| {
                if crowd.members[member].waiting.is_none() {
                    crowd.give_up(member);
                }
            });
            crowd.settle();
        }
        assert_eq!((locks.object_count(), locks.waiting_count()), (0, 0), "seed {seed}");
    }
}
