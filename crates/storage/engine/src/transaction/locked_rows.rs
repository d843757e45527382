//! Rows that a transaction has locked and perhaps not written: a prepare keeps them locked.

use rustc_hash::FxHashSet;

use crate::transaction::memory::bytes;

/// A row besides its key: an entry of a set, and the allocation of the key.
const LOCKED_ROW_BYTES: u64 = 64;
/// An entry of the order besides the key.
const ORDERED_BYTES: u64 = 48;

/// Memory of a row, with its entry in the order.
pub(crate) fn locked_row_bytes(row_key: usize) -> u64 {
    LOCKED_ROW_BYTES + ORDERED_BYTES + 2 * bytes(row_key)
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockedRows {
    keys: FxHashSet<Box<[u8]>>,
    /// Rows locked since the first savepoint, in order; `None` without a savepoint.
    order: Option<Vec<Box<[u8]>>>,
    memory_bytes: u64,
}

impl LockedRows {
    pub(crate) fn contains(&self, row_key: &[u8]) -> bool {
        self.keys.contains(row_key)
    }

    pub(crate) fn insert(&mut self, row_key: &[u8]) {
        if self.keys.contains(row_key) {
            return;
        }
        self.memory_bytes += LOCKED_ROW_BYTES + bytes(row_key.len());
        self.keys.insert(row_key.into());
        if let Some(order) = &mut self.order {
            self.memory_bytes += ORDERED_BYTES + bytes(row_key.len());
            order.push(row_key.into());
        }
    }

    /// There is a savepoint.
    pub(crate) fn keep_order(&mut self) {
        self.order.get_or_insert_default();
    }

    /// How many rows the order has.
    pub(crate) fn ordered_count(&self) -> usize {
        self.order.as_ref().map_or(0, Vec::len)
    }

    /// There is no savepoint any more.
    pub(crate) fn forget_order(&mut self) {
        let order = self.order.take().unwrap_or_default();
        self.memory_bytes -= order.iter().map(|row_key| ORDERED_BYTES + bytes(row_key.len())).sum::<u64>();
    }

    /// Forgets the rows that were locked when the order had more than so many.
    pub(crate) fn return_to(&mut self, count: usize) {
        let Some(order) = &mut self.order else { return };
        for row_key in order.drain(count..) {
            self.keys.remove(&row_key);
            self.memory_bytes -= locked_row_bytes(row_key.len());
        }
    }

    /// All rows; none are left.
    pub(crate) fn take(&mut self) -> FxHashSet<Box<[u8]>> {
        std::mem::take(self).keys
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_memory_return_to_what_they_were_at_a_savepoint() {
        let mut rows = LockedRows::default();
        rows.insert(b"before");
        let without_savepoint = rows.memory_bytes();
        rows.keep_order();
        rows.insert(b"kept");
        let (count, memory) = (rows.ordered_count(), rows.memory_bytes());
        for key in [&b"one"[..], b"two", b"before", b"kept", b"one"] {
            rows.insert(key);
        }
        rows.return_to(count);
        assert!(rows.contains(b"before") && rows.contains(b"kept") && !rows.contains(b"one"));
        assert_eq!((rows.ordered_count(), rows.memory_bytes()), (count, memory));
        rows.return_to(0);
        assert!(rows.contains(b"before") && !rows.contains(b"kept"));
        rows.insert(b"again");
        rows.forget_order();
        assert_eq!(rows.memory_bytes(), without_savepoint + LOCKED_ROW_BYTES + 5);
        assert_eq!(rows.take().len(), 2);
        assert_eq!(rows.memory_bytes(), 0);
    }
}
