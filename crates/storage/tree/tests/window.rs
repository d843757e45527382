//! Windows over runs against a model of versions, and with power lost at every call.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::{
    Changes, Model, Workload, apply_to, assert_contains, create, lose_power_everywhere, merge, open,
};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_tree::{Change, Direction, OldValues, Part, RUN_NUMBERS, StoredRun, Tree, TreeError};
use seawall_types::Lsn;

/// Runs are listed under this number.
const LIST: u64 = 1 << 63;
const FILTERS: u64 = (1 << 63) + (1 << 61);
const STAMP: Lsn = Lsn::new(1_000_000);
const ROWS_PER_SEGMENT: usize = 50;

/// What the tree and its runs are to hold.
#[derive(Clone, Debug, Default)]
struct Stored {
    main: Model,
    /// The newest first.
    runs: Vec<(u64, Changes)>,
    next_run: u64,
}

fn stored_run(number: u64) -> StoredRun {
    let listed = [LIST.to_be_bytes(), number.to_be_bytes()].concat();
    StoredRun { rows: RUN_NUMBERS.start + number, filter: FILTERS + number, listed }
}

fn range_of(number: u64) -> Range<Vec<u8>> {
    number.to_be_bytes().to_vec()..(number + 1).to_be_bytes().to_vec()
}

/// The keys of users.
fn everything() -> Range<Vec<u8>> {
    Vec::new()..LIST.to_be_bytes().to_vec()
}

impl Stored {
    /// What somebody reads who looks at runs, the newest first, and then at the tree.
    fn seen(&self) -> Model {
        let mut seen = self.main.clone();
        for (_, rows) in self.runs.iter().rev() {
            apply_to(&mut seen, rows);
        }
        seen
    }

    fn stored_runs(&self) -> Vec<StoredRun> {
        self.runs.iter().map(|(number, _)| stored_run(*number)).collect()
    }

    /// Writes a run as a checkpoint does: its rows, a filter of segments, and the row that lists it, in one chunk.
    fn write_run(&mut self, tree: &Arc<Tree>, rows: Changes, stamp: Lsn) {
        let number = self.next_run;
        self.next_run += 1;
        let run = stored_run(number);
        let all = range_of(run.rows);
        let mut load = tree.bulk_loader(&all.start, &all.end, stamp);
        let all = range_of(run.filter);
        let mut filter = tree.bulk_loader(&all.start, &all.end, stamp);
        for (index, (key, value)) in rows.iter().enumerate() {
            if index % ROWS_PER_SEGMENT == 0 {
                let segment: &[u8] = if index == 0 { &[] } else { key };
                filter.push(&[&run.filter.to_be_bytes(), segment].concat(), &[9; 100]).unwrap();
            }
            load.push_change(&run.key(key), value.as_deref().map_or(Change::Delete, Change::Put)).unwrap();
        }
        let parts = vec![
            Part::Put { key: run.listed, value: vec![1; 88] },
            Part::Graft { load: Box::new(load), values: OldValues::Free },
            Part::Graft { load: Box::new(filter), values: OldValues::Free },
        ];
        let plan = tree.swap(parts, &[], stamp).unwrap();
        tree.apply_chunk(plan, None).unwrap();
        self.runs.insert(0, (number, rows));
    }

    /// What a window over the runs from index `first` on makes of it.
    fn merge_window(&mut self, range: &Range<Vec<u8>>, first: usize, changes: &Changes) {
        for (_, rows) in self.runs[first..].iter_mut().rev() {
            let taken: Changes = rows.extract_if(range.clone(), |_, _| true).collect();
            apply_to(&mut self.main, &taken);
        }
        apply_to(&mut self.main, changes);
        let mut index = 0;
        self.runs.retain(|(_, rows)| {
            index += 1;
            index <= first || !rows.is_empty()
        });
    }

