//! The uncommitted writes of a transaction: private, in key order, with savepoints.

mod ordered_rows;

use std::ops::Bound;
use std::sync::Arc;

use crate::snapshots::scan::bounds::is_empty_range;
use crate::transaction::memory::bytes;
use crate::transaction::write_set::ordered_rows::{OrderedRows, Row};

/// A row besides its key and value: its slot in a set whose nodes are half full or in a list that doubles as it grows, an
/// allocation, and what the record has between keys and values.
const ROW_BYTES: u64 = 112;
/// What a savepoint keeps of a row besides key and value: its entry in a list that doubles as it grows, and an allocation.
const UNDO_BYTES: u64 = 74;

/// Memory of a written row: in the set, and in the record of the commit.
pub(crate) fn row_bytes(key: usize, value: usize) -> u64 {
    ROW_BYTES + 2 * bytes(key + value)
}

/// As `row_bytes`, of a row key and a value.
pub(crate) fn row_bytes_of(row_key: &[u8], value: Option<&[u8]>) -> u64 {
    row_bytes(row_key.len(), value.map_or(0, <[u8]>::len))
}

/// What takes a write back.
#[derive(Debug)]
enum Undo {
    /// The row as it was: its content.
    Restore(Box<[u8]>),
    /// The row with this key was not in the set.
    Remove(Box<[u8]>),
}

impl Undo {
    /// Bytes of key and value.
    fn bytes(&self) -> u64 {
        match self {
            Undo::Restore(content) => Row::bytes_of(content),
            Undo::Remove(key) => bytes(key.len()),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// Shared with those who read it as it was: the first write after that makes a copy.
    rows: Arc<OrderedRows>,
    /// Keys and values in `rows`, in bytes.
    bytes: u64,
    /// For each write since the first savepoint; `None` without a savepoint.
    undo: Option<Vec<Undo>>,
    /// Keys and values in `undo`, in bytes.
    undo_bytes: u64,
}

impl WriteSet {
    /// Records a write of the row `key`.
    pub(crate) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let replaced = self.replace(key, value);
        if let Some(all) = &mut self.undo {
            let undo = replaced
                .map_or_else(|| Undo::Remove(Box::from(key)), |row| Undo::Restore(row.into_content()));
            self.undo_bytes += undo.bytes();
            all.push(undo);
        }
    }

    /// As `write`, of a row that is forgotten as a whole when a savepoint is returned to.
    pub(crate) fn write_for_good(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.replace(key, value);
    }

    fn replace(&mut self, key: &[u8], value: Option<&[u8]>) -> Option<Row> {
        let row = Row::new(key, value);
        self.bytes += row.bytes();
        let replaced = self.rows_mut().replace(row);
        self.bytes -= replaced.as_ref().map_or(0, Row::bytes);
        replaced
    }

    /// Takes the rows in `from..to` out, for good: no savepoint brings them back.
    pub(crate) fn take(&mut self, from: &[u8], to: &[u8]) -> WriteSet {
        let rows = self.rows_mut().take_range(from, to);
        let bytes = rows.iter().map(Row::bytes).sum();
        self.bytes -= bytes;
        WriteSet { rows: Arc::new(rows), bytes, ..WriteSet::default() }
    }

    /// As `take`, of few rows.
    pub(crate) fn forget(&mut self, from: &[u8], to: &[u8]) {
        while let Some((key, _)) = self.first_in(Bound::Included(from), Bound::Excluded(to)) {
            let key = key.to_vec();
            self.bytes -= self.rows_mut().take(&key).map_or(0, |row| row.bytes());
        }
    }

    /// What the transaction wrote to the row, if it did.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(key).map(Row::value)
    }

