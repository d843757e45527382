//! Walking over the rows of a tree that may change meanwhile, a leaf at a time, merged with what sorted runs have there: what is given out
//! of each, and what is kept of a parent. The walk ends before the rows that belong to this directory alone.

use seawall_tree::page::LeafValue;
use seawall_types::{PageId, TableId};

use super::merged_leaf::MergedLeaf;
use super::{BackupBase, BackupItem, BackupParent, BackupRange, RowSum};
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;

/// A walk over the leaves of a tree that may change meanwhile.
pub(super) struct Walk<'a> {
    pub(super) engine: &'a Engine,
    pub(super) parents: &'a [BackupParent],
    /// Whether what is kept comes with a sum over its rows.
    pub(super) sums_rows: bool,
    pub(super) give: &'a mut dyn FnMut(BackupItem<'_>),
    /// What may go on with the next leaf.
    pub(super) kept: Option<KeptRange>,
}

/// How far the walk came in a leaf.
enum LeafEnd {
    /// To its end.
    Done,
    /// To a row whose long value could not be read, since the tree has changed.
    Changed {
        /// Its key.
        key: Vec<u8>,
    },
    /// To where the range is long enough.
    Full {
        /// Where the next one starts.
        next: Vec<u8>,
    },
}

/// Keys of which the parent has all, up to the last one so far.
pub(super) struct KeptRange {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Of the rows, where runs were ever begun: where one storage ends and another one begins, one between may have gone without a trace
    /// here, as its rows were in runs.
    storage: Option<TableId>,
    /// Which of the parents it was compared with.
    parent: usize,
    /// The page above its leaves, if that has not changed either.
    below: Option<PageId>,
    sum: Option<RowSum>,
}

impl Walk<'_> {
    pub(super) fn range(&mut self, from: &[u8], bytes: u64) -> Result<BackupRange, Error> {
        let mut range = BackupRange::default();
        let mut from = from.to_vec();
        let mut leaf = MergedLeaf::at(self.engine, &from, None)?;
        loop {
            range.read_bytes += self.engine.tree.format().page_bytes() as u64;
            match self.leaf(&leaf, bytes, &mut range)? {
                LeafEnd::Done => {}
                LeafEnd::Changed { key } => {
                    // Under the walk: what was given out stays as good as it was.
                    from = key;
                    leaf = MergedLeaf::at(self.engine, &from, Some(leaf))?;
                    continue;
                }
                LeafEnd::Full { next } => {
                    range.next = Some(next);
                    break;
                }
            }
            let Some(upper) = leaf.upper() else { break };
            from.clear();
            from.extend_from_slice(upper);
            if range.read_bytes >= bytes {
                range.next = Some(from);
                break;
            }
            leaf = MergedLeaf::at(self.engine, &from, Some(leaf))?;
        }
        self.give_kept();
        Ok(range)
    }

    /// Gives out what a leaf has, until the range has `bytes`.
    fn leaf(&mut self, leaf: &MergedLeaf, bytes: u64, range: &mut BackupRange) -> Result<LeafEnd, Error> {
        if leaf.len() == 0 {
            // Of what the parent has here, nothing is kept.
            self.give_kept();
            return Ok(LeafEnd::Done);
        }
        let last = leaf.key(leaf.len() - 1);
        let parent = self.parents.iter().position(|parent| parent.has(&last));
        if let Some(parent) = parent.filter(|parent| is_kept(leaf, &self.parents[*parent].base)) {
            self.keep(leaf, parent);
            return Ok(LeafEnd::Done);
        }
        self.give_kept();
        range.stamp = range.stamp.max(leaf.stamp());
        let mut key = Vec::new();
        for index in 0..leaf.len() {
            leaf.put_key(index, &mut key);
            match leaf.value(index) {
                LeafValue::Inline(value) => (self.give)(BackupItem::Row { key: &key, value }),
                LeafValue::Overflow(reference) => {
                    let value = self.engine.tree.read_overflow(reference, leaf.version());
                    let Some(value) = value.map_err(|error| Error::tree(&error))? else {
                        return Ok(LeafEnd::Changed { key });
                    };
                    (self.give)(BackupItem::Row { key: &key, value: &value });
                    range.read_bytes += value.len() as u64;
                    if range.read_bytes >= bytes {
                        key.push(0);
                        return Ok(LeafEnd::Full { next: key });
                    }
                }
                LeafValue::Deleted => unreachable!("a merged leaf has none of them"),
            }
        }
        Ok(LeafEnd::Done)
    }

    /// Keeps all rows of a leaf, where runs were ever begun in a range for each storage.
    fn keep(&mut self, leaf: &MergedLeaf, parent: usize) {
        let since = self.parents[parent].base.redo_point;
        let below = leaf.main().parent().filter(|above| above.lsn <= since).map(|above| above.id);
        let has_had_runs = self.engine.redo.superblock().next_run > 0;
        let storage_of = |index| row_key::table_of(&leaf.key(index)).filter(|_| has_had_runs);
        let last_storage = storage_of(leaf.len() - 1);
        let mut start = 0;
        while start < leaf.len() {
            let storage = storage_of(start);
            // Nearly always that of all rows.
            let end = if storage == last_storage {
                leaf.len()
            } else {
                (start..leaf.len()).find(|index| storage_of(*index) != storage).unwrap_or(leaf.len())
            };
            // Between two leaves nothing was if the page above has not changed, and nothing came from a run there.
            let goes_on = |kept: &KeptRange| {
                below.is_some() && kept.below == below && kept.parent == parent && kept.storage == storage
            };
            let last = leaf.key(end - 1);
            match &mut self.kept {
                Some(kept) if goes_on(kept) => kept.last = last,
                _ => {
                    self.give_kept();
                    let (first, sum) = (leaf.key(start), self.sums_rows.then(RowSum::default));
                    self.kept = Some(KeptRange { first, last, storage, parent, below, sum });
                }
            }
            if let Some(sum) = self.kept.as_mut().and_then(|kept| kept.sum.as_mut()) {
                leaf.add_to(sum, start..end);
            }
            start = end;
        }
    }

    fn give_kept(&mut self) {
        if let Some(KeptRange { first, last, sum, .. }) = self.kept.take() {
            (self.give)(BackupItem::Kept { first: &first, last: &last, sum });
        }
    }
}

