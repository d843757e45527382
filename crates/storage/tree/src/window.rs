//! Windows: ranges of the tree that are merged with what sorted runs have there, and built anew.
//!
//! ```text
//!   runs, the newest first   [   b      f    ]  [  c ]     what is there in the window
//!   the tree                 [ a . . d . . g ]             its leaves
//!                                  |
//!                            [ a b c d f g ]               packed leaves on fresh pages, written once and in order
//!                                  |
//!                            one chunk: they take the place of the old ones, and what was merged goes out of the runs
//! ```
//! Of rows with one key the newest wins. In the tree a deletion that wins leaves nothing behind; where runs become one run, it
//! stays, as there may be older rows. A long value is not written again: the row that wins takes its extents along.
//!
//! Invariants:
//! * A window takes what the oldest runs have, up to some run, and leaves nothing of it there. So no row in the tree is ever newer
//!   than one with the same key in a run.
//! * After a crash a row is in the run or in the tree, not in both and not in neither: the chunk is applied whole or not at all.
//! * A leaf has the stamp of its newest row, or of one that was lost among its rows. So who looks for changes since a time finds no
//!   more of them than there are.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use seawall_types::Lsn;

use crate::bulk_load::BulkLoader;
use crate::chunk::ChunkPlan;
use crate::cursor::LeafCursor;
use crate::error::TreeError;
use crate::merge::{Change, MergeSource, OldValues};
use crate::page::{LeafValue, OverflowReference};
use crate::published::PublishedPages;
use crate::swap::Part;
use crate::tree::Tree;

mod sources;

use sources::{Head, StoredRows};

/// How full leaves of a window are: the next window builds them anew anyway, and rows that are merged in place before it comes
/// find a little room.
const FILL_PERMILLE: u16 = 970;

/// A sorted run, as it lies in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Number of the range of its rows, see [`RUN_NUMBERS`](crate::RUN_NUMBERS).
    pub rows: u64,
    /// Number of the range of its filter: of segments, each under the key in the run at which it begins.
    pub filter: u64,
    /// Key of the row that lists it.
    pub listed: Vec<u8>,
}

impl StoredRun {
    /// The key under which a row of the run stands in the tree.
    pub fn key(&self, row_key: &[u8]) -> Vec<u8> {
        [&self.rows.to_be_bytes(), row_key].concat()
    }

    fn filter_key(&self, row_key: &[u8]) -> Vec<u8> {
        [&self.filter.to_be_bytes(), row_key].concat()
    }

    /// The first row at or after `from`, by its own key.
    fn first_key(&self, pages: &PublishedPages, from: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let cursor = LeafCursor::seek(pages, &self.key(from))?;
        let key = cursor.row().map(|row| row.key.to_vec());
        Ok(key.and_then(|key| key.strip_prefix(&self.rows.to_be_bytes()).map(<[u8]>::to_vec)))
    }

    /// Whether it has rows outside of `range`.
    fn has_others(&self, pages: &PublishedPages, range: &Range<Vec<u8>>) -> Result<bool, TreeError> {
        let before = self.first_key(pages, &[])?.is_some_and(|first| first < range.start);
        Ok(before || self.first_key(pages, &range.end)?.is_some())
    }

    /// What takes the rows of `range` out of it, and those segments of its filter that lie wholly there. Long values stay: the
    /// rows that won have them.
    fn without(&self, pages: &PublishedPages, range: &Range<Vec<u8>>) -> Result<Vec<Part>, TreeError> {
        let rows = self.key(&range.start)..self.key(&range.end);
        let mut parts = vec![Part::Cut { range: rows, values: OldValues::Keep }];
        // A segment ends where the next one begins: the last one that begins in the range or at its end is not known to.
        let (cursor, is_found) =
            LeafCursor::seek_below(pages, &[&self.filter_key(&range.end)[..], &[0]].concat())?;
        let segment = cursor.row().filter(|_| is_found).map(|row| row.key.to_vec());
        let first = self.filter_key(&range.start);
        if let Some(segment) = segment.filter(|segment| *segment > first) {
            parts.push(Part::Cut { range: first..segment, values: OldValues::Free });
        }
        Ok(parts)
    }

    /// What takes all of it out of the tree, long values apart, and the row that lists it.
    fn gone(&self) -> Vec<Part> {
        let all = |number: u64| number.to_be_bytes().to_vec()..(number + 1).to_be_bytes().to_vec();
        vec![
            Part::Delete { key: self.listed.clone() },
            Part::Cut { range: all(self.rows), values: OldValues::Keep },
            Part::Cut { range: all(self.filter), values: OldValues::Free },
        ]
    }
}

/// A window that was merged and waits to be swapped in.
#[derive(Debug)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct MergedWindow {
    /// The chunk to be applied.
    pub chunk: ChunkPlan,
    /// Which of the runs have nothing left, by their index: the chunk strikes them off the list.
    pub emptied: Vec<usize>,
    /// Rows that the window has then.
    pub rows: u64,
    /// Rows that were read for it.
    pub rows_read: u64,
}

