//! What the database should say: whole states by stamp, who holds which row, and what an open transaction has done.
//! Plain maps, nothing clever: where this and the engine differ, one of them is wrong.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use seawall::Lsn;
use seawall::{Error, Isolation, TableChange};
use seawall_simulation::SeededRandom;

use super::prepared::Prepared;

pub(crate) type Storage = u64;
pub(crate) type Key = Vec<u8>;
pub(crate) type Value = Arc<[u8]>;
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;
pub(crate) type Bounds = (Bound<Key>, Bound<Key>);

/// A table: its name, and which rows are its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) storage: Storage,
}

/// Everything committed, and prepared, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<u64, Object>,
    rows: BTreeMap<Storage, Arc<BTreeMap<Key, Value>>>,
    /// In doubt, by gid.
    pub(crate) prepared: BTreeMap<String, Arc<Prepared>>,
}

/// A state as a user can read it: the tables by name, each with its id and rows.
pub(crate) type Content = BTreeMap<String, (u64, Rows)>;

impl State {
    pub(crate) fn content(&self) -> Content {
        let rows = |object: &Object| {
            let rows = self.rows.get(&object.storage).into_iter().flat_map(|rows| rows.iter());
            rows.map(|(key, value)| (key.clone(), value.to_vec())).collect()
        };
        self.objects.iter().map(|(&id, object)| (object.name.clone(), (id, rows(object)))).collect()
    }

    fn row(&self, storage: Storage, key: &[u8]) -> Option<&Value> {
        self.rows.get(&storage)?.get(key)
    }

    /// The same tables with the ids that `content` shows.
    pub(crate) fn with_ids(&self, content: &Content) -> State {
        let objects = self.objects.values().map(|object| (content[&object.name].0, object.clone())).collect();
        State { objects, rows: self.rows.clone(), prepared: self.prepared.clone() }
    }

    pub(crate) fn apply(&mut self, overlay: &Overlay) {
        for (&id, object) in &overlay.objects {
            match object {
                Some(object) => self.objects.insert(id, object.clone()),
                None => self.objects.remove(&id),
            };
        }
        for ((storage, key), value) in &overlay.rows {
            let rows = Arc::make_mut(self.rows.entry(*storage).or_default());
            match value {
                Some(value) => rows.insert(key.clone(), Arc::clone(value)),
                None => rows.remove(key),
            };
        }
        let alive: BTreeSet<_> = self.objects.values().map(|object| object.storage).collect();
        self.rows.retain(|storage, _| alive.contains(storage));
    }
}

/// What a lock is about, and what a commit writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Name(String),
    Object(u64),
    Row(Storage, Key),
}

/// What a serializable transaction has read.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    Place(Place),
    Range(Storage, Bounds),
}

/// A table that a transaction has written to, or locked rows of, as it took the table to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) id: u64,
    storage: Storage,
    /// When its handle was opened.
    as_of: Lsn,
}

