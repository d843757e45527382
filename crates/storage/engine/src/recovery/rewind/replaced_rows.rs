//! Rows of the tree that those of another server take the place of, range by range.
//!
//! ```text
//!   rows here, from..to     a1 b1    d1 e1       what differs becomes puts and deletes,
//!   rows that come          a1 b2 c2    e1       merged some MiB at a time: put b2, put c2, delete d
//! ```
//! Rows that are equal are not written again, so a leaf with one change costs what one change costs.

use std::collections::VecDeque;
use std::ops::Range;

use seawall_tree::page::LeafValue;
use seawall_tree::{Change, Direction, LeafCursor, MergeSource, Tree};
use seawall_types::Lsn;

use crate::backup::row_sum::RowSum;
use crate::error::Error;

/// Rows that have come, or changes that they have made, of so many bytes are worked off at a time.
const BATCH_BYTES: usize = 8 << 20;
/// Of a change, besides its bytes.
const CHANGE_BYTES: usize = 48;

pub(super) struct ReplacedRows {
    since: Lsn,
    chunk_bytes: u64,
    /// No row that has come is newer.
    stamp: Lsn,
    /// Where the range begins of which rows are coming.
    from: Vec<u8>,
    /// Ranges that were asked for and are not replaced yet; the first one is the one that begins at `from` or before.
    expected: VecDeque<Range<Vec<u8>>>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    row_bytes: usize,
    changes: Changes,
    changed_rows: u64,
}

/// Changes in the order of their keys; `None` deletes.
#[derive(Default)]
struct Changes {
    rows: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    bytes: usize,
}

impl Changes {
    fn add(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += CHANGE_BYTES + key.len() + value.as_ref().map_or(0, Vec::len);
        self.rows.push_back((key, value));
    }
}

impl MergeSource for Changes {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let (key, value) = self.rows.front()?;
        Some((key, value.as_deref().map_or(Change::Delete, Change::Put)))
    }

    fn advance(&mut self) {
        self.rows.pop_front();
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        let _stopped_at = self.rows.iter().find(|(key, _)| !visit(key));
    }
}

impl ReplacedRows {
    pub(super) fn new(since: Lsn, chunk_bytes: u64) -> ReplacedRows {
        ReplacedRows {
            since,
            chunk_bytes,
            stamp: Lsn::ZERO,
            from: Vec::new(),
            expected: VecDeque::new(),
            rows: Vec::new(),
            row_bytes: 0,
            changes: Changes::default(),
            changed_rows: 0,
        }
    }

    /// Rows from `from` on come next.
    pub(super) fn begin(&mut self, from: &[u8]) {
        self.from.clear();
        self.from.extend_from_slice(from);
    }

    /// Rows of these ranges come next, in their order.
    pub(super) fn expect(&mut self, ranges: &[Range<Vec<u8>>]) {
        self.expected = ranges.iter().cloned().collect();
        if let Some(first) = self.expected.front() {
            self.from.clone_from(&first.start);
        }
    }

    /// How many rows were put or deleted.
    pub(super) fn changed_rows(&self) -> u64 {
        self.changed_rows
    }

    /// No change in the rows that follow is newer.
    pub(super) fn note_stamp(&mut self, stamp: Lsn) {
        self.stamp = self.stamp.max(stamp);
    }

