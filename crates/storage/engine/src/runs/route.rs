//! The route of a checkpoint's rows: into the main part of the tree, or into a run.
//!
//! ```text
//!   groups of the tree (the leaves below one level-1 page):   [  sparse  ] [ dense ] [ untouched ] [ sparse ]
//!   rows of the memtable, by range:                             run          direct                   run
//! ```
//! The choice is made by group, from the fences of its leaves beside the memtable's cursor. Of the main part no leaf is read, but for one of each
//! group where many rows are deleted, to see how many rows a leaf has.
//!
//! Changes are dense where they put many bytes into the leaves that they touch, and where they delete nearly all rows of these: such leaves
//! go without being written, and a run would let every scan step over the rows that it deletes.
//!
//! Invariant: no row goes directly where a run has it, too. There the run's row, which is older, would hide it. So rows of a group go directly
//! only if no run has a row from the first to the last of them: rows that are appended do, although runs have others of the group.

use std::ops::Range;

use seawall_memtable::Memtable;
use seawall_tree::{Change, Group, LeafCursor, MergeSource, Tree};
use seawall_types::{Lsn, TableId};

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::{FrozenRows, first_user_key};
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::runs::run::Runs;
use crate::sabotage::{Defect, sabotaged};

/// The share of the leaves that changes touch from which on these go directly, in percent. There writing the leaves twice costs as much
/// as writing the rows into a run and merging that later: measured, see `docs/decisions/0021-sparse-changes-go-into-runs.md`.
const DENSE_PERCENT: u64 = 40;
/// The share of the rows of the leaves that are touched which are deleted, in percent, from which on the changes go directly: at both ends
/// of a range that is deleted a leaf keeps a part of its rows. Below it many leaves would stay, with few rows: runs are merged into packed ones.
const GONE_PERCENT: u64 = 80;
/// What a row takes in a leaf beside its key and value, about.
const CELL_BYTES: usize = 6;
/// What the reference to a long value takes.
const REFERENCE_BYTES: usize = 16;

/// Ranges of row keys.
type Ranges = Vec<Range<Vec<u8>>>;

/// Where the rows of a memtable go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// All of them directly.
    Direct,
    /// By range.
    ByRange {
        /// Ranges whose rows go directly, ascending.
        direct: Ranges,
        /// Ranges whose rows go into a run, ascending; at least one. They lie between the others, and have no key of them.
        run: Ranges,
    },
}

/// Whether a checkpoint may write runs where it need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SparseRows {
    /// Sparse rows go into a run, where they touch so many leaves. Fewer go directly: a run takes two chunks, with their syncs, and readers
    /// look into it.
    IntoRun {
        leaves_min: u64,
        /// Bytes of leaves of which nearly all rows are deleted that may go directly; `None`: all. Where a snapshot needs these rows, what is
        /// merged in place is kept in memory for it, and a run waits until there is no such snapshot.
        gone_bytes_max: Option<u64>,
    },
    /// Rows go into a run only where one has rows already.
    Direct,
}

/// What a memtable changes in a group of the tree.
#[derive(Debug)]
struct TouchedGroup {
    range: Range<Vec<u8>>,
    /// From the first row that changes to the last one.
    changed: Range<Vec<u8>>,
    leaves: u64,
    /// Bytes of changes.
    bytes: u64,
    /// Rows that are deleted.
    deleted: u64,
    /// A key of a leaf between the first one that is touched and the last one.
    middle: Vec<u8>,
    has_long_values: bool,
}

impl TouchedGroup {
    fn is_dense(&self, page_bytes: u64) -> bool {
        self.bytes * 100 >= DENSE_PERCENT * self.leaves * page_bytes
    }

    /// Whether it is worth a look at a leaf how many of its rows are deleted: a full one has several.
    fn loses_rows(&self) -> bool {
        self.deleted >= 2 * self.leaves
    }

    /// Whether nearly all rows of the leaves that are touched are deleted.
    fn is_gone(&self, tree: &Tree) -> bool {
        // One that cannot be read tells nothing. Who needs its rows will say so.
        let sample = tree.leaf_fill(&self.middle).unwrap_or_default();
        sample.rows > 0 && self.deleted * 100 >= GONE_PERCENT * self.leaves * sample.rows
    }
}

