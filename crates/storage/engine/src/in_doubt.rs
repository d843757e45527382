//! In-doubt transactions: prepared, and not yet committed or rolled back.
//!
//! ```text
//!   prepare --> record `prepare` --> registry: gid, locks, write set --decide--> record `commit prepared`, rows put
//!                                        |                                       or `rollback prepared`
//!                          freeze: those in doubt then
//!                                        v
//!                            rows of the system table `prepared`, merged in the checkpoint's last chunk
//! ```
//! What is on disk if the power goes: before the prepare's record is durable, nothing, and the transaction never was.
//! After it the transaction is in doubt: replay finds it by the record or, if that lies before the redo point, by its row
//! in the tree, where it came in the chunk that moved the redo point. Before the decision's record is durable it stays
//! in doubt; after it, replay puts the prepared rows with the stamp of the decision, or forgets them.
//!
//! Invariants:
//! * Every prepared transaction that is undecided at the redo point has its rows in the system table, and no other has.
//! * The row locks of an in-doubt transaction are held from before its prepare until after its decision is applied, and
//!   taken again at open before anybody can write. So no row that it wrote has a version newer than its decision's.
//! * Neither log nor row versions are held back: a row of the system table carries the write set, and there is no snapshot.
//!
//! The memory of an in-doubt transaction is that of its locks, the keys of its rows, and its write set. That counts like what
//! is in the active memtable, until the next freeze; once a checkpoint has put a write set of more than [`BODY_BYTES_KEPT`]
//! into the tree, it is no longer kept in memory.

pub(crate) mod age;
pub(crate) mod decide;
pub(crate) mod decision_count;
pub(crate) mod decisions;
pub(crate) mod definitions;
pub(crate) mod epoch;
pub(crate) mod guards;
pub(crate) mod policy;
pub(crate) mod prepare;
pub(crate) mod protected;
pub(crate) mod ranges;
pub(crate) mod replayed;
pub(crate) mod rows;
pub(crate) mod rules;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use rustc_hash::{FxBuildHasher, FxHashMap};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::catalog::OpenObject;
use crate::error::Error;
use crate::transaction::lock::LockOwner;
use crate::transaction::lock_table::LockTable;
use age::Age;
use decision_count::DecisionCount;
use definitions::Definitions;
use protected::Protected;

/// Write sets up to this length are short: they stay in memory when they are in the tree, and there they are in one row.
pub(crate) const BODY_BYTES_KEPT: usize = 512;

const SHARD_COUNT: usize = 16;

/// How far a prepared transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its record has no place in the log yet.
    Entered,
    InDoubt,
    /// Somebody is logging the decision.
    Deciding,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// The stamp of the prepare; known from `InDoubt` on.
    stamp: Lsn,
    /// The body of the prepare record; `None`: read it from the tree.
    body: Option<Arc<[u8]>>,
    locks: Vec<u64>,
}

/// A prepared transaction.
#[derive(Debug)]
pub(crate) struct PreparedTransaction {
    pub(crate) gid: Arc<str>,
    pub(crate) owner: Box<str>,
    /// When it was prepared, in microseconds since 1970.
    pub(crate) time_micros: i64,
    pub(crate) age: Age,
    pub(crate) row_count: u64,
    /// Bytes of its keys and values.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: usize,
    /// The tables that it uses.
    pub(crate) objects: Vec<Arc<OpenObject>>,
    /// The tables that it defines.
    pub(crate) definitions: Definitions,
    lock_owner: LockOwner,
    /// A rule has told of it.
    pub(crate) reported: AtomicBool,
    state: Mutex<State>,
}

/// A transaction that is prepared and not decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDoubtTransaction {
    /// The name that the coordinator gave.
    pub gid: String,
    /// Who prepared it; empty if nobody said.
    pub owner: String,
    /// When it was prepared, in microseconds since 1970.
    pub prepared_micros: i64,
    /// Time since then; while the database is open it passes as it does, whatever the time of day is set to.
    pub age: Duration,
    /// Stamp of the prepare.
    pub lsn: Lsn,
    /// Names of the tables that it uses, as they are now.
    pub tables: Vec<String>,
    /// Rows that it wrote, those of the catalog among them; without rows of its own tables that it has logged before, in parts.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// What is known of a transaction before it is logged, or when it is taken up again at open.
