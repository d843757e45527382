//! Where a merge of ranges gets its rows from: leaves of the tree, or of a run in it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use seawall_types::Lsn;

use crate::error::TreeError;
use crate::groups::Groups;
use crate::leaf_reads::LeafReads;
use crate::merge::{Bounds, expect_within};
use crate::page::{DELETED_OUTSIDE_OF_RUNS, LeafValue, LeafView, Page, RUN_PREFIX_BYTES, RowKey};
use crate::tree::Tree;

/// Bytes of leaves that are read at a time for each run: there are up to some tens.
const RUN_BYTES: usize = 128 << 10;
/// The same for the tree.
const TREE_BYTES: usize = 1 << 20;

/// The next key of a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) key: Vec<u8>,
    /// 0 is the newest source.
    pub(super) age: usize,
}

impl Head {
    pub(super) fn new(age: usize) -> Head {
        Head { key: Vec::new(), age }
    }

    pub(super) fn set(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }
}

/// The least key is the greatest head, and among equal ones the newest, as a heap gives out the greatest first.
impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        other.key.cmp(&self.key).then(other.age.cmp(&self.age))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A leaf that is still to come.
#[derive(Debug)]
struct Coming {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// The stamp of the page that knows when leaves between this one and the one before went.
    stamp_before: Lsn,
}

/// The rows of a key range of the tree, in order.
///
/// A row that went leaves a stamp behind, but not where it was: the stamp of its leaf, if other rows are left there; else that of the
/// page above, or of one higher up. So what is built of neighbouring rows has to have these stamps, too.
#[derive(Debug)]
pub(super) struct StoredRows<'t> {
    tree: &'t Tree,
    groups: Groups<'t>,
    range: Range<Vec<u8>>,
    /// Bytes of the number of the run before each key; none in the tree.
    prefix_bytes: usize,
    reads: LeafReads<'t>,
    /// Of the leaves that are still to come.
    coming: VecDeque<Coming>,
    /// The greatest stamp above the last leaf that was asked for; `None` before the first one.
    stamp_above: Option<Lsn>,
    leaf: Option<Page>,
    /// In the tree: the newest stamp of what may have gone between the row before and the one at hand, or the end of the range.
    stamp_around: Lsn,
    /// Rows of the leaf, from the one at hand on.
    rows: Range<usize>,
    has_rows: bool,
}

impl<'t> StoredRows<'t> {
    pub(super) fn of_tree(tree: &'t Tree, range: &Range<Vec<u8>>) -> Result<StoredRows<'t>, TreeError> {
        StoredRows::begin(tree, range.clone(), 0, TREE_BYTES)
    }

    /// What a run has in a range of rows' own keys.
    pub(super) fn of_run(
        tree: &'t Tree,
        number: u64,
        range: &Range<Vec<u8>>,
    ) -> Result<StoredRows<'t>, TreeError> {
        let key = |row_key: &[u8]| [&number.to_be_bytes(), row_key].concat();
        StoredRows::begin(tree, key(&range.start)..key(&range.end), RUN_PREFIX_BYTES, RUN_BYTES)
    }

