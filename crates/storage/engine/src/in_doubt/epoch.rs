//! Changes of in-doubt transactions between two freezes: the counterpart of a memtable.
//!
//! A transaction that is prepared and decided within one epoch leaves nothing. When the epoch is over, its changes become
//! rows of the system table in the memtable that was frozen with it, and are merged with its other system rows; the parts of
//! long bodies are merged from where they are (`rows`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_memtable::Memtable;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use crate::in_doubt::rows::PreparedBody;
use crate::in_doubt::{PreparedTransaction, rows};
use crate::sabotage::{Defect, sabotaged};

/// What an in-doubt transaction takes in memory beyond its write set and its locks.
const ENTRY_BYTES: u64 = 512;

#[derive(Debug, Default)]
struct Changes {
    /// Transactions of a replay, whose rows are in the memtable.
    replayed: Vec<Arc<PreparedTransaction>>,
    /// Prepared in this epoch and undecided at its end, by the stamp of the prepare. With the body: one that is decided
    /// after the end gives its own up.
    entered: FxHashMap<Lsn, (Arc<PreparedTransaction>, Arc<[u8]>)>,
    /// Prepared before it and decided in it: stamp of the prepare and of the decision, and rows in the system table.
    gone: Vec<(Lsn, Lsn, u32)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PreparedEpoch {
    changes: Mutex<Changes>,
    /// Memory of those in `entered`: it counts like that of a memtable.
    bytes: AtomicU64,
    /// Long bodies that are to be merged, between its end and the end of its merge.
    long_bodies: Mutex<Arc<Vec<PreparedBody>>>,
    /// Transactions in doubt at its end; set when it is over.
    in_doubt_at_end: AtomicU64,
}

fn bytes_of(prepared: &PreparedTransaction) -> u64 {
    ENTRY_BYTES + u64::try_from(prepared.body_bytes).expect("a record has at most 1 GiB")
}

impl PreparedEpoch {
    /// The epoch of a replay, whose memtable has the heads already.
    pub(crate) fn replayed(in_doubt_at_end: u64, long_bodies: Vec<PreparedBody>) -> PreparedEpoch {
        PreparedEpoch {
            in_doubt_at_end: AtomicU64::new(in_doubt_at_end),
            long_bodies: Mutex::new(Arc::new(long_bodies)),
            ..PreparedEpoch::default()
        }
    }

    pub(crate) fn prepared(&self, stamp: Lsn, prepared: &Arc<PreparedTransaction>, body: Arc<[u8]>) {
        self.changes.lock().entered.insert(stamp, (Arc::clone(prepared), body));
        self.bytes.fetch_add(bytes_of(prepared), Ordering::Relaxed);
    }

    pub(crate) fn decided(&self, stamp: Lsn, decided: Lsn, prepared: &PreparedTransaction) {
        let mut changes = self.changes.lock();
        if changes.entered.remove(&stamp).is_some() {
            self.bytes.fetch_sub(bytes_of(prepared), Ordering::Relaxed);
        } else {
            changes.gone.push((stamp, decided, rows::part_count(prepared.body_bytes)));
        }
    }

    /// Memory of what was prepared in it and is not decided.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether nothing is to be merged.
    pub(crate) fn is_empty(&self) -> bool {
        let changes = self.changes.lock();
        changes.entered.is_empty() && changes.gone.is_empty()
    }

    /// The epoch is over and does not change any more: writes its rows into `memtable`, which was frozen with it, but for
    /// the parts of long bodies. `in_doubt_before`: transactions in doubt when it began. How many are now.
    pub(crate) fn settle(&self, memtable: &Memtable, in_doubt_before: u64) -> u64 {
        let changes = self.changes.lock();
        // In the order of their keys: each row then finds its place beside the one before.
        let mut entered: Vec<_> = changes.entered.iter().map(|(stamp, (_, body))| (*stamp, body)).collect();
        entered.sort_unstable_by_key(|(stamp, _)| *stamp);
        for (stamp, body) in &entered {
            if sabotaged(Defect::PreparedNotWritten) {
                break;
            }
            let (key, value) = rows::head_row(*stamp, body);
            memtable.insert(&key, *stamp, Some(&value), || Lsn::ZERO);
        }
        let mut gone = changes.gone.clone();
        gone.sort_unstable();
        for (stamp, decided, parts) in &gone {
            for part in 0..*parts {
                memtable.insert(&rows::part_key(*stamp, part), *decided, None, || Lsn::ZERO);
            }
        }
        let bodies = entered.iter().map(|(stamp, body)| (*stamp, Arc::clone(body)));
        *self.long_bodies.lock() = Arc::new(rows::LongBodies::only_long(bodies));
        let count = |count: usize| u64::try_from(count).expect("a count of things in memory");
        let in_doubt =
            (in_doubt_before + count(changes.entered.len())).checked_sub(count(changes.gone.len()));
        let in_doubt = in_doubt.expect("no more transactions are decided than were prepared");
        self.in_doubt_at_end.store(in_doubt, Ordering::SeqCst);
        in_doubt
    }

    /// Long bodies whose parts are to be merged before the rest, by stamp.
    pub(crate) fn long_bodies(&self) -> Arc<Vec<PreparedBody>> {
        Arc::clone(&self.long_bodies.lock())
    }

    /// Transactions in doubt when it was over.
    pub(crate) fn in_doubt_at_end(&self) -> u64 {
        self.in_doubt_at_end.load(Ordering::SeqCst)
    }

    /// Of a replay: the transaction's body is in the tree, too, once the memtable is merged.
    pub(crate) fn forget_after_merge(&self, prepared: &Arc<PreparedTransaction>) {
        self.changes.lock().replayed.push(Arc::clone(prepared));
    }

    /// The tree holds its rows.
    pub(crate) fn merged(&self) {
        let changes = std::mem::take(&mut *self.changes.lock());
        changes.replayed.iter().for_each(|prepared| prepared.forget_long_body());
        changes.entered.values().for_each(|(prepared, _)| prepared.forget_long_body());
        *self.long_bodies.lock() = Arc::default();
        self.bytes.store(0, Ordering::Relaxed);
    }
}
