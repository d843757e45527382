//! What a transaction has written and not yet committed: private to it, in key order, with savepoints.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::scan::is_empty_range;
use crate::transaction_memory::bytes;

/// A row as the transaction left it; `None` is a delete.
pub(crate) type Written = Option<Box<[u8]>>;

/// A row besides its key and value: its slot in a map whose nodes are half full, and two allocations.
const ROW_BYTES: u64 = 112;
/// What a savepoint keeps of a row besides key and value: its entry in a list that doubles as it grows, and two allocations.
const UNDO_BYTES: u64 = 144;

/// A savepoint in a list that doubles as it grows.
const SAVEPOINT_BYTES: u64 = 32;

/// Memory of a written row: in the set, and in the record of the commit.
pub(crate) fn row_bytes(key: usize, value: usize) -> u64 {
    ROW_BYTES + 2 * bytes(key + value)
}

fn undo_size(key: &[u8], replaced: Option<&Written>) -> u64 {
    size_of(key, replaced.unwrap_or(&None))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    rows: BTreeMap<Box<[u8]>, Written>,
    /// Keys and values in `rows`, in bytes.
    bytes: u64,
    /// What each write since the first savepoint replaced; `None` if the row was not in the set.
    undo: Vec<(Box<[u8]>, Option<Written>)>,
    /// Keys and values in `undo`, in bytes.
    undo_bytes: u64,
    /// Lengths of `undo` at the savepoints alive.
    savepoints: Vec<(u64, usize)>,
    next_savepoint: u64,
}

fn size_of(key: &[u8], value: &Written) -> u64 {
    bytes(key.len() + value.as_ref().map_or(0, |value| value.len()))
}

impl WriteSet {
    /// Records a write of the row `key`.
    pub(crate) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value = value.map(Box::from);
        self.bytes += size_of(key, &value);
        let replaced = match self.rows.get_mut(key) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => {
                self.rows.insert(Box::from(key), value);
                None
            }
        };
        if let Some(replaced) = &replaced {
            self.bytes -= size_of(key, replaced);
        }
        if !self.savepoints.is_empty() {
            self.undo_bytes += undo_size(key, replaced.as_ref());
            self.undo.push((Box::from(key), replaced));
        }
    }

    /// What the transaction wrote to the row, if it did.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(key).map(|value| value.as_deref())
    }

    /// Whether a row in the range was written.
    pub(crate) fn has_any_in(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
        let is_in_reach = !self.is_empty() && !is_empty_range(from, to);
        is_in_reach
            && self.first_in(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice)).is_some()
    }

    /// First written row in `(from, to)`, or the last one.
    pub(crate) fn first_in(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<(&[u8], Option<&[u8]>)> {
        let (key, value) = self.rows.range::<[u8], _>((from, to)).next()?;
        Some((key, value.as_deref()))
    }

    /// Last written row in the range.
    pub(crate) fn last_in(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<(&[u8], Option<&[u8]>)> {
        let (key, value) = self.rows.range::<[u8], _>((from, to)).next_back()?;
        Some((key, value.as_deref()))
    }

    /// All rows, in key order.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        self.rows.iter().map(|(key, value)| (&**key, value.as_deref()))
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
        let savepoints = SAVEPOINT_BYTES * bytes(self.savepoints.len());
        rows + UNDO_BYTES * bytes(self.undo.len()) + self.undo_bytes + savepoints
    }

    /// Of what a write of the row would add to `memory_bytes`, what it would not, as it was written before.
    pub(crate) fn given_back_by(&self, key: &[u8]) -> u64 {
        let written = |value: &Written| row_bytes(key.len(), value.as_ref().map_or(0, |value| value.len()));
        self.rows.get(key).map_or(0, written)
    }

    /// Marks this moment; [`WriteSet::rollback_to`] returns to it.
    pub(crate) fn savepoint(&mut self) -> u64 {
        let savepoint = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((savepoint, self.undo.len()));
        savepoint
    }

    /// Undoes all writes since the savepoint, which stays; later ones are gone. `false`: there is no such savepoint.
    pub(crate) fn rollback_to(&mut self, savepoint: u64) -> bool {
        let Some(index) = self.savepoints.iter().position(|(number, _)| *number == savepoint) else {
            return false;
        };
        let length = self.savepoints[index].1;
        self.savepoints.truncate(index + 1);
        for (key, replaced) in self.undo.drain(length..).rev() {
            self.undo_bytes -= undo_size(&key, replaced.as_ref());
            let current = match replaced {
                Some(replaced) => {
                    self.bytes += size_of(&key, &replaced);
                    self.rows.insert(key.clone(), replaced)
                }
                None => self.rows.remove(&key),
            };
            self.bytes -= size_of(&key, &current.expect("an undo entry names a row of the set"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(set: &WriteSet) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        set.rows().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
    }

    #[test]
    fn rollback_to_a_savepoint_restores_rows_and_bytes() {
        let mut set = WriteSet::default();
        set.write(b"a", Some(b"1"));
        let outer = set.savepoint();
        let before = (rows(&set), set.bytes());
        set.write(b"a", None);
        set.write(b"b", Some(b"22"));
        let inner = set.savepoint();
        let middle = (rows(&set), set.bytes());
        set.write(b"b", Some(b"333"));
        set.write(b"c", Some(b"4"));
        assert!(set.rollback_to(inner));
        assert_eq!((rows(&set), set.bytes()), middle);
        assert!(set.rollback_to(outer));
        assert_eq!((rows(&set), set.bytes()), before);
        assert!(!set.rollback_to(inner), "given up by the rollback to the outer one");
        assert!(set.rollback_to(outer), "stays");
    }
}