/// What a transaction has done and not committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    pub(crate) objects: BTreeMap<u64, Option<Object>>,
    pub(crate) rows: BTreeMap<(Storage, Key), Option<Value>>,
    /// Names and objects written.
    pub(crate) system: BTreeSet<Place>,
    /// Where it put tables that it created, truncated or dropped.
    pub(crate) defined: BTreeMap<u64, Option<Storage>>,
    /// Where it has ever put tables.
    pub(crate) own: BTreeSet<Storage>,
    /// Tables it has written to, or locked rows of.
    pub(crate) used: Vec<Used>,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.system.is_empty()
    }

    /// Whether the rows of a table are where this transaction has put them.
    pub(crate) fn is_own(&self, storage: Storage) -> bool {
        self.own.contains(&storage)
    }

    /// The transaction puts a table there; `None`: it drops the table.
    pub(crate) fn define(&mut self, id: u64, storage: Option<Storage>) {
        self.defined.insert(id, storage);
        self.own.extend(storage);
    }

    pub(crate) fn object<'a>(&'a self, state: &'a State, id: u64) -> Option<&'a Object> {
        match self.objects.get(&id) {
            Some(own) => own.as_ref(),
            None => state.objects.get(&id),
        }
    }

    pub(crate) fn id_of(&self, state: &State, name: &str) -> Option<u64> {
        let own = self.objects.iter().find(|(_, object)| object.as_ref().is_some_and(|own| own.name == name));
        if let Some((&id, _)) = own {
            return Some(id);
        }
        let found = state.objects.iter().find(|(_, object)| object.name == name)?;
        (!self.objects.contains_key(found.0)).then_some(*found.0)
    }

    pub(crate) fn row<'a>(&'a self, state: &'a State, storage: Storage, key: &[u8]) -> Option<&'a Value> {
        match self.rows.get(&(storage, key.to_vec())) {
            Some(own) => own.as_ref(),
            None => state.row(storage, key),
        }
    }

    pub(crate) fn range(&self, state: &State, storage: Storage, bounds: &Bounds) -> Rows {
        let mut rows: BTreeMap<&Key, &Value> = BTreeMap::new();
        if let Some(committed) = state.rows.get(&storage) {
            rows.extend(committed.iter());
        }
        for ((_, key), value) in self.rows.iter().filter(|((own, _), _)| *own == storage) {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(key),
            };
        }
        let inside = rows.into_iter().filter(|(key, _)| bounds.contains(*key));
        inside.map(|(key, value)| (key.clone(), value.to_vec())).collect()
    }

    pub(crate) fn use_table(&mut self, id: u64, storage: Storage, as_of: Lsn) {
        // Of handles, the oldest counts.
        let is_known = |used: &Used| used.storage == storage && used.as_of <= as_of;
        if !self.used.iter().rfind(|used| used.id == id).is_some_and(is_known) {
            self.used.push(Used { id, storage, as_of });
        }
    }
}

/// How a call should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    NoSuchTable,
    TableExists,
    TableName,
    KeyTooLarge,
    TransactionFailed,
    NoSuchSavepoint,
    Conflict,
    Locked,
    Changed(TableChange),
    Gid,
    GidInUse,
    NotInDoubt,
    NothingToPrepare,
    TableInDoubt,
}

impl Outcome {
    /// Of a real call; `None` is an error that no call here may end with.
    pub(crate) fn of<T>(result: &Result<T, Error>) -> Option<Outcome> {
        Some(match result {
            Ok(_) => Outcome::Ok,
            Err(Error::NoSuchTable { .. }) => Outcome::NoSuchTable,
            Err(Error::TableExists { .. }) => Outcome::TableExists,
            Err(Error::TableName { .. }) => Outcome::TableName,
            Err(Error::KeyTooLarge { .. }) => Outcome::KeyTooLarge,
            Err(Error::TransactionFailed { .. }) => Outcome::TransactionFailed,
            Err(Error::NoSuchSavepoint) => Outcome::NoSuchSavepoint,
            Err(Error::Conflict { .. }) => Outcome::Conflict,
            Err(Error::Locked { .. }) => Outcome::Locked,
            Err(Error::TableChanged { change, .. }) => Outcome::Changed(*change),
            Err(Error::Gid { .. }) => Outcome::Gid,
            Err(Error::GidInUse { .. }) => Outcome::GidInUse,
            Err(Error::NotInDoubt { .. }) => Outcome::NotInDoubt,
            Err(Error::NothingToPrepare) => Outcome::NothingToPrepare,
            Err(Error::TableInDoubt { .. }) => Outcome::TableInDoubt,
            Err(_) => return None,
        })
    }
}

/// A transaction as it should be.
#[derive(Debug)]
pub(crate) struct PlainTransaction {
    pub(crate) owner: u64,
    pub(crate) isolation: Isolation,
    pub(crate) snapshot: Option<Lsn>,
    pub(crate) overlay: Overlay,
    pub(crate) reads: Vec<Read>,
    /// Tables whose rows it has read under `Serializable`.
    pub(crate) read_tables: BTreeSet<u64>,
    /// What it locked without writing it, by `get_for_update`.
    pub(crate) locked: BTreeSet<Place>,
    /// `None`: given up.
    pub(crate) savepoints: Vec<Option<PlainSavepoint>>,
    pub(crate) failed: bool,
    /// It has written to a table that it had made or truncated itself, though it may have taken that back: its record may speak of rows that
    /// it has logged before, in parts.
    pub(crate) wrote_to_own: bool,
    /// The last savepoint that was there when it failed.
    returned_to: Option<usize>,
}