    /// Rows, runs and list are all there and nothing else, except that what is left of filters may be more than is needed.
    fn assert_stored(&self, tree: &Tree, context: &str) {
        let mut expected: Changes =
            self.main.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        for (number, rows) in &self.runs {
            let run = stored_run(*number);
            expected.insert(run.listed.clone(), Some(vec![1; 88]));
            expected.extend(rows.iter().map(|(key, value)| (run.key(key), value.clone())));
        }
        // Filters only of runs that are there; each row that is left has its segment.
        let found = common::contents(tree);
        let filters = found.range(FILTERS.to_be_bytes().to_vec()..);
        for (key, value) in filters {
            let number = u64::from_be_bytes(key[..8].try_into().unwrap()) - FILTERS;
            assert!(self.runs.iter().any(|(run, _)| *run == number), "{context}: a filter of run {number}");
            expected.insert(key.clone(), value.clone());
        }
        assert_contains(tree, &expected, context);
        for (number, rows) in &self.runs {
            let run = stored_run(*number);
            for row_key in rows.keys().step_by(9) {
                let (from, to) =
                    (range_of(run.filter).start, [&run.filter.to_be_bytes()[..], row_key, &[0]].concat());
                let segment = found.range(from..to).next_back();
                let begins = self.segment_begins(*number, row_key, &found);
                assert!(segment.is_some() && begins, "{context}: no segment for a row of run {number}");
            }
        }
    }

    /// Whether the segment before a row is the one that it was written into: none between was cut.
    fn segment_begins(&self, number: u64, row_key: &[u8], found: &Changes) -> bool {
        let Some(of_run) = self.runs.iter().find(|(run, _)| *run == number) else { return false };
        let run = stored_run(number);
        let segment_key = |key: &[u8]| [&run.filter.to_be_bytes(), key].concat();
        let before = found.range(range_of(run.filter).start..=segment_key(row_key)).next_back();
        // At most a segment's rows lie between its start and a row.
        before.is_some_and(|(start, _)| {
            of_run.1.range(start[8..].to_vec()..=row_key.to_vec()).count() <= ROWS_PER_SEGMENT
        })
    }
}

fn workload(seed: u64, tree: &Tree) -> Workload {
    Workload {
        random: SeededRandom::new(seed),
        key_space: [200, 2_000, 20_000][usize::try_from(seed % 3).unwrap()],
        long_keys: seed % 4 == 1,
        max_key_bytes: tree.max_key_bytes() - 8,
    }
}

fn random_window(work: &mut Workload) -> Range<Vec<u8>> {
    let (one, other) = (work.key(), work.key());
    match work.random.below(8) {
        0 => everything(),
        1 => Vec::new()..one.max(vec![1]),
        2 => one..LIST.to_be_bytes().to_vec(),
        _ if one == other => everything(),
        _ => one.clone().min(other.clone())..one.max(other),
    }
}

#[test]
fn windows_take_what_is_oldest_and_change_nothing_that_is_seen() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        let page_bytes = [4096, 4096, 8192][usize::try_from(seed % 3).unwrap()];
        let mut tree = Arc::new(create(&disk, page_bytes));
        let mut stored = Stored::default();
        let mut work = workload(seed, &tree);
        for round in 0..14 {
            let context = format!("seed {seed}, round {round}");
            let seen = stored.seen();
            match work.random.below(5) {
                0 | 1 => {
                    let count = 1 + work.random.below(900);
                    let changes = work.changes(count, 3);
                    if stored.runs.is_empty() && work.random.chance(1, 2) {
                        merge(&tree, &changes, u64::MAX).unwrap();
                        apply_to(&mut stored.main, &changes);
                    } else {
                        stored.write_run(&tree, changes, STAMP);
                    }
                }
                2 if stored.runs.len() > 1 => merge_runs(&tree, &mut stored, &mut work),
                _ => {
                    let range = random_window(&mut work);
                    let first = work.random.index(stored.runs.len() + 1);
                    // Changes go straight into a window only where no younger run has rows.
                    let changes = if first == 0 && work.random.chance(1, 2) {
                        let changes = work.changes(200, 3);
                        changes.into_iter().filter(|(key, _)| range.contains(key)).collect()
                    } else {
                        Changes::new()
                    };
                    window(&tree, &mut stored, &range, first, &changes);
                    let mut expected = seen;
                    apply_to(&mut expected, &changes);
                    assert_eq!(stored.seen(), expected, "{context}");
                }
            }
            stored.assert_stored(&tree, &context);
            if work.random.chance(1, 4) {
                drop(tree);
                tree = Arc::new(open(&disk));
            }
        }
        let seen = stored.seen();
        tree.settle_runs(&everything(), &stored.stored_runs(), 50_000, STAMP).unwrap();
        stored = Stored { main: seen, ..Stored::default() };
        stored.assert_stored(&tree, &format!("seed {seed}, settled"));
        tree.settle_runs(&everything(), &[], 50_000, STAMP).unwrap();
    }
}