/// Finds the route of the rows of a frozen memtable whose commits are later than `start`, without those of the storages `skipped`. `runs`
/// are all that there are. For who has the turn to change the tree.
///
/// # Errors
/// `Tree` for a page that cannot be read.
pub(crate) fn find_route(
    tree: &Tree,
    (memtable, start): (&Memtable, Lsn),
    skipped: &[TableId],
    runs: &Runs,
    sparse: SparseRows,
) -> Result<Route, Error> {
    if runs.is_empty() && sparse == SparseRows::Direct {
        return Ok(Route::Direct);
    }
    let page_bytes = tree.format().page_bytes() as u64;
    let mut rows = FrozenRows::of_users(memtable, start, skipped.to_vec());
    let mut in_runs = RowsOfRuns::begin(tree, runs);
    let mut groups: Vec<(Range<Vec<u8>>, Way)> = Vec::new();
    let mut sparse_leaves = 0;
    let are_enough =
        |leaves| matches!(sparse, SparseRows::IntoRun { leaves_min, .. } if leaves >= leaves_min);
    let mut gone_bytes_left = match sparse {
        SparseRows::IntoRun { gone_bytes_max, .. } => gone_bytes_max,
        SparseRows::Direct => Some(0),
    };
    while let Some(group) = next_group(tree, &mut rows)? {
        let is_dense = group.is_dense(page_bytes);
        let gone_bytes = group.leaves * page_bytes;
        // How large long values are is not known.
        let fits = gone_bytes_left.is_none_or(|left| gone_bytes <= left && !group.has_long_values);
        let may_go_whole = fits && !is_dense && group.loses_rows();
        let (way, is_sparse) = match sparse {
            // Whether a run has a row here matters only if too few others are sparse.
            _ if !is_dense && !may_go_whole && are_enough(sparse_leaves) => (Way::Run, true),
            _ if !sabotaged(Defect::DirectOverRun) && in_runs.has_row_in(&group.changed)? => {
                (Way::Run, !is_dense)
            }
            SparseRows::Direct => (Way::Direct, !is_dense),
            SparseRows::IntoRun { .. } if is_dense => (Way::Direct, false),
            SparseRows::IntoRun { .. } if may_go_whole && group.is_gone(tree) => {
                gone_bytes_left = gone_bytes_left.map(|left| left - gone_bytes);
                (Way::Direct, false)
            }
            SparseRows::IntoRun { .. } => (Way::Sparse, true),
        };
        if is_sparse {
            sparse_leaves += group.leaves;
        }
        groups.push((group.range, way));
    }
    let sparse_way = if are_enough(sparse_leaves) { Way::Run } else { Way::Direct };
    let groups = groups.into_iter().map(|(range, way)| match way {
        Way::Sparse => (range, sparse_way),
        way => (range, way),
    });
    Ok(joined(groups))
}

/// What becomes of the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Run,
    /// Into a run if there are enough of them.
    Sparse,
}

/// Ranges for groups, which ascend: neighbours that go the same way become one, with what is untouched between them.
fn joined(groups: impl Iterator<Item = (Range<Vec<u8>>, Way)>) -> Route {
    let (mut direct, mut run) = (Ranges::new(), Ranges::new());
    let mut last = None;
    for (range, way) in groups {
        let ranges = if way == Way::Direct { &mut direct } else { &mut run };
        match ranges.last_mut() {
            Some(before) if last == Some(way) => before.end = range.end,
            _ => ranges.push(range),
        }
        last = Some(way);
    }
    if run.is_empty() { Route::Direct } else { Route::ByRange { direct, run } }
}