    /// What a run has from a key on.
    pub(super) fn of_rest_of_run(
        tree: &'t Tree,
        number: u64,
        from: &[u8],
    ) -> Result<StoredRows<'t>, TreeError> {
        let range = [&number.to_be_bytes(), from].concat()..(number + 1).to_be_bytes().to_vec();
        StoredRows::begin(tree, range, RUN_PREFIX_BYTES, RUN_BYTES)
    }

    fn begin(
        tree: &'t Tree,
        range: Range<Vec<u8>>,
        prefix_bytes: usize,
        bytes_at_once: usize,
    ) -> Result<StoredRows<'t>, TreeError> {
        let mut rows = StoredRows {
            tree,
            groups: tree.groups(&range.start, &range.end),
            range,
            prefix_bytes,
            reads: tree.pages.read_leaves(Vec::new(), bytes_at_once),
            coming: VecDeque::new(),
            stamp_above: None,
            leaf: None,
            stamp_around: Lsn::ZERO,
            rows: 0..0,
            has_rows: false,
        };
        rows.find_row()?;
        rows.has_rows = rows.leaf.is_some();
        Ok(rows)
    }

    /// The value at hand.
    pub(super) fn value(&self) -> Option<LeafValue<'_>> {
        self.leaf.as_ref().map(|page| leaf_of(page).value(self.rows.start))
    }

    /// Stamp of the leaf at hand.
    pub(super) fn stamp(&self) -> Lsn {
        self.leaf.as_ref().map_or(Lsn::ZERO, |page| page.view().lsn())
    }

    /// The stamp of what may have gone around the row at hand, up to the row before and including the row's own; after the last row, up to
    /// the end of the range. Zero for a run: it has a row for each that is deleted.
    pub(super) fn stamp_around(&self) -> Lsn {
        if self.prefix_bytes == 0 { self.stamp_around } else { Lsn::ZERO }
    }

    /// Writes the key at hand, without the run's number; `false` after the last row.
    pub(super) fn put_key(&self, head: &mut Head) -> bool {
        let Some(page) = &self.leaf else { return false };
        head.key.clear();
        leaf_of(page).key(self.rows.start).skip(self.prefix_bytes).append_to(&mut head.key);
        true
    }

    pub(super) fn advance(&mut self) -> Result<(), TreeError> {
        self.rows.start += 1;
        self.stamp_around = self.stamp();
        self.find_row()
    }

    /// Whether there was any.
    pub(super) fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// Goes on to the next leaf with rows of the range, unless there are some at hand.
    fn find_row(&mut self) -> Result<(), TreeError> {
        while self.rows.is_empty() {
            self.leaf = self.next_leaf()?;
            let Some(page) = &self.leaf else { return Ok(()) };
            self.stamp_around = self.stamp_around.max(page.view().lsn());
            let leaf = leaf_of(page);
            let index = |key: &[u8]| leaf.search(key).unwrap_or_else(|at| at);
            self.rows = index(&self.range.start)..index(&self.range.end);
            let is_deleted = |index| leaf.value(index) == LeafValue::Deleted;
            if self.prefix_bytes == 0 && leaf.has_deleted() && self.rows.clone().any(is_deleted) {
                return Err(self.tree.pages.damaged(page.view().id(), DELETED_OUTSIDE_OF_RUNS));
            }
        }
        Ok(())
    }

    fn next_leaf(&mut self) -> Result<Option<Page>, TreeError> {
        // Ahead of time, so that the leaves of the next group are on their way when those of this one are merged.
        while self.reads.has_few() {
            let Some(group) = self.groups.next().transpose()? else { break };
            for index in group.leaves_within(&self.range.start, &self.range.end) {
                let stamp_before = match self.stamp_above.replace(group.stamp_of_path) {
                    None => Lsn::ZERO,
                    // Below one page, that one knows.
                    Some(_) if index > 0 => group.stamp,
                    Some(before) => before.max(group.stamp_of_path),
                };
                let leaf = &group.leaves[index];
                let (lower, upper) = (leaf.lower.clone(), group.upper_of(index).map(<[u8]>::to_vec));
                self.coming.push_back(Coming { lower, upper, stamp_before });
                self.reads.push(leaf.page);
            }
        }
        let Some(page) = self.reads.next_leaf()? else { return Ok(None) };
        if let Some(Coming { lower, upper, stamp_before }) = self.coming.pop_front() {
            self.stamp_around = self.stamp_around.max(stamp_before);
            let (lower, upper) = (RowKey::from(&lower[..]), upper.as_deref().map(RowKey::from));
            expect_within(self.tree, &page, Bounds { lower, upper })?;
        }
        Ok(Some(page))
    }
}

fn leaf_of(page: &Page) -> LeafView<'_> {
    page.view().leaf().expect("only leaves are read")
}