fn window(tree: &Arc<Tree>, stored: &mut Stored, range: &Range<Vec<u8>>, first: usize, changes: &Changes) {
    let runs = stored.stored_runs();
    let mut source = common::Source::new(changes);
    let nothing_left = |run: &(u64, Changes)| !run.1.keys().any(|key| !range.contains(key));
    let expected: Vec<usize> = stored.runs[first..]
        .iter()
        .enumerate()
        .filter(|(_, run)| nothing_left(run))
        .map(|(index, _)| index)
        .collect();
    let merged =
        tree.merge_window(range.clone(), &runs[first..], Some(&mut source), &|_| false, STAMP).unwrap();
    assert_eq!(merged.emptied, expected);
    tree.apply_chunk(merged.chunk, None).unwrap();
    assert_eq!(source.taken(), changes.len());
    stored.merge_window(range, first, changes);
    assert_eq!(merged.rows, stored.main.range(range.clone()).count() as u64);
}

/// Neighbours in age become one run, in a few steps, and the chunk that grafts it cuts them.
fn merge_runs(tree: &Arc<Tree>, stored: &mut Stored, work: &mut Workload) {
    let first = work.random.index(stored.runs.len() - 1);
    let end = first + 2 + work.random.index(stored.runs.len() - first - 1);
    let runs = stored.stored_runs();
    let target = stored_run(stored.next_run);
    let all = range_of(target.rows);
    let mut load = tree.bulk_loader(&all.start, &all.end, STAMP);
    let (mut from, mut lost_values, mut steps) = (Some(Vec::new()), Vec::new(), 0);
    let budget_bytes = [1_000, 50_000, u64::MAX][work.random.index(3)];
    while let Some(at) = from {
        let into = (&mut load, target.rows);
        let step = tree.merge_runs(&runs[first..end], into, &at, budget_bytes, &|_| false).unwrap();
        lost_values.extend(step.lost_values);
        from = step.next;
        steps += 1;
    }
    assert!(steps == 1 || budget_bytes < u64::MAX);
    let mut merged = Changes::new();
    for (_, rows) in stored.runs[first..end].iter().rev() {
        merged.extend(rows.clone());
    }
    let mut filter = tree.bulk_loader(&range_of(target.filter).start, &range_of(target.filter).end, STAMP);
    for (index, key) in merged.keys().enumerate().step_by(ROWS_PER_SEGMENT) {
        let segment: &[u8] = if index == 0 { &[] } else { key };
        filter.push(&[&target.filter.to_be_bytes(), segment].concat(), &[9; 100]).unwrap();
    }
    let mut parts = Vec::new();
    for run in &runs[first..end] {
        parts.push((run.listed.clone(), Part::Delete { key: run.listed.clone() }));
        for (number, values) in [(run.rows, OldValues::Keep), (run.filter, OldValues::Free)] {
            parts.push((range_of(number).start, Part::Cut { range: range_of(number), values }));
        }
    }
    parts.push((target.listed.clone(), Part::Put { key: target.listed.clone(), value: vec![1; 88] }));
    parts.push((range_of(target.rows).start, Part::Graft { load: Box::new(load), values: OldValues::Free }));
    parts.push((
        range_of(target.filter).start,
        Part::Graft { load: Box::new(filter), values: OldValues::Free },
    ));
    parts.sort_by(|one, other| one.0.cmp(&other.0));
    let plan = tree.swap(parts.into_iter().map(|part| part.1).collect(), &lost_values, STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
    let seen = stored.seen();
    drop(stored.runs.splice(first..end, [(stored.next_run, merged)]));
    stored.next_run += 1;
    assert_eq!(stored.seen(), seen);
}

/// Old snapshots get the values that a window replaces, as those that a merge in place replaces.
#[test]
fn replaced_values_are_handed_over_once_each() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(4, &tree);
    let mut model = Model::new();
    for _ in 0..4 {
        let changes = work.changes(900, 3);
        let mut source = common::Source::new(&changes);
        source.keep = true;
        let merged = tree.merge_window(everything(), &[], Some(&mut source), &|_| false, STAMP).unwrap();
        tree.apply_chunk(merged.chunk, None).unwrap();
        let expected: Vec<_> = changes.keys().map(|key| (key.clone(), model.get(key).cloned())).collect();
        assert_eq!(source.replaced, expected);
        apply_to(&mut model, &changes);
        common::assert_holds(&tree, &model, "after a window");
    }
}

