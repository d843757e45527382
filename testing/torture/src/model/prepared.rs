//! Prepared transactions as they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use seawall::Lsn;
use seawall::{Database, InDoubtTransaction};

use super::plain::{Model, Object, Outcome, Overlay, Place, PlainTransaction, Read, State, Storage};

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
    wrote_to_own: bool,
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
            wrote_to_own: transaction.wrote_to_own,
        }
    }

    /// What it keeps locked.
    pub(crate) fn places(&self) -> BTreeSet<Place> {
        let rows = self.overlay.rows.keys().map(|(storage, key)| Place::Row(*storage, key.clone()));
        rows.chain(self.overlay.system.iter().cloned()).chain(self.locked.iter().cloned()).collect()
    }

    /// Where it has put tables: nobody else does.
    pub(crate) fn own_storages(&self) -> impl Iterator<Item = Storage> {
        self.overlay.own.iter().copied()
    }

    /// The tables that it leaves where they are in `state`, with another name.
    fn renamed<'a>(&'a self, state: &'a State) -> impl Iterator<Item = u64> + 'a {
        let stays = |(id, own): &(&u64, &Option<Object>)| {
            let before = state.objects.get(id).map(|object| object.storage);
            own.as_ref().is_some_and(|own| before == Some(own.storage))
        };
        self.overlay.objects.iter().filter(stays).map(|(id, _)| *id)
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
        self.overlay.used.iter().map(|used| used.id).chain(self.read_tables.iter().copied())
    }

    /// Whether it has read something that `overlay` changes.
    pub(crate) fn has_read_any(&self, overlay: &Overlay) -> bool {
        let rows = overlay.rows.keys().map(|(storage, key)| Place::Row(*storage, key.clone()));
        let mut written = rows.chain(overlay.system.iter().cloned());
        written.any(|place| self.reads.iter().any(|read| covers(read, &place)))
    }

    fn is(&self, real: &InDoubtTransaction, state: &State) -> bool {
        self.name == real.owner
            && (self.stamp == real.lsn || self.stamp == Lsn::MAX)
            && self.has_written(real)
            && real.tables.iter().eq(self.names(state))
    }

    /// Names of the tables that it uses or defines, as they are in `state`.
    fn names<'a>(&self, state: &'a State) -> BTreeSet<&'a String> {
        let objects = self.objects().chain(self.overlay.objects.keys().copied());
        objects.filter_map(|id| Some(&state.objects.get(&id)?.name)).collect()
    }

    /// Whether its record may have so many rows and bytes.
    fn has_written(&self, real: &InDoubtTransaction) -> bool {
        let bytes = |key: &[u8], value: Option<&[u8]>| 8 + key.len() + value.map_or(0, <[u8]>::len);
        let rows = self.overlay.rows.iter().filter(|((storage, _), _)| !self.overlay.is_own(*storage));
        let bytes_of_rows: usize = rows.clone().map(|((_, key), value)| bytes(key, value.as_deref())).sum();
        let (count, bytes) = (rows.count() as u64, bytes_of_rows as u64);
        if self.overlay.system.is_empty() {
            let says_more = real.rows > count && real.bytes > bytes;
            return (real.rows, real.bytes) == (count, bytes) || (self.wrote_to_own && says_more);
        }
        // Rows of own tables may be in the log already, in parts. What the catalog needs besides names is not modelled.
        let names = self.overlay.system.iter().filter(|place| matches!(place, Place::Name(_)));
        real.rows >= count + names.count() as u64 && real.bytes > bytes
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
    /// Whether a transaction in doubt defines tables.
    pub(crate) fn defines_in_doubt(&self) -> bool {
        self.prepared.values().any(|prepared| !prepared.overlay.system.is_empty())
    }

    /// Whether these, and no others, are in doubt.
    pub(crate) fn has_in_doubt(&self, real: &BTreeMap<String, InDoubtTransaction>) -> bool {
        self.prepared.len() == real.len()
            && self
                .prepared
                .iter()
                .zip(real)
                .all(|((gid, plain), (other, real))| gid == other && plain.is(real, self))
    }

    /// What is in doubt, for a message.
    pub(crate) fn describe_in_doubt(&self) -> String {
        let one = |(gid, prepared): (&String, &Arc<Prepared>)| {
            let Prepared { name, stamp, overlay, .. } = &**prepared;
            let (places, rows) = (&overlay.system, overlay.rows.len());
            let names = prepared.names(self);
            format!("{gid} of {name:?} at {stamp}, uses {names:?}, defines {places:?}, {rows} rows")
        };
        self.prepared.iter().map(one).collect::<Vec<_>>().join("; ")
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
        let renamed: Vec<u64> = prepared.renamed(&state).collect();
        if commits {
            state.apply(&prepared.overlay);
            renamed.into_iter().for_each(|id| self.alter(id, stamp));
        }
        self.push(stamp, state);
        if commits {
            self.touch(stamp, &prepared.overlay);
        }
        self.release(prepared.owner);
    }
}