    /// Memory of a copy of the rows in a range that is not empty.
    pub(crate) fn copy_bytes(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> u64 {
        self.rows_in(from, to).map(|row| ROW_BYTES + row.bytes()).sum()
    }

    /// A copy of the rows in a range that is not empty.
    pub(crate) fn copy_of(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> WriteSet {
        let rows: OrderedRows = self.rows_in(from, to).cloned().collect();
        WriteSet { bytes: rows.iter().map(Row::bytes).sum(), rows: Arc::new(rows), ..WriteSet::default() }
    }

    /// All rows as they are now: not copied unless the set is written to while this is kept.
    pub(crate) fn shared(&self) -> WriteSet {
        WriteSet { rows: Arc::clone(&self.rows), bytes: self.bytes, ..WriteSet::default() }
    }

    fn rows_mut(&mut self) -> &mut OrderedRows {
        Arc::make_mut(&mut self.rows)
    }

    fn rows_in<'w>(
        &'w self,
        from: &'w Bound<Vec<u8>>,
        to: &'w Bound<Vec<u8>>,
    ) -> impl Iterator<Item = &'w Row> {
        self.rows.range(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
    }

    /// Whether a row in the range was written.
    pub(crate) fn has_any_in(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
        let is_in_reach = !self.is_empty() && !is_empty_range(from, to);
        is_in_reach
            && self.first_in(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice)).is_some()
    }

    /// First written row in `(from, to)`, or the last one.
    pub(crate) fn first_in(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<(&[u8], Option<&[u8]>)> {
        self.rows.range(from, to).next().map(|row| (row.key(), row.value()))
    }

    /// Last written row in the range.
    pub(crate) fn last_in(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<(&[u8], Option<&[u8]>)> {
        self.rows.range(from, to).next_back().map(|row| (row.key(), row.value()))
    }

    /// All rows, in key order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        self.rows.iter().map(|row| (row.key(), row.value()))
    }

    /// How many rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that the set takes, with what savepoints keep, and its record will.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let rows = ROW_BYTES * bytes(self.rows.len()) + 2 * self.bytes;
        rows + UNDO_BYTES * bytes(self.undo_length()) + self.undo_bytes
    }

    /// The part of a write's memory that an earlier write of the same row already counts in `memory_bytes`.
    pub(crate) fn given_back_by(&self, key: &[u8]) -> u64 {
        self.rows.get(key).map_or(0, |row| ROW_BYTES + 2 * row.bytes())
    }

    /// There is a savepoint: writes can be undone from now on.
    pub(crate) fn keep_undo(&mut self) {
        self.undo.get_or_insert_default();
    }

    /// Writes that can be undone: what [`WriteSet::undo_to`] takes to return to this moment.
    pub(crate) fn undo_length(&self) -> usize {
        self.undo.as_ref().map_or(0, Vec::len)
    }

    /// There is no savepoint any more.
    pub(crate) fn forget_undo(&mut self) {
        self.undo = None;
        self.undo_bytes = 0;
    }

    /// Undoes all writes since so many could be undone.
    pub(crate) fn undo_to(&mut self, length: usize) {
        let Some(all) = &mut self.undo else { return };
        let rows = Arc::make_mut(&mut self.rows);
        for undo in all.drain(length..).rev() {
            self.undo_bytes -= undo.bytes();
            let current = match undo {
                Undo::Restore(content) => {
                    let row = Row::of_content(content);
                    self.bytes += row.bytes();
                    rows.replace(row)
                }
                Undo::Remove(key) => rows.take(&key),
            };
            // A row that was taken out for good is not there.
            self.bytes -= current.as_ref().map_or(0, Row::bytes);
        }
        // What is not counted is not kept.
        if all.capacity() > 4 * all.len() {
            all.shrink_to(2 * all.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(set: &WriteSet) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        set.rows().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
    }

    #[test]
    fn undoing_writes_restores_rows_and_bytes() {
        let mut set = WriteSet::default();
        set.write(b"a", Some(b"1"));
        set.keep_undo();
        let (outer, before) = (set.undo_length(), (rows(&set), set.bytes()));
        let memory = set.memory_bytes();
        set.write(b"a", None);
        set.write(b"b", Some(b"22"));
        let (inner, middle) = (set.undo_length(), (rows(&set), set.bytes()));
        set.write(b"b", Some(b"333"));
        set.write(b"c", Some(b"4"));
        set.undo_to(inner);
        assert_eq!((rows(&set), set.bytes()), middle);
        set.undo_to(outer);
        assert_eq!((rows(&set), set.bytes(), set.memory_bytes()), (before.0, before.1, memory));
        set.write(b"a", Some(b"1"));
        set.forget_undo();
        set.write(b"a", Some(b"1"));
        assert_eq!(
            (set.undo_length(), set.memory_bytes()),
            (0, memory),
            "nothing is kept without a savepoint"
        );
    }
}
