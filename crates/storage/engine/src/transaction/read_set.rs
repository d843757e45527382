//! The reads of a serializable transaction, mostly without repetition.
//!
//! Reads are noted as they come. When they have doubled, repeated ones are taken out, and rows that lie in ranges: so a
//! transaction that reads one row again and again remembers it a few times at most, at a constant cost for each read.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::catalog::OpenObject;
use crate::transaction::read_item::{ReadItem, without_repetition};

/// Fewer are not looked through.
const LOOKED_THROUGH_MIN: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    items: Vec<ReadItem>,
    /// Objects whose place is among them.
    objects: FxHashSet<u64>,
    memory_bytes: u64,
    look_through_at: usize,
}

impl ReadSet {
    pub(crate) fn add(&mut self, item: ReadItem) {
        if self.items.len() >= self.look_through_at.max(LOOKED_THROUGH_MIN) {
            self.items = without_repetition(&self.items);
            self.memory_bytes = self.items.iter().map(ReadItem::memory_bytes).sum();
            self.look_through_at = self.items.len() * 2;
        }
        self.memory_bytes += item.memory_bytes();
        self.items.push(item);
    }

    pub(crate) fn add_object(&mut self, object: &Arc<OpenObject>) {
        if self.objects.insert(object.id) {
            self.add(ReadItem::Object(Arc::clone(object)));
        }
    }

    pub(crate) fn has_object(&self, id: u64) -> bool {
        self.objects.contains(&id)
    }

    pub(crate) fn items(&self) -> &[ReadItem] {
        &self.items
    }

    pub(crate) fn take(&mut self) -> Vec<ReadItem> {
        std::mem::take(self).items
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::read_item::READ_BYTES;

    #[test]
    fn a_row_that_is_read_again_and_again_takes_the_memory_of_a_few() {
        let mut reads = ReadSet::default();
        for number in 0..100_000_u32 {
            reads.add(ReadItem::Row((number % 10).to_be_bytes().to_vec()));
        }
        assert!(reads.items().len() <= LOOKED_THROUGH_MIN && reads.memory_bytes() < 200_000);
        let rows = without_repetition(&reads.take());
        assert_eq!(rows.len(), 10, "none is forgotten");
        assert_eq!(reads.memory_bytes(), 0);
        for number in 0..100_000_u32 {
            reads.add(ReadItem::Row(number.to_be_bytes().to_vec()));
        }
        assert_eq!(reads.items().len(), 100_000);
        assert_eq!(reads.memory_bytes(), 100_000 * (READ_BYTES + 4));
    }
}
