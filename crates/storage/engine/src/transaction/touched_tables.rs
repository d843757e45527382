//! Which tables a transaction has defined anew, and which it has written to: in the order in which it did, as savepoints
//! return to a moment, and by number, as a transaction may touch a hundred thousand of them.
//!
//! ```text
//!   definitions   0: created 70    1: truncated 71    2: dropped 70
//!                       ^--------------- before --------------|       by object: 70 -> 2, 71 -> 1
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_types::TableId;

use crate::catalog::{OpenObject, Table};
use crate::error::{Error, TableChange};
use crate::transaction::memory::bytes;

/// A table that a transaction writes to, as it took the table to be.
#[derive(Clone, Debug)]
pub(crate) struct TableUse {
    pub(crate) table: Table,
    /// Where its rows were; `None`: the transaction has itself put them elsewhere, or dropped the table.
    pub(crate) storage: Option<TableId>,
}

impl TableUse {
    /// Whether another transaction has dropped, truncated or altered the table.
    pub(crate) fn is_outdated(&self) -> bool {
        let object = &self.table.object;
        object.altered_at() > self.table.as_of
            || self.storage.is_some_and(|storage| object.newest_storage() != Some(storage))
    }
}

/// An entry of a list that doubles as it grows, the index of the one before, and its place in the map.
const TOUCHED_BYTES: u64 = 176;

/// What a transaction did to a table.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) object: Arc<OpenObject>,
    /// Where the table's rows lie when this transaction has committed; `None` if it dropped the table.
    pub(crate) storage: Option<TableId>,
    /// How many storages it enters into `reclaim`.
    pub(crate) given_up: u64,
}

/// A list whose entries belong to objects: each knows the entry of the same object before it.
#[derive(Debug)]
struct ByObject<T> {
    entries: Vec<T>,
    /// Index of the entry before of the same object, for each entry.
    before: Vec<Option<usize>>,
    /// Index of the last entry of each object.
    last: FxHashMap<u64, usize>,
}

impl<T> Default for ByObject<T> {
    fn default() -> ByObject<T> {
        ByObject { entries: Vec::new(), before: Vec::new(), last: FxHashMap::default() }
    }
}

impl<T> ByObject<T> {
    fn push(&mut self, object: u64, entry: T) {
        self.before.push(self.last.insert(object, self.entries.len()));
        self.entries.push(entry);
    }

    fn last_of(&self, object: u64) -> Option<&T> {
        self.last.get(&object).map(|index| &self.entries[*index])
    }

    /// The entries of an object, the last one first.
    fn of(&self, object: u64) -> impl Iterator<Item = &T> {
        let last = self.last.get(&object).copied();
        std::iter::successors(last, |index| self.before[*index]).map(|index| &self.entries[index])
    }

    fn truncate(&mut self, length: usize, object_of: impl Fn(&T) -> u64) {
        while self.entries.len() > length {
            let (entry, before) = (self.entries.pop(), self.before.pop());
            let object = object_of(&entry.expect("it is longer than that"));
            match before.flatten() {
                Some(index) => self.last.insert(object, index),
                None => self.last.remove(&object),
            };
        }
    }
}

impl ByObject<TableUse> {
    /// Storages are never used again, so one that was left is not come back to. Of handles, the oldest counts.
    fn push_new(&mut self, table: &Table, storage: TableId) {
        let is_known = |used: &TableUse| used.storage == Some(storage) && used.table.as_of <= table.as_of;
        if !self.last_of(table.object.id).is_some_and(is_known) {
            self.push(table.object.id, TableUse { table: table.clone(), storage: Some(storage) });
        }
    }
}

/// Lengths of the lists at a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TouchedCounts {
    definitions: usize,
    altered: usize,
    uses: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TouchedTables {
    definitions: ByObject<Definition>,
    altered: ByObject<Arc<OpenObject>>,
    uses: ByObject<TableUse>,
    /// Where `update` has read rows. A read cannot be undone.
    read: ByObject<TableUse>,
}

impl TouchedTables {
    pub(crate) fn define(&mut self, object: Arc<OpenObject>, storage: Option<TableId>, given_up: u64) {
        self.definitions.push(object.id, Definition { object, storage, given_up });
    }

    /// What the transaction did last to the object.
    pub(crate) fn definition_of(&self, object: u64) -> Option<&Definition> {
        self.definitions.last_of(object)
    }

    /// In the order in which they were made.
    pub(crate) fn definitions(&self) -> &[Definition] {
        &self.definitions.entries
    }

    /// Whether the transaction has put the object where it is after it had touched so much.
    pub(crate) fn is_defined_since(&self, object: u64, since: TouchedCounts) -> bool {
        self.definitions.last.get(&object).is_some_and(|index| *index >= since.definitions)
    }

    /// The storages of own tables that were made after so much was touched.
    pub(crate) fn own_storages_since(&self, since: TouchedCounts) -> Vec<TableId> {
        let defined = self.definitions.entries.iter().enumerate().skip(since.definitions);
        let current = defined.filter(|(index, own)| self.definitions.last.get(&own.object.id) == Some(index));
        current.filter_map(|(_, own)| own.storage).collect()
    }

    /// All storages that were made after so much was touched.
    pub(crate) fn storages_defined_since(&self, since: TouchedCounts) -> Vec<TableId> {
        self.definitions.entries[since.definitions..].iter().filter_map(|own| own.storage).collect()
    }

    /// Whether the rows of an own table are there.
    pub(crate) fn is_own_storage(&self, storage: TableId) -> bool {
        let own = self.definitions.entries.iter().rev().find(|own| own.storage == Some(storage));
        own.and_then(|own| self.definition_of(own.object.id))
            .is_some_and(|last| last.storage == Some(storage))
    }