/// What came of one step of making several runs one.
#[derive(Debug)]
pub struct MergedRuns {
    /// Where the next step goes on; `None` after the last one.
    pub next: Option<Vec<u8>>,
    /// Long values of rows that lost. The chunk that cuts the runs, and keeps their values, is to free them.
    pub lost_values: Vec<OverflowReference>,
}

impl Tree {
    /// Merges the rows of `range` with those that `runs` have there, the newest run first, and with `changes` of that range, which
    /// are newer than all; `changes` is asked for those below the end of the range only. Rows whose key `skip` names are left out.
    /// The leaves are written, and the chunk that swaps them in is planned. `stamp` is at least the stamp of every change.
    ///
    /// The runs must be the oldest ones: what older runs than one of them have in the range would hide newer rows.
    ///
    /// # Errors
    /// `Io`, or a damaged page. The tree is unchanged, but `changes` has moved on.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn merge_window(
        self: &Arc<Tree>,
        range: Range<Vec<u8>>,
        runs: &[StoredRun],
        changes: Option<&mut dyn MergeSource>,
        skip: &dyn Fn(&[u8]) -> bool,
        stamp: Lsn,
    ) -> Result<MergedWindow, TreeError> {
        let mut load = self.bulk_loader(&range.start, &range.end, stamp).filled_to(FILL_PERMILLE);
        let mut sources = Vec::new();
        for run in runs {
            sources.push(StoredRows::of_run(self, run.rows, &range)?);
        }
        sources.push(StoredRows::of_tree(self, &range)?);
        let mut merging = Merging::new(sources, changes, &range.end, stamp);
        while merging.gather() {
            merging.give_replaced(self)?;
            load.note_stamp(merging.stamp());
            let key = merging.key();
            let is_lost = skip(key);
            match merging.winner() {
                Winner::Stored(LeafValue::Overflow(lost)) if is_lost => merging.lost_values.push(lost),
                _ if is_lost => {}
                Winner::Stored(LeafValue::Inline(value)) => load.push(key, value)?,
                Winner::Stored(LeafValue::Overflow(value)) => load.push_reference(key, value)?,
                Winner::Changed(Change::Put(value)) => load.push(key, value)?,
                Winner::Stored(LeafValue::Deleted) | Winner::Changed(Change::Delete) => {}
            }
            merging.advance()?;
        }
        let rows = load.row_count();
        let mut parts = vec![Part::Graft { load: Box::new(load), values: OldValues::Keep }];
        let mut emptied = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            if !run.has_others(&self.pages, &range)? {
                parts.extend(run.gone());
                emptied.push(index);
            } else if merging.has_used(index) {
                parts.extend(run.without(&self.pages, &range)?);
            }
        }
        let (lost_values, rows_read) = (std::mem::take(&mut merging.lost_values), merging.rows_read);
        let chunk = self.swap(in_order(parts), &lost_values, stamp)?;
        Ok(MergedWindow { chunk, emptied, rows, rows_read })
    }

    /// Makes several runs one, a part of it: pushes the rows of `runs`, the newest first, from `from` on, to `into`, whose range is
    /// that of the run with the number `number`, until `budget_bytes` of rows were pushed. Deletions stay. Of rows with one key the
    /// newest wins; those whose key `skip` names are left out.
    ///
    /// Long values change hands: the chunk that grafts the load must cut the runs, with their values kept.
    ///
    /// # Errors
    /// `Io`, or a damaged page.
    pub fn merge_runs(
        &self,
        runs: &[StoredRun],
        (into, number): (&mut BulkLoader, u64),
        from: &[u8],
        budget_bytes: u64,
        skip: &dyn Fn(&[u8]) -> bool,
    ) -> Result<MergedRuns, TreeError> {
        let mut sources = Vec::new();
        for run in runs {
            sources.push(StoredRows::of_rest_of_run(self, run.rows, from)?);
        }
        let mut merging = Merging::new(sources, None, &[], Lsn::ZERO);
        let (mut key, mut bytes) = (Vec::new(), 0);
        loop {
            let next = merging.next_key().filter(|_| bytes >= budget_bytes).map(<[u8]>::to_vec);
            if next.is_some() || !merging.gather() {
                return Ok(MergedRuns { next, lost_values: merging.lost_values });
            }
            key.clear();
            key.extend_from_slice(&number.to_be_bytes());
            key.extend_from_slice(merging.key());
            let is_lost = skip(merging.key());
            into.note_stamp(merging.stamp());
            match merging.winner() {
                Winner::Stored(LeafValue::Overflow(lost)) if is_lost => merging.lost_values.push(lost),
                _ if is_lost => {}
                Winner::Stored(LeafValue::Inline(value)) => {
                    bytes += value.len() as u64;
                    into.push(&key, value)?;
                }
                Winner::Stored(LeafValue::Overflow(value)) => into.push_reference(&key, value)?,
                Winner::Stored(LeafValue::Deleted) => into.push_change(&key, Change::Delete)?,
                Winner::Changed(_) => unreachable!("no changes were given"),
            }
            bytes += key.len() as u64;
            merging.advance()?;
        }
    }

    /// Merges all that `runs`, the newest first, have in `range` into the tree, window by window of about `window_bytes` of leaves,
    /// and strikes the runs off the list. They must be all runs that there are, with no row outside of the range.
    ///
    /// # Errors
    /// `Io`, `Unwritable`, or a damaged page. What was merged before stays merged: the next call goes on from there.
    pub fn settle_runs(
        self: &Arc<Tree>,
        range: &Range<Vec<u8>>,
        runs: &[StoredRun],
        window_bytes: u64,
        stamp: Lsn,
    ) -> Result<(), TreeError> {
        let mut from = range.start.clone();
        while let Some(first) = self.first_of_runs(runs, &from)? {
            let window = self.window_at(&first, range, window_bytes)?;
            let start = window.start.clone().max(from);
            from = window.end.clone();
            let merged = self.merge_window(start..window.end, runs, None, &|_| false, stamp)?;
            self.apply_chunk(merged.chunk, None)?;
            if from >= range.end {
                break;
            }
        }
        // Those that had nothing left, too.
        let parts = runs.iter().flat_map(StoredRun::gone).collect();
        let rest = self.swap(in_order(parts), &[], stamp)?;
        self.apply_chunk(rest, None)?;
        Ok(())
    }

    /// The smallest key at or after `from` that a run has.
    fn first_of_runs(&self, runs: &[StoredRun], from: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let mut first: Option<Vec<u8>> = None;
        for run in runs {
            let key = run.first_key(&self.pages, from)?;
            first = first.into_iter().chain(key).min();
        }
        Ok(first)
    }

    /// The window that begins with the group of `key`, within `range`.
    fn window_at(
        &self,
        key: &[u8],
        range: &Range<Vec<u8>>,
        window_bytes: u64,
    ) -> Result<Range<Vec<u8>>, TreeError> {
        let mut window: Option<Range<Vec<u8>>> = None;
        let mut bytes = 0;
        for group in self.groups(key, &range.end) {
            let group = group?;
            let end = group.upper.unwrap_or_else(|| range.end.clone()).min(range.end.clone());
            match &mut window {
                Some(window) => window.end = end,
                None => window = Some(group.lower.max(range.start.clone())..end),
            }
            bytes += (group.leaves.len() * self.format().page_bytes()) as u64;
            if bytes >= window_bytes {
                break;
            }
        }
        Ok(window.unwrap_or_else(|| range.clone()))
    }
}

