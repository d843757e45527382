//! Several sources of rows as one, in the order of their keys: of rows with one key the newest wins.

use std::collections::BinaryHeap;

use seawall_types::Lsn;

use super::sources::{Head, StoredRows};
use crate::error::TreeError;
use crate::merge::{Change, MergeSource};
use crate::page::{LeafValue, OverflowReference};
use crate::tree::Tree;

/// What wins of the rows with one key.
pub(super) enum Winner<'a> {
    Stored(LeafValue<'a>),
    Changed(Change<'a>),
}

/// Several sources of rows, merged by key.
pub(super) struct Merging<'m, 's> {
    /// The newest first.
    stored: Vec<StoredRows<'m>>,
    changes: Option<&'m mut (dyn MergeSource + 's)>,
    /// The end of their range.
    changes_end: &'m [u8],
    changes_stamp: Lsn,
    /// The next key of each source that has one.
    heads: BinaryHeap<Head>,
    /// Those with the least key, the newest first.
    tied: Vec<Head>,
    /// Long values of rows that lost.
    pub(super) lost_values: Vec<OverflowReference>,
    pub(super) rows_read: u64,
    /// Keys and short values of the rows read.
    pub(super) bytes_read: u64,
}

/// Age of the changes; a stored source is one older than its index.
const CHANGES: usize = 0;

impl<'m, 's> Merging<'m, 's> {
    pub(super) fn new(
        stored: Vec<StoredRows<'m>>,
        changes: Option<&'m mut (dyn MergeSource + 's)>,
        changes_end: &'m [u8],
        changes_stamp: Lsn,
    ) -> Merging<'m, 's> {
        let mut merging = Merging {
            stored,
            changes,
            changes_end,
            changes_stamp,
            heads: BinaryHeap::new(),
            tied: Vec::new(),
            lost_values: Vec::new(),
            rows_read: 0,
            bytes_read: 0,
        };
        for age in 0..=merging.stored.len() {
            merging.put_back(Head::new(age));
        }
        merging
    }

    /// The least key that was not gathered yet.
    pub(super) fn next_key(&self) -> Option<&[u8]> {
        self.heads.peek().map(|head| &head.key[..])
    }

    /// Gathers the sources that have the next key; `false` at the end. The values of those that lose are noted.
    pub(super) fn gather(&mut self) -> bool {
        let Some(first) = self.heads.pop() else { return false };
        self.tied.push(first);
        while let Some(next) = self.heads.peek()
            && next.key == self.tied[0].key
        {
            self.tied.extend(self.heads.pop());
        }
        self.rows_read += self.tied.len() as u64;
        for (place, head) in self.tied.iter().enumerate() {
            self.bytes_read += head.key.len() as u64;
            let Some(stored) = head.age.checked_sub(1) else { continue };
            match self.stored[stored].value() {
                Some(LeafValue::Overflow(lost)) if place > 0 => self.lost_values.push(lost),
                Some(LeafValue::Inline(value)) => self.bytes_read += value.len() as u64,
                Some(LeafValue::Overflow(_) | LeafValue::Deleted) | None => {}
            }
        }
        true
    }

    /// Names the stored sources, by their index, that have the key gathered.
    pub(super) fn each_stored(&self, name: &mut dyn FnMut(usize)) {
        self.tied.iter().filter_map(|head| head.age.checked_sub(1)).for_each(name);
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.tied[0].key
    }

    /// The newest stamp of the rows gathered, and of what may have gone around them: rows that are missing have no stamp of their own.
    pub(super) fn stamp(&self) -> Lsn {
        let stamp = |head: &Head| match head.age {
            CHANGES => self.changes_stamp,
            older => self.stored[older - 1].stamp(),
        };
        let around = self.stored.iter().map(StoredRows::stamp_around);
        self.tied.iter().map(stamp).chain(around).max().unwrap_or_default()
    }

    pub(super) fn winner(&self) -> Winner<'_> {
        match self.tied[0].age {
            CHANGES => Winner::Changed(
                self.changes.as_ref().and_then(|changes| changes.peek()).expect("it has the key").1,
            ),
            older => Winner::Stored(self.stored[older - 1].value().expect("it has the key")),
        }
    }

    /// Hands the value that a change replaces to its source, if old snapshots need it.
    pub(super) fn give_replaced(&mut self, tree: &Tree) -> Result<(), TreeError> {
        if self.tied[0].age != CHANGES {
            return Ok(());
        }
        let Some(changes) = self.changes.as_mut().filter(|changes| changes.keep_replaced()) else {
            return Ok(());
        };
        let key = &self.tied[0].key;
        match self.tied.get(1).and_then(|old| self.stored[old.age - 1].value()) {
            Some(LeafValue::Inline(value)) => changes.replaced(key, Some(value)),
            Some(LeafValue::Overflow(value)) => changes.replaced(key, Some(&tree.pages.assemble(value)?)),
            Some(LeafValue::Deleted) | None => changes.replaced(key, None),
        }
        Ok(())
    }

    /// Goes on to the next key.
    pub(super) fn advance(&mut self) -> Result<(), TreeError> {
        while let Some(head) = self.tied.pop() {
            match head.age {
                CHANGES => {
                    if let Some(changes) = &mut self.changes {
                        changes.advance();
                    }
                }
                older => self.stored[older - 1].advance()?,
            }
            self.put_back(head);
        }
        Ok(())
    }

    /// Gives a source its place by its next key, if it has one.
    fn put_back(&mut self, mut head: Head) {
        let has_key = match head.age {
            CHANGES => {
                let next = self.changes.as_ref().and_then(|changes| changes.peek());
                let next = next.filter(|(key, _)| *key < self.changes_end);
                if let Some((key, _)) = next {
                    head.set(key);
                }
                next.is_some()
            }
            older => self.stored[older - 1].put_key(&mut head),
        };
        if has_key {
            self.heads.push(head);
        }
    }
}
