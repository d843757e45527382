//! Typed tables: keys and values are encoded and decoded here, and encoded keys sort as the keys do.
//!
//! ```
//! use seawall::{Database, Options, TypedTable};
//!
//! # fn main() -> Result<(), seawall::Error> {
//! # let scratch = tempfile::tempdir().expect("a scratch directory");
//! # let directory = scratch.path().join("shop");
//! let database = Database::open(directory, Options::default())?;
//! // Orders by customer and day: a tuple sorts by its first part, then by its second.
//! let orders: TypedTable<(u64, String), i64> = TypedTable::create(&database, "orders")?;
//!
//! database.transact(|transaction| {
//!     orders.put(transaction, (7, "2025-02-01".to_owned()), 1250)?;
//!     orders.put(transaction, (7, "2025-03-15".to_owned()), 300)?;
//!     orders.put(transaction, (8, "2025-01-20".to_owned()), 999)
//! })?;
//!
//! let snapshot = database.snapshot();
//! let mut total = 0;
//! for row in orders.prefix_at(&snapshot, (7,)) {
//!     let (_key, cents) = row?;
//!     total += cents;
//! }
//! assert_eq!(total, 1550);
//! # Ok(())
//! # }
//! ```
//!
//! Names: `get` works inside a transaction, `get_at` on a snapshot, `get_now` on the database (a transaction of its
//! own); so do the others. Encodings are in [`crate::key`] and [`crate::value`].

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use seawall_codec::hexadecimal::to_hexadecimal;
use seawall_codec::key::{self, AsKey, Key, KeyPrefix};
use seawall_codec::value::{AsValue, Value};
use seawall_engine::{Database, Error, Snapshot, Table, Transaction};
use seawall_types::Lsn;

/// A table read and written as rows of `K` and `V`. Cheap to clone; the rows are in the table, not in here.
pub struct TypedTable<K, V> {
    table: Table,
    /// Neither owned nor borrowed: rows of any types may be sent between threads.
    types: PhantomData<fn() -> Types<K, V>>,
}

impl<K, V> Clone for TypedTable<K, V> {
    fn clone(&self) -> TypedTable<K, V> {
        TypedTable { table: self.table.clone(), types: PhantomData }
    }
}

impl<K, V> std::fmt::Debug for TypedTable<K, V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TypedTable").field("table", &self.table.name()).finish()
    }
}

type Types<K, V> = (K, V);
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
type Row = (Vec<u8>, Vec<u8>);

impl<K: Key, V: Value> TypedTable<K, V> {
    /// Reads and writes `table` as rows of `K` and `V`. Rows that it holds already are checked when they are read.
    pub fn new(table: Table) -> TypedTable<K, V> {
        TypedTable { table, types: PhantomData }
    }

    /// The table `name`, which exists.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] if it does not.
    pub fn open(database: &Database, name: &str) -> Result<TypedTable<K, V>, Error> {
        database.table(name).map(TypedTable::new)
    }

    /// The table `name`, made now.
    ///
    /// # Errors
    /// [`Error::TableExists`] if it exists.
    pub fn create(database: &Database, name: &str) -> Result<TypedTable<K, V>, Error> {
        database.create_table(name).map(TypedTable::new)
    }

    /// The table `name`, made if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Database::open_or_create_table`].
    pub fn open_or_create(database: &Database, name: &str) -> Result<TypedTable<K, V>, Error> {
        database.open_or_create_table(name).map(TypedTable::new)
    }

    /// The table of byte strings underneath.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::RowType`] if the row does not hold a `V`; otherwise those of [`Transaction::get`].
    pub fn get(&self, transaction: &mut Transaction, key: impl AsKey<K>) -> Result<Option<V>, Error> {
        let bytes = transaction.get(&self.table, encoded(&key))?;
        bytes.map(|bytes| self.value(&bytes)).transpose()
    }