    /// The transaction writes to `table`, whose rows it takes to be at `storage`.
    pub(crate) fn use_table(&mut self, table: &Table, storage: TableId) {
        self.uses.push_new(table, storage);
    }

    /// The commit of the transaction alters the object.
    pub(crate) fn alter(&mut self, object: &Arc<OpenObject>) {
        if self.altered.last_of(object.id).is_none() {
            self.altered.push(object.id, Arc::clone(object));
        }
    }

    /// The tables that the commit alters, each once.
    pub(crate) fn altered(&self) -> &[Arc<OpenObject>] {
        &self.altered.entries
    }

    /// The commit of the transaction goes by a row of `table`, whose rows it takes to be at `storage`.
    pub(crate) fn read_table(&mut self, table: &Table, storage: TableId) {
        let is_own = self.definition_of(table.object.id).is_some();
        if !is_own {
            self.read.push_new(table, storage);
        }
    }

    /// Where the transaction wrote rows of the object, the last place first.
    pub(crate) fn storages_of(&self, object: u64) -> impl Iterator<Item = TableId> {
        self.uses.of(object).filter_map(|used| used.storage)
    }

    /// The tables that others must not have changed when this transaction commits: those it wrote to, or read in `update`.
    /// Where those are that it has itself defined, nobody else says.
    pub(crate) fn depended_on(&self) -> Cow<'_, [TableUse]> {
        if self.definitions.entries.is_empty() && self.read.entries.is_empty() {
            return Cow::Borrowed(&self.uses.entries);
        }
        let depended_on = |used: &TableUse| {
            let is_own = self.definition_of(used.table.object.id).is_some();
            TableUse { table: used.table.clone(), storage: used.storage.filter(|_| !is_own) }
        };
        Cow::Owned(self.uses.entries.iter().chain(&self.read.entries).map(depended_on).collect())
    }

    /// Memory of all lists.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let defined = self.definitions.entries.len() + self.altered.entries.len();
        bytes(defined + self.uses.entries.len() + self.read.entries.len()) * TOUCHED_BYTES
    }

    pub(crate) fn counts(&self) -> TouchedCounts {
        TouchedCounts {
            definitions: self.definitions.entries.len(),
            altered: self.altered.entries.len(),
            uses: self.uses.entries.len(),
        }
    }

    /// Forgets what came after `counts`.
    pub(crate) fn return_to(&mut self, counts: TouchedCounts) {
        self.definitions.truncate(counts.definitions, |definition| definition.object.id);
        self.altered.truncate(counts.altered, |object| object.id);
        self.uses.truncate(counts.uses, |used| used.table.object.id);
    }
}

/// The error of a transaction that has used a table as it is no longer.
pub(crate) fn table_changed(used: &TableUse) -> Error {
    let object = &used.table.object;
    let change = match object.newest_storage() {
        None if used.storage.is_some() => TableChange::Dropped,
        _ if object.altered_at() > used.table.as_of => TableChange::Altered,
        _ => TableChange::Truncated,
    };
    Error::TableChanged { name: used.table.name().to_owned(), change }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::OpenObjects;
    use seawall_types::Lsn;

    fn storage(number: u64) -> Option<TableId> {
        Some(TableId::new(number))
    }

    #[test]
    fn a_savepoint_brings_back_what_was_known_of_each_table() {
        let objects = OpenObjects::new(0);
        let (one, two) = (objects.open_uncommitted(70), objects.open_uncommitted(71));
        let table = |object: &Arc<OpenObject>| Table {
            name: Arc::from("t"),
            object: Arc::clone(object),
            as_of: Lsn::new(10),
        };
        let mut touched = TouchedTables::default();
        touched.define(Arc::clone(&one), storage(80), 0);
        touched.use_table(&table(&one), TableId::new(80));
        touched.use_table(&table(&two), TableId::new(90));
        let counts = touched.counts();
        touched.define(Arc::clone(&two), storage(91), 1);
        touched.use_table(&table(&two), TableId::new(91));
        touched.use_table(&table(&two), TableId::new(91));
        touched.define(Arc::clone(&one), None, 1);
        assert_eq!(touched.definition_of(70).unwrap().storage, None);
        assert_eq!(touched.storages_of(71).collect::<Vec<_>>(), [TableId::new(91), TableId::new(90)]);
        assert!(touched.depended_on().iter().all(|used| used.storage.is_none()));
        touched.alter(&two);
        touched.alter(&two);
        assert_eq!(touched.altered().len(), 1);
        touched.return_to(counts);
        assert!(touched.altered().is_empty());
        assert_eq!(touched.definition_of(70).unwrap().storage, storage(80));
        assert!(touched.definition_of(71).is_none());
        assert_eq!(touched.storages_of(71).collect::<Vec<_>>(), [TableId::new(90)]);
        let depended: Vec<_> = touched.depended_on().iter().map(|used| used.storage).collect();
        assert_eq!(depended, [None, storage(90)]);
        assert_eq!(touched.definitions().len(), 1);
        let older = table(&two).as_of(Lsn::new(9));
        touched.use_table(&older, TableId::new(90));
        touched.use_table(&table(&two), TableId::new(90));
        two.change(storage(90), Lsn::new(5));
        two.alter(Lsn::new(10));
        let outdated: Vec<_> = touched.depended_on().iter().map(TableUse::is_outdated).collect();
        assert_eq!(outdated, [false, false, true], "one that was planned before");
    }
}
