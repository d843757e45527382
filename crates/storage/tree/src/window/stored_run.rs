//! A sorted run as it lies in the tree, and what takes rows out of it.

use std::ops::Range;
use std::sync::Arc;

use seawall_types::Lsn;

use crate::bulk_load::BulkLoader;
use crate::cursor::LeafCursor;
use crate::error::TreeError;
use crate::merge::OldValues;
use crate::page::RUN_PREFIX_BYTES;
use crate::published::PublishedPages;
use crate::sabotage::{Defect, sabotaged};
use crate::swap::Part;
use crate::tree::Tree;

/// A sorted run, as it lies in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Number of the range of its rows, see [`RUN_NUMBERS`](crate::RUN_NUMBERS).
    pub rows: u64,
    /// Number of the range of its filter: of segments, each under the key in the run at which it begins. A segment ends where the
    /// next one begins.
    pub filter: u64,
    /// Key of the row that lists it.
    pub listed: Vec<u8>,
}

/// A segment of a filter: where it begins, and where the next one does; `None` at the end of the run.
struct Segment {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// What takes rows out of a run.
pub(super) struct Without {
    pub(super) parts: Vec<Part>,
    /// Where the segments begin that go with them.
    pub(super) segments: Vec<Range<Vec<u8>>>,
}

impl StoredRun {
    /// The key under which a row of the run stands in the tree.
    pub fn key(&self, row_key: &[u8]) -> Vec<u8> {
        [&self.rows.to_be_bytes(), row_key].concat()
    }

    /// A load of rows of the run, from a row key on.
    ///
    /// # Panics
    /// If the key is longer than a row key can be.
    pub fn row_loader(&self, tree: &Arc<Tree>, from: &[u8], stamp: Lsn) -> BulkLoader {
        tree.bulk_loader(&self.key(from), &all(self.rows).end, stamp)
    }

    /// A load of segments of its filter, from a row key on: each under the number of the filter and the row key at which it begins.
    ///
    /// # Panics
    /// If the key is longer than a row key can be.
    pub fn filter_loader(&self, tree: &Arc<Tree>, from: &[u8], stamp: Lsn) -> BulkLoader {
        tree.bulk_loader(&self.filter_key(from), &all(self.filter).end, stamp)
    }

    /// Whether it has a row of `from..to`, of row keys.
    ///
    /// # Errors
    /// `Io`, or a damaged page.
    pub fn has_rows(&self, tree: &Tree, from: &[u8], to: &[u8]) -> Result<bool, TreeError> {
        Ok(self.first_key(&tree.pages, from)?.is_some_and(|first| &first[..] < to))
    }

    fn filter_key(&self, row_key: &[u8]) -> Vec<u8> {
        [&self.filter.to_be_bytes(), row_key].concat()
    }

    /// The first row at or after `from`, by its own key.
    pub(super) fn first_key(
        &self,
        pages: &PublishedPages,
        from: &[u8],
    ) -> Result<Option<Vec<u8>>, TreeError> {
        first_in(pages, self.rows, &self.key(from))
    }

    /// Whether it has rows of `from..to` outside of all of `windows`, which ascend. `None`: to its end.
    pub(super) fn has_others(
        &self,
        pages: &PublishedPages,
        (from, to): (&[u8], Option<&[u8]>),
        windows: &[&Range<Vec<u8>>],
    ) -> Result<bool, TreeError> {
        let mut from = from;
        loop {
            let first = self.first_key(pages, from)?;
            let Some(first) = first.filter(|first| to.is_none_or(|to| &first[..] < to)) else {
                return Ok(false);
            };
            match windows.iter().find(|window| window.contains(&first)) {
                Some(window) => from = &window.end,
                None => return Ok(true),
            }
        }
    }