    /// The value of `key`, whose row is locked until the transaction ends.
    ///
    /// # Errors
    /// [`Error::RowType`] if the row does not hold a `V`; otherwise those of [`Transaction::get_for_update`].
    pub fn get_for_update(
        &self,
        transaction: &mut Transaction,
        key: impl AsKey<K>,
    ) -> Result<Option<V>, Error> {
        let bytes = transaction.get_for_update(&self.table, encoded(&key))?;
        bytes.map(|bytes| self.value(&bytes)).transpose()
    }

    /// The value of `key` as the snapshot sees it.
    ///
    /// # Errors
    /// [`Error::RowType`] if the row does not hold a `V`; otherwise those of [`Snapshot::get`].
    pub fn get_at(&self, snapshot: &Snapshot, key: impl AsKey<K>) -> Result<Option<V>, Error> {
        let bytes = snapshot.get(&self.table, encoded(&key))?;
        bytes.map(|bytes| self.value(&bytes)).transpose()
    }

    /// The value of `key` now.
    ///
    /// # Errors
    /// [`Error::RowType`] if the row does not hold a `V`; otherwise those of [`Database::get`].
    pub fn get_now(&self, database: &Database, key: impl AsKey<K>) -> Result<Option<V>, Error> {
        database
            .get_with(&self.table, encoded(&key), |bytes| bytes.map(|bytes| self.value(bytes)).transpose())?
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// The errors of [`Transaction::put`].
    pub fn put(
        &self,
        transaction: &mut Transaction,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<(), Error> {
        transaction.put(&self.table, encoded(&key), encoded_value(&value))
    }

    /// Sets the value of `key` to what `change` makes of its newest committed one: see [`Transaction::update`], also
    /// for what must not be shown before the transaction has ended.
    ///
    /// # Errors
    /// The errors of [`Transaction::update`], and `RowType` if the row is of another type.
    pub fn update(
        &self,
        transaction: &mut Transaction,
        key: impl AsKey<K>,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<(), Error> {
        transaction.try_update(&self.table, encoded(&key), |current| {
            let current = current.map(|bytes| self.value(bytes)).transpose()?;
            Ok(change(current).map(|value| encoded_value(&value)))
        })
    }

    /// Sets the value of `key` in a transaction of its own; returns its LSN.
    ///
    /// # Errors
    /// The errors of [`Database::put`].
    pub fn put_now(
        &self,
        database: &Database,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<Lsn, Error> {
        database.put(&self.table, encoded(&key), encoded_value(&value))
    }

    /// Removes the row of `key`, if there is one.
    ///
    /// # Errors
    /// The errors of [`Transaction::delete`].
    pub fn delete(&self, transaction: &mut Transaction, key: impl AsKey<K>) -> Result<(), Error> {
        transaction.delete(&self.table, encoded(&key))
    }

    /// Removes the row of `key`, if there is one, in a transaction of its own; returns its LSN.
    ///
    /// # Errors
    /// The errors of [`Database::delete`].
    pub fn delete_now(&self, database: &Database, key: impl AsKey<K>) -> Result<Lsn, Error> {
        database.delete(&self.table, encoded(&key))
    }

    /// The rows between `bounds`, in the order of their keys: `(7, 0)..(8, 0)` or `"a".."b"`, owned keys or text. See
    /// [`TypedTable::rows`] for all of them.
    pub fn range<Q: AsKey<K>>(
        &self,
        transaction: &mut Transaction,
        bounds: impl RangeBounds<Q>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        transaction.range(&self.table, encoded_bounds(&bounds)).map(|row| self.row(row))
    }

    /// The rows between `bounds`, the last one first.
    pub fn range_reverse<Q: AsKey<K>>(
        &self,
        transaction: &mut Transaction,
        bounds: impl RangeBounds<Q>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        transaction.range_reverse(&self.table, encoded_bounds(&bounds)).map(|row| self.row(row))
    }

    /// All rows, in the order of their keys.
    pub fn rows(&self, transaction: &mut Transaction) -> impl Iterator<Item = Result<(K, V), Error>> {
        transaction.range(&self.table, everything()).map(|row| self.row(row))
    }

    /// The rows whose key, a tuple, starts with the parts of `prefix`: `(7,)` or `(7, "a".to_owned())`.
    pub fn prefix(
        &self,
        transaction: &mut Transaction,
        prefix: impl KeyPrefix<K>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        transaction.range(&self.table, prefix_bounds(&prefix)).map(|row| self.row(row))
    }

    /// The rows between `bounds` as the snapshot sees them, in the order of their keys.
    pub fn range_at<Q: AsKey<K>>(
        &self,
        snapshot: &Snapshot,
        bounds: impl RangeBounds<Q>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        snapshot.range(&self.table, encoded_bounds(&bounds)).map(|row| self.row(row))
    }

    /// The rows between `bounds` as the snapshot sees them, the last one first.
    pub fn range_reverse_at<Q: AsKey<K>>(
        &self,
        snapshot: &Snapshot,
        bounds: impl RangeBounds<Q>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        snapshot.range_reverse(&self.table, encoded_bounds(&bounds)).map(|row| self.row(row))
    }

    /// All rows as the snapshot sees them, in the order of their keys.
    pub fn rows_at(&self, snapshot: &Snapshot) -> impl Iterator<Item = Result<(K, V), Error>> {
        snapshot.range(&self.table, everything()).map(|row| self.row(row))
    }

    /// The rows, as the snapshot sees them, whose key starts with the parts of `prefix`.
    pub fn prefix_at(
        &self,
        snapshot: &Snapshot,
        prefix: impl KeyPrefix<K>,
    ) -> impl Iterator<Item = Result<(K, V), Error>> {
        snapshot.range(&self.table, prefix_bounds(&prefix)).map(|row| self.row(row))
    }

    fn row(&self, row: Result<Row, Error>) -> Result<(K, V), Error> {
        let (key, value) = row?;
        let key = key::decode(&key).map_err(|error| self.mismatch(format!("key {}: {error}", hex(&key))))?;
        Ok((key, self.value(&value)?))
    }

    fn value(&self, bytes: &[u8]) -> Result<V, Error> {
        V::decode(bytes).map_err(|error| self.mismatch(format!("value of {} bytes: {error}", bytes.len())))
    }

    fn mismatch(&self, problem: String) -> Error {
        Error::RowType { table: self.table.name().to_owned(), problem }
    }
}

fn encoded<K: Key>(key: &impl AsKey<K>) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

fn encoded_value<V: Value>(value: &impl AsValue<V>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode_value(&mut bytes);
    bytes
}

fn encoded_bounds<K: Key, Q: AsKey<K>>(bounds: &impl RangeBounds<Q>) -> Bounds {
    (bounds.start_bound().map(encoded), bounds.end_bound().map(encoded))
}

fn everything() -> Bounds {
    (Bound::Unbounded, Bound::Unbounded)
}

/// From the prefix itself up to the first byte string that is after everything with this prefix.
fn prefix_bounds<K: Key>(prefix: &impl KeyPrefix<K>) -> Bounds {
    let mut start = Vec::new();
    prefix.encode_prefix(&mut start);
    let mut end = start.clone();
    while end.last() == Some(&0xFF) {
        end.pop();
    }
    match end.last_mut() {
        Some(last) => {
            *last += 1;
            (Bound::Included(start), Bound::Excluded(end))
        }
        None => (Bound::Included(start), Bound::Unbounded),
    }
}

/// The first bytes of a key, for a message.
fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    match bytes.split_at_checked(SHOWN) {
        Some((shown, [_, ..])) => to_hexadecimal(shown) + "...",
        _ => to_hexadecimal(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use seawall_engine::Options;

    type Id = (u16, String, i8);
    type Content = (String, Option<u32>);

    fn database(scratch: &tempfile::TempDir) -> Database {
        Database::open(scratch.path().join("database"), Options::default()).unwrap()
    }

    /// Few different keys, with prefixes of each other and bytes that are escaped.
    fn id(number: u64) -> Id {
        const TEXTS: [&str; 6] = ["", "a", "a\0", "a\0b", "ab", "\u{ff}"];
        let small = |divisor: u64, count: u64| usize::try_from(number / divisor % count).unwrap();
        let part = u16::try_from(small(1, 3)).unwrap();
        (part, TEXTS[small(3, 6)].to_owned(), i8::try_from(small(18, 5)).unwrap() - 2)
    }

    #[test]
    fn a_typed_table_is_an_ordered_map() {
        let scratch = tempfile::tempdir().unwrap();
        let database = database(&scratch);
        let table: TypedTable<Id, Content> = TypedTable::create(&database, "t").unwrap();
        let mut model: BTreeMap<Id, Content> = BTreeMap::new();
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..40 {
            let mut transaction = database.begin();
            for _ in 0..10 {
                let key = id(next());
                if next() % 3 == 0 {
                    table.delete(&mut transaction, &key).unwrap();
                    model.remove(&key);
                } else {
                    let value = (next().to_string(), u32::try_from(next() % 9).ok());
                    table.put(&mut transaction, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let rows = |rows: &mut dyn Iterator<Item = Result<(Id, Content), Error>>| {
                rows.collect::<Result<Vec<_>, _>>().unwrap()
            };
            assert!(rows(&mut table.rows(&mut transaction)).into_iter().eq(model.clone()));
            transaction.commit().unwrap();

            let snapshot = database.snapshot();
            let (mut from, mut to) = (id(next()), id(next()));
            if from > to {
                std::mem::swap(&mut from, &mut to);
            }
            let expected: Vec<_> =
                model.range(&from..&to).map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(rows(&mut table.range_at(&snapshot, from.clone()..to.clone())), expected);
            let mut reversed = rows(&mut table.range_reverse_at(&snapshot, from.clone()..to));
            reversed.reverse();
            assert_eq!(reversed, expected);
            let expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| (key.0, &key.1) == (from.0, &from.1))
                .map(|(key, _)| key.clone())
                .collect();
            let found = rows(&mut table.prefix_at(&snapshot, (from.0, from.1.clone())));
            assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
            assert_eq!(table.get_at(&snapshot, &from).unwrap(), model.get(&from).cloned());
            assert_eq!(table.get_now(&database, &from).unwrap(), model.get(&from).cloned());
        }
    }

    #[test]
    fn borrowed_keys_and_values_stand_for_owned_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let database = database(&scratch);
        let table: TypedTable<String, Vec<u8>> = TypedTable::open_or_create(&database, "t").unwrap();
        table.put_now(&database, "a", b"1").unwrap();
        table.put_now(&database, "b".to_owned(), vec![b'2']).unwrap();
        assert_eq!(table.get_now(&database, "b").unwrap(), Some(b"2".to_vec()));
        assert_eq!(database.get(table.table(), "a").unwrap(), Some(b"1".to_vec()));
        let found: Vec<_> =
            table.range_at(&database.snapshot(), "a".."b").map(|row| row.unwrap().0).collect();
        assert_eq!(found, ["a"]);
        table.delete_now(&database, "a").unwrap();
        assert_eq!(table.rows(&mut database.begin()).count(), 1);
    }

    #[test]
    fn a_row_of_other_types_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let database = database(&scratch);
        let plain = database.create_table("t").unwrap();
        database.put(&plain, "abc", "not eight bytes").unwrap();
        let typed: TypedTable<u64, u64> = TypedTable::open(&database, "t").unwrap();
        let refused = typed.rows_at(&database.snapshot()).next().unwrap().unwrap_err();
        assert!(matches!(&refused, Error::RowType { table, .. } if table == "t"), "{refused}");
        let texts: TypedTable<String, u64> = TypedTable::new(plain);
        let refused = texts.get_now(&database, "abc").unwrap_err();
        assert!(refused.to_string().contains("15 bytes"), "{refused}");
    }

    #[test]
    fn a_prefix_of_all_ones_is_open_at_the_end() {
        let (start, end) = prefix_bounds::<(u8, u8)>(&(0xFFu8,));
        assert_eq!((start, end), (Bound::Included(vec![0xFF]), Bound::Unbounded));
        let (_, end) = prefix_bounds::<(u8, u8, u8)>(&(1u8, 0xFFu8));
        assert_eq!(end, Bound::Excluded(vec![2]));
    }
}