#[test]
fn rows_that_are_to_be_skipped_go_with_their_values() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(5, &tree);
    let mut stored = Stored::default();
    let first = work.changes(1_500, 0);
    merge(&tree, &first, u64::MAX).unwrap();
    apply_to(&mut stored.main, &first);
    for _ in 0..3 {
        let changes = work.changes(500, 2);
        stored.write_run(&tree, changes, STAMP);
    }
    // Those of one table.
    let is_skipped = |key: &[u8]| key[..8] == 1_u64.to_be_bytes();
    let runs = stored.stored_runs();
    let merged = tree.merge_window(everything(), &runs, None, &is_skipped, STAMP).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    let mut left = stored.seen();
    left.retain(|key, _| !is_skipped(key));
    common::assert_holds(&tree, &left, "without a table");
}

/// Leaves have the stamp of what changed among their rows: of a window whose rows are old, all leaves stay old.
#[test]
fn leaves_keep_the_stamps_of_their_rows() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let row =
        |number: u64, byte: u8| ([64_u64.to_be_bytes(), number.to_be_bytes()].concat(), Some(vec![byte; 80]));
    let mut stored = Stored::default();
    let mut load = tree.bulk_loader(&row(0, 0).0, &row(1 << 40, 0).0, Lsn::new(10));
    for number in 0..4_000 {
        load.push(&row(number * 2, 1).0, &[1; 80]).unwrap();
    }
    tree.apply_chunk(load.graft(Lsn::new(10)).unwrap(), None).unwrap();
    stored.write_run(&tree, (2_000..2_100).map(|number| row(number * 2 + 1, 2)).collect(), Lsn::new(20));
    stored.write_run(&tree, [(row(6_000, 0).0, None)].into(), Lsn::new(30));
    let runs = stored.stored_runs();
    let merged = tree.merge_window(everything(), &runs, None, &|_| false, Lsn::new(40)).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    let mut position = tree.leaf_for(&[], Direction::Forward).unwrap();
    let mut stamps = std::collections::BTreeMap::<u64, u64>::new();
    loop {
        let leaf = position.leaf();
        let stamp = position.page().view().lsn().get();
        let has = |from: u64, to: u64| {
            leaf.compare(0, &row(to, 0).0).is_le() && leaf.compare(leaf.len() - 1, &row(from, 0).0).is_ge()
        };
        // The last leaf of the first run may have the stamp of the second, as that begins there.
        let expected = if has(6_000, 6_000) {
            30..=30
        } else if has(4_001, 4_199) {
            20..=30
        } else if has(7_800, 7_998) {
            // So has the last leaf of the tree, where the list of runs begins.
            10..=30
        } else {
            10..=10
        };
        let is_between_leaves = leaf.compare(0, &row(6_000, 0).0).is_gt() && stamp == 30;
        assert!(expected.contains(&stamp) || is_between_leaves, "{stamp}, not {expected:?}");
        *stamps.entry(stamp).or_default() += 1;
        if !tree.move_on(&mut position, Direction::Forward).unwrap() {
            break;
        }
    }
    assert!(stamps[&10] > 80 && stamps[&20] >= 2 && (1..=4).contains(&stamps[&30]), "{stamps:?}");
}

