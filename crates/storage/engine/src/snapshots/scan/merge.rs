//! The merge behind a scan: the transaction's own writes, the memtables and the leaves of the tree, row by row.
//!
//! It borrows nothing, so a scan may borrow the engine and the writes ([`Range`](super::Range)) or own them
//! ([`Scan`](super::Scan)): each call names them anew, and they must be the same ones each time.

use std::ops::Bound;
use std::sync::Arc;

use seawall_tree::LeafPosition;
use seawall_tree::page::{LeafValue, OverflowReference};
use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::view::View;
use crate::transaction::write_set::WriteSet;

use super::bounds::inside_batch;
use super::leaf_rows::LeafRows;
use super::memtable_source::{Found, MemtableSource};
use super::{Direction, LentRow, is_empty_range};

/// What the merge reads besides the memtables that it has found.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    pub(super) engine: &'s Engine,
    /// What the transaction itself has written, if any of it is in the range.
    pub(super) writes: Option<&'s WriteSet>,
}

/// Which source the next row comes from.
#[derive(Clone, Copy, Debug)]
enum Place {
    Writes,
    Memtable(usize),
    Leaf,
}

/// See the module.
pub(super) struct Merge {
    snapshot: RegisteredSnapshot,
    direction: Direction,
    /// What is left of the range: its near end moves with the rows given out.
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
    /// Memtables as of the last batch.
    view: Option<Arc<View>>,
    memtables: Vec<MemtableSource>,
    leaf: Option<LeafRows>,
    /// Version of the tree at which the leaf was read.
    leaf_version: u64,
    /// Fence at the far end of the batch; `None`: the batch reaches the end of the tree.
    batch_end: Option<Vec<u8>>,
    /// See `is_plain`.
    plain: bool,
    /// The engine's own scan, which its last checkpoint needs.
    pub(super) even_if_closed: bool,
    started: bool,
    done: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Merge {
    pub(super) fn new(
        snapshot: RegisteredSnapshot,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
    ) -> Merge {
        Merge {
            snapshot,
            direction,
            done: is_empty_range(&from, &to),
            from,
            to,
            view: None,
            memtables: Vec::new(),
            leaf: None,
            leaf_version: 0,
            batch_end: None,
            plain: false,
            even_if_closed: false,
            started: false,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn lsn(&self) -> Lsn {
        self.snapshot.lsn()
    }

    /// The next row, with its whole key in the tree, lent until the next call; `None` at the end. After an error it is at the
    /// end.
    #[inline]
    pub(super) fn next(&mut self, sources: Sources<'_>) -> Result<Option<LentRow<'_>>, Error> {
        if self.plain && !self.done && self.leaf.as_ref().is_some_and(|leaf| !leaf.is_done()) {
            let leaf = self.leaf.as_mut().expect("it was just looked at");
            return Ok(Some(leaf.take(self.direction)));
        }
        self.next_merged(sources)
    }

    fn next_merged(&mut self, sources: Sources<'_>) -> Result<Option<LentRow<'_>>, Error> {
        match self.find_row(sources) {
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
                Err(error)
            }
        }
    }

    /// Whether, for the rest of the batch, rows come from the leaf and from nowhere else.
    fn is_plain(&self, sources: Sources<'_>) -> bool {
        let in_leaf = self.leaf.as_ref().is_some_and(|leaf| !leaf.has_overflow);
        in_leaf && self.memtables.is_empty() && sources.writes.is_none()
    }

    fn find_row(&mut self, sources: Sources<'_>) -> Result<Option<FoundRow>, Error> {
        while !self.done {
            if !self.started {
                self.started = true;
                self.load_batch(sources)?;
            }
            match self.nearest(sources.writes) {
                Some(place) => {
                    if let Some(row) = self.take_row(place, sources)? {
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
                        self.load_batch(sources)?;
                    }
                },
            }
        }
        Ok(None)
    }

    /// The source whose next row comes first; of several that stand at one key, the topmost.
    fn nearest(&self, writes: Option<&WriteSet>) -> Option<Place> {
        let leaf = self.leaf.as_ref().filter(|leaf| !leaf.is_done());
        if self.memtables.is_empty() && writes.is_none() {
            return leaf.map(|_| Place::Leaf);
        }
        let mut nearest: Option<(&[u8], Place)> = None;
        let writes = self.next_written(writes).map(|(key, _)| (key, Place::Writes));
        let memtables = self
            .memtables
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
    fn next_written<'w>(&self, writes: Option<&'w WriteSet>) -> Option<(&'w [u8], Option<&'w [u8]>)> {
        let writes = writes?;
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
    fn take_row(&mut self, place: Place, sources: Sources<'_>) -> Result<Option<FoundRow>, Error> {
        let found = match place {
            Place::Writes => {
                let (key, value) =
                    self.next_written(sources.writes).expect("the nearest row is a written one");
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
                let source = &mut self.memtables[index];
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
            Place::Leaf => Some(self.take_leaf_row(sources.engine)?),
        };
        self.pass_key(sources);
        Ok(found)
    }

    fn take_leaf_row(&mut self, engine: &Engine) -> Result<FoundRow, Error> {
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
                self.read_overflow(engine, reference)?;
                Ok(FoundRow::Copied)
            }
        }
    }

    fn read_overflow(&mut self, engine: &Engine, reference: OverflowReference) -> Result<(), Error> {
        let read = engine.tree.read_overflow(reference, self.leaf_version);
        if let Some(value) = read.map_err(|error| Error::tree(&error))? {
            self.value = value;
            return Ok(());
        }
        // The extent may have been given up, and written over, since the leaf was read: the row is read anew.
        let row = engine.read_row(&self.key, self.lsn(), |value| value.map(<[u8]>::to_vec))?;
        self.value = row.expect("a snapshot does not change: a row that it saw is there");
        Ok(())
    }

    /// Moves on every source that stands at `self.key`, and the near end of the range.
    fn pass_key(&mut self, sources: Sources<'_>) {
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
        let snapshot = self.lsn();
        let inside = inside_batch(&self.from, &self.to, self.batch_end.as_deref(), self.direction);
        for source in &mut self.memtables {
            if source.current().is_some_and(|at| at == &key[..]) {
                source.advance(self.direction, snapshot, &inside);
            }
        }
        self.memtables.retain(|source| source.current().is_some());
        self.plain = self.is_plain(sources);
    }

    /// Reads the leaf at the near end of the range, and sets the memtables to it.
    fn load_batch(&mut self, sources: Sources<'_>) -> Result<(), Error> {
        if !self.even_if_closed {
            sources.engine.lifecycle.check_open()?;
        }
        let (position, view) = self.read_leaf(sources.engine)?;
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
        self.plain = self.is_plain(sources);
        Ok(())
    }

    /// The leaf, and memtables that together with it show the whole snapshot: see the module.
    fn read_leaf(&self, engine: &Engine) -> Result<(LeafPosition, Arc<View>), Error> {
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
            let version = engine.tree.version();
            let view = engine.view.load_full();
            engine.check_snapshot(self.lsn())?;
            let position = engine.tree.leaf_for(key, direction).map_err(|error| Error::tree(&error))?;
            if position.version() == version {
                return Ok((position, view));
            }
        }
    }

    fn load_memtables(&mut self, view: &Arc<View>) {
        let snapshot = self.lsn();
        let inside = inside_batch(&self.from, &self.to, self.batch_end.as_deref(), self.direction);
        let bounds = (&self.from, &self.to);
        self.memtables = view
            .memtables(snapshot)
            .filter(|memtable| !memtable.is_empty())
            .map(|memtable| {
                MemtableSource::starting_at(Arc::clone(memtable), self.direction, bounds, snapshot, &inside)
            })
            .filter(|source| source.current().is_some())
            .collect();
    }
}

/// Where `find_row` left the value.
enum FoundRow {
    Copied,
    InLeaf(usize),
}
