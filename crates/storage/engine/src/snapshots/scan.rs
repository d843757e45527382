//! Rows in key order at a snapshot: a merge of the transaction's own writes, the memtables and the tree.
//!
//! ```text
//!   writes       b . . . f . .      a row is taken from the topmost source that has it;
//!   active       . . d . . . .      "deleted" there hides it below
//!   frozen       a . d . . g .
//!   leaf of tree a b c d | e ...    one leaf at a time: the batch ends at its fence
//! ```
//! The tree is read a leaf at a time, at a version noted before the memtables were looked up, as in `read`. Within a
//! batch the leaf is an immutable image, so whatever is merged meanwhile does not show.

pub(crate) mod bounds;
mod leaf_rows;
mod memtable_source;

use std::ops::Bound;
use std::sync::Arc;

use seawall_memtable::Cursor;
use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_tree::LeafPosition;
use seawall_tree::page::{LeafValue, OverflowReference};
use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::view::View;
use crate::transaction::write_set::WriteSet;

use bounds::{inside_batch, is_after_start, is_before_end};
use leaf_rows::LeafRows;
use memtable_source::{Found, MemtableSource};

pub(crate) use bounds::{is_empty_range, row_bounds};
pub(crate) use seawall_tree::Direction;

/// Whether a memtable has, in the range, a version newer than `snapshot`.
pub(crate) fn any_newer_in(view: &View, from: Bound<&Vec<u8>>, to: Bound<&Vec<u8>>, snapshot: Lsn) -> bool {
    let frozen = view.frozen.iter().filter(|frozen| snapshot < frozen.end).map(|frozen| &frozen.memtable);
    std::iter::once(&view.active).chain(frozen).any(|memtable| {
        let mut cursor = Cursor::new();
        match from {
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(memtable, key),
            Bound::Unbounded => cursor.seek_to_first(memtable),
        }
        while let Some((key, versions)) = cursor.next(memtable) {
            if !is_before_end(key, to) {
                return false;
            }
            if is_after_start(key, from) && versions.newest_stamp() > snapshot {
                return true;
            }
        }
        false
    })
}

/// A row's key and value, lent by the range until its next call.
pub type LentRow<'r> = (&'r [u8], &'r [u8]);

/// Which source the next row comes from.
#[derive(Clone, Copy, Debug)]
enum Place {
    Writes,
    Memtable(usize),
    Leaf,
}