    /// What takes the rows of `windows`, which ascend, out of it, and those segments of its filter of which no row is left. Long values stay: the rows that won have them.
    pub(super) fn without(
        &self,
        pages: &PublishedPages,
        windows: &[&Range<Vec<u8>>],
    ) -> Result<Without, TreeError> {
        let (mut parts, mut segments) = (Vec::new(), Vec::<Range<Vec<u8>>>::new());
        for window in windows {
            let range = self.key(&window.start)..self.key(&window.end);
            parts.push(Part::Cut { range, values: moved_values() });
            let Some(used_up) = self.segments_used_up(pages, window, windows)? else { continue };
            match segments.last_mut() {
                // A segment may have rows in two windows.
                Some(last) if last.end >= used_up.start => {
                    if last.end < used_up.end {
                        last.end = used_up.end;
                    }
                }
                _ => segments.push(used_up),
            }
        }
        for range in &segments {
            let range = self.filter_key(&range.start)..self.filter_key(&range.end);
            parts.push(Part::Cut { range, values: OldValues::Free });
        }
        Ok(Without { parts, segments })
    }

    /// The segments with rows in `window` that have none outside of all `windows`: from where to where they begin.
    fn segments_used_up(
        &self,
        pages: &PublishedPages,
        window: &Range<Vec<u8>>,
        windows: &[&Range<Vec<u8>>],
    ) -> Result<Option<Range<Vec<u8>>>, TreeError> {
        // Those between the first and the last one lie in the window as a whole.
        let Some(last) = self.segment_below(pages, &window.end)? else { return Ok(None) };
        let first = self.segment_below(pages, &after(&window.start))?;
        let is_used_up = |segment: &Segment| -> Result<bool, TreeError> {
            Ok(!self.has_others(pages, (&segment.start, segment.end.as_deref()), windows)?)
        };
        let from = match first {
            Some(first) if is_used_up(&first)? => first.start,
            Some(Segment { end: Some(end), .. }) => end,
            Some(_) => return Ok(None),
            None => window.start.clone(),
        };
        // Of the last one only its start is to lie in the range.
        let to = if is_used_up(&last)? { after(&last.start) } else { last.start };
        Ok((from < to).then_some(from..to))
    }

    /// The last segment that begins below `row_key`.
    fn segment_below(&self, pages: &PublishedPages, row_key: &[u8]) -> Result<Option<Segment>, TreeError> {
        let (cursor, is_found) = LeafCursor::seek_below(pages, &self.filter_key(row_key))?;
        let key = cursor.row().filter(|_| is_found).map(|row| row.key.to_vec());
        let Some(start) = key.and_then(|key| own_key(self.filter, key)) else { return Ok(None) };
        let end = first_in(pages, self.filter, &self.filter_key(&after(&start)))?;
        Ok(Some(Segment { start, end }))
    }

    /// What takes all of it out of the tree, long values apart, and the row that lists it.
    pub(super) fn gone(&self) -> Vec<Part> {
        vec![
            Part::Delete { key: self.listed.clone() },
            Part::Cut { range: all(self.rows), values: moved_values() },
            Part::Cut { range: all(self.filter), values: OldValues::Free },
        ]
    }
}

/// What becomes of the long values of rows that are taken out of a run: those that won are elsewhere, with their values.
fn moved_values() -> OldValues {
    if sabotaged(Defect::LongValueFreedWithRun) { OldValues::Free } else { OldValues::Keep }
}

/// The smallest key above.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The keys that begin with a number.
pub(super) fn all(number: u64) -> Range<Vec<u8>> {
    number.to_be_bytes().to_vec()..(number + 1).to_be_bytes().to_vec()
}

/// The row key behind the number, if the key has it.
fn own_key(number: u64, mut key: Vec<u8>) -> Option<Vec<u8>> {
    key.starts_with(&number.to_be_bytes()).then(|| key.split_off(RUN_PREFIX_BYTES))
}

/// The first row at or after `key` whose key begins with `number`, by the row key behind it.
fn first_in(pages: &PublishedPages, number: u64, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
    let cursor = LeafCursor::seek(pages, key)?;
    Ok(cursor.row().and_then(|row| own_key(number, row.key.to_vec())))
}