#[derive(Debug)]
pub(crate) struct NewPrepared {
    pub(crate) gid: Arc<str>,
    pub(crate) owner: Box<str>,
    pub(crate) time_micros: i64,
    pub(crate) age: Age,
    pub(crate) row_count: u64,
    pub(crate) bytes: u64,
    pub(crate) body_bytes: usize,
    pub(crate) body: Option<Arc<[u8]>>,
    pub(crate) objects: Vec<Arc<OpenObject>>,
    pub(crate) definitions: Definitions,
    pub(crate) lock_owner: LockOwner,
}

impl PreparedTransaction {
    fn new(new: NewPrepared) -> PreparedTransaction {
        let state = State { stage: Stage::Entered, stamp: Lsn::ZERO, body: new.body, locks: Vec::new() };
        PreparedTransaction {
            gid: new.gid,
            owner: new.owner,
            time_micros: new.time_micros,
            age: new.age,
            row_count: new.row_count,
            bytes: new.bytes,
            body_bytes: new.body_bytes,
            objects: new.objects,
            definitions: new.definitions,
            lock_owner: new.lock_owner,
            reported: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Stamp of the prepare; `None` while its record has no place in the log.
    pub(crate) fn stamp(&self) -> Option<Lsn> {
        let state = self.state.lock();
        (state.stage != Stage::Entered).then_some(state.stamp)
    }

    /// The body of its prepare record, if it is in memory.
    pub(crate) fn body(&self) -> Option<Arc<[u8]>> {
        self.state.lock().body.clone()
    }

    /// The tree holds the body from now on.
    pub(crate) fn forget_long_body(&self) {
        if self.body_bytes > BODY_BYTES_KEPT {
            self.state.lock().body = None;
        }
    }

    pub(crate) fn lock_owner(&self) -> LockOwner {
        self.lock_owner
    }
}

/// All of them, by gid.
#[derive(Debug)]
pub(crate) struct InDoubtTransactions {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    pub(crate) protected: Arc<Protected>,
    pub(crate) counts: Counts,
    pub(crate) decision_count: DecisionCount,
    /// How many there were at the last freeze point.
    at_freeze: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    by_gid: FxHashMap<Arc<str>, Arc<PreparedTransaction>>,
    /// Decided, with the stamp of the decision, which may not be visible or durable yet: until it is visible they are shown,
    /// and until it is durable nobody is told, by one who asks for more, that they are decided.
    leaving: VecDeque<(Lsn, Arc<PreparedTransaction>)>,
}

impl Shard {
    fn forget_settled(&mut self, settled: Lsn) {
        while self.leaving.front().is_some_and(|(stamp, _)| *stamp <= settled) {
            self.leaving.pop_front();
        }
    }
}

/// Why a transaction could not be claimed for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotClaimed {
    /// It was never prepared, or was decided for good.
    Unknown,
    /// Its decision has this stamp, and may not be visible or durable yet.
    Decided(Lsn),
    /// Somebody is logging a decision.
    BeingDecided,
}

/// Counted while the database is open. `Relaxed`: each is right on its own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    in_doubt: AtomicU64,
    pub(crate) prepared: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) rolled_back: AtomicU64,
    pub(crate) reported: AtomicU64,
}

impl InDoubtTransactions {
    pub(crate) fn new(protected: Arc<Protected>, at_freeze: u64) -> InDoubtTransactions {
        InDoubtTransactions {
            shards: (0..SHARD_COUNT).map(|_| CachePadded::default()).collect(),
            protected,
            counts: Counts::default(),
            decision_count: DecisionCount::default(),
            at_freeze: AtomicU64::new(at_freeze),
        }
    }

    /// How many there were at the last freeze point.
    pub(crate) fn at_freeze(&self) -> u64 {
        self.at_freeze.load(Ordering::SeqCst)
    }

    pub(crate) fn set_at_freeze(&self, count: u64) {
        self.at_freeze.store(count, Ordering::SeqCst);
    }