/// What a transaction was at a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct PlainSavepoint {
    overlay: Overlay,
    locked: BTreeSet<Place>,
    locks: BTreeSet<Place>,
}

impl PlainTransaction {
    pub(crate) fn new(owner: u64, isolation: Isolation) -> PlainTransaction {
        let overlay = Overlay::default();
        PlainTransaction {
            owner,
            isolation,
            snapshot: None,
            overlay,
            reads: Vec::new(),
            read_tables: BTreeSet::new(),
            locked: BTreeSet::new(),
            savepoints: Vec::new(),
            failed: false,
            wrote_to_own: false,
            returned_to: None,
        }
    }

    /// What its next read sees, when `visible` is what is visible now.
    pub(crate) fn statement_lsn(&mut self, visible: Lsn) -> Lsn {
        match self.isolation {
            Isolation::ReadCommitted => visible,
            Isolation::Snapshot | Isolation::Serializable => *self.snapshot.get_or_insert(visible),
        }
    }

    /// Whether it has failed, and has nothing left.
    pub(crate) fn has_given_up(&self) -> bool {
        self.failed && self.returned_to.is_none()
    }

    pub(crate) fn remember(&mut self, read: Read) {
        if self.isolation == Isolation::Serializable {
            self.reads.push(read);
        }
    }
}

/// The whole database as it should be.
#[derive(Debug)]
pub(crate) struct Model {
    /// States by the stamp of the commit that made them, oldest first.
    history: Vec<(Lsn, State)>,
    /// Stamps of the last commits that wrote a place.
    touched: BTreeMap<Place, Lsn>,
    /// Stamps of the last decisions that renamed a table: handles from before are outdated.
    altered: BTreeMap<u64, Lsn>,
    pub(crate) locks: BTreeMap<Place, u64>,
    /// A crash must leave the state with this index, or a later one.
    durable: usize,
    /// A snapshot taken now must see this.
    pub(crate) acknowledged: Lsn,
    next_storage: Storage,
}

impl Model {
    pub(crate) fn new(lsn: Lsn, state: State) -> Model {
        let own = state.prepared.values().flat_map(|prepared| prepared.own_storages());
        let drawn = state.objects.values().map(|object| object.storage).chain(own);
        let next_storage = drawn.max().unwrap_or(0) + 1;
        let held = state
            .prepared
            .values()
            .flat_map(|prepared| prepared.places().into_iter().map(|place| (place, prepared.owner)));
        Model {
            locks: held.collect(),
            history: vec![(lsn, state)],
            touched: BTreeMap::new(),
            altered: BTreeMap::new(),
            durable: 0,
            acknowledged: lsn,
            next_storage,
        }
    }

    pub(crate) fn draw_storage(&mut self) -> Storage {
        self.next_storage += 1;
        self.next_storage
    }

    pub(crate) fn newest(&self) -> &State {
        &self.history.last().expect("a history has a beginning").1
    }

    pub(crate) fn newest_stamp(&self) -> Lsn {
        self.history.last().expect("a history has a beginning").0
    }

    pub(crate) fn at(&self, lsn: Lsn) -> &State {
        let after = self.history.partition_point(|(stamp, _)| *stamp <= lsn);
        &self.history[after.checked_sub(1).expect("a snapshot is not older than the history")].1
    }

    /// States that a crash may leave.
    pub(crate) fn survivors(&self) -> impl Iterator<Item = &State> {
        self.history[self.durable..].iter().map(|(_, state)| state)
    }

    pub(crate) fn commit(&mut self, stamp: Lsn, overlay: &Overlay) {
        assert!(stamp > self.newest_stamp(), "stamp {stamp} after {}", self.newest_stamp());
        let mut state = self.newest().clone();
        state.apply(overlay);
        self.history.push((stamp, state));
        self.touch(stamp, overlay);
    }

    /// Adds a state in which something else than rows has changed.
    pub(crate) fn push(&mut self, stamp: Lsn, state: State) {
        assert!(stamp > self.newest_stamp(), "stamp {stamp} after {}", self.newest_stamp());
        self.history.push((stamp, state));
    }

