//! In-doubt transactions during a replay: those that the tree has at the redo point, then what the log says.
//!
//! A prepare whose decision is in the log, too, costs an entry of a hash map, and nothing in the memtable or the tree. At
//! the end of each part of a replay, what is still undecided becomes rows of the system table, like at a freeze.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_tree::{Superblock, Tree};
use seawall_types::Lsn;

use crate::error::Error;
use crate::in_doubt::rows::PreparedBody;
use crate::in_doubt::{BODY_BYTES_KEPT, rows};

/// An in-doubt transaction as a replay knows it.
pub(crate) struct Replayed {
    pub(crate) body_bytes: usize,
    /// `None`: in the tree.
    pub(crate) body: Option<Arc<[u8]>>,
    /// Its rows are in the tree, or in what was replayed.
    has_rows: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct ReplayedTransactions {
    by_stamp: FxHashMap<Lsn, Replayed>,
    /// Bytes of the bodies in memory.
    kept_bytes: u64,
    /// Long bodies that were settled and are to be merged, by stamp.
    long_bodies: Vec<PreparedBody>,
}

impl ReplayedTransactions {
    /// The transactions in doubt at the redo point. Reads pages only if there were any.
    pub(crate) fn at_redo_point(tree: &Tree, superblock: &Superblock) -> Result<ReplayedTransactions, Error> {
        let mut transactions = ReplayedTransactions::default();
        if superblock.in_doubt == 0 {
            return Ok(transactions);
        }
        for stored in rows::read_all(tree)?.prepared {
            let replayed = Replayed { body_bytes: stored.body_bytes, body: stored.body, has_rows: true };
            transactions.enter(stored.stamp, replayed);
        }
        if transactions.count() != superblock.in_doubt {
            return Err(Error::Catalog {
                place: format!("{} rows of prepared transactions", transactions.count()),
                problem: "the superblock says that there are more, or fewer",
            });
        }
        Ok(transactions)
    }

    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.by_stamp.len()).expect("a count of things in memory fits into 64 bits")
    }

    /// Bytes of write sets that are held in memory.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// A prepare was replayed.
    pub(crate) fn prepared(&mut self, stamp: Lsn, body: &[u8]) {
        self.enter(stamp, Replayed { body_bytes: body.len(), body: Some(body.into()), has_rows: false });
    }

    fn enter(&mut self, stamp: Lsn, replayed: Replayed) {
        self.kept_bytes += replayed.kept_bytes();
        self.by_stamp.insert(stamp, replayed);
    }

    /// A decision was replayed: the transaction, which is in doubt no more. `None`: it was not.
    pub(crate) fn decided(&mut self, stamp: Lsn) -> Option<Replayed> {
        let replayed = self.by_stamp.remove(&stamp)?;
        self.kept_bytes -= replayed.kept_bytes();
        Some(replayed)
    }

    /// Gives each head that the system table lacks to `put`, with the stamp of the prepare; parts of long bodies are left to
    /// whoever merges these.
    pub(crate) fn settle(
        &mut self,
        mut put: impl FnMut(&[u8], Lsn, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut bodies = Vec::new();
        for (stamp, replayed) in self.by_stamp.iter_mut().filter(|(_, replayed)| !replayed.has_rows) {
            let body = replayed.body.as_ref().expect("a body is in memory until it has rows");
            let (key, value) = rows::head_row(*stamp, body);
            put(&key, *stamp, &value)?;
            bodies.push((*stamp, Arc::clone(body)));
            replayed.has_rows = true;
        }
        self.long_bodies = rows::LongBodies::only_long(bodies.into_iter());
        Ok(())
    }

    /// Long bodies of those that were settled last.
    pub(crate) fn long_bodies(&self) -> &[PreparedBody] {
        &self.long_bodies
    }

    /// As `long_bodies`, for one who merges them later.
    pub(crate) fn take_long_bodies(&mut self) -> Vec<PreparedBody> {
        std::mem::take(&mut self.long_bodies)
    }

    /// The tree holds all that was settled.
    pub(crate) fn merged(&mut self) {
        self.long_bodies = Vec::new();
        for replayed in self.by_stamp.values_mut().filter(|replayed| replayed.body_bytes > BODY_BYTES_KEPT) {
            self.kept_bytes -= replayed.kept_bytes();
            replayed.body = None;
        }
    }

    /// All of them, in the order of their prepares.
    pub(crate) fn into_ordered(self) -> Vec<(Lsn, Replayed)> {
        let mut all: Vec<_> = self.by_stamp.into_iter().collect();
        all.sort_unstable_by_key(|(stamp, _)| *stamp);
        all
    }
}

impl Replayed {
    fn kept_bytes(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| u64::try_from(body.len()).expect("a record has at most 1 GiB"))
    }

    /// The body, read from the tree if it is not in memory.
    pub(crate) fn read_body(&self, tree: &Tree, stamp: Lsn) -> Result<Arc<[u8]>, Error> {
        match &self.body {
            Some(body) => Ok(Arc::clone(body)),
            None => {
                let read = |key: &[u8]| tree.get(key).map_err(|error| Error::tree(&error));
                Ok(rows::read_body(stamp, read)?.into())
            }
        }
    }

    /// The rows that the system table has of it.
    pub(crate) fn row_keys(&self, stamp: Lsn) -> impl Iterator<Item = Vec<u8>> + use<> {
        let parts = if self.has_rows { rows::part_count(self.body_bytes) } else { 0 };
        (0..parts).map(move |part| rows::part_key(stamp, part))
    }
}