/// Rows of a table, in key order. Made by `range` and `range_reverse`.
///
/// As an iterator it copies each row; [`Range::next_row`] lends it instead.
pub struct Range<'a> {
    engine: &'a Engine,
    snapshot: Option<RegisteredSnapshot>,
    writes: Option<&'a WriteSet>,
    direction: Direction,
    /// What is left of the range: its near end moves with the rows given out.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// Memtables as of the last batch.
    view: Option<Arc<View>>,
    sources: Vec<MemtableSource>,
    leaf: Option<LeafRows>,
    /// Version of the tree at which the leaf was read.
    leaf_version: u64,
    /// Fence at the far end of the batch; `None`: the batch reaches the end of the tree.
    batch_end: Option<Vec<u8>>,
    /// See `is_plain`.
    plain: bool,
    /// The engine's own scan, which its last checkpoint needs.
    even_if_closed: bool,
    /// Where a transaction wants to know that the snapshot was cancelled.
    lost_snapshot: Option<&'a AtomicBool>,
    started: bool,
    done: bool,
    failed: Option<Error>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl std::fmt::Debug for Range<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Range")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl<'a> Range<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        snapshot: RegisteredSnapshot,
        writes: Option<&'a WriteSet>,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        direction: Direction,
    ) -> Range<'a> {
        let mut range = Range::over(engine, direction, from, to);
        range.snapshot = Some(snapshot);
        range.writes = writes;
        range.done = is_empty_range(&range.from, &range.to);
        range
    }

    /// Goes on when the engine is being closed.
    pub(crate) fn even_if_closed(mut self) -> Range<'a> {
        self.even_if_closed = true;
        self
    }

    /// Notes in `lost_snapshot` if the snapshot was cancelled, whatever the caller makes of the error.
    pub(crate) fn noting(mut self, lost_snapshot: &'a AtomicBool) -> Range<'a> {
        self.lost_snapshot = Some(lost_snapshot);
        self
    }

    /// A range that gives one error and ends.
    pub(crate) fn failed(engine: &'a Engine, error: Error) -> Range<'a> {
        let mut range = Range::over(engine, Direction::Forward, Bound::Unbounded, Bound::Unbounded);
        range.failed = Some(error);
        range.done = true;
        range
    }

    fn over(engine: &'a Engine, direction: Direction, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Range<'a> {
        Range {
            engine,
            snapshot: None,
            writes: None,
            direction,
            from,
            to,
            view: None,
            sources: Vec::new(),
            leaf: None,
            leaf_version: 0,
            batch_end: None,
            plain: false,
            even_if_closed: false,
            lost_snapshot: None,
            started: false,
            done: false,
            failed: None,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn lsn(&self) -> Lsn {
        self.snapshot.as_ref().expect("a range that is not done has a snapshot").lsn()
    }

    /// The next row's key and value, lent until the next call; `None` at the end.
    ///
    /// # Errors
    /// Damage met on the way. The range ends there.
    pub fn next_row(&mut self) -> Result<Option<LentRow<'_>>, Error> {
        Ok(self.next_entry()?.map(|(row_key, value)| (row_key::key_of(row_key), value)))
    }

    /// As `next_row`, with the whole key of the row in the tree.
    pub(crate) fn next_entry(&mut self) -> Result<Option<LentRow<'_>>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.plain && !self.done && self.leaf.as_ref().is_some_and(|leaf| !leaf.is_done()) {
            let leaf = self.leaf.as_mut().expect("it was just looked at");
            return Ok(Some(leaf.take(self.direction)));
        }
        match self.find_row() {
            Ok(None) => {
                self.done = true;
                Ok(None)
            }
            Ok(Some(row)) => Ok(Some(match row {
                FoundRow::Copied => (&self.key, &self.value),
                FoundRow::InLeaf(index) => {
                    let leaf = self.leaf.as_ref().expect("the row was found in it");
                    let view = leaf.page.view().leaf().expect("a descent ends at a leaf");
                    let LeafValue::Inline(value) = view.row(index).value else {
                        unreachable!("overflow values are copied")
                    };
                    (&self.key, value)
                }
            })),
            Err(error) => {
                self.done = true;
                if let Some(lost) = self.lost_snapshot {
                    note_lost_snapshot(lost, &error);
                }
                Err(error)
            }
        }
    }

    /// Whether, for the rest of the batch, rows come from the leaf and from nowhere else.
    fn is_plain(&self) -> bool {
        let in_leaf = self.leaf.as_ref().is_some_and(|leaf| !leaf.has_overflow);
        in_leaf && self.sources.is_empty() && self.writes.is_none()
    }

    fn find_row(&mut self) -> Result<Option<FoundRow>, Error> {
        while !self.done {
            if !self.started {
                self.started = true;
                self.load_batch()?;
            }
            match self.nearest() {
                Some(place) => {
                    if let Some(row) = self.take_row(place)? {
                        return Ok(Some(row));
                    }
                }
                None => match self.batch_end.take() {
                    None => return Ok(None),
                    Some(fence) => {
                        match self.direction {
                            Direction::Forward => self.from = Bound::Included(fence),
                            Direction::Reverse => self.to = Bound::Excluded(fence),
                        }
                        if is_empty_range(&self.from, &self.to) {
                            return Ok(None);
                        }
                        self.load_batch()?;
                    }
                },
            }
        }
        Ok(None)
    }

    /// The source whose next row comes first; of several that stand at one key, the topmost.
    fn nearest(&self) -> Option<Place> {
        let leaf = self.leaf.as_ref().filter(|leaf| !leaf.is_done());
        if self.sources.is_empty() && self.writes.is_none() {
            return leaf.map(|_| Place::Leaf);
        }
        let mut nearest: Option<(&[u8], Place)> = None;
        let writes = self.next_written().map(|(key, _)| (key, Place::Writes));
        let memtables = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(index, source)| source.current().map(|key| (key, Place::Memtable(index))));
        let leaf = leaf.map(|leaf| (&leaf.key[..], Place::Leaf));
        for (key, place) in writes.into_iter().chain(memtables).chain(leaf) {
            let nearer = match nearest {
                None => true,
                Some((best, _)) => match self.direction {
                    Direction::Forward => key < best,
                    Direction::Reverse => key > best,
                },
            };
            if nearer {
                nearest = Some((key, place));
            }
        }
        nearest.map(|(_, place)| place)
    }

    /// The transaction's own next write inside the batch.
    fn next_written(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let writes = self.writes?;
        let (from, to) = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        let (key, value) = match self.direction {
            Direction::Forward => writes.first_in(from, to)?,
            Direction::Reverse => writes.last_in(from, to)?,
        };
        let inside = match (&self.batch_end, self.direction) {
            (None, _) => true,
            (Some(fence), Direction::Forward) => key < &fence[..],
            (Some(fence), Direction::Reverse) => key >= &fence[..],
        };
        inside.then_some((key, value))
    }

    /// Takes the row at `place` and moves every source that stands at the same key; `None` if it is deleted.
    fn take_row(&mut self, place: Place) -> Result<Option<FoundRow>, Error> {
        let found = match place {
            Place::Writes => {
                let (key, value) = self.next_written().expect("the nearest row is a written one");
                let (key, value) = (key.to_vec(), value.map(<[u8]>::to_vec));
                self.key = key;
                match value {
                    Some(value) => {
                        self.value = value;
                        Some(FoundRow::Copied)
                    }
                    None => None,
                }
            }
            Place::Memtable(index) => {
                let source = &mut self.sources[index];
                std::mem::swap(&mut self.key, &mut source.key);
                // The source is moved on below; leave it a key to be recognised by.
                source.key.clone_from(&self.key);
                match source.found {
                    Some(Found::Value) => {
                        std::mem::swap(&mut self.value, &mut source.value);
                        Some(FoundRow::Copied)
                    }
                    _ => None,
                }
            }
            Place::Leaf => Some(self.take_leaf_row()?),
        };
        self.pass_key();
        Ok(found)
    }

    fn take_leaf_row(&mut self) -> Result<FoundRow, Error> {
        let leaf = self.leaf.as_mut().expect("the nearest row is in it");
        let index = leaf.index(self.direction);
        self.key.clone_from(&leaf.key);
        let value = leaf.page.view().leaf().expect("a descent ends at a leaf").row(index).value;
        let overflow = match value {
            LeafValue::Inline(_) => None,
            LeafValue::Overflow(reference) => Some(reference),
        };
        leaf.advance(self.direction);
        match overflow {
            None => Ok(FoundRow::InLeaf(index)),
            Some(reference) => {
                self.read_overflow(reference)?;
                Ok(FoundRow::Copied)
            }
        }
    }

    fn read_overflow(&mut self, reference: OverflowReference) -> Result<(), Error> {
        let read = self.engine.tree.read_overflow(reference, self.leaf_version);
        if let Some(value) = read.map_err(|error| Error::tree(&error))? {
            self.value = value;
            return Ok(());
        }
        // The extent may have been given up, and written over, since the leaf was read: the row is read anew.
        let row = self.engine.read_row(&self.key, self.lsn(), |value| value.map(<[u8]>::to_vec))?;
        self.value = row.expect("a snapshot does not change: a row that it saw is there");
        Ok(())
    }

    /// Moves on every source that stands at `self.key`, and the near end of the range.
    fn pass_key(&mut self) {
        let key = &self.key;
        match self.direction {
            Direction::Forward => self.from = Bound::Excluded(key.clone()),
            Direction::Reverse => self.to = Bound::Excluded(key.clone()),
        }
        if let Some(leaf) = self.leaf.as_mut()
            && !leaf.is_done()
            && leaf.key == *key
        {
            leaf.advance(self.direction);
        }
        let snapshot = self.snapshot.as_ref().expect("a range that is not done has a snapshot").lsn();
        let inside = inside_batch(&self.from, &self.to, self.batch_end.as_deref(), self.direction);
        for source in &mut self.sources {
            if source.current().is_some_and(|at| at == &key[..]) {
                source.advance(self.direction, snapshot, &inside);
            }
        }
        self.sources.retain(|source| source.current().is_some());
        self.plain = self.is_plain();
    }

    /// Reads the leaf at the near end of the range, and sets the memtables to it.
    fn load_batch(&mut self) -> Result<(), Error> {
        if !self.even_if_closed {
            self.engine.lifecycle.check_open()?;
        }
        let (position, view) = self.read_leaf()?;
        let leaf = position.leaf();
        let start_of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => leaf.search(key).unwrap_or_else(|index| index),
            Bound::Excluded(key) => leaf.search(key).map_or_else(|index| index, |index| index + 1),
            Bound::Unbounded => 0,
        };
        let end_of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => leaf.search(key).map_or_else(|index| index, |index| index + 1),
            Bound::Excluded(key) => leaf.search(key).unwrap_or_else(|index| index),
            Bound::Unbounded => leaf.len(),
        };
        let (start, end) = (start_of(&self.from), end_of(&self.to));
        self.batch_end = match self.direction {
            Direction::Forward => position.upper().map(<[u8]>::to_vec),
            Direction::Reverse => position.lower().map(<[u8]>::to_vec),
        };
        self.leaf_version = position.version();
        let key = self.leaf.take().map(|leaf| leaf.key).unwrap_or_default();
        self.leaf = Some(LeafRows::new(position.page().clone(), start..end.max(start), self.direction, key));
        self.load_memtables(&view);
        self.view = Some(view);
        self.plain = self.is_plain();
        Ok(())
    }

    /// The leaf, and memtables that together with it show the whole snapshot: see the module.
    fn read_leaf(&self) -> Result<(LeafPosition, Arc<View>), Error> {
        let near = match self.direction {
            Direction::Forward => &self.from,
            Direction::Reverse => &self.to,
        };
        let key: &[u8] = match near {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        // Going backwards from an included end, the leaf to start with is the one that would hold that very key.
        let direction = match (self.direction, near) {
            (Direction::Reverse, Bound::Included(_)) => Direction::Forward,
            (direction, _) => direction,
        };
        loop {
            let version = self.engine.tree.version();
            let view = self.engine.view.load_full();
            self.engine.check_snapshot(self.lsn())?;
            let position = self.engine.tree.leaf_for(key, direction).map_err(|error| Error::tree(&error))?;
            if position.version() == version {
                return Ok((position, view));
            }
        }
    }

    fn load_memtables(&mut self, view: &Arc<View>) {
        let snapshot = self.lsn();
        let inside = inside_batch(&self.from, &self.to, self.batch_end.as_deref(), self.direction);
        let bounds = (&self.from, &self.to);
        self.sources = view
            .memtables(snapshot)
            .filter(|memtable| !memtable.is_empty())
            .map(|memtable| {
                MemtableSource::starting_at(Arc::clone(memtable), self.direction, bounds, snapshot, &inside)
            })
            .filter(|source| source.current().is_some())
            .collect();
    }
}

/// Where `next_row` left the value.
enum FoundRow {
    Copied,
    InLeaf(usize),
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_row() {
            Ok(row) => row.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Notes the error of a read if it says that the snapshot was cancelled.
pub(crate) fn note_lost_snapshot(lost: &AtomicBool, error: &Error) {
    if matches!(error, Error::SnapshotCancelled { .. }) {
        lost.store(true, Ordering::Relaxed);
    }
}