    pub(crate) fn touch(&mut self, stamp: Lsn, overlay: &Overlay) {
        let rows = overlay.rows.keys().map(|(storage, key)| Place::Row(*storage, key.clone()));
        for place in rows.chain(overlay.system.iter().cloned()) {
            self.touched.insert(place, stamp);
        }
    }

    /// The decision stamped `stamp` has renamed the table: those who have it open do not know what else it did.
    pub(crate) fn alter(&mut self, id: u64, stamp: Lsn) {
        self.altered.insert(id, stamp);
    }

    /// A commit of which it is not known whether it is in the log.
    pub(crate) fn commit_in_doubt(&mut self, overlay: &Overlay) {
        self.commit(Lsn::MAX, overlay);
    }

    /// Everything stamped at most `stamp` is durable.
    pub(crate) fn made_durable(&mut self, stamp: Lsn) {
        let after = self.history.partition_point(|(other, _)| *other <= stamp);
        self.durable = self.durable.max(after.saturating_sub(1));
    }

    pub(crate) fn all_durable(&mut self) {
        self.durable = self.history.len() - 1;
    }

    /// Takes a lock and makes sure that writing the place is allowed; a refusal ends the transaction.
    pub(crate) fn lock(&mut self, transaction: &mut PlainTransaction, place: Place) -> Outcome {
        if self.locks.get(&place).is_some_and(|owner| *owner != transaction.owner) {
            self.fail(transaction);
            return Outcome::Locked;
        }
        self.locks.insert(place.clone(), transaction.owner);
        let touched = self.touched.get(&place).copied();
        if transaction.isolation != Isolation::ReadCommitted
            && transaction.snapshot.is_some_and(|snapshot| touched.is_some_and(|stamp| stamp > snapshot))
        {
            self.fail(transaction);
            return Outcome::Conflict;
        }
        Outcome::Ok
    }

    fn fail(&mut self, transaction: &mut PlainTransaction) {
        transaction.failed = true;
        transaction.returned_to = transaction.savepoints.iter().rposition(Option::is_some);
        match transaction.returned_to {
            Some(index) => self.return_to(transaction, index),
            None => self.release(transaction.owner),
        }
    }

    pub(crate) fn savepoint(&self, transaction: &mut PlainTransaction) {
        let own = self.locks.iter().filter(|(_, owner)| **owner == transaction.owner);
        transaction.savepoints.push(Some(PlainSavepoint {
            overlay: transaction.overlay.clone(),
            locked: transaction.locked.clone(),
            locks: own.map(|(place, _)| place.clone()).collect(),
        }));
    }

    fn return_to(&mut self, transaction: &mut PlainTransaction, index: usize) {
        let to =
            transaction.savepoints[index].clone().expect("only a savepoint that is there is returned to");
        self.locks.retain(|place, owner| *owner != transaction.owner || to.locks.contains(place));
        (transaction.overlay, transaction.locked) = (to.overlay, to.locked);
        transaction.savepoints[index + 1..].fill(None);
    }

    /// How a rollback to the savepoint should end.
    pub(crate) fn rollback_to(&mut self, transaction: &mut PlainTransaction, index: usize) -> Outcome {
        if transaction.failed && transaction.returned_to.is_none_or(|reached| index > reached) {
            return Outcome::TransactionFailed;
        }
        if transaction.savepoints[index].is_none() {
            return Outcome::NoSuchSavepoint;
        }
        self.return_to(transaction, index);
        transaction.failed = false;
        Outcome::Ok
    }

    /// How giving up the savepoint should end.
    pub(crate) fn release_savepoint(&mut self, transaction: &mut PlainTransaction, index: usize) -> Outcome {
        if transaction.failed {
            return Outcome::TransactionFailed;
        }
        if transaction.savepoints[index].is_none() {
            return Outcome::NoSuchSavepoint;
        }
        transaction.savepoints[index..].fill(None);
        Outcome::Ok
    }

    pub(crate) fn release(&mut self, owner: u64) {
        self.locks.retain(|_, other| *other != owner);
    }

    pub(crate) fn storage_for_read(
        &self,
        transaction: &PlainTransaction,
        id: u64,
        lsn: Lsn,
    ) -> Option<Storage> {
        match transaction.overlay.defined.get(&id) {
            Some(own) => *own,
            None => self.at(lsn).objects.get(&id).map(|object| object.storage),
        }
    }