    fn shard(&self, gid: &str) -> &Mutex<Shard> {
        // The high bits: the map in the shard goes by the low ones.
        let index = usize::try_from(FxBuildHasher.hash_one(gid) >> 60).expect("four bits fit");
        &self.shards[index % SHARD_COUNT]
    }

    /// Enters a transaction before it is logged, so that nobody else takes its gid.
    pub(crate) fn enter(&self, new: NewPrepared) -> Result<Arc<PreparedTransaction>, Error> {
        let mut shard = self.shard(&new.gid).lock();
        match shard.by_gid.entry(Arc::clone(&new.gid)) {
            Entry::Occupied(entry) => Err(Error::GidInUse { gid: entry.key().to_string() }),
            Entry::Vacant(entry) => {
                let prepared = Arc::new(PreparedTransaction::new(new));
                entry.insert(Arc::clone(&prepared));
                self.counts.in_doubt.fetch_add(1, Ordering::Relaxed);
                Ok(prepared)
            }
        }
    }

    /// Takes a transaction out that was not logged.
    pub(crate) fn remove(&self, prepared: &PreparedTransaction) {
        self.take_out(&mut self.shard(&prepared.gid).lock(), prepared);
    }

    fn take_out(&self, shard: &mut Shard, prepared: &PreparedTransaction) -> Arc<PreparedTransaction> {
        self.counts.in_doubt.fetch_sub(1, Ordering::Relaxed);
        shard.by_gid.remove(&prepared.gid).expect("a transaction is taken out once")
    }

    /// The transaction is logged, and holds `locks` from now on.
    pub(crate) fn logged(&self, prepared: &PreparedTransaction, stamp: Lsn, locks: Vec<u64>) {
        let mut state = prepared.state.lock();
        assert!(state.stage == Stage::Entered, "a transaction is prepared once");
        (state.stage, state.stamp, state.locks) = (Stage::InDoubt, stamp, locks);
    }

    /// The transaction that has the name `gid` now.
    pub(crate) fn named(&self, gid: &str) -> Result<Arc<PreparedTransaction>, NotClaimed> {
        let shard = self.shard(gid).lock();
        if let Some(prepared) = shard.by_gid.get(gid) {
            return Ok(Arc::clone(prepared));
        }
        let mut last_first = shard.leaving.iter().rev();
        let decided = last_first.find(|(_, prepared)| *prepared.gid == *gid);
        Err(decided.map_or(NotClaimed::Unknown, |(stamp, _)| NotClaimed::Decided(*stamp)))
    }

    /// Claims the transaction for a decision; the stamp of its prepare. [`InDoubtTransactions::unclaim`] gives it back.
    pub(crate) fn claim(&self, prepared: &PreparedTransaction) -> Result<Lsn, NotClaimed> {
        let mut state = prepared.state.lock();
        match state.stage {
            Stage::Entered => Err(NotClaimed::Unknown),
            // Once it is decided, too.
            Stage::Deciding => Err(NotClaimed::BeingDecided),
            Stage::InDoubt => {
                state.stage = Stage::Deciding;
                Ok(state.stamp)
            }
        }
    }

    /// The decision could not be logged.
    pub(crate) fn unclaim(&self, prepared: &PreparedTransaction) {
        prepared.state.lock().stage = Stage::InDoubt;
    }

    /// The decision is logged and applied: gives up everything that the transaction held. What was decided up to `settled`
    /// is visible and durable.
    pub(crate) fn decided(
        &self,
        prepared: &PreparedTransaction,
        stamp: Lsn,
        settled: Lsn,
        locks: &LockTable,
    ) {
        // First: leaving wakes those who wait.
        prepared.definitions.release();
        self.protected.leave(prepared.lock_owner);
        prepared.objects.iter().for_each(|object| object.release_in_doubt());
        {
            let mut shard = self.shard(&prepared.gid).lock();
            shard.forget_settled(settled);
            let taken = self.take_out(&mut shard, prepared);
            shard.leaving.push_back((stamp, taken));
        }
        let held = {
            let mut state = prepared.state.lock();
            // It may be remembered for a while yet; its write set is in the memtable or nowhere.
            state.body = None;
            std::mem::take(&mut state.locks)
        };
        locks.release_all(prepared.lock_owner, held);
    }

