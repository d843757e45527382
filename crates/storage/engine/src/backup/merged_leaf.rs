//! What a reader of the whole tree sees in a stretch of keys: a leaf of the main part, merged with the rows that sorted runs have there.
//!
//! ```text
//!   run (newer)     [   b'       |      h      ...      leaves of runs stand for wider ranges of keys
//!   run             [ a    c'       f   |      ...
//!   main part       | a  b  c  d |  e  f  g |  ...
//!   merged          | a  b' -  d |  f |  g h | ...      up to the nearest fence; c' says that c is deleted
//! ```
//! All leaves are of one version of the tree, in which each row is there once, or in a newer run than an older value of it. Memtables are
//! not looked at: a run that was listed after the view was taken may be missing, and its rows are in the log behind the redo point before it.

use std::ops::Range;
use std::sync::Arc;

use seawall_tree::page::LeafValue;
use seawall_tree::{Direction, LeafPosition};
use seawall_types::Lsn;

use super::row_sum::RowSum;
use crate::catalog::first_local_key;
use crate::engine::Engine;
use crate::error::Error;
use crate::runs::run::{Run, RunNumber};

/// A leaf, of the main part or of a run.
struct Source {
    /// `None`: the main part.
    run: Option<RunNumber>,
    position: LeafPosition,
    /// Bytes of its keys before the row keys.
    prefix: Vec<u8>,
    /// Its rows in the stretch.
    rows: Range<usize>,
}

impl Source {
    fn new(engine: &Engine, run: Option<&Run>, from: &[u8]) -> Result<Source, Error> {
        let prefix = run.map(|run| run.prefix().to_vec()).unwrap_or_default();
        let position = engine.tree.leaf_for(&[&prefix, from].concat(), Direction::Forward);
        let position = position.map_err(|error| Error::tree(&error))?;
        Ok(Source { run: run.map(|run| run.number), position, prefix, rows: 0..0 })
    }

    /// Moves to the leaf around `from`, unless it is there in this version.
    fn move_to(&mut self, engine: &Engine, from: &[u8], version: u64) -> Result<(), Error> {
        let key = [&self.prefix, from].concat();
        let (lower, upper) = (self.position.lower(), self.position.upper());
        let is_there =
            lower.is_none_or(|lower| lower <= &key[..]) && upper.is_none_or(|upper| &key[..] < upper);
        if self.position.version() != version || !is_there {
            let moved = engine.tree.move_to(&mut self.position, &key, Direction::Forward);
            moved.map_err(|error| Error::tree(&error))?;
        }
        Ok(())
    }

    /// The row key where its range ends; `None` at the right end of the main part or of the run.
    fn upper(&self) -> Option<&[u8]> {
        self.position.upper()?.strip_prefix(&self.prefix[..])
    }

    /// Sets its rows to those of `from..to`.
    fn limit(&mut self, from: &[u8], to: &[u8]) {
        let leaf = self.position.leaf();
        let index =
            |row_key: &[u8]| leaf.search(&[&self.prefix, row_key].concat()).unwrap_or_else(|above| above);
        self.rows = index(from)..index(to);
    }

    fn put_key(&self, index: usize, key: &mut Vec<u8>) {
        key.clear();
        self.position.leaf().key(index).skip(self.prefix.len()).append_to(key);
    }
}

/// See the module.
pub(super) struct MergedLeaf {
    version: u64,
    /// Runs, newest first, then the main part.
    sources: Vec<Source>,
    /// Where the next one begins; `None` if this is the last one.
    upper: Option<Vec<u8>>,
    /// Its rows: index of the source, and of the row in the leaf. Those that are deleted are left out.
    rows: Vec<(usize, usize)>,
    /// Whether they are those that the main part has, all of them.
    is_main_alone: bool,
}

