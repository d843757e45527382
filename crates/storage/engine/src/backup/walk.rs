//! Walking over the leaves of a tree that may change meanwhile: what is given out of each, and what is kept of a parent.
//! The walk ends before the rows that belong to this directory alone.

use std::ops::Range;

use seawall_tree::page::{LeafValue, LeafView};
use seawall_tree::{Direction, LeafPosition, Tree};
use seawall_types::PageId;

use super::{BackupBase, BackupItem, BackupParent, BackupRange, RowSum};
use crate::catalog::first_local_key;
use crate::error::Error;
use crate::row_key;

/// A walk over the leaves of a tree that may change meanwhile.
pub(super) struct Walk<'a> {
    pub(super) tree: &'a Tree,
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
    /// Which of the parents it was compared with.
    parent: usize,
    /// The page above its leaves, if that has not changed either.
    below: Option<PageId>,
    sum: Option<RowSum>,
}

impl Walk<'_> {
    pub(super) fn range(&mut self, from: &[u8], bytes: u64) -> Result<BackupRange, Error> {
        let failed = |error| Error::tree(&error);
        let mut range = BackupRange::default();
        let mut from = from.to_vec();
        let mut position = self.tree.leaf_for(&from, Direction::Forward).map_err(failed)?;
        loop {
            range.read_bytes += self.tree.format().page_bytes() as u64;
            match self.leaf(&position, &from, bytes, &mut range)? {
                LeafEnd::Done => {}
                LeafEnd::Changed { key } => {
                    // Under the walk: what was given out stays as good as it was.
                    from = key;
                    self.tree.move_to(&mut position, &from, Direction::Forward).map_err(failed)?;
                    continue;
                }
                LeafEnd::Full { next } => {
                    range.next = Some(next);
                    break;
                }
            }
            let Some(upper) = position.upper().filter(|upper| *upper < &first_local_key()[..]) else { break };
            from.clear();
            from.extend_from_slice(upper);
            if range.read_bytes >= bytes {
                range.next = Some(from);
                break;
            }
            self.tree.move_to(&mut position, &from, Direction::Forward).map_err(failed)?;
        }
        self.give_kept();
        Ok(range)
    }

    /// Gives out what a leaf has from `from` on, until the range has `bytes`.
    fn leaf(
        &mut self,
        position: &LeafPosition,
        from: &[u8],
        bytes: u64,
        range: &mut BackupRange,
    ) -> Result<LeafEnd, Error> {
        let leaf = position.leaf();
        let first = leaf.search(from).unwrap_or_else(|above| above);
        let end = leaf.search(&first_local_key()).unwrap_or_else(|above| above);
        if first >= end {
            // Of what the parent has here, nothing is kept.
            self.give_kept();
            return Ok(LeafEnd::Done);
        }
        let last = key_of(&leaf, end - 1);
        let parent = self.parents.iter().position(|parent| parent.has(&last));
        if let Some(parent) = parent.filter(|parent| is_kept(position, end, &self.parents[*parent].base)) {
            self.keep(position, parent, first..end, last);
            return Ok(LeafEnd::Done);
        }
        self.give_kept();
        range.stamp = range.stamp.max(position.page().view().lsn());
        let mut key = leaf.prefix().to_vec();
        for index in first..end {
            let row = leaf.row(index);
            key.truncate(leaf.prefix().len());
            key.extend_from_slice(row.key.suffix());
            match row.value {
                LeafValue::Inline(value) => (self.give)(BackupItem::Row { key: &key, value }),
                LeafValue::Overflow(reference) => {
                    let value = self.tree.read_overflow(reference, position.version());
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
                LeafValue::Deleted => {
                    let page = position.page().view().id();
                    return Err(Error::tree(&self.tree.pages().deleted_outside_of_runs(page)));
                }
            }
        }
        Ok(LeafEnd::Done)
    }

    fn keep(&mut self, position: &LeafPosition, parent: usize, rows: Range<usize>, last: Vec<u8>) {
        let since = self.parents[parent].base.redo_point;
        let below = position.parent().filter(|above| above.lsn <= since).map(|above| above.id);
        match &mut self.kept {
            Some(kept) if below.is_some() && kept.below == below && kept.parent == parent => kept.last = last,
            _ => {
                self.give_kept();
                let first = key_of(&position.leaf(), rows.start);
                let sum = self.sums_rows.then(RowSum::default);
                self.kept = Some(KeptRange { first, last, parent, below, sum });
            }
        }
        if let Some(sum) = self.kept.as_mut().and_then(|kept| kept.sum.as_mut()) {
            sum.add(&position.leaf(), rows);
        }
    }

    fn give_kept(&mut self) {
        if let Some(KeptRange { first, last, sum, .. }) = self.kept.take() {
            (self.give)(BackupItem::Kept { first: &first, last: &last, sum });
        }
    }
}

/// Whether the parent has exactly the first `row_count` rows of a leaf, which are some, between the first and the last of them.
fn is_kept(position: &LeafPosition, row_count: usize, parent: &BackupBase) -> bool {
    let leaf = position.leaf();
    let storage = |index| row_key::table_of(&key_of(&leaf, index));
    let (Some(first), Some(last)) = (storage(0), storage(row_count - 1)) else { return false };
    position.page().view().lsn() <= parent.redo_point && !parent.may_link_later(first, last)
}

pub(super) fn key_of(leaf: &LeafView<'_>, index: usize) -> Vec<u8> {
    [leaf.prefix(), leaf.row(index).key.suffix()].concat()
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
            let tree = &database.engine().tree;
            let mut walk = Walk { tree, parents: &[], sums_rows: false, give: &mut give, kept: None };
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