    /// All of them, those that are not logged yet too.
    pub(crate) fn all(&self) -> Vec<Arc<PreparedTransaction>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().by_gid.values().cloned());
        }
        all
    }

    /// All that are logged, by the stamp of the prepare.
    pub(crate) fn all_in_order(&self) -> Vec<(Lsn, Arc<PreparedTransaction>)> {
        let logged = |prepared: Arc<PreparedTransaction>| Some((prepared.stamp()?, prepared));
        let mut all: Vec<_> = self.all().into_iter().filter_map(logged).collect();
        all.sort_unstable_by_key(|(stamp, _)| *stamp);
        all
    }

    /// The transactions with a prepare stamped at most `logged`, and without a decision stamped at most `visible`.
    pub(crate) fn all_between(&self, visible: Lsn, logged: Lsn) -> Vec<Arc<PreparedTransaction>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            all.extend(shard.by_gid.values().cloned());
            let leaving = shard.leaving.iter().filter(|(decided, _)| *decided > visible);
            all.extend(leaving.map(|(_, prepared)| Arc::clone(prepared)));
        }
        all.retain(|prepared| prepared.stamp().is_some_and(|stamp| stamp <= logged));
        all
    }

    /// Everything stamped at most `settled` is visible and durable: lets go of what was decided before.
    pub(crate) fn forget_settled(&self, settled: Lsn) {
        self.shards.iter().for_each(|shard| shard.lock().forget_settled(settled));
    }

    /// Whether the transaction is one of them, still.
    pub(crate) fn is_in_doubt(&self, prepared: &PreparedTransaction) -> bool {
        let shard = self.shard(&prepared.gid).lock();
        shard.by_gid.get(&prepared.gid).is_some_and(|other| std::ptr::eq(Arc::as_ptr(other), prepared))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.in_doubt.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(gid: &str) -> NewPrepared {
        NewPrepared {
            gid: Arc::from(gid),
            owner: Box::default(),
            time_micros: 0,
            age: Age::zero(&seawall_io::SystemClock),
            row_count: 1,
            bytes: 1,
            body_bytes: 1,
            body: Some(Arc::from(&b"body"[..])),
            objects: Vec::new(),
            definitions: Definitions::default(),
            lock_owner: LockOwner(1),
        }
    }

    #[test]
    fn a_transaction_is_claimed_by_one_at_a_time_and_remembered_until_its_decision_is_settled() {
        let all = InDoubtTransactions::new(Arc::default(), 0);
        let locks = LockTable::new(Arc::new(seawall_io::SystemClock));
        let claim = |prepared: &PreparedTransaction| all.claim(prepared);
        let prepared = all.enter(new("gid")).unwrap();
        assert_eq!(claim(&prepared), Err(NotClaimed::Unknown), "it has no place in the log");
        all.logged(&prepared, Lsn::new(7), Vec::new());
        assert_eq!(claim(&prepared), Ok(Lsn::new(7)));
        assert_eq!(claim(&prepared), Err(NotClaimed::BeingDecided));
        all.unclaim(&prepared);
        assert_eq!(claim(&prepared), Ok(Lsn::new(7)));
        all.decided(&prepared, Lsn::new(9), Lsn::new(8), &locks);
        assert!(prepared.body().is_none(), "what is remembered is small");
        // Who got hold of it before hears that somebody is at it, and finds by its name what became of it.
        assert_eq!(claim(&prepared), Err(NotClaimed::BeingDecided));
        let named = |gid: &str| all.named(gid).map(|found| found.stamp());
        assert_eq!(named("gid"), Err(NotClaimed::Decided(Lsn::new(9))));
        // Another one of the same name.
        let next = all.enter(new("gid")).unwrap();
        all.logged(&next, Lsn::new(10), Vec::new());
        assert_eq!(named("gid"), Ok(Some(Lsn::new(10))));
        all.claim(&next).unwrap();
        all.decided(&next, Lsn::new(12), Lsn::new(8), &locks);
        assert_eq!(named("gid"), Err(NotClaimed::Decided(Lsn::new(12))), "the last one");
        all.forget_settled(Lsn::new(12));
        assert_eq!(named("gid"), Err(NotClaimed::Unknown));
    }
}
