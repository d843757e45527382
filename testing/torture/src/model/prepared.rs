//! Prepared transactions as they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use seawall::Lsn;
use seawall::{Database, InDoubtTransaction};

use super::plain::{Model, Outcome, Overlay, Place, PlainTransaction, Read, State};

/// One that is in doubt.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Who holds its locks, and did before it was prepared.
    pub(crate) owner: u64,
    name: String,
    /// Of the prepare; `Lsn::MAX` if the power went before it was known.
    stamp: Lsn,
    overlay: Overlay,
    locked: BTreeSet<Place>,
    reads: Vec<Read>,
    read_tables: BTreeSet<u64>,
}

impl Prepared {
    pub(crate) fn new(transaction: &PlainTransaction, name: &str, stamp: Lsn) -> Prepared {
        Prepared {
            owner: transaction.owner,
            name: name.to_owned(),
            stamp,
            overlay: transaction.overlay.clone(),
            locked: transaction.locked.clone(),
            reads: transaction.reads.clone(),
            read_tables: transaction.read_tables.clone(),
        }
    }

    /// What it keeps locked.
    pub(crate) fn places(&self) -> BTreeSet<Place> {
        let rows = self.overlay.rows.keys().map(|(storage, key)| Place::Row(*storage, key.clone()));
        rows.chain(self.overlay.system.iter().cloned()).chain(self.locked.iter().cloned()).collect()
    }

    /// Whether it creates, drops, truncates or renames the table.
    pub(crate) fn defines(&self, id: u64) -> bool {
        self.overlay.objects.contains_key(&id)
    }

    /// Whether it wrote to the table, or has read it and depends on that.
    pub(crate) fn uses(&self, id: u64) -> bool {
        self.objects().any(|used| used == id)
    }

    fn objects(&self) -> impl Iterator<Item = u64> {
        self.overlay.used.iter().map(|(id, _)| *id).chain(self.read_tables.iter().copied())
    }

    /// Whether it has read something that `overlay` changes.
    pub(crate) fn has_read_any(&self, overlay: &Overlay) -> bool {
        let rows = overlay.rows.keys().map(|(storage, key)| Place::Row(*storage, key.clone()));
        let mut written = rows.chain(overlay.system.iter().cloned());
        written.any(|place| self.reads.iter().any(|read| covers(read, &place)))
    }

    fn is(&self, real: &InDoubtTransaction, state: &State) -> bool {
        let bytes = |key: &[u8], value: Option<&[u8]>| 8 + key.len() + value.map_or(0, <[u8]>::len);
        let rows = self.overlay.rows.iter();
        let bytes: usize = rows.map(|((_, key), value)| bytes(key, value.as_deref())).sum();
        let objects = self.objects().chain(self.overlay.objects.keys().copied());
        let names: BTreeSet<&String> = objects.filter_map(|id| Some(&state.objects.get(&id)?.name)).collect();
        // How many rows of the catalog there are is not modelled.
        let is_written = if self.overlay.system.is_empty() {
            real.rows == self.overlay.rows.len() as u64 && real.bytes == bytes as u64
        } else {
            real.rows > self.overlay.rows.len() as u64 && real.bytes > bytes as u64
        };
        self.name == real.owner
            && (self.stamp == real.lsn || self.stamp == Lsn::MAX)
            && is_written
            && real.tables.iter().eq(names)
    }
}

fn covers(read: &Read, place: &Place) -> bool {
    match (read, place) {
        (Read::Place(read), _) => read == place,
        (Read::Range(storage, bounds), Place::Row(other, key)) => storage == other && bounds.contains(key),
        (Read::Range(..), Place::Name(_) | Place::Object(_)) => false,
    }
}

/// What the database says is in doubt, by gid.
pub(crate) fn in_doubt(database: &Database) -> BTreeMap<String, InDoubtTransaction> {
    let all =
        database.two_phase().in_doubt().unwrap_or_else(|error| panic!("listing what is in doubt: {error}"));
    all.into_iter().map(|transaction| (transaction.gid.clone(), transaction)).collect()
}

impl State {
    /// Whether these, and no others, are in doubt.
    pub(crate) fn has_in_doubt(&self, real: &BTreeMap<String, InDoubtTransaction>) -> bool {
        self.prepared.len() == real.len()
            && self
                .prepared
                .iter()
                .zip(real)
                .all(|((gid, plain), (other, real))| gid == other && plain.is(real, self))
    }

    /// The same, with the stamps that the database shows.
    pub(crate) fn with_stamps(mut self, real: &BTreeMap<String, InDoubtTransaction>) -> State {
        for (gid, prepared) in &mut self.prepared {
            Arc::make_mut(prepared).stamp = real[gid].lsn;
        }
        self
    }
}

impl Model {
    /// How a prepare should end.
    pub(crate) fn prepare_outcome(&self, transaction: &PlainTransaction, gid: &str) -> Outcome {
        if transaction.failed {
            return Outcome::TransactionFailed;
        }
        if gid.is_empty() || gid.len() > 200 {
            return Outcome::Gid;
        }
        let overlay = &transaction.overlay;
        // One that has only read protects that, under `Serializable`.
        if overlay.is_empty() && transaction.reads.is_empty() {
            return Outcome::NothingToPrepare;
        }
        if self.newest().prepared.contains_key(gid) {
            return Outcome::GidInUse;
        }
        let admitted = self.admission(transaction);
        let own = Prepared::new(transaction, "", Lsn::MAX);
        let is_undecided = self.newest().prepared.values().any(|other| own.has_read_any(&other.overlay));
        if admitted == Outcome::Ok && is_undecided { Outcome::Locked } else { admitted }
    }

    /// The transaction is in doubt from now on: of its locks, those of its rows stay.
    pub(crate) fn prepare(&mut self, stamp: Lsn, gid: &str, name: &str, transaction: &PlainTransaction) {
        let prepared = Prepared::new(transaction, name, stamp);
        self.release(transaction.owner);
        self.locks.extend(prepared.places().into_iter().map(|place| (place, transaction.owner)));
        let mut state = self.newest().clone();
        state.prepared.insert(gid.to_owned(), Arc::new(prepared));
        self.push(stamp, state);
    }

    pub(crate) fn decide(&mut self, stamp: Lsn, gid: &str, commits: bool) {
        let mut state = self.newest().clone();
        let prepared = state.prepared.remove(gid).expect("only what is in doubt is decided");
        if commits {
            state.apply(&prepared.overlay);
        }
        self.push(stamp, state);
        if commits {
            self.touch(stamp, &prepared.overlay);
        }
        self.release(prepared.owner);
    }
}