    pub(crate) fn storage_for_write(&self, transaction: &PlainTransaction, id: u64) -> Option<Storage> {
        if let Some(own) = transaction.overlay.defined.get(&id) {
            return *own;
        }
        let state = transaction.snapshot.map_or(self.newest(), |snapshot| self.at(snapshot));
        state.objects.get(&id).map(|object| object.storage)
    }

    /// How the commit should end.
    pub(crate) fn commit_outcome(&self, transaction: &PlainTransaction) -> Outcome {
        if transaction.failed {
            return Outcome::TransactionFailed;
        }
        if transaction.overlay.is_empty() { Outcome::Ok } else { self.admission(transaction) }
    }

    /// Whether what it has done may enter the log now.
    pub(crate) fn admission(&self, transaction: &PlainTransaction) -> Outcome {
        for used in &transaction.overlay.used {
            let newest = self.newest().objects.get(&used.id).map(|object| object.storage);
            let is_own = transaction.overlay.defined.contains_key(&used.id);
            let is_altered = self.altered.get(&used.id).is_some_and(|stamp| *stamp > used.as_of);
            match newest {
                None if !is_own => return Outcome::Changed(TableChange::Dropped),
                _ if is_altered => return Outcome::Changed(TableChange::Altered),
                Some(storage) if !is_own && storage != used.storage => {
                    return Outcome::Changed(TableChange::Truncated);
                }
                _ => {}
            }
        }
        let prepared = &self.newest().prepared;
        if prepared.values().any(|held| transaction.overlay.defined.keys().any(|id| held.uses(*id))) {
            return Outcome::TableInDoubt;
        }
        // What the table is going to be is not known.
        let defines = |held: &Prepared| transaction.overlay.used.iter().any(|used| held.defines(used.id));
        if prepared.values().any(|held| defines(held)) {
            return Outcome::Locked;
        }
        // A conflict first: no decision of others would mend it.
        if self.has_conflict(transaction) {
            return Outcome::Conflict;
        }
        let is_protected = prepared.values().any(|reader| reader.has_read_any(&transaction.overlay));
        if is_protected { Outcome::Locked } else { Outcome::Ok }
    }

    /// Whether something that it has read was changed since.
    fn has_conflict(&self, transaction: &PlainTransaction) -> bool {
        let Some(snapshot) = transaction.snapshot else { return false };
        let changed = |read: &Read| match read {
            Read::Place(place) => self.touched.get(place).is_some_and(|stamp| *stamp > snapshot),
            Read::Range(storage, bounds) => self.touched.iter().any(|(place, stamp)| match place {
                Place::Row(other, key) => other == storage && bounds.contains(key) && *stamp > snapshot,
                Place::Name(_) | Place::Object(_) => false,
            }),
        };
        transaction.reads.iter().any(changed)
    }
}

/// Says where two row lists part, without printing all of them.
pub(crate) fn assert_rows(actual: &Rows, expected: &Rows, what: &dyn Fn() -> String) {
    if actual == expected {
        return;
    }
    let at = actual.iter().zip(expected).take_while(|(left, right)| left == right).count();
    let show = |rows: &Rows| {
        rows.get(at).map(|(key, value)| {
            let start = &key[..key.len().min(24)];
            let value_start = &value[..value.len().min(24)];
            format!(
                "{} ({} bytes) = {} ({} bytes)",
                start.escape_ascii(),
                key.len(),
                value_start.escape_ascii(),
                value.len()
            )
        })
    };
    panic!(
        "{}: {} rows, expected {}; row {at} is {:?}, expected {:?}",
        what(),
        actual.len(),
        expected.len(),
        show(actual),
        show(expected)
    );
}

/// Bounds of all kinds, empty and upside-down ones too.
pub(crate) fn draw_bounds(random: &mut SeededRandom, keys: &[Key]) -> Bounds {
    let mut bound = || match random.below(4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(random.pick(keys).clone()),
        _ => Bound::Included(random.pick(keys).clone()),
    };
    let (one, other) = (bound(), bound());
    let key = |bound: &Bound<Key>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    match (key(&one), key(&other)) {
        (Some(from), Some(to)) if from > to && random.chance(9, 10) => (other, one),
        _ => (one, other),
    }
}