/// Parts in the order of their keys.
fn in_order(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|one, other| one.start().cmp(other.start()));
    parts
}

/// What wins of the rows with one key.
enum Winner<'a> {
    Stored(LeafValue<'a>),
    Changed(Change<'a>),
}

/// Several sources of rows, merged by key.
struct Merging<'m, 's> {
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
    lost_values: Vec<OverflowReference>,
    rows_read: u64,
}

/// Age of the changes; a stored source is one older than its index.
const CHANGES: usize = 0;

impl<'m, 's> Merging<'m, 's> {
    fn new(
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
        };
        for age in 0..=merging.stored.len() {
            merging.put_back(Head::new(age));
        }
        merging
    }

    /// The least key that was not gathered yet.
    fn next_key(&self) -> Option<&[u8]> {
        self.heads.peek().map(|head| &head.key[..])
    }

    /// Gathers the sources that have the next key; `false` at the end. The values of those that lose are noted.
    fn gather(&mut self) -> bool {
        let Some(first) = self.heads.pop() else { return false };
        self.tied.push(first);
        while let Some(next) = self.heads.peek()
            && next.key == self.tied[0].key
        {
            self.tied.extend(self.heads.pop());
        }
        self.rows_read += self.tied.len() as u64;
        for loser in &self.tied[1..] {
            if let Some(LeafValue::Overflow(lost)) = self.stored[loser.age - 1].value() {
                self.lost_values.push(lost);
            }
        }
        true
    }

    fn key(&self) -> &[u8] {
        &self.tied[0].key
    }

    /// The newest stamp of the rows gathered.
    fn stamp(&self) -> Lsn {
        let stamp = |head: &Head| match head.age {
            CHANGES => self.changes_stamp,
            older => self.stored[older - 1].stamp(),
        };
        self.tied.iter().map(stamp).max().unwrap_or_default()
    }

    fn winner(&self) -> Winner<'_> {
        match self.tied[0].age {
            CHANGES => Winner::Changed(
                self.changes.as_ref().and_then(|changes| changes.peek()).expect("it has the key").1,
            ),
            older => Winner::Stored(self.stored[older - 1].value().expect("it has the key")),
        }
    }

    /// Hands the value that a change replaces to its source, if old snapshots need it.
    fn give_replaced(&mut self, tree: &Tree) -> Result<(), TreeError> {
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
    fn advance(&mut self) -> Result<(), TreeError> {
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

    /// Whether stored source `index` had a row.
    fn has_used(&self, index: usize) -> bool {
        self.stored[index].has_rows()
    }
}