    /// Takes a row.
    pub(super) fn push(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<(), Error> {
        while let Some(range) = self.expected.front().filter(|range| key >= &range.end[..]) {
            let end = range.end.clone();
            self.replace_until(tree, &end)?;
            self.expect_next();
        }
        let last = self.rows.last().map(|(last, _)| &last[..]);
        if key < &self.from[..] || last.is_some_and(|last| key <= last) {
            return Err(Error::Tree { message: "a row of the primary comes out of order".to_owned() });
        }
        self.row_bytes += key.len() + value.len();
        self.rows.push((key.to_vec(), value.to_vec()));
        if self.row_bytes >= BATCH_BYTES {
            let after = key_after(key);
            self.replace_until(tree, &after)?;
        }
        Ok(())
    }

    fn expect_next(&mut self) {
        self.expected.pop_front();
        if let Some(next) = self.expected.front() {
            self.from.clone_from(&next.start);
        }
    }

    /// Replaces the ranges that are still expected: all of their rows have come.
    pub(super) fn replace_expected(&mut self, tree: &Tree) -> Result<(), Error> {
        while let Some(range) = self.expected.front() {
            let end = range.end.clone();
            self.replace_until(tree, &end)?;
            self.expect_next();
        }
        Ok(())
    }

    /// Makes the rows from where the range began up to `to` those that have come; the next range begins there.
    pub(super) fn replace_until(&mut self, tree: &Tree, to: &[u8]) -> Result<(), Error> {
        let failed = |error| Error::tree(&error);
        let mut given = std::mem::take(&mut self.rows).into_iter().peekable();
        self.row_bytes = 0;
        let mut cursor = LeafCursor::seek(tree.pages(), &self.from).map_err(failed)?;
        let mut key = Vec::new();
        loop {
            let value = row_at(&cursor, to, &mut key);
            let order = match (&value, given.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(_), Some((next, _))) => key.as_slice().cmp(next),
            };
            if order.is_lt() {
                self.changes.add(key.clone(), None);
            } else if let Some((next, new)) = given.next() {
                let is_equal = order.is_eq() && matches!(value, Some(LeafValue::Inline(old)) if *old == *new);
                if !is_equal {
                    self.changes.add(next, Some(new));
                }
            }
            if order.is_le() {
                cursor.advance(tree.pages()).map_err(failed)?;
            }
            if self.changes.bytes >= BATCH_BYTES {
                let goes_on_at = cursor.row().map(|_| full_key(&cursor));
                self.merge(tree)?;
                if let Some(at) = goes_on_at {
                    cursor = LeafCursor::seek(tree.pages(), &at).map_err(failed)?;
                }
            }
        }
        self.begin(to);
        Ok(())
    }

    /// Merges the changes into the tree.
    pub(super) fn merge(&mut self, tree: &Tree) -> Result<(), Error> {
        let failed = |error| Error::tree(&error);
        // Above the place up to which rows are kept: another attempt looks at what this one has changed.
        let stamp = self.stamp.max(Lsn::new(self.since.get() + 1));
        self.changed_rows += self.changes.rows.len() as u64;
        while self.changes.peek().is_some() {
            let plan = tree.merge_chunk(&mut self.changes, self.chunk_bytes, stamp).map_err(failed)?;
            tree.apply_chunk(plan, None).map_err(failed)?;
        }
        self.changes.bytes = 0;
        Ok(())
    }
}

/// The smallest key above `key`.
pub(super) fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The value of the row at a cursor, if its key is below `to`; that is put into `key`.
fn row_at<'c>(cursor: &'c LeafCursor, to: &[u8], key: &mut Vec<u8>) -> Option<LeafValue<'c>> {
    let row = cursor.row()?;
    key.clear();
    key.extend_from_slice(cursor.position().leaf().prefix());
    key.extend_from_slice(row.key.suffix());
    (key.as_slice() < to).then_some(row.value)
}

fn full_key(cursor: &LeafCursor) -> Vec<u8> {
    let leaf = cursor.position().leaf();
    [leaf.prefix(), leaf.row(cursor.index()).key.suffix()].concat()
}

/// Whether the rows from `first` to `last` have this sum, and none of their leaves has changed since `since`.
pub(super) fn are_kept(
    tree: &Tree,
    since: Lsn,
    first: &[u8],
    last: &[u8],
    sum: RowSum,
) -> Result<bool, Error> {
    let failed = |error| Error::tree(&error);
    let mut found = RowSum::default();
    let mut position = tree.leaf_for(first, Direction::Forward).map_err(failed)?;
    loop {
        let leaf = position.leaf();
        let start = leaf.search(first).unwrap_or_else(|above| above);
        let end = leaf.search(last).map_or_else(|above| above, |index| index + 1);
        if start < end {
            if position.page().view().lsn() > since {
                return Ok(false);
            }
            found.add_rows(&leaf, start..end);
        }
        let is_last = found.rows > sum.rows || position.upper().is_none_or(|upper| upper > last);
        if is_last || !tree.move_on(&mut position, Direction::Forward).map_err(failed)? {
            return Ok(found == sum);
        }
    }
}