/// Whether the parent has exactly the rows of a leaf, which are some, between the first and the last of them.
fn is_kept(leaf: &MergedLeaf, parent: &BackupBase) -> bool {
    let storage = |index| row_key::table_of(&leaf.key(index));
    let (Some(first), Some(last)) = (storage(0), storage(leaf.len() - 1)) else { return false };
    leaf.stamp() <= parent.redo_point && !parent.may_link_later(first, last)
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SimulatedDisk;
    use seawall_types::TableId;

    use super::*;
    use crate::catalog::{FIRST_LOCAL_TABLE, FIRST_USER_TABLE};
    use crate::runs::testing::{checkpoint_into_run, open};

    #[test]
    fn a_walk_ends_before_what_belongs_to_this_directory_alone() {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk).unwrap();
        let table = database.create_table("t").unwrap();
        database.put(&table, "key", "value").unwrap();
        database.checkpoint().unwrap();
        // One leaf holds rows of both kinds; then there are leaves behind.
        for count in [1, 300_u16] {
            for number in 0..count {
                database.put(&table, number.to_be_bytes(), [7; 100]).unwrap();
            }
            checkpoint_into_run(database.engine(), 10);
            let mut given = Vec::new();
            let mut give = |item: BackupItem<'_>| match item {
                BackupItem::Row { key, .. } => given.push(row_key::table_of(key).unwrap()),
                BackupItem::Kept { .. } => panic!("there is no parent"),
            };
            let engine = database.engine();
            let mut walk = Walk { engine, parents: &[], sums_rows: false, give: &mut give, kept: None };
            let mut next = Some(Vec::new());
            while let Some(from) = next {
                next = walk.range(&from, 1 << 14).unwrap().next;
            }
            assert!(given.contains(&TableId::new(table.id())));
            assert!(given.iter().any(|table| table.get() < FIRST_USER_TABLE), "the catalog comes with it");
            assert!(given.iter().all(|table| table.get() < FIRST_LOCAL_TABLE), "{given:?}");
        }
        disk.crash();
    }
}