/// The group of the next row, and what the rows of that group change; takes them.
fn next_group(tree: &Tree, rows: &mut FrozenRows<'_>) -> Result<Option<TouchedGroup>, Error> {
    let Some((first, _)) = rows.peek() else { return Ok(None) };
    let Some(group) = tree.groups(first, &[first, &[0]].concat()).next() else { return Ok(None) };
    let Group { lower, upper, leaves, has_long_values, .. } = group.map_err(|error| Error::tree(&error))?;
    let end = first_local_key().to_vec();
    let upper = upper.map_or(end.clone(), |upper| upper.min(end));
    let first = first.to_vec();
    let (range, changed) = (lower.max(first_user_key())..upper, first.clone()..first);
    let mut touched =
        TouchedGroup { range, changed, leaves: 0, bytes: 0, deleted: 0, middle: Vec::new(), has_long_values };
    let (mut leaf, mut first, mut last) = (0, None, None);
    let inline_bytes_max = tree.format().max_inline_value_bytes();
    while let Some((key, change)) = rows.peek().filter(|(key, _)| *key < &touched.range.end[..]) {
        leaf += leaves[leaf + 1..].iter().take_while(|next| next.lower.as_slice() <= key).count();
        if last.replace(leaf) != Some(leaf) {
            touched.leaves += 1;
        }
        first.get_or_insert(leaf);
        touched.bytes += bytes_in_leaf(key, change, inline_bytes_max);
        touched.deleted += u64::from(change == Change::Delete);
        touched.changed.end.clear();
        touched.changed.end.extend_from_slice(key);
        rows.advance();
    }
    // Behind the last row.
    touched.changed.end.push(0);
    let middle = usize::midpoint(first.unwrap_or(leaf), leaf);
    touched.middle.clone_from(&leaves[middle].lower);
    Ok(Some(touched))
}

/// Bytes that a change puts into a leaf, about.
fn bytes_in_leaf(key: &[u8], change: Change<'_>, inline_bytes_max: usize) -> u64 {
    let value_bytes = match change {
        Change::Delete => 0,
        Change::Put(value) if value.len() > inline_bytes_max => REFERENCE_BYTES,
        Change::Put(value) => value.len(),
    };
    (key.len() + value_bytes + CELL_BYTES) as u64
}

/// Answers whether runs have rows in ranges that ascend.
struct RowsOfRuns<'t> {
    tree: &'t Tree,
    /// Each with the row key at or before which it has no row from the last range on; `None` where it has none any more.
    runs: Vec<([u8; row_key::TABLE_BYTES], Option<Vec<u8>>)>,
}

