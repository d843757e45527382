//! The merge behind a scan: the transaction's own writes, the memtables, the leaves of runs and of the tree, row by row.
//!
//! It borrows nothing, so a scan may borrow the engine and the writes ([`Range`](super::Range)) or own them
//! ([`Scan`](super::Scan)): each call names them anew, and they must be the same ones each time.

use std::ops::Bound;
use std::sync::Arc;

use seawall_tree::page::{LeafValue, OverflowReference};
use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::view::View;
use crate::transaction::write_set::WriteSet;

use super::bounds::inside_batch;
use super::held_leaf::HeldLeaf;
use super::leaf_rows::LeafRows;
use super::memtable_source::{Found, MemtableSource};
use super::run_source::{RunSource, may_have_rows_in};
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
    Run(usize),
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
    /// Runs that can have rows in the range, newest first, whether they have some in the batch or not.
    runs: Vec<RunSource>,
    /// The leaf of the main part of the tree.
    held: Option<HeldLeaf>,
    /// Its rows in the batch.
    leaf: Option<LeafRows>,
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
            runs: Vec::new(),
            held: None,
            leaf: None,
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
        let in_leaf = self.leaf.as_ref().is_some_and(|leaf| leaf.is_plain);
        in_leaf && self.is_leaf_alone(sources.writes)
    }

    /// Whether no other source has a row in the rest of the batch.
    fn is_leaf_alone(&self, writes: Option<&WriteSet>) -> bool {
        self.memtables.is_empty() && writes.is_none() && self.runs.iter().all(|run| run.current().is_none())
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
        if self.is_leaf_alone(writes) {
            return leaf.map(|_| Place::Leaf);
        }
        let mut nearest: Option<(&[u8], Place)> = None;
        let writes = self.next_written(writes).map(|(key, _)| (key, Place::Writes));
        let memtables = self
            .memtables
            .iter()
            .enumerate()
            .filter_map(|(index, source)| source.current().map(|key| (key, Place::Memtable(index))));
        let runs = self.runs.iter().enumerate();
        let runs = runs.filter_map(|(index, run)| run.current().map(|key| (key, Place::Run(index))));
        let leaf = leaf.map(|leaf| (&leaf.key[..], Place::Leaf));
        for (key, place) in writes.into_iter().chain(memtables).chain(runs).chain(leaf) {
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
            Place::Run(index) => self.take_run_row(index, sources.engine)?,
            Place::Leaf => Some(self.take_leaf_row(sources.engine)?),
        };
        self.pass_key(sources);
        Ok(found)
    }

    /// As `take_row`, without moving anything.
    fn take_run_row(&mut self, index: usize, engine: &Engine) -> Result<Option<FoundRow>, Error> {
        let run = &self.runs[index];
        self.key.clear();
        self.key.extend_from_slice(run.current().expect("the nearest row is in it"));
        match run.value(self.direction) {
            LeafValue::Inline(value) => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
            LeafValue::Overflow(reference) => {
                let version = run.held.version();
                self.read_overflow(engine, reference, version)?;
            }
            LeafValue::Deleted => return Ok(None),
        }
        Ok(Some(FoundRow::Copied))
    }

    fn take_leaf_row(&mut self, engine: &Engine) -> Result<FoundRow, Error> {
        let leaf = self.leaf.as_mut().expect("the nearest row is in it");
        let index = leaf.index(self.direction);
        self.key.clone_from(&leaf.key);
        let value = leaf.page.view().leaf().expect("a descent ends at a leaf").row(index).value;
        let overflow = match value {
            LeafValue::Inline(_) => None,
            LeafValue::Overflow(reference) => Some(reference),
            LeafValue::Deleted => {
                let damage = engine.tree.pages().deleted_outside_of_runs(leaf.page.view().id());
                return Err(Error::tree(&damage));
            }
        };
        leaf.advance(self.direction);
        match overflow {
            None => Ok(FoundRow::InLeaf(index)),
            Some(reference) => {
                let version = self.held.as_ref().expect("the row was found in it").version();
                self.read_overflow(engine, reference, version)?;
                Ok(FoundRow::Copied)
            }
        }
    }

    /// Reads the long value of the row `self.key`, which a leaf of this version refers to.
    fn read_overflow(
        &mut self,
        engine: &Engine,
        reference: OverflowReference,
        version: u64,
    ) -> Result<(), Error> {
        let read = engine.tree.read_overflow(reference, version);
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
        for run in &mut self.runs {
            if run.current().is_some_and(|at| at == &key[..]) {
                run.advance(self.direction);
            }
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

    /// Reads the leaves at the near end of the range, and sets the memtables to them.
    fn load_batch(&mut self, sources: Sources<'_>) -> Result<(), Error> {
        if !self.even_if_closed {
            sources.engine.lifecycle.check_open()?;
        }
        let view = self.hold_leaves(sources.engine)?;
        let held = self.held.as_ref().expect("it is held now");
        self.batch_end = nearest_fence(held, &self.runs, self.direction).map(<[u8]>::to_vec);
        let batch_end = self.batch_end.as_deref();
        let rows = held.rows_in(&self.from, &self.to, batch_end, self.direction);
        let key = self.leaf.take().map(|leaf| leaf.key).unwrap_or_default();
        self.leaf = Some(LeafRows::new(held.page().clone(), rows, self.direction, key));
        for run in &mut self.runs {
            run.begin_batch((&self.from, &self.to), batch_end, self.direction);
        }
        self.load_memtables(&view);
        self.view = Some(view);
        self.plain = self.is_plain(sources);
        Ok(())
    }

    /// Holds the leaves where the rest of the range begins, and returns the memtables and runs that together with them show the whole
    /// snapshot: see the module above.
    fn hold_leaves(&mut self, engine: &Engine) -> Result<Arc<View>, Error> {
        loop {
            let version = engine.tree.version();
            let view = engine.view.load_full();
            // A view that is newer than the version may lack a run that still has rows in leaves that are held.
            if engine.tree.version() != version {
                continue;
            }
            engine.check_snapshot(self.lsn())?;
            if self.hold_main_leaf(engine, version)? && self.hold_run_leaves(engine, version, &view)? {
                return Ok(view);
            }
        }
    }

    /// Holds the leaf of the main part; `false` if the tree is not that of `version` any more.
    fn hold_main_leaf(&mut self, engine: &Engine, version: u64) -> Result<bool, Error> {
        if !self.held.as_ref().is_some_and(|held| self.can_use(held, version)) {
            self.held = Some(self.descend(engine, &[])?);
        }
        Ok(self.held.as_ref().is_some_and(|held| held.version() == version))
    }

    /// As `hold_main_leaf`, for each run that the snapshot reads and that can have rows in the range.
    fn hold_run_leaves(&mut self, engine: &Engine, version: u64, view: &View) -> Result<bool, Error> {
        if view.runs.is_empty() {
            self.runs.clear();
            return Ok(true);
        }
        let mut held_before = std::mem::take(&mut self.runs);
        for run in view.runs(self.lsn()).filter(|run| may_have_rows_in(run, &self.from, &self.to)) {
            let before = held_before.iter().position(|source| source.run.number == run.number);
            let source = match before.map(|place| held_before.remove(place)) {
                Some(source) if self.can_use(&source.held, version) => source,
                _ => RunSource::new(Arc::clone(run), self.descend(engine, &run.prefix())?),
            };
            let is_of_version = source.held.version() == version;
            self.runs.push(source);
            if !is_of_version {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The end of the rest of the range where the scan goes on.
    fn near_end(&self) -> &Bound<Vec<u8>> {
        match self.direction {
            Direction::Forward => &self.from,
            Direction::Reverse => &self.to,
        }
    }

    fn can_use(&self, held: &HeldLeaf, version: u64) -> bool {
        held.version() == version && held.covers(self.near_end(), self.direction)
    }

    /// The leaf where the rest of the range begins, among the keys with this prefix.
    fn descend(&self, engine: &Engine, prefix: &[u8]) -> Result<HeldLeaf, Error> {
        let near = self.near_end();
        let row_key: &[u8] = match near {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        // Going backwards from an included end, the leaf to start with is the one that would hold that very key.
        let direction = match (self.direction, near) {
            (Direction::Reverse, Bound::Included(_)) => Direction::Forward,
            (direction, _) => direction,
        };
        let in_run;
        let key = if prefix.is_empty() {
            row_key
        } else {
            in_run = [prefix, row_key].concat();
            &in_run
        };
        let position = engine.tree.leaf_for(key, direction);
        Ok(HeldLeaf::new(position.map_err(|error| Error::tree(&error))?, prefix))
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

/// The first fence that a scan in `direction` meets; `None` if all leaves are the last ones.
fn nearest_fence<'h>(held: &'h HeldLeaf, runs: &'h [RunSource], direction: Direction) -> Option<&'h [u8]> {
    let fences = std::iter::once(held).chain(runs.iter().map(|run| &run.held));
    let fences = fences.filter_map(|held| held.far_fence(direction));
    match direction {
        Direction::Forward => fences.min(),
        Direction::Reverse => fences.max(),
    }
}

/// Where `find_row` left the value.
enum FoundRow {
    Copied,
    InLeaf(usize),
}