/// A row in the wrong place is found, and nothing is merged.
#[test]
fn a_damaged_leaf_stops_a_window_and_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(2, &tree);
    let mut stored = Stored::default();
    for _ in 0..3 {
        let changes = work.changes(1_500, 1);
        stored.write_run(&tree, changes, STAMP);
    }
    let leaf = tree.leaf_for(&stored_run(1).key(&work.key()), Direction::Forward).unwrap();
    drop(tree);
    let damaged = disk.copy();
    damaged.flip_bit(seawall_tree::PAGE_FILE_PATH, leaf.page().view().id().get() * 4096 + 900, 2);
    let tree = Arc::new(open(&damaged));
    let refused =
        tree.merge_window(everything(), &stored.stored_runs(), None, &|_| false, STAMP).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
    let refused = tree.settle_runs(&everything(), &stored.stored_runs(), 10_000, STAMP).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
}

/// A tree with two runs, some of whose values are long, and what it holds.
fn sample(disk: &SimulatedDisk) -> Stored {
    let tree = Arc::new(create(disk, 4096));
    let mut stored = Stored::default();
    let change = |number: u64, seed: u64| {
        let key = [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
        let bytes = if number % 37 == 5 { 6_000 } else { 100 };
        let value = vec![u8::try_from((number + seed) % 250).unwrap(); bytes];
        (key, (!(number + seed).is_multiple_of(5)).then_some(value))
    };
    let first: Changes = (0..400).map(|number| (change(number, 1).0, Some(vec![3; 150]))).collect();
    merge(&tree, &first, u64::MAX).unwrap();
    apply_to(&mut stored.main, &first);
    stored.write_run(&tree, (0..400).step_by(3).map(|number| change(number, 2)).collect(), STAMP);
    stored.write_run(&tree, (100..500).step_by(4).map(|number| change(number, 3)).collect(), STAMP);
    stored
}

#[test]
fn a_window_is_there_whole_or_not_at_all() {
    let disk = SimulatedDisk::new(5);
    let before = sample(&disk);
    let key = |number: u64| [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
    let range = key(90)..key(260);
    let mut after = before.clone();
    after.merge_window(&range, 0, &Changes::new());
    let step = |disk: &SimulatedDisk| {
        let result = || -> Result<(), TreeError> {
            let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
            let tree = Arc::new(opened.tree);
            let merged = tree.merge_window(range.clone(), &before.stored_runs(), None, &|_| false, STAMP)?;
            tree.apply_chunk(merged.chunk, None)?;
            Ok(())
        };
        drop(result());
    };
    lose_power_everywhere(&disk, step, |disk, is_done, context| {
        let tree = open(&disk);
        let found: Model = before
            .main
            .keys()
            .chain(after.main.keys())
            .filter_map(|key| Some((key.clone(), tree.get(key).unwrap()?)))
            .collect();
        let state = if found == after.main { &after } else { &before };
        assert!(!is_done || found == after.main, "{context}");
        state.assert_stored(&tree, context);
        assert_eq!(state.seen(), before.seen(), "{context}");
    });
}

#[test]
fn runs_that_are_being_settled_lose_nothing_and_the_next_one_goes_on() {
    let disk = SimulatedDisk::new(6);
    let before = sample(&disk);
    let settle = |disk: &SimulatedDisk| -> Result<(), TreeError> {
        let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
        Arc::new(opened.tree).settle_runs(&everything(), &before.stored_runs(), 4096, STAMP)
    };
    let seen = before.seen();
    lose_power_everywhere(
        &disk,
        |disk| drop(settle(disk)),
        |disk, is_done, context| {
            if !is_done {
                settle(&disk).unwrap();
            }
            common::assert_holds(&open(&disk), &seen, context);
        },
    );
}