impl<'t> RowsOfRuns<'t> {
    fn begin(tree: &'t Tree, runs: &Runs) -> RowsOfRuns<'t> {
        // The empty key is below every range.
        RowsOfRuns { tree, runs: runs.iter().map(|run| (run.prefix(), Some(Vec::new()))).collect() }
    }

    fn has_row_in(&mut self, range: &Range<Vec<u8>>) -> Result<bool, Error> {
        for (prefix, next) in &mut self.runs {
            // A row that was found behind an earlier range is still the next one if it is not below this range.
            if next.as_ref().is_some_and(|next| *next < range.start) {
                *next = first_row(self.tree, *prefix, &range.start)?;
            }
            if next.as_ref().is_some_and(|next| *next < range.end) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Engine {
    /// Whether a run has a row of the storage. For who has the turn to change the tree.
    pub(crate) fn is_in_runs(&self, storage: TableId) -> Result<bool, Error> {
        let (from, to) = row_key::table_range(storage);
        for run in self.view().runs.iter().filter(|run| run.may_have_rows_of(storage)) {
            if first_row(&self.tree, run.prefix(), &from)?.is_some_and(|first| first < to) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The row key of the first row at or after `from` in the run whose keys begin with `prefix`.
pub(crate) fn first_row(
    tree: &Tree,
    prefix: [u8; row_key::TABLE_BYTES],
    from: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let cursor =
        LeafCursor::seek(tree.pages(), &[&prefix, from].concat()).map_err(|error| Error::tree(&error))?;
    let key = cursor.row().map(|row| row.key.to_vec());
    Ok(key.and_then(|key| key.strip_prefix(&prefix).map(<[u8]>::to_vec)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};

    use super::*;
    use crate::database::Database;
    use crate::runs::testing::{checkpoint_into_run, open};

    const ROWS: u64 = 6_000;

    fn below(random: &mut SeededRandom, end: u64) -> usize {
        usize::try_from(random.below(end)).unwrap()
    }

    /// Changes rows of a few stretches: of some nearly all, of others one of many. Of some stretches rows are deleted only.
    fn change_stretches(database: &Database, tables: &[crate::Table], random: &mut SeededRandom) {
        for _ in 0..1 + random.below(5) {
            let table = &tables[below(random, tables.len() as u64)];
            let (from, length) = (random.below(ROWS), random.below(ROWS));
            let deletes = random.chance(1, 3);
            let step =
                if deletes { [1, 1, 2][below(random, 3)] } else { [1, 2, 7, 40, 150][below(random, 5)] };
            for number in (from..(from + length).min(ROWS)).step_by(step) {
                let key = number.to_be_bytes();
                match random.below(30) {
                    _ if deletes => database.delete(table, key).unwrap(),
                    0 => database.put(table, key, [3; 2_000]).unwrap(),
                    1..4 => database.delete(table, key).unwrap(),
                    _ => database.put(table, key, vec![3; below(random, 250)]).unwrap(),
                };
            }
        }
    }

    /// All keys of a run.
    fn keys_of(tree: &Tree, prefix: [u8; row_key::TABLE_BYTES]) -> Vec<Vec<u8>> {
        let (mut keys, mut from) = (Vec::new(), Vec::new());
        while let Some(key) = first_row(tree, prefix, &from).unwrap() {
            from = [&key[..], &[0]].concat();
            keys.push(key);
        }
        keys
    }

    /// How many rows a leaf of a group has.
    fn rows_of(tree: &Tree, group: &Group, leaf: usize) -> usize {
        let range =
            group.leaves[leaf].lower.clone()..group.upper_of(leaf).map_or(vec![0xFF; 20], <[u8]>::to_vec);
        let mut cursor = LeafCursor::seek(tree.pages(), &range.start).unwrap();
        let mut rows = 0;
        while cursor.row().is_some_and(|row| row.key.to_vec() < range.end) {
            rows += 1;
            cursor.advance(tree.pages()).unwrap();
        }
        rows
    }

    /// The keys that go into a run, by one look at each row and each group; and how many groups go directly because their leaves go whole.
    fn model(
        database: &Database,
        changed: &BTreeMap<Vec<u8>, (u64, bool)>,
        run_keys: &[Vec<u8>],
        sparse: SparseRows,
    ) -> (BTreeSet<Vec<u8>>, usize) {
        let tree = &database.engine().tree;
        let mut gone_whole = 0;
        let groups: Vec<Group> =
            tree.groups(&first_user_key(), &first_local_key()).map(Result::unwrap).collect();
        let mut found = Vec::new();
        for group in &groups {
            let is_in = |key: &[u8]| {
                group.lower[..] <= *key && group.upper.as_ref().is_none_or(|upper| *key < upper[..])
            };
            let keys: Vec<(&Vec<u8>, (u64, bool))> =
                changed.iter().filter(|(key, _)| is_in(key)).map(|(key, change)| (key, *change)).collect();
            let leaf_of = |key: &[u8]| group.leaves.iter().rposition(|leaf| leaf.lower[..] <= *key);
            let leaves: BTreeSet<_> = keys.iter().map(|(key, _)| leaf_of(key)).collect();
            let bytes: u64 = keys.iter().map(|(_, (bytes, _))| bytes).sum();
            let (first, last) = (keys.first().map(|(key, _)| *key), keys.last().map(|(key, _)| *key));
            let has_run_row = run_keys.iter().any(|key| first <= Some(key) && Some(key) <= last);
            let deleted = keys.iter().filter(|(_, (_, is_deleted))| *is_deleted).count();
            // Of a sample: of the leaves from the first that is touched to the last one, the one in the middle.
            let (first_leaf, last_leaf) =
                (leaves.first().copied().flatten(), leaves.last().copied().flatten());
            let sample =
                first_leaf.zip(last_leaf).map_or(0, |(first, last)| rows_of(tree, group, (first + last) / 2));
            let is_gone = matches!(sparse, SparseRows::IntoRun { gone_bytes_max: None, .. })
                && !has_run_row
                && sample > 0
                && deleted >= 2 * leaves.len()
                && deleted * 5 >= 4 * leaves.len() * sample;
            let is_dense = bytes * 10 >= leaves.len() as u64 * 4096 * 4;
            gone_whole += usize::from(is_gone && !is_dense);
            let is_dense = is_dense || is_gone;
            found.push((keys, leaves.len() as u64, is_dense, has_run_row));
        }
        let sparse_leaves: u64 =
            found.iter().filter(|(_, _, is_dense, _)| !is_dense).map(|(_, leaves, ..)| leaves).sum();
        let many = matches!(sparse, SparseRows::IntoRun { leaves_min, .. } if sparse_leaves >= leaves_min);
        let into_run =
            found.into_iter().filter(|(_, _, is_dense, has_run_row)| *has_run_row || (many && !is_dense));
        (into_run.flat_map(|(keys, ..)| keys.into_iter().map(|(key, _)| key.clone())).collect(), gone_whole)
    }

    #[test]
    fn the_route_is_that_of_a_model() {
        let (mut by_range, mut direct, mut gone) = (0, 0, 0);
        for seed in seeds(40) {
            let mut random = SeededRandom::new(seed);
            let database = open(&SimulatedDisk::new(seed)).unwrap();
            let tables = ["t", "u", "v"].map(|name| {
                let mut load = database.tables().bulk_load(name).unwrap();
                let step = [1, 3, 3_000][below(&mut random, 3)];
                let numbers = (0..ROWS).step_by(step);
                numbers.for_each(|number| load.add(number.to_be_bytes(), [1; 100]).unwrap());
                load.finish().unwrap()
            });
            database.checkpoint().unwrap();
            for _ in 0..random.below(4) {
                change_stretches(&database, &tables, &mut random);
                if database.engine().view().is_active_empty() {
                    continue;
                }
                checkpoint_into_run(database.engine(), 0);
            }
            change_stretches(&database, &tables, &mut random);
            let engine = database.engine();
            let view = engine.view();
            let mut run_keys = Vec::new();
            for run in view.runs.iter() {
                run_keys.extend(keys_of(&engine.tree, run.prefix()));
            }
            let skipped: Vec<TableId> =
                if random.chance(1, 3) { vec![TableId::new(tables[1].id())] } else { Vec::new() };
            let rows = || FrozenRows::of_users(&view.active, view.active_start, skipped.clone());
            let (mut changed, mut all) = (BTreeMap::new(), rows());
            while let Some((key, change)) = all.peek() {
                let bytes = bytes_in_leaf(key, change, engine.tree.format().max_inline_value_bytes());
                changed.insert(key.to_vec(), (bytes, change == Change::Delete));
                all.advance();
            }
            let gone_bytes_max = if random.chance(3, 4) { None } else { Some(0) };
            let into_run = |leaves_min| SparseRows::IntoRun { leaves_min, gone_bytes_max };
            for sparse in [into_run(1), into_run(8), into_run(64), SparseRows::Direct] {
                let (expected, gone_whole) = model(&database, &changed, &run_keys, sparse);
                gone += gone_whole;
                let route = find_route(
                    &engine.tree,
                    (&*view.active, view.active_start),
                    &skipped,
                    &view.runs,
                    sparse,
                );
                let (into_run, directly) = match route.unwrap() {
                    Route::Direct => (BTreeSet::new(), keys(rows())),
                    Route::ByRange { direct, run } => {
                        let directly = keys(rows().within(direct));
                        assert!(
                            run_keys.iter().all(|key| !directly.contains(key)),
                            "seed {seed}: directly below a run"
                        );
                        (keys(rows().within(run)), directly)
                    }
                };
                by_range += u32::from(!into_run.is_empty());
                direct += u32::from(!directly.is_empty());
                assert_eq!(into_run, expected, "seed {seed}, {sparse:?}");
                let rest: BTreeSet<Vec<u8>> =
                    changed.keys().filter(|key| !expected.contains(*key)).cloned().collect();
                assert_eq!(directly, rest, "seed {seed}, {sparse:?}");
            }
        }
        assert!(by_range > 10 && direct > 10 && gone > 20, "{by_range}, {direct}, {gone}");
    }

    fn keys(mut rows: FrozenRows<'_>) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        while let Some((key, _)) = rows.peek() {
            keys.insert(key.to_vec());
            rows.advance();
        }
        keys
    }
}