impl MergedLeaf {
    /// The one that begins at `from`. `last` is that before, if there is one: leaves of it are used on.
    pub(super) fn at(engine: &Engine, from: &[u8], last: Option<MergedLeaf>) -> Result<MergedLeaf, Error> {
        let (mut before, mut rows) = last.map(|last| (last.sources, last.rows)).unwrap_or_default();
        'version: loop {
            let version = engine.tree.version();
            let view = engine.view.load_full();
            // A view that is newer than the version may lack a run that still has rows in it.
            if engine.tree.version() != version {
                continue;
            }
            let mut sources = Vec::with_capacity(view.runs.len() + 1);
            for run in view.runs.iter().map(Some).chain([None]) {
                let number = run.map(|run| run.number);
                let held = before.iter().position(|source| source.run == number);
                let source = match held.map(|place| before.swap_remove(place)) {
                    Some(mut source) => {
                        source.move_to(engine, from, version)?;
                        source
                    }
                    None => Source::new(engine, run.map(Arc::as_ref), from)?,
                };
                let is_of_version = source.position.version() == version;
                sources.push(source);
                if !is_of_version {
                    before.append(&mut sources);
                    continue 'version;
                }
            }
            let upper = sources.iter().filter_map(Source::upper).min();
            let upper = upper.filter(|upper| *upper < &first_local_key()[..]).map(<[u8]>::to_vec);
            let to = upper.as_deref().unwrap_or(&first_local_key()[..]).to_vec();
            sources.iter_mut().for_each(|source| source.limit(from, &to));
            rows.clear();
            let mut merged = MergedLeaf { version, sources, upper, rows, is_main_alone: false };
            merged.merge(engine)?;
            return Ok(merged);
        }
    }

    fn merge(&mut self, engine: &Engine) -> Result<(), Error> {
        let (main, runs) = (self.sources.len() - 1, &self.sources[..self.sources.len() - 1]);
        let leaf = self.sources[main].position.leaf();
        if leaf.has_deleted()
            && self.sources[main].rows.clone().any(|row| leaf.value(row) == LeafValue::Deleted)
        {
            let page = self.sources[main].position.page().view().id();
            return Err(Error::tree(&engine.tree.pages().deleted_outside_of_runs(page)));
        }
        if runs.iter().all(|run| run.rows.is_empty()) {
            self.rows.extend(self.sources[main].rows.clone().map(|row| (main, row)));
            self.is_main_alone = true;
            return Ok(());
        }
        let mut next: Vec<usize> = self.sources.iter().map(|source| source.rows.start).collect();
        let key_at = |source: usize, row: usize| {
            let source = &self.sources[source];
            (row < source.rows.end).then(|| source.position.leaf().key(row).skip(source.prefix.len()))
        };
        loop {
            // The newest of those with the least key.
            let mut least = None;
            for (source, row) in next.iter().enumerate() {
                let Some(key) = key_at(source, *row) else { continue };
                if least.as_ref().is_none_or(|(_, least)| key < *least) {
                    least = Some((source, key));
                }
            }
            let Some((source, key)) = least else { return Ok(()) };
            let row = next[source];
            if self.sources[source].position.leaf().value(row) != LeafValue::Deleted {
                self.rows.push((source, row));
            }
            for (source, next) in next.iter_mut().enumerate() {
                *next += usize::from(key_at(source, *next).is_some_and(|other| other == key));
            }
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Where the next one begins; `None` if this is the last one.
    pub(super) fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// The leaf of the main part.
    pub(super) fn main(&self) -> &LeafPosition {
        &self.sources[self.sources.len() - 1].position
    }

    /// No change among its rows is newer, deletions included.
    pub(super) fn stamp(&self) -> Lsn {
        let runs = &self.sources[..self.sources.len() - 1];
        let of_runs = runs.iter().filter(|run| !run.rows.is_empty());
        of_runs
            .map(|run| &run.position)
            .chain([self.main()])
            .map(|leaf| leaf.page().view().lsn())
            .max()
            .unwrap_or_default()
    }

    /// How many rows it has.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Writes the key of a row.
    pub(super) fn put_key(&self, index: usize, key: &mut Vec<u8>) {
        let (source, row) = self.rows[index];
        self.sources[source].put_key(row, key);
    }

    pub(super) fn key(&self, index: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.put_key(index, &mut key);
        key
    }

    /// Adds rows to a sum over them.
    pub(super) fn add_to(&self, sum: &mut RowSum, rows: Range<usize>) {
        let main = &self.sources[self.sources.len() - 1];
        if self.is_main_alone {
            let first = main.rows.start;
            return sum.add_rows(&main.position.leaf(), first + rows.start..first + rows.end);
        }
        let mut key = Vec::new();
        for index in rows {
            self.put_key(index, &mut key);
            sum.add(&key, self.value(index));
        }
    }

    pub(super) fn value(&self, index: usize) -> LeafValue<'_> {
        let (source, row) = self.rows[index];
        self.sources[source].position.leaf().value(row)
    }
}
